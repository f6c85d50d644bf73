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

#: the map, what counts turns on it, and from where: a turn's slot is its number less that; the
#: only server, or -1
type Snapshot = tuple[SlotMap, Callable[[], int], int, int]


class StaticMap(Balancer):
    """The algorithm at work in one backend. See the module."""

    __slots__ = ("_asks_always", "_divisor", "_lock", "_snapshot", "_start", "_weights")

    dynamic: ClassVar[bool] = False

    def __init__(self, lock: Lock, weights: Sequence[int], *, asks_always: bool = False) -> None:
        """`weights` are those of all servers as they were configured. `asks_always`: a key is
        looked for, and a turn taken where there is none, even when there is but one server.
        """
        self._lock = lock
        self._asks_always = asks_always
        self._divisor = divisor(weights)
        self._weights = [0] * len(weights)
        self._snapshot: Snapshot = array("H"), count().__next__, 0, -1
        #: the first turn of the map
        self._start = 0

    def update(self, weights: Mapping[int, int]) -> None:
        for position, weight in weights.items():
            self._weights[position] = -(-weight // self._divisor)
        slots, turn, base, _ = self._snapshot
        following = turn()
        if slots and following != self._start:
            # behind the last slot, rather than before the first, where the map is through
            following = (following - base - 1) % len(slots) + 1
        slots = slot_map(self._weights)
        self._start = following
        base = following if following >= len(slots) else 0
        usable = [position for position, weight in enumerate(self._weights) if weight]
        only = usable[0] if len(usable) == 1 else -1
        self._snapshot = slots, count(following).__next__, base, only

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
            slots, turn, base, _ = self._snapshot
            size = len(slots)
            avoided = None
            for _ in range(size):
                server = mine[slots[(turn() - base) % size]]
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
        asks_always = self._asks_always

        def pick_by_hash(stream: Any, avoid: Server | None = None) -> Server | None:
            slots, _, _, only = self._snapshot
            if only >= 0 and not asks_always:
                server = mine[only]
            else:
                number = hash_of(stream)
                if number is None:
                    return in_turn(avoid)
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
