"""Actions that end a rule set: accept, allow, reject, close, silent-drop; and those that change how
a connection is understood (manual 4.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.rules.endpoints import expect_header
from mtproxy.rules.tables import Action
from mtproxy.rules.verdict import ACCEPT, CLOSE, CLOSE_SERVER, DROP, SWITCH, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtproxy.rules.build import Build
    from mtproxy.rules.reader import RuleReader
    from mtproxy.rules.tables import Act

_TCP_REQUEST = frozenset({"tcp-request connection", "tcp-request session", "tcp-request content"})
_TCP = _TCP_REQUEST | {"tcp-response content"}
_HTTP = frozenset({"http-request", "http-response"})
_CONTENT = frozenset({"tcp-request content", "tcp-response content"})


def _no_words(_reader: RuleReader) -> None:
    return None


def _always(verdict: Verdict) -> Callable[[object, Build], Act]:
    return lambda _args, _build: lambda _view: verdict


def _layer4(reader: RuleReader) -> None:
    reader.choice(("layer4",), "the word")


def _build_expect_proxy(_args: object, _build: Build) -> Act:
    return expect_header


def _parse_switch(reader: RuleReader) -> None:
    reader.choice(("http",), "the mode")
    if reader.kind == "backend":
        raise reader.error("is only for proxies that have a frontend side")
    if not reader.at_condition():
        reader.choice(("proto",), "expects")
        if reader.choice(("h1", "h2"), "a protocol") == "h2":
            raise reader.error("'proto h2' is known but not supported by mtproxy yet (HTTP/2)")


def _build_switch(_args: object, build: Build) -> Act:
    # what is HTTP already stays so, and the set ends all the same
    verdict = ACCEPT if build.proxy.mode == "http" else SWITCH
    return lambda _view: verdict


ACTIONS: tuple[Action, ...] = (
    Action("accept", _TCP, _no_words, _always(ACCEPT), final=True),
    Action("allow", _HTTP | {"http-after-response"}, _no_words, _always(ACCEPT), final=True),
    Action("reject", _TCP | {"http-request"}, _no_words, _always(CLOSE), final=True),
    Action(
        "close",
        frozenset({"tcp-response content"}),
        _no_words,
        _always(CLOSE_SERVER),
        final=True,
    ),
    Action("silent-drop", _TCP | _HTTP, _no_words, _always(DROP), final=True),
    Action("expect-proxy", frozenset({"tcp-request connection"}), _layer4, _build_expect_proxy),
    Action(
        "expect-netscaler-cip",
        frozenset({"tcp-request connection"}),
        later="the NetScaler protocol",
    ),
    Action("switch-mode", frozenset({"tcp-request content"}), _parse_switch, _build_switch),
    Action("send-spoe-group", _CONTENT | _HTTP, later="SPOE"),
    Action("ot-group", _CONTENT | _HTTP, later="OpenTracing"),
)
