"""WeightedOrder: in which order weighted round robin serves a set of servers. Pure; no lock.

The order is HAProxy's, verified against the program. Time is counted in picks. A server of weight w
among a total of W comes back W/w picks after its last turn (whole picks; the remainders add up).
A pick goes to the server that is due first; if none is due yet, to the heaviest one that has not
had its first turn. Among servers due at the same pick, the one with the smallest value of remainder
minus weight goes first, then the one that was queued first.

Each server gets its exact share in each cycle of W/gcd picks, once the order repeats itself. Mostly
it does so from the first pick, otherwise from the second cycle or so: weights 3, 3, 2 give 4, 3, 1
in the first eight picks and 3, 3, 2 in later ones, here as in HAProxy. (HAProxy breaks its order
every 16 W picks and begins with its heaviest servers again; here it goes on.)

A cycle of at most CYCLE_MAX picks is kept once it was seen to repeat; to continue it costs nothing.
Longer ones (2,000 servers whose weights share no divisor) are computed as they go, one logarithmic
step per pick, so that memory stays in proportion to the number of servers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappush, heapreplace
from math import gcd

#: the longest cycle that is kept, in picks
CYCLE_MAX = 1 << 16

#: about how many picks `block` returns
BLOCK = 128

#: cycles compared before the search for a repetition is given up (the second one always repeated
#: in thousands of random cases)
TRIALS = 4

#: the unit of `waits`: one whole interval W/w of a server
INTERVAL = 1 << 20


class WeightedOrder:
    """An endless order of positions. The caller serializes all calls.

    `weights` are 0..256 by position; 0 means that the position never comes. `waits` says for
    servers that had turns in an earlier order how long each still waits (see `waits()`); the
    others are taken as new.
    """

    __slots__ = (
        "_cursor",
        "_cycle",
        "_fresh",
        "_heap",
        "_length",
        "_now",
        "_record",
        "_seq",
        "_start",
        "_total",
        "_trials",
        "_weights",
    )

    def __init__(self, weights: Sequence[int], waits: Mapping[int, int] | None = None) -> None:
        self._weights = weights
        self._total = total = sum(weights)
        self._now = 0
        self._seq = 0
        #: (pick at which it is due, remainder - weight, order of queueing, position)
        self._heap: list[tuple[int, int, int, int]] = []
        known = waits or {}
        for position in sorted(known, key=known.__getitem__):
            if weight := weights[position]:
                due = known[position] * total // (weight * INTERVAL)
                self._heap.append((due, -weight, self._seq, position))
                self._seq += 1
        heapify(self._heap)
        #: servers before their first turn; the next one last
        self._fresh = [i for i, weight in enumerate(weights) if weight and i not in known]
        self._fresh.sort(key=lambda i: (-weights[i], i), reverse=True)
        #: picks per cycle; 0 when there is nothing to pick
        self._length = total // gcd(*weights) if total else 0
        self._cycle: list[int] | None = None
        self._cursor = 0
        self._record: list[int] = []
        self._trials = TRIALS if self._length <= CYCLE_MAX else 0
        self._start: list[tuple[int, int, int]] | None = None

    def block(self) -> Sequence[int]:
        """The next picks, about BLOCK of them; empty if no server has a weight."""
        cycle = self._cycle
        if cycle is not None:
            if self._length <= BLOCK:
                return cycle * (BLOCK // self._length)
            start = self._cursor
            self._cursor = end = min(start + BLOCK, self._length)
            if end == self._length:
                self._cursor = 0
            return cycle[start:end]
        if not self._total:
            return ()
        if not self._trials:
            return self._compute(BLOCK)
        record = self._record
        if self._start is None:
            self._start = self._state()
        picks = self._compute(min(BLOCK, self._length - len(record)))
        record += picks
        if len(record) == self._length:
            self._record = []
            state = self._state()
            if state == self._start:
                self._cycle = record
            else:
                self._start = state
                self._trials -= 1
        return picks

    def waits(self, pending: Sequence[int]) -> dict[int, int]:
        """How long each server still waits for its turn, in 1/INTERVAL of its own interval W/w.

        `pending` are those last picks of `block` which nobody has used: they count as not made.
        Servers that have not had their first turn are left out.
        """
        first: dict[int, int] = {}
        for wait, position in enumerate(pending):
            first.setdefault(position, wait)
        if self._cycle is not None:
            missing = len(self._heap) - len(first)
            for wait in range(self._length):
                if not missing:
                    break
                position = self._cycle[(self._cursor + wait) % self._length]
                if position not in first:
                    first[position] = len(pending) + wait
                    missing -= 1
        else:
            for due, _, _, position in self._heap:
                first.setdefault(position, len(pending) + max(0, due - self._now))
        weights, total = self._weights, self._total
        return {
            position: min(INTERVAL, wait * weights[position] * INTERVAL // total)
            for position, wait in first.items()
        }

    def _compute(self, count: int) -> list[int]:
        """Make `count` picks."""
        heap, fresh, weights, total = self._heap, self._fresh, self._weights, self._total
        end, seq = self._now + count, self._seq
        picks = []
        for now in range(self._now, end):
            if heap and (not fresh or heap[0][0] <= now):
                due, rest, _, position = heap[0]
                weight = weights[position]
                due += total // weight
                rest += total % weight
                if rest >= 0:
                    rest -= weight
                    due += 1
                heapreplace(heap, (due, rest, seq, position))
            else:
                position = fresh.pop()
                weight = weights[position]
                # the remainder is below the weight: no carry in a first turn
                heappush(heap, (now + total // weight, total % weight - weight, seq, position))
            seq += 1
            picks.append(position)
        self._now, self._seq = end, seq
        return picks

    def _state(self) -> list[tuple[int, int, int]] | None:
        """All that the future picks depend on; None while some servers have not had a turn."""
        if self._fresh:
            return None
        now = self._now
        return [(due - now, rest, position) for due, rest, _, position in sorted(self._heap)]
