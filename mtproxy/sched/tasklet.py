"""Tasklet: a piece of work that one thread's loop runs; Task: a tasklet with an expiry.

A tasklet belongs to one thread for life. It is either a coroutine (`step` is the coroutine's
`send`) or a callback taking one ignored argument. `queued` says that it stands in a run queue
already: whoever wakes it tests and sets the flag, so that many events cost one run.
Only the owner thread touches a tasklet; other threads go through `ThreadShared.post`.

A coroutine waits with `await park()`: it is resumed by the next wake-up, whatever the reason, and
must look for itself what has changed (readiness bits of its connections, `ctx.now` against its
expiry). Wake-ups may be spurious.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any

from mtproxy.base.clock import NEVER

if TYPE_CHECKING:
    from mtproxy.sched.context import ThreadContext

type Step = Callable[[None], object]


@types.coroutine
def park() -> Generator[None]:
    """Give the thread back until this tasklet is woken."""
    yield


class Tasklet:
    """One unit of work of the loop.

    `queue` is the run-queue class it waits in (one of the deques of its ThreadContext).
    """

    __slots__ = ("calls", "coro", "ctx", "done", "name", "queue", "queued", "step")

    def __init__(self, ctx: ThreadContext, step: Step, name: str) -> None:
        self.ctx = ctx
        self.step = step
        self.coro: Coroutine[Any, Any, Any] | None = None
        self.name = name
        self.queued = False
        self.done = False
        self.queue: deque[Tasklet] = ctx.normal
        self.calls = 0

    def wake(self) -> None:
        """Queue it, unless it is queued already. Owner thread only."""
        if not self.queued:
            self.queued = True
            self.queue.append(self)


class Task(Tasklet):
    """A tasklet which is also woken when `expire` (a tick) has passed.

    `expire` may be stored freely; storing a later tick than the one the timer queue knows (`timer`)
    needs no queue operation: the old entry fires, sees the later expiry, and is queued again.
    For an earlier one call `set_expire`.
    """

    __slots__ = ("expire", "nice", "timer")

    def __init__(self, ctx: ThreadContext, step: Step, name: str) -> None:
        super().__init__(ctx, step, name)
        self.expire = NEVER
        self.timer = NEVER
        self.nice = 0

    def set_expire(self, tick: int) -> None:
        """Wake this task at `tick` (NEVER: not at all) unless it is changed before."""
        self.expire = tick
        if tick < self.timer:
            self.ctx.timers.arm(self, tick)
