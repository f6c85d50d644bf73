"""Actions that wait: wait-for-body, wait-for-handshake, do-resolve (manual 4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtproxy.base.ruleset import Expression
from mtproxy.rules import variables
from mtproxy.rules.arguments import action_variable
from mtproxy.rules.tables import Action
from mtproxy.rules.types import Type
from mtproxy.rules.verdict import Verdict, Wait

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.reader import RuleReader
    from mtproxy.rules.tables import Act
    from mtproxy.rules.view import View


def _parse_body(reader: RuleReader) -> tuple[bool, int, int]:
    """(of the response, ms, bytes that are enough; 0: all of the body)."""
    time: int | None = None
    at_least = 0
    while not reader.at_condition():
        if reader.choice(("time", "at-least"), "expects") == "time":
            time = reader.time()
        else:
            at_least = reader.size()
    if time is None:
        raise reader.error("expects 'time' and how long to wait at most")
    return reader.point.name == "http-response", time, at_least


def _build_body(args: tuple[bool, int, int], _build: Build) -> Act:
    of_response, time, at_least = args

    async def request(view: View) -> Verdict | None:
        await view.wait_for_request_body(view.ctx.now + time, at_least)
        return None

    async def response(view: View) -> Verdict | None:
        await view.wait_for_response_body(view.ctx.now + time, at_least)
        return None

    wait = Wait(response if of_response else request)
    return lambda _view: wait


def _parse_nothing(_reader: RuleReader) -> None:
    return None


def _build_nothing(_args: None, _build: Build) -> Act:
    return lambda _view: None


# --- do-resolve


class Lookup(NamedTuple):
    """A look-up of what an expression gives, and the variable for the address."""

    variable: str
    resolvers: str
    prefer: str
    name: Expression


def _parse_resolve(reader: RuleReader) -> Lookup:
    words = [word.strip() for word in (reader.argument or "").split(",")]
    if len(words) not in (2, 3) or not all(words):
        raise reader.error("expects a variable, a resolvers section and perhaps 'ipv4' or 'ipv6'")
    if len(words) == 3 and words[2] not in ("ipv4", "ipv6"):
        raise reader.unknown(words[2], ("ipv4", "ipv6"))
    reader.refer("resolvers", words[1], words[1])
    prefer = words[2] if len(words) == 3 else "ipv6"
    return Lookup(action_variable(reader, words[0]), words[1], prefer, reader.expression(Type.STR))


def _build_resolve(args: Lookup, build: Build) -> Act:
    name_of = build.expression(args.name, Type.STR)
    write = variables.writer(args.variable, build)

    async def run(view: View) -> Verdict | None:
        name = name_of(view)
        if name is None:
            return None
        text = name.decode("latin-1")  # type: ignore[union-attr]
        address = await view.look_up(args.resolvers, text, args.prefer)
        if address is not None:
            write(view, address)
        return None

    wait = Wait(run)
    return lambda _view: wait


ACTIONS: tuple[Action, ...] = (
    Action("wait-for-body", frozenset({"http-request", "http-response"}), _parse_body, _build_body),
    Action(
        "do-resolve(",
        frozenset({"http-request", "tcp-request content"}),
        _parse_resolve,
        _build_resolve,
    ),
    # there is no early data to wait for the end of: connections are not encrypted
    Action("wait-for-handshake", frozenset({"http-request"}), _parse_nothing, _build_nothing),
)
