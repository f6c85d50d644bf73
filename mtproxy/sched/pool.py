"""The pool of threads: one ThreadContext and one loop each; the main thread is thread 0.

Every thread makes its own context: CPython counts references to an object with plain arithmetic in
the thread that made it and atomically in all others, and a context is touched some hundred times
for a request. `contexts` holds thread 0's from the start and all of them before any `setup`.

The pool is built before the threads start and read by all of them afterwards. What changes at run
time are single stores: `stopping` (soft stop: no new connections, end when the last one has gone)
and `stopping_now` (leave the loop). Any thread may call `soft_stop`, `hard_stop` and `run_on`.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import traceback
from collections.abc import Callable, Mapping
from random import random
from typing import TYPE_CHECKING, Any

from mtproxy.base.clock import monotonic_ms
from mtproxy.base.report import say
from mtproxy.sched.context import Message, ThreadContext, ThreadShared
from mtproxy.sched.fdtable import FdTable
from mtproxy.sched.loop import DEFAULT_MAX_EVENTS, run_loop
from mtproxy.sched.runqueue import DEFAULT_RUNQUEUE_DEPTH
from mtproxy.sched.tasklet import Task, Tasklet
from mtproxy.sched.waitqueue import WaitQueueBase
from mtproxy.sched.waitqueue_variants import DEFAULT_VARIANT, VARIANTS
from mtproxy.sched.watchdog import Watchdog
from mtproxy.sync import stats as lock_stats

if TYPE_CHECKING:
    import types

DEFAULT_WAIT_QUEUE_BUDGET = 64


class _SignalPipe:
    """Wakes thread 0 for a signal that came in between two instructions (signal.set_wakeup_fd)."""

    def __init__(self, ctx: ThreadContext) -> None:
        self.rd, self.wr = socket.socketpair()
        self.rd.setblocking(False)
        self.wr.setblocking(False)
        self.ready = 0
        self.tasklet = Tasklet(ctx, self.drain, "signals")
        self.tasklet.queue = ctx.urgent

    def adopt(self, ctx: ThreadContext) -> None:
        ctx.fdtab[self.rd.fileno()] = self
        ctx.epoll.register(self.rd.fileno(), 1)

    def drain(self, _value: None) -> None:
        try:
            while self.rd.recv(512):
                pass
        except BlockingIOError:
            return


class Pool:
    """All threads of the process.

    `nbthread` is 1..64. `cpu_map` gives thread numbers (from 1) the CPUs they may run on. Without
    `use_epoll` the threads use poll(2). `max_events` is how many descriptors one poll reports.
    `wait_queue` is a word of `tune.wait-queue`.
    `maxsock` is how many descriptors the process may have, `full_scan` see `sched.fdtable`.
    """

    def __init__(
        self,
        nbthread: int,
        *,
        runqueue_depth: int = DEFAULT_RUNQUEUE_DEPTH,
        cpu_map: Mapping[int, frozenset[int]] | None = None,
        watchdog_ms: int = 5000,
        use_epoll: bool = True,
        max_events: int = DEFAULT_MAX_EVENTS,
        wait_queue: str = DEFAULT_VARIANT,
        maxsock: int = 1024,
        full_scan: bool = False,
    ) -> None:
        self.nbthread = nbthread
        self.runqueue_depth = runqueue_depth
        self.wait_queue_budget = DEFAULT_WAIT_QUEUE_BUDGET
        self.cpu_map = dict(cpu_map or {})
        self.max_events = max_events
        #: on, auto or off, changed by sched.profiled
        self.task_profiling = "off"
        self.stopping = False
        self.stopping_now = False
        #: the process will stop softly, now or when its grace is over
        self.leaving = False
        #: ms over which a soft stop spreads the end of idle connections, and the tick at which that
        #: is over; 0: they end at once
        self.close_spread = 0
        self.close_spread_end = 0
        self.start_tick = monotonic_ms()
        self.wait_queue: WaitQueueBase[Any] = VARIANTS[wait_queue]()
        self.wait_queue.on_earlier = self._wake_a_sleeper
        self.shareds = [ThreadShared(tid) for tid in range(nbthread)]
        #: what threads adopt when they start; boot adds to it
        self.fd_table = FdTable(maxsock, full_scan=full_scan)
        for shared in self.shareds:
            self.fd_table.insert(shared.event_fd, [shared.tid], _watch_inbox)
        self._use_epoll = use_epoll
        self.contexts = [self._new_context(0)]
        self._made = {0: self.contexts[0]}
        self.on_soft_stop: list[Message] = []
        self.signal_handlers: dict[int, Callable[[], None]] = {}
        self.threads: list[threading.Thread] = []
        self._gate = threading.Barrier(nbthread, action=self._begin_watch)
        #: every thread is set up
        self._gate_passed = False
        self._all_made = threading.Barrier(nbthread, action=self._begin)
        self._ready: Message | None = None
        self._watchdog_ms = watchdog_ms
        #: None until `run` has made all contexts
        self.watchdog: Watchdog | None = None
        #: set when a thread could not start or died; the process then exits with 1
        self.failed = False
        self._spokesman: dict[str, int] = {}

    # --- running
    def run(self, setup: Message, ready: Message | None = None) -> None:
        """Call `setup(ctx)` on every thread, have each adopt its descriptors, then run all loops.
        Returns after the stop.

        No loop starts before every thread is set up; `ready(ctx)` is called on thread 0 at that
        moment. A thread whose set-up raises says so and stops the whole pool: `failed` is set.
        """
        self._ready = ready
        main = self.contexts[0]
        pipe = _SignalPipe(main)
        self.fd_table.insert(pipe.rd.fileno(), [0], pipe.adopt)
        signal.set_wakeup_fd(pipe.wr.fileno(), warn_on_full_buffer=False)
        try:
            for tid in range(1, self.nbthread):
                thread = threading.Thread(
                    target=self._thread, args=(tid, setup), name=f"mtproxy/{tid + 1}"
                )
                thread.daemon = True
                self.threads.append(thread)
                thread.start()
            self._thread(0, setup)
        finally:
            self.hard_stop()
            if self.watchdog is not None:
                self.watchdog.stop()
            for thread in self.threads:
                thread.join(2)
            signal.set_wakeup_fd(-1)
            pipe.rd.close()
            pipe.wr.close()

    def _new_context(self, tid: int) -> ThreadContext:
        return ThreadContext(self.shareds[tid], self, use_epoll=self._use_epoll)

    def _begin(self) -> None:
        """All contexts are made, and no thread has gone on yet. Called by one of them."""
        self.contexts.extend(self._made[tid] for tid in range(1, self.nbthread))
        self.watchdog = Watchdog(self.contexts, self._watchdog_ms)

    def _begin_watch(self) -> None:
        """All threads are set up, and their loops begin: from here on each has to make progress.

        Setting up may take long (`tune.fd.scan full` with 64 threads), and is not stuck then.
        """
        self._gate_passed = True
        if self.watchdog is not None:
            self.watchdog.start()

    def _thread(self, tid: int, setup: Message) -> None:
        try:
            cpus = self.cpu_map.get(tid + 1)
            if cpus:
                self._bind_to(tid, cpus)
            lock_stats.adopt(tid)
            if tid:
                self._made[tid] = self._new_context(tid)
            ctx = self._made[tid]
            self._all_made.wait()
            setup(ctx)
            self.fd_table.adopt(ctx)
            self._gate.wait()
            if tid == 0 and self._ready is not None:
                self._ready(ctx)
            run_loop(ctx)
        except threading.BrokenBarrierError:
            return  # another thread failed, and said why
        except Exception as error:  # noqa: BLE001 - whatever it is, the whole pool stops
            self.failed = True
            self._all_made.abort()
            self._gate.abort()
            self.hard_stop()
            if isinstance(error, OSError) and not self._gate_passed:
                # no descriptor or no memory is left; the others find the same, and one says so
                if self._spokesman.setdefault("", tid) == tid:
                    say("alert", f"thread {tid + 1} cannot be set up, stopping: {error}")
                return
            say(
                "alert",
                f"thread {tid + 1} has failed, stopping:\n{traceback.format_exc().rstrip()}",
            )

    def _bind_to(self, tid: int, cpus: frozenset[int]) -> None:
        try:
            os.sched_setaffinity(0, cpus)
        except OSError as e:
            say(
                "warning",
                f"thread {tid + 1} cannot be bound to CPUs {sorted(cpus)}: {e.strerror}",
            )

    def _wake_a_sleeper(self, _tick: int) -> None:
        """A shared task is due earlier than the sleepers know: two threads must know of it.

        A thread that is awake looks at the queue in its next turn, but that may be far; then the
        other one takes the task.
        """
        sleepers = [shared for shared in self.shareds if shared.sleeping]
        for shared in sleepers[: 2 if len(sleepers) == self.nbthread else 1]:
            shared.wake()

    # --- other threads
    def run_on(self, tid: int, message: Message) -> None:
        """Have thread `tid` call `message(ctx)` soon."""
        self.shareds[tid].post(message)

    def run_everywhere(self, message: Message) -> None:
        """Have every thread call `message(ctx)` soon."""
        for shared in self.shareds:
            shared.post(message)

    # --- stopping
    def soft_stop(self) -> None:
        """Stop listening; every thread ends its loop when its last connection has gone."""
        if not self.stopping:
            self.stopping = True
            self.run_everywhere(_note_soft_stop)
            for hook in self.on_soft_stop:
                self.run_everywhere(hook)

    def hard_stop(self) -> None:
        """Leave all loops now, whatever is in progress."""
        self.stopping_now = True
        for shared in self.shareds:
            shared.wake()

    def hard_stop_at(self, tick: int) -> None:
        """Leave all loops at `tick`, if they still run then. Any thread."""
        self.run_on(0, lambda ctx: _arm_hard_stop(ctx, tick))

    def call_at(self, tick: int, action: Callable[[], None]) -> None:
        """Have `action()` called on thread 0 at `tick`. Any thread."""

        def arm(ctx: ThreadContext) -> None:
            task = Task(ctx, lambda _value: _act(task, action), "later")
            task.set_expire(tick)

        self.run_on(0, arm)

    def lets_idle(self, now: int) -> int:
        """How much longer an idle connection may stay during a soft stop, in ms; 0: not at all.

        A time by chance within `close-spread-time`, so that the clients do not come back at once.
        """
        left = self.close_spread_end - now
        return 0 if left <= 0 else int(random() * left)

    def keeps_alive(self, now: int) -> bool:
        """Whether a connection may stay for another request during a soft stop: the less likely,
        the more of `close-spread-time` is over.
        """
        return self.close_spread_end - now > random() * self.close_spread

    def handle_signal(self, signum: int, action: Callable[[], None]) -> None:
        """Have `action()` called on thread 0 when signal `signum` arrives. Main thread only."""

        def handler(_signum: int, _frame: types.FrameType | None) -> None:
            self.shareds[0].post(lambda _ctx: action())

        signal.signal(signum, handler)


def _watch_inbox(ctx: ThreadContext) -> None:
    ctx.epoll.register(ctx.shared.event_fd, 1)


def _note_soft_stop(ctx: ThreadContext) -> None:
    ctx.stopping = True


def _act(task: Task, action: Callable[[], None]) -> None:
    task.ctx.finish(task)
    action()


def _arm_hard_stop(ctx: ThreadContext, tick: int) -> None:
    task = Task(ctx, lambda _value: ctx.pool.hard_stop(), "hard-stop-after")
    task.set_expire(tick)
