"""Where the data of a stick table's entries stand, and rates as HAProxy counts them.

Every entry of a table has one `array` of 64-bit cells: who uses it, when it expires, then the
stored data in the order of `DATA_TYPES`. Numbers in an array are nobody's objects: a thread that
reads or writes one that another thread wrote touches no reference count of a foreign object.

A rate takes three cells: the tick (ms) at which its current period began, always even, the events
of it, and those of the period before. The tick is odd while a period gives way to the next. What is
read is HAProxy's sliding estimate: the current events and that share of the previous ones which the
rest of the period amounts to.

A Layout is immutable; functions work on cells that the caller guards.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mtproxy.base.sticktable import BY_NAME, DATA_TYPES, Kind, Stored

#: cells that every entry has: streams that track it, and the tick at which it expires
USES: Final = 0
EXPIRE: Final = 1
_FIRST = 2

MASK32: Final = 0xFFFFFFFF
MASK63: Final = (1 << 63) - 1
#: a period that never began
_LONG_AGO: Final = -(1 << 60)

type Cells = array[int]


@dataclass(frozen=True, slots=True)
class Event:
    """The cells that one event changes. `rates` are (first cell, period in ms)."""

    counts: tuple[int, ...] = ()
    rates: tuple[tuple[int, int], ...] = ()
    #: 64-bit counters
    totals: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.counts or self.rates or self.totals)

    def __add__(self, other: Event) -> Event:
        return Event(
            self.counts + other.counts, self.rates + other.rates, self.totals + other.totals
        )


class Layout:
    """The cells of a table's entries.

    `cells` and `periods`: by name of a data type, of its first element.
    """

    __slots__ = ("cells", "counts", "periods", "stored", "template")

    def __init__(self, stored: Iterable[Stored]) -> None:
        by_name: dict[str, Stored] = {}
        for one in stored:
            by_name.setdefault(one.name, one)
        self.stored = tuple(by_name[one.name] for one in DATA_TYPES if one.name in by_name)
        self.cells: dict[str, int] = {}
        self.periods: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        values = [0] * _FIRST
        for one in self.stored:
            self.cells[one.name] = len(values)
            self.counts[one.name] = one.count
            if BY_NAME[one.name].kind is Kind.RATE:
                self.periods[one.name] = one.period
                values += [_LONG_AGO, 0, 0] * one.count
            else:
                values += [0] * one.count
        #: the cells of a new entry
        self.template: Cells = array("q", values)

    def cell(self, name: str, index: int = 0) -> int | None:
        """The (first) cell of a data type, or of an element of an array; None: not stored.

        gpc0, gpc1, gpt0 and their rates are elements of the arrays where a table has those instead.
        """
        first = self.cells.get(name)
        if first is None:
            name, index = _ELEMENTS.get(name, ("", 0))
            first = self.cells.get(name)
            if first is None:
                return None
        if not 0 <= index < self.counts[name]:
            return None
        return first + index * (3 if name in self.periods else 1)

    def period(self, name: str) -> int:
        """The period of a rate that is stored, in ms."""
        period = self.periods.get(name)
        return self.periods[_ELEMENTS[name][0]] if period is None else period

    def event(self, *names: str, index: int = 0) -> Event:
        """What one event changes, of those data types which are stored."""
        counts: list[int] = []
        totals: list[int] = []
        rates: list[tuple[int, int]] = []
        for name in names:
            cell = self.cell(name, index)
            if cell is None:
                continue
            kind = BY_NAME[name].kind
            if kind is Kind.RATE:
                rates.append((cell, self.period(name)))
            elif kind is Kind.BYTES:
                totals.append(cell)
            else:
                counts.append(cell)
        return Event(tuple(counts), tuple(rates), tuple(totals))


_ELEMENTS: Final[dict[str, tuple[str, int]]] = {
    "gpt0": ("gpt", 0),
    "gpc0": ("gpc", 0),
    "gpc1": ("gpc", 1),
    "gpc0_rate": ("gpc_rate", 0),
    "gpc1_rate": ("gpc_rate", 1),
}


def count(cells: Cells, cell: int, period: int, now: int, events: int) -> int:
    """Add events to a rate; returns those of the current period. Under the shard's lock."""
    tick = cells[cell]
    if now - tick < period:
        cells[cell + 1] = current = cells[cell + 1] + events & MASK32
        return current
    # odd: whoever reads without the lock reads again under it
    cells[cell] = tick | 1
    cells[cell + 2] = cells[cell + 1]
    cells[cell + 1] = events
    tick += period
    if now - tick >= period:
        # at least one whole period without any
        cells[cell + 2] = 0
        tick = now
    cells[cell] = tick & ~1
    return events


def rate(cells: Cells, cell: int, period: int, now: int) -> int:
    """Events per period, as HAProxy estimates them. Under the shard's lock, or of a copy."""
    return estimate(cells[cell], cells[cell + 1], cells[cell + 2], period, now)


def estimate(tick: int, current: int, past: int, period: int, now: int) -> int:
    """Events per period from the three numbers of a rate."""
    remain = tick + period - now
    if remain < 0:
        remain += period
        past = current if remain >= 0 else 0
        current = 0
    if not current and past <= 1:
        # a rate near 0 does not flap
        return past
    return (past * remain + current * period) // period & MASK32


def apply(cells: Cells, event: Event, now: int, amount: int = 1) -> None:
    """Let an event happen `amount` times. Under the shard's lock."""
    for cell in event.counts:
        cells[cell] = cells[cell] + amount & MASK32
    for cell in event.totals:
        cells[cell] = cells[cell] + amount & MASK63
    for cell, period in event.rates:
        tick = cells[cell]
        if now - tick < period:
            cells[cell + 1] = cells[cell + 1] + amount & MASK32
        else:
            count(cells, cell, period, now, amount)
