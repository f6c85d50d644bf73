"""`balance first`: the server with the lowest id that has room.

What is looked through is a snapshot in the order of ids, made under the LBPRM lock at each change
and swapped by one store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mtproxy.proxy.balance.base import Balancer, Full, HashOf, Picker

if TYPE_CHECKING:
    from mtproxy.base.server_settings import ServerSettings
    from mtproxy.proxy.server import Server
    from mtproxy.sync.locks import Lock


class First(Balancer):
    """The algorithm at work in one backend. See the module."""

    __slots__ = ("_ids", "_order", "_weights")

    def __init__(self, lock: Lock, ids: Sequence[int]) -> None:
        self._ids = list(ids)
        self._weights = [0] * len(self._ids)
        #: positions of usable servers by id
        self._order: tuple[int, ...] = ()

    def update(self, weights: Mapping[int, int]) -> None:
        for position, weight in weights.items():
            self._weights[position] = weight
        usable = [i for i, weight in enumerate(self._weights) if weight]
        self._order = tuple(sorted(usable, key=self._ids.__getitem__))

    def resize(self, size: int) -> None:
        more = size - len(self._weights)
        self._ids += [0] * more
        self._weights += [0] * more

    def put(self, position: int, settings: ServerSettings) -> None:
        self._ids[position] = settings.id

    def picker(
        self,
        servers: Sequence[Server],
        tid: int,
        full: Full | None = None,
        hash_of: HashOf | None = None,
    ) -> Picker:
        mine = tuple(servers)

        def pick(stream: Any, avoid: Server | None = None) -> Server | None:
            avoided = None
            for position in self._order:
                server = mine[position]
                if full is not None and full(server):
                    continue
                if server is not avoid:
                    server.counters.conn_cur += 1
                    return server
                avoided = server
            if avoided is not None:
                avoided.counters.conn_cur += 1
            return avoided

        return pick

    def _check(self) -> None:
        ids = [self._ids[position] for position in self._order]
        assert ids == sorted(ids)
        assert set(self._order) == {i for i, weight in enumerate(self._weights) if weight}
