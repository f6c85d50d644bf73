"""The last minute of threads and locks, against figures worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from mtproxy.stats.history import SPAN, History
from mtproxy.sync import stats as lock_stats
from mtproxy.sync.labels import LockLabel
from mtproxy.testing.runtime import FakePool


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def pool() -> Any:
    return FakePool(2)


def test_a_second_of_a_thread(pool: Any) -> None:
    clock = Clock()
    history = History(pool, clock)
    history.sample()
    assert history.threads() == [[], []], "nothing to compare with yet"
    busy, idle = pool.contexts
    busy.cpu_ns, busy.activity.loops, busy.activity.ctxsw = 250_000_000, 1000, 3000
    idle.cpu_ns, idle.activity.loops, idle.activity.ctxsw = 1, 0, 0
    clock.now += 0.5
    history.sample()
    history._check()
    (one,), (two,) = history.threads()
    assert (one.busy, one.polling) == (pytest.approx(50), pytest.approx(50))
    assert one.per_loop == pytest.approx(3)
    assert one.loops == pytest.approx(2000)
    assert one.turn_us == pytest.approx(250)
    assert two.busy < 0.001
    assert (two.per_loop, two.turn_us) == (0, 0), "no turn, no division by it"


def test_a_thread_that_has_not_looked_at_its_clock_has_no_point(pool: Any) -> None:
    clock = Clock()
    history = History(pool, clock)
    history.sample()
    clock.now += 1
    history.sample()
    assert history.threads() == [[], []]
    # but one that stands still for longer does nothing
    clock.now += 2
    history.sample()
    assert [[point.busy for point in points] for points in history.threads()] == [[0], [0]]


def test_only_a_minute_is_kept(pool: Any) -> None:
    clock = Clock()
    history = History(pool, clock)
    for second in range(SPAN + 20):
        for ctx in pool.contexts:
            ctx.cpu_ns += 10_000_000 * (second % 50)
        clock.now += 1
        history.sample()
        history._check()
    assert {len(points) for points in history.threads()} == {SPAN}
    assert {len(points) for points in history.locks().values()} == {SPAN}


def test_waits_for_locks(pool: Any) -> None:
    lock_stats.configure(2)
    clock = Clock()
    history = History(pool, clock)
    history.sample()
    slot = lock_stats.slots_of(LockLabel.OTHER)[0]
    lock_stats.record_wait(slot, LockLabel.OTHER, lock_stats.WRITE_WAITS, 30_000_000)
    clock.now += 2
    history.sample()
    history._check()
    waits = history.locks()
    assert waits[LockLabel.OTHER.name] == [0, pytest.approx(15)]
    assert set(waits) == {label.name for label in LockLabel}
