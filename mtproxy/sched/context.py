"""What one thread owns (ThreadContext) and the little that others may touch of it (ThreadShared).

A ThreadContext is passed as a parameter to whatever needs it; there is no thread-local storage.
Other threads never touch one, except to read counters for a report: they post a function into
`ThreadShared`, which the owner runs in its next turn.
"""

from __future__ import annotations

import os
import select
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from mtproxy.base.clock import monotonic_ms, wall_offset_ms
from mtproxy.sched.activity import Activity
from mtproxy.sched.fallback import PollPoller
from mtproxy.sched.loop import run_some
from mtproxy.sched.tasklet import Task, Tasklet
from mtproxy.sched.timers import Timers

if TYPE_CHECKING:
    from mtproxy.sched.pool import Pool
    from mtproxy.sched.profiled import TaskProfile

DEFAULT_PIPE_SIZE = 1 << 20

type Message = Callable[["ThreadContext"], None]


class FdOwner(Protocol):
    """What the fd table holds: the loop sets `ready` bits and wakes `tasklet`."""

    ready: int
    tasklet: Tasklet


class Poller(Protocol):
    """What is used of select.epoll."""

    def register(self, fd: int, events: int, /) -> None: ...
    def unregister(self, fd: int, /) -> None: ...
    def poll(self, timeout: float, max_events: int = -1, /) -> list[tuple[int, int]]: ...
    def close(self) -> None: ...


class ThreadShared:
    """The part of a thread that any thread may use.

    `post` needs no lock: it appends to the inbox, then looks at `sleeping`; the owner sets
    `sleeping`, then looks into the inbox. Both use the inbox's own internal lock between their two
    steps, hence one of the two sees the other's step and no wake-up is lost.
    """

    __slots__ = ("conns", "event_fd", "inbox", "sleeping", "stopped", "tid")

    def __init__(self, tid: int) -> None:
        self.tid = tid
        self.inbox: deque[Message] = deque()
        self.sleeping = False
        #: connections the thread serves: stored by the owner, read by acceptors to spread load
        self.conns = 0
        self.stopped = False
        self.event_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def post(self, message: Message) -> None:
        """Have the owner call `message(ctx)` in its next turn. Any thread."""
        self.inbox.append(message)
        if self.sleeping:
            self.sleeping = False
            os.eventfd_write(self.event_fd, 1)

    def wake(self) -> None:
        """End the owner's wait if it waits."""
        self.post(_nothing)


def _nothing(_ctx: ThreadContext) -> None:
    """The message of a mere wake-up."""


class ThreadContext:
    """Everything one thread owns. Owner thread only, except for reading counters."""

    __slots__ = (
        "activity",
        "bulk",
        "cpu_ns",
        "dealt",
        "epoll",
        "fdtab",
        "flushers",
        "housekeepers",
        "loop_ns",
        "normal",
        "now",
        "pipe_size",
        "pipes",
        "pipes_left",
        "pool",
        "room",
        "run_some",
        "running",
        "shared",
        "shed",
        "stopping",
        "task_profile",
        "tasklets",
        "tid",
        "timers",
        "turn_ns",
        "urgent",
        "wall_offset",
    )

    def __init__(self, shared: ThreadShared, pool: Pool, *, use_epoll: bool = True) -> None:
        self.tid = shared.tid
        self.pool = pool
        self.shared = shared
        #: tick of the current turn
        self.now = monotonic_ms()
        #: when the turn's poll returned, in ns of the same clock
        self.turn_ns = 0
        #: now + wall_offset is milliseconds since the epoch; refreshed about once a second
        self.wall_offset = wall_offset_ms()
        self.urgent: deque[Tasklet] = deque()
        self.normal: deque[Tasklet] = deque()
        self.bulk: deque[Tasklet] = deque()
        #: sched.runqueue: how far each combination of classes has dealt its pattern
        self.dealt = [0] * 8
        self.timers = Timers()
        self.fdtab: dict[int, FdOwner] = {}
        self.epoll: Poller = select.epoll(sizehint=1024) if use_epoll else PollPoller(self.fdtab)
        self.activity = Activity()
        #: CPU time of this thread until now, and of a mean turn; both refreshed once a second
        self.cpu_ns = 0
        self.loop_ns = 0
        #: every live coroutine tasklet, so that none is collected while it waits
        self.tasklets: set[Tasklet] = set()
        self.running: Tasklet | None = None
        #: runs tasklets of a run queue; sched.profiled puts its own here while it measures
        self.run_some: Callable[[ThreadContext, deque[Tasklet], int], int] = run_some
        self.task_profile: TaskProfile | None = None
        #: called at the end of every turn (batched output)
        self.flushers: list[Callable[[], None]] = []
        #: called about once a second with the context
        self.housekeepers: list[Message] = []
        #: soft stop, as `Pool.stopping` says: this thread's own copy, read for every request
        self.stopping = False
        #: idle splice pipes, kept by net.splice
        self.pipes: list[Any] = []
        #: what such a pipe is asked to hold (tune.pipesize), bytes; 0: splice() is not used
        self.pipe_size = DEFAULT_PIPE_SIZE
        #: how many more pipes may be made, see boot.limits
        self.pipes_left = 1 << 30
        #: closes some of what this thread can do without, because no descriptor is left; returns
        #: whether it closed any
        self.shed: Callable[[ThreadContext], bool] = _nothing_to_shed
        #: the runtime objects of this thread, put here by boot (frontends, backends, …)
        self.room: Any = None

    def spawn(self, coro: Coroutine[Any, Any, Any], name: str) -> Task:
        """Make a task that runs `coro` on this thread, and queue it."""
        task = Task(self, coro.send, name)
        task.coro = coro
        self.tasklets.add(task)
        task.wake()
        return task

    def abandon(self, task: Task) -> None:
        """Drop a task of `spawn` that has not run yet."""
        assert task.coro is not None
        task.coro.close()
        self.finish(task)

    def finish(self, tasklet: Tasklet) -> None:
        """Drop a coroutine that has ended."""
        tasklet.done = True
        tasklet.coro = None
        tasklet.step = _ended
        self.tasklets.discard(tasklet)
        if isinstance(tasklet, Task):
            self.timers.disarm(tasklet)

    def _check(self) -> None:
        """Raise AssertionError where an invariant does not hold (tests)."""
        self.timers._check()
        for rq in (self.urgent, self.normal, self.bulk):
            seen: set[int] = set()
            for tasklet in rq:
                assert tasklet.queued, f"{tasklet.name} stands in a run queue without its flag"
                assert id(tasklet) not in seen, f"{tasklet.name} is queued twice"
                seen.add(id(tasklet))
        for tasklet in self.tasklets:
            assert not tasklet.done


def _nothing_to_shed(_ctx: ThreadContext) -> bool:
    return False


def shed_here(ctx: ThreadContext) -> None:
    """The message to another thread that descriptors are wanted."""
    ctx.shed(ctx)


def _ended(_value: None) -> None:
    """The step of a tasklet whose coroutine has ended: a late wake-up does nothing."""
