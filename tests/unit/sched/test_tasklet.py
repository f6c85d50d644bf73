"""Tasklets and tasks: queued once, run by wake-ups, ended once; their expiry."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mtproxy.base.clock import NEVER
from mtproxy.sched.context import ThreadContext
from mtproxy.sched.loop import run_some
from mtproxy.sched.tasklet import Task, Tasklet, park
from mtproxy.testing.pools import lone_context


@pytest.fixture
def ctx() -> Iterator[ThreadContext]:
    with lone_context() as ctx:
        yield ctx
        ctx._check()


def run_all(ctx: ThreadContext) -> int:
    """Run what stands in the normal queue now."""
    return run_some(ctx, ctx.normal, 100)


def test_many_wakes_cost_one_run(ctx: ThreadContext) -> None:
    runs: list[object] = []
    tasklet = Tasklet(ctx, runs.append, "t")
    for _ in range(3):
        tasklet.wake()
    assert tasklet.queued
    assert list(ctx.normal) == [tasklet]
    assert run_all(ctx) == 1
    assert runs == [None]
    assert not tasklet.queued
    assert tasklet.calls == 1


def test_a_wake_during_the_run_costs_another(ctx: ThreadContext) -> None:
    runs: list[int] = []

    def step(_value: None) -> None:
        runs.append(len(runs))
        if len(runs) < 3:
            tasklet.wake()

    tasklet = Tasklet(ctx, step, "t")
    tasklet.wake()
    # one that wakes itself runs again in the next turn, not in this one
    assert [run_all(ctx), run_all(ctx), run_all(ctx), run_all(ctx)] == [1, 1, 1, 0]


def test_a_tasklet_waits_in_the_queue_of_its_class(ctx: ThreadContext) -> None:
    tasklet = Tasklet(ctx, lambda _value: None, "t")
    tasklet.queue = ctx.bulk
    tasklet.wake()
    assert not ctx.normal
    assert list(ctx.bulk) == [tasklet]


def test_a_coroutine_runs_from_park_to_park(ctx: ThreadContext) -> None:
    seen: list[str] = []

    async def main() -> None:
        seen.append("first")
        await park()
        seen.append("second")
        await park()
        seen.append("third")

    task = ctx.spawn(main(), "main")
    assert task in ctx.tasklets
    assert not seen, "nothing runs before the loop does"
    run_all(ctx)
    assert seen == ["first"]
    assert run_all(ctx) == 0, "it is parked"
    task.wake()
    run_all(ctx)
    assert seen == ["first", "second"]
    assert not task.done
    task.wake()
    run_all(ctx)
    assert seen == ["first", "second", "third"]
    assert task.done
    assert task not in ctx.tasklets
    assert task.coro is None, "nothing of the coroutine is kept"


def test_a_late_wake_of_an_ended_task_does_nothing(ctx: ThreadContext) -> None:
    async def main() -> None:
        return

    task = ctx.spawn(main(), "main")
    run_all(ctx)
    task.wake()
    assert run_all(ctx) == 1
    assert ctx.activity.errors == 0


def test_the_end_disarms_the_expiry(ctx: ThreadContext) -> None:
    async def main() -> None:
        task.set_expire(ctx.now + 1000)
        await park()

    task = ctx.spawn(main(), "main")
    run_all(ctx)
    assert len(ctx.timers) == 1
    task.wake()
    run_all(ctx)
    assert task.done
    assert len(ctx.timers) == 0
    assert task.expire == NEVER


def test_an_earlier_expiry_is_queued_and_a_later_one_only_stored(ctx: ThreadContext) -> None:
    task = Task(ctx, lambda _value: None, "t")
    assert (task.expire, task.timer) == (NEVER, NEVER)
    task.set_expire(500)
    assert (task.expire, task.timer, ctx.timers.next) == (500, 500, 500)
    task.set_expire(900)
    assert (task.expire, task.timer, ctx.timers.next) == (900, 500, 500)
    task.set_expire(400)
    assert (task.expire, task.timer, ctx.timers.next) == (400, 400, 400)
    ctx.timers.disarm(task)
