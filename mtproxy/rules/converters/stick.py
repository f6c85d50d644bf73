"""Stick tables: in_table, table_* (manual 7.3.1).

The sample is cast to the type of the table's keys and looked up; nothing is made or touched. As in
HAProxy: a key that the table does not know gives 0 (false), and something that the table does not
store gives no sample.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mtproxy.rules.sticktables import any_key, side_of
from mtproxy.rules.tables import Arg, ArgKind, Converter
from mtproxy.rules.types import Type, Value

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Convert
    from mtproxy.rules.view import View

_TABLE = Arg(ArgKind.TABLE)
_INTEGER = Arg(ArgKind.SINT)

type _Make = Callable[[tuple[Any, ...], Build], Convert]


def _value(name: str, shift: int = 0, *, indexed: bool = False) -> _Make:
    def make(args: tuple[Any, ...], build: Build) -> Convert:
        side = side_of(build, args[-1])
        to_key, find = any_key(side.settings), side.find
        cell = side.layout.cell(name, args[0] if indexed else 0)

        def convert(value: Value, _view: View) -> int | None:
            key = to_key(value)
            if key is None:
                return None
            entry = find(key)
            if entry is None:
                return 0
            return None if cell is None else entry.cells[cell] >> shift

        return convert

    return make


def _rate(name: str, *, indexed: bool = False) -> _Make:
    def make(args: tuple[Any, ...], build: Build) -> Convert:
        side = side_of(build, args[-1])
        to_key, find, rate = any_key(side.settings), side.find, side.rate
        cell = side.layout.cell(name, args[0] if indexed else 0)
        period = 0 if cell is None else side.layout.period(name)

        def convert(value: Value, _view: View) -> int | None:
            key = to_key(value)
            if key is None:
                return None
            entry = find(key)
            if entry is None:
                return 0
            return None if cell is None else rate(entry, cell, period)

        return convert

    return make


def _in_table(args: tuple[Any, ...], build: Build) -> Convert:
    side = side_of(build, args[0])
    to_key, find = any_key(side.settings), side.find

    def convert(value: Value, _view: View) -> bool | None:
        key = to_key(value)
        return None if key is None else find(key) is not None

    return convert


def _trackers(args: tuple[Any, ...], build: Build) -> Convert:
    side = side_of(build, args[0])
    to_key, find = any_key(side.settings), side.find

    def convert(value: Value, _view: View) -> int | None:
        key = to_key(value)
        if key is None:
            return None
        entry = find(key)
        # HAProxy counts the look-up itself
        return 0 if entry is None else entry.cells[0] + 1

    return convert


def _times(*, idle: bool) -> _Make:
    """table_expire, table_idle: ms until the entry expires, or since it was touched."""

    def make(args: tuple[Any, ...], build: Build) -> Convert:
        side = side_of(build, args[0])
        default: int | None = args[1]
        to_key, find = any_key(side.settings), side.find
        expire = side.settings.expire

        def convert(value: Value, _view: View) -> int | None:
            key = to_key(value)
            if key is None:
                return None
            entry = find(key)
            if entry is None:
                return default
            remain = side.remain(entry)
            return max(0, expire - remain) if idle else remain

        return convert

    return make


def _converter(name: str, make: _Make, *, indexed: bool = False) -> Converter:
    args = (_INTEGER, _TABLE) if indexed else (_TABLE,)
    return Converter(name, Type.ANY, Type.SINT, make, args)


_VALUES = (
    "conn_cnt",
    "conn_cur",
    "gpc0",
    "gpc1",
    "gpt0",
    "http_err_cnt",
    "http_fail_cnt",
    "http_req_cnt",
    "server_id",
    "sess_cnt",
)
_RATES = (
    "bytes_in_rate",
    "bytes_out_rate",
    "conn_rate",
    "gpc0_rate",
    "gpc1_rate",
    "http_err_rate",
    "http_fail_rate",
    "http_req_rate",
    "sess_rate",
)

CONVERTERS: tuple[Converter, ...] = (
    Converter("in_table", Type.ANY, Type.BOOL, _in_table, (_TABLE,)),
    *(_converter(f"table_{name}", _value(name)) for name in _VALUES),
    *(_converter(f"table_{name}", _rate(name)) for name in _RATES),
    _converter("table_kbytes_in", _value("bytes_in_cnt", 10)),
    _converter("table_kbytes_out", _value("bytes_out_cnt", 10)),
    _converter("table_gpc", _value("gpc", indexed=True), indexed=True),
    _converter("table_gpt", _value("gpt", indexed=True), indexed=True),
    _converter("table_gpc_rate", _rate("gpc_rate", indexed=True), indexed=True),
    _converter("table_trackers", _trackers),
    *(
        Converter(
            f"table_{name}",
            Type.ANY,
            Type.SINT,
            _times(idle=name == "idle"),
            (_TABLE, Arg(ArgKind.SINT, optional=True)),
        )
        for name in ("expire", "idle")
    ),
)
