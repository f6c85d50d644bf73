"""Task profiling: what is counted, latency, modes; and that off means off."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from mtproxy.sched import loop, profiled
from mtproxy.sched.context import ThreadContext
from mtproxy.sched.pool import Pool
from mtproxy.sched.tasklet import Tasklet, park
from mtproxy.testing.pools import lone_context, run_with
from mtproxy.testing.waiting import wait_until

MS = 1_000_000


class Clock:
    """The monotonic clock of the module under test."""

    def __init__(self) -> None:
        self.ns = 1000 * MS

    def monotonic_ns(self) -> int:
        return self.ns


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(profiled, "time", clock)
    return clock


@pytest.fixture
def ctx() -> Iterator[ThreadContext]:
    with lone_context() as ctx:
        profiled.turn_on(ctx)
        yield ctx
        ctx._check()


def figures(ctx: ThreadContext) -> dict[str, tuple[int, int, int]]:
    profile = ctx.task_profile
    assert profile is not None
    return {
        one.name.rpartition(".")[2]: (one.calls, one.cpu_ns, one.lat_ns)
        for one in profile.figures.values()
    }


def test_calls_cpu_and_latency(ctx: ThreadContext, clock: Clock) -> None:
    async def slow() -> None:
        while True:
            clock.ns += 5 * MS
            await park()

    def quick(_value: None) -> None:
        clock.ns += 1 * MS

    tasks = [ctx.spawn(slow(), "a"), ctx.spawn(slow(), "b")]
    callback = Tasklet(ctx, quick, "c")
    callback.wake()
    ctx.turn_ns = clock.ns - 2 * MS  # the poll returned 2 ms ago
    assert ctx.run_some(ctx, ctx.normal, 100) == 3
    # they waited 2, 2 + 5 and 2 + 10 ms
    assert figures(ctx) == {"slow": (2, 10 * MS, 9 * MS), "quick": (1, 1 * MS, 12 * MS)}
    assert ctx.activity.ctxsw == 3
    assert ctx.running is None
    tasks[0].wake()
    ctx.turn_ns = clock.ns
    assert ctx.run_some(ctx, ctx.normal, 100) == 1
    assert figures(ctx)["slow"] == (3, 15 * MS, 9 * MS)
    assert [task.calls for task in tasks] == [2, 1]


def test_who_wakes_whom(ctx: ThreadContext, clock: Clock) -> None:
    """What a tasklet wakes waits from the end of its run, over the end of the turn."""

    def sleeper(_value: None) -> None:
        clock.ns += 1 * MS

    woken = Tasklet(ctx, sleeper, "woken")

    def waker(_value: None) -> None:
        clock.ns += 3 * MS
        woken.wake()
        clock.ns += 3 * MS

    Tasklet(ctx, waker, "waker").wake()
    ctx.turn_ns = clock.ns
    assert ctx.run_some(ctx, ctx.normal, 100) == 1
    clock.ns += 7 * MS
    ctx.turn_ns = clock.ns
    assert ctx.run_some(ctx, ctx.normal, 100) == 1
    assert figures(ctx) == {"waker": (1, 6 * MS, 0), "sleeper": (1, 1 * MS, 7 * MS)}


def test_another_class_is_noted_too(ctx: ThreadContext, clock: Clock) -> None:
    bulk = Tasklet(ctx, lambda _value: None, "bulk")
    bulk.queue = ctx.bulk

    def waker(_value: None) -> None:
        bulk.wake()

    Tasklet(ctx, waker, "waker").wake()
    ctx.turn_ns = clock.ns
    ctx.run_some(ctx, ctx.normal, 100)
    clock.ns += 4 * MS
    ctx.turn_ns = clock.ns
    ctx.run_some(ctx, ctx.bulk, 100)
    assert figures(ctx)["<lambda>"] == (1, 0, 4 * MS)


def test_limit_leaves_the_rest_with_its_stamp(ctx: ThreadContext, clock: Clock) -> None:
    def work(_value: None) -> None:
        clock.ns += 1 * MS

    for name in "abc":
        Tasklet(ctx, work, name).wake()
    ctx.turn_ns = clock.ns
    assert ctx.run_some(ctx, ctx.normal, 2) == 2
    assert len(ctx.normal) == 1
    ctx.turn_ns = clock.ns + 100 * MS  # does not count: it waits already
    assert ctx.run_some(ctx, ctx.normal, 2) == 1
    assert figures(ctx) == {"work": (3, 3 * MS, (0 + 1 + 2) * MS)}


def test_ends_and_failures_are_those_of_the_loop(
    ctx: ThreadContext, clock: Clock, capfd: pytest.CaptureFixture[str]
) -> None:
    async def ends() -> None:
        clock.ns += 1 * MS

    async def fails() -> None:
        raise ZeroDivisionError

    def callback(_value: None) -> None:
        raise ZeroDivisionError

    ended, failed = ctx.spawn(ends(), "ends"), ctx.spawn(fails(), "fails")
    kept = Tasklet(ctx, callback, "callback")
    kept.wake()
    assert ctx.run_some(ctx, ctx.normal, 100) == 3
    assert ended.done
    assert failed.done
    assert not kept.done
    assert not ctx.tasklets
    assert ctx.activity.errors == 2
    assert capfd.readouterr().err.count("failed unexpectedly") == 2
    assert {name: calls for name, (calls, _, _) in figures(ctx).items()} == {
        "ends": 1,
        "fails": 1,
        "callback": 1,
    }


def test_names(ctx: ThreadContext) -> None:
    async def coroutine() -> None:
        return None

    class Owner:
        def method(self, _value: None) -> None:
            return None

    task = ctx.spawn(coroutine(), "x")
    bound = Tasklet(ctx, Owner().method, "x")
    builtin = Tasklet(ctx, [].append, "x")
    names = [profiled.function_name(profiled.function_of(t)) for t in (task, bound, builtin)]
    assert [name.rpartition("<locals>.")[2] for name in names] == [
        "coroutine",
        "Owner.method",
        "builtin_function_or_method",
    ]
    ctx.run_some(ctx, ctx.normal, 9)


def test_off_is_the_loop_s_own_and_keeps_the_figures(ctx: ThreadContext, clock: Clock) -> None:
    Tasklet(ctx, lambda _value: None, "x").wake()
    ctx.run_some(ctx, ctx.normal, 9)
    profiled.turn_off(ctx)
    assert ctx.run_some is loop.run_some
    assert figures(ctx)["<lambda>"][0] == 1
    waiting = Tasklet(ctx, lambda _value: None, "y")
    waiting.wake()
    profiled.turn_on(ctx)
    clock.ns += 9 * MS
    ctx.turn_ns = clock.ns
    ctx.run_some(ctx, ctx.normal, 9)
    # woken before: counted from the turn
    assert sum(lat for _, _, lat in figures(ctx).values()) < 9 * MS


def test_modes_of_a_pool() -> None:
    pool = Pool(2, watchdog_ms=0)

    def everywhere(on: bool) -> None:
        wait_until(
            lambda: all(profiled.active(ctx) is on for ctx in pool.contexts), f"profiling {on}"
        )

    def play() -> None:
        assert not any(map(profiled.active, pool.contexts))
        profiled.set_mode(pool, "on")
        everywhere(True)
        wait_until(lambda: all(ctx.task_profile for ctx in pool.contexts), "figures")
        first = [ctx.task_profile for ctx in pool.contexts]
        profiled.set_mode(pool, "on")  # begins anew, on each thread in its own time
        wait_until(
            lambda: all(
                ctx.task_profile and ctx.task_profile is not old
                for ctx, old in zip(pool.contexts, first, strict=True)
            ),
            "new figures",
        )
        profiled.set_mode(pool, "off")
        everywhere(False)
        assert pool.contexts[1].task_profile is not None
        profiled.set_mode(pool, "auto")  # nothing is slow

    run_with(pool, play, profiled.adopt)
    assert pool.task_profiling == "auto"


def test_a_pool_that_begins_with_it() -> None:
    pool = Pool(2, watchdog_ms=0)
    pool.task_profiling = "on"
    seen: list[bool] = []

    def setup(ctx: ThreadContext) -> None:
        profiled.adopt(ctx)
        seen.append(profiled.active(ctx))

    run_with(pool, lambda: None, setup)
    assert seen == [True, True]


@pytest.mark.parametrize(
    ("average_us", "was_on", "becomes_on"),
    [(999, False, False), (1000, False, True), (995, True, True), (989, True, False)],
)
def test_auto(average_us: int, was_on: bool, becomes_on: bool) -> None:
    with lone_context() as ctx:
        ctx.pool.task_profiling = "auto"
        if was_on:
            profiled.turn_on(ctx)
        ctx.loop_ns = average_us * 1000
        profiled.auto_switch(ctx)
        assert profiled.active(ctx) is becomes_on
        ctx.pool.task_profiling = "off"
        for ctx.loop_ns in (0, 10**9):
            profiled.auto_switch(ctx)
        assert profiled.active(ctx) is becomes_on  # others decide


def test_the_real_clock_in_the_real_loop() -> None:
    with lone_context() as ctx:
        profiled.turn_on(ctx)

        async def burn() -> None:
            for _ in range(3):
                end = time.thread_time_ns() + 2 * MS
                while time.thread_time_ns() < end:
                    pass
                task.wake()
                await park()
            ctx.pool.stopping_now = True

        task = ctx.spawn(burn(), "burn")
        loop.run_loop(ctx)
        calls, cpu_ns, lat_ns = figures(ctx)["burn"]
        assert calls == 4
        assert cpu_ns >= 6 * MS
        assert lat_ns > 0


def test_stamps_follow_a_queue_that_was_emptied(ctx: ThreadContext, clock: Clock) -> None:
    Tasklet(ctx, lambda _value: None, "x").wake()
    profile = ctx.task_profile
    assert profile is not None
    profile.note(clock.ns)
    ctx.normal.clear()
    assert ctx.run_some(ctx, ctx.normal, 9) == 0
    assert not profile.stamps(ctx.normal)
    other = SimpleNamespace(queue=type(ctx.normal)())
    assert not profile.stamps(other.queue)
