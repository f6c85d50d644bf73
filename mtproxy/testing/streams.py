"""Streams without a program: a frontend and its backend on one thread, made by hand."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from mtproxy.base.server_settings import ServerSettings
from mtproxy.base.settings import GlobalSettings, ProxySettings
from mtproxy.http.cache import HeadCache
from mtproxy.net.connection import Connection
from mtproxy.proxy.backend import Backend, BackendShared
from mtproxy.proxy.counters import FrontendCounters
from mtproxy.proxy.frontend import Frontend
from mtproxy.sched.context import ThreadContext
from mtproxy.sched.tasklet import Task
from mtproxy.stream.conf import BackConf, FrontConf
from mtproxy.stream.connect import prepare
from mtproxy.stream.room import FrontRoom, ListenerRoom, Room
from mtproxy.stream.stream import Stream
from mtproxy.testing.proxies import Messages


def make_front(
    ctx: ThreadContext,
    servers: Sequence[ServerSettings] = (),
    *,
    front: dict[str, Any] | None = None,
    back: dict[str, Any] | None = None,
    log: Callable[[Any], None] | None = None,
    side_counters: list[FrontendCounters] | None = None,
) -> FrontRoom:
    """Frontend "fe" in front of backend "be" with `servers`, as `ctx.room`.

    `front` and `back` are fields of their ProxySettings; `side_counters` are the other threads'.
    """
    front_settings = ProxySettings("fe", 1, "frontend", **(front or {}))
    back_settings = ProxySettings("be", 2, "backend", servers=tuple(servers), **(back or {}))
    room = Room(HeadCache())
    backend = Backend(BackendShared(back_settings, ctx.now, Messages()), ctx.tid)
    bconf = BackConf(back_settings, GlobalSettings())
    for server in backend.servers:
        prepare(ctx, server, bconf, http=back_settings.mode == "http")
    room.backends["be"] = backend
    room.confs["be"] = bconf
    frontend = Frontend(
        front_settings, ctx.tid, log, [] if side_counters is None else side_counters
    )
    room.fronts["fe"] = FrontRoom(
        room,
        frontend,
        FrontConf(front_settings, GlobalSettings()),
        "be",
    )
    room.listeners[1] = ListenerRoom(room.fronts["fe"], 1, None)
    ctx.room = room
    return room.fronts["fe"]


def current_task(ctx: ThreadContext) -> Task:
    """The task that runs now."""
    return cast(Task, ctx.running)


async def with_stream[T](
    ctx: ThreadContext,
    front: FrontRoom,
    sock: socket.socket,
    body: Callable[[Stream], Awaitable[T]],
) -> T:
    """Run `body` with a stream for the client connection `sock`, on the running task.

    The stream is in its backend, with a server chosen, as far as there is one.
    """
    sock.setblocking(False)
    stream = Stream(ctx, front, sock, ("127.0.0.1", 4711))
    stream.listener = ctx.room.listeners[1]
    stream.task = current_task(ctx)
    stream.conn = Connection(ctx, sock, stream.task)
    front.frontend.counters.conn_cur += 1  # by the listener
    stream.open_session()
    try:
        backend, bconf = front.route.backend, front.route.bconf
        assert backend is not None
        assert bconf is not None
        stream.enter_backend(backend, bconf)
        server = backend.pick(ctx)
        if server is not None:
            stream.set_server(server)
        return await body(stream)
    finally:
        stream.close_session()
