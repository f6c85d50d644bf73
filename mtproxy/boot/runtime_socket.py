"""The runtime sockets (`stats socket`): listening, the `Runtime` behind them, their acceptors.

All of them are served by thread 0.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mtproxy.cli.connection import CliGate, CliStarter
from mtproxy.net.listener import Acceptor
from mtproxy.net.sockets import BindError, listen
from mtproxy.stats.runtime import ListenerRuntime, Runtime

if TYPE_CHECKING:
    from mtproxy.base.settings import Settings, StatsSocket
    from mtproxy.boot.build import Shared
    from mtproxy.boot.limits import Limits
    from mtproxy.sched.context import ThreadContext
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
    runtime = Runtime(settings, pool, maxconn=found.maxconn, ulimit_n=found.maxsock)
    runtime.set_backends(shared.backends)
    runtime.rings = shared.rings
    runtime.listeners = len(shared.listeners) + len(settings.global_.stats_sockets)
    runtime.startup_logs.extend(found.warnings)
    for number, listener in enumerate(shared.listeners):
        if "socket-stats" in listener.proxy.options:
            proxy = runtime.frontend(listener.proxy.name)
            assert proxy is not None
            counters = shared.listener_counters[number]
            proxy.listeners.append(ListenerRuntime(listener.bind, counters))
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


def open_acceptors(ctx: ThreadContext, runtime: Runtime, sockets: list[BoundSocket]) -> None:
    """Accept runtime connections, and serve them, on this thread alone.

    They do not count as the proxy's connections, so that they work when it is full.
    """
    total = CliGate(runtime.settings.global_.stats_maxconn)
    for one in sockets:
        gate = CliGate(one.settings.bind.maxconn or None, total)
        starter = CliStarter(runtime, one.settings, gate)
        gate.add(Acceptor(ctx, one.sock, starter, gate, _MAX_ACCEPT, spread=False))
    # what paused for want of descriptors tries again
    ctx.housekeepers.append(lambda _ctx: total.resume())
