"""`balance roundrobin`: each server in turn by weight, exactly, across all threads.

The coming turns stand in one shared deque. To pick is to pop from its left end, which is atomic and
needs no lock, so that all threads together follow one order, each turn used once. The thread
that finds the deque empty refills it from the WeightedOrder under the LBPRM lock, about BLOCK turns
at a time. A change of weights empties the deque, also under the lock, and what was left in it
counts as not picked; so does a pick that has to pass over servers (which are full, or have just
failed): it is made from the order itself.

Backup servers have an order of their own, which stands still while an active server works.

Writes to everything but the left end of the deque: LBPRM lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mtproxy.proxy.balance.base import HEAVIEST, Balancer, Full, HashOf, Picker
from mtproxy.proxy.balance.order import WeightedOrder

if TYPE_CHECKING:
    from mtproxy.base.server_settings import ServerSettings
    from mtproxy.proxy.server import Server
    from mtproxy.sync.locks import Lock


def _none(_: int) -> bool:
    """What refuses no server."""
    return False


class RoundRobin(Balancer):
    """The algorithm at work in one backend. See the module."""

    __slots__ = ("_active", "_backups", "_lock", "_order", "_reserve", "_turns", "_weights")

    def __init__(self, lock: Lock, size: int, backups: Collection[int] = ()) -> None:
        self._lock = lock
        self._weights = [0] * size
        self._backups = set(backups)
        self._turns: deque[int] = deque()
        #: the orders of active and of backup servers; None before the first one has a weight
        self._active: WeightedOrder | None = None
        self._reserve: WeightedOrder | None = None
        #: the one that turns are taken from
        self._order = WeightedOrder(self._weights)

    def update(self, weights: Mapping[int, int]) -> None:
        mine = self._weights
        if all(mine[position] == weight for position, weight in weights.items()):
            return
        self._withdraw()
        for position, weight in weights.items():
            mine[position] = weight
        backups = self._backups
        active = [0 if i in backups else weight for i, weight in enumerate(mine)]
        self._active = order = self._changed(self._active, active)
        if not any(active):
            # the weights of backup servers are told while no active server works
            reserve = [weight if i in backups else 0 for i, weight in enumerate(mine)]
            self._reserve = self._changed(self._reserve, reserve)
            order = self._reserve or order
        self._order = order or self._order

    @staticmethod
    def _changed(order: WeightedOrder | None, weights: list[int]) -> WeightedOrder | None:
        if order is None:
            return WeightedOrder(weights) if any(weights) else None
        old = order.weights
        order.change({i: weight for i, weight in enumerate(weights) if weight != old[i]})
        return order

    def _withdraw(self) -> None:
        """Takes back all turns that nobody has used."""
        unused = 0
        popleft = self._turns.popleft
        try:
            while True:
                # one at a time: other threads go on picking, and each turn is used once
                popleft()
                unused += 1
        except IndexError:
            pass
        self._order.back(unused)

    def put(self, position: int, settings: ServerSettings) -> None:
        if settings.backup:
            self._backups.add(position)
        else:
            self._backups.discard(position)

    def resize(self, size: int) -> None:
        self._withdraw()
        self._weights += [0] * (size - len(self._weights))
        for order in {self._active, self._reserve, self._order}:
            if order is not None:
                order.resize(size)

    def picker(
        self,
        servers: Sequence[Server],
        tid: int,
        full: Full | None = None,
        hash_of: HashOf | None = None,
    ) -> Picker:
        popleft = self._turns.popleft
        mine = tuple(servers)

        def refused(position: int) -> bool:
            assert full is not None
            return full(mine[position])

        def pick_with_room(stream: Any, avoid: Server | None = None) -> Server | None:
            self._lock.take(tid)
            try:
                self._withdraw()
                position = self._order.pick(refused, -1 if avoid is None else avoid.position)
            finally:
                self._lock.drop(tid)
            if position < 0:
                return None
            server = mine[position]
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
            if avoid < 0:
                return self._turn()
            self._withdraw()
            return self._order.pick(_none, avoid)
        finally:
            self._lock.drop(tid)

    def _turn(self) -> int:
        """Pop one turn, refilling the deque if needed; -1: no server. LBPRM lock held."""
        try:
            return self._turns.popleft()
        except IndexError:
            pass
        block = self._order.block()
        if not block:
            return -1
        self._turns.extend(block[1:])
        return block[0]

    def _check(self) -> None:
        assert all(0 <= weight <= HEAVIEST for weight in self._weights)
        assert all(self._weights[position] for position in self._turns)
        assert not any(self._weights) or any(self._order.weights)
        for order in (self._active, self._reserve):
            if order is not None and not (order is self._order and self._turns):
                order._check()
