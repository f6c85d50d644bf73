"""`balance leastconn`: the server with the fewest sessions for its weight, across all threads.

Servers are ordered by (sessions + 1) / weight in units of 1/256, rounded down, an idle server by
0; among equals the one whose value changed longest ago goes first, hence idle servers take turns.
This is HAProxy's order, verified against it. A session counts from its pick (or `take`) to its
`release`; every pick sees all picks and releases that came before it, on whatever thread.

The order is kept in a heap of integers. An entry never moves: a change of a server's value adds an
entry, and the old one is dropped when it comes to the top or, when more than half of the heap is
old, all at once. So a pick costs one logarithmic step or two for any number of servers. A release
only appends to a deque, which needs no lock; the next pick enters it.

Everything but that deque: LBPRM lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count
from typing import TYPE_CHECKING, Any

from mtproxy.proxy.balance.base import HEAVIEST, Balancer, Full, HashOf, Picker

if TYPE_CHECKING:
    from mtproxy.proxy.server import Server
    from mtproxy.sync.locks import Lock

#: an entry is value << VALUE_SHIFT | sequence << POSITION_BITS | position
POSITION_BITS = 16
POSITION_MASK = (1 << POSITION_BITS) - 1
VALUE_SHIFT = POSITION_BITS + 40

#: no entry: the server is not usable
ABSENT = -1


class LeastConn(Balancer):
    """The algorithm at work in one backend. See the module."""

    __slots__ = (
        "_entries",
        "_heap",
        "_lock",
        "_next_sequence",
        "_released",
        "_sessions",
        "_weights",
    )

    def __init__(self, lock: Lock, size: int) -> None:
        assert size <= POSITION_MASK
        self._lock = lock
        self._weights = [0] * size
        self._sessions = [0] * size
        #: the valid entry of each server; all other entries of the heap are old
        self._entries = [ABSENT] * size
        self._heap: list[int] = []
        self._next_sequence = count().__next__
        #: positions of servers which sessions have left since the last pick
        self._released: deque[int] = deque()

    @property
    def _slack(self) -> int:
        """The heap is cleaned when it is longer than this."""
        return 2 * len(self._weights) + 64

    def update(self, weights: Mapping[int, int]) -> None:
        self._settle()
        for position, weight in weights.items():
            self._weights[position] = weight
            self._place(position)

    def resize(self, size: int) -> None:
        assert len(self._weights) <= size <= POSITION_MASK
        more = size - len(self._weights)
        # in place: pickers keep these lists
        self._weights += [0] * more
        self._sessions += [0] * more
        self._entries += [ABSENT] * more

    def picker(
        self,
        servers: Sequence[Server],
        tid: int,
        full: Full | None = None,
        hash_of: HashOf | None = None,
    ) -> Picker:
        mine = tuple(servers)
        if full is not None:
            return self._picker_with_room(mine, tid, full)
        lock_take, lock_drop = self._lock.take, self._lock.drop
        heap, entries = self._heap, self._entries
        sessions, weights = self._sessions, self._weights
        released, next_released = self._released, self._released.popleft
        next_sequence, place, slack = self._next_sequence, self._place, self._slack

        # One long function: every call it made would cost a tenth of its time. As weights are
        # HEAVIEST at most, one session more or less always changes the value.
        def pick(stream: Any, avoid: Server | None = None) -> Server | None:
            lock_take(tid)
            while released:
                position = next_released()
                sessions[position] = number = sessions[position] - 1
                if weight := weights[position]:
                    value = (number + 1) * HEAVIEST // weight if number else 0
                    entry = value << VALUE_SHIFT | next_sequence() << POSITION_BITS | position
                    entries[position] = entry
                    heappush(heap, entry)
            avoided = ABSENT
            server: Server | None = None
            while heap:
                entry = heap[0]
                position = entry & POSITION_MASK
                if entry != entries[position]:
                    heappop(heap)
                elif avoid is not None and position == avoid.position:
                    avoided = heappop(heap)
                else:
                    server = mine[position]
                    sessions[position] = number = sessions[position] + 1
                    value = (number + 1) * HEAVIEST // weights[position]
                    entry = value << VALUE_SHIFT | next_sequence() << POSITION_BITS | position
                    entries[position] = entry
                    heapreplace(heap, entry)
                    break
            if avoided != ABSENT:
                assert avoid is not None
                heappush(heap, avoided)
                if server is None:
                    server = avoid
                    sessions[avoid.position] += 1
                    place(avoid.position)
            if len(heap) > slack:
                heap[:] = [valid for valid in entries if valid != ABSENT]
                heapify(heap)
            lock_drop(tid)
            if server is not None:
                server.counters.conn_cur += 1
            return server

        return pick

    def _picker_with_room(self, mine: Sequence[Server], tid: int, full: Full) -> Picker:
        heap, entries = self._heap, self._entries

        def pick(stream: Any, avoid: Server | None = None) -> Server | None:
            self._lock.take(tid)
            try:
                self._settle()
                passed: list[int] = []
                chosen = avoided = None
                while heap and chosen is None:
                    entry = heappop(heap)
                    if entry != entries[entry & POSITION_MASK]:
                        continue
                    passed.append(entry)
                    server = mine[entry & POSITION_MASK]
                    if server is avoid:
                        avoided = None if full(server) else server
                    elif not full(server):
                        chosen = server
                for entry in passed:
                    heappush(heap, entry)
                chosen = chosen or avoided
                if chosen is None:
                    return None
                self._sessions[chosen.position] += 1
                self._place(chosen.position)
            finally:
                self._lock.drop(tid)
            chosen.counters.conn_cur += 1
            return chosen

        return pick

    def take(self, position: int, tid: int) -> None:
        self._lock.take(tid)
        self._settle()
        self._sessions[position] += 1
        self._place(position)
        self._lock.drop(tid)

    def release_hook(self) -> Callable[[int], None]:
        return self._released.append

    def _settle(self) -> None:
        """Enter what was released, in its order, as `pick` does. LBPRM lock held."""
        while self._released:
            position = self._released.popleft()
            self._sessions[position] -= 1
            self._place(position)

    def _place(self, position: int) -> None:
        """Give a server the entry that its weight and sessions demand. LBPRM lock held."""
        weight = self._weights[position]
        if not weight:
            self._entries[position] = ABSENT
            return
        sessions = self._sessions[position]
        value = (sessions + 1) * HEAVIEST // weight if sessions else 0
        old = self._entries[position]
        if old == ABSENT or old >> VALUE_SHIFT != value:
            entry = value << VALUE_SHIFT | self._next_sequence() << POSITION_BITS | position
            self._entries[position] = entry
            heappush(self._heap, entry)
            if len(self._heap) > self._slack:
                self._heap[:] = [valid for valid in self._entries if valid != ABSENT]
                heapify(self._heap)

    def _check(self) -> None:
        pending = list(self._released)
        valid = [entry for entry in self._entries if entry != ABSENT]
        assert len(valid) == sum(map(bool, self._weights))
        assert set(valid) <= set(self._heap)
        assert len(self._heap) <= self._slack
        for position, entry in enumerate(self._entries):
            sessions = self._sessions[position]
            assert sessions >= pending.count(position)
            if entry != ABSENT:
                value = (sessions + 1) * HEAVIEST // self._weights[position] if sessions else 0
                assert entry >> VALUE_SHIFT == value
                assert entry & POSITION_MASK == position
