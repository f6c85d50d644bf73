"""The loop of one thread, turn by turn: order, shares, time, and what happens to failures."""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mtproxy.base.clock import monotonic_ms
from mtproxy.sched.context import ThreadContext, ThreadShared
from mtproxy.sched.loop import run_loop
from mtproxy.sched.tasklet import Tasklet, park
from mtproxy.sched.waitqueue_variants import VARIANTS
from mtproxy.testing.pools import PatientEpoll, lone_context, make_patient, run_task
from mtproxy.testing.threads import playing
from mtproxy.testing.waiting import wait_until


@pytest.fixture
def ctx() -> Iterator[ThreadContext]:
    with lone_context() as ctx:
        yield ctx
        ctx._check()


def run_turns(ctx: ThreadContext, count: int = 1) -> None:
    """Run exactly `count` turns; the first never waits, because its second has begun."""
    last = ctx.activity.loops + count

    def stop() -> None:
        ctx.pool.stopping_now = ctx.activity.loops >= last

    ctx.pool.stopping_now = False
    ctx.flushers.append(stop)
    run_loop(ctx)
    ctx.flushers.remove(stop)


class SharedTask:
    """A task of the global wait queue."""

    def __init__(self, run: Callable[[ThreadContext], None]) -> None:
        self.expire: int | None = None
        self.wq_key: tuple[int, int] | None = None
        self.run = run

    def __repr__(self) -> str:
        return "<SharedTask>"


def queue(ctx: ThreadContext, rq: deque[Tasklet], ran: list[str], *names: str) -> None:
    for name in names:
        tasklet = Tasklet(ctx, lambda _value, name=name: ran.append(name), name)
        tasklet.queue = rq
        tasklet.wake()


# --- run-queue classes


def test_urgent_before_normal_before_bulk(ctx: ThreadContext) -> None:
    ran: list[str] = []
    queue(ctx, ctx.bulk, ran, "b1", "b2")
    queue(ctx, ctx.normal, ran, "n1", "n2")
    queue(ctx, ctx.urgent, ran, "u1", "u2")
    run_turns(ctx)
    assert ran == ["u1", "u2", "n1", "n2", "b1", "b2"]
    assert ctx.activity.ctxsw == 6
    assert ctx.activity.long_rq == 0


def test_a_turn_runs_no_more_than_its_depth(ctx: ThreadContext) -> None:
    ran: list[str] = []
    ctx.pool.runqueue_depth = 4
    queue(ctx, ctx.normal, ran, *"abcdefghij")
    run_turns(ctx)
    assert ran == [*"abcd"]
    assert ctx.activity.long_rq == 1
    run_turns(ctx, 2)
    assert ran == [*"abcdefghij"]
    assert ctx.activity.wake_tasks == 3, "no turn waited"


def test_bulk_gets_a_share_beside_many_normal_ones(ctx: ThreadContext) -> None:
    ran: list[str] = []
    ctx.pool.runqueue_depth = 4
    queue(ctx, ctx.normal, ran, *"abcdef")
    queue(ctx, ctx.bulk, ran, "X", "Y")
    run_turns(ctx)
    assert ran == [*"abcX"]
    run_turns(ctx)
    assert ran == [*"abcXdefY"]


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_nobody_who_is_always_ready_starves_another_class(ctx: ThreadContext, depth: int) -> None:
    ctx.pool.runqueue_depth = depth
    for name, rq in (("normal", ctx.normal), ("bulk", ctx.bulk)):
        for i in range(10):
            tasklet = Tasklet(ctx, lambda _value: None, f"{name}{i}")
            tasklet.step = lambda _value, tasklet=tasklet: tasklet.wake()
            tasklet.queue = rq
            tasklet.wake()
    tasklets = [*ctx.normal, *ctx.bulk]
    run_turns(ctx, 30)
    for tasklet in tasklets:
        assert tasklet.calls >= 30 * depth // 4 // 10, tasklet.name
    ctx.pool.runqueue_depth = 1000
    for tasklet in tasklets:
        tasklet.step = lambda _value: None
    run_turns(ctx)


# --- messages, descriptors, time


def test_messages_that_post_messages_do_not_hold_the_turn_up(ctx: ThreadContext) -> None:
    ran: list[str] = []

    def again(ctx: ThreadContext) -> None:
        ran.append("message")
        ctx.shared.post(again)

    ctx.shared.post(again)
    queue(ctx, ctx.normal, ran, "tasklet")
    run_turns(ctx, 3)
    assert ran == ["message", "tasklet", "message", "message"]
    assert ctx.activity.inbox == 3
    ctx.shared.inbox.clear()


def test_an_event_for_a_descriptor_that_nobody_owns_is_dropped(ctx: ThreadContext) -> None:
    rd, wr = os.pipe()
    try:
        os.write(wr, b"x")
        ctx.epoll.register(rd, 1)
        run_turns(ctx, 2)
        assert ctx.activity.poll_io == 2
    finally:
        ctx.epoll.unregister(rd)
        os.close(rd)
        os.close(wr)


def test_a_message_ends_the_sleep(ctx: ThreadContext) -> None:
    idents: list[int] = []

    def message(ctx: ThreadContext) -> None:
        idents.append(threading.get_ident())
        ctx.pool.stopping_now = True

    def poster() -> None:
        wait_until(lambda: ctx.shared.sleeping, "the loop to sleep")
        ctx.shared.post(message)

    make_patient(ctx)
    with playing(poster):
        run_loop(ctx)
    assert idents == [threading.get_ident()]
    assert not ctx.shared.sleeping
    assert ctx.shared.stopped


def test_a_parked_task_runs_when_its_expiry_has_passed(ctx: ThreadContext) -> None:
    async def main() -> tuple[int, int]:
        task = ctx.running
        assert task is not None
        until = ctx.now + 30
        task.set_expire(until)  # type: ignore[attr-defined]
        runs = 0
        while ctx.now < until:
            await park()
            runs += 1
        return ctx.now - until, runs

    started = monotonic_ms()
    late, runs = run_task(ctx, main())
    assert monotonic_ms() - started >= 30
    assert late >= 0
    assert runs == 1
    assert ctx.activity.poll_exp == 1


@pytest.mark.parametrize("variant", VARIANTS)
def test_shared_tasks_run_here_within_the_budget(ctx: ThreadContext, variant: str) -> None:
    ran: list[int] = []
    ctx.pool.wait_queue = VARIANTS[variant]()
    ctx.pool.wait_queue_budget = 2
    for i in range(5):
        task = SharedTask(lambda _ctx, i=i: ran.append(i))
        ctx.pool.wait_queue.queue(task, ctx.now - 10 + i, 0)
    run_turns(ctx)
    assert ran == [0, 1]
    run_turns(ctx, 2)
    assert ran == [0, 1, 2, 3, 4]
    assert ctx.activity.tasksw == 5
    ctx.pool.wait_queue._check()


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_loop_wakes_for_a_shared_task(ctx: ThreadContext, variant: str) -> None:
    ctx.pool.wait_queue = VARIANTS[variant]()

    def stop(ctx: ThreadContext) -> None:
        ctx.pool.stopping_now = True

    tick = monotonic_ms() + 30
    ctx.pool.wait_queue.queue(SharedTask(stop), tick, 0)
    run_loop(ctx)
    assert monotonic_ms() >= tick


def test_housekeeping_comes_with_the_second(
    ctx: ThreadContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic_ns()
    monkeypatch.setattr(time, "monotonic_ns", lambda: now)
    kept: list[int] = []
    ctx.housekeepers.append(lambda ctx: kept.append(ctx.now))
    ctx.wall_offset = 0
    busy = Tasklet(ctx, lambda _value: busy.wake(), "busy")
    busy.wake()
    run_turns(ctx, 3)
    assert len(kept) == 1, "once in a second, not in each turn"
    assert ctx.wall_offset > 0


# --- falling asleep


class Falling(ThreadShared):
    """Stops at each step of falling asleep, as another thread could at that moment."""

    def __init__(self, tid: int, at: Callable[[str], None]) -> None:
        self.at = at
        self.announced = False
        super().__init__(tid)
        self.inbox = FallingInbox(at)

    @property
    def sleeping(self) -> bool:  # type: ignore[override]
        return self.announced

    @sleeping.setter
    def sleeping(self, value: bool) -> None:
        if value:
            self.at("before it announces its sleep")
        self.announced = value
        if value:
            self.at("after it has announced its sleep")


class FallingInbox(deque[Any]):
    def __init__(self, at: Callable[[str], None]) -> None:
        super().__init__()
        self.at = at

    def popleft(self) -> Any:
        try:
            return super().popleft()
        except IndexError:
            self.at("after its last look into the inbox")
            raise


class FallingEpoll(PatientEpoll):
    def __init__(self, epoll: select.epoll, at: Callable[[str], None]) -> None:
        super().__init__(epoll)
        self.at = at

    def poll(self, seconds: float, most: int) -> list[tuple[int, int]]:
        if seconds > self.OWN_SECOND:
            self.at("when it begins to wait")
        return super().poll(seconds, most)


@pytest.mark.parametrize("what", ["a message", "a shared task"])
@pytest.mark.parametrize(
    "moment",
    [
        "before it announces its sleep",
        "after it has announced its sleep",
        "after its last look into the inbox",
        "when it begins to wait",
    ],
)
def test_what_comes_while_a_thread_falls_asleep_is_seen(
    ctx: ThreadContext, moment: str, what: str
) -> None:
    """Nothing is lost at any step; a lost one would be noticed by the patient poller."""
    pool = ctx.pool
    reached: list[str] = []

    def stop(ctx: ThreadContext) -> None:
        pool.stopping_now = True

    def at(step: str) -> None:
        # the first turn does not wait
        if step == moment and ctx.activity.loops == 2 and not reached:
            reached.append(step)
            if what == "a message":
                pool.run_on(0, stop)
            else:
                pool.wait_queue.queue(SharedTask(stop), monotonic_ms(), 1)

    old = ctx.shared
    ctx.epoll.unregister(old.event_fd)
    ctx.shared = pool.shareds[0] = Falling(0, at)
    ctx.epoll.register(ctx.shared.event_fd, 1)
    ctx.epoll = FallingEpoll(ctx.epoll, at)  # type: ignore[assignment]
    run_loop(ctx)
    assert reached == [moment]


# --- failures


def fail(*_args: object) -> None:
    raise RuntimeError("on purpose")


def in_a_tasklet(ctx: ThreadContext) -> str:
    Tasklet(ctx, fail, "the culprit").wake()
    return "the culprit"


def in_a_coroutine(ctx: ThreadContext) -> str:
    async def main() -> None:
        fail()

    ctx.spawn(main(), "the stream")
    return "the stream"


def in_a_message(ctx: ThreadContext) -> str:
    ctx.shared.post(fail)
    return "a message of another thread"


def in_a_shared_task(ctx: ThreadContext) -> str:
    ctx.pool.wait_queue.queue(SharedTask(fail), ctx.now, 0)
    return "the shared task <SharedTask>"


def in_housekeeping(ctx: ThreadContext) -> str:
    ctx.housekeepers.append(fail)
    return "housekeeping"


def in_a_flusher(ctx: ThreadContext) -> str:
    ctx.flushers.insert(0, fail)
    return "batched output"


@pytest.mark.parametrize(
    "arrange",
    [
        in_a_tasklet,
        in_a_coroutine,
        in_a_message,
        in_a_shared_task,
        in_housekeeping,
        in_a_flusher,
    ],
)
def test_a_failure_is_reported_and_the_others_go_on(
    ctx: ThreadContext,
    arrange: Callable[[ThreadContext], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    ran: list[str] = []
    what = arrange(ctx)
    queue(ctx, ctx.normal, ran, "another")
    ctx.shared.post(lambda _ctx: ran.append("message"))
    ctx.housekeepers.append(lambda _ctx: ran.append("housekeeping"))
    run_turns(ctx)
    assert sorted(ran) == ["another", "housekeeping", "message"]
    assert ctx.activity.errors == 1
    said = capsys.readouterr().err
    assert said.startswith(f"[ALERT]    ({os.getpid()}) : thread 1: {what} failed unexpectedly")
    assert said.rstrip().endswith("RuntimeError: on purpose")
    assert not ctx.tasklets


def test_a_callback_that_failed_has_another_try(
    ctx: ThreadContext, capsys: pytest.CaptureFixture[str]
) -> None:
    """An acceptor that fails with one connection must accept the next one."""
    ran: list[int] = []

    def step(_value: None) -> None:
        ran.append(len(ran))
        if len(ran) == 1:
            fail()

    tasklet = Tasklet(ctx, step, "accept")
    for _ in range(2):
        tasklet.wake()
        run_turns(ctx)
    assert ran == [0, 1]
    assert capsys.readouterr().err.count("[ALERT]") == 1


def test_a_task_that_failed_is_over(ctx: ThreadContext, capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        task.set_expire(ctx.now + 10_000)
        await park()
        fail()

    task = ctx.spawn(main(), "main")
    run_turns(ctx)
    assert not task.done
    task.wake()
    run_turns(ctx)
    assert task.done
    assert len(ctx.timers) == 0
    task.wake()
    run_turns(ctx)
    assert ctx.activity.errors == 1
    assert capsys.readouterr().err.count("[ALERT]") == 1
