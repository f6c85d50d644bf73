"""How a turn's depth is shared out among the classes of the run queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from mtproxy.sched.context import ThreadContext
from mtproxy.sched.loop import run_some
from mtproxy.sched.runqueue import PATTERNS, run_classes, share_out
from mtproxy.sched.tasklet import Tasklet
from mtproxy.testing.pools import lone_context


@pytest.fixture
def ctx() -> Iterator[ThreadContext]:
    with lone_context() as ctx:
        yield ctx
        ctx._check()


def test_weights() -> None:
    """4 : 3 : 1 in every pattern, without the classes that it is not for."""
    for combination, pattern in enumerate(PATTERNS):
        if combination.bit_count() > 1:
            counts = [pattern.count(bit) for bit in (1, 2, 4)]
            for bit, count, weight in zip((1, 2, 4), counts, (4, 3, 1), strict=True):
                assert count == (weight if combination & bit else 0)


@pytest.mark.parametrize("waiting", [(0, 0, 0), (3, 4, 1), (0, 8, 0), (8, 0, 0)])
def test_what_fits_in_runs(waiting: tuple[int, int, int]) -> None:
    dealt = [0] * 8
    assert share_out(dealt, 8, *waiting) == [*waiting]
    assert dealt == [0] * 8


@pytest.mark.parametrize(
    ("waiting", "shares"),
    [
        ((100, 100, 100), [20, 15, 5]),
        ((0, 100, 100), [0, 30, 10]),
        ((100, 0, 100), [32, 0, 8]),
        ((0, 0, 100), [0, 0, 40]),
        ((2, 100, 100), [2, 33, 5]),
        ((2, 20, 100), [2, 20, 18]),
        ((100, 1, 100), [34, 1, 5]),
        ((100, 100, 1), [24, 15, 1]),
    ],
)
def test_shares_of_40(waiting: tuple[int, int, int], shares: list[int]) -> None:
    assert share_out([0] * 8, 40, *waiting) == shares


def test_one_at_a_time() -> None:
    """The smallest depth: the pattern itself, turn by turn."""
    dealt = [0] * 8
    turns = [share_out(dealt, 1, 5, 5, 5).index(1) for _ in range(16)]
    assert turns == [0, 1, 0, 1, 0, 1, 0, 2] * 2


def queue(ctx: ThreadContext, rq: deque[Tasklet], step: Any, *names: str) -> None:
    for name in names:
        tasklet = Tasklet(ctx, lambda _value, name=name: step(name), name)
        tasklet.queue = rq
        tasklet.wake()


def test_what_urgent_ones_wake_runs_in_the_same_turn(ctx: ThreadContext) -> None:
    """A connection that was accepted just now need not wait for another poll."""
    ran: list[str] = []

    def accept(name: str) -> None:
        ran.append(name)
        queue(ctx, ctx.normal, ran.append, f"{name}'s")

    queue(ctx, ctx.urgent, accept, "a", "b")
    run_classes(ctx, 3, run_some)
    assert ran == ["a", "b", "a's"]
    run_classes(ctx, 3, run_some)
    assert ran[3:] == ["b's"]


def test_a_turn_keeps_its_depth_whatever_is_woken(ctx: ThreadContext) -> None:
    ran: list[str] = []

    def accept(name: str) -> None:
        ran.append(name)
        queue(ctx, ctx.urgent, accept, name)
        queue(ctx, ctx.normal, ran.append, *"xyz")
        queue(ctx, ctx.bulk, ran.append, "bulk")

    queue(ctx, ctx.urgent, accept, *"abc")
    for turn in range(1, 9):
        run_classes(ctx, 5, run_some)
        assert len(ran) == 5 * turn
    assert {"a", "b", "c", "x", "bulk"} <= set(ran)
    for rq in (ctx.urgent, ctx.normal, ctx.bulk):
        rq.clear()


def test_counters(ctx: ThreadContext) -> None:
    queue(ctx, ctx.urgent, len, "aa", "bb")
    queue(ctx, ctx.normal, len, *"cdef")
    queue(ctx, ctx.bulk, len, *"gh")
    run_classes(ctx, 6, run_some)
    activity = ctx.activity
    assert (activity.ctxsw, activity.urgent, activity.bulk, activity.long_rq) == (6, 2, 0, 1)
    run_classes(ctx, 6, run_some)
    assert (activity.ctxsw, activity.urgent, activity.bulk, activity.long_rq) == (8, 2, 2, 1)
