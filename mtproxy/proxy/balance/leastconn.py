"""`balance leastconn`: the server with the fewest sessions for its weight, across all threads.

Servers are ordered by (sessions + 1) / weight in units of 1/256, rounded down, an idle server by 0;
among equals the one whose value changed longest ago goes first, hence idle servers take turns.
This is HAProxy's order, verified against it. A session counts from the pick (or `take`) to `release`.

The order is kept in a heap of integers. An entry is never moved: a change of a server's value adds
an entry, and the old one is dropped when it comes to the top or, when more than half of the
heap is old, all at once. A pick or release costs one logarithmic step for any number of servers.

Everything: LBPRM lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from mtproxy.proxy.balance.base import Balancer, Picker

if TYPE_CHECKING:
    from mtproxy.proxy.server import Server
    from mtproxy.sched.context import ThreadContext
    from mtproxy.sync.locks import Lock

#: an entry is value << VALUE_SHIFT | sequence << POSITION_BITS | position
POSITION_BITS = 16
VALUE_SHIFT = POSITION_BITS + 40
POSITION_MASK = (1 << POSITION_BITS) - 1
SEQUENCE_MASK = (1 << (VALUE_SHIFT - POSITION_BITS)) - 1

#: no entry: the server is not usable
ABSENT = -1


class LeastConn(Balancer):
    __slots__ = ("_entries", "_heap", "_lock", "_seq", "_sessions", "_slack", "_weights")

    tracks_sessions = True

    def __init__(self, lock: Lock, size: int) -> None:
        assert size <= POSITION_MASK
        self._lock = lock
        self._weights = [0] * size
        self._sessions = [0] * size
        #: the valid entry of each server; all other entries of the heap are old
        self._entries = [ABSENT] * size
        self._heap: list[int] = []
        self._seq = 0
        #: the heap is cleaned when it is longer than this
        self._slack = 2 * size + 64

    def update(self, weights: Mapping[int, int]) -> None:
        for position, weight in weights.items():
            self._weights[position] = weight
            self._place(position)

    def picker(self, servers: Sequence[Server], tid: int) -> Picker:
        choose = self._choose
        mine = tuple(servers)

        def pick(ctx: ThreadContext, avoid: Server | None = None) -> Server | None:
            position = choose(-1 if avoid is None else avoid.position, tid)
            if position < 0:
                return None
            server = mine[position]
            server.cur_sess += 1
            return server

        return pick

    def take(self, position: int, tid: int) -> None:
        self._lock.take(tid)
        self._sessions[position] += 1
        self._place(position)
        self._lock.drop(tid)

    def release(self, position: int, tid: int) -> None:
        self._lock.take(tid)
        self._sessions[position] -= 1
        self._place(position)
        self._lock.drop(tid)

    def _choose(self, avoid: int, tid: int) -> int:
        """Choose a server that is not `avoid` unless that is the only one, and take it; -1: none."""
        self._lock.take(tid)
        try:
            heap, entries = self._heap, self._entries
            kept = ABSENT
            while heap:
                entry = heap[0]
                position = entry & POSITION_MASK
                if entries[position] != entry:
                    heappop(heap)
                elif position == avoid:
                    kept = heappop(heap)
                else:
                    break
            else:
                if kept == ABSENT:
                    return -1
                position = avoid
            if kept != ABSENT:
                heappush(heap, kept)
            self._sessions[position] += 1
            self._place(position)
            return position
        finally:
            self._lock.drop(tid)

    def _place(self, position: int) -> None:
        """Give a server the entry that its weight and sessions demand. LBPRM lock held."""
        weight = self._weights[position]
        old = self._entries[position]
        if not weight:
            self._entries[position] = ABSENT
            return
        sessions = self._sessions[position]
        value = (sessions + 1) * 256 // weight if sessions else 0
        if old != ABSENT and old >> VALUE_SHIFT == value:
            return
        self._seq = seq = (self._seq + 1) & SEQUENCE_MASK
        entry = value << VALUE_SHIFT | seq << POSITION_BITS | position
        self._entries[position] = entry
        heappush(self._heap, entry)
        if len(self._heap) > self._slack:
            self._heap = [valid for valid in self._entries if valid != ABSENT]
            heapify(self._heap)

    def _check(self) -> None:
        assert all(sessions >= 0 for sessions in self._sessions)
        valid = [entry for entry in self._entries if entry != ABSENT]
        assert len(valid) == sum(map(bool, self._weights))
        assert set(valid) <= set(self._heap)
        assert len(self._heap) <= self._slack
        for position, entry in enumerate(self._entries):
            if entry != ABSENT:
                sessions = self._sessions[position]
                value = (sessions + 1) * 256 // self._weights[position] if sessions else 0
                assert entry >> VALUE_SHIFT == value
                assert entry & POSITION_MASK == position
