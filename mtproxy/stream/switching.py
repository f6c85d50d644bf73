"""Connections of `mode tcp` that may become HTTP: by `tcp-request content switch-mode http`, or
because the backend that was chosen is of `mode http` (manual 4.2).

What was read goes to the HTTP side as its first bytes. A `SwitchingTcp` is laid out as an HTTP
stream, so that the object stays: its connection, task, session and counters go on. The first
request meets the frontend's rules about HTTP but not those about content once more, nor
`use_backend` where that has chosen; later ones meet them all. Owner thread only.
"""

from __future__ import annotations

from mtproxy.http.h1_request import RequestHead
from mtproxy.stream.http import HttpStream
from mtproxy.stream.proxied import Proxied
from mtproxy.stream.request_body import RequestBody
from mtproxy.stream.rules import Route
from mtproxy.stream.tcp import TcpStream

#: of a `Transaction`: what rules about content may have set
_CARRIED = (
    "extra",
    "limits",
    "log_level",
    "nice",
    "priority_class",
    "priority_offset",
    "req_vars",
    "txn_vars",
)


class SwitchingTcp(TcpStream, HttpStream):  # type: ignore[misc]
    """A session of `mode tcp` until it becomes HTTP. The methods are those of TCP."""

    __slots__ = ()

    async def switch(self, route: Route) -> None:
        room = self.room
        first = self.txn.payload if room.ruled else b""
        self.room = room.switched(route.name)
        self.conf = self.room.conf
        self.conn.tasklet = self.task
        self.__class__ = SwitchedHttp  # type: ignore[assignment]
        await HttpStream.run(self, first)


class ProxiedSwitching(Proxied, SwitchingTcp):  # type: ignore[misc]
    """The same behind a PROXY header."""

    __slots__ = ()

    async def run(self) -> None:  # type: ignore[override]
        if await self.begin_session():
            await SwitchingTcp.run(self)


class SwitchedHttp(HttpStream):
    """An HTTP stream at its first request."""

    __slots__ = ()

    def begin_rules(self, request: RequestHead | None, body: RequestBody | None = None) -> None:
        """What rules about content have set and chosen is still there."""
        before = getattr(self, "txn", None)
        super().begin_rules(request, body)
        if before is not None:
            for name in _CARRIED:
                setattr(self.txn, name, getattr(before, name))

    async def _transaction(self, request: RequestHead, rest: bytes) -> bytes | None:
        try:
            return await super()._transaction(request, rest)
        finally:
            self.__class__ = HttpStream  # type: ignore[assignment]
            self.room = self.listener.front.http or self.room
            self.conf = self.room.conf
