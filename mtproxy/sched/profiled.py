"""Profiling of tasks (`profiling.tasks`): calls, CPU time and latency by task function.

While it is on, a thread's `ctx.run_some` is the `run_some` of this module instead of the loop's;
while it is off nothing of it runs. Each thread has a TaskProfile of its own, which only that
thread writes; reports read the figures of all threads and add them up.

- *calls*: how often tasklets of that function were run.
- *CPU*: from the start of a run to its end on the monotonic clock, as HAProxy measures it: time
  for which the thread was not on a CPU is included.
- *latency*: from the wake-up to the start of the run. What was woken by a descriptor, a timer or
  another thread counts from the end of the turn's poll; what was woken by another tasklet, from
  the end of that one's run (of another class: of all runs of its class in the turn). So wake-ups
  need no look at the clock, and cost the same with profiling and without.

What runs outside of the run queue is not in it: messages, and shared tasks up to the point where
they make a tasklet.

Modes: on, off, and auto, where each thread looks once a second whether its turns take long.
`set_mode` may be called by any thread, everything else by the owner thread.
"""

from __future__ import annotations

import time
import types
from collections import deque
from typing import TYPE_CHECKING

from mtproxy.sched import loop

if TYPE_CHECKING:
    from mtproxy.sched.context import ThreadContext
    from mtproxy.sched.pool import Pool
    from mtproxy.sched.tasklet import Tasklet

MODES = ("on", "auto", "off")
#: auto: turns that take this long on average turn profiling on, below the other off (HAProxy's)
AUTO_ON_US = 1000
AUTO_OFF_US = 990


class Figures:
    """What one thread knows about one task function. Times in ns."""

    __slots__ = ("calls", "cpu_ns", "function", "lat_ns", "name")

    def __init__(self, function: object) -> None:
        #: a code object, which CPython never frees while threads run; or a type
        self.function = function
        self.name = function_name(function)
        self.calls = 0
        self.cpu_ns = 0
        self.lat_ns = 0


class TaskProfile:
    """One thread's figures by task function, and when what waits in its run queues was woken."""

    __slots__ = ("_queues", "figures")

    def __init__(self, ctx: ThreadContext) -> None:
        #: by the function's id: the hash of a code object goes through all of its instructions
        self.figures: dict[int, Figures] = {}
        # each run queue, and beside it the wake-up time of each of its tasklets, in ns
        self._queues: list[tuple[deque[Tasklet], deque[int]]] = [
            (rq, deque()) for rq in (ctx.urgent, ctx.normal, ctx.bulk)
        ]

    def note(self, woken: int) -> None:
        """Whatever was queued since the last call was woken at `woken`."""
        for rq, stamps in self._queues:
            for _ in range(len(rq) - len(stamps)):
                stamps.append(woken)

    def stamps(self, rq: deque[Tasklet]) -> deque[int]:
        """The wake-up times of what stands in `rq`."""
        found = [stamps for queue, stamps in self._queues if queue is rq]
        if not found:  # a run queue that came later
            found = [deque()]
            self._queues.append((rq, found[0]))
        stamps = found[0]
        while len(stamps) > len(rq):  # somebody emptied the queue
            stamps.popleft()
        return stamps

    def add(self, function: object, calls: int, cpu_ns: int, lat_ns: int) -> None:
        """Count runs of one function."""
        figures = self.figures.get(id(function))
        if figures is None:
            figures = self.figures[id(function)] = Figures(function)
        figures.calls += calls
        figures.cpu_ns += cpu_ns
        figures.lat_ns += lat_ns


def function_of(tasklet: Tasklet) -> object:
    """What the tasklet runs: a code object, or the type of a callable that has none."""
    if tasklet.coro is not None:
        return getattr(tasklet.coro, "cr_code", type(tasklet.coro))
    step = tasklet.step
    return getattr(getattr(step, "__func__", step), "__code__", type(step))


def function_name(function: object) -> str:
    """How reports call it: the qualified name, such as `HttpStream.run`."""
    if isinstance(function, types.CodeType):
        return function.co_qualname
    return getattr(function, "__qualname__", repr(function))


def run_some(ctx: ThreadContext, rq: deque[Tasklet], limit: int) -> int:
    """`loop.run_some`, measured.

    What runs in a row is mostly one function, so its runs are added up in local variables first.
    """
    profile = ctx.task_profile
    assert profile is not None
    left = len(rq)
    n = min(left, limit)
    ctx.activity.ctxsw += n
    clock = time.monotonic_ns
    stamps = profile.stamps(rq)
    profile.note(ctx.turn_ns)
    current: object = None
    calls = cpu_ns = lat_ns = 0
    start = clock()
    for _ in range(n):
        tasklet = rq.popleft()
        tasklet.queued = False
        tasklet.calls += 1
        ctx.running = tasklet
        # asked first: a coroutine that ends is let go
        coro = tasklet.coro
        function = function_of(tasklet) if coro is None else coro.cr_code  # type: ignore[attr-defined]
        if function is not current:
            if calls:
                profile.add(current, calls, cpu_ns, lat_ns)
            current = function
            calls = cpu_ns = lat_ns = 0
        lat_ns += start - stamps.popleft()
        try:
            tasklet.step(None)
        except StopIteration:
            ctx.finish(tasklet)
        except Exception:  # noqa: BLE001 - one failing tasklet must not end the thread
            loop.report_failure(ctx, tasklet.name)
            if tasklet.coro is not None:
                ctx.finish(tasklet)
        end = clock()
        calls += 1
        cpu_ns += end - start
        start = end
        left -= 1
        if len(rq) != left:  # it woke another one, of this class; the others are noted below
            profile.note(end)
            left = len(rq)
    if calls:
        profile.add(current, calls, cpu_ns, lat_ns)
    profile.note(start)
    ctx.running = None
    return n


# --- switching


def set_mode(pool: Pool, mode: str) -> None:
    """Turn profiling of tasks on, off, or to auto, on all threads. "on" forgets what was counted,
    so that it can be watched from now on. Any thread.
    """
    assert mode in MODES
    pool.task_profiling = mode
    pool.run_everywhere(_restart if mode == "on" else _adapt)


def adopt(ctx: ThreadContext) -> None:
    """Follow the pool's mode. Called on each thread while it sets itself up."""
    if ctx.pool.task_profiling == "on":
        turn_on(ctx)
    ctx.housekeepers.append(auto_switch)


def active(ctx: ThreadContext) -> bool:
    """Whether the thread measures now. Any thread."""
    return ctx.run_some is run_some


def turn_on(ctx: ThreadContext) -> None:
    """Measure from the next turn on; go on counting where it was left."""
    if not active(ctx):
        if ctx.task_profile is None:
            ctx.task_profile = TaskProfile(ctx)
        ctx.run_some = run_some


def turn_off(ctx: ThreadContext) -> None:
    """Measure no more. What was counted stays."""
    if active(ctx):
        ctx.run_some = loop.run_some
        if ctx.task_profile is not None:
            # what waits now may be gone when it is turned on again
            kept = ctx.task_profile.figures
            ctx.task_profile = TaskProfile(ctx)
            ctx.task_profile.figures = kept


def _restart(ctx: ThreadContext) -> None:
    turn_off(ctx)
    ctx.task_profile = None
    _adapt(ctx)


def _adapt(ctx: ThreadContext) -> None:
    if ctx.pool.task_profiling == "on":
        turn_on(ctx)
    elif ctx.pool.task_profiling == "off":
        turn_off(ctx)


def auto_switch(ctx: ThreadContext) -> None:
    """Once a second (a housekeeper): in mode auto, turn profiling on when turns of the loop take
    AUTO_ON_US of CPU time on average, and off again below AUTO_OFF_US.
    """
    if ctx.pool.task_profiling != "auto":
        return
    if ctx.loop_ns >= AUTO_ON_US * 1000:
        turn_on(ctx)
    elif ctx.loop_ns < AUTO_OFF_US * 1000:
        turn_off(ctx)
