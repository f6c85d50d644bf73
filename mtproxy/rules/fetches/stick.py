"""Stick tables: sc_*, sc0_* to sc2_*, src_*, table_avl, table_cnt (manual 7.3.2, 7.3.3).

Every fetch is of one of three kinds: of what the stream tracks under a number, of the same key in
another table that is named, or of the client's address in a table. `_Where` finds the entry;
`_OPERATIONS` say what is read or done there. As in HAProxy: nothing tracked, or something that the
table does not store, gives no sample; a key that the table does not know gives 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from mtproxy.base.ruleset import Call, Expression
from mtproxy.base.sticktable import COUNTERS
from mtproxy.rules.expression import build_expression
from mtproxy.rules.points import Need
from mtproxy.rules.sticktables import Entry, Key, Side, any_key, side_of
from mtproxy.rules.tables import Arg, ArgKind, Fetch
from mtproxy.rules.types import Type

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.sticktables import Tracked
    from mtproxy.rules.tables import Evaluate
    from mtproxy.rules.view import View

#: the table and the entry of a stream, the latter None where the table does not know the key;
#: None where there is no key
type _Where = Callable[[View], tuple[Side, Entry | None] | None]
#: makes a fetch of a place; `hold` gives the entry to be changed, made if needed
type _Make = Callable[[_Where, _Where, int], Evaluate]
#: the value of an entry's cell, whose period (ms) is given as well
type _Get = Callable[[Side, Entry, int, int], int | None]
#: what `_Make` makes, of what is tracked under a number, written for speed
type _MakeTracked = Callable[[int], Evaluate]

_ABSENT = (-1, 0)
#: the client's address
_SOURCE = Expression("src", Call("src"), type=Type.ADDR)


# --- where


def _find_tracked(counter: int) -> _Where:
    if counter >= COUNTERS:
        return lambda _view: None

    def where(view: View) -> tuple[Side, Entry | None] | None:
        tracking = view.tracking
        if tracking is None:
            return None
        found: Tracked | None = tracking.stream[counter] or tracking.session[counter]
        return None if found is None else found[:2]

    return where


def _find_elsewhere(counter: int, side: Side) -> _Where:
    """The tracked key in another table."""
    tracked = _find_tracked(counter)
    kind, length = side.settings.type, side.settings.len

    def where(view: View) -> tuple[Side, Entry | None] | None:
        found = tracked(view)
        if found is None:
            return None
        entry = found[1]
        assert entry is not None
        if found[0].settings.type != kind:
            return side, None
        key = entry.key
        if isinstance(key, bytes):
            key = key[:length]
            if kind == "binary":
                key = key.ljust(length, b"\0")
        return side, side.find(key)

    return where


def _source_key(side: Side, build: Build) -> Callable[[View], Key | None]:
    to_key = any_key(side.settings)
    fetch = build_expression(_SOURCE, build)

    def key(view: View) -> Key | None:
        value = fetch(view)
        return None if value is None else to_key(value)

    return key


def _find_source(side: Side, build: Build) -> _Where:
    key_of_source = _source_key(side, build)

    def where(view: View) -> tuple[Side, Entry | None] | None:
        key = key_of_source(view)
        return None if key is None else (side, side.find(key))

    return where


def _hold_source(side: Side, build: Build) -> _Where:
    """The entry of the client's address, in use until it is released; None if there is no room."""
    key_of_source = _source_key(side, build)

    def where(view: View) -> tuple[Side, Entry | None] | None:
        key = key_of_source(view)
        return None if key is None else (side, side.hold(key))

    return where


# --- what


def _cell_of(name: str, index: int) -> Callable[[Side], tuple[int, int]]:
    """Where each table has a data type: cell (-1: nowhere) and period. Remembered per table."""
    known: dict[Side, tuple[int, int]] = {}

    def find(side: Side) -> tuple[int, int]:
        place = known.get(side)
        if place is None:
            cell = side.layout.cell(name, index)
            place = _ABSENT
            if cell is not None:
                place = (cell, side.layout.period(name) if name.endswith("_rate") else 0)
            known[side] = place
        return place

    return find


def _read(name: str, get: _Get) -> _Make:
    """Reads a cell: 0 where nobody has come yet, nothing where the table does not store it."""

    def make(where: _Where, _hold: _Where, index: int) -> Evaluate:
        cell_of = _cell_of(name, index)

        def fetch(view: View) -> int | None:
            found = where(view)
            if found is None:
                return None
            side, entry = found
            if entry is None:
                return 0
            cell, period = cell_of(side)
            return None if cell < 0 else get(side, entry, cell, period)

        return fetch

    return make


def _value(name: str, shift: int = 0) -> _Make:
    return _read(name, lambda _side, entry, cell, _period: int(entry.cells[cell]) >> shift)


def _rate(name: str) -> _Make:
    return _read(name, lambda side, entry, cell, period: side.rate(entry, cell, period))


def _tracked_value(name: str, shift: int = 0) -> _MakeTracked:
    def make(counter: int) -> Evaluate:
        cell_of = _cell_of(name, 0)

        def fetch(view: View) -> int | None:
            tracking = view.tracking
            if tracking is None:
                return None
            found = tracking.stream[counter] or tracking.session[counter]
            if found is None:
                return None
            cell = cell_of(found[0])[0]
            if cell < 0:
                return None
            number: int = found[1].cells[cell]
            return number >> shift

        return fetch

    return make


def _tracked_rate(name: str) -> _MakeTracked:
    def make(counter: int) -> Evaluate:
        cell_of = _cell_of(name, 0)

        def fetch(view: View) -> int | None:
            tracking = view.tracking
            if tracking is None:
                return None
            found = tracking.stream[counter] or tracking.session[counter]
            if found is None:
                return None
            side = found[0]
            cell, period = cell_of(side)
            return None if cell < 0 else side.rate(found[1], cell, period)

        return fetch

    return make


def _change(act_of: Callable[[int], Callable[[Side, Entry], int | None]]) -> _Make:
    """Changes an entry, which is made where there is none. `act_of` gets the element's index."""

    def make(where: _Where, hold: _Where, index: int) -> Evaluate:
        act = act_of(index)

        def fetch(view: View) -> int | None:
            found = hold(view)
            if found is None:
                return None
            side, entry = found
            if entry is None:
                return 0
            result = act(side, entry)
            if hold is not where:
                side.release(entry)
            return result

        return fetch

    return make


def _increment(name: str) -> _Make:
    return _change(lambda index: lambda side, entry: side.bump(entry, side.event(name, index)))


def _clear(name: str) -> _Make:
    def act_of(index: int) -> Callable[[Side, Entry], int | None]:
        cell_of = _cell_of(name, index)

        def clear(side: Side, entry: Entry) -> int | None:
            cell = cell_of(side)[0]
            return None if cell < 0 else side.exchange(entry, cell, 0)

        return clear

    return _change(act_of)


def _is_tracked(where: _Where, _hold: _Where, _index: int) -> Evaluate:
    return lambda view: where(view) is not None


def _trackers(where: _Where, _hold: _Where, _index: int) -> Evaluate:
    def fetch(view: View) -> int | None:
        found = where(view)
        if found is None:
            return None
        return 0 if found[1] is None else int(found[1].cells[0])

    return fetch


_OPERATIONS: dict[str, _Make] = {
    "bytes_in_rate": _rate("bytes_in_rate"),
    "bytes_out_rate": _rate("bytes_out_rate"),
    "clr_gpc0": _clear("gpc0"),
    "clr_gpc1": _clear("gpc1"),
    "conn_cnt": _value("conn_cnt"),
    "conn_cur": _value("conn_cur"),
    "conn_rate": _rate("conn_rate"),
    "get_gpc0": _value("gpc0"),
    "get_gpc1": _value("gpc1"),
    "get_gpt0": _value("gpt0"),
    "gpc0_rate": _rate("gpc0_rate"),
    "gpc1_rate": _rate("gpc1_rate"),
    "http_err_cnt": _value("http_err_cnt"),
    "http_err_rate": _rate("http_err_rate"),
    "http_fail_cnt": _value("http_fail_cnt"),
    "http_fail_rate": _rate("http_fail_rate"),
    "http_req_cnt": _value("http_req_cnt"),
    "http_req_rate": _rate("http_req_rate"),
    "inc_gpc0": _increment("gpc0"),
    "inc_gpc1": _increment("gpc1"),
    "kbytes_in": _value("bytes_in_cnt", 10),
    "kbytes_out": _value("bytes_out_cnt", 10),
    "sess_cnt": _value("sess_cnt"),
    "sess_rate": _rate("sess_rate"),
}
#: those that rules ask for with every request
_FAST: dict[str, _MakeTracked] = {
    "conn_cur": _tracked_value("conn_cur"),
    "conn_rate": _tracked_rate("conn_rate"),
    "get_gpc0": _tracked_value("gpc0"),
    "gpc0_rate": _tracked_rate("gpc0_rate"),
    "http_err_rate": _tracked_rate("http_err_rate"),
    "http_req_cnt": _tracked_value("http_req_cnt"),
    "http_req_rate": _tracked_rate("http_req_rate"),
}
#: with the index of an array's element before everything else
_INDEXED: dict[str, _Make] = {
    "clr_gpc": _clear("gpc"),
    "get_gpc": _value("gpc"),
    "get_gpt": _value("gpt"),
    "gpc_rate": _rate("gpc_rate"),
    "inc_gpc": _increment("gpc"),
}
#: of tracked keys alone
_TRACKED: dict[str, _Make] = {"tracked": _is_tracked, "trackers": _trackers}

_INTEGER = Arg(ArgKind.SINT)
_TABLE = Arg(ArgKind.TABLE)
_TABLE_OR_NOT = Arg(ArgKind.TABLE, optional=True)


def _of_tracked(
    make: _Make, counter: int | None, *, indexed: bool, fast: _MakeTracked | None = None
) -> Callable[..., Evaluate]:
    """A fetch of sc_ (`counter` None: an argument says it), or of sc0_ to sc2_."""

    def make_one(args: tuple[Any, ...], build: Build) -> Evaluate:
        rest = list(args)
        index = rest.pop(0) if indexed else 0
        number = rest.pop(0) if counter is None else counter
        if number < 0:
            return lambda _view: None
        table = rest.pop(0)
        if table is None:
            if fast is not None and number < COUNTERS:
                return fast(number)
            where = _find_tracked(number)
        else:
            where = _find_elsewhere(number, side_of(build, table))
        return make(where, where, index)

    return make_one


def _of_source(make: _Make, *, indexed: bool) -> Callable[..., Evaluate]:
    def make_one(args: tuple[Any, ...], build: Build) -> Evaluate:
        index = args[0] if indexed else 0
        side = side_of(build, args[-1])
        return make(_find_source(side, build), _hold_source(side, build), index)

    return make_one


def _update_connections(args: tuple[Any, ...], build: Build) -> Evaluate:
    """src_updt_conn_cnt: count a connection of the client's address; how many there were."""
    side = side_of(build, args[0])
    hold = _hold_source(side, build)
    event = side.layout.event("conn_cnt")

    def fetch(view: View) -> int | None:
        found = hold(view)
        if found is None or found[1] is None:
            return None
        result = side.bump(found[1], event) if event else None
        side.release(found[1])
        return result

    return fetch


def _count(args: tuple[Any, ...], build: Build) -> Evaluate:
    table = side_of(build, args[0]).table
    return lambda _view: int(table.used)


def _available(args: tuple[Any, ...], build: Build) -> Evaluate:
    table = side_of(build, args[0]).table
    return lambda _view: int(table.settings.size - table.used)


def _fetches() -> tuple[Fetch, ...]:
    found = []
    kinds = [(_OPERATIONS, False), (_INDEXED, True), (_TRACKED, False)]
    for operations, indexed in kinds:
        for name, make in operations.items():
            out = Type.BOOL if name == "tracked" else Type.SINT
            need = Need.CLIENT if name.startswith("kbytes") else Need.RUNNING
            first = (_INTEGER,) if indexed else ()
            fast = _FAST.get(name)
            of = partial(_of_tracked, make, indexed=indexed, fast=fast)
            any_counter = (*first, _INTEGER, _TABLE_OR_NOT)
            found.append(Fetch(f"sc_{name}", out, need, make=of(None), args=any_counter))
            if not indexed:
                found += [
                    Fetch(f"sc{n}_{name}", out, need, make=of(n), args=(_TABLE_OR_NOT,))
                    for n in range(COUNTERS)
                ]
            if operations is not _TRACKED:
                source = _of_source(make, indexed=indexed)
                args = (*first, _TABLE)
                found.append(Fetch(f"src_{name}", Type.SINT, Need.CLIENT, make=source, args=args))
    return tuple(found)


FETCHES: tuple[Fetch, ...] = (
    *_fetches(),
    # HAProxy has this one form of an array's fetches for a fixed counter
    Fetch(
        "sc1_clr_gpc", Type.SINT, Need.RUNNING, make=_of_tracked(_clear("gpc"), 1, indexed=True),
        args=(_INTEGER, _TABLE_OR_NOT),
    ),
    Fetch(
        "src_updt_conn_cnt", Type.SINT, Need.CLIENT, make=_update_connections, args=(_TABLE,)
    ),
    Fetch("table_avl", Type.SINT, Need.RUNNING, make=_available, args=(_TABLE,)),
    Fetch("table_cnt", Type.SINT, Need.RUNNING, make=_count, args=(_TABLE,)),
)  # fmt: skip
