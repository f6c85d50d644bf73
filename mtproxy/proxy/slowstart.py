"""Slow start: a server that came up gets its weight and its `maxconn` bit by bit (manual 5.2,
`slowstart`).

While a server is STARTING its weight grows by the second from 1/16 to the whole, where the
algorithm is dynamic, and its limit of sessions with the share of the time that has passed. A shared
task of the global wait queue, one per start, has the backend recount once a second and ends the
state.

Pure functions of a ServerState and a tick: any thread, no lock. `Warmup.run`: the thread that has
collected it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mtproxy.proxy.states import STARTING

if TYPE_CHECKING:
    from mtproxy.proxy.server import ServerState
    from mtproxy.sched.context import ThreadContext

#: ms between two recounts
STEP = 1000


def _progress(server: ServerState, now: int) -> tuple[int, int] | None:
    """Whole seconds since the start, and those that it takes; None: it is not starting."""
    slowstart = server.settings.slowstart
    if server.state != STARTING or not slowstart:
        return None
    passed = now - server.last_change
    return (passed // 1000, slowstart // 1000) if 0 <= passed < slowstart else None


def effective_weight(server: ServerState, scale: int, now: int) -> int:
    """The weight in 1/scale; of a static algorithm (1) it is whole from the beginning."""
    progress = _progress(server, now) if scale > 1 else None
    if progress is None:
        return server.weight * scale
    passed, whole = progress
    return server.weight * ((scale * passed + whole) // whole)


def throttle(server: ServerState, now: int) -> int | None:
    """The column of `show stat`: how many percent of its weight a server has that is starting; None
    for any other.
    """
    if server.state != STARTING or not server.weight or server.drain:
        return None
    scale = server.backend.scale
    weight = effective_weight(server, scale, now)
    return (100 * weight + scale - 1) // (scale * server.weight)


def limited(server: ServerState, sessions: int, now: int) -> int:
    """How many of at most `sessions` a server may have now."""
    progress = _progress(server, now)
    if progress is None:
        return sessions
    return max(1, sessions * (100 * progress[0] // progress[1]) // 100)


class Warmup:
    """One slow start at work."""

    __slots__ = ("_finish", "_since", "expire", "server", "wq_key")

    def __init__(self, server: ServerState, finish: Callable[[ServerState, ThreadContext], None]):
        self.server = server
        self._finish = finish
        #: a later start has a task of its own
        self._since = server.last_change
        self.expire: int | None = None
        self.wq_key: tuple[int, int] | None = None

    def queue(self, ctx: ThreadContext) -> None:
        """Come again in a second."""
        ctx.pool.wait_queue.queue(self, ctx.now + STEP, ctx.tid)

    def run(self, ctx: ThreadContext) -> None:
        """Give the server what it has reached, or all of it."""
        server = self.server
        if server.state != STARTING or server.last_change != self._since:
            return
        if ctx.now - self._since >= server.settings.slowstart:
            self._finish(server, ctx)
            return
        backend = server.backend
        backend.update(server, ctx)
        if backend.queue is not None:
            backend.queue.settle(server, ctx.tid)
        self.queue(ctx)
