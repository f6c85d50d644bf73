"""Backends: BackendShared, one for all threads, and Backend, each thread's own side of it.

BackendShared knows which servers are usable and feeds them to the balancing algorithm: the active
ones; if none is usable, the first usable backup server, or all of them with `option allbackups`.
Guarded by the LBPRM lock; single attributes may be read without it.

A Backend belongs to its thread: its servers' own sides, its counters and `pick`.

Servers may come and go while traffic flows (`proxy.dynamic`). `BackendShared.servers` is a tuple
that is replaced by one store; who walks over it sees one moment. A server's position is its own as
long as it lives: it is no index of that tuple, positions of removed servers may be free.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mtproxy.base.server_settings import ServerSettings
from mtproxy.proxy.balance import SCALE, Balancer, HashOf, Picker, make_balancer
from mtproxy.proxy.counters import BackendCounters, absorb, combined
from mtproxy.proxy.load import Load
from mtproxy.proxy.queue import BackendQueue, is_full, limited_picker
from mtproxy.proxy.server import Server, ServerState
from mtproxy.proxy.slowstart import effective_weight
from mtproxy.sync.labels import LockLabel
from mtproxy.sync.locks import Lock

if TYPE_CHECKING:
    from mtproxy.base.settings import ProxySettings
    from mtproxy.net.connection import Connection
    from mtproxy.proxy.capture import BadCapture
    from mtproxy.proxy.sticking import Sticking
    from mtproxy.sched.context import ThreadContext

#: syslog severities of the messages about servers
EMERG, ALERT, NOTICE = 0, 1, 5

#: the name of no server
NOSRV = "<NOSRV>"

#: positions of removed servers that are left free, beside as many as there are servers
MOST_HOLES = 64

#: send a message about a server or backend to the backend's log targets (severity, text)
type Notify = Callable[[ThreadContext, int, str], None]


class BackendShared:
    """One backend as all threads see it. Made once, before the threads start.

    `now` is the current tick. `notify` is called, without any lock held, on the thread that made
    the change.
    """

    __slots__ = (
        "_effective",
        "_weights",
        "active",
        "backup",
        "balancer",
        "down_ms",
        "down_transitions",
        "end_sessions",
        "fullconn",
        "hidden",
        "last_change",
        "lock",
        "name",
        "notify",
        "queue",
        "scale",
        "servers",
        "settings",
        "side_counters",
        "sides",
    )

    def __init__(
        self, settings: ProxySettings, now: int, notify: Notify, fullconn: int = 1
    ) -> None:
        """`fullconn` holds where the settings say none."""
        self.settings = settings
        #: sessions from which on servers with `minconn` serve as many as `maxconn` says
        self.fullconn = settings.fullconn or fullconn
        self.name = settings.name
        self.notify = notify
        #: ends all sessions on a server, for a reason of the log (a letter); boot knows how
        self.end_sessions: Callable[[ServerState, str, ThreadContext], None] | None = None
        self.lock = Lock(LockLabel.LBPRM)
        self.servers = tuple(
            ServerState(server, self, position, now)
            for position, server in enumerate(settings.servers)
        )
        #: what no report and no algorithm knows: where all sessions go instead (`dispatch`)
        self.hidden: ServerState | None = None
        if settings.direct is not None:
            self.hidden = ServerState(ServerSettings(NOSRV, 0, settings.direct), self, 0, now)
        #: None: no server has a limit
        self.queue: BackendQueue | None = None
        for server in self.servers:
            if server.settings.maxconn or server.settings.agent is not None:
                # an agent may give one that has none its limit
                self.set_limit(server, server.settings.maxconn, server.settings.minconn)
        size = len(self.servers)
        self.balancer: Balancer = make_balancer(settings, self.lock)
        #: what the balancer's weights are in: parts of one
        self.scale = SCALE if self.balancer.dynamic else 1
        #: how many active and backup servers are usable
        self.active = 0
        self.backup = 0
        #: tick of the last change between up (some usable server) and down
        self.last_change = now
        self.down_ms = 0
        self.down_transitions = 0
        #: every thread's own side; appended to at start-up, then only read
        self.sides: list[Backend] = []
        self.side_counters: list[BackendCounters] = []
        #: weights of usable servers by position in 1/scale, 0 otherwise and where there is none
        self._weights = [0] * size
        #: what the balancer was told
        self._effective = [0] * size
        for server in self.servers:
            self._count(server, now)
        self._choose()

    @property
    def up(self) -> bool:
        """Whether a new session finds a server. A backend without servers counts as up."""
        return bool(self.active or self.backup or not self.servers)

    @property
    def on_backup(self) -> bool:
        """Whether backup servers get the traffic."""
        return not self.active and self.backup > 0

    def set_limit(self, server: ServerState, maxconn: int, minconn: int = 0) -> None:
        """Give a server that has none its limit of connections."""
        if self.queue is None:
            self.queue = BackendQueue(self)
        server.limit = self.queue.add(server, maxconn, minconn)

    def elects(self, server: ServerState) -> bool:
        """Whether the algorithm may choose the server now. Any thread, without the lock."""
        return self._effective[server.position] > 0

    def sessions(self) -> int:
        """Sessions in the backend now, over all threads; not exact while they come and go."""
        return sum([side.counters.conn_cur for side in self.sides])

    def total_weight(self) -> int:
        """The sum of the weights of the servers that get traffic now."""
        return -(-sum(self._effective) // self.scale)

    def down_time(self, now: int) -> int:
        """Milliseconds without a usable server, up to the tick `now`."""
        return self.down_ms if self.up else self.down_ms + now - self.last_change

    def update(self, server: ServerState, ctx: ThreadContext) -> bool:
        """Take into account that `server` has changed. The caller holds no lock.

        Returns whether the backend has just lost its last usable server. The server is read under
        the LBPRM lock: when two threads change one, the later call sees both changes.
        """
        tid = ctx.tid
        self.lock.take(tid)
        try:
            self.balancer.move(server.position, server.address)
            was_up, was_active = self.up, self.active
            self._count(server, ctx.now)
            if self.active and was_active:
                # the common case costs the same for any number of servers
                if not server.settings.backup:
                    self._tell({server.position: self._weights[server.position]})
            else:
                self._choose()
            lost = was_up and not self.up
            if was_up != self.up:
                if lost:
                    self.down_transitions += 1
                else:
                    self.down_ms += ctx.now - self.last_change
                self.last_change = ctx.now
        finally:
            self.lock.drop(tid)
        return lost

    def new_server(self, settings: ServerSettings, ctx: ThreadContext) -> ServerState:
        """Make a server that is not one of the backend's yet; it has a position, and no traffic.

        One thread at a time. It is `publish`ed when all threads have a side of it.
        """
        self.lock.take(ctx.tid)
        try:
            position = self._free_position()
            size = len(self._weights)
            if position == size:
                self._weights.append(0)
                self._effective.append(0)
                self.balancer.resize(size + 1)
            self.balancer.put(position, settings)
        finally:
            self.lock.drop(ctx.tid)
        state = ServerState(settings, self, position, ctx.now)
        state.begin_in_maintenance()
        if settings.maxconn or settings.agent is not None:
            self.set_limit(state, settings.maxconn, settings.minconn)
        return state

    def _free_position(self) -> int:
        """The position of a new server: behind all others, as its place in the order asks for; a
        hole only where more than half of all positions are holes. LBPRM lock held.
        """
        used = {server.position for server in self.servers}
        size = len(self._weights)
        behind = max(used, default=-1) + 1
        if behind < size or size < 2 * len(used) + MOST_HOLES:
            return behind
        return next(i for i in range(size) if i not in used)

    def publish(self, server: ServerState) -> None:
        """Make a server of `new_server` the last one of the backend. One thread at a time."""
        self.servers = (*self.servers, server)

    def withdraw(self, server: ServerState, ctx: ThreadContext) -> None:
        """Take a server that is not usable out of the backend. One thread at a time."""
        self.servers = tuple(one for one in self.servers if one is not server)
        if self.queue is not None and server.limit is not None:
            self.queue.drop(server.limit)
        self.update(server, ctx)

    def recount(self, now: int) -> None:
        """Count all servers anew. Before the threads start."""
        for server in self.servers:
            self._count(server, now)
        self._choose()

    def _count(self, server: ServerState, now: int) -> None:
        """Count `server` as usable or not."""
        weight = effective_weight(server, self.scale, now) if server.usable else 0
        change = bool(weight) - bool(self._weights[server.position])
        self._weights[server.position] = weight
        if server.settings.backup:
            self.backup += change
        else:
            self.active += change

    def _choose(self) -> None:
        """Choose between active and backup servers anew."""
        chosen = [0] * len(self._weights)
        every = bool(self.active) or "allbackups" in self.settings.options
        for server in self.servers:
            weight = self._weights[server.position]
            if weight and server.settings.backup != bool(self.active):
                chosen[server.position] = weight
                if not every:
                    break
        self._tell(
            {i: new for i, new in enumerate(chosen) if new != self._effective[i]},
        )

    def _tell(self, weights: dict[int, int]) -> None:
        for position, weight in weights.items():
            self._effective[position] = weight
        if weights:
            self.balancer.update(weights)

    def _check(self) -> None:
        """Raise AssertionError where an invariant does not hold (tests; all threads at rest)."""
        usable = [server for server in self.servers if server.usable]
        assert self.active == sum(not server.settings.backup for server in usable)
        assert self.backup == sum(server.settings.backup for server in usable)
        for server in self.servers:
            weight = server.weight * self.scale if server.usable else 0
            # less while it is starting
            assert self._weights[server.position] == weight or server.settings.slowstart
            effective = self._effective[server.position]
            assert effective in (0, self._weights[server.position])
            if effective:
                assert server.settings.backup == (not self.active)
        assert bool(self.active or self.backup) == any(self._effective)
        self.balancer._check()


class Backend:
    """One thread's side of a backend. Owner thread only, apart from reading counters.

    `pick(stream, avoid=None)` chooses a server for a new session and takes it (see `Picker`): the
    caller calls `server.release()` once when the session leaves the server, also when connecting
    failed. For a retry on another server: release the old one, then `pick(stream, avoid=old)`.
    """

    __slots__ = (
        "_hash_of",
        "counters",
        "errors",
        "hidden",
        "last_error",
        "load",
        "name",
        "on_servers",
        "pick",
        "pick_any",
        "retired",
        "servers",
        "settings",
        "shared",
        "slots",
        "sticking",
        "tid",
    )

    def __init__(self, shared: BackendShared, tid: int) -> None:
        self.shared = shared
        self.settings = shared.settings
        self.name = sys.intern(shared.name)  # immortal: shared without a count
        self.tid = tid
        self.servers = tuple(Server(state, tid) for state in shared.servers)
        self.hidden: tuple[Server, ...] = (
            () if shared.hidden is None else (Server(shared.hidden, tid),)
        )
        #: by position; where a server has gone, what was there before: it is never picked
        self.slots = self.servers
        #: removed servers that some session has not left yet
        self.retired: list[Server] = []
        #: called when `servers` has changed, for those who keep something by server
        self.on_servers: list[Callable[[], None]] = []
        self.counters = BackendCounters()
        #: replies in place of the built-in ones by status, see rules.reply
        self.errors: dict[int, Any] = {}
        #: the last response that was refused
        self.last_error: BadCapture | None = None
        shared.sides.append(self)
        shared.side_counters.append(self.counters)
        self.load = Load(self.counters, shared.side_counters)
        self._hash_of: HashOf | None = None
        #: the algorithm's choice; where servers have limits it may be one that has no slot free
        self.pick_any: Picker
        #: ... which this one has taken
        self.pick: Picker
        self.rebind()
        #: the `stick` rules; None where there are none
        self.sticking: Sticking | None = None

    def rebind(self) -> None:
        """Make the picker anew: it keeps methods of the LBPRM lock, which profiling replaces."""
        if self.hidden:
            self.pick = self.pick_any = self._pick_hidden
            return
        limited = self.shared.queue is not None
        self.pick = self.pick_any = self.shared.balancer.picker(
            self.slots, self.tid, is_full if limited else None, self._hash_of
        )
        if limited:
            self.pick = limited_picker(self.pick_any, self.tid)

    def adopt_limit(self, position: int) -> None:
        """A server has got a limit while the program runs."""
        self.slots[position].adopt_limit()
        self.rebind()

    def _pick_hidden(self, stream: Any, avoid: Server | None = None) -> Server | None:
        """`pick` of a backend whose sessions go to no server."""
        server = self.hidden[0]
        server.counters.conn_cur += 1
        return server

    def set_hash(self, hash_of: HashOf | None) -> None:
        """How streams are hashed, where the algorithm chooses by a key."""
        self._hash_of = hash_of
        self.rebind()

    def adopt(self, state: ServerState) -> Server:
        """Make this thread's side of a server of `BackendShared.new_server`."""
        server = Server(state, self.tid)
        slots = list(self.slots)
        slots[state.position : state.position + 1] = [server]
        self.slots = tuple(slots)
        self.servers = (*self.servers, server)
        self._changed()
        return server

    def forget(self, state: ServerState) -> list[Connection]:
        """Drop this thread's side of a server that was withdrawn; returns the idle connections that
        the caller must close. What it has counted stays in the backend's totals.
        """
        stale: list[Connection] = []
        for server in self.servers:
            if server.shared is state:
                stale = server.refresh()
                self.retired.append(server)
        self.servers = tuple(one for one in self.servers if one.shared is not state)
        self._changed()
        return stale

    def _changed(self) -> None:
        self.rebind()
        for told in self.on_servers:
            told()

    def bury(self) -> None:
        """Take over what removed servers have counted, once no session is left on them. To be
        called now and then: a session may still enter its end when it has left.
        """
        left = []
        for server in self.retired:
            if server.counters.conn_cur:
                left.append(server)
            else:
                absorb(self.counters, server.counters)
        self.retired = left

    def totals(self) -> BackendCounters:
        """What this thread has counted, that of its servers included. Any thread."""
        servers = (*self.servers, *self.retired, *self.hidden)
        return combined(self.counters, [server.counters for server in servers])

    def sessions_so_far(self) -> int:
        """How many sessions entered the backend on this thread. Any thread."""
        servers = (*self.servers, *self.retired, *self.hidden)
        return self.counters.cum_sess + sum([s.counters.cum_sess for s in servers])
