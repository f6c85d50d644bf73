"""Lock statistics: slots, sums, baselines, and the printed layout."""

from __future__ import annotations

import inspect
import json
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
    used = {
        int(number)
        for module in (locks, seeklock)
        for number in re.findall(r"slots?(?:\[tid\])?\[(\d+)\]", inspect.getsource(module))
    }
    assert used == set(range(7))


def test_fields_stand_in_the_order_of_the_slot() -> None:
    names = [field.name for field in fields(LockStats)][1:]
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
    assert stats.snapshot_of(LABEL) == LockStats("OTHER", *[0] * 14)
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
    assert counted.wait_ns == 1650
    assert (counted.read_waits, counted.seek_waits, counted.write_waits) == (1, 1, 1)
    stats.reset(LABEL)
    assert stats.snapshot_of(LABEL).longest_wait_ns == 0
    stats.record_wait(slots[0], LABEL, stats.READ_WAITS, 3)
    assert stats.snapshot_of(LABEL).longest_wait_ns == 3


def test_snapshot_has_every_label_in_order() -> None:
    assert [one.label for one in stats.snapshot()] == [label.name for label in LABELS]


TASK_WQ = LockStats(
    label="TASK_WQ",
    read_locks=240367,
    read_unlocks=240367,
    seek_locks=0,
    seek_unlocks=0,
    write_locks=9872564,
    write_unlocks=9872564,
    failed_upgrades=0,
    read_waits=11,
    seek_waits=0,
    write_waits=12,
    read_wait_ns=149025293,
    seek_wait_ns=0,
    write_wait_ns=9208409000,
    longest_wait_ns=2500000,
)


def test_text_of_a_lock_without_seekers() -> None:
    assert stats.render_one(TASK_WQ) == (
        "Stats about Lock TASK_WQ:\n"
        "\t write lock  : 9872564\n"
        "\t write unlock: 9872564 (0)\n"
        "\t wait time for write     : 9208.409 msec\n"
        "\t wait time for write/lock: 932.727 nsec\n"
        "\t read lock   : 240367\n"
        "\t read unlock : 240367 (0)\n"
        "\t wait time for read      : 149.025 msec\n"
        "\t wait time for read/lock : 619.991 nsec\n"
        "\t failed upgrades         : 0\n"
        "\t longest wait            : 2.500 msec\n"
    )


def test_text_of_a_seeker_that_is_there() -> None:
    one = LockStats("TASK_WQ", 0, 0, 8, 7, 0, 0, 3, 0, 2, 0, 0, 4000, 0, 4000)
    assert stats.render_one(one) == (
        "Stats about Lock TASK_WQ:\n"
        "\t seek lock   : 8\n"
        "\t seek unlock : 7 (-1)\n"
        "\t wait time for seek      : 0.004 msec\n"
        "\t wait time for seek/lock : 500.000 nsec\n"
        "\t failed upgrades         : 3\n"
        "\t longest wait            : 0.004 msec\n"
    )


def test_text_of_an_unused_lock() -> None:
    assert stats.render_text(LABEL) == "Stats about Lock OTHER:\n"


def test_text_and_json_have_every_label() -> None:
    text = stats.render_text()
    assert re.findall(r"^Stats about Lock (\w+):$", text, re.MULTILINE) == [
        lb.name for lb in LABELS
    ]
    decoded = json.loads(stats.render_json())
    assert [one["label"] for one in decoded] == [label.name for label in LABELS]
    assert set(decoded[0]) == {field.name for field in fields(LockStats)}


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
