"""A connected, non-blocking socket that one thread's poller watches.

It is registered once, edge-triggered, for both directions, and never modified. The poller adds to
`ready`; whoever finds out that the kernel has no more (EAGAIN, a short read, a short write) clears
the bit. A short read clears IN only while no hang-up was reported: an edge-triggered hang-up comes
once. Owner thread only.
"""

from __future__ import annotations

import errno
import os
import select
import socket
from typing import TYPE_CHECKING, Any

from mtproxy.net.sockets import LINGER_RESET, set_options, silence
from mtproxy.net.source import open_socket

if TYPE_CHECKING:
    from mtproxy.net.sockets import SocketOptions
    from mtproxy.net.source import Outer, Source
    from mtproxy.sched.context import ThreadContext
    from mtproxy.sched.tasklet import Tasklet

#: close() sends a reset
# Literals: a constant of a code object is shared by all threads without a fight over its count.
IN = 0x001
OUT = 0x004
ERR = 0x008
HUP = 0x010
RDHUP = 0x2000
#: reading may give something: data, an end, or an error (IN | RDHUP | HUP | ERR)
READABLE = 0x2019
#: the peer will send no more (RDHUP | HUP | ERR)
ENDED = 0x2018
WATCH = IN | OUT | RDHUP | select.EPOLLET
assert (IN, OUT, ERR, HUP, RDHUP) == (
    select.EPOLLIN,
    select.EPOLLOUT,
    select.EPOLLERR,
    select.EPOLLHUP,
    select.EPOLLRDHUP,
)


class Connection:
    """`recv` and `send` are the socket's own, bound once.

    `mark` is for the owner of idle connections.
    Making one raises OSError when the kernel watches no more sockets for this user
    (fs.epoll.max_user_watches) or has no memory; the socket is the caller's to close then.
    """

    __slots__ = (
        "closed",
        "ctx",
        "fd",
        "mark",
        "ready",
        "recv",
        "send",
        "silent",
        "sock",
        "tasklet",
    )

    def __init__(
        self, ctx: ThreadContext, sock: socket.socket, tasklet: Tasklet, ready: int = IN | OUT
    ) -> None:
        self.ctx = ctx
        self.sock = sock
        self.fd = sock.fileno()
        self.tasklet = tasklet
        self.ready = ready
        self.recv = sock.recv
        self.send = sock.send
        self.mark: Any = None
        self.closed = False
        #: the peer must not notice what becomes of it
        self.silent = False
        ctx.epoll.register(self.fd, WATCH)
        ctx.fdtab[self.fd] = self

    def vanish(self) -> None:
        """Make the next close one that the peer does not notice, as far as we may (`silence`)."""
        if not self.closed:
            silence(self.sock)
            self.silent = True

    def close(self) -> None:
        """Close now. Unread input makes the kernel send a reset, as everywhere."""
        if not self.closed:
            self.closed = True
            del self.ctx.fdtab[self.fd]
            self.sock.close()

    def reset(self) -> None:
        """Close with a TCP reset."""
        if not self.closed:
            try:
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
            except OSError as e:
                if e.errno not in (errno.EINVAL, errno.ENOPROTOOPT, errno.EOPNOTSUPP):
                    raise
            self.close()

    def shutdown_write(self) -> None:
        """Tell the peer that nothing more comes. A peer that is gone already is no error."""
        if self.closed or self.silent:
            return
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError as e:
            if e.errno not in (errno.ENOTCONN, errno.EPIPE, errno.ECONNRESET):
                raise

    def connect_error(self) -> int:
        """The errno of a failed connect, 0 when connected, EINPROGRESS while under way."""
        if self.ready & (ERR | HUP):
            err = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            return err or errno.ECONNRESET
        return 0 if self.ready & OUT else errno.EINPROGRESS

    def __repr__(self) -> str:
        bits = [n for n, b in (("in", IN), ("out", OUT), ("end", ENDED)) if self.ready & b]
        return f"<Connection fd={self.fd} {'+'.join(bits) or 'idle'}{' closed' * self.closed}>"


def open_connection(
    ctx: ThreadContext,
    family: int,
    sockaddr: object,
    tasklet: Tasklet,
    options: SocketOptions = (),
    source: Source | None = None,
    outer: Outer | None = None,
) -> Connection:
    """Start connecting to `sockaddr`; `tasklet` is woken when `connect_error()` has an answer.

    Raises OSError where the kernel refuses at once (no descriptor, no route, refused on a UNIX
    socket); SourceError where it cannot come from `source`, or from `outer` in its place.
    """
    sock = open_socket(source, family)
    try:
        if family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if options:
            set_options(sock, options)
        if source is not None:
            source.bind(sock, outer)
        err = sock.connect_ex(sockaddr)  # type: ignore[arg-type]
        if err not in (0, errno.EINPROGRESS):
            raise OSError(err, os.strerror(err))
        return Connection(ctx, sock, tasklet, ready=OUT if err == 0 else 0)
    except BaseException:
        sock.close()
        raise
