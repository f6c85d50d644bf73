"""Which server a request goes to before the balancing algorithm is asked (manual 4.2).

In this order: `use-server`, the persistence cookie; stick tables come next, see `proxy.sticking`.
One `Persistence` per backend and thread, None for a backend that has nothing of the kind. Owner
thread only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.stream.cookies import PersistenceCookie

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtproxy.proxy.backend import Backend
    from mtproxy.proxy.server import Server
    from mtproxy.rules.tables import Test
    from mtproxy.rules.view import View
    from mtproxy.stream.http_rules import HttpRules
    from mtproxy.stream.rules import BuiltChoice


class Persistence:
    """See the module."""

    __slots__ = (
        "backend",
        "by_name",
        "cookie",
        "persist",
        "rules",
        "use_server",
    )

    def __init__(
        self,
        backend: Backend,
        use_server: Sequence[BuiltChoice],
        rules: Sequence[tuple[bool, Test]] = (),
    ) -> None:
        """`rules` are the `force-persist` (True) and `ignore-persist` lines in their order."""
        settings = backend.settings
        self.backend = backend
        self.use_server = use_server
        self.rules = rules
        self.persist = "persist" in settings.options
        self.by_name: dict[str, Server] = {}
        self.cookie: PersistenceCookie | None = None
        if settings.cookie is not None:
            self.cookie = PersistenceCookie(settings.cookie, persist=self.persist)
        self._learn_servers()
        backend.on_servers.append(self._learn_servers)

    def _learn_servers(self) -> None:
        self.by_name = {server.name: server for server in self.backend.servers}
        if self.cookie is not None:
            self.cookie.learn_servers(self.backend.servers)

    def choose(self, stream: HttpRules) -> Server | None:
        """The server that the request has to go to, not taken; None: the algorithm decides."""
        txn = stream.txn
        forced = False
        for force, test in self.rules:
            if test(stream):
                forced = force
                txn.ignore_persist = not force
                txn.force_persist = force
                break
        server = self.named(stream, forced=forced)
        if self.cookie is not None:
            ignored = server is not None or txn.ignore_persist
            chosen = self.cookie.read(stream, ignored=ignored, forced=forced)
            server = server or chosen
            txn.direct = server is not None
        if server is not None:
            txn.sticks = self.persist or forced
        return server

    def named(self, stream: View, *, forced: bool = False) -> Server | None:
        """The server of the first `use-server` rule that holds and whose server may be asked."""
        for choice in self.use_server:
            name = choice.chosen(stream)
            if name is None:
                continue
            server = self.by_name.get(name)
            if server is None:
                break  # made by a format, and no server of that name
            if server.shared.running or self.persist or forced:
                return server
        return None
