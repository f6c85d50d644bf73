"""What a thread shares: messages, and waking it only when it sleeps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from mtproxy.sched.context import ThreadContext
from mtproxy.sched.tasklet import Tasklet
from mtproxy.testing.pools import lone_context


@pytest.fixture
def ctx() -> Iterator[ThreadContext]:
    with lone_context() as ctx:
        yield ctx


def wakes(ctx: ThreadContext) -> int:
    """How often the event descriptor was written since the last call."""
    try:
        return os.eventfd_read(ctx.shared.event_fd)
    except BlockingIOError:
        return 0


def test_a_message_to_an_awake_thread_costs_no_system_call(ctx: ThreadContext) -> None:
    ctx.shared.post(lambda _ctx: None)
    assert len(ctx.shared.inbox) == 1
    assert wakes(ctx) == 0


def test_a_sleeper_is_woken_once(ctx: ThreadContext) -> None:
    ctx.shared.sleeping = True
    ctx.shared.post(lambda _ctx: None)
    ctx.shared.post(lambda _ctx: None)
    ctx.shared.wake()
    assert len(ctx.shared.inbox) == 3
    assert wakes(ctx) == 1
    assert not ctx.shared.sleeping


def test_a_mere_wake_up_is_a_message_that_does_nothing(ctx: ThreadContext) -> None:
    ctx.shared.wake()
    (message,) = ctx.shared.inbox
    message(ctx)
    ctx._check()


def queued_twice(ctx: ThreadContext) -> None:
    tasklet = Tasklet(ctx, lambda _value: None, "t")
    tasklet.wake()
    ctx.normal.append(tasklet)


def without_its_flag(ctx: ThreadContext) -> None:
    tasklet = Tasklet(ctx, lambda _value: None, "t")
    tasklet.wake()
    tasklet.queued = False


def ended_but_kept(ctx: ThreadContext) -> None:
    tasklet = Tasklet(ctx, lambda _value: None, "t")
    tasklet.done = True
    ctx.tasklets.add(tasklet)


@pytest.mark.parametrize("damage", [queued_twice, without_its_flag, ended_but_kept])
def test_check_sees_what_is_broken(
    ctx: ThreadContext, damage: Callable[[ThreadContext], None]
) -> None:
    ctx._check()
    damage(ctx)
    with pytest.raises(AssertionError):
        ctx._check()
