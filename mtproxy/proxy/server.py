"""Servers: ServerState, shared by all threads, and Server, each thread's own side of it.

A ServerState is written under its SERVER lock by whichever thread changes it (a health check, the
runtime socket); other threads read single attributes without the lock. After a change the backend
recomputes its usable servers under the LBPRM lock; the two locks are never held together.

A Server belongs to its thread: idle connections, counters, the number of sessions it serves there.
Other threads read its plain counters for reports only.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING, Any

from mtproxy.base.address import dynamic_cookie
from mtproxy.net.source import source_of
from mtproxy.proxy.checkstate import CheckState
from mtproxy.proxy.counters import ServerCounters
from mtproxy.proxy.load import Load
from mtproxy.proxy.observe import Observer
from mtproxy.proxy.queue import releaser
from mtproxy.proxy.slowstart import effective_weight
from mtproxy.proxy.states import (
    CMAINT,
    DRAIN,
    FMAINT,
    IDRAIN,
    IMAINT,
    MAINT,
    RMAINT,
    RUNNING,
    STARTING,
    STOPPED,
)
from mtproxy.sync.labels import LockLabel
from mtproxy.sync.locks import Lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtproxy.base.addresses import Address
    from mtproxy.base.server_settings import ServerSettings
    from mtproxy.net.connection import Connection
    from mtproxy.net.sockets import SocketOptions
    from mtproxy.net.source import Outer, Source
    from mtproxy.proxy.backend import BackendShared
    from mtproxy.proxy.check import Check
    from mtproxy.proxy.dns.servers import Follower
    from mtproxy.proxy.queue import ServerLimit
    from mtproxy.sched.tasklet import Tasklet


#: a `pool-max-conn` above this is as good as none: each thread has its own bound as well
MOST_PERMITS = 1 << 16


class ServerState:
    """One server as all threads see it.

    Its operational `state` and its administrative flags `admin` are HAProxy's (proxy/states.py); in
    maintenance the state is STOPPED. Only proxy/transitions.py changes them.
    """

    __slots__ = (
        "address",
        "admin",
        "agent",
        "agent_address",
        "agent_port",
        "agent_send",
        "backend",
        "check",
        "check_address",
        "check_port",
        "check_task",
        "down_ms",
        "down_transitions",
        "dynamic",
        "epoch",
        "failed_checks",
        "failed_hana",
        "follower",
        "full_name",
        "hostname",
        "id",
        "idle_permits",
        "last_change",
        "limit",
        "lock",
        "name",
        "observer",
        "position",
        "removed",
        "settings",
        "side_counters",
        "sides",
        "source",
        "state",
        "track",
        "trackers",
        "weight",
    )

    def __init__(
        self, settings: ServerSettings, backend: BackendShared, position: int, now: int
    ) -> None:
        self.settings = settings
        self.backend = backend
        #: its number among the servers of the backend's balancer, see `BackendShared`
        self.position = position
        self.name = settings.name
        #: "backend/server"
        self.full_name = f"{backend.name}/{settings.name}"
        self.id = settings.id
        self.address = settings.address
        #: the name that the address is looked up by; of a slot of a SRV name that of its target
        self.hostname = settings.hostname
        #: where connections and checks come from; None: the system chooses
        self.source = source_of(settings.source, backend.settings.source)
        #: follows the name while the proxy runs; set before the threads serve
        self.follower: Follower | None = None
        self.lock = Lock(LockLabel.SERVER)
        self.weight = settings.weight
        #: administrative flags
        self.admin = 0
        #: the health check; of a server that is not checked it is never `enabled`
        self.check = CheckState(
            settings.rise if settings.check is None else settings.check.rise,
            settings.fall if settings.check is None else settings.check.fall,
            configured=settings.check is not None,
            start=settings.states.init_state,
        )
        #: where it goes, None and 0: to the server's own; the operator may change both
        self.check_address = None if settings.check is None else settings.check.address
        self.check_port = 0 if settings.check is None else settings.check.port or 0
        #: the agent check, likewise
        agent = settings.agent
        self.agent = CheckState(1, 1, configured=agent is not None, is_agent=True)
        #: where the agent is, and what it is sent; the operator may change both
        self.agent_address = None if agent is None else agent.address
        self.agent_port = 0 if agent is None else agent.port
        self.agent_send = b"" if agent is None else agent.send
        if settings.disabled:
            self.admin |= CMAINT | FMAINT
            self.check.paused = True
        if settings.unresolved:
            self.admin |= RMAINT
            self.check.paused |= self.check.enabled
        if self.admin & MAINT:
            self.check.health.value = 0
        #: operational state
        self.state = STOPPED if self.admin & MAINT or self.check.down else RUNNING
        #: the server whose state this one follows (`track`), and those that follow this one. Set
        #: before the threads start, then only read
        self.track: ServerState | None = None
        self.trackers: list[ServerState] = []
        #: `pool-max-conn`: an item for each idle connection that may still be kept, on any thread.
        #: Taking one is atomic, so no two threads keep the last one. None: no limit.
        self.idle_permits: deque[None] | None = None
        if settings.pool_max_conn >= 0:
            self.idle_permits = deque([None] * min(settings.pool_max_conn, MOST_PERMITS))
        #: `maxconn`: its places, and who waits for one; None: no limit
        self.limit: ServerLimit | None = None
        #: grows whenever idle connections to the server must not be used any more
        self.epoch = 0
        #: tick of the last change between up, down, stopping, maintenance and drain
        self.last_change = now
        #: time spent down before `last_change`, in ms
        self.down_ms = 0
        #: how often it went down or into maintenance
        self.down_transitions = 0
        #: the task of its health check, for those who want it sooner
        self.check_task: Check | None = None
        #: what traffic says of it (`observe`); None: nobody looks
        self.observer: Observer | None = None
        if settings.states.observe != "none" and settings.check is not None:
            self.observer = Observer(self)
        #: failed checks while it was not yet down
        self.failed_checks = 0
        #: how often traffic showed so many errors that `on-error` was done (`observe`)
        self.failed_hana = 0
        #: added at run time
        self.dynamic = False
        #: removed at run time: its checks end
        self.removed = False
        #: every thread's own side; appended to when a thread learns of the server, then only read
        self.sides: list[Server] = []
        self.side_counters: list[ServerCounters] = []

    def begin_in_maintenance(self) -> None:
        """A server that is added at run time: in maintenance, its checks switched off. Before
        anybody else knows it.
        """
        self.dynamic = True
        self.admin |= FMAINT
        self.state = STOPPED
        for check in (self.check, self.agent):
            check.enabled = False
        self.check.health.value = 0

    @property
    def maint(self) -> bool:
        """In maintenance, for whatever reason."""
        return self.admin & MAINT != 0

    @property
    def drain(self) -> bool:
        """No new sessions but those bound to it; means nothing in maintenance."""
        return self.admin & DRAIN != 0

    @property
    def running(self) -> bool:
        """Up (or not checked), and not in maintenance: those bound to the server may use it."""
        return self.state != STOPPED

    @property
    def usable(self) -> bool:
        """Whether new sessions may be balanced to it."""
        return (
            self.weight > 0
            and self.state in (RUNNING, STARTING)
            and not self.admin & (MAINT | DRAIN)
        )

    @property
    def checked_one(self) -> ServerState:
        """The server at the end of the chain of tracked ones; itself if it tracks none."""
        server = self
        while server.track is not None:
            server = server.track
        return server

    def interval(self, check: CheckState, inter: int, fast: int | None, down: int | None) -> int:
        """Milliseconds to the next check (manual 5.2, table at `inter`)."""
        value = check.health.value
        if check.configured and value == check.health.top:
            return inter
        if self.state == STOPPED and not value:
            return inter if down is None else down
        return inter if fast is None else fast

    def shown_weight(self, now: int) -> int:
        """What reports call the weight: in whole units, less than `weight` in a slow start."""
        scale = self.backend.scale
        return -(-effective_weight(self, scale, now) // scale)

    def down_time(self, now: int) -> int:
        """Milliseconds that the server was down or in maintenance, up to the tick `now`."""
        return self.down_ms if self.running else self.down_ms + now - self.last_change

    def sessions(self) -> int:
        """Sessions on the server now, over all threads; not exact while they come and go."""
        return sum([counters.conn_cur for counters in self.side_counters])

    def _check(self) -> None:
        """Raise AssertionError where an invariant does not hold (tests; all threads at rest)."""
        if self.maint:
            assert self.state == STOPPED
        for check in (self.check, self.agent):
            assert 0 <= check.health.value <= check.health.top
            assert check.configured or not check.enabled
        if self.track is not None:
            assert bool(self.admin & IMAINT) == self.track.maint
            assert bool(self.admin & IDRAIN) == self.track.drain
            if not self.maint and self.track.state == STOPPED:
                assert self.state == STOPPED


def _cookie_key(server: ServerState) -> str | None:
    """The key of a cookie that follows the server's address; see `Server.cookie_key`."""
    proxy, settings = server.backend.settings, server.settings
    key = proxy.dynamic_cookie_key
    if key is None or proxy.cookie is None or not proxy.cookie.dynamic:
        return None
    # one that was given stays
    made = not settings.cookie or settings.cookie == dynamic_cookie(key, settings.address)
    return key if made else None


class Server:
    """One thread's side of a server. Owner thread only, apart from reading counters."""

    __slots__ = (
        "_note_release",
        "_untake",
        "address",
        "backend",
        "cookie",
        "cookie_key",
        "counters",
        "epoch",
        "idle",
        "limit",
        "load",
        "make_header",
        "max_idle",
        "max_reuse",
        "name",
        "observer",
        "outer",
        "permits",
        "position",
        "private",
        "purge_delay",
        "settings",
        "shared",
        "socket_options",
        "socks4",
        "source",
        "tid",
        "watch",
    )

    # How connections are made and kept is worked out by stream.connect.
    #: woken by events on idle connections
    watch: Tasklet
    socket_options: SocketOptions
    source: Source | None
    #: the foreign address that a connection for a stream comes from (`usesrc`); None: from ours
    outer: Callable[[Any], Outer | None] | None
    #: its connections are made for one client, and are of no use to others
    private: bool
    #: the SOCKS4 proxy that connections go through
    socks4: Address | None
    #: idle connections kept on this thread at most
    max_idle: int
    #: how often a connection is used again
    max_reuse: int
    #: ms after which an idle connection is closed
    purge_delay: int

    def __init__(self, shared: ServerState, tid: int) -> None:
        self.shared = shared
        self.observer = shared.observer
        self.backend = shared.backend
        self.settings = shared.settings
        self.name = sys.intern(shared.name)  # immortal: shared without a count
        self.position = shared.position
        self.address = shared.address
        #: what the persistence cookie calls it; empty: nothing
        self.cookie = self.settings.cookie
        #: the cookie is made of this and the address (`cookie ... dynamic`); None: it is not
        self.cookie_key = _cookie_key(shared)
        self.tid = tid
        self._untake = shared.backend.balancer.release_hook()
        self.limit = shared.limit
        self._note_release = self._untake
        if self.limit is not None:
            self._note_release = releaser(self.limit, self._untake, tid)
        self.counters = ServerCounters()
        #: connections that wait for a request, the most recently used last
        self.idle: deque[Connection] = deque()
        self.permits = shared.idle_permits
        #: makes the PROXY header that a connection for a stream begins with; None: there is none
        self.make_header: Callable[[Any], bytes] | None = None
        self.max_reuse = 1 << 62
        #: the epoch of `shared` that `idle` and `address` belong to
        self.epoch = shared.epoch
        shared.sides.append(self)
        shared.side_counters.append(self.counters)
        self.load = Load(self.counters, shared.side_counters)

    def take(self) -> None:
        """A session is given to this server. `Backend.pick` has already done it.

        Where the server has a limit, the session must have its slot.
        """
        self.counters.conn_cur += 1
        self.backend.balancer.take(self.position, self.tid)

    def release(self) -> None:
        """A session that was taken (by `pick` or `take`) leaves this server, and its slot."""
        self.counters.conn_cur -= 1
        if self._note_release is not None:
            self._note_release(self.position)

    def untake(self) -> None:
        """The session that an algorithm gave to this server did not get a slot."""
        self.counters.conn_cur -= 1
        if self._untake is not None:
            self._untake(self.position)

    def adopt_limit(self) -> None:
        """The server has got a limit while the program runs: from here on sessions need a slot."""
        limit = self.shared.limit
        if self.limit is None and limit is not None:
            limit.enter(self.counters.conn_cur, self.tid)
            self.limit = limit
            self._note_release = releaser(limit, self._untake, self.tid)

    def refresh(self) -> list[Connection]:
        """Follow a change of the server; returns the idle connections that the caller must close.

        To be called when `epoch != shared.epoch`; the thread looks about once a second.
        """
        self.epoch = self.shared.epoch
        self.address = self.shared.address
        if self.cookie_key is not None:
            self.cookie = dynamic_cookie(self.cookie_key, self.address)
        stale = list(self.idle)
        self.idle.clear()
        self.return_permits(len(stale))
        return stale

    def look_at_idle(self) -> list[Connection]:
        """The idle connections at some moment. Any thread.

        A deque cannot be copied in one step while its thread changes it: it is tried until it can.
        """
        while True:
            try:
                return list(self.idle)
            except RuntimeError:
                continue

    def take_permit(self) -> bool:
        """Whether `pool-max-conn` lets one more connection become idle; counts it if so."""
        if self.permits is not None:
            try:
                self.permits.pop()
            except IndexError:
                return False
        return True

    def return_permits(self, count: int) -> None:
        """`count` connections have left `idle`."""
        if self.permits is not None:
            for _ in range(count):
                self.permits.append(None)
