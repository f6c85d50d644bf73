"""From the addresses of the configuration to sockets: families, sockaddrs, listening sockets.

Called at start, on the main thread, and for the text forms of peers.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
from collections.abc import Callable

from mtproxy.base.addresses import Address, AddressKind, BindSettings

#: what SO_DEFER_ACCEPT waits for the first bytes, seconds (HAProxy's fixed value)
DEFER_ACCEPT_S = 1
SO_BINDTODEVICE = 25
#: linux/netfilter_ipv4.h
_SO_ORIGINAL_DST = 80
# numbers of linux/in.h and linux/tcp.h that the socket module does not name
IP_BIND_ADDRESS_NO_PORT = 24
_TCP_FASTOPEN_CONNECT = 30
_TCP_REPAIR = 19
_IPV6_UNICAST_HOPS = 16
_IP_TRANSPARENT = 19
_IP_FREEBIND = 15
_IPV6_TRANSPARENT = 75
#: SO_LINGER for a close that resets
LINGER_RESET = struct.pack("ii", 1, 0)

#: settings of a socket as setsockopt() takes them: level, name, value
type SocketOptions = tuple[tuple[int, int, int], ...]
type SockAddr = tuple[str, int] | tuple[str, int, int, int] | str | bytes


class BindError(Exception):
    """A listener could not be set up; the text says which and why."""


def sockaddr(address: Address, port: int | None = None) -> tuple[int, SockAddr]:
    """(family, address for connect/bind). `port` overrides the address's own."""
    use_port = address.port if port is None else port
    match address.kind:
        case AddressKind.IPV4 | AddressKind.UDP4:
            return socket.AF_INET, (address.host, use_port)
        case AddressKind.IPV6 | AddressKind.UDP6:
            return socket.AF_INET6, (address.host, use_port, 0, 0)
        case AddressKind.UNIX:
            return socket.AF_UNIX, address.host
        case AddressKind.ABNS:
            return socket.AF_UNIX, abstract_name(address.host)
        case AddressKind.FD:
            raise ValueError("an inherited descriptor has no socket address")
        case AddressKind.NONE:
            # who connects to a server by force may meet it: no reason to fail in another way
            raise OSError(errno.EDESTADDRREQ, "the server's name has no address")
    raise AssertionError(address.kind)


def abstract_name(name: str) -> bytes:
    """An abstract socket's name as HAProxy makes it: padded with NUL to the full length."""
    return b"\0" + os.fsencode(name)[:107].ljust(107, b"\0")


#: told what a listener has to do without, in HAProxy's words
type Warn = Callable[[str], None]


def _passed_over(_text: str) -> None:
    """For those who do not want to know."""


def listen(
    bind: BindSettings, backlog: int, *, reuse_port: bool = True, warn: Warn = _passed_over
) -> socket.socket:
    """A non-blocking listening socket for `bind`. Raises BindError.

    What the system does not let a listener have (an interface, a segment size) it goes without, as
    in HAProxy, and `warn` is told. `reuse_port` off is `noreuseport`: no other process may
    listen on the address at the same time.
    """
    address = bind.address
    try:
        if address.kind is AddressKind.FD:
            return _listen_inherited(address.fd, bind, backlog, warn)
        family, where = sockaddr(address)
        sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            if family == socket.AF_UNIX:
                _bind_unix(sock, bind, where)
            else:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if reuse_port:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                if family == socket.AF_INET6 and (bind.v6only or bind.v4v6):
                    # v6only wins; with neither of them the system's default holds
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(bind.v6only))
                if bind.interface:
                    _bind_to_device(sock, bind, warn)
                _tcp_options(sock, bind, warn)
                if bind.transparent:
                    _make_transparent(sock)
                # SO_REUSEPORT lets a new process take over from an old one; a foreign owner of
                # the port is still refused by the kernel unless it set the option as well.
                sock.bind(where)
            sock.listen(backlog)
        except BaseException:
            sock.close()
            raise
    except OSError as e:
        raise BindError(_cannot_bind(address, e.strerror or str(e))) from e
    return sock


def receive(bind: BindSettings, *, reuse_port: bool = True) -> socket.socket:
    """A non-blocking socket for datagrams that are sent to `bind`. Raises BindError."""
    family, where = sockaddr(bind.address)
    try:
        sock = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if reuse_port:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6 and (bind.v6only or bind.v4v6):
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(bind.v6only))
            sock.bind(where)
        except BaseException:
            sock.close()
            raise
    except OSError as e:
        raise BindError(_cannot_bind(bind.address, e.strerror or str(e))) from e
    return sock


def _cannot_bind(address: Address, reason: str) -> str:
    """HAProxy's words."""
    match address.kind:
        case AddressKind.UNIX:
            return f"cannot bind UNIX socket ({reason}) [{address.host}]"
        case AddressKind.ABNS:
            return f"cannot bind UNIX socket ({reason}) [abns@{address.host}]"
        case AddressKind.FD:
            return f"cannot bind socket ({reason}) for [{address.text}]"
    return f"cannot bind socket ({reason}) for [{address.host}:{address.port}]"


def _bind_to_device(sock: socket.socket, bind: BindSettings, warn: Warn) -> None:
    name = bind.interface or ""
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_BINDTODEVICE, os.fsencode(name) + b"\0")
    except OSError as e:
        warn(f"cannot bind receiver to device '{name}' ({e.strerror})")


def _listen_inherited(fd: int, bind: BindSettings, backlog: int, warn: Warn) -> socket.socket:
    sock = socket.socket(fileno=fd)
    try:
        sock.setblocking(False)
        if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            sock.listen(backlog)
        _tcp_options(sock, bind, warn)
    except BaseException:
        sock.detach()  # what cannot be used is not ours to close
        raise
    return sock


def _tcp_options(sock: socket.socket, bind: BindSettings, warn: Warn) -> None:
    if sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted sockets inherit it
    wanted: list[tuple[int, int, str]] = []
    if bind.mss is not None:
        wanted.append((socket.TCP_MAXSEG, abs(bind.mss), f"cannot set MSS to {bind.mss}"))
    if bind.tcp_ut:
        text = f"cannot set TCP User Timeout to {bind.tcp_ut}"
        wanted.append((socket.TCP_USER_TIMEOUT, bind.tcp_ut, text))
    if bind.defer_accept:
        wanted.append((socket.TCP_DEFER_ACCEPT, DEFER_ACCEPT_S, "cannot enable DEFER_ACCEPT"))
    if bind.tfo:
        wanted.append((socket.TCP_FASTOPEN, 1000, "cannot enable TCP_FASTOPEN"))
    for name, value, text in wanted:
        if not try_option(sock, socket.IPPROTO_TCP, name, value):
            warn(text)


def _make_transparent(sock: socket.socket) -> None:
    """Accept connections to addresses of other hosts, too; a privilege. Raises OSError."""
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_TRANSPARENT, 1)
    else:
        sock.setsockopt(socket.IPPROTO_IP, _IP_TRANSPARENT, 1)


def _bind_unix(sock: socket.socket, bind: BindSettings, where: SockAddr) -> None:
    """Bind a UNIX socket; a path is put in place by rename so that no client sees it half-made."""
    if isinstance(where, bytes):
        sock.bind(where)
        return
    path = str(where)
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise FileExistsError(17, "a file that is not a socket is in the way")
    except FileNotFoundError:
        pass
    temporary = f"{path}.{os.getpid()}.tmp"
    if os.path.lexists(temporary):
        os.unlink(temporary)
    sock.bind(temporary)
    try:
        # names were looked up when the configuration was read
        if bind.uid is not None or bind.gid is not None:
            uid = -1 if bind.uid is None else bind.uid
            gid = -1 if bind.gid is None else bind.gid
            os.chown(temporary, uid, gid)
        if bind.mode is not None:
            os.chmod(temporary, bind.mode)
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def peer_text(peer: object) -> tuple[str, int]:
    """(host, port) of what accept() or getpeername() returned; ("unix", 0) for UNIX sockets."""
    if isinstance(peer, tuple):
        return peer[0], peer[1]
    return "unix", 0


def original_destination(sock: socket.socket) -> tuple[str, int]:
    """The address the client connected to, before the kernel redirected it (netfilter)."""
    if sock.family == socket.AF_INET:
        try:
            packed = sock.getsockopt(socket.IPPROTO_IP, _SO_ORIGINAL_DST, 16)
        except OSError:
            pass  # nothing was redirected
        else:
            return socket.inet_ntoa(packed[4:8]), int.from_bytes(packed[2:4])
    return peer_text(sock.getsockname())


def keepalive_options(count: int | None, idle: int | None, interval: int | None) -> SocketOptions:
    """`option tcpka` of one side: probes of the kernel after `idle` s, `count` times, every
    `interval` s; None: the system's value.
    """
    probes = (
        (socket.TCP_KEEPCNT, count),
        (socket.TCP_KEEPIDLE, idle),
        (socket.TCP_KEEPINTVL, interval),
    )
    return (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        *((socket.IPPROTO_TCP, name, value) for name, value in probes if value is not None),
    )


def buffer_options(receive: int, send: int) -> SocketOptions:
    """Buffers of the kernel in bytes, 0: the system's own choice (which is then made anew for each
    connection while it lives).
    """
    sizes = ((socket.SO_RCVBUF, receive), (socket.SO_SNDBUF, send))
    return tuple((socket.SOL_SOCKET, name, size) for name, size in sizes if size)


def user_timeout_option(ms: int | None) -> SocketOptions:
    """`tcp-ut`: how long sent data may stay unacknowledged before the kernel gives up."""
    return ((socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, ms),) if ms else ()


#: `tfo` of a server: the first bytes travel with the SYN, connect() succeeds before it was sent
FAST_OPEN: SocketOptions = ((socket.IPPROTO_TCP, _TCP_FASTOPEN_CONNECT, 1),)


def set_options(sock: socket.socket, options: SocketOptions) -> None:
    """Apply `options`; those of TCP are left out on a UNIX socket. Raises OSError."""
    local = sock.family == socket.AF_UNIX
    for level, name, value in options:
        if not (local and level != socket.SOL_SOCKET):
            sock.setsockopt(level, name, value)


def make_foreign(sock: socket.socket, family: int) -> bool:
    """Let `sock` be bound to an address of `family` that is not ours: with the right to, or as far
    as anybody may (packets leave; answers come back only if routes lead here). Whether that worked.
    """
    options = (
        ((socket.IPPROTO_IP, _IP_TRANSPARENT), (socket.IPPROTO_IP, _IP_FREEBIND))
        if family == socket.AF_INET
        else ((socket.IPPROTO_IPV6, _IPV6_TRANSPARENT), (socket.IPPROTO_IP, _IP_FREEBIND))
    )
    return any(try_option(sock, level, name, 1) for level, name in options)


def silence(sock: socket.socket) -> None:
    """Have the peer of an accepted connection not notice that `sock` is closed next.

    With the right to (CAP_NET_ADMIN) the socket is put into repair mode, in which the kernel sends
    nothing at all. Without it the reset gets a TTL of 1 and ends at the first router; peers of the
    local network still see it (manual 4.2, silent-drop). Nothing that can fail here is an error.
    """
    if sock.family == socket.AF_UNIX:
        return
    hops = (socket.IPPROTO_IP, socket.IP_TTL)
    if sock.family == socket.AF_INET6:
        hops = (socket.IPPROTO_IPV6, _IPV6_UNICAST_HOPS)
    # what has come is acknowledged, so that the peer does not send it again
    try_option(sock, socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    try_option(sock, socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
    if not try_option(sock, socket.IPPROTO_TCP, _TCP_REPAIR, 1):
        try_option(sock, *hops, 1)


def try_option(sock: socket.socket, level: int, name: int, value: int | bytes) -> bool:
    """Set an option where the kernel lets us. Whether it did."""
    try:
        sock.setsockopt(level, name, value)
    except OSError:
        return False
    return True
