"""One thread's runtime objects of one listener: what `start_session` finds for a new connection.

`FrontRoom` ties a frontend's own side on this thread to its configuration, its balancer and the
other threads' counters (which are only read). `Room` is everything of one thread. Built by boot
before the thread's loop runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.http.cache import HeadCache

if TYPE_CHECKING:
    from mtproxy.log.logger import Logger, ThreadLogs
    from mtproxy.net.listener import Acceptor
    from mtproxy.proxy.backend import Backend
    from mtproxy.proxy.counters import FrontendCounters
    from mtproxy.proxy.frontend import Frontend
    from mtproxy.sched.context import ThreadContext
    from mtproxy.stream.conf import BackConf, FrontConf
    from mtproxy.stream.stream import Stream


class FrontRoom:
    """A frontend on one thread.

    `all_counters` holds the counters of this frontend on every thread, complete before traffic.
    """

    __slots__ = (
        "acceptors",
        "all_counters",
        "backend",
        "bconf",
        "cache",
        "conf",
        "frontend",
        "listener_id",
        "room",
        "streams",
    )

    def __init__(
        self,
        room: Room,
        frontend: Frontend,
        conf: FrontConf,
        backend: Backend | None,
        bconf: BackConf | None,
        all_counters: list[FrontendCounters],
    ) -> None:
        self.room = room
        self.frontend = frontend
        self.conf = conf
        self.backend = backend
        self.bconf = bconf
        self.cache = room.cache
        self.all_counters = all_counters
        self.listener_id = 1
        #: live client connections of this thread
        self.streams: set[Stream] = set()
        self.acceptors: list[Acceptor] = []

    def sessions(self) -> int:
        """Connections of this frontend over all threads; off by those that change just now."""
        return sum([c.conn_cur for c in self.all_counters])

    def after_session(self, ctx: ThreadContext) -> None:
        """A connection has ended: a paused listener may have room again; a stopping thread may end."""
        self.room.after_session(ctx)


class Room:
    """All runtime objects of one thread."""

    __slots__ = (
        "acceptors",
        "backend_logs",
        "backends",
        "cache",
        "fronts",
        "quiet",
        "thread_logs",
    )

    thread_logs: ThreadLogs

    def __init__(self, max_headers: int) -> None:
        #: say nothing on standard error
        self.quiet = False
        #: loggers for changes of state, by backend
        self.backend_logs: dict[str | None, Logger] = {}
        self.cache = HeadCache(max_headers)
        self.fronts: dict[str, FrontRoom] = {}
        self.backends: dict[str, Backend] = {}
        self.acceptors: list[Acceptor] = []

    def after_session(self, ctx: ThreadContext) -> None:
        for acceptor in self.acceptors:
            if acceptor.paused and not ctx.pool.stopping and acceptor.room_left() > 0:
                acceptor.resume()
