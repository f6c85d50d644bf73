"""Senders: one socket or descriptor of one thread, to which a message is written without ever
waiting.

A message that cannot leave at once is dropped and counted in `dropped`; a log server that is slow,
full or gone never costs a worker more than one system call. Each pool thread opens its own targets
(see `logger.ThreadLogs`): no lock, and only the owner calls `send`. Other threads may read the
counters.

Standard output and other inherited descriptors need care. O_NONBLOCK belongs to the open file
description, which we share with the shell and with whatever else writes to the terminal, so it must
not be set on it. Instead:
  - a pipe or a terminal is opened a second time through /proc/self/fd: a description of our own,
    set non-blocking;
  - a socket is written with MSG_DONTWAIT, which is per call;
  - a regular file keeps its description (a second one would have its own offset and overwrite what
    others append); writing to it does not wait for a reader anyway;
  - where the second opening fails (no /proc, no permission on the terminal) poll() is asked before
    each write, which for messages up to PIPE_BUF is as good.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from mtproxy.base.addresses import Address, AddressKind
from mtproxy.base.log_settings import LogSettings

DEFAULT_SYSLOG_PORT = 514

#: a log socket that cannot be connected is tried again at most this often, in seconds
RECONNECT_INTERVAL = 0.1


class LogTarget(ABC):
    """Where messages go. `sent` and `dropped` count messages.

    `waiting` holds what one turn of the thread's loop has logged; `flush` sends it at the end of
    the turn. The receiver is then woken once for many messages instead of once for each, which
    costs more than all the rest of a log line.
    """

    __slots__ = ("dropped", "name", "sent", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.sent = 0
        self.dropped = 0
        self.waiting: list[bytes] = []

    def flush(self) -> None:
        """Send what waits, in order."""
        waiting = self.waiting
        if waiting:
            for message in waiting:
                self.send(message)
            waiting.clear()

    @abstractmethod
    def send(self, message: bytes) -> None:
        """Write one message, newline included. Never blocks and never raises OSError."""

    @abstractmethod
    def close(self) -> None:
        """Give the descriptor back."""


class DatagramTarget(LogTarget):
    """UDP, or a UNIX datagram socket. `address` is what `connect` takes.

    The socket is connected: no look-up of a route or path per message, and refusals are reported to
    us. It is connected again when that breaks: a log daemon that was restarted has a new UNIX
    socket, an interface that came up gives a new source address. The target may be made before any
    of these is there; messages are dropped until then.
    """

    __slots__ = ("_address", "_clock", "_family", "_next_try", "_send", "_sock")

    def __init__(
        self,
        name: str,
        family: int,
        address: tuple[str, int] | str | bytes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(name)
        self._family = family
        self._address = address
        self._clock = clock
        self._next_try = 0.0
        self._sock: socket.socket | None = None
        self._send: Callable[[bytes], int] | None = None
        self._connect()

    def _connect(self) -> Callable[[bytes], int] | None:
        """Try to connect, unless it was tried just now. Returns the new `_send`."""
        now = self._clock()
        if now < self._next_try:
            return None
        self._next_try = now + RECONNECT_INTERVAL
        try:
            sock = socket.socket(self._family, socket.SOCK_DGRAM)
        except OSError:  # no descriptor is left: the next message tries again
            return None
        sock.setblocking(False)
        try:
            sock.connect(self._address)
        except OSError:
            sock.close()
            return None
        self._sock = sock
        self._send = sock.send
        return sock.send

    def send(self, message: bytes) -> None:
        send = self._send or self._connect()
        if send is None:
            self.dropped += 1
            return
        try:
            send(message)
        except OSError as error:
            self._failed(message, error)
        else:
            self.sent += 1

    def flush(self) -> None:
        """As the general one; written out because it runs for every request."""
        waiting = self.waiting
        for message in waiting:
            send = self._send
            if send is None:
                self.send(message)
                continue
            try:
                send(message)
            except OSError as error:
                self._failed(message, error)
            else:
                self.sent += 1
        waiting.clear()

    def _failed(self, message: bytes, error: OSError) -> None:
        """Count what was lost; send `message` again where that helps."""
        if error.errno in _THIS_MESSAGE_ONLY:
            self.dropped += 1
            return
        if self._family != socket.AF_UNIX and error.errno == errno.ECONNREFUSED:
            # The error belongs to the message before, for which an ICMP answer came back; this one
            # has not been sent yet.
            self.sent -= 1
            self.dropped += 1
            again = self._send
        else:
            self.close()
            again = self._connect()
        if again is None:
            self.dropped += 1
            return
        try:
            again(message)
        except OSError:
            self.dropped += 1
        else:
            self.sent += 1

    def close(self) -> None:
        if self._sock is not None:
            self._sock.close()
            self._sock = None
            self._send = None


#: the socket is full, or the message is too long: the next one may pass
_THIS_MESSAGE_ONLY = frozenset(
    {errno.EAGAIN, errno.ENOBUFS, errno.ENOMEM, errno.EMSGSIZE, errno.EINTR}
)


class StreamTarget(LogTarget):
    """An inherited descriptor: pipe, terminal, file or socket. Every message is one write.

    What a full pipe took only in part is finished before the next message, so that lines of this
    thread stay whole.
    """

    __slots__ = ("_fd", "_poll", "_rest", "_sock", "_write")

    def __init__(self, name: str, fd: int) -> None:
        super().__init__(name)
        self._rest = b""
        self._fd = -1
        self._sock: socket.socket | None = None
        self._poll: select.poll | None = None
        try:
            mode = os.fstat(fd).st_mode
        except OSError:  # not open: as a log server that is not there, see DatagramTarget
            self._write: Callable[[bytes], int] = lambda data: os.write(fd, data)
            return
        if stat.S_ISSOCK(mode):
            self._sock = sock = socket.socket(fileno=os.dup(fd))
            flags = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
            self._write = lambda data: sock.send(data, flags)
            return
        writable = fd
        if not stat.S_ISREG(mode):
            try:
                writable = self._fd = os.open(
                    f"/proc/self/fd/{fd}",
                    os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | os.O_APPEND,
                )
            except OSError:
                self._poll = select.poll()
                self._poll.register(fd, select.POLLOUT)
        self._write = lambda data: os.write(writable, data)

    def send(self, message: bytes) -> None:
        try:
            if self._poll is not None and not self._poll.poll(0):
                self.dropped += 1
                return
            if self._rest:
                self._rest = self._rest[self._write(self._rest) :]
                if self._rest:
                    self.dropped += 1
                    return
            written = self._write(message)
        except OSError:
            self.dropped += 1
            return
        self.sent += 1
        if written < len(message):
            self._rest = message[written:]

    def close(self) -> None:
        if self._sock is not None:
            self._sock.close()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def open_target(log: LogSettings) -> LogTarget:
    """The target of a `log` line. Raises OSError when its address cannot be used at all."""
    if log.stdio is not None:
        return StreamTarget(log.stdio, {"stdout": 1, "stderr": 2}[log.stdio])
    address = log.address
    if address is None:
        raise OSError("log line without an address")
    return _open_address(address)


def _open_address(address: Address) -> LogTarget:
    name = address.text or address.host
    host, port = address.host, address.port or DEFAULT_SYSLOG_PORT
    match address.kind:
        case AddressKind.IPV4 | AddressKind.UDP4:
            return DatagramTarget(name, socket.AF_INET, (host, port))
        case AddressKind.IPV6 | AddressKind.UDP6:
            return DatagramTarget(name, socket.AF_INET6, (host, port))
        case AddressKind.UNIX:
            return DatagramTarget(name, socket.AF_UNIX, host)
        case AddressKind.ABNS:
            return DatagramTarget(name, socket.AF_UNIX, b"\0" + os.fsencode(host))
        case AddressKind.FD:
            return StreamTarget(name, address.fd)
        case AddressKind.NONE:
            raise OSError("log line without an address")
