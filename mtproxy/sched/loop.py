"""The loop of one thread.

One turn: poll (waiting at most until the next expiry, not at all while tasklets are queued), queue
the tasklets of ready descriptors, take messages from other threads, expire timers, look at the
global wait queue, run at most `tune.runqueue-depth` tasklets (sched.runqueue shares them out among
the classes), flush.

The function is long on purpose: it is the hottest code of the program, and each call would cost.
"""

from __future__ import annotations

import os
import time
import traceback
from collections import deque
from typing import TYPE_CHECKING

from mtproxy.base.clock import NEVER, wall_offset_ms
from mtproxy.base.report import say
from mtproxy.sched.runqueue import run_classes

if TYPE_CHECKING:
    from mtproxy.sched.context import ThreadContext
    from mtproxy.sched.tasklet import Tasklet

#: events taken from one poll (tune.maxpollevents)
DEFAULT_MAX_EVENTS = 200


def run_loop(ctx: ThreadContext) -> None:
    """Run until the pool is told to stop. Called once, on the thread that owns `ctx`."""
    pool = ctx.pool
    depth = pool.runqueue_depth
    wait_queue = pool.wait_queue
    # None: `next_tick` may be looked at without the lock
    peek = wait_queue.next_expiry if wait_queue.PEEKS_LOCKED else None
    shared = ctx.shared
    inbox = shared.inbox
    timers = ctx.timers
    owner_of = ctx.fdtab.get
    activity = ctx.activity
    urgent, normal, bulk = ctx.urgent, ctx.normal, ctx.bulk
    poll = ctx.epoll.poll
    max_events = pool.max_events
    monotonic_ns = time.monotonic_ns
    event_fd = shared.event_fd
    tid = ctx.tid
    next_second = 0
    watching = False
    last_loops = activity.loops

    while not pool.stopping_now:
        activity.loops += 1
        # --- wait for something to do
        if normal or urgent or bulk:
            activity.wake_tasks += 1
            events = poll(0, max_events)
        else:
            shared.sleeping = True
            # From here every post() wakes us. What was posted before is seen by this popleft: it
            # takes the same internal lock as the poster's append, which orders the two sides. The
            # expiries are read after it for the same reason.
            try:
                message = inbox.popleft()
            except IndexError:
                wake_at = timers.next
                tick = wait_queue.next_tick if peek is None else peek(tid)
                if tick < wake_at:
                    watch_at = wait_queue.wake_for(tick)
                    watching = watch_at == tick
                    if watch_at < wake_at:
                        wake_at = watch_at
                if next_second < wake_at:
                    wake_at = next_second
                wait_ms = wake_at - monotonic_ns() // 1_000_000
                events = poll(wait_ms / 1000 if wait_ms > 0 else 0, max_events)
            else:
                inbox.appendleft(message)
                events = poll(0, max_events)
            shared.sleeping = False
            if watching:
                watching = False
                wait_queue.watched = NEVER
        turn_ns = ctx.turn_ns = monotonic_ns()
        now = ctx.now = turn_ns // 1_000_000

        # --- descriptors
        if events:
            activity.poll_io += len(events)
            for fd, bits in events:
                if fd == event_fd:
                    os.eventfd_read(fd)
                    activity.wake_signal += 1
                    continue
                owner = owner_of(fd)
                if owner is None:
                    activity.poll_drop_fd += 1
                    continue  # closed by an earlier event of this batch
                owner.ready |= bits
                tasklet = owner.tasklet
                if not tasklet.queued:
                    tasklet.queued = True
                    tasklet.queue.append(tasklet)

        # --- other threads
        # what is there now: messages that post messages must not hold the turn up
        for _ in range(len(inbox)):
            activity.inbox += 1
            message = inbox.popleft()
            try:
                message(ctx)
            except Exception:  # noqa: BLE001 - whatever it is, the thread goes on
                report_failure(ctx, "a message of another thread")

        # --- time
        if timers.next <= now:
            activity.poll_exp += timers.expire_due(now)
        if peek is not None or wait_queue.next_tick <= now:
            for shared_task in wait_queue.collect(now, tid, pool.wait_queue_budget):
                activity.tasksw += 1
                try:
                    shared_task.run(ctx)
                except Exception:  # noqa: BLE001 - as above
                    report_failure(ctx, f"the shared task {shared_task!r}")
        if now >= next_second:
            next_second = now + 1000
            ctx.wall_offset = wall_offset_ms()
            note_cpu(ctx, activity.loops - last_loops)
            last_loops = activity.loops
            for keep in ctx.housekeepers:
                try:
                    keep(ctx)
                except Exception:  # noqa: BLE001 - as above
                    report_failure(ctx, "housekeeping")

        # --- tasklets: mostly there are normal ones only
        run = ctx.run_some  # another one while tasks are profiled, see sched.profiled
        if urgent or bulk:
            run_classes(ctx, depth, run)
        elif normal:
            if len(normal) > depth:
                activity.long_rq += 1
            run(ctx, normal, depth)
        else:
            activity.empty_rq += 1
        for flush in ctx.flushers:
            try:
                flush()
            except Exception:  # noqa: BLE001 - as above
                report_failure(ctx, "batched output")

    shared.stopped = True


def note_cpu(ctx: ThreadContext, turns: int) -> None:
    """Once a second: what the `turns` since the last time have cost this thread."""
    cpu_ns = time.thread_time_ns()
    ctx.loop_ns = (cpu_ns - ctx.cpu_ns) // max(1, turns)
    ctx.cpu_ns = cpu_ns


def run_some(ctx: ThreadContext, rq: deque[Tasklet], limit: int) -> int:
    """Run at most `limit` of the tasklets that stand in `rq` now; returns how many."""
    n = len(rq)
    if n > limit:
        n = limit
    ctx.activity.ctxsw += n
    for _ in range(n):
        tasklet = rq.popleft()
        tasklet.queued = False
        tasklet.calls += 1
        ctx.running = tasklet
        try:
            tasklet.step(None)
        except StopIteration:
            ctx.finish(tasklet)
        except Exception:  # noqa: BLE001 - one failing tasklet must not end the thread
            report_failure(ctx, tasklet.name)
            if tasklet.coro is not None:  # a callback may do better with the next event
                ctx.finish(tasklet)
    ctx.running = None
    return n


def report_failure(ctx: ThreadContext, what: str) -> None:
    """Something ended with an exception nobody expected: say so, and go on with the rest.

    A stream's coroutine closes its connections itself on its way out.
    """
    ctx.activity.errors += 1
    say(
        "alert",
        f"thread {ctx.tid + 1}: {what} failed unexpectedly. Please report this:\n"
        f"{traceback.format_exc()}",
    )
