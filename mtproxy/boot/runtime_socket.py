"""The runtime sockets (`stats socket`): listening, the `Runtime` behind them, their acceptors.

All of them are served by thread 0.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from mtproxy.cli.connection import CliGate, CliStarter
from mtproxy.net.listener import Acceptor
from mtproxy.net.sockets import BindError, listen, peer_text
from mtproxy.stats.exporter import Exporter
from mtproxy.stats.runtime import ListenerRuntime, Runtime

if TYPE_CHECKING:
    from mtproxy.base.settings import Settings, StatsSocket
    from mtproxy.boot.build import Shared
    from mtproxy.boot.limits import Limits
    from mtproxy.sched.context import ThreadContext
    from mtproxy.sched.fdtable import FdTable
    from mtproxy.sched.pool import Pool
    from mtproxy.stream.room import Room

#: connections that may wait in the kernel, and that one acceptor takes in a turn
_BACKLOG = 128
_MAX_ACCEPT = 4


@dataclass(frozen=True, slots=True)
class BoundSocket:
    """A runtime socket that listens."""

    settings: StatsSocket
    sock: socket.socket


def bind_all(settings: Settings) -> tuple[list[BoundSocket], list[str]]:
    """Listen on every runtime socket; the second list says what failed."""
    reuse_port = "noreuseport" not in settings.global_.disabled_features
    sockets: list[BoundSocket] = []
    failures: list[str] = []
    for one in settings.global_.stats_sockets:
        try:
            backlog = one.bind.backlog or _BACKLOG
            sockets.append(BoundSocket(one, listen(one.bind, backlog, reuse_port=reuse_port)))
        except BindError as e:
            place = one.bind.location
            failures.append(f"Binding [{place.file}:{place.line}] for frontend GLOBAL: {e}")
    return sockets, failures


def make_runtime(settings: Settings, pool: Pool, shared: Shared, found: Limits) -> Runtime:
    """What reports and commands see of the process. Before the threads start."""
    runtime = Runtime(
        settings,
        pool,
        maxconn=found.maxconn,
        hard_maxconn=found.hard_maxconn,
        ulimit_n=found.ulimit_n,
        maxsock=found.maxsock,
    )
    runtime.set_backends(shared.backends)
    shared.rules.rate = runtime.rates.rate
    runtime.rings = shared.rings
    runtime.tables = shared.rules.tables
    runtime.resolvers = shared.resolvers
    runtime.rules = shared.rules
    shared.runtime = runtime
    shared.rules.services["prometheus-exporter"] = lambda _build: Exporter(runtime)
    runtime.front_listeners = shared.front_listeners
    runtime.process_quota = shared.process_quota
    runtime.connection_rate = shared.connection_rate
    runtime.session_rate = shared.session_rate
    for word, rate in (
        ("connections", shared.connection_rate),
        ("sessions", shared.session_rate),
    ):
        runtime.rate_limits[word] = partial(setattr, rate, "limit")
    runtime.listeners = len(shared.listeners) + len(settings.global_.stats_sockets)
    for number, listener in enumerate(shared.listeners):
        if "socket-stats" in listener.proxy.options:
            proxy = runtime.frontend(listener.proxy.name)
            assert proxy is not None
            counters = shared.listener_counters[number]
            host, port = peer_text(listener.sock.getsockname())
            shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            where = "unix" if host == "unix" else shown
            proxy.listeners.append(ListenerRuntime(listener.bind, counters, where))
    return runtime


def add_thread(ctx: ThreadContext, room: Room, runtime: Runtime) -> None:
    """Show this thread's side of everything to reports. Called on the thread while it sets up."""
    runtime.add_thread(
        [front.frontend for front in room.fronts.values()],
        list(room.backends.values()),
        room.thread_logs,
    )
    if ctx.tid == 0:
        ctx.housekeepers.append(runtime.housekeeping)


class _Listening:
    """A runtime socket that one thread watches: `sched.fdtable` calls it on the thread."""

    __slots__ = ("bound", "runtime", "total")

    def __init__(self, bound: BoundSocket, runtime: Runtime, total: CliGate) -> None:
        self.bound = bound
        self.runtime = runtime
        self.total = total

    def __call__(self, ctx: ThreadContext) -> None:
        settings = self.bound.settings
        gate = CliGate(settings.bind.maxconn or None, self.total)
        starter = CliStarter(self.runtime, settings, gate)
        gate.add(Acceptor(ctx, self.bound.sock, starter, gate, _MAX_ACCEPT, spread=False))


def announce(table: FdTable, runtime: Runtime, sockets: list[BoundSocket]) -> None:
    """Have thread 0 accept runtime connections and serve them. Main thread, before threads start.

    They do not count as the proxy's connections, so that they work when it is full.
    """
    total = CliGate(runtime.settings.global_.stats_maxconn)
    for one in sockets:
        table.insert(one.sock.fileno(), [0], _Listening(one, runtime, total))
    # what paused for want of descriptors tries again
    runtime.pool.contexts[0].housekeepers.append(lambda _ctx: total.resume())
