"""The watchdog: reports who stands still, once, and that it moves on again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

import pytest

from mtproxy.sched.tasklet import Tasklet
from mtproxy.sched.watchdog import Watchdog
from mtproxy.testing.pools import run_with, running_pool
from mtproxy.testing.waiting import PATIENCE, wait_until


def thread(*, sleeping: bool = False) -> Any:
    """What the watchdog reads of a context."""
    return SimpleNamespace(
        activity=SimpleNamespace(loops=0),
        shared=SimpleNamespace(sleeping=sleeping, stopped=False),
        running=None,
    )


@pytest.fixture
def out(tmp_path: Path) -> Iterator[TextIO]:
    """faulthandler wants a real descriptor."""
    with (tmp_path / "out").open("w+") as stream:
        yield stream


def said(out: TextIO) -> str:
    out.flush()
    return Path(out.name).read_text()


def test_one_report_for_one_standstill(out: TextIO) -> None:
    busy, stuck = thread(), thread()
    stuck.running = SimpleNamespace(name="fe/http")
    dog = Watchdog([busy, stuck], 100, out)
    for now in (0, 50, 99, 100, 150, 500):
        busy.activity.loops += 1
        dog.look(now)
        assert dog.reports == (now >= 100), now
    text = said(out)
    assert "watchdog: thread 2 has made no progress for 100 ms while running 'fe/http'" in text
    assert "stacks of all threads follow" in text
    assert "test_one_report_for_one_standstill" in text, "this very stack"
    assert "thread 1" not in text


def test_progress_is_told_and_a_second_standstill_is_reported_again(out: TextIO) -> None:
    ctx = thread()
    dog = Watchdog([ctx], 100, out)
    dog.look(0)
    dog.look(100)
    ctx.activity.loops += 1
    dog.look(120)
    assert "watchdog: thread 1 makes progress again" in said(out)
    dog.look(219)
    assert dog.reports == 1
    dog.look(220)
    assert dog.reports == 2
    assert said(out).count("makes progress again") == 1


@pytest.mark.parametrize("state", ["sleeping", "stopped"])
def test_who_waits_or_has_ended_does_not_stand_still(out: TextIO, state: str) -> None:
    ctx = thread()
    setattr(ctx.shared, state, True)
    dog = Watchdog([ctx], 100, out)
    for now in range(0, 1000, 50):
        dog.look(now)
    assert dog.reports == 0
    assert said(out) == ""


def test_time_asleep_does_not_count(out: TextIO) -> None:
    ctx = thread(sleeping=True)
    dog = Watchdog([ctx], 100, out)
    dog.look(0)
    dog.look(1000)
    ctx.shared.sleeping = False  # woken, in the same turn
    dog.look(1050)
    assert dog.reports == 0
    dog.look(1100)
    assert dog.reports == 1


def test_zero_turns_it_off() -> None:
    dog = Watchdog([], 0)
    dog.start()
    dog.stop()
    assert dog.ident is None


def test_a_stuck_thread_of_a_pool(out: TextIO) -> None:
    """The real thing: a tasklet of the second thread blocks, and then goes on."""
    go_on = threading.Event()

    def a_step_that_blocks(_value: None) -> None:
        assert go_on.wait(3 * PATIENCE)

    with running_pool(2, watchdog_ms=40) as pool:

        def play() -> None:
            dog = pool.watchdog
            assert dog is not None
            dog.out = out
            pool.run_on(1, lambda ctx: Tasklet(ctx, a_step_that_blocks, "the blocker").wake())
            try:
                wait_until(lambda: "the blocker" in said(out), "a report")
                # the other thread still serves
                served = threading.Event()
                pool.run_on(0, lambda _ctx: served.set())
                assert served.wait(PATIENCE)
            finally:
                go_on.set()
            wait_until(lambda: "makes progress again" in said(out), "the recovery")

        run_with(pool, play)
        assert not pool.failed
        # on a busy machine another thread may have been slow as well
        assert pool.watchdog is not None
        assert pool.watchdog.reports >= 1
    text = said(out)
    assert "thread 2 has made no progress" in text
    assert "while running 'the blocker'" in text
    assert "in a_step_that_blocks" in text
    assert "thread 2 makes progress again" in text


def test_a_pool_is_not_watched_while_it_is_set_up() -> None:
    """That may take long, and is no loop that stands still."""
    seen: list[bool] = []
    with running_pool(2, watchdog_ms=60_000) as pool:

        def watched() -> bool:
            return pool.watchdog is not None and pool.watchdog.ident is not None

        run_with(pool, lambda: seen.append(watched()), setup=lambda _ctx: seen.append(watched()))
        assert not pool.failed
    assert seen == [False, False, True]


def test_it_ends_when_it_is_told_to() -> None:
    dog = Watchdog([], 60_000)
    dog.start()
    assert not dog.ended
    dog.stop()
    assert dog.ended
    dog.stop()  # twice does no harm
