"""Lock statistics and profiling in a storm: real threads take locks of every kind while others
switch profiling on and off, reset, and read. Nothing is lost, negative or longer than the storm.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator

import pytest

from mtproxy.sync import bare, debug, profile, reports, stats
from mtproxy.sync.labels import LABELS, LockLabel
from mtproxy.sync.locks import Lock
from mtproxy.sync.seeklock import SeekLock
from mtproxy.testing.counts import zero_counts
from mtproxy.testing.threads import run_threads

pytestmark = pytest.mark.stress

THREADS = 4
#: labels in the order in which they may be taken
FIRST, SECOND = LockLabel.SERVER, LockLabel.TASK_WQ


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    for label in LABELS:
        zero_counts(label, THREADS)
    yield
    profile.switch_off()
    profile.reset()


class Storm:
    """Two locks of different labels, and what each thread knows that it has done with them."""

    def __init__(self) -> None:
        self.lock = Lock(FIRST)
        self.seek = SeekLock(SECOND)
        self.total = 0
        self.taken = [{"mutex": 0, "read": 0, "seek": 0, "write": 0} for _ in range(THREADS)]

    def turn(self, tid: int, dice: random.Random) -> None:
        mine = self.taken[tid]
        way = dice.randrange(5)
        if way == 0:
            self.lock.take(tid)
            mine["mutex"] += 1
            self.total += 1
            self.seek.take_read(tid)
            mine["read"] += 1
            self.seek.drop_read(tid)
            self.lock.drop(tid)
        elif way == 1:
            self.seek.take_read(tid)
            mine["read"] += 1
            if self.seek.try_read_to_seek(tid):
                mine["seek"] += 1
                self.seek.seek_to_write(tid)
                mine["write"] += 1
                self.seek.write_to_read(tid)
                mine["read"] += 1
            self.seek.drop_read(tid)
        elif way == 2:
            self.seek.take_write(tid)
            mine["write"] += 1
            self.seek.drop_write(tid)
        elif way == 3:
            self.seek.take_seek(tid)
            mine["seek"] += 1
            self.seek.seek_to_read(tid)
            mine["read"] += 1
            self.seek.drop_read(tid)
        elif self.lock.try_take(tid):
            mine["mutex"] += 1
            self.total += 1
            self.lock.drop(tid)

    def did(self, way: str) -> int:
        return sum(one[way] for one in self.taken)


def check_plausible(elapsed_ns: int) -> None:
    """What can be said of any reading at any time. `elapsed_ns`: since before the storm."""
    for label in (FIRST, SECOND):
        one = stats.snapshot_of(label)
        for kind in ("read", "seek", "write"):
            locks, unlocks = (getattr(one, f"{kind}_{n}") for n in ("locks", "unlocks"))
            # a thread may lock often between the readings of two counters, but never unlocks more
            assert locks >= unlocks >= 0
            assert getattr(one, f"{kind}_wait_ns") >= 0
        assert 0 <= one.longest_wait_ns <= elapsed_ns
        found = profile.profile_of(label)
        for holds in found.holds.values():
            assert holds.count >= 0
            assert 0 <= holds.longest_ns <= elapsed_ns
            assert holds.total_ns >= 0
        for site in (*found.wait_sites, *found.hold_sites):
            assert site.count > 0
            assert 0 <= site.longest_ns <= elapsed_ns
            assert site.function == "Storm.turn"


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("checked", [False, True], ids=["plain", "debug"])
def test_switching_in_a_storm(seed: int, checked: bool) -> None:
    storm = Storm()
    done = threading.Event()
    begun = time.perf_counter_ns()
    finished: list[int] = []

    def body(number: int) -> None:
        dice = random.Random(seed * 100 + number)
        if number < THREADS:
            stats.adopt(number)
            try:
                for _ in range(1500):
                    storm.turn(number, dice)
            finally:
                finished.append(number)
                if len(finished) == THREADS:
                    done.set()
            return
        while not done.is_set():  # the one that switches and reads
            for switch in (profile.switch_on, profile.switch_off):
                assert switch()
                done.wait(dice.random() / 200)
                if dice.randrange(3) == 0:
                    profile.reset()
                check_plausible(time.perf_counter_ns() - begun)
                reports.render_text()
                reports.render_json()

    if checked:
        debug.enable()
    try:
        run_threads(THREADS + 1, body)
        profile.switch_off()
    finally:
        if checked:
            debug.disable()
    storm.seek._check()
    assert storm.seek.state == "U"
    assert not storm.lock.locked()
    # switching has cost no count
    first, second = stats.snapshot_of(FIRST), stats.snapshot_of(SECOND)
    assert first.write_locks == first.write_unlocks == storm.did("mutex") == storm.total
    for kind in ("read", "seek", "write"):
        locks, unlocks = (getattr(second, f"{kind}_{n}") for n in ("locks", "unlocks"))
        assert locks == unlocks == storm.did(kind)
    check_plausible(time.perf_counter_ns() - begun)


def test_profile_of_a_whole_storm() -> None:
    """Profiled from beginning to end, every hold and every wait is in the sites exactly once."""
    storm = Storm()
    profile.switch_on()
    begun = time.perf_counter_ns()

    def body(tid: int) -> None:
        stats.adopt(tid)
        dice = random.Random(tid)
        for _ in range(2000):
            storm.turn(tid, dice)

    run_threads(THREADS, body)
    elapsed = time.perf_counter_ns() - begun
    profile.switch_off()
    check_plausible(elapsed)
    first, second = profile.profile_of(FIRST), profile.profile_of(SECOND)
    assert first.holds["write"].count == storm.did("mutex")
    assert {kind: second.holds[kind].count for kind in second.holds} == {
        kind: storm.did(kind) for kind in ("read", "seek", "write")
    }
    # one thread at a time holds a mutex or writes: their times cannot overlap
    assert first.holds["write"].total_ns <= elapsed
    assert second.holds["write"].total_ns <= elapsed
    assert second.holds["seek"].total_ns <= elapsed
    for label, found in ((FIRST, first), (SECOND, second)):
        counted = stats.snapshot_of(label)
        assert sum(site.total_ns for site in found.wait_sites) == counted.wait_ns
        longest = max((site.longest_ns for site in found.wait_sites), default=0)
        # an operation may wait twice, for the guard and for the lock
        assert longest >= counted.longest_wait_ns


def test_reset_in_a_storm() -> None:
    """What is counted before and after a reset adds up: nothing is lost, nothing counted twice."""
    storm = Storm()
    enough = threading.Event()
    kinds = ("read", "seek", "write")

    def reset_and_look() -> None:
        before = stats.totals_of(SECOND)
        for _ in range(50):
            enough.wait(0.002)
            stats.reset(SECOND)
            counted = stats.snapshot_of(SECOND)
            after = stats.totals_of(SECOND)
            for kind in kinds:
                locks, unlocks = (getattr(counted, f"{kind}_{n}") for n in ("locks", "unlocks"))
                assert locks >= unlocks >= 0
                # the new period has less than the old one and itself together
                assert unlocks <= getattr(after, f"{kind}_unlocks")
                assert getattr(after, f"{kind}_unlocks") >= getattr(before, f"{kind}_unlocks")
            before = after

    def body(number: int) -> None:
        if number < THREADS:
            stats.adopt(number)
            dice = random.Random(number)
            while not enough.is_set():
                storm.turn(number, dice)
            return
        try:
            reset_and_look()
        finally:
            enough.set()

    run_threads(THREADS + 1, body)
    last = stats.snapshot_of(SECOND)
    total = stats.totals_of(SECOND)
    for kind in kinds:
        assert getattr(total, f"{kind}_locks") == storm.did(kind) > 0
        # at rest the difference is 0 whatever was held at a reset
        assert getattr(last, f"{kind}_locks") == getattr(last, f"{kind}_unlocks")


def test_storm_without_statistics() -> None:
    bare.strip()
    try:
        storm = Storm()

        def body(tid: int) -> None:
            dice = random.Random(tid)
            for _ in range(1500):
                storm.turn(tid, dice)

        run_threads(THREADS, body)
        storm.seek._check()
        assert storm.seek.state == "U"
        assert storm.total == storm.did("mutex")
        assert not any(one.used for one in stats.snapshot())
    finally:
        bare.restore()
