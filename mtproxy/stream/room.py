"""One thread's runtime objects of one listener: what `start_session` finds for a new connection.

`FrontRoom` ties a frontend's own side on this thread to its configuration, its balancer and the
other threads' counters (which are only read). `Room` is everything of one thread. Built by boot
before the thread's loop runs.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from mtproxy.base.clock import monotonic_ms
from mtproxy.base.report import say
from mtproxy.http.cache import HeadCache
from mtproxy.proxy.counters import FrontendCounters
from mtproxy.stream.rules import Route

if TYPE_CHECKING:
    from mtproxy.log.logger import Logger, ThreadLogs
    from mtproxy.net.listener import Acceptor
    from mtproxy.proxy.backend import Backend
    from mtproxy.proxy.checks.script import Script
    from mtproxy.proxy.dns.section import Section
    from mtproxy.proxy.frontend import Frontend
    from mtproxy.proxy.quota import Quota, Rate
    from mtproxy.proxy.resolver import Resolver
    from mtproxy.rules.view import View
    from mtproxy.sched.context import ThreadContext
    from mtproxy.stream.conf import BackConf, FrontConf
    from mtproxy.stream.rules import SideRules
    from mtproxy.stream.stream import Stream

#: ms between two messages about the same trouble
_TELL_AGAIN = 1000


class FrontRoom:
    """A frontend on one thread."""

    __slots__ = (
        "acceptors",
        "cache",
        "conf",
        "firsts",
        "frontend",
        "http",
        "keeper",
        "mode",
        "plain",
        "room",
        "route",
        "routes",
        "ruled",
        "rules",
        "streams",
        "to_http",
        "told_tick",
    )

    def __init__(
        self,
        room: Room,
        frontend: Frontend,
        conf: FrontConf,
        default: str | None,
        mode: str | None = None,
    ) -> None:
        """`default` is the name of the backend that nothing else chooses. Call `set_rules` next.
        `mode` is another one than the frontend's for connections that have become HTTP.
        """
        self.room = room
        self.mode = frontend.settings.mode if mode is None else mode
        #: what connections of `mode tcp` find that become HTTP; None: none can
        self.http: FrontRoom | None = None
        #: the way of what becomes HTTP by a rule, before its backend is chosen
        self.to_http = Route(conf, None)
        self.to_http.switches = True
        #: the same for their first request, by the name of its backend where that was chosen
        self.firsts: dict[str | None, FrontRoom] = {}
        self.frontend = frontend
        self.conf = conf
        self.cache = room.cache
        self.rules: SideRules | None = None
        #: by the name of the backend, made when first chosen
        self.routes: dict[str | None, Route] = {}
        #: the default one
        self.route = self.route_to(default)
        self.set_rules(None)
        #: live client connections of this thread
        self.streams: set[Stream] = set()
        self.acceptors: list[Acceptor] = []
        #: when `refused` last said something
        self.told_tick = -_TELL_AGAIN

    def set_rules(self, rules: SideRules | None) -> None:
        """The frontend's rules on this thread; its backends have theirs already."""
        self.rules = rules
        self.keeper = None if rules is None else rules.keeper
        default = self.route.name
        self.routes.clear()
        self.route = self.route_to(default)
        #: some request may meet a rule; where it is False, `route` serves them all
        self.ruled = self.route.ruled
        #: request heads go on as they came: nothing is added to them
        self.plain = self.route.plain and not self.ruled

    def route_to(self, name: str | None) -> Route:
        """The way to a backend; to nowhere where there is none of that name and mode."""
        route = self.routes.get(name)
        if route is None:
            room = self.room
            backend = bconf = back = None
            own = incompatible = switches = False
            if name is not None:
                backend = room.backends.get(name)
                bconf = room.confs.get(name)
                if backend is not None and backend.settings.mode != self.mode:
                    switches = self.mode == "tcp" and backend.settings.mode == "http"
                    incompatible = not switches
                    backend = bconf = None
                own = backend is not None and backend.settings is self.frontend.settings
                if backend is not None and not own:
                    back = room.back_rules.get(name)
            route = Route(self.conf, self.rules, backend, bconf, back, own=own)
            route.incompatible = incompatible
            route.switches = switches
            route.name = name
            self.routes[name] = route
        return route

    def choose(self, rules: SideRules, view: View) -> Route:
        """The way that the first `use_backend` line that holds names, else the default one.

        A backend of another mode is not passed over for the default one: the way leads nowhere.
        """
        for choice in rules.use_backend:
            name = choice.chosen(view)
            if name is not None:
                chosen = self.route_to(name)
                found = chosen.backend is not None or chosen.incompatible or chosen.switches
                return chosen if found else self.route
        return self.route

    def switched(self, name: str | None) -> FrontRoom:
        """What a connection finds that becomes HTTP, for its first request: rules about content are
        through, and so is the choice of the backend where one has a `name`.
        """
        http = self.http
        assert http is not None
        first = self.firsts.get(name)
        if first is None:
            default = http.route.name if name is None else name
            first = FrontRoom(http.room, http.frontend, http.conf, default, http.mode)
            rules = http.rules
            if rules is not None:
                rules = copy.copy(rules)
                rules.content = ()
                if name is not None:
                    rules.use_backend = ()
            first.set_rules(rules)
            first.streams = self.streams
            self.firsts[name] = first
        return first

    def refused(self, ctx: ThreadContext, error: OSError) -> None:
        """An accepted connection could not be served: say so, once a second at most."""
        if ctx.now - self.told_tick >= _TELL_AGAIN:
            self.told_tick = ctx.now
            say("alert", f"{self.frontend.name}: accepted connections are closed at once: {error}")


class ListenerRoom:
    """A listening socket on one thread.

    `counters` is None where nobody asks for them (`option socket-stats`). `quotas` are the limits
    that its connections count towards, shared by all threads.
    """

    __slots__ = ("counters", "front", "id", "loads", "name", "quotas", "rates")

    def __init__(
        self,
        front: FrontRoom,
        listener_id: int,
        side_counters: list[FrontendCounters] | None = None,
        quotas: tuple[Quota, ...] = (),
        name: str | None = None,
    ) -> None:
        """`side_counters` are those of all threads, to which the own ones are added; `name` is
        what rules know the listener by.
        """
        self.front = front
        self.id = listener_id
        self.quotas = quotas
        #: the limits per second of the process and of the frontend, shared likewise
        self.rates: tuple[Rate, ...] = ()
        self.name = None if name is None else name.encode("utf-8", "surrogateescape")
        #: the counters of all threads, where there are any
        self.loads = side_counters
        self.counters: FrontendCounters | None = None
        if side_counters is not None:
            self.counters = FrontendCounters()
            side_counters.append(self.counters)

    def leave(self, tid: int) -> bool:
        """Give a connection's places back; whether others were refused meanwhile."""
        wanted = False
        for quota in self.quotas:
            wanted |= quota.leave(tid)
        return wanted


class Room:
    """All runtime objects of one thread."""

    __slots__ = (
        "acceptors",
        "back_rules",
        "backend_logs",
        "backends",
        "cache",
        "check_scripts",
        "confs",
        "count_listeners",
        "count_tick",
        "fronts",
        "listeners",
        "others",
        "others_tick",
        "resolvers",
        "sections",
        "thread_logs",
    )

    thread_logs: ThreadLogs

    def __init__(self, cache: HeadCache) -> None:
        #: loggers for changes of state, by backend
        self.backend_logs: dict[str | None, Logger] = {}
        self.cache = cache
        self.fronts: dict[str, FrontRoom] = {}
        #: by number, in the order of the configuration
        self.listeners: dict[int, ListenerRoom] = {}
        self.backends: dict[str, Backend] = {}
        self.confs: dict[str, BackConf] = {}
        self.resolvers: dict[str, Resolver] = {}
        #: the resolvers sections that look up servers' names on this thread
        self.sections: dict[str, Section] = {}
        #: rules of the backends that have any
        self.back_rules: dict[str, SideRules] = {}
        #: what health checks of a backend's servers do, by its name (proxy.checks)
        self.check_scripts: dict[str, Script] = {}
        self.acceptors: list[Acceptor] = []
        #: some rule asks how many connections a listener has
        self.count_listeners = False
        #: when bytes of sessions that go on are counted next (`option contstats`)
        self.count_tick = 0
        self.others = 0
        self.others_tick = -1

    def look_at_others(self, ctx: ThreadContext) -> None:
        """Count the connections of the other threads; once per tick at most, see proxy.load."""
        self.others_tick = ctx.now
        self.others = 0
        if ctx.pool.nbthread > 1:
            mine = ctx.shared
            self.others = sum([s.conns for s in ctx.pool.shareds if s is not mine])

    def connections(self, ctx: ThreadContext) -> int:
        """Client connections of the whole process; what other threads did may be a tick old."""
        if ctx.now != self.others_tick:
            self.look_at_others(ctx)
        return self.others + ctx.shared.conns

    def after_session(self, ctx: ThreadContext, *, wanted: bool = False) -> None:
        """A connection has ended: a paused listener may have room again.

        `wanted`: some thread found no room, and stopped looking. A connection that the kernel
        reported to that thread alone (EPOLLEXCLUSIVE) must be looked for here.
        """
        for acceptor in self.acceptors:
            if acceptor.paused:
                if not ctx.stopping and not acceptor.gate.full():
                    acceptor.resume()
            elif wanted:
                acceptor.tasklet.wake()


class FrontGate:
    """The connection limits of a listener, of its frontend and of the process, see
    `net.listener.Gate`.

    A connection is counted where it is accepted, and given back where it ends: the counts of single
    threads may be negative, their sum is right. Owner thread only.
    """

    __slots__ = ("counters", "listener", "quotas", "tid")

    def __init__(self, tid: int, listener: ListenerRoom) -> None:
        self.tid = tid
        self.listener = listener
        self.counters = listener.front.frontend.counters
        self.quotas = listener.quotas

    def full(self) -> bool:
        return any(quota.full for quota in self.quotas)

    def admit(self) -> bool:
        for number, quota in enumerate(self.quotas):
            if not quota.enter(self.tid):
                for taken in self.quotas[:number]:
                    taken.leave(self.tid)
                return False
        rates = self.listener.rates
        for number, rate in enumerate(rates):
            if rate.limit and not rate.enter(monotonic_ms(), self.tid):
                for counted in rates[:number]:
                    if counted.limit:
                        counted.cancel(self.tid)
                self.listener.leave(self.tid)
                return False
        return True

    def delay(self) -> int:
        """How many ms to wait for the limits per second, where they may be why nobody is admitted;
        0: there are none.
        """
        return max([rate.delay for rate in self.listener.rates], default=0)

    def cancel(self) -> bool:
        for rate in self.listener.rates:
            if rate.limit:
                rate.cancel(self.tid)
        return self.listener.leave(self.tid)

    def enter(self) -> None:
        self.counters.conn_cur += 1
        self.counters.cum_conn += 1
        counters = self.listener.counters
        if counters is not None:
            counters.conn_cur += 1
            counters.cum_conn += 1
