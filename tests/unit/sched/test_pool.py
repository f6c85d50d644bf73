"""The pool: start, set-up, messages, signals, and every way to stop."""

from __future__ import annotations

import errno
import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from mtproxy.base.clock import monotonic_ms
from mtproxy.sched.context import ThreadContext
from mtproxy.testing import procfs
from mtproxy.testing.pools import run_with, running_pool
from mtproxy.testing.waiting import wait_until


@pytest.fixture
def signals() -> Iterator[None]:
    """Signal handlers are put back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGUSR2)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("mtproxy/")]


def descriptors() -> set[tuple[int, str]]:
    return set(procfs.fd_targets(os.getpid()).items())


@pytest.mark.parametrize("nbthread", [1, 2, 5])
def test_all_are_set_up_before_the_first_loop_turns(nbthread: int) -> None:
    before = descriptors()
    idents: dict[int, int] = {}
    at_ready: list[object] = []

    def setup(ctx: ThreadContext) -> None:
        assert all(other.activity.loops == 0 for other in ctx.pool.contexts)
        idents[ctx.tid] = threading.get_ident()

    def ready(ctx: ThreadContext) -> None:
        at_ready.append((ctx.tid, sorted(idents)))

    with running_pool(nbthread) as pool:

        def play() -> None:
            wait_until(lambda: all(c.activity.loops for c in pool.contexts), "all loops")

        run_with(pool, play, setup, ready)
        assert at_ready == [(0, [*range(nbthread)])]
        assert len(set(idents.values())) == nbthread
        assert idents[0] == threading.get_ident(), "the main thread is thread 0"
        assert not pool.failed
        assert all(shared.stopped for shared in pool.shareds)
    assert threads() == []
    assert descriptors() <= before


def test_messages_run_on_the_thread_they_are_posted_to() -> None:
    ran: list[tuple[int, int, int]] = []
    idents: dict[int, int] = {}

    def setup(ctx: ThreadContext) -> None:
        idents[ctx.tid] = threading.get_ident()

    with running_pool(3) as pool:

        def play() -> None:
            for tid in (2, 0, 1):
                pool.run_on(
                    tid, lambda ctx, tid=tid: ran.append((tid, ctx.tid, threading.get_ident()))
                )
            wait_until(lambda: len(ran) == 3, "three messages")
            pool.run_everywhere(lambda ctx: ran.append((-1, ctx.tid, threading.get_ident())))
            wait_until(lambda: len(ran) == 6, "six messages")

        run_with(pool, play, setup)
    assert sorted(ran)[:3] == sorted((-1, tid, idents[tid]) for tid in range(3))
    assert sorted(ran)[3:] == sorted((tid, tid, idents[tid]) for tid in range(3))


@pytest.mark.parametrize("culprit", [0, 1, 2])
def test_a_failing_set_up_stops_the_pool(culprit: int, capsys: pytest.CaptureFixture[str]) -> None:
    called: list[int] = []

    def setup(ctx: ThreadContext) -> None:
        called.append(ctx.tid)
        if ctx.tid == culprit:
            raise RuntimeError("broken")

    with running_pool(3) as pool:
        pool.run(setup, lambda _ctx: called.append(-1))
        assert pool.failed
        assert -1 not in called, "not ready"
        assert all(ctx.activity.loops == 0 for ctx in pool.contexts)
    assert threads() == []
    said = capsys.readouterr().err
    assert said.startswith(f"[ALERT]    ({os.getpid()}) : thread {culprit + 1} has failed, stopp")
    assert said.endswith("RuntimeError: broken\n")
    assert said.count("[ALERT]") == 1


def test_where_the_system_refuses_one_line_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Every thread fails for the same reason: no descriptors are left, say."""

    def setup(_ctx: ThreadContext) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with running_pool(5) as pool:
        run_with(pool, lambda: None, setup)
        assert pool.failed
    (line,) = capsys.readouterr().err.splitlines()
    assert re.fullmatch(
        rf"\[ALERT\]    \({os.getpid()}\) : thread [1-5] cannot be set up, stopping: "
        rf"\[Errno {errno.EMFILE}\] Too many open files",
        line,
    )


def test_a_failing_ready_stops_the_pool(capsys: pytest.CaptureFixture[str]) -> None:
    def ready(_ctx: ThreadContext) -> None:
        raise RuntimeError("on purpose")

    with running_pool(2) as pool:
        pool.run(lambda _ctx: None, ready)
        assert pool.failed
    assert "thread 1 has failed" in capsys.readouterr().err


def test_soft_stop_tells_every_thread_once_and_goes_on() -> None:
    told: Counter[int] = Counter()
    with running_pool(3) as pool:
        pool.on_soft_stop.append(lambda ctx: told.update([ctx.tid]))

        def play() -> None:
            pool.soft_stop()
            pool.soft_stop()
            assert pool.stopping
            wait_until(lambda: sum(told.values()) == 3, "the hooks")
            turns = [ctx.activity.loops for ctx in pool.contexts]
            pool.run_everywhere(lambda _ctx: None)
            wait_until(
                lambda: all(
                    ctx.activity.loops > n for ctx, n in zip(pool.contexts, turns, strict=True)
                ),
                "all loops to go on",
            )
            assert not pool.stopping_now

        run_with(pool, play)
    assert told == {0: 1, 1: 1, 2: 1}


def test_hard_stop_at_a_tick() -> None:
    with running_pool(2) as pool:
        tick = monotonic_ms() + 50

        def setup(ctx: ThreadContext) -> None:
            if ctx.tid == 1:
                ctx.pool.hard_stop_at(tick)

        pool.run(setup)
        assert monotonic_ms() >= tick
        assert not pool.failed


def test_a_stop_before_the_start_is_kept() -> None:
    with running_pool(2) as pool:
        pool.hard_stop()
        pool.run(lambda _ctx: None)
        assert all(ctx.activity.loops == 0 for ctx in pool.contexts)


def test_signals_are_handled_on_thread_0_in_its_loop(signals: None) -> None:
    handled: list[tuple[int, bool]] = []

    with running_pool(2) as pool:

        def action() -> None:
            in_the_loop = pool.contexts[0].activity.loops > 0
            handled.append((threading.get_ident(), in_the_loop))

        pool.handle_signal(signal.SIGUSR1, action)

        def play() -> None:
            wait_until(lambda: all(c.activity.loops for c in pool.contexts), "all loops")
            for number in range(30):
                os.kill(os.getpid(), signal.SIGUSR1)
                wait_until(lambda n=number: len(handled) > n, f"signal {number}")

        run_with(pool, play)
    assert handled == [(threading.get_ident(), True)] * 30


def test_a_signal_may_stop_the_pool(signals: None) -> None:
    with running_pool(2) as pool:
        pool.handle_signal(signal.SIGUSR2, pool.hard_stop)

        def ready(_ctx: ThreadContext) -> None:
            os.kill(os.getpid(), signal.SIGUSR2)

        pool.run(lambda _ctx: None, ready)
        assert pool.stopping_now
        assert not pool.failed


def test_cpu_map_binds_the_thread() -> None:
    cpu = max(os.sched_getaffinity(0))
    bound: dict[int, set[int]] = {}

    def setup(ctx: ThreadContext) -> None:
        bound[ctx.tid] = os.sched_getaffinity(0)

    mine = os.sched_getaffinity(0)
    with running_pool(3, cpu_map={2: frozenset({cpu})}) as pool:
        run_with(pool, lambda: None, setup)
    assert bound == {0: mine, 1: {cpu}, 2: mine}


class SharedTask:
    """The least that the wait queue needs of a task."""

    expire: int | None = None
    wq_key: tuple[int, int] | None = None


@pytest.mark.parametrize(
    ("asleep", "woken"),
    [
        ((True, True, True), [0, 1]),
        ((False, True, True), [1]),
        ((True, False, True), [0]),
        ((False, False, True), [2]),
        ((False, False, False), []),
    ],
)
def test_two_threads_know_of_a_new_first_expiry(asleep: tuple[bool, ...], woken: list[int]) -> None:
    """One that is awake looks at the queue in its next turn, which may be far."""
    with running_pool(3) as pool:
        for shared, sleeps in zip(pool.shareds, asleep, strict=True):
            shared.sleeping = sleeps
        pool.wait_queue.queue(SharedTask(), 1000, 3)
        assert [shared.tid for shared in pool.shareds if shared.inbox] == woken
        # behind the first one: nobody need know
        for shared in pool.shareds:
            shared.inbox.clear()
        pool.wait_queue.queue(SharedTask(), 1000, 3)
        assert not any(shared.inbox for shared in pool.shareds)
