"""From the addresses of the configuration to sockets: families, sockaddrs, listening sockets.

Called at start, on the main thread, and for the text forms of peers.
"""

from __future__ import annotations

import os
import socket
import stat

from mtproxy.base.settings import Address, AddressKind, BindSettings

#: what SO_DEFER_ACCEPT waits for the first bytes, seconds (HAProxy's fixed value)
DEFER_ACCEPT_S = 1
_SO_BINDTODEVICE = 25

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
    raise AssertionError(address.kind)


def abstract_name(name: str) -> bytes:
    """An abstract socket's name as HAProxy makes it: padded with NUL to the full length."""
    return b"\0" + os.fsencode(name)[:107].ljust(107, b"\0")


def listen(bind: BindSettings, backlog: int) -> socket.socket:
    """A non-blocking listening socket for `bind`. Raises BindError."""
    address = bind.address
    try:
        if address.kind is AddressKind.FD:
            return _listen_inherited(address.fd, bind, backlog)
        family, where = sockaddr(address)
        sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            if family == socket.AF_UNIX:
                _bind_unix(sock, bind, where)
            else:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                if family == socket.AF_INET6:
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if bind.v4v6 else 1)
                if bind.interface:
                    sock.setsockopt(
                        socket.SOL_SOCKET, _SO_BINDTODEVICE, os.fsencode(bind.interface) + b"\0"
                    )
                _tcp_options(sock, bind)
                # SO_REUSEPORT lets a new process take over from an old one; a foreign owner of
                # the port is still refused by the kernel unless it set the option as well.
                sock.bind(where)
            sock.listen(backlog)
        except BaseException:
            sock.close()
            raise
    except OSError as e:
        raise BindError(f"cannot bind socket ({e.strerror or e}) for [{address.text}]") from e
    return sock


def _listen_inherited(fd: int, bind: BindSettings, backlog: int) -> socket.socket:
    sock = socket.socket(fileno=fd)
    try:
        sock.setblocking(False)
        if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            sock.listen(backlog)
        _tcp_options(sock, bind)
    except BaseException:
        sock.detach()  # what cannot be used is not ours to close
        raise
    return sock


def _tcp_options(sock: socket.socket, bind: BindSettings) -> None:
    if sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted sockets inherit it
    if bind.defer_accept:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, DEFER_ACCEPT_S)
    if bind.mss is not None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, abs(bind.mss))
    if bind.tfo:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 1000)


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
    """The address the client connected to."""
    return peer_text(sock.getsockname())


def set_keepalive(sock: socket.socket) -> None:
    """`option tcpka` and its two halves."""
    if sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
