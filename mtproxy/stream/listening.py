"""Frontends that are paused, resumed and shut down while the program runs, and their limits.

One `FrontListeners` per frontend, made before the threads start and shared by all. `pause`,
`resume` and `stop` are called by one thread, the one that serves the runtime sockets; each has
every thread take its acceptors off the poller, or put them back, and touches the sockets before or
afterwards. So no thread ever polls a socket that is being changed.

A paused TCP socket does not listen: connections are refused, as those to HAProxy's are (a listening
socket that is shut down for reading leaves that state; `listen` brings it back). Other sockets, and
inherited ones, which may belong to other processes too, go on listening; their connections wait in
the kernel's queue.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mtproxy.base.settings import ProxySettings
    from mtproxy.net.listener import Acceptor
    from mtproxy.proxy.quota import Quota
    from mtproxy.sched.context import ThreadContext
    from mtproxy.sched.pool import Pool
    from mtproxy.stream.room import Room


@dataclass(slots=True)
class FrontListeners:
    """See the module. `quota` is the frontend's limit; `unlimited` is what stands for none."""

    settings: ProxySettings
    quota: Quota
    unlimited: int
    #: with what `listen` is asked for; 0: it goes on listening while paused
    sockets: list[tuple[socket.socket, int]] = field(default_factory=list)
    paused: bool = False
    stopped: bool = False

    def set_maxconn(self, maxconn: int, pool: Pool) -> None:
        """Change the limit, 0: none. Connections that are there stay."""
        self.quota.limit = maxconn or self.unlimited
        look_again(pool)

    def pause(self, pool: Pool, then: Callable[[], None]) -> None:
        """Stop accepting until `resume`; `then` is called when it is done, on this thread."""
        self.paused = True

        def sockets_off() -> None:
            for sock, backlog in self.sockets:
                if backlog:
                    sock.shutdown(socket.SHUT_RD)
            then()

        on_every_thread(pool, self._hold, sockets_off)

    def resume(self, pool: Pool, then: Callable[[], None]) -> str | None:
        """Accept again after `pause`; returns why that is not possible, None if it is."""
        for sock, backlog in self.sockets:
            try:
                if backlog:
                    sock.listen(backlog)
            except OSError as error:
                return str(error)
        self.paused = False
        on_every_thread(pool, self._release, then)
        return None

    def stop(self, pool: Pool, then: Callable[[], None]) -> None:
        """Close the sockets for good; connections that are there stay."""
        self.stopped = True

        def close() -> None:
            for sock, _ in self.sockets:
                sock.close()
            then()

        on_every_thread(pool, self._drop, close)

    def _mine(self, ctx: ThreadContext) -> list[Acceptor]:
        room: Room = ctx.room
        sockets = {id(sock) for sock, _ in self.sockets}
        return [acceptor for acceptor in room.acceptors if id(acceptor.sock) in sockets]

    def _hold(self, ctx: ThreadContext) -> None:
        for acceptor in self._mine(ctx):
            acceptor.hold()

    def _release(self, ctx: ThreadContext) -> None:
        for acceptor in self._mine(ctx):
            acceptor.release()

    def _drop(self, ctx: ThreadContext) -> None:
        self._hold(ctx)
        gone = self._mine(ctx)
        ctx.room.acceptors = [one for one in ctx.room.acceptors if one not in gone]


def look_again(pool: Pool) -> None:
    """A limit was raised: have all threads look for connections that wait."""
    pool.run_everywhere(lambda ctx: ctx.room.after_session(ctx, wanted=True))


def on_every_thread(
    pool: Pool, work: Callable[[ThreadContext], None], then: Callable[[], None], back_on: int = 0
) -> None:
    """Have every thread call `work(ctx)`; when all have, `then` is called on thread `back_on`."""
    left = pool.nbthread

    def done(_ctx: ThreadContext) -> None:
        nonlocal left
        left -= 1
        if not left:
            then()

    def each(ctx: ThreadContext) -> None:
        try:
            work(ctx)
        finally:
            pool.run_on(back_on, done)

    pool.run_everywhere(each)
