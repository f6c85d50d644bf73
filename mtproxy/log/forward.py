"""Forwarders: what a ring holds, sent to a server over TCP or a UNIX stream socket (manual 3.9).

One task per `server` line of a ring; all of a ring's run on one thread. Each sends every message in
order, from the oldest that is there, and waits at the ring's end. Two framings (`log-proto`):
`legacy` ends a message with a line feed, `octet-count` puts its length and a blank before it
(RFC 6587).

A lost connection is made again, at most once a second, and goes on with the first message that the
kernel had not taken whole. What was overwritten by then is counted as the ring's `dropped`.
Owner thread only, except for `_wake_from_anywhere`.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from mtproxy.base.addresses import AddressKind
from mtproxy.base.clock import NEVER
from mtproxy.log.targets import DEFAULT_SYSLOG_PORT
from mtproxy.net.connection import ENDED, IN, OUT, READABLE, Connection, open_connection
from mtproxy.net.sockets import sockaddr, user_timeout_option
from mtproxy.net.source import source_of
from mtproxy.sched.tasklet import Task, park

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtproxy.base.log_settings import RingSettings
    from mtproxy.base.server_settings import ServerSettings
    from mtproxy.log.ring import Ring
    from mtproxy.sched.context import ThreadContext

#: a connection is tried at most this often, ms
RECONNECT_MS = 1000
#: bytes read from the ring at a time
CHUNK = 16384


def _legacy(message: bytes) -> bytes:
    return message + b"\n"


def _octet_count(message: bytes) -> bytes:
    return b"%d %b" % (len(message), message)


_FRAMES: dict[str, Callable[[bytes], bytes]] = {"legacy": _legacy, "octet-count": _octet_count}


class Forwarder:
    """Sends one ring's messages to one server. `position` is the next message to send."""

    def __init__(
        self, ctx: ThreadContext, ring: Ring, settings: RingSettings, server: ServerSettings
    ) -> None:
        self.ctx = ctx
        self.ring = ring
        self.settings = settings
        self.server = server
        self.source = source_of(server.source, None)
        self.frame = _FRAMES[server.log_proto]
        self.position = ring.first
        #: connections that were made
        self.connections = 0
        self.task: Task = ctx.spawn(self.run(), f"ring {ring.name}/{server.name}")
        #: a call of `_wake_from_anywhere` is to come
        self._awaited = False

    async def run(self) -> None:
        """Connect, forward, and again; ends with the thread."""
        while True:
            started = self.ctx.now
            try:
                await self._once()
            except (OSError, TimeoutError):
                # A log server that is not there or goes away is no event of this program: the
                # messages stay in the ring, and those that are overwritten are counted.
                pass
            while self.ctx.now < started + RECONNECT_MS:
                await self._wait(started + RECONNECT_MS)

    async def _once(self) -> None:
        family, where = sockaddr(self.server.address, self._port())
        conn = open_connection(
            self.ctx,
            family,
            where,
            self.task,
            user_timeout_option(self.server.tcp_ut),
            self.source,
        )
        try:
            await self._connected(conn)
            self.connections += 1
            await self._forward(conn)
        finally:
            conn.close()

    def _port(self) -> int | None:
        address = self.server.address
        # syslog's, where the line gives none
        path = address.kind in (AddressKind.UNIX, AddressKind.ABNS)
        return None if address.port or path else DEFAULT_SYSLOG_PORT

    async def _connected(self, conn: Connection) -> None:
        deadline = self._deadline(self.settings.connect_timeout)
        while (error := conn.connect_error()) == errno.EINPROGRESS:
            if self.ctx.now >= deadline:
                raise TimeoutError
            await self._wait(deadline)
        if error:
            raise OSError(error, "connect")

    def _deadline(self, timeout: int | None) -> int:
        return NEVER if timeout is None else self.ctx.now + timeout

    async def _wait(self, deadline: int) -> None:
        self.task.set_expire(deadline)
        await park()

    async def _forward(self, conn: Connection) -> None:
        """Send until the server closes. Raises OSError, and TimeoutError when it takes nothing."""
        ring = self.ring
        while _still_open(conn):
            messages, _, lost = ring.read(self.position, CHUNK)
            if lost:
                ring.note_lost(lost)
                self.position += lost
            if messages:
                await self._send(conn, [self.frame(message) for message in messages])
            else:
                if not self._awaited:
                    self._awaited = True
                    ring.wait(self.position, self._wake_from_anywhere)
                await self._wait(NEVER)

    async def _send(self, conn: Connection, frames: list[bytes]) -> None:
        """Send all of them; `position` then stands behind the last that was taken whole."""
        data = memoryview(b"".join(frames))
        sent = 0
        deadline = self._deadline(self.settings.server_timeout)
        try:
            while sent < len(data):
                try:
                    sent += conn.send(data[sent:])
                    deadline = self._deadline(self.settings.server_timeout)
                except BlockingIOError:
                    conn.ready &= ~OUT
                    while not conn.ready & (OUT | ENDED):
                        if self.ctx.now >= deadline:
                            raise TimeoutError from None
                        await self._wait(deadline)
                    if not _still_open(conn):
                        return
        finally:
            for frame in frames:
                sent -= len(frame)
                if sent < 0:
                    break
                self.position += 1

    def _wake_from_anywhere(self) -> None:
        self.ctx.shared.post(self._wake)

    def _wake(self, _ctx: ThreadContext) -> None:
        self._awaited = False
        self.task.wake()


def _still_open(conn: Connection) -> bool:
    """Read and forget what the server says; False when it has closed. Raises OSError."""
    while conn.ready & READABLE:
        try:
            if not conn.recv(CHUNK):
                return False
        except BlockingIOError:
            conn.ready &= ~(IN | ENDED)
    return True


def start_forwarders(
    ctx: ThreadContext, rings: list[tuple[Ring, RingSettings]], nbthread: int
) -> list[Forwarder]:
    """Start those that this thread is to run; every thread calls it while it sets up. Rings are
    spread over the threads.
    """
    return [
        Forwarder(ctx, ring, settings, server)
        for number, (ring, settings) in enumerate(rings)
        if number % nbthread == ctx.tid
        for server in settings.servers
        if not (server.disabled or server.unresolved)
    ]
