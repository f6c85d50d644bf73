"""The runtime sockets (`stats socket`): listening, the `Runtime` behind them, the acceptors of thread 0."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mtproxy.cli.connection import CliStarter
from mtproxy.net.listener import Acceptor, OpenGate
from mtproxy.net.sockets import BindError, listen
from mtproxy.stats.runtime import Runtime

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
    sockets: list[BoundSocket] = []
    failures: list[str] = []
    for one in settings.global_.stats_sockets:
        try:
            sockets.append(BoundSocket(one, listen(one.bind, one.bind.backlog or _BACKLOG)))
        except BindError as e:
            failures.append(f"Starting proxy GLOBAL: {e}")
    return sockets, failures


def make_runtime(settings: Settings, pool: Pool, shared: Shared, found: Limits) -> Runtime:
    """What reports and commands see of the process. Before the threads start."""
    runtime = Runtime(settings, pool, maxconn=found.maxconn, ulimit_n=found.maxsock)
    runtime.set_backends(shared.backends)
    runtime.listeners = len(shared.listeners) + len(settings.global_.stats_sockets)
    runtime.startup_logs.extend(found.warnings)
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

    They are not counted, so that they work when the proxy is full.
    """
    for one in sockets:
        acceptor = Acceptor(
            ctx, one.sock, CliStarter(runtime, one.settings), OpenGate(), _MAX_ACCEPT, spread=False
        )
        ctx.room.always_accepting.append(acceptor)
