"""Runtime commands about stick tables: show, set and clear table. Exports COMMANDS.

Formats, filters and messages are HAProxy's. Entries come in the order of their keys' bytes. A dump
takes one shard's lock at a time for as long as it takes to list the shard's entries, and again for
each entry's data; between shards of large tables other tasks of the thread get a turn.
"""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import merge
from typing import Final

from mtproxy.base.sticktable import ALIASES, BY_NAME, Kind
from mtproxy.cli.runtime import Answer, CliError, CliSession, Command, Level, Pause
from mtproxy.proxy.sticktable import Entry, Key, StickTable
from mtproxy.proxy.sticktable_layout import EXPIRE, MASK32, MASK63, USES, Cells, rate
from mtproxy.rules.types import Ip4, Ip6, ip_text, parse_ip

#: tests that a filter may have at most
_FILTERS: Final = 4
#: entries of a table from which on a dump gives way to others between shards
_LARGE = 20_000

_OPERATORS: Final[dict[str, Callable[[int, int], bool]]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "le": operator.le,
    "ge": operator.ge,
    "lt": operator.lt,
    "gt": operator.gt,
}
_ESCAPED: Final = {
    ord("\t"): "\\t",
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    0x1B: "\\e",
    ord("\\"): "\\\\",
    ord(" "): "\\ ",
    ord("="): "\\=",
}
_NUMBER: Final = re.compile(r"-?[0-9]+")
_C_NUMBER: Final = re.compile(r"\s*\+?([0-9]+)")
_USAGE: Final = {
    "show": 'Optional argument only supports "data.<store_data_type>" <operator> <value> and key'
    " <key>",
    "clear": 'Required arguments: <table> "data.<store_data_type>" <operator> <value> or <table>'
    " key <key>",
    "set": "Required arguments: <table> key <key> [data.<store_data_type> <value>]*",
}
_DOING: Final = {
    "show": "Showing keys from",
    "clear": "Removing keys from",
    "set": "Inserting keys into",
}


@dataclass(frozen=True, slots=True)
class _Filter:
    """`data.NAME OPERATOR VALUE`."""

    name: str
    holds: Callable[[int, int], bool]
    value: int


# --- reading the command


def _table(cli: CliSession, name: str) -> StickTable:
    table = cli.runtime.tables.get(name)
    if table is None:
        raise CliError("No such table")
    return table


def _key(table: StickTable, action: str, text: str) -> Key:
    """The key that a command names, as the table has it."""
    match table.settings.type:
        case "ip" | "ipv6":
            address = parse_ip(text)
            if type(address) is (Ip4 if table.settings.type == "ip" else Ip6):
                return int(address)
        case "integer":
            found = _C_NUMBER.match(text)
            if found is not None and len(found[1]) <= 20 and int(found[1]) <= MASK32:
                return int(found[1])
        case "string":
            return text.encode("utf-8", "surrogateescape")[: table.settings.len]
        case _:
            raise CliError(
                f"{_DOING[action]} tables of type other than ip, ipv6, string and integer is not"
                " supported"
            )
    raise CliError("Invalid key")


def _integer(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) and len(text) <= 20 else None


def _filters(table: StickTable, words: list[str]) -> list[_Filter]:
    found = []
    for number in range(_FILTERS):
        start = number * 3
        if start >= len(words):
            break
        words_left = [*words[start:], "", "", ""]
        title = f"Filter entry #{number + 1}:"
        name = words_left[0].removeprefix("data.")
        name = ALIASES.get(name, name)
        if name not in BY_NAME or not words_left[0].startswith("data."):
            raise CliError(f"{title} Unknown data type")
        if name not in table.layout.cells:
            raise CliError(f"{title} Data type not stored in this table")
        holds = _OPERATORS.get(words_left[1])
        if holds is None:
            raise CliError(f'{title} Require and operator among "eq", "ne", "le", "ge", "lt", "gt"')
        value = _integer(words_left[2])
        if value is None:
            raise CliError(f"{title} Require a valid integer value to compare against")
        found.append(_Filter(name, holds, value))
    extra = words[3 * _FILTERS :]
    if extra:
        raise CliError(
            f"Detected extra data in filter, {3 + 3 * _FILTERS + 1}th word of input, after"
            f" '{words[3 * _FILTERS - 1]}'"
        )
    return found


# --- what is shown


def _head(table: StickTable) -> str:
    settings = table.settings
    return (
        f"# table: {table.name}, type: {settings.type}, size:{settings.size}, used:{table.used}\n"
    )


def _key_text(table: StickTable, key: Key) -> str:
    match table.settings.type:
        case "ip":
            return ip_text(Ip4(key)).decode()
        case "ipv6":
            return ip_text(Ip6(key)).decode()
        case "string":
            assert isinstance(key, bytes)
            return "".join(map(_character, key.partition(b"\0")[0]))
        case "binary":
            assert isinstance(key, bytes)
            return key.hex().upper()
    return str(key)


def _character(code: int) -> str:
    if code in _ESCAPED:
        return _ESCAPED[code]
    return chr(code) if 32 < code < 127 else f"\\x{code:02X}"


def _line(table: StickTable, entry: Entry, cells: Cells, now: int) -> str:
    parts = [
        f"{id(entry):#x}: key={_key_text(table, entry.key)} use={cells[USES]}"
        f" exp={max(0, cells[EXPIRE] - now)}"
    ]
    layout = table.layout
    for one in layout.stored:
        kind = BY_NAME[one.name].kind
        array = BY_NAME[one.name].array
        period = f"({one.period})" if kind is Kind.RATE else ""
        for index in range(one.count):
            name = one.name
            if array:
                stem, underscore, end = name.partition("_")
                name = f"{stem}{index}{underscore}{end}"
            if kind is Kind.NAME:
                parts.append(f"{name}={entry.server_key or '-'}")
                continue
            cell = layout.cell(one.name, index)
            assert cell is not None
            value = rate(cells, cell, one.period, now) if period else cells[cell]
            parts.append(f"{name}{period}={value}")
    return " ".join(parts) + "\n"


def _order(table: StickTable) -> Callable[[Entry], int | bytes]:
    if table.settings.type == "integer":
        # the bytes of a number as HAProxy has it in memory
        return lambda entry: int(entry.key).to_bytes(4, sys.byteorder)
    return lambda entry: entry.key


def _each(cli: CliSession, table: StickTable) -> Iterator[Entry | Pause]:
    """The entries in order; pauses in which others run."""
    order = _order(table)
    large = table.used > _LARGE
    parts = []
    for entries in table.entries(cli.ctx.tid):
        entries.sort(key=order)
        parts.append(entries)
        if large:
            yield Pause(lambda wake: wake(), any_input=False)
    for entry in merge(*parts, key=order):
        if not entry.dead:
            yield entry


def _cells(cli: CliSession, entry: Entry) -> Cells:
    """An entry's data of one moment."""
    lock = entry.shard.lock
    lock.take(cli.ctx.tid)
    cells = entry.cells[:]
    lock.drop(cli.ctx.tid)
    return cells


def _passes(table: StickTable, cells: Cells, filters: list[_Filter], now: int) -> bool:
    for one in filters:
        kind = BY_NAME[one.name].kind
        cell = table.layout.cells[one.name]
        value = 0
        if kind is Kind.RATE:
            value = rate(cells, cell, table.layout.periods[one.name], now)
        elif kind is not Kind.NAME:
            value = cells[cell]
        if not one.holds(value, one.value):
            return False
    return True


# --- the commands


def _show(cli: CliSession, args: list[str]) -> Answer:
    if not args:
        return [_head(table) for table in reversed(cli.runtime.tables.values())]
    table = _table(cli, args[0])
    if len(args) > 1 and args[1] == "key":
        return _show_key(cli, table, args)
    filters = []
    if len(args) > 1:
        if not args[1].startswith("data."):
            raise CliError(_USAGE["show"])
        filters = _filters(table, args[1:])
    if cli.level < Level.OPERATOR:
        return [_head(table), "# contents not dumped due to insufficient privileges\n"]
    return _dump(cli, table, filters)


def _show_key(cli: CliSession, table: StickTable, args: list[str]) -> str:
    if len(args) < 3:
        raise CliError("Key value expected")
    key = _key(table, "show", args[2])
    cli.need(Level.OPERATOR)
    entry = table.find(key)
    if entry is None:
        return ""
    return _head(table) + _line(table, entry, _cells(cli, entry), cli.ctx.now)


def _dump(cli: CliSession, table: StickTable, filters: list[_Filter]) -> Iterator[str | Pause]:
    yield _head(table)
    for entry in _each(cli, table):
        if isinstance(entry, Pause):
            yield entry
            if entry.stopped:
                return
            continue
        cells = _cells(cli, entry)
        now = cli.ctx.now
        if not filters or _passes(table, cells, filters, now):
            yield _line(table, entry, cells, now)


def _clear(cli: CliSession, args: list[str]) -> Answer:
    if not args:
        raise CliError(_USAGE["clear"])
    table = _table(cli, args[0])
    if len(args) > 1 and args[1] == "key":
        if len(args) < 3:
            raise CliError("Key value expected")
        entry = table.find(_key(table, "clear", args[2]))
        if entry is not None and not _drop(cli, table, entry):
            raise CliError("Entry currently in use, cannot remove")
        return ""
    filters = []
    if len(args) > 1:
        if not args[1].startswith("data."):
            raise CliError(_USAGE["clear"])
        filters = _filters(table, args[1:])
    return _clear_all(cli, table, filters)


def _clear_all(cli: CliSession, table: StickTable, filters: list[_Filter]) -> Iterator[str | Pause]:
    large = table.used > _LARGE
    for entries in table.entries(cli.ctx.tid):
        for entry in entries:
            if not filters or _passes(table, _cells(cli, entry), filters, cli.ctx.now):
                _drop(cli, table, entry)
        if large:
            pause = Pause(lambda wake: wake(), any_input=False)
            yield pause
            if pause.stopped:
                return


def _drop(cli: CliSession, table: StickTable, entry: Entry) -> bool:
    lock = entry.shard.lock
    lock.take(cli.ctx.tid)
    gone = table.drop_if_unused(entry, cli.ctx.tid)
    lock.drop(cli.ctx.tid)
    return gone


def _set(cli: CliSession, args: list[str]) -> Answer:
    if not args:
        raise CliError(_USAGE["set"])
    table = _table(cli, args[0])
    if len(args) == 1:
        return ""
    if args[1] != "key":
        if args[1].startswith("data."):
            raise CliError(
                'content-based lookup is only supported with the "show" and "clear" actions'
            )
        raise CliError(_USAGE["set"])
    if len(args) < 3:
        raise CliError("Key value expected")
    key = _key(table, "set", args[2])
    side = table.side(cli.ctx)
    entry = side.hold(key)
    if entry is None:
        raise CliError("Unable to allocate a new entry")
    lock = entry.shard.lock
    try:
        words = args[3:]
        for position in range(0, len(words), 2):
            _set_one(cli, table, entry, words[position], "".join(words[position + 1 :][:1]))
    finally:
        lock.take(cli.ctx.tid)
        entry.cells[EXPIRE] = cli.ctx.now + table.settings.expire
        lock.drop(cli.ctx.tid)
        side.release(entry)
    return ""


def _set_one(cli: CliSession, table: StickTable, entry: Entry, word: str, text: str) -> None:
    name = word.removeprefix("data.")
    if name == word:
        raise CliError('"data.<type>" followed by a value expected')
    name = ALIASES.get(name, name)
    if name not in BY_NAME:
        raise CliError("Unknown data type")
    cell = table.layout.cells.get(name)
    if cell is None:
        raise CliError("Data type not stored in this table")
    value = _integer(text)
    if value is None:
        raise CliError("Require a valid integer value to store")
    lock, cells = entry.shard.lock, entry.cells
    lock.take(cli.ctx.tid)
    match BY_NAME[name].kind:
        case Kind.SIGNED:
            cells[cell] = (value + (1 << 31) & MASK32) - (1 << 31)
        case Kind.COUNT:
            cells[cell] = value & MASK32
        case Kind.BYTES:
            cells[cell] = value & MASK63
        case Kind.RATE:
            # stable for a period, then fading out: whoever sets it need not do so often
            cells[cell + 2] = 0
            cells[cell + 1] = value & MASK32
            cells[cell] = cli.ctx.now & ~1
        case Kind.NAME:
            pass  # as in HAProxy, nothing happens
    lock.drop(cli.ctx.tid)


COMMANDS: tuple[Command, ...] = (
    Command(
        ("show", "table"),
        "show table <table> [<filter>]*",
        "stick tables, or what one of them holds (filter: data/key)",
        Level.USER,
        _show,
    ),
    Command(
        ("set", "table"),
        "set table <table> key <k> [data.* <v>]*",
        "update or create an entry of a stick table",
        Level.OPERATOR,
        _set,
    ),
    Command(
        ("clear", "table"),
        "clear table <table> [<filter>]*",
        "remove entries of a stick table (filter: data/key)",
        Level.OPERATOR,
        _clear,
    ),
)
