"""Stick tables: track-sc*, sc-inc-gpc*, sc-add-gpc, sc-set-gpt* (manual 4.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mtproxy.base.ruleset import Expression
from mtproxy.base.sticktable import COUNTERS, Track
from mtproxy.base.units import UnitError, parse_integer
from mtproxy.rules.sticktables import SAMPLE_TYPES, Tracked, Tracking, any_key, key_of, side_of
from mtproxy.rules.tables import Action
from mtproxy.rules.types import Ip4, Ip6, Type
from mtproxy.rules.verdict import MISSING

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.reader import RuleReader
    from mtproxy.rules.sticktables import Side
    from mtproxy.rules.tables import Act, Evaluate
    from mtproxy.rules.verdict import Verdict
    from mtproxy.rules.view import View

_SESSION = frozenset({"tcp-request connection", "tcp-request session"})
_REQUEST = _SESSION | {"tcp-request content", "http-request"}
_TRACK = _REQUEST | {"http-response"}
_ALL = _TRACK | {"tcp-response content"}


def tracked(view: View, counter: int, *, session: bool = False) -> Tracked | None:
    """What the stream tracks under a number; with `session`, what its session alone does."""
    tracking = view.tracking
    if tracking is None:
        return None
    # a stream begins with what its session tracks
    found: Tracked | None = tracking.session[counter]
    return found if session else tracking.stream[counter] or found


# --- track-sc


def _parse_track(counter: int) -> Callable[[RuleReader], tuple[str, Track]]:
    def parse(reader: RuleReader) -> tuple[str, Track]:
        expression = reader.expression()
        table = ""
        if reader.peek() == "table":
            reader.next()
            table = reader.value("the name of a table")
        reader.refer("table", table, table or f"track-sc{counter}")
        return reader.point.name, Track(counter, expression, table)

    return parse


def _build_track(args: tuple[str, Track], build: Build) -> Act:
    point, track = args
    side = side_of(build, track.table)
    settings = side.settings
    kind = SAMPLE_TYPES[settings.type]
    value = build.expression(track.expression, kind)
    backend = build.proxy.kind == "backend"
    if point in _SESSION:
        return _track_session(track.counter, side, value, key_of(settings))
    event = side.start + side.request
    if point == "http-response":
        return _track_response(track.counter, side, value, key_of(settings))
    if point == "tcp-request content":
        waits = build.proxy.mode == "tcp"
        to_any = key_of(settings)
        return _track_content(track.counter, side, value, to_any, backend=backend, waits=waits)
    number = track.counter
    start = side.track
    # Written for speed: a sample that is of the right type already, as addresses mostly are, is not
    # cast, and an address is the key itself.
    raw = build.expression(track.expression)
    as_is = {Type.IPV4: Ip4, Type.IPV6: Ip6}.get(kind)
    cast = any_key(settings)

    def act(view: View) -> None:
        tracking = view.tracking
        if tracking is None:
            tracking = view.tracking = Tracking()
        stream = tracking.stream
        if stream[number] is not None:
            return
        key = raw(view)
        if type(key) is not as_is:
            key = None if key is None else cast(key)
        if key is not None:
            entry = start(key, event)
            if entry is not None:
                stream[number] = (side, entry, backend)

    return act


def _track_content(
    number: int,
    side: Side,
    value: Evaluate,
    to_key: Callable[..., int | bytes],
    *,
    backend: bool,
    waits: bool,
) -> Act:
    """`tcp-request content`: `waits` for a key that may still come."""

    def act(view: View) -> Verdict | None:
        tracking = view.tracking
        if tracking is None:
            tracking = view.tracking = Tracking()
        if tracking.stream[number] is not None:
            return None
        view.may_change = False
        key = value(view)
        if waits and view.may_change and not view.txn.payload_final:
            return MISSING
        if key is not None:
            entry = side.track(to_key(key), side.start)
            if entry is not None:
                tracking.stream[number] = (side, entry, backend)
        return None

    return act


def _track_session(
    number: int, side: Side, value: Evaluate, to_key: Callable[..., int | bytes]
) -> Act:
    def act(view: View) -> None:
        tracking = view.tracking
        if tracking is None:
            tracking = view.tracking = Tracking()
        if tracking.session[number] is not None:
            return
        key = value(view)
        if key is not None:
            entry = side.track(to_key(key), side.start)
            if entry is not None:
                tracking.session[number] = (side, entry, False)

    return act


def _track_response(
    number: int, side: Side, value: Evaluate, to_key: Callable[..., int | bytes]
) -> Act:
    """`http-response`: the status, which has been counted for what was tracked so far, counts."""
    good = side.start + side.request
    error, fail = good + side.error, good + side.fail

    def act(view: View) -> None:
        tracking = view.tracking
        if tracking is None:
            tracking = view.tracking = Tracking()
        if tracking.stream[number] is not None:
            return
        key = value(view)
        if key is None:
            return
        status = view.status
        event = good
        if 400 <= status < 500:
            event = error
        elif 500 <= status < 600 and status not in (501, 505):
            event = fail
        entry = side.track(to_key(key), event)
        if entry is not None:
            tracking.stream[number] = (side, entry, False)

    return act


# --- counters and tags


def _numbers(reader: RuleReader, what: str, *, indexed: bool) -> tuple[int, int]:
    """The index and the counter in the parentheses of the action's word."""
    words = [] if reader.argument is None else reader.argument.split(",")
    form = f"{what}(<index>,<track id>)" if indexed else f"{what}(<track id>)"
    if len(words) != (2 if indexed else 1) and not (not indexed and not words):
        raise reader.error(f"expects {form}", reader.argument)
    try:
        numbers = [parse_integer(word.strip(), 0) for word in words]
    except UnitError:
        raise reader.error(f"expects {form}, with numbers", reader.argument) from None
    counter = numbers[-1] if numbers else 0
    if counter >= COUNTERS:
        raise reader.error(
            f"invalid stick table track ID '{counter}'. The max allowed ID is {COUNTERS - 1}",
            reader.argument,
        )
    return (numbers[0] if indexed else 0), counter


def _parse_increment(name: str) -> Callable[[RuleReader], tuple[bool, int, int]]:
    def parse(reader: RuleReader) -> tuple[bool, int, int]:
        index, counter = _numbers(reader, f"sc-inc-{name}", indexed=name == "gpc")
        return reader.point.name in _SESSION, index, counter

    return parse


def _build_increment(name: str) -> Callable[[tuple[bool, int, int], Build], Act]:
    def build_one(args: tuple[bool, int, int], _build: Build) -> Act:
        session, index, counter = args

        def act(view: View) -> None:
            found = tracked(view, counter, session=session)
            if found is not None:
                found[0].add(found[1], found[0].event(name, index))

        return act

    return build_one


type _Number = int | Expression


def _number(reader: RuleReader) -> _Number:
    """A number, or an expression that gives one."""
    try:
        number = parse_integer(reader.peek())
    except UnitError:
        return reader.expression(Type.SINT)
    reader.next()
    return number


def _evaluate(number: _Number, build: Build) -> Evaluate:
    if isinstance(number, Expression):
        return build.expression(number, Type.SINT)
    return lambda _view: number


def _parse_set(name: str) -> Callable[[RuleReader], tuple[bool, int, int, _Number]]:
    def parse(reader: RuleReader) -> tuple[bool, int, int, _Number]:
        index, counter = _numbers(reader, f"sc-set-{name}", indexed=name == "gpt")
        if reader.at_condition():
            raise reader.error("expects a number or an expression")
        return reader.point.name in _SESSION, index, counter, _number(reader)

    return parse


def _build_set(name: str) -> Callable[[tuple[bool, int, int, _Number], Build], Act]:
    def build_one(args: tuple[bool, int, int, _Number], build: Build) -> Act:
        session, index, counter, number = args
        value = _evaluate(number, build)

        def act(view: View) -> None:
            found = tracked(view, counter, session=session)
            if found is None:
                return
            cell = found[0].layout.cell(name, index)
            if cell is not None:
                given = value(view)
                if given is not None:
                    found[0].exchange(found[1], cell, given)  # type: ignore[arg-type]

        return act

    return build_one


def _parse_add(reader: RuleReader) -> tuple[bool, int, int, _Number]:
    index, counter = _numbers(reader, "sc-add-gpc", indexed=True)
    if reader.at_condition():
        raise reader.error("expects a number or an expression")
    return reader.point.name in _SESSION, index, counter, _number(reader)


def _build_add(args: tuple[bool, int, int, _Number], build: Build) -> Act:
    session, index, counter, number = args
    value = _evaluate(number, build)

    def act(view: View) -> None:
        found = tracked(view, counter, session=session)
        if found is not None:
            given = value(view)
            if given is not None:
                found[0].add(found[1], found[0].event("gpc", index), given)  # type: ignore[arg-type]

    return act


ACTIONS: tuple[Action, ...] = (
    *(
        Action(f"track-sc{number}", _TRACK, _parse_track(number), _build_track)
        for number in range(COUNTERS)
    ),
    Action("sc-inc-gpc(", _ALL, _parse_increment("gpc"), _build_increment("gpc")),
    *(
        Action(f"sc-inc-{name}{end}", _ALL, _parse_increment(name), _build_increment(name))
        for name in ("gpc0", "gpc1")
        for end in ("", "(")
    ),
    Action("sc-add-gpc(", _ALL, _parse_add, _build_add),
    Action("sc-set-gpt(", _ALL, _parse_set("gpt"), _build_set("gpt")),
    *(
        Action(f"sc-set-gpt0{end}", _ALL, _parse_set("gpt0"), _build_set("gpt0"))
        for end in ("", "(")
    ),
)
