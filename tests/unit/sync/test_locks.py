"""Lock: exclusion, tries, counts, waiting."""

from __future__ import annotations

import threading
import time

import pytest

from mtproxy.sync import locks as locks_module
from mtproxy.sync import stats
from mtproxy.sync.labels import LockLabel
from mtproxy.sync.locks import Lock
from mtproxy.testing.counts import zero_counts

LABEL = LockLabel.OTHER


@pytest.fixture
def lock() -> Lock:
    zero_counts(LABEL, 4)
    return Lock(LABEL)


def test_take_and_drop(lock: Lock) -> None:
    assert repr(lock) == "<Lock OTHER free>"
    lock.take(0)
    assert lock.locked()
    assert repr(lock) == "<Lock OTHER taken>"
    assert not lock.try_take(1)
    lock.drop(0)
    assert lock.try_take(1)
    lock.drop(1)
    assert not lock.locked()
    counted = stats.snapshot_of(LABEL)
    assert counted.write_locks == counted.write_unlocks == 2
    assert counted.write_waits == counted.wait_ns == 0


def test_drop_of_a_free_lock_is_an_error(lock: Lock) -> None:
    with pytest.raises(RuntimeError):
        lock.drop(0)


def test_a_wait_is_counted_and_timed(lock: Lock, monkeypatch: pytest.MonkeyPatch) -> None:
    lock.take(0)
    started = threading.Event()

    def clock() -> int:
        """What a thread that found the lock taken looks at, before it sleeps."""
        now = time.perf_counter_ns()
        started.set()
        return now

    monkeypatch.setattr(locks_module, "perf_counter_ns", clock)

    def wait() -> None:
        lock.take(1)
        lock.drop(1)

    thread = threading.Thread(target=wait)
    thread.start()
    assert started.wait(10)
    threading.Event().wait(0.05)  # the wait that is to be measured
    lock.drop(0)
    thread.join(10)
    counted = stats.snapshot_of(LABEL)
    assert counted.write_waits == 1
    assert counted.write_wait_ns == counted.longest_wait_ns > 20_000_000


def test_it_excludes(lock: Lock) -> None:
    value = [0]

    def add(tid: int) -> None:
        for _ in range(5000):
            lock.take(tid)
            value[0] += 1
            lock.drop(tid)

    threads = [threading.Thread(target=add, args=(tid,)) for tid in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert value == [15_000]
    counted = stats.snapshot_of(LABEL)
    assert counted.write_locks == counted.write_unlocks == 15_000
