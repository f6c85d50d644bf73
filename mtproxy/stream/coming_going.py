"""Servers that are added and removed while traffic flows: what has to happen on which thread.

Both are begun by the thread that serves the runtime sockets, one at a time. Every thread makes, or
drops, its own side when it reads the message; only when all have is the server published, or is the
removal done. So no thread is ever given a server that it does not know. A stream that has just
chosen a server that is removed keeps its thread's side of it until it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mtproxy.stream.connect import prepare
from mtproxy.stream.listening import on_every_thread

if TYPE_CHECKING:
    from mtproxy.base.server_settings import ServerSettings
    from mtproxy.proxy.backend import BackendShared
    from mtproxy.proxy.server import ServerState
    from mtproxy.sched.context import ThreadContext


def add_server(
    shared: BackendShared,
    settings: ServerSettings,
    ctx: ThreadContext,
    then: Callable[[ServerState], None],
) -> None:
    """Add a server in maintenance; `then` is called with it, on this thread, when it is there."""
    state = shared.new_server(settings, ctx)

    def adopt(ctx: ThreadContext) -> None:
        room = ctx.room
        server = room.backends[shared.name].adopt(state)
        conf = room.confs[shared.name]
        prepare(ctx, server, conf, http=shared.settings.mode == "http")

    def done() -> None:
        shared.publish(state)
        then(state)

    on_every_thread(ctx.pool, adopt, done, ctx.tid)


def remove_server(
    shared: BackendShared, state: ServerState, ctx: ThreadContext, then: Callable[[], None]
) -> None:
    """Remove a server that is in maintenance; `then` is called, on this thread, when it is gone."""
    state.removed = True
    shared.withdraw(state, ctx)

    def forget(ctx: ThreadContext) -> None:
        for connection in ctx.room.backends[shared.name].forget(state):
            connection.close()

    on_every_thread(ctx.pool, forget, then, ctx.tid)
