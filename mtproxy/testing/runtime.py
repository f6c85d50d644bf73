"""A `stats.runtime.Runtime` over real proxies without any thread or socket, for tests of reports
and runtime commands.
"""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

from mtproxy.base.addresses import Address, AddressKind, BindSettings
from mtproxy.base.clock import monotonic_ms
from mtproxy.base.server_settings import (
    CheckSettings,
    NameServer,
    ResolversSettings,
    ServerSettings,
)
from mtproxy.base.settings import GlobalSettings, ProxySettings, Settings, StatsSocket
from mtproxy.boot.build import default_fullconn
from mtproxy.log.ring import BUF0, Ring
from mtproxy.proxy.backend import Backend, BackendShared
from mtproxy.proxy.counters import FrontendCounters
from mtproxy.proxy.dns.section import SectionShared
from mtproxy.proxy.frontend import Frontend
from mtproxy.proxy.quota import Quota
from mtproxy.sched.activity import Activity
from mtproxy.sched.loop import run_some
from mtproxy.stats.runtime import Runtime
from mtproxy.stream.listening import FrontListeners
from mtproxy.testing.tables import make_table


def server(name: str, number: int, **changes: Any) -> ServerSettings:
    """A server on 127.0.0.1, port 8000 + number."""
    address = Address(AddressKind.IPV4, "127.0.0.1", 8000 + number)
    return ServerSettings(name, number, address, **changes)


def example_settings() -> Settings:
    """An HTTP frontend, a TCP `listen`, backends with checked, backup, disabled and no servers."""
    checked = CheckSettings(rise=2, fall=2)
    web = ProxySettings("web", 2, "frontend", mode="http", default_backend="app", maxconn=50)
    app = ProxySettings(
        "app",
        3,
        "backend",
        mode="http",
        servers=(
            server("s1", 1, check=checked),
            server("s2", 2, check=checked, backup=True),
            server("s3", 3, disabled=True, weight=7),
        ),
    )
    raw = ProxySettings("raw", 4, "listen", mode="tcp", servers=(server("t1", 1),))
    off = ProxySettings("off", 5, "frontend", disabled=True)
    empty = ProxySettings("empty", 6, "backend", mode="http", balance="leastconn")
    socket = StatsSocket(BindSettings(Address(AddressKind.UNIX, "/run/x.sock"), level="admin"))
    return Settings(
        GlobalSettings(node="box", stats_sockets=(socket,)), (web, app, raw, off, empty)
    )


def fake_context(tid: int, pool: Any) -> Any:
    """What reports read of a ThreadContext."""
    ctx = SimpleNamespace(
        tid=tid,
        pool=pool,
        now=monotonic_ms(),
        activity=Activity(),
        cpu_ns=0,
        loop_ns=0,
        urgent=deque(),
        normal=deque(),
        bulk=deque(),
        tasklets=set(),
        pipe_size=0,
        room=SimpleNamespace(acceptors=[], fronts={}, after_session=lambda ctx, wanted: None),
        fdtab={},
        running=None,
        run_some=run_some,
        task_profile=None,
        pipes=[],
        inbox=[],
        shared=SimpleNamespace(tid=tid, conns=0, inbox=deque(), sleeping=True),
    )
    return ctx


class FakePool:
    """Contexts without threads; messages to a thread run at once."""

    def __init__(self, nbthread: int) -> None:
        self.nbthread = nbthread
        self.stopping = False
        self.leaving = False
        self.task_profiling = "off"
        self.contexts = [fake_context(tid, self) for tid in range(nbthread)]

    def run_on(self, tid: int, message: Any) -> None:
        message(self.contexts[tid])

    def run_everywhere(self, message: Any) -> None:
        for ctx in self.contexts:
            message(ctx)


def make_runtime(settings: Settings | None = None, nbthread: int = 2) -> Runtime:
    """A runtime with every thread's side of all proxies; notifications go to `runtime.notified`."""
    settings = settings or example_settings()
    runtime = RecordingRuntime(settings, FakePool(nbthread), maxconn=1000, ulimit_n=2040)
    now = monotonic_ms()

    def notify(_ctx: Any, level: int, text: str) -> None:
        runtime.notified.append((level, text))

    shared = {
        p.name: BackendShared(p, now, notify, default_fullconn(settings, p, runtime.maxconn))
        for p in settings.proxies
        if p.is_backend and not p.disabled
    }
    runtime.set_backends(shared)
    runtime.rings = {ring.name: Ring(ring) for ring in (BUF0, *settings.rings)}
    runtime.front_listeners = {
        p.name: FrontListeners(p, Quota(p.maxconn or 1 << 40), 1 << 40)
        for p in settings.proxies
        if p.is_frontend and not p.disabled
    }
    nameserver = NameServer("ns1", Address(AddressKind.UDP4, "127.0.0.1", 53))
    section = ResolversSettings("dns", (nameserver,))
    runtime.resolvers = {"dns": SectionShared(section, 0)}
    runtime.tables = {"app": make_table(store="gpc0,http_req_rate", kind="ip", name="app")}
    counters: dict[str, list[FrontendCounters]] = {p.name: [] for p in settings.proxies}
    for tid in range(nbthread):
        backends = [Backend(one, tid) for one in shared.values()]
        frontends = [
            Frontend(p, tid, None, counters[p.name])
            for p in settings.proxies
            if p.is_frontend and not p.disabled
        ]
        runtime.add_thread(frontends, backends)
    return runtime


class RecordingRuntime(Runtime):
    """A Runtime that remembers what backends announced."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.notified: list[tuple[int, str]] = []
