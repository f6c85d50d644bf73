"""The capture action (manual 4.2: http-request capture, tcp-request content capture)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtproxy.base.ruleset import Capture, Expression
from mtproxy.rules.keeping import fill
from mtproxy.rules.tables import Action
from mtproxy.rules.types import Type
from mtproxy.rules.verdict import MISSING, Verdict

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.reader import RuleReader
    from mtproxy.rules.tables import Act
    from mtproxy.rules.view import View

_REQUEST = frozenset({"http-request", "tcp-request content"})
_RESPONSE = frozenset({"http-response", "http-after-response"})


class Take(NamedTuple):
    """An expression and the slot that it goes to."""

    expression: Expression
    slot: int
    response: bool
    #: for bytes that have not come yet
    waits: bool = False


def _parse(reader: RuleReader) -> Take:
    expression = reader.expression(Type.STR)
    response = reader.point.name in _RESPONSE
    only_len = reader.point.name == "tcp-request content"
    if reader.at_condition():
        expected = "a positive 'len' argument" if only_len or not response else "'id'"
        raise reader.error(f"expects {expected} behind the expression")
    # responses know no slots of their own: they have to be declared
    word = reader.choice(("id",) if response else ("len",) if only_len else ("len", "id"))
    if word == "id":
        slot = reader.integer(0)
        _check_slot(reader, slot, response=response)
        return Take(expression, slot, response)
    if reader.kind == "backend":
        raise reader.error(f"proxy '{reader.proxy}' has no frontend capability", word)
    length = reader.integer(1)
    captures = getattr(reader.draft, "request_captures", None)
    if captures is None:
        raise reader.error("slots for captures exist in frontends alone", word)
    captures.append(Capture(b"", length))
    return Take(expression, len(captures) - 1, response, only_len)


def _check_slot(reader: RuleReader, slot: int, *, response: bool) -> None:
    """A frontend's own slots are known when everything has been read."""
    if reader.kind != "backend":
        kind = "response capture" if response else "request capture"
        reader.refer(kind, str(slot), f"capture id {slot}")


def _build(take: Take, build: Build) -> Act:
    value_of = build.expression(take.expression, Type.STR)
    slot, response = take.slot, take.response
    if take.waits:

        def capture_content(view: View) -> Verdict | None:
            view.may_change = False
            value = value_of(view)
            if value is not None:
                fill(view, slot, value, response=response)  # type: ignore[arg-type]
            elif view.may_change and not view.txn.payload_final:
                return MISSING
            return None

        return capture_content

    def capture(view: View) -> None:
        value = value_of(view)
        if value is not None:
            fill(view, slot, value, response=response)  # type: ignore[arg-type]

    return capture


ACTIONS: tuple[Action, ...] = (Action("capture", _REQUEST | _RESPONSE, _parse, _build),)
