"""Answers made here: return, deny, tarpit, auth (manual 4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.rules.reply import BuiltIn
from mtproxy.rules.tables import Action
from mtproxy.rules.verdict import Answer

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.reader import RuleReader
    from mtproxy.rules.tables import Act


def _parse_deny(reader: RuleReader) -> int:
    status = 403
    if reader.peek() in ("deny_status", "status"):
        reader.next()
        status = reader.integer(200, 599)
    return status


def _build_deny(status: int, _build: Build) -> Act:
    answer = Answer(BuiltIn(status), denied=True)
    return lambda _view: answer


ACTIONS: tuple[Action, ...] = (
    Action(
        "deny", frozenset({"http-request", "http-response"}), _parse_deny, _build_deny, final=True
    ),
)
