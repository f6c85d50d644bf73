"""Hashing with `hash-type consistent`, and `balance random`: servers on a ring (see `ring`).

A look-up needs no lock: it reads one snapshot, which every change under the LBPRM lock replaces
by one store. Streams without a key take the points in turn, under the lock.

With `hash-balance-factor` a server that has more than its share of the sessions, times the factor,
is passed over for the next one on the ring; the same goes for a server that has just failed. How
many sessions others have is read without a lock and may be a moment old. With
`hash-preserve-affinity` a server that has reached its `maxconn`, or whose queue has reached its
`maxqueue`, is passed over too; where all are, the hash's own server queues the session.
"""

from __future__ import annotations

import random
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mtproxy.proxy.balance.base import Balancer, Full, HashOf, Picker
from mtproxy.proxy.balance.ring import (
    POSITION_MASK,
    Ring,
    index_of,
    key_of,
    points_of,
    with_points,
    without,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtproxy.base.addresses import Address
    from mtproxy.base.server_settings import ServerSettings
    from mtproxy.proxy.server import Server
    from mtproxy.sync.locks import Lock

#: a ring of which more than this share changes is made anew
_RENEW = 4


def _refusal(affinity: str, full: Full) -> Full | None:
    """When a stream's own server is not good enough (`hash-preserve-affinity`); None: never."""
    if affinity == "always":
        return None
    if affinity == "maxconn":
        return full

    def queue_is_full(server: Server) -> bool:
        limit = server.limit
        return limit is not None and 0 < limit.maxqueue <= limit.waiting.length and full(server)

    return queue_is_full


class Consistent(Balancer):
    """The algorithm at work in one backend. See the module."""

    __slots__ = (
        "_affinity",
        "_asks_always",
        "_below",
        "_factor",
        "_hash_keys",
        "_ids",
        "_keys",
        "_last",
        "_lock",
        "_points",
        "_snapshot",
        "_weights",
    )

    def __init__(
        self,
        lock: Lock,
        ids: Sequence[int],
        addresses: Sequence[Address],
        hash_keys: Sequence[str],
        factor: int = 0,
        *,
        asks_always: bool = False,
        affinity: str = "always",
    ) -> None:
        """`hash_keys`: each server's `hash-key`. `factor` is in percent, 0 for none. `asks_always`:
        a key is looked for, and a turn taken where there is none, even when there is but one
        server.
        """
        self._affinity = affinity
        self._asks_always = asks_always
        self._lock = lock
        self._ids = list(ids)
        self._hash_keys = list(hash_keys)
        self._keys = [key_of(*one) for one in zip(ids, addresses, hash_keys, strict=True)]
        self._weights = [0] * len(self._ids)
        #: by position: as many points as the server ever needed, by number
        self._points: list[list[int]] = [[] for _ in ids]
        #: the point whose turn was last
        self._last: int | None = None
        self._factor = factor
        #: by position: the weights of the servers before it when the backend started; HAProxy's
        self._below: list[int] = []
        #: the ring, and how many servers are on it
        self._snapshot: tuple[Ring, int] = array("Q"), 0

    def update(self, weights: Mapping[int, int]) -> None:
        ring, _ = self._snapshot
        going: list[int] = []
        coming: list[int] = []
        for position, weight in weights.items():
            old = self._weights[position]
            points = self._points[position]
            if weight < old:
                going += points[weight:old]
            elif weight > old:
                if weight > len(points):
                    points += points_of(self._keys[position], position, len(points), weight)
                coming += points[old:weight]
            self._weights[position] = weight
        if not any(self._below):
            self._below = [sum(self._weights[:i]) for i in range(len(self._weights))]
        if (len(going) + len(coming)) * _RENEW > len(ring):
            every = zip(self._points, self._weights, strict=True)
            made = array("Q", sorted([one for points, w in every for one in points[:w]]))
            if going:
                ring = without(ring, going)
                self._pass_over(going, ring)
        else:
            made = ring
            if going:
                made = without(made, going)
                self._pass_over(going, made)
            if coming:
                made = with_points(made, coming)
        self._snapshot = made, sum(map(bool, self._weights))

    def _pass_over(self, gone: list[int], ring: Ring) -> None:
        """The turn of a point that is gone counts as the next one's."""
        last = self._last
        if last is None or last not in gone:
            return
        if not ring:
            self._last = None
            return
        following = bisect_left(ring, last)
        self._last = ring[following if following < len(ring) else 0]

    def resize(self, size: int) -> None:
        more = size - len(self._weights)
        # in place: pickers keep the list of weights
        self._weights += [0] * more
        self._ids += [0] * more
        self._keys += [0] * more
        self._hash_keys += ["id"] * more
        self._points += [[] for _ in range(more)]
        self._below += [sum(self._weights)] * more

    def put(self, position: int, settings: ServerSettings) -> None:
        self._ids[position] = settings.id
        self._hash_keys[position] = settings.hash_key
        self.move(position, settings.address)

    def move(self, position: int, address: Address) -> None:
        key = key_of(self._ids[position], address, self._hash_keys[position])
        if key == self._keys[position]:
            return
        weight = self._weights[position]
        self.update({position: 0})
        self._keys[position] = key
        self._points[position] = []
        self.update({position: weight})

    def _next(self, tid: int, avoid: int, room: Callable[[int], bool]) -> int:
        """The server whose turn it is, for a stream without a key; -1: there is none with `room`.
        The one to `avoid` only if there is no other.
        """
        avoided = -1
        avoided_at: int | None = None
        self._lock.take(tid)
        try:
            ring, _ = self._snapshot
            stop = self._last
            tried: set[int] = set()
            for _ in range(len(ring)):
                last = self._last
                index = 0 if last is None else bisect_right(ring, last)
                self._last = point = ring[index if index < len(ring) else 0]
                if stop is None:
                    stop = point
                position = point & POSITION_MASK
                if position not in tried:
                    if room(position):
                        if position != avoid:
                            return position
                        avoided = position
                        avoided_at = point
                    tried.add(position)
                elif position == avoid:
                    avoided_at = point
                if point == stop:
                    break
            if avoided >= 0:
                self._last = avoided_at
            return avoided
        finally:
            self._lock.drop(tid)

    def _eligible(self, position: int, sessions: int, total: int, served: int) -> bool:
        """Whether a server that has `served` sessions may have one more of the backend's
        `sessions`, this one among them. `total` is the sum of weights.
        """
        slots_in_all = (sessions * self._factor + 99) // 100
        each, rest = divmod(slots_in_all, total)
        weight, below = self._weights[position], self._below[position]
        slots = weight * each + (below + weight) * rest // total - below * rest // total
        return served < (slots or 1)

    def _finder(self, mine: Sequence[Server], full: Full | None) -> Callable[[int, int], int]:
        """A function for one thread: the position of the server that a hash belongs to, other than
        the one to avoid (-1 for none); -1: no server.
        """
        factor, weights = self._factor, self._weights
        refuses = None if full is None else _refusal(self._affinity, full)

        def find(number: int, avoid: int) -> int:
            ring, servers = self._snapshot
            if not servers:
                return -1
            index = index_of(ring, number)
            position = ring[index] & POSITION_MASK
            if servers == 1 or (not factor and refuses is None and position != avoid):
                return position
            own = position
            sessions = total = 0
            if factor:
                sessions = 1 + sum([server.shared.sessions() for server in mine])
                total = sum(weights)
            rejected: set[int] = set()
            while True:
                server = mine[position]
                if (
                    position != avoid
                    and (refuses is None or not refuses(server))
                    and (
                        not factor
                        or self._eligible(position, sessions, total, server.shared.sessions())
                    )
                ):
                    return position
                rejected.add(position)
                if len(rejected) == servers:
                    if refuses is not None and own != avoid:
                        return own
                    # as if looking around the ring had come to its end
                    return ring[-1] & POSITION_MASK
                while position in rejected:
                    index += 1
                    position = ring[index if index < len(ring) else index - len(ring)]
                    position &= POSITION_MASK

        return find

    def picker(
        self,
        servers: Sequence[Server],
        tid: int,
        full: Full | None = None,
        hash_of: HashOf | None = None,
    ) -> Picker:
        mine = tuple(servers)
        find = self._finder(mine, full)
        asks_always = self._asks_always

        def room(position: int) -> bool:
            return full is None or not full(mine[position])

        def pick(stream: Any, avoid: Server | None = None) -> Server | None:
            avoided = -1 if avoid is None else avoid.position
            number = None
            if hash_of is not None:
                alone = self._snapshot[1] == 1 and not asks_always
                number = 0 if alone else hash_of(stream)
            if number is None:
                position = self._next(tid, avoided, room)
            else:
                position = find(number, avoided)
            if position < 0:
                return None
            server = mine[position]
            server.counters.conn_cur += 1
            return server

        return pick

    def _check(self) -> None:
        ring, servers = self._snapshot
        expected = [
            point
            for points, weight in zip(self._points, self._weights, strict=True)
            for point in points[:weight]
        ]
        assert list(ring) == sorted(expected)
        assert servers == sum(map(bool, self._weights))
        assert self._last is None or not ring or self._last in ring
        for position, weight in enumerate(self._weights):
            assert len(self._points[position]) >= weight
            first = points_of(self._keys[position], position, 0, weight)
            assert self._points[position][:weight] == first


class Random(Consistent):
    """`balance random(draws)`: of several servers drawn from the ring the one with the fewest
    sessions for its weight.
    """

    __slots__ = ("_draws",)

    def __init__(
        self,
        lock: Lock,
        ids: Sequence[int],
        addresses: Sequence[Address],
        hash_keys: Sequence[str],
        factor: int = 0,
        draws: int = 2,
    ) -> None:
        super().__init__(lock, ids, addresses, hash_keys, factor)
        self._draws = draws

    def picker(
        self,
        servers: Sequence[Server],
        tid: int,
        full: Full | None = None,
        hash_of: HashOf | None = None,
    ) -> Picker:
        mine = tuple(servers)
        find, weights, draws = self._finder(mine, None), self._weights, self._draws
        bits = random.Random().getrandbits

        def pick(stream: Any, avoid: Server | None = None) -> Server | None:
            avoided = -1 if avoid is None else avoid.position
            best = find(bits(32), avoided)
            if best < 0:
                return None
            for _ in range(draws - 1):
                drawn = find(bits(32), avoided)
                if drawn == best or drawn < 0:
                    continue
                mine_now = mine[drawn].shared.sessions()
                if mine_now * weights[best] <= mine[best].shared.sessions() * weights[drawn]:
                    best = drawn
            server = mine[best]
            if full is not None and full(server):
                return None
            server.counters.conn_cur += 1
            return server

        return pick
