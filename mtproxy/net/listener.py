"""Listening: every thread accepts, and a new connection goes to the least loaded thread.

One listening socket is shared by all threads; each thread has its own `Acceptor` for it, registered
level-triggered and exclusive, so that one new connection wakes about one thread. The acceptor
takes a few connections per turn and either starts the session on its own thread or posts it to the
thread with the fewest. A thread's load is what it serves plus what waits in its inbox.

At a limit (`maxconn` of the process or of the frontend) or without descriptors the acceptor leaves
the poller, so that connections wait in the kernel's queue, and comes back within a second at the
latest, or when a session of its thread ends.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from mtproxy.base.clock import NEVER
from mtproxy.base.report import say
from mtproxy.net.connection import IN
from mtproxy.sched.context import shed_here
from mtproxy.sched.tasklet import Task, Tasklet

if TYPE_CHECKING:
    from mtproxy.sched.context import ThreadContext, ThreadShared

_EXCLUSIVE = 1 << 28  # EPOLLEXCLUSIVE
#: errors of accept() that concern the one connection, not the listener
_CONNECTION_ERRORS = frozenset(
    {
        errno.ECONNABORTED,
        errno.EPERM,  # a firewall's rule
        # what accept(2) passes on from the network
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.ENONET,
        errno.ENOPROTOOPT,
        errno.EOPNOTSUPP,
        errno.EPROTO,
        errno.ETIMEDOUT,
    }
)
_NO_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

#: starts a session on the thread that owns the context: (ctx, socket, peer address)
type StartSession = Callable[["ThreadContext", socket.socket, object], None]


class Gate(Protocol):
    """The limits of a listener, as one thread sees them."""

    def full(self) -> bool:
        """Whether there is no room at this moment."""

    def admit(self) -> bool:
        """Take a place for a connection that may be there; False if there is none."""

    def delay(self) -> int:
        """How many ms later to ask again where `admit` said no; 0: there is no telling."""

    def cancel(self) -> bool:
        """Give that place back: there was no connection. Whether others were refused meanwhile, so
        that one may have come.
        """

    def enter(self) -> None:
        """A connection was accepted to that place, whichever thread will serve it."""


class Acceptor:
    """One thread's view of one listening socket.

    `start` is called on the thread that will serve the connection; it may be another thread than
    the acceptor's, and must find its own runtime objects through the context that it is given.
    `gate` knows the limits.
    """

    __slots__ = (
        "ctx",
        "gate",
        "held",
        "max_accept",
        "paused",
        "ready",
        "registered",
        "shareds",
        "sock",
        "start",
        "tasklet",
        "timer",
    )

    def __init__(
        self,
        ctx: ThreadContext,
        sock: socket.socket,
        start: StartSession,
        gate: Gate,
        max_accept: int = 16,
        *,
        spread: bool = True,
        threads: Sequence[int] | None = None,
    ) -> None:
        """`threads` are those that serve its connections, None: all; without `spread` they stay on
        this thread.
        """
        self.ctx = ctx
        self.sock = sock
        self.start = start
        self.gate = gate
        self.max_accept = max_accept
        #: the threads that connections are shared out to
        self.shareds: Sequence[ThreadShared] = ()
        if spread:
            everyone = ctx.pool.shareds
            self.shareds = everyone if threads is None else [everyone[tid] for tid in threads]
        self.ready = 0
        #: made when a limit per second strikes for the first time
        self.timer: Task | None = None
        self.paused = False
        #: paused by hand: does not come back by itself
        self.held = False
        self.registered = False
        self.tasklet = Tasklet(ctx, self.accept_some, "accept")
        self.tasklet.queue = ctx.urgent
        self.resume()

    def resume(self) -> None:
        """Accept (again). Stays paused if the kernel refuses to watch the socket, or while held."""
        if self.held:
            return
        if not self.registered:
            try:
                self.ctx.epoll.register(self.sock.fileno(), IN | _EXCLUSIVE)
            except OSError as e:
                say("alert", f"cannot watch a listening socket, trying again in a second: {e}")
                self.paused = True
                return
            self.registered = True
            self.ctx.fdtab[self.sock.fileno()] = self
        self.paused = False

    def pause(self) -> None:
        """Leave new connections in the kernel's queue until `resume`."""
        self.paused = True
        if self.registered:
            self.registered = False
            self.ctx.epoll.unregister(self.sock.fileno())
            del self.ctx.fdtab[self.sock.fileno()]

    def hold(self) -> None:
        """Pause until `release`, whatever room there is."""
        self.held = True
        self.pause()

    def release(self) -> None:
        """End `hold`."""
        self.held = False
        self.resume()

    def take_rest(self) -> None:
        """Before the socket is closed: take what waits in the kernel's queue, as far as there is
        room. The acceptor is held; no thread accepts on the socket any more.
        """
        while self._accept(self.max_accept):
            pass

    def _again_in(self, delay: int) -> None:
        """Try again after `delay` ms."""
        if self.timer is None:
            self.timer = Task(self.ctx, self._try_again, "accept-later")
        self.timer.set_expire(self.ctx.now + delay)

    def _try_again(self, _value: None) -> None:
        timer = self.timer
        assert timer is not None
        if self.ctx.now >= timer.expire:
            timer.expire = NEVER
            if self.paused and not self.ctx.stopping and not self.gate.full():
                self.resume()

    def accept_some(self, _value: None) -> None:
        """The tasklet: take up to `max_accept` connections."""
        if self.registered:
            self._accept(self.max_accept)

    def _accept(self, count: int) -> bool:
        """Take up to `count` connections; whether there may be more."""
        ctx = self.ctx
        shareds = self.shareds
        mine = ctx.shared
        for _ in range(count):
            if not self.gate.admit():
                self.pause()
                return False
            try:
                sock, peer = self.sock.accept()
            except BlockingIOError:
                if self.gate.cancel():
                    continue
                return False
            except OSError as e:
                self.gate.cancel()
                if e.errno in _CONNECTION_ERRORS:
                    continue
                if e.errno not in _NO_RESOURCES:
                    say("alert", f"cannot accept connections, trying again in a second: {e}")
                elif ctx.shed(ctx):
                    continue
                else:
                    ctx.pool.run_everywhere(shed_here)
                self.pause()
                return False
            sock.setblocking(False)
            ctx.activity.accepted += 1
            self.gate.enter()
            best, load = mine, mine.conns
            for shared in shareds:
                if shared is not mine:
                    other = shared.conns + len(shared.inbox)
                    if other < load:
                        best, load = shared, other
            if best is mine:
                self.start(ctx, sock, peer)
            else:
                ctx.activity.accq_pushed += 1
                best.post(_Handover(self.start, sock, peer))
        return True


class _Handover:
    """A fresh connection on its way to another thread's inbox."""

    __slots__ = ("peer", "sock", "start")

    def __init__(self, start: StartSession, sock: socket.socket, peer: object) -> None:
        self.start = start
        self.sock = sock
        self.peer = peer

    def __call__(self, ctx: ThreadContext) -> None:
        self.start(ctx, self.sock, self.peer)
