"""Lock statistics: slots, sums, baselines."""

from __future__ import annotations

import inspect
import re
import threading
from dataclasses import fields

import pytest

from mtproxy.sync import locks, seeklock, stats
from mtproxy.sync.labels import LABELS, LockLabel
from mtproxy.sync.locks import Lock
from mtproxy.sync.seeklock import SeekLock
from mtproxy.sync.stats import LockStats
from mtproxy.testing.counts import zero_counts

LABEL = LockLabel.OTHER


@pytest.fixture(autouse=True)
def _zero() -> None:
    zero_counts(LABEL, 4)


def test_literal_positions_on_the_fast_paths() -> None:
    """The locks' source names positions by number; the comments beside the numbers must hold."""
    assert (stats.READ_LOCKS, stats.READ_UNLOCKS) == (0, 1)
    assert (stats.SEEK_LOCKS, stats.SEEK_UNLOCKS) == (2, 3)
    assert (stats.WRITE_LOCKS, stats.WRITE_UNLOCKS) == (4, 5)
    assert stats.FAILED_UPGRADES == 6
    for kind in ("READ", "SEEK", "WRITE"):
        waits = getattr(stats, f"{kind}_WAITS")
        assert getattr(stats, f"{kind}_WAIT_NS") == waits + 3
        assert getattr(stats, f"{kind}_LONGEST_WAIT_NS") == waits + 6
    used = {
        int(number)
        for module in (locks, seeklock)
        for number in re.findall(r"slots?(?:\[tid\])?\[(\d+)\]", inspect.getsource(module))
    }
    assert used == set(range(7))


def test_fields_stand_in_the_order_of_the_slot() -> None:
    names = [field.name for field in fields(LockStats)][1:-1]
    for name in names:
        assert names.index(name) == getattr(stats, name.upper())


def test_each_thread_counts_in_its_own_slot() -> None:
    lock = Lock(LABEL)
    for tid in range(5):
        for _ in range(tid):
            lock.take(tid)
            lock.drop(tid)
    assert [slot[stats.WRITE_LOCKS] for slot in stats.slots_of(LABEL)[:5]] == [0, 1, 2, 3, 4]
    counted = stats.snapshot_of(LABEL)
    assert counted.label == "OTHER"
    assert counted.write_locks == counted.write_unlocks == counted.locks == 10


def test_configure_keeps_what_is_there() -> None:
    slots = stats.slots_of(LABEL)
    lock = Lock(LABEL)  # made before
    size = len(slots)
    lock.take(size - 1)
    stats.configure(size + 1)
    assert stats.slots_of(LABEL) is slots
    assert len(slots) == size + 2
    lock.drop(size + 1)
    counted = stats.snapshot_of(LABEL)
    assert (counted.write_locks, counted.write_unlocks) == (1, 1)
    stats.configure(1)
    assert len(slots) == size + 2
    with pytest.raises(ValueError, match="nbthread must be at least 1"):
        stats.configure(0)


def test_adopt_keeps_the_counts() -> None:
    lock = Lock(LABEL)
    lock.take(2)
    before = stats.slots_of(LABEL)[2]
    thread = threading.Thread(target=stats.adopt, args=(2,))
    thread.start()
    thread.join()
    assert stats.slots_of(LABEL)[2] == before
    assert stats.slots_of(LABEL)[2] is not before
    lock.drop(2)
    counted = stats.snapshot_of(LABEL)
    assert (counted.write_locks, counted.write_unlocks) == (1, 1)


def test_reset_is_a_baseline() -> None:
    lock = SeekLock(LABEL)
    for _ in range(3):
        lock.take_read(0)
        lock.drop_read(0)
    stats.record_wait(stats.slots_of(LABEL)[0], LABEL, stats.READ_WAITS, 500)
    written = [slot.copy() for slot in stats.slots_of(LABEL)]
    stats.reset(LABEL)
    assert [list(slot) for slot in stats.slots_of(LABEL)] == written  # nobody's slot was touched
    assert stats.snapshot_of(LABEL) == LockStats("OTHER", *[0] * 16)
    lock.take_read(1)
    counted = stats.snapshot_of(LABEL)
    assert (counted.read_locks, counted.read_unlocks) == (1, 0)


def test_reset_keeps_the_difference_of_what_is_held() -> None:
    lock = SeekLock(LABEL)
    lock.take_read(0)
    lock.take_read(1)
    lock.take_seek(2)
    stats.reset()
    counted = stats.snapshot_of(LABEL)
    assert (counted.read_locks, counted.read_unlocks, counted.seek_locks) == (2, 0, 1)
    lock.drop_read(0)
    lock.drop_read(1)
    lock.drop_seek(2)
    counted = stats.snapshot_of(LABEL)
    assert (counted.read_locks, counted.read_unlocks) == (2, 2)
    assert (counted.seek_locks, counted.seek_unlocks) == (1, 1)


def test_reset_of_one_label_leaves_the_others() -> None:
    other = Lock(LockLabel.SERVER)
    zero_counts(LockLabel.SERVER, 4)
    for lock in (Lock(LABEL), other):
        lock.take(0)
        lock.drop(0)
    stats.reset(LockLabel.SERVER)
    assert stats.snapshot_of(LockLabel.SERVER).locks == 0
    assert stats.snapshot_of(LABEL).locks == 1


def test_longest_wait_over_threads_and_resets() -> None:
    slots = stats.slots_of(LABEL)
    stats.record_wait(slots[0], LABEL, stats.READ_WAITS, 700)
    stats.record_wait(slots[1], LABEL, stats.WRITE_WAITS, 900)
    stats.record_wait(slots[1], LABEL, stats.SEEK_WAITS, 50)
    counted = stats.snapshot_of(LABEL)
    assert counted.longest_wait_ns == 900
    assert counted.read_longest_wait_ns == 700
    assert counted.write_longest_wait_ns == 900
    assert counted.seek_longest_wait_ns == 50
    assert counted.wait_ns == 1650
    assert (counted.read_waits, counted.seek_waits, counted.write_waits) == (1, 1, 1)
    stats.reset(LABEL)
    assert stats.snapshot_of(LABEL).longest_wait_ns == 0
    stats.record_wait(slots[0], LABEL, stats.READ_WAITS, 3)
    assert stats.snapshot_of(LABEL).longest_wait_ns == 3
    assert stats.snapshot_of(LABEL).read_longest_wait_ns == 3
    assert stats.snapshot_of(LABEL).write_longest_wait_ns == 0  # slot 1's is of before


def test_seconds_count_from_the_reset() -> None:
    first = stats.snapshot_of(LABEL).seconds
    second = stats.snapshot_of(LABEL).seconds
    assert 0 <= first <= second
    stats.reset(LABEL)
    assert stats.snapshot_of(LABEL).seconds < second + 60
    stats.configure(3)
    assert stats.thread_count() == 3


def test_totals_do_not_know_of_resets() -> None:
    lock = Lock(LABEL)
    lock.take(0)
    lock.drop(0)
    before = stats.totals_of(LABEL)
    stats.reset(LABEL)
    assert stats.totals_of(LABEL) == before
    assert before.write_locks >= 1


def test_snapshot_has_every_label_in_order() -> None:
    assert [one.label for one in stats.snapshot()] == [label.name for label in LABELS]


def test_differences_are_never_negative_and_never_more_than_the_threads() -> None:
    """Read while threads lock and unlock: locks - unlocks stays between 0 and what can be held.

    The upper bound has room for what is locked between the readings of two counters; the lower
    one is strict.
    """
    lock = SeekLock(LABEL)
    done = threading.Event()

    def work(tid: int) -> None:
        while not done.is_set():
            lock.take_read(tid)
            if lock.try_read_to_seek(tid):
                lock.seek_to_write(tid)
                lock.drop_write(tid)
            else:
                lock.drop_read(tid)

    threads = [threading.Thread(target=work, args=(tid,)) for tid in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3000):
            counted = stats.snapshot_of(LABEL)
            assert counted.read_locks >= counted.read_unlocks
            assert counted.seek_locks >= counted.seek_unlocks
            assert counted.write_locks >= counted.write_unlocks
    finally:
        done.set()
        for thread in threads:
            thread.join()
    counted = stats.snapshot_of(LABEL)
    assert counted.read_locks == counted.read_unlocks > 0
    assert counted.seek_locks == counted.seek_unlocks
    assert counted.write_locks == counted.write_unlocks
    assert counted.read_locks == counted.failed_upgrades + counted.seek_locks
