"""`balance roundrobin`: each server in turn by weight, exactly, across all threads.

The coming turns stand in one shared deque. To pick is to pop from its left end, which is atomic and
needs no lock, so that all threads together follow one order, each turn used once. The thread
that finds the deque empty refills it from the WeightedOrder under the LBPRM lock, about BLOCK turns
at a time. A change of weights empties the deque, also under the lock: what was left in it counts
as not picked, and every server keeps its waiting time in the new order, so that frequent
changes do not favour anybody.

Writes to everything but the left end of the deque: LBPRM lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mtproxy.proxy.balance.base import HEAVIEST, Balancer, Full, HashOf, Picker
from mtproxy.proxy.balance.order import WeightedOrder

if TYPE_CHECKING:
    from mtproxy.proxy.server import Server
    from mtproxy.sync.locks import Lock


class RoundRobin(Balancer):
    """The algorithm at work in one backend. See the module."""

    __slots__ = ("_lock", "_order", "_stale", "_turns", "_waits", "_weights")

    def __init__(self, lock: Lock, size: int) -> None:
        self._lock = lock
        self._weights = [0] * size
        self._turns: deque[int] = deque()
        self._order = WeightedOrder(self._weights)
        #: the weights have changed since `_order` was made; `_waits` is what to carry over
        self._stale = False
        self._waits: dict[int, int] = {}

    def update(self, weights: Mapping[int, int]) -> None:
        pending = []
        popleft = self._turns.popleft
        try:
            while True:
                # one at a time: other threads go on picking, and each turn is used once
                pending.append(popleft())
        except IndexError:
            pass
        if not self._stale:
            self._waits = self._order.waits(pending)
            # the order reads the list it was given: change a copy. It is made at the next pick, so
            # that many changes in a row cost one new order.
            self._weights = self._weights.copy()
            self._stale = True
        for position, weight in weights.items():
            self._weights[position] = weight

    def resize(self, size: int) -> None:
        # a copy: the order reads the list that it was given
        self._weights = self._weights + [0] * (size - len(self._weights))

    def picker(
        self,
        servers: Sequence[Server],
        tid: int,
        full: Full | None = None,
        hash_of: HashOf | None = None,
    ) -> Picker:
        popleft = self._turns.popleft
        mine = tuple(servers)

        def pick_with_room(stream: Any, avoid: Server | None = None) -> Server | None:
            assert full is not None
            server = self._next_with_room(mine, avoid, full, tid)
            if server is not None:
                server.counters.conn_cur += 1
            return server

        if full is not None:
            return pick_with_room

        def pick(stream: Any, avoid: Server | None = None) -> Server | None:
            if avoid is None:
                try:
                    server = mine[popleft()]
                except IndexError:
                    pass
                else:
                    server.counters.conn_cur += 1
                    return server
            position = self._next(-1 if avoid is None else avoid.position, tid)
            if position < 0:
                return None
            server = mine[position]
            server.counters.conn_cur += 1
            return server

        return pick

    def _next(self, avoid: int, tid: int) -> int:
        """The next turn that is not of `avoid` unless that is the only server; -1: no server."""
        self._lock.take(tid)
        try:
            position = self._turn()
            if position == avoid and sum(map(bool, self._weights)) > 1:
                skipped = 0
                while position == avoid:
                    skipped += 1
                    position = self._turn()
                # the turns of the avoided server are only delayed: its share stays exact
                self._turns.extendleft([avoid] * skipped)
            return position
        finally:
            self._lock.drop(tid)

    def _next_with_room(
        self, mine: Sequence[Server], avoid: Server | None, full: Full, tid: int
    ) -> Server | None:
        """The server whose turn is next among those that are not full, `avoid` only if it is the
        last of them. The turns of those passed over are only delayed.
        """
        self._lock.take(tid)
        try:
            weights = self._weights
            usable = [mine[i] for i, weight in enumerate(weights) if weight]
            candidates = [server for server in usable if not full(server)]
            if avoid is not None and len(candidates) > 1:
                candidates = [server for server in candidates if server is not avoid]
            if not candidates:
                return None
            skipped: list[int] = []
            chosen = None
            # heavy servers that are full would have many turns passed over at each pick
            for _ in range(2 * len(usable) + 16):
                position = self._turn()
                if mine[position] in candidates:
                    chosen = mine[position]
                    break
                skipped.append(position)
            self._turns.extendleft(reversed(skipped))
            return chosen or max(candidates, key=lambda server: weights[server.position])
        finally:
            self._lock.drop(tid)

    def _turn(self) -> int:
        """Pop one turn, refilling the deque if needed; -1: no server. LBPRM lock held."""
        try:
            return self._turns.popleft()
        except IndexError:
            pass
        if self._stale:
            self._order = WeightedOrder(self._weights, self._waits)
            self._stale = False
        block = self._order.block()
        if not block:
            return -1
        self._turns.extend(block[1:])
        return block[0]

    def _check(self) -> None:
        assert all(0 <= weight <= HEAVIEST for weight in self._weights)
        assert all(self._weights[position] for position in self._turns)
        assert not (self._stale and self._turns)
