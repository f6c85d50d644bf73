"""Persistence by stick tables: the `stick` rules of one backend on one thread (manual 4.2).

`choose` runs the rules of the request: the entry of a key names the server, and keys to be stored
are noted in the stream. `store` runs those of the response and notes the server that has answered
for all of them. Owner thread only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mtproxy.base.addresses import AddressKind
from mtproxy.proxy.sticktable_side import TableSide
from mtproxy.rules.sticktables import SAMPLE_TYPES, key_of

if TYPE_CHECKING:
    from mtproxy.base.sticktable import StickRule
    from mtproxy.proxy.backend import Backend
    from mtproxy.proxy.server import Server
    from mtproxy.proxy.sticktable import Entry, Key
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Evaluate, Test
    from mtproxy.rules.view import View

#: keys that one stream stores at most; HAProxy's
_MOST = 8

#: keys of one stream that wait for an answer, with their tables
type StickKeys = list[tuple[TableSide, Key]]


class _Rule:
    """One line at work."""

    __slots__ = ("match", "side", "store", "test", "to_key", "value")

    def __init__(self, rule: StickRule, build: Build) -> None:
        table = build.shared.tables[rule.table or build.proxy.name]
        self.side: TableSide = table.side(build.ctx)
        settings = self.side.settings
        self.test: Test | None = None
        if rule.condition is not None:
            self.test = build.condition(rule.condition)
        self.value: Evaluate = build.expression(rule.expression, SAMPLE_TYPES[settings.type])
        self.to_key: Callable[[Any], Key] = key_of(settings)
        self.match = rule.match
        self.store = rule.store

    def key(self, view: View) -> Key | None:
        """The stream's key, if the rule is for it and there is one."""
        if self.test is not None and not self.test(view):
            return None
        value = self.value(view)
        return None if value is None else self.to_key(value)


class Sticking:
    """The rules of `backend`. `persist`: a server that is down is used too (`option persist`)."""

    __slots__ = ("_addresses", "_backend", "_ids", "_names", "_persist", "_request", "_response")

    def __init__(self, rules: tuple[StickRule, ...], build: Build, backend: Backend) -> None:
        self._request = tuple(_Rule(rule, build) for rule in rules if not rule.response)
        self._response = tuple(_Rule(rule, build) for rule in rules if rule.response)
        self._persist = "persist" in build.proxy.options
        self._backend = backend
        self._learn_servers()
        backend.on_servers.append(self._learn_servers)

    def _learn_servers(self) -> None:
        servers = self._backend.servers
        self._ids = {server.settings.id: server for server in servers}
        self._names = {server.name: server for server in servers}
        # the first of those that share an address
        self._addresses = {address_of(server): server for server in reversed(servers)}

    def choose(self, view: Any, assigned: Server | None = None) -> Server | None:
        """Run the rules for the request. `assigned` was chosen before and stays; else the server
        that the first known key is stuck to, if it can be used. It is not taken yet.
        """
        keys: StickKeys = []
        for rule in self._request:
            side = rule.side
            if rule.store and any(other is side for other, _ in keys):
                continue  # only the first of each table
            key = rule.key(view)
            if key is None:
                continue
            if rule.match:
                entry = side.find(key)
                if entry is not None:
                    if assigned is None:
                        assigned = self._server_of(side, entry, forced=view.txn.force_persist)
                        if assigned is not None:
                            view.txn.direct = True  # a cookie need not tell the client
                    side.touch(entry)
            if rule.store and len(keys) < _MOST:
                keys.append((side, key))
        view.stick_keys = keys
        return assigned

    def _server_of(self, side: TableSide, entry: Entry, *, forced: bool) -> Server | None:
        server = None
        key = entry.server_key
        if key is not None:
            known = self._names if side.settings.srvkey == "name" else self._addresses
            server = known.get(key)
        if server is None:
            cell = side.layout.cell("server_id")
            server = None if cell is None else self._ids.get(entry.cells[cell])
        if server is None or not (server.shared.running or self._persist or forced):
            return None
        return server

    def store(self, view: Any) -> None:
        """The server has answered: run the rules for the response, and store."""
        keys: StickKeys = view.stick_keys or []
        view.stick_keys = None
        first = len(keys)
        for rule in self._response:
            side = rule.side
            if any(other is side for other, _ in keys[first:]):
                continue
            key = rule.key(view)
            if key is not None and len(keys) < _MOST:
                keys.append((side, key))
        server: Server | None = view.srv
        if server is None or server.settings.non_stick:
            return
        for side, key in keys:
            by_name = side.settings.srvkey == "name"
            side.stick(key, server.settings.id, server.name if by_name else address_of(server))


def address_of(server: Server) -> str:
    """A server's address as `srvkey addr` writes it."""
    address = server.shared.address
    if address.kind in (AddressKind.UNIX, AddressKind.ABNS):
        return f"abns@{address.host}" if address.kind is AddressKind.ABNS else address.host
    if address.port_offset is not None:
        return f"{address.host}:{address.port_offset:+d}"
    return f"{address.host}:{address.port}"
