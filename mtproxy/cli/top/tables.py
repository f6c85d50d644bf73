"""The tables of `mtproxy top`: columns, rows, and in which order they stand. Pure.

A cell is its text and what it is sorted by. Texts that come from the proxy may hold anything: they
are cleaned of what a terminal would take for a command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mtproxy.cli.top.figures import Rates, number

#: rows that are drawn at most; the order decides which
MOST_ROWS = 500

type Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Column:
    """`help` says what stands in it. Numbers are to the right, and the largest come first."""

    title: str
    help: str
    numeric: bool = True


@dataclass(frozen=True, slots=True)
class Cell:
    """What is shown, and what it is sorted by."""

    text: str
    value: float | str


@dataclass(frozen=True, slots=True)
class Row:
    """`level` is good, warn, bad or "" (no colour)."""

    key: Key
    cells: tuple[Cell, ...]
    level: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A view. `rows` is called for each look at the proxy."""

    name: str
    columns: tuple[Column, ...]
    rows: Callable[[Rates, str], list[Row]]
    #: the column that it is sorted by at first; -1: as the proxy gives it
    sorted_by: int = -1


def clean(text: str) -> str:
    """Without control characters."""
    return "".join(char if char.isprintable() else "?" for char in text)


def short(value: float) -> str:
    """A figure in at most five characters: 12, 3.4k, 56M."""
    for unit in ("", "k", "M", "G", "T"):
        if value < 999.5:
            if unit and value < 9.95:
                return f"{value:.1f}{unit}"
            return f"{value:.0f}{unit}"
        value /= 1000
    return f"{value:.0f}P"


def _figure(value: float) -> Cell:
    return Cell(short(value), value)


def _rate(value: float) -> Cell:
    """A rate; the small ones with a digit behind the point, so that 0.3 is not nothing."""
    return Cell(f"{value:.1f}" if 0 < value < 10 else short(value), value)


def _word(text: str) -> Cell:
    return Cell(clean(text), clean(text))


def _optional(row: Mapping[str, str], column: str) -> Cell:
    return _figure(number(row, column)) if row.get(column) else Cell("-", -1)


def level_of(status: str) -> str:
    """How good a state is."""
    if status.startswith(("MAINT", "DRAIN", "NOLB", "PAUSED")) or status.endswith("/"):
        return "warn"
    if status.startswith(("DOWN", "STOP")):
        return "bad"
    if status.startswith("UP"):
        return "good" if status == "UP" else "warn"
    return ""


PROXIES = (
    Column("proxy", "its name", numeric=False),
    Column("side", "front: from clients; back: to servers", numeric=False),
    Column("status", "its state", numeric=False),
    Column("servers", "usable servers: active + backup"),
    Column("sess", "sessions now"),
    Column("max", "most sessions at a time"),
    Column("queue", "requests that wait for a server"),
    Column("req/s", "requests (tcp: sessions) per second"),
    Column("in/s", "bytes from clients per second"),
    Column("out/s", "bytes to clients per second"),
    Column("4xx/s", "such answers per second"),
    Column("5xx/s", "such answers per second"),
    Column("err/s", "requests refused, without server or valid answer, per second"),
    Column("ms", "average time of the last 1,024 requests"),
)


def proxies(rates: Rates, _which: str) -> list[Row]:
    """Frontends and backends."""
    rows = []
    for kind, side in (("0", "front"), ("1", "back")):
        for key, row in rates.now.of_type(kind):
            usable = Cell("-", -1)
            if kind == "1":
                active, backup = number(row, "act"), number(row, "bck")
                usable = Cell(f"{active}+{backup}" if backup else str(active), active)
            rows.append(
                Row(
                    key,
                    (
                        _word(row["pxname"]),
                        _word(side),
                        _word(row["status"]),
                        usable,
                        *_traffic(rates, key, row),
                    ),
                    level_of(row["status"]),
                )
            )
    return rows


def _traffic(rates: Rates, key: Key, row: Mapping[str, str]) -> tuple[Cell, ...]:
    """The columns from `sess` on."""
    return (
        _figure(number(row, "scur")),
        _figure(number(row, "smax")),
        _optional(row, "qcur"),
        _rate(rates.per_second(key, "requests")),
        _rate(rates.per_second(key, "bin")),
        _rate(rates.per_second(key, "bout")),
        _rate(rates.per_second(key, "hrsp_4xx")),
        _rate(rates.per_second(key, "hrsp_5xx")),
        _rate(rates.per_second(key, "errors")),
        _optional(row, "ttime"),
    )


SERVERS = (
    Column("backend", "whose server it is", numeric=False),
    Column("server", "its name", numeric=False),
    Column("status", "its state", numeric=False),
    Column("weight", "its weight now"),
    *PROXIES[4:],
    Column("check", "the last health check", numeric=False),
)


def servers(rates: Rates, which: str) -> list[Row]:
    """The servers of one backend, or all of them (`which` is "")."""
    rows = []
    for key, row in rates.now.of_type("2"):
        if which and row["pxname"] != which:
            continue
        check = row["check_status"]
        if check and row.get("last_chk"):
            check = f"{check} {row['last_chk']}"
        rows.append(
            Row(
                key,
                (
                    _word(row["pxname"]),
                    _word(row["svname"]),
                    _word(row["status"]),
                    _figure(number(row, "weight")),
                    *_traffic(rates, key, row),
                    _word(check or "-"),
                ),
                level_of(row["status"]),
            )
        )
    return rows


THREADS = (
    Column("thread", "its number"),
    Column("load", "percent of a CPU that it uses"),
    Column("loops/s", "how often it looked for events, per second"),
    Column("tasklets/s", "pieces of work per second"),
    Column("per loop", "pieces of work per look"),
    Column("loop us", "average time of a loop, without waiting, in microseconds"),
    Column("events/s", "descriptors that had something, per second"),
    Column("accepts/s", "connections accepted per second"),
    Column("conns", "connections now"),
)


def threads(rates: Rates, _which: str) -> list[Row]:
    """A row for each thread."""
    found = rates.now.threads
    rows = []
    for tid in range(len(found.get("loops", ()))):
        loops, tasklets = rates.thread("loops", tid), rates.thread("tasksw", tid)
        cpu = rates.thread("cpu_ms", tid)
        rows.append(
            Row(
                ("thread", str(tid)),
                (
                    Cell(str(tid + 1), tid + 1),
                    _known(None if cpu is None else min(cpu / 10, 100.0)),
                    _known(loops),
                    _known(tasklets),
                    _known(tasklets / loops if loops and tasklets is not None else None),
                    _known(_at(found.get("avg_loop_us", ()), tid)),
                    _known(rates.thread("poll_io", tid)),
                    _known(rates.thread("accepted", tid)),
                    _known(_at(found.get("conns", ()), tid)),
                ),
            )
        )
    return rows


def _at(values: Sequence[float], tid: int) -> float | None:
    return values[tid] if tid < len(values) else None


def _known(value: float | None) -> Cell:
    return Cell("-", -1) if value is None else _rate(value)


LOCKS = (
    Column("lock", "what it guards: docs/locking.md", numeric=False),
    Column("taken/s", "how often it was taken, per second"),
    Column("waits/s", "how often not at once, per second"),
    Column("wait ms/s", "time that all threads waited for it, per second"),
    Column("ns/lock", "waiting time per taking"),
    Column("longest ms", "the longest wait since the start"),
)


def locks(rates: Rates, _which: str) -> list[Row]:
    """A row for each lock label that was ever used."""
    seconds = rates.seconds
    return [
        Row(
            ("lock", one.label),
            (
                _word(one.label),
                _rate(one.locks / seconds),
                _rate(one.waits / seconds),
                Cell(f"{one.wait_ns / 1e6 / seconds:.3f}", one.wait_ns),
                _rate(one.wait_ns / one.locks if one.locks else 0.0),
                Cell(f"{one.longest_ns / 1e6:.3f}", one.longest_ns),
            ),
            # a thousandth of a second per second is 0.1 % of a CPU
            "warn" if one.wait_ns / seconds > 10e6 else "",
        )
        for one in rates.locks()
    ]


TABLES = {
    "proxies": Table("proxies", PROXIES, proxies),
    "servers": Table("servers", SERVERS, servers),
    "threads": Table("threads", THREADS, threads),
    "locks": Table("locks", LOCKS, locks, sorted_by=3),
}


def arrange(rows: Iterable[Row], column: int, numeric: bool, reverse: bool) -> list[Row]:
    """Sorted by a column, numbers from the largest down, words from A; `reverse` turns that round.

    -1 leaves the order as it is.
    """
    found = list(rows)
    if column >= 0:
        found.sort(key=lambda row: row.cells[column].value, reverse=numeric)
    if reverse:
        found.reverse()
    return found


def text_table(table: Table, rows: Sequence[Row]) -> str:
    """As plain text, for a pipe."""
    lines = [[column.title for column in table.columns]]
    lines += [[cell.text for cell in row.cells] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table.columns))]
    out = []
    for line in lines:
        words = (
            word.rjust(width) if column.numeric else word.ljust(width)
            for word, width, column in zip(line, widths, table.columns, strict=True)
        )
        out.append("  ".join(words).rstrip())
    return "\n".join(out) + "\n"
