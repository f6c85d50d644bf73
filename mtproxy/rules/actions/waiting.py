"""Actions that wait: wait-for-body, wait-for-handshake, do-resolve (manual 4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.rules.tables import Action
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


ACTIONS: tuple[Action, ...] = (
    Action("wait-for-body", frozenset({"http-request", "http-response"}), _parse_body, _build_body),
    # there is no early data to wait for the end of: connections are not encrypted
    Action("wait-for-handshake", frozenset({"http-request"}), _parse_nothing, _build_nothing),
)
