"""A proxy's rules built by one thread, and a stream of which they see the heads alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mtproxy.base.settings import Settings
from mtproxy.config.load import load
from mtproxy.http.cache import HeadCache
from mtproxy.http.h1_request import RequestHead, parse_request_head
from mtproxy.http.h1_response import ResponseHead, parse_response_head
from mtproxy.rules.build import Build, BuiltRule, RuleShared
from mtproxy.rules.reply import build_errors
from mtproxy.rules.transaction import Transaction
from mtproxy.rules.verdict import Verdict


def request_head(data: bytes) -> RequestHead:
    """A request head whose lines end with LF here."""
    return parse_request_head(data.replace(b"\n", b"\r\n") + b"\r\n\r\n", HeadCache())


def response_head(data: bytes, method: bytes = b"GET") -> ResponseHead:
    """A response head whose lines end with LF here."""
    return parse_response_head(data.replace(b"\n", b"\r\n") + b"\r\n\r\n", method, HeadCache())


class FakeView:
    """A stream as far as these rules look at one."""

    def __init__(self, errors: dict[int, Any]) -> None:
        self.txn = Transaction()
        self.request: RequestHead | None = None
        self.response: ResponseHead | None = None
        self.status = -1
        self.be = self.srv = None
        self.fe = SimpleNamespace(
            counters=SimpleNamespace(failed_rewrites=0),
            errors=errors,
            settings=SimpleNamespace(options=frozenset()),
        )
        self.listener = SimpleNamespace(counters=None)

    def run(self, rules: Sequence[BuiltRule]) -> Verdict | None:
        """The first verdict of a rule set; conditions are none of these tests' business."""
        for rule in rules:
            verdict = rule.act(self)  # type: ignore[arg-type]
            if verdict is not None:
                return verdict
        return None

    def sent(self) -> bytes:
        """The head as it would leave, with LF."""
        head = self.request if self.response is None else self.response
        assert head is not None
        head.seal()
        return head.message.replace(b"\r\n", b"\n").rstrip(b"\n")


class Rules:
    """The rule sets of a frontend."""

    def __init__(self, settings: Settings) -> None:
        proxy = settings.proxies[0]
        self.settings = settings
        self.build = Build(RuleShared(settings), proxy, None, None)
        self.errors = build_errors(proxy.errors, self.build)
        self.proxy = proxy

    def set(self, name: str) -> tuple[BuiltRule, ...]:
        return self.build.rules(self.proxy.rules, name)

    def request(self, head: bytes) -> tuple[FakeView, Verdict | None]:
        """Run http-request on a request."""
        view = FakeView(self.errors)
        view.request = request_head(head)
        return view, view.run(self.set("http-request"))

    def response(self, head: bytes) -> tuple[FakeView, Verdict | None]:
        """Run http-response on a response to a GET."""
        view = FakeView(self.errors)
        view.request = request_head(b"GET / HTTP/1.1\nhost: x")
        view.response = response_head(head)
        return view, view.run(self.set("http-response"))


type Load = Callable[..., tuple[Rules | None, str]]


@pytest.fixture
def loaded(tmp_path: Path) -> Load:
    """`loaded(lines, before="", tune="")`: the rules of a frontend with these lines, and what was
    said while they were read.
    """

    def load_lines(lines: str, before: str = "", tune: str = "") -> tuple[Rules | None, str]:
        path = tmp_path / "case.cfg"
        path.write_text(
            f"global\n expose-experimental-directives\n{tune}\n{before}\nfrontend f\n mode http\n"
            f" bind 127.0.0.1:1\n timeout client 1s\n{lines}\n"
        )
        settings, diagnostics = load([str(path)], environ={})
        said = "\n".join(item.message for item in diagnostics)
        return None if settings is None else Rules(settings), said

    return load_lines


@pytest.fixture
def rules(loaded: Load) -> Callable[..., Rules]:
    """The same where it has to be right."""

    def good(lines: str, before: str = "", tune: str = "") -> Rules:
        found, said = loaded(lines, before, tune)
        assert found is not None, said
        return found

    return good
