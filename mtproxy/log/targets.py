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

from mtproxy.base.settings import Address, AddressKind, LogSettings

DEFAULT_SYSLOG_PORT = 514

#: a UNIX log socket that is gone is looked for again at most this often, in seconds
RECONNECT_INTERVAL = 0.1


class LogTarget(ABC):
    """Where messages go. `sent` and `dropped` count messages.

    `waiting` holds what one turn of the thread's loop has logged; `flush` sends it at the end of the
    turn. The receiver is then woken once for many messages instead of once for each, which
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


class UdpTarget(LogTarget):
    """A connected UDP socket: no route look-up per message, and refusals are reported to us."""

    __slots__ = ("_send", "_sock")

    def __init__(self, name: str, family: int, host: str, port: int) -> None:
        super().__init__(name)
        self._sock = socket.socket(family, socket.SOCK_DGRAM)
        self._sock.setblocking(False)
        try:
            self._sock.connect((host, port))
        except OSError:
            self._sock.close()
            raise
        self._send = self._sock.send

    def send(self, message: bytes) -> None:
        try:
            self._send(message)
        except ConnectionRefusedError:
            # The error belongs to the message before (an ICMP answer came back for it); this one
            # was not sent.
            self.dropped += 1
            try:
                self._send(message)
            except OSError:
                self.dropped += 1
            else:
                self.sent += 1
        except OSError:
            self.dropped += 1
        else:
            self.sent += 1

    def flush(self) -> None:
        """As the general one; written out because it runs for every request."""
        waiting = self.waiting
        if waiting:
            send = self._send
            for message in waiting:
                try:
                    send(message)
                except OSError:
                    self.send(message)  # counts it, and tries once more where that helps
                else:
                    self.sent += 1
            waiting.clear()

    def close(self) -> None:
        self._sock.close()


class UnixTarget(LogTarget):
    """A UNIX datagram socket; connects again when the log daemon has been restarted.

    It may be created before the daemon: messages are dropped until its socket exists.
    """

    __slots__ = ("_clock", "_next_try", "_path", "_sock")

    def __init__(
        self, name: str, path: str | bytes, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(name)
        self._path = path
        self._clock = clock
        self._next_try = 0.0
        self._sock: socket.socket | None = None
        self._connect()

    def _connect(self) -> bool:
        now = self._clock()
        if now < self._next_try:
            return False
        self._next_try = now + RECONNECT_INTERVAL
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sock.setblocking(False)
        try:
            sock.connect(self._path)
        except OSError:
            sock.close()
            return False
        self._sock = sock
        return True

    def send(self, message: bytes) -> None:
        sock = self._sock
        if sock is not None:
            try:
                sock.send(message)
            except (BlockingIOError, InterruptedError):
                self.dropped += 1
                return
            except OSError as error:
                # EMSGSIZE and ENOBUFS concern this message alone; the rest says that the daemon
                # went away.
                if not isinstance(error, ConnectionError) and error.errno not in _GONE:
                    self.dropped += 1
                    return
                sock.close()
                self._sock = None
            else:
                self.sent += 1
                return
        if not self._connect():
            self.dropped += 1
            return
        assert self._sock is not None
        try:
            self._sock.send(message)
        except OSError:
            self.dropped += 1
        else:
            self.sent += 1

    def close(self) -> None:
        if self._sock is not None:
            self._sock.close()
            self._sock = None


_GONE = frozenset({errno.ENOTCONN, errno.ENOENT, errno.EPIPE})


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
        mode = os.fstat(fd).st_mode
        if stat.S_ISSOCK(mode):
            self._sock = sock = socket.socket(fileno=os.dup(fd))
            flags = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
            self._write: Callable[[bytes], int] = lambda data: sock.send(data, flags)
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
    match address.kind:
        case AddressKind.IPV4 | AddressKind.UDP4:
            return UdpTarget(
                name, socket.AF_INET, address.host, address.port or DEFAULT_SYSLOG_PORT
            )
        case AddressKind.IPV6 | AddressKind.UDP6:
            return UdpTarget(
                name, socket.AF_INET6, address.host, address.port or DEFAULT_SYSLOG_PORT
            )
        case AddressKind.UNIX:
            return UnixTarget(name, address.host)
        case AddressKind.ABNS:
            return UnixTarget(name, b"\0" + os.fsencode(address.host))
        case AddressKind.FD:
            return StreamTarget(name, address.fd)
