"""Task profiling against a model: whatever wakes whatever, on and off, each run is counted once and
waits for as long as it did.
"""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtproxy.sched import profiled
from mtproxy.sched.tasklet import Tasklet
from mtproxy.testing.pools import lone_context

CLASSES = 3
TASKLETS = 6
#: what happens: wake a tasklet from outside, run a class with a limit, or switch
wake = st.tuples(st.just("wake"), st.integers(0, TASKLETS - 1), st.just(0))
run = st.tuples(st.just("run"), st.integers(0, CLASSES - 1), st.integers(1, 4))
switch = st.tuples(st.sampled_from(["off", "on"]), st.just(0), st.just(0))
#: whom each tasklet wakes when it runs, and for how long it runs
plans = st.lists(
    st.tuples(st.lists(st.integers(0, TASKLETS - 1), max_size=2), st.integers(1, 9)),
    min_size=TASKLETS,
    max_size=TASKLETS,
)


class Clock:
    """Moves when tasklets run."""

    ns = 1_000_000

    def monotonic_ns(self) -> int:
        return self.ns


@settings(max_examples=150, deadline=None)
@given(plans, st.lists(st.one_of(wake, run, run, switch), max_size=40))
def test_every_run_is_counted_once(
    plan: list[tuple[list[int], int]], events: list[tuple[str, int, int]]
) -> None:
    clock = Clock()
    runs = cpu = 0
    measured = True
    tasklets: list[Tasklet] = []

    def step(number: int) -> None:
        nonlocal runs, cpu
        whom, cost = plan[number]
        clock.ns += cost
        runs += measured
        cpu += cost * measured
        for other in whom:
            tasklets[other].wake()

    with pytest.MonkeyPatch.context() as patch, lone_context() as ctx:
        patch.setattr(profiled, "time", clock)
        queues: list[deque[Tasklet]] = [ctx.urgent, ctx.normal, ctx.bulk]
        for number in range(TASKLETS):
            tasklet = Tasklet(ctx, lambda _value, number=number: step(number), str(number))
            tasklet.queue = queues[number % CLASSES]
            tasklets.append(tasklet)
        profiled.turn_on(ctx)
        begin = clock.ns
        for what, which, limit in events:
            if what == "wake":
                tasklets[which].wake()
            elif what == "run":
                clock.ns += 5  # the turn before
                ctx.turn_ns = clock.ns
                expected = min(limit, len(queues[which]))
                assert ctx.run_some(ctx, queues[which], limit) == expected
            elif what == "off":
                profiled.turn_off(ctx)
                measured = False
            else:
                profiled.turn_on(ctx)
                measured = True
            ctx._check()
            profile = ctx.task_profile
            assert profile is not None
            if measured and what == "run":
                assert [len(profile.stamps(rq)) for rq in queues] == [len(rq) for rq in queues]
                for rq in queues:
                    stamps = list(profile.stamps(rq))
                    assert stamps == sorted(stamps)
                    assert all(begin <= stamp <= clock.ns for stamp in stamps)
        figures = list(profile.figures.values()) if events else []
        assert sum(one.calls for one in figures) == runs
        assert sum(one.cpu_ns for one in figures) == cpu
        assert all(0 <= one.lat_ns <= (clock.ns - begin) * one.calls for one in figures)
