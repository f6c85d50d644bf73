"""Connections of one thread to the name servers of a section: datagrams, or a TCP stream.

`send` never waits; what a name server says is given to `received` message by message, and what
went wrong is counted. A stream is opened by the first question and again by the next one after it
has ended; its messages have their length in front (RFC 7766). Owner thread only.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from mtproxy.net.connection import OUT, READABLE, Connection, open_connection
from mtproxy.net.sockets import sockaddr
from mtproxy.sched.tasklet import Tasklet

if TYPE_CHECKING:
    from mtproxy.base.server_settings import NameServer
    from mtproxy.sched.context import ThreadContext

#: bytes that may wait for a stream that takes none
_MOST_WAITING = 1 << 20
_LONGEST = 65535
#: what the kernel is asked to keep of answers that come at once
_RECEIVE_BUFFER = 1 << 20
#: messages that are read before the loop has its turn
_AT_ONCE = 256


class Counters:
    """What one thread knows of a name server, as `show resolvers` lists it. Any thread may read."""

    NAMES = (
        "sent",
        "snd_error",
        "valid",
        "update",
        "cname",
        "cname_error",
        "any_err",
        "nx",
        "timeout",
        "refused",
        "other",
        "invalid",
        "too_big",
        "truncated",
        "outdated",
    )
    __slots__ = NAMES

    sent: int
    snd_error: int
    valid: int
    update: int
    cname: int
    cname_error: int
    any_err: int
    nx: int
    timeout: int
    refused: int
    other: int
    invalid: int
    too_big: int
    truncated: int
    outdated: int

    def __init__(self) -> None:
        for name in self.NAMES:
            setattr(self, name, 0)


type Received = Callable[[Channel, bytes], None]


class Channel(Protocol):
    """A way to a name server."""

    nameserver: NameServer
    counters: Counters

    def send(self, wire: bytes) -> bool:
        """Ask; False if it cannot be asked now."""

    def close(self) -> None:
        """End it, for good."""


def open_channel(ctx: ThreadContext, nameserver: NameServer, received: Received) -> Channel:
    """The channel that the name server's address asks for; nothing is opened yet."""
    kind = StreamChannel if nameserver.stream else DatagramChannel
    return kind(ctx, nameserver, received)


class DatagramChannel:
    """UDP."""

    __slots__ = ("_connection", "_received", "_tasklet", "counters", "ctx", "nameserver")

    def __init__(self, ctx: ThreadContext, nameserver: NameServer, received: Received) -> None:
        self.ctx = ctx
        self.nameserver = nameserver
        self.counters = Counters()
        self._received = received
        self._tasklet = Tasklet(ctx, lambda _value: self._read(), "nameserver")
        self._connection: Connection | None = None

    def send(self, wire: bytes) -> bool:
        try:
            if self._connection is None:
                self._connection = self._open()
            self._connection.send(wire)
        except OSError:
            # nobody listens there (the last question was refused), or the kernel has no room
            self.counters.snd_error += 1
            return False
        self.counters.sent += 1
        return True

    def _open(self) -> Connection:
        address = self.nameserver.address
        family, where = sockaddr(address, address.port)
        sock = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
            sock.connect(where)
            return Connection(self.ctx, sock, self._tasklet)
        except BaseException:
            sock.close()
            raise

    def _read(self) -> None:
        connection = self._connection
        if connection is None:
            return
        left = _AT_ONCE
        while connection.ready & READABLE and not connection.closed:
            left -= 1
            if left < 0:
                self._tasklet.wake()
                return
            try:
                data = connection.recv(_LONGEST)
            except OSError:
                connection.ready = OUT  # nothing more, or nobody there: the next question may tell
                return
            self._received(self, data)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class StreamChannel:
    """TCP."""

    __slots__ = (
        "_connection",
        "_input",
        "_output",
        "_received",
        "_tasklet",
        "counters",
        "ctx",
        "nameserver",
    )

    def __init__(self, ctx: ThreadContext, nameserver: NameServer, received: Received) -> None:
        self.ctx = ctx
        self.nameserver = nameserver
        self.counters = Counters()
        self._received = received
        self._tasklet = Tasklet(ctx, lambda _value: self._step(), "nameserver")
        self._connection: Connection | None = None
        self._input = bytearray()
        self._output = bytearray()

    def send(self, wire: bytes) -> bool:
        if len(self._output) > _MOST_WAITING:
            self.counters.snd_error += 1
            return False
        try:
            if self._connection is None:
                address = self.nameserver.address
                family, where = sockaddr(address, address.port)
                self._connection = open_connection(self.ctx, family, where, self._tasklet)
        except OSError:
            self.counters.snd_error += 1
            return False
        self._output += len(wire).to_bytes(2)
        self._output += wire
        self.counters.sent += 1
        self._tasklet.wake()  # what is asked in one turn is sent together
        return True

    def _step(self) -> None:
        connection = self._connection
        if connection is None:
            return
        error = connection.connect_error()
        if error == errno.EINPROGRESS:
            return
        try:
            if error or not (self._read(connection) and self._write(connection)):
                self.close()
        except OSError:
            self.close()

    def _write(self, connection: Connection) -> bool:
        while self._output and connection.ready & OUT:
            try:
                sent = connection.send(self._output)
            except BlockingIOError:
                connection.ready &= ~OUT
            else:
                del self._output[:sent]
        return True

    def _read(self, connection: Connection) -> bool:
        """Whether the name server goes on."""
        left = _AT_ONCE
        while connection.ready & READABLE:
            left -= 1
            if left < 0:
                self._tasklet.wake()
                return True
            try:
                data = connection.recv(_LONGEST)
            except BlockingIOError:
                connection.ready &= OUT
                return True
            if not data:
                return False
            self._input += data
            self._messages()
            if self._connection is not connection:
                return True
        return True

    def _messages(self) -> None:
        begin, whole = 0, self._input
        while len(whole) - begin >= 2:
            end = begin + 2 + int.from_bytes(whole[begin : begin + 2])
            if len(whole) < end:
                break
            self._received(self, bytes(whole[begin + 2 : end]))
            begin = end
        del whole[:begin]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._input.clear()
        self._output.clear()
