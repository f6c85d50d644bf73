"""`balance static-rr`, and hashing with `hash-type map-based`: a map from slots to servers.

The map is made anew under the LBPRM lock when a server comes or goes, and swapped by one store.
A hash is looked up by one index; turns are counted by one atomic counter, so that neither needs a
lock. A server that failed is not avoided by a hash, as it is not in HAProxy: `option redispatch`
cannot leave it until it is down.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar

from mtproxy.proxy.balance.base import Balancer, Full, HashOf, Picker
from mtproxy.proxy.balance.slotmap import SlotMap, divisor, slot_map

if TYPE_CHECKING:
    from mtproxy.proxy.server import Server
    from mtproxy.sync.locks import Lock

#: the map, and what counts turns on it
type Snapshot = tuple[SlotMap, Callable[[], int]]


class StaticMap(Balancer):
    """The algorithm at work in one backend. See the module."""

    __slots__ = ("_divisor", "_lock", "_snapshot", "_weights")

    dynamic: ClassVar[bool] = False

    def __init__(self, lock: Lock, weights: Sequence[int]) -> None:
        """`weights` are those of all servers as they were configured."""
        self._lock = lock
        self._divisor = divisor(weights)
        self._weights = [0] * len(weights)
        self._snapshot: Snapshot = array("H"), count().__next__

    def update(self, weights: Mapping[int, int]) -> None:
        for position, weight in weights.items():
            self._weights[position] = -(-weight // self._divisor)
        slots, turn = self._snapshot
        turns = turn()
        # as many turns as there were slots: the end of the map, not its beginning
        following = (turns - 1) % len(slots) + 1 if slots and turns else 0
        made = slot_map(self._weights)
        self._snapshot = made, count(following if following < len(made) else 0).__next__

    def resize(self, size: int) -> None:
        self._weights += [0] * (size - len(self._weights))

    def picker(
        self,
        servers: Sequence[Server],
        tid: int,
        full: Full | None = None,
        hash_of: HashOf | None = None,
    ) -> Picker:
        mine = tuple(servers)

        def in_turn(avoid: Server | None) -> Server | None:
            slots, turn = self._snapshot
            size = len(slots)
            avoided = None
            for _ in range(size):
                server = mine[slots[turn() % size]]
                if full is None or not full(server):
                    if server is not avoid:
                        server.counters.conn_cur += 1
                        return server
                    avoided = server
            if avoided is not None:
                avoided.counters.conn_cur += 1
            return avoided

        def pick(stream: Any, avoid: Server | None = None) -> Server | None:
            return in_turn(avoid)

        if hash_of is None:
            return pick

        def pick_by_hash(stream: Any, avoid: Server | None = None) -> Server | None:
            number = hash_of(stream)
            if number is None:
                return in_turn(avoid)
            slots = self._snapshot[0]
            if not slots:
                return None
            server = mine[slots[number % len(slots)]]
            server.counters.conn_cur += 1
            return server

        return pick_by_hash

    def _check(self) -> None:
        slots = self._snapshot[0]
        assert len(slots) == sum(self._weights)
        for position, weight in enumerate(self._weights):
            assert slots.count(position) == weight
