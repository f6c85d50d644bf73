"""The timer queue of one thread: cheap to move, exact in what it wakes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mtproxy.base.clock import NEVER
from mtproxy.sched.context import ThreadContext
from mtproxy.sched.tasklet import Task
from mtproxy.sched.timers import Timers
from mtproxy.testing.pools import lone_context


@pytest.fixture
def ctx() -> Iterator[ThreadContext]:
    with lone_context() as ctx:
        yield ctx


def make_task(ctx: ThreadContext, name: str = "t") -> Task:
    return Task(ctx, lambda _value: None, name)


def woken(ctx: ThreadContext, now: int) -> list[str]:
    """Names of what expires at `now`, sorted."""
    ctx.timers.expire_due(now)
    ctx._check()
    names = []
    while ctx.normal:
        tasklet = ctx.normal.popleft()
        tasklet.queued = False
        names.append(tasklet.name)
    return sorted(names)


def test_nothing_is_due_in_an_empty_queue() -> None:
    timers = Timers()
    timers._check()
    assert (timers.next, len(timers), timers.expire_due(NEVER - 1)) == (NEVER, 0, 0)


def test_a_task_expires_at_its_tick_not_before(ctx: ThreadContext) -> None:
    make_task(ctx, "a").set_expire(10)
    assert woken(ctx, 9) == []
    assert woken(ctx, 10) == ["a"]
    assert woken(ctx, 1000) == []
    assert ctx.timers.next == NEVER


def test_all_overdue_ticks_expire_at_once(ctx: ThreadContext) -> None:
    for tick in (30, 10, 20, 10):
        make_task(ctx, str(tick)).set_expire(tick)
    assert len(ctx.timers) == 4
    assert woken(ctx, 25) == ["10", "10", "20"]
    assert ctx.timers.next == 30


def test_a_postponed_task_moves_when_its_old_entry_fires(ctx: ThreadContext) -> None:
    task = make_task(ctx, "a")
    task.set_expire(10)
    task.expire = 50  # the store that a busy connection makes
    assert woken(ctx, 10) == []
    assert ctx.timers.next == 50
    assert woken(ctx, 50) == ["a"]


def test_a_task_whose_expiry_was_taken_away_is_dropped(ctx: ThreadContext) -> None:
    task = make_task(ctx)
    task.set_expire(10)
    task.expire = NEVER
    assert woken(ctx, 10) == []
    assert (len(ctx.timers), ctx.timers.next, task.timer) == (0, NEVER, NEVER)


def test_a_disarmed_task_is_not_woken(ctx: ThreadContext) -> None:
    gone, stays = make_task(ctx, "gone"), make_task(ctx, "stays")
    gone.set_expire(10)
    stays.set_expire(10)
    ctx.timers.disarm(gone)
    ctx.timers.disarm(gone)  # twice does no harm
    assert woken(ctx, 10) == ["stays"]


def test_a_task_that_is_queued_already_is_queued_once(ctx: ThreadContext) -> None:
    task = make_task(ctx)
    task.set_expire(10)
    task.wake()
    assert ctx.timers.expire_due(10) == 1
    assert list(ctx.normal) == [task]


def test_a_task_may_be_armed_again_after_it_fired(ctx: ThreadContext) -> None:
    task = make_task(ctx, "a")
    for tick in (10, 20, 30):
        task.set_expire(tick)
        assert woken(ctx, tick) == ["a"]


def test_a_moved_task_leaves_nothing_that_grows(ctx: ThreadContext) -> None:
    """The same few ticks again and again: the heap holds each of them once."""
    task = make_task(ctx)
    for _ in range(100):
        for tick in (900, 800, 700):
            task.set_expire(tick)
            ctx.timers._check()
        ctx.timers.disarm(task)
    assert len(ctx.timers.ticks) == 3
    assert len(ctx.timers) == 0
    assert woken(ctx, 1000) == []
    assert len(ctx.timers.ticks) == 0


@pytest.mark.parametrize("fault", ["tick", "next", "timer", "expire"])
def test_check_sees_what_is_broken(ctx: ThreadContext, fault: str) -> None:
    task = make_task(ctx)
    task.set_expire(10)
    timers = ctx.timers
    match fault:
        case "tick":
            timers.ticks.append(11)
        case "next":
            timers.next = 9
        case "timer":
            task.timer = 11
        case "expire":
            task.expire = 9
    with pytest.raises(AssertionError):
        timers._check()
