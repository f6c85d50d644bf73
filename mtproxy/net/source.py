"""Where connections to servers come from: addresses, ports, interfaces (`source`, manual 4.2, 5.2).

A `Source` is made once per server and shared by all threads, their sessions, checks and agents. It
opens sockets that are bound, but not connected. A port of a range stays with its socket and goes
back when that is closed, so that nobody who closes a connection has to know of it.
Any thread; nothing waits. A `PortRange` has no lock: `next()` of a count and `deque.append` and
`popleft` are atomic, and a port is in one place at a time.
"""

from __future__ import annotations

import errno
import itertools
import os
import socket
from collections import deque
from typing import TYPE_CHECKING, Final

from mtproxy.base.addresses import AddressKind
from mtproxy.net.sockets import (
    IP_BIND_ADDRESS_NO_PORT,
    SO_BINDTODEVICE,
    make_foreign,
    try_option,
)

if TYPE_CHECKING:
    from mtproxy.base.addresses import SourceSettings

#: address and port that a connection shall come from although they are not ours
type Outer = tuple[str, int]

#: ports of a range that are tried for one connection (HAProxy's number)
_ATTEMPTS: Final = 10
_INET: Final = {
    AddressKind.IPV4: socket.AF_INET,
    AddressKind.UDP4: socket.AF_INET,
    AddressKind.IPV6: socket.AF_INET6,
    AddressKind.UDP6: socket.AF_INET6,
}

EXHAUSTED: Final = "Source port range exhausted"
CANNOT_BIND: Final = "Can't bind to source address"


class SourceError(OSError):
    """A socket could not be bound to its source. `reason` is HAProxy's word for it; `foreign`: the
    address was to be one of somebody else.
    """

    def __init__(self, number: int, reason: str, *, foreign: bool = False) -> None:
        super().__init__(number, os.strerror(number))
        self.reason = reason
        self.foreign = foreign


class PortRange:
    """Ports from `low` to `high`; the one that has been free for the longest is used next."""

    __slots__ = ("_fresh", "_returned", "_untouched", "high", "low")

    def __init__(self, low: int, high: int) -> None:
        self.low = low
        self.high = high
        # A range may have all the ports there are, and thousands of servers may have one.
        self._fresh = itertools.count(low)
        self._untouched = True
        self._returned: deque[int] = deque()

    def take(self) -> int:
        """A free port, 0 if there is none."""
        if self._untouched:
            port = next(self._fresh)
            if port <= self.high:
                return port
            self._untouched = False
        try:
            return self._returned.popleft()
        except IndexError:
            return 0

    def give(self, port: int) -> None:
        """Give back what `take` returned. The socket that had it must be closed."""
        self._returned.append(port)

    def _check(self) -> None:
        """Raise AssertionError where an invariant does not hold (tests; all threads at rest)."""
        returned = list(self._returned)
        assert len(set(returned)) == len(returned)
        assert all(self.low <= port <= self.high for port in returned)


class PortSocket(socket.socket):
    """A socket that may have a port of a range, which goes back when it is closed."""

    __slots__ = ("_ports", "port")

    def __init__(self, family: int, kind: int) -> None:
        super().__init__(family, kind)
        self._ports: PortRange | None = None
        #: 0: it has none
        self.port = 0

    def borrow(self, ports: PortRange) -> bool:
        """Get a port, after the one it had was given back. Whether there was one."""
        self._give_back()
        self.port = ports.take()
        if not self.port:
            return False
        self._ports = ports
        return True

    def _give_back(self) -> None:
        ports, self._ports = self._ports, None
        if ports is not None:
            ports.give(self.port)
            self.port = 0

    def close(self) -> None:
        super().close()
        self._give_back()


class Source:
    """What one server's connections come from."""

    __slots__ = ("_device", "_family", "_host", "_port", "_socket", "ports", "usesrc")

    def __init__(self, settings: SourceSettings) -> None:
        address = settings.address
        #: that of the address; 0: it is none that a connection could come from
        self._family = _INET.get(address.kind, 0)
        self._host = address.host
        self._port = address.port
        self._device = os.fsencode(settings.interface) + b"\0" if settings.interface else b""
        self.ports: PortRange | None = None
        self._socket: type[socket.socket] = socket.socket
        if settings.high_port:
            self.ports = PortRange(address.port, settings.high_port)
            self._socket = PortSocket
        self.usesrc = settings.usesrc

    def open(self, family: int) -> socket.socket:
        """A non-blocking stream socket for `bind`. Raises OSError."""
        return self._socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)

    def bind(self, sock: socket.socket, outer: Outer | None = None) -> None:
        """Have `sock` (of `open`) connect from here, or from `outer` if that is given. A UNIX
        socket has no source. Raises SourceError.

        An interface that does not exist, or that we may not choose, is passed over, as in HAProxy.
        """
        if sock.family == socket.AF_UNIX:
            return
        if self._device:
            try_option(sock, socket.SOL_SOCKET, SO_BINDTODEVICE, self._device)
        ports = self.ports
        if ports is None:
            # The kernel chooses when the destination is known: one port serves many destinations.
            try_option(sock, socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            self._bind(sock, self._port, outer)
            return
        assert isinstance(sock, PortSocket)
        for attempt in range(_ATTEMPTS):
            if not sock.borrow(ports):
                raise SourceError(errno.EADDRNOTAVAIL, EXHAUSTED, foreign=False)
            try:
                self._bind(sock, sock.port, outer)
            except SourceError:
                # somebody else has the port
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return

    def _bind(self, sock: socket.socket, port: int, outer: Outer | None) -> None:
        family, host = self._family, self._host
        if outer is not None:
            if not family or not make_foreign(sock, family):
                raise SourceError(errno.EPERM, CANNOT_BIND, foreign=True)
            host, port = outer
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
        elif not family:
            return
        try:
            if family != sock.family:
                # what the kernel says of an address that is too short, or of another family
                raise OSError(
                    errno.EINVAL if family == socket.AF_INET else errno.EAFNOSUPPORT, "family"
                )
            if port:
                # beside connections that are over and wait for their last packets
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, port) if family == socket.AF_INET else (host, port, 0, 0))
        except OSError as e:
            number = e.errno or errno.EADDRNOTAVAIL
            raise SourceError(number, CANNOT_BIND, foreign=outer is not None) from None


def open_socket(source: Source | None, family: int) -> socket.socket:
    """A non-blocking stream socket that may come from `source`. Raises OSError."""
    if source is None:
        return socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    return source.open(family)


def source_of(own: SourceSettings | None, backend: SourceSettings | None) -> Source | None:
    """The source of a server: its own, or else its backend's."""
    settings = own or backend
    return None if settings is None else Source(settings)
