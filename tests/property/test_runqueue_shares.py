"""The run queue's classes: a turn never runs more than its depth, and nobody starves."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from mtproxy.sched.loop import run_some
from mtproxy.sched.runqueue import run_classes, share_out
from mtproxy.sched.tasklet import Tasklet
from mtproxy.testing.pools import lone_context

WAITING = st.tuples(st.integers(0, 100), st.integers(0, 100), st.integers(0, 100))
WEIGHTS = (4, 3, 1)


@given(depth=st.integers(1, 300), turns=st.lists(WAITING, min_size=1, max_size=50))
def test_a_turn_is_filled_and_never_overfilled(
    depth: int, turns: Sequence[tuple[int, int, int]]
) -> None:
    dealt = [0] * 8
    for waiting in turns:
        shares = share_out(dealt, depth, *waiting)
        assert sum(shares) == min(depth, sum(waiting))
        for share, number in zip(shares, waiting, strict=True):
            assert 0 <= share <= number


@given(
    depth=st.integers(1, 100),
    who=st.sampled_from([(0, 1), (0, 2), (1, 2), (0, 1, 2)]),
    turns=st.integers(1, 100),
)
def test_classes_that_always_have_work_get_their_weight(
    depth: int, who: tuple[int, ...], turns: int
) -> None:
    """Never further off than by one round of the pattern, after any number of turns."""
    dealt = [0] * 8
    waiting = [depth + 1 if i in who else 0 for i in range(3)]
    got = [0, 0, 0]
    for _ in range(turns):
        got = [a + b for a, b in zip(got, share_out(dealt, depth, *waiting), strict=True)]
    weight = sum(WEIGHTS[i] for i in who)
    for i in who:
        assert abs(got[i] - depth * turns * WEIGHTS[i] / weight) < WEIGHTS[i]


@given(
    depth=st.integers(1, 20),
    who=st.integers(0, 2),
    others=st.lists(WAITING, min_size=30, max_size=30),
)
def test_whoever_waits_is_served_in_time(
    depth: int, who: int, others: list[tuple[int, int, int]]
) -> None:
    """Whatever the other classes do: within a round of each combination that it is part of."""
    dealt = [0] * 8
    unserved = 0
    for waiting in others:
        now = [*waiting]
        now[who] = max(1, now[who])
        unserved = 0 if share_out(dealt, depth, *now)[who] else unserved + 1
        assert unserved < 3 * 8


CLASS = st.sampled_from(["urgent", "normal", "bulk"])


@settings(max_examples=50)
@given(
    depth=st.integers(1, 12),
    # each tasklet: its class, and the class it wakes itself in again
    tasklets=st.lists(st.tuples(CLASS, CLASS), min_size=1, max_size=25),
)
def test_no_tasklet_waits_for_ever(depth: int, tasklets: list[tuple[str, str]]) -> None:
    """Tasklets that are always ready, in classes that change: in the loop's own terms."""
    with lone_context() as ctx:
        for number, (first, again) in enumerate(tasklets):
            tasklet = Tasklet(ctx, lambda _value: None, str(number))

            def step(_value: None, tasklet: Tasklet = tasklet, again: str = again) -> None:
                tasklet.queue = getattr(ctx, again)
                tasklet.wake()

            tasklet.step = step
            tasklet.queue = getattr(ctx, first)
            tasklet.wake()
        all_of_them = [*ctx.urgent, *ctx.normal, *ctx.bulk]
        # the longest way: through a queue of all others, at the smallest share
        turns = 24 * (len(tasklets) + 1) // depth + 24
        for _ in range(turns):
            before = ctx.activity.ctxsw
            run_classes(ctx, depth, run_some)
            assert ctx.activity.ctxsw - before <= depth
        ctx._check()
        for tasklet in all_of_them:
            assert tasklet.calls >= 1, tasklet.name
        for rq in (ctx.urgent, ctx.normal, ctx.bulk):
            rq.clear()
