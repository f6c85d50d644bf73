"""Which server a request goes to before the balancing algorithm is asked (manual 4.2).

In this order: `use-server`, the persistence cookie; stick tables come next, see `proxy.sticking`.
One `Persistence` per backend and thread, None for a backend that has nothing of the kind. Owner
thread only.
"""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING

from mtproxy.stream.cookies import PersistenceCookie
from mtproxy.stream.stream import NOSRV

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtproxy.proxy.backend import Backend
    from mtproxy.proxy.server import Server
    from mtproxy.rules.tables import Evaluate, Test
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


def note_refused(stream: HttpRules) -> None:
    """A rule refuses a request: the log tells of its cookie and names the server that it means."""
    if stream.be is not None:
        bconf = stream.bconf
    else:
        # a `listen` section's own backend is that of its rules
        own = stream.room.route
        if own.backend is None or own.bconf is None or own.backend.name != stream.fe.name:
            return
        bconf = own.bconf
    persistence = bconf.persistence
    if persistence is not None and persistence.cookie is not None:
        found = persistence.cookie.read(stream, ignored=False, forced=False)
        if found is not None and stream.server == NOSRV:
            stream.server = found.name


#: the address and the port as numbers, both in the order of the network
_match_rdp = re.compile(rb"[ \t]*\+?([0-9]{1,20})\.[ \t]*\+?([0-9]{1,20})\.").match


class RdpPersistence:
    """`persist rdp-cookie`: the cookie of the session names the address of its server (manual 4.2).

    The server is not taken yet, and may be one that is down only with `option persist`.
    """

    __slots__ = ("_backend", "_persist", "_value")

    def __init__(self, backend: Backend, value: Evaluate) -> None:
        """`value` gives the cookie of a stream."""
        self._backend = backend
        self._value = value
        self._persist = "persist" in backend.settings.options

    def choose(self, view: View) -> Server | None:
        """The server of the cookie, if there is one and it can be used."""
        value = self._value(view)
        found = _match_rdp(value) if isinstance(value, bytes) else None
        if found is None:
            return None
        number, port = int(found[1]), int(found[2]) & 0xFFFF
        if number > 0xFFFFFFFF:
            return None
        host = socket.inet_ntoa(number.to_bytes(4, "little"))
        port = port >> 8 | (port & 0xFF) << 8
        for server in self._backend.servers:
            address = server.shared.address
            if address.host == host and address.port == port:
                if server.shared.running or self._persist:
                    return server
                return None
        return None
