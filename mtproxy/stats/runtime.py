"""Where reports find the running program: its settings, pool, proxies and log targets.

`boot` makes one `Runtime` and adds every thread's frontends and backends while the threads set
themselves up; from then on the lists only get read. Reports read other threads' counters without a
lock: each value is exact, their combination is that of a moment that may never have been.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import mtproxy
from mtproxy.proxy.counters import BackendCounters, FrontendCounters
from mtproxy.stats.history import History
from mtproxy.stats.rates import Rates
from mtproxy.stats.totals import Baselines

if TYPE_CHECKING:
    from mtproxy.base.addresses import BindSettings
    from mtproxy.base.settings import ProxySettings, Settings
    from mtproxy.log.logger import ThreadLogs
    from mtproxy.log.ring import Ring
    from mtproxy.proxy.backend import Backend, BackendShared
    from mtproxy.proxy.dns.section import SectionShared
    from mtproxy.proxy.frontend import Frontend
    from mtproxy.proxy.quota import Quota, Rate
    from mtproxy.proxy.server import ServerState
    from mtproxy.proxy.sticktable import StickTable
    from mtproxy.rules.build import RuleShared
    from mtproxy.sched.context import ThreadContext
    from mtproxy.sched.pool import Pool
    from mtproxy.sched.sampler import Sampler
    from mtproxy.stream.listening import FrontListeners

PRODUCT = "mtproxy"
#: date of the version, as `show info` and `-v` print it
RELEASE_DATE = "2026/12/01"

#: frontend states as `show stat` prints them
OPEN, PAUSED, STOPPED = "OPEN", "PAUSED", "STOP"


@dataclass(frozen=True, slots=True)
class ListenerRuntime:
    """A listening socket that is counted by itself (`option socket-stats`)."""

    settings: BindSettings
    #: one set per thread, in any order
    counters: list[FrontendCounters]
    #: where the socket listens, where the configuration does not tell: an inherited descriptor
    address: str = ""

    @property
    def name(self) -> str:
        return self.settings.name or f"sock-{self.settings.id}"


@dataclass(slots=True)
class ProxyRuntime:
    """One section of the configuration at run time, with each thread's side of it."""

    settings: ProxySettings
    #: one per thread, in any order; empty for a backend
    frontends: list[Frontend] = field(default_factory=list)
    #: one per thread, in any order; empty for a frontend
    backends: list[Backend] = field(default_factory=list)
    listeners: list[ListenerRuntime] = field(default_factory=list)
    #: None for a frontend
    shared: BackendShared | None = None
    #: state of the frontend side, changed by single stores
    state: str = OPEN
    #: `set maxconn frontend`; None: as configured
    maxconn: int | None = None

    @property
    def name(self) -> str:
        return self.settings.name

    def frontend_counters(self) -> list[FrontendCounters]:
        """The frontend's counters, one set per thread."""
        return [f.counters for f in self.frontends]

    def backend_counters(self) -> list[BackendCounters]:
        """The backend's counters, its servers' included where those count for it; copies."""
        return [b.totals() for b in self.backends]


class Runtime:
    """The running program, for reports and runtime commands.

    `maxconn` is the process-wide connection limit in force, `hard_maxconn` the highest it may be
    set to, `ulimit_n` the limit of open files, `maxsock` what `hard_maxconn` asks for.
    """

    def __init__(
        self,
        settings: Settings,
        pool: Pool,
        *,
        maxconn: int,
        hard_maxconn: int | None = None,
        ulimit_n: int = 0,
        maxsock: int | None = None,
    ) -> None:
        self.settings = settings
        self.pool = pool
        self.maxconn = maxconn
        #: what `maxconn` was at the start: frontends without one keep it
        self.first_maxconn = maxconn
        self.hard_maxconn = maxconn if hard_maxconn is None else hard_maxconn
        self.ulimit_n = ulimit_n
        self.maxsock = ulimit_n if maxsock is None else maxsock
        self.product = PRODUCT
        self.version = mtproxy.__version__
        self.release_date = RELEASE_DATE
        self.pid = os.getpid()
        self.started_at = time.time()
        self.started_monotonic = time.monotonic()
        self.proxies = [ProxyRuntime(p) for p in settings.proxies if not p.disabled]
        #: listening sockets of the process, runtime sockets included
        self.listeners = 0
        #: one per thread; boot appends
        self.thread_logs: list[ThreadLogs] = []
        #: by name, in the order of the configuration
        self.rings: dict[str, Ring] = {}
        #: stick tables by name, in the order of the configuration
        self.tables: dict[str, StickTable] = {}
        #: resolvers sections by name, in the order of the configuration
        self.resolvers: dict[str, SectionShared] = {}
        #: what the rules of all threads share; None in tests without rules
        self.rules: RuleShared | None = None
        #: listening sockets by frontend
        self.front_listeners: dict[str, FrontListeners] = {}
        #: the limit of connections of the process
        self.process_quota: Quota | None = None
        #: connections and sessions of the process per second
        self.connection_rate: Rate | None = None
        self.session_rate: Rate | None = None
        #: by the word of `set rate-limit`: what sets a limit of the process, per second, 0: none
        self.rate_limits: dict[str, Callable[[int], None]] = {}
        #: servers that are being added or removed: (backend, name) and id; one thread only
        self.changing: dict[tuple[str, str], int] = {}
        #: begins the checks of a server that was added
        self.start_check: Callable[[ServerState, ThreadContext], None] | None = None
        #: the limits of what is not here, as they were set
        self.idle_limits: dict[str, int] = {}
        self.startup_logs: list[str] = []
        self.baselines = Baselines()
        self.rates = Rates(self)
        self.history = History(pool)
        #: counts runtime-socket connections and requests, which belong to no frontend
        self.cli_connections = 0
        #: the profiling session that runs; thread 0 only
        self.sampler: Sampler | None = None

    def reserved_ids(self, backend: str) -> set[int]:
        """Ids of servers of a backend that are just being added or removed."""
        return {number for (name, _), number in self.changing.items() if name == backend}

    def forget_counters(self, proxy: int, server: int) -> None:
        """What was kept by the id of a server that is gone is not that of the next one."""
        self.baselines.forget((proxy, server))
        self.rates.forget(proxy, server)

    def set_backends(self, backends: Mapping[str, BackendShared]) -> None:
        """Say what all threads share of each backend. Before the threads start."""
        for proxy in self.proxies:
            if proxy.settings.is_backend:
                proxy.shared = backends.get(proxy.name)

    def add_thread(
        self,
        frontends: Iterable[Frontend],
        backends: Iterable[Backend],
        thread_logs: ThreadLogs | None = None,
    ) -> None:
        """Add one thread's side of everything; each thread calls it while it sets itself up."""
        for frontend in frontends:
            for proxy in self.proxies:
                if proxy.settings is frontend.settings:
                    proxy.frontends.append(frontend)
        for backend in backends:
            for proxy in self.proxies:
                if proxy.settings is backend.settings:
                    proxy.backends.append(backend)
        if thread_logs is not None:
            self.thread_logs.append(thread_logs)

    def housekeeping(self, _ctx: ThreadContext) -> None:
        """Once a second, on one thread (a `housekeepers` entry of thread 0)."""
        self.rates.sample()
        self.history.sample()

    @property
    def node(self) -> str:
        return self.settings.global_.node or os.uname().nodename

    def proxy(self, name: str) -> ProxyRuntime | None:
        """A proxy by name, or by number when the text is one (`#3` and `3` both work)."""
        for proxy in self.proxies:
            if proxy.name == name:
                return proxy
        number = name.removeprefix("#")
        if number.isascii() and number.isdigit() and len(number) < 10:
            for proxy in self.proxies:
                if proxy.settings.id == int(number):
                    return proxy
        return None

    def frontend(self, name: str) -> ProxyRuntime | None:
        """A proxy with a frontend side by name or number."""
        return self._having("is_frontend", name)

    def backend(self, name: str) -> ProxyRuntime | None:
        """A proxy with a backend side by name or number."""
        return self._having("is_backend", name)

    def _having(self, side: str, name: str) -> ProxyRuntime | None:
        for proxy in self.proxies:
            if proxy.name == name and getattr(proxy.settings, side):
                return proxy
        proxy_by_number = self.proxy(name)
        if proxy_by_number is not None and getattr(proxy_by_number.settings, side):
            return proxy_by_number
        return None

    @property
    def dropped_logs(self) -> int:
        """Log messages lost by all threads."""
        return sum(logs.dropped for logs in list(self.thread_logs))

    @property
    def received_logs(self) -> int:
        """Messages that came in at `log-forward` sections, on all threads."""
        return sum(logs.received for logs in list(self.thread_logs))

    def dropped_on(self, name: str) -> int:
        """Log messages for this target that were lost, by all threads."""
        return sum(logs.dropped_on(name) for logs in list(self.thread_logs))

    @property
    def current_connections(self) -> int:
        """Connections of all frontends at this moment."""
        return sum(f.counters.conn_cur for p in self.proxies for f in p.frontends)
