"""Pools and thread contexts for tests: started, played with, and closed without a trace.

`run_with` runs a whole pool while a function plays on another thread. `lone_context` is a context
without a running loop, for tests of what one thread does: `poll` brings the readiness of its
connections, `run_task` runs a coroutine to its end in the real loop. Main thread only, because
signals are.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from mtproxy.net.connection import Connection
from mtproxy.sched.context import FdOwner, Message, Poller, ThreadContext
from mtproxy.sched.loop import run_loop
from mtproxy.sched.pool import Pool
from mtproxy.sync import stats as lock_stats
from mtproxy.testing import procfs


def run_with(
    pool: Pool,
    play: Callable[[], None],
    setup: Message = lambda _ctx: None,
    ready: Message | None = None,
) -> None:
    """Run the pool on this thread until `play` is through on another; raises what `play` raised.

    `play` begins when every thread is set up, or when that has failed.
    """
    errors: list[BaseException] = []
    begin = threading.Event()

    def begun(ctx: ThreadContext) -> None:
        if ready is not None:
            ready(ctx)
        begin.set()

    def conduct() -> None:
        begin.wait()
        try:
            play()
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)
        finally:
            pool.hard_stop()

    conductor = threading.Thread(target=conduct, name="conductor")
    conductor.start()
    try:
        pool.run(setup, begun)
    finally:
        begin.set()
        conductor.join()
    if errors:
        raise errors[0]


def close(pool: Pool) -> None:
    """What the end of the process closes otherwise."""
    for ctx in pool.contexts:
        for owner in list(ctx.fdtab.values()):
            if isinstance(owner, Connection):
                owner.close()
        for tasklet in list(ctx.tasklets):
            if tasklet.coro is not None:
                tasklet.coro.close()
        for pipe in ctx.pipes:
            pipe.close()
        ctx.pipes.clear()
        ctx.epoll.close()
        os.close(ctx.shared.event_fd)


class PatientEpoll:
    """An epoll object that does not wake up for the loop's own second.

    The loop looks around once a second whatever happens, which hides a wake-up that was lost. Here
    it goes on sleeping, and PATIENCE seconds later the poll raises.
    """

    OWN_SECOND = 0.5
    PATIENCE = 20.0

    def __init__(self, epoll: Poller) -> None:
        self._epoll = epoll
        self.register = epoll.register
        self.unregister = epoll.unregister
        self.close = epoll.close

    def poll(self, seconds: float, most: int = -1) -> list[tuple[int, int]]:
        if seconds <= self.OWN_SECOND:
            return self._epoll.poll(seconds, most)
        events = self._epoll.poll(self.PATIENCE, most)
        if not events:
            raise TimeoutError("a thread was not woken")
        return events


def make_patient(ctx: ThreadContext) -> None:
    """A set-up for `Pool.run`; or to be called before the loop runs."""
    ctx.epoll = PatientEpoll(ctx.epoll)


@contextlib.contextmanager
def running_pool(nbthread: int, **options: Any) -> Iterator[Pool]:
    """A pool that is closed afterwards. It runs in `run_with`."""
    lock_stats.configure(nbthread)
    pool = Pool(nbthread, **options)
    shareds = tuple(pool.shareds)
    try:
        yield pool
    finally:
        close(pool)
        used = {ctx.shared for ctx in pool.contexts}
        for shared in shareds:
            if shared not in used:  # the pool never ran
                os.close(shared.event_fd)


@contextlib.contextmanager
def lone_context() -> Iterator[ThreadContext]:
    """The only context of a pool that does not run."""
    with running_pool(1, watchdog_ms=0) as pool:
        ctx = pool.contexts[0]
        ctx.epoll.register(ctx.shared.event_fd, 1)
        yield ctx


@contextlib.contextmanager
def clean_context() -> Iterator[ThreadContext]:
    """A `lone_context` after which nothing may be left: no descriptor, no failed tasklet.

    What earlier tests left to the garbage collector may go meanwhile: numbers say nothing.
    """
    before = procfs.fd_targets(os.getpid()).items()
    with lone_context() as ctx:
        yield ctx
        assert ctx.activity.errors == 0
        ctx._check()
    left = procfs.fd_targets(os.getpid()).items() - before
    assert not left, f"descriptors are left: {left}"


def poll(ctx: ThreadContext, seconds: float = 0.0) -> list[FdOwner]:
    """Wait for readiness, store it, and return whose it is. Runs nothing."""
    owners = []
    for fd, bits in ctx.epoll.poll(seconds):
        owner = ctx.fdtab[fd]
        owner.ready |= bits
        owners.append(owner)
    return owners


def run_task[T](ctx: ThreadContext, coro: Coroutine[Any, Any, T], name: str = "test") -> T:
    """Run `coro` as a task of `ctx` in the real loop; its result, or its exception."""
    results: list[T] = []
    errors: list[BaseException] = []

    async def main() -> None:
        try:
            results.append(await coro)
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)
        finally:
            ctx.pool.stopping_now = True

    ctx.pool.stopping_now = False
    ctx.spawn(main(), name)
    run_loop(ctx)
    if errors:
        raise errors[0]
    return results[0]
