"""Sampling: which of a proxy's log lines get the next message (`log ... sample RANGES:SIZE`).

Every sampled line counts the messages that pass its level and gets those at the positions of its
ranges, the count beginning anew after SIZE messages. The count is exact over all threads: each
position is handed out once and none is left out. `log global` and `defaults` give each proxy a
count of its own, as HAProxy 2.6 does.

One `Sampling` per proxy, made before the threads start and shared by them. Each thread asks it
once per level for a `Draw`, whose function it calls for each message to get a *ticket*, a small
number; `chosen` says which lines a ticket stands for. Callers turn that into tables beforehand.
Lines with the same level see the same messages, so one ticket serves all of them.

The strategies, of which `tune.log-sampling` selects one, choose the same lines for the same
sequence of messages and differ in how threads share the count:

- `lock`: each line has a lock (label LOGSRV), taken in turn, over its position and current range;
- `cas`: each line has a cell with both in one number, replaced by compare-and-exchange, which is
  repeated when another thread was faster. `cas-chain` is the same over a cell without a mutex;
- `index`: the lines share one counter, which is one atomic step per message; a position is the
  counter modulo the line's size, and nothing else is written.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from mtproxy.base.log_settings import SampleSettings
from mtproxy.sync.cells import AtomicCell, ChainCell, LockedCell
from mtproxy.sync.counters import Counter
from mtproxy.sync.labels import LockLabel
from mtproxy.sync.locks import Lock

DEFAULT_STRATEGY = "index"

#: up to so many tickets are worth a table of all of them
MAX_PERIOD = 1024


class Line(NamedTuple):
    """What matters of a `log` line: its level (0..7) and its sample, None for every message."""

    level: int
    sample: SampleSettings | None


class Draw(NamedTuple):
    """How one thread gets tickets: `next() % modulus`, or `next()` where `modulus` is 0."""

    next: Callable[[], int]
    modulus: int

    def ticket(self) -> int:
        """The next ticket, for callers that do not write the expression out."""
        return self.next() % self.modulus if self.modulus else self.next()


class Sampling(ABC):
    """The counts of one proxy's log lines. Any thread may call its methods and its draws."""

    def __init__(self, lines: Iterable[Line]) -> None:
        #: level -> its sampled lines as (number among all lines, sample)
        self.sampled: dict[int, list[tuple[int, SampleSettings]]] = {}
        for number, line in enumerate(lines):
            if line.sample is not None:
                self.sampled.setdefault(line.level, []).append((number, line.sample))

    @abstractmethod
    def draw(self, level: int, tid: int) -> Draw:
        """For the thread `tid`, which alone may use it. `level` is one of `sampled`."""

    def tickets(self, level: int) -> int:
        """How many different tickets there are: they count from 0."""
        return 1 << len(self.sampled[level])

    def chosen(self, level: int, ticket: int) -> frozenset[int]:
        """The lines of this level that get the message with this ticket. Here: a bit for each."""
        return frozenset(
            number for bit, (number, _) in enumerate(self.sampled[level]) if ticket >> bit & 1
        )


class _Turns(ABC):
    """One line's count: position and current range."""

    __slots__ = ("ranges", "size")

    def __init__(self, sample: SampleSettings) -> None:
        self.ranges = sample.ranges
        self.size = sample.size

    @abstractmethod
    def take(self, tid: int) -> bool:
        """Count one message; whether the line gets it."""


class LockedTurns(_Turns):
    """Under a lock. HAProxy before its change."""

    __slots__ = ("current", "lock", "position")

    def __init__(self, sample: SampleSettings) -> None:
        super().__init__(sample)
        self.lock = Lock(LockLabel.LOGSRV)
        self.position = 0
        self.current = 0

    def take(self, tid: int) -> bool:
        lock = self.lock
        lock.take(tid)
        position = self.position + 1
        first, last = self.ranges[self.current]
        mine = first <= position <= last
        if mine and position == last:
            self.current = (self.current + 1) % len(self.ranges)
        self.position = position if position < self.size else 0
        lock.drop(tid)
        return mine


class CasTurns(_Turns):
    """In one number: the current range above, 32 bits of position below. HAProxy's change."""

    __slots__ = ("cell",)

    def __init__(self, sample: SampleSettings, cell: Callable[[int], AtomicCell[int]]) -> None:
        super().__init__(sample)
        self.cell = cell(0)

    def take(self, tid: int) -> bool:
        cell = self.cell
        ranges = self.ranges
        while True:
            word = cell.load()
            current = word >> 32
            position = (word & 0xFFFFFFFF) + 1
            first, last = ranges[current]
            mine = first <= position <= last
            if mine and position == last:
                current = (current + 1) % len(ranges)
            if position == self.size:
                position = 0
            if cell.compare_exchange(word, current << 32 | position, tid):
                return mine


class TurnsSampling(Sampling):
    """`lock` and `cas`: every line counts for itself."""

    def __init__(
        self, lines: Iterable[Line], turns: Callable[[SampleSettings], LockedTurns | CasTurns]
    ) -> None:
        super().__init__(lines)
        self._turns = {
            level: [turns(sample) for _, sample in sampled]
            for level, sampled in self.sampled.items()
        }

    def draw(self, level: int, tid: int) -> Draw:
        takes = [(1 << bit, turns.take) for bit, turns in enumerate(self._turns[level])]

        def ticket() -> int:
            bits = 0
            for bit, take in takes:
                if take(tid):
                    bits |= bit
            return bits

        return Draw(ticket, 0)


class IndexSampling(Sampling):
    """`index`: the lines of a level share one counter, from which everything else follows."""

    def __init__(self, lines: Iterable[Line]) -> None:
        super().__init__(lines)
        self._counters = {level: Counter() for level in self.sampled}
        self._periods = {
            level: math.lcm(*(sample.size for _, sample in sampled))
            for level, sampled in self.sampled.items()
        }

    def draw(self, level: int, tid: int) -> Draw:
        index = self._counters[level].next
        period = self._periods[level]
        if period <= MAX_PERIOD:
            return Draw(index, period)
        spans = [
            (1 << bit, Span(sample).has) for bit, (_, sample) in enumerate(self.sampled[level])
        ]

        def ticket() -> int:
            count = index()
            bits = 0
            for bit, has in spans:
                if has(count):
                    bits |= bit
            return bits

        return Draw(ticket, 0)

    def tickets(self, level: int) -> int:
        period = self._periods[level]
        return period if period <= MAX_PERIOD else super().tickets(level)

    def chosen(self, level: int, ticket: int) -> frozenset[int]:
        if self._periods[level] > MAX_PERIOD:
            return super().chosen(level, ticket)
        return frozenset(
            number
            for number, sample in self.sampled[level]
            if any(a <= ticket % sample.size + 1 <= b for a, b in sample.ranges)
        )


class Span:
    """One line's present stretch of positions, all of which it gets or none. It belongs to one
    thread and is written when the position leaves it: once per range, not once per message.
    """

    __slots__ = ("_bounds", "_first", "_last", "_mine", "_ranges", "_size")

    def __init__(self, sample: SampleSettings) -> None:
        self._ranges = sample.ranges
        self._size = sample.size
        self._bounds = [last for _, last in sample.ranges]
        self._first, self._last, self._mine = 1, 0, False

    def has(self, count: int) -> bool:
        """Whether the line gets the message with this number, from 0."""
        position = count % self._size + 1
        if not self._first <= position <= self._last:
            self._move(position)
        return self._mine

    def _move(self, position: int) -> None:
        following = bisect_left(self._bounds, position)  # the first range that ends here or later
        before = self._bounds[following - 1] if following else 0
        if following == len(self._ranges):
            self._first, self._last, self._mine = before + 1, self._size, False
            return
        first, last = self._ranges[following]
        if position >= first:
            self._first, self._last, self._mine = first, last, True
        else:
            self._first, self._last, self._mine = before + 1, first - 1, False


def _lock(lines: Iterable[Line]) -> Sampling:
    return TurnsSampling(lines, LockedTurns)


def _cas(lines: Iterable[Line]) -> Sampling:
    return TurnsSampling(lines, lambda sample: CasTurns(sample, LockedCell))


def _cas_chain(lines: Iterable[Line]) -> Sampling:
    return TurnsSampling(lines, lambda sample: CasTurns(sample, ChainCell))


#: by their names in the configuration
STRATEGIES: dict[str, Callable[[Iterable[Line]], Sampling]] = {
    "index": IndexSampling,
    "cas": _cas,
    "cas-chain": _cas_chain,
    "lock": _lock,
}


def make_sampling(lines: Sequence[Line], strategy: str = DEFAULT_STRATEGY) -> Sampling | None:
    """What the threads share of these `log` lines; None when none of them is sampled."""
    if all(line.sample is None for line in lines):
        return None
    return STRATEGIES[strategy](lines)


class ThreadSampling:
    """One thread's side of a Sampling. Owner thread only."""

    __slots__ = ("draws", "shared")

    def __init__(self, shared: Sampling, tid: int) -> None:
        self.shared = shared
        self.draws = {level: shared.draw(level, tid) for level in shared.sampled}

    def skipped(self, level: int) -> set[int]:
        """Count one message of this level, and say which sampled lines do not get it."""
        shared = self.shared
        skipped: set[int] = set()
        for limit, draw in self.draws.items():
            if level <= limit:
                skipped |= {number for number, _ in shared.sampled[limit]}
                skipped -= shared.chosen(limit, draw.ticket())
        return skipped


def table_of[T](sampling: Sampling, level: int, make: Callable[[frozenset[int]], T]) -> _Table[T]:
    """`table[ticket]` is what `make` makes of the chosen lines. Owner thread only."""
    tickets = sampling.tickets(level)

    def entry(ticket: int) -> T:
        return make(sampling.chosen(level, ticket))

    if tickets <= MAX_PERIOD:
        return [entry(ticket) for ticket in range(tickets)]
    return _LazyTable(entry)


type _Table[T] = list[T] | _LazyTable[T]


class _LazyTable[T](dict[int, T]):
    """Entries are made when they are first asked for: there may be too many to list."""

    def __init__(self, make: Callable[[int], T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, ticket: int) -> T:
        if len(self) >= MAX_PERIOD:
            self.clear()
        entry = self[ticket] = self._make(ticket)
        return entry
