"""Real threads, seeded and bounded: SeekLock and wait queue keep their invariants under load."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from mtproxy.sched.waitqueue import WaitQueueBase
from mtproxy.sched.waitqueue_variants import VARIANTS
from mtproxy.sync import debug, seeklock, stats
from mtproxy.sync.counters import Counter
from mtproxy.sync.labels import LockLabel
from mtproxy.sync.seeklock import SeekLock
from mtproxy.testing.counts import zero_counts
from mtproxy.testing.threads import run_threads

pytestmark = pytest.mark.stress

THREADS = 4


def at_once(body: Callable[[int], None]) -> None:
    """Run `body(tid)` on all threads at once, each with its own lock statistics."""

    def run(tid: int) -> None:
        stats.adopt(tid)
        body(tid)

    run_threads(THREADS, run)


@pytest.mark.parametrize("limit", [0, 2, 64])
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("checked", [False, True], ids=["plain", "debug"])
def test_seek_lock(limit: int, seed: int, checked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random walks through the states; a pair of numbers is torn only under W."""
    monkeypatch.setattr(seeklock, "OVERTAKE_LIMIT", limit)
    zero_counts(LockLabel.OTHER, THREADS)
    if checked:
        debug.enable()
    lock = SeekLock(LockLabel.OTHER)
    pair = [0, 0]
    writes = [0] * THREADS
    failed = [0] * THREADS

    def look() -> None:
        first, second = pair
        assert first == second

    def write(tid: int) -> None:
        look()
        pair[0] += 1
        pair[1] += 1
        writes[tid] += 1

    def end_write(tid: int, dice: random.Random) -> None:
        way = dice.randrange(3)
        if way == 0:
            lock.drop_write(tid)
        elif way == 1:
            lock.write_to_seek(tid)
            look()
            lock.drop_seek(tid)
        else:
            lock.write_to_read(tid)
            look()
            lock.drop_read(tid)

    def body(tid: int) -> None:
        dice = random.Random(seed * 100 + tid)
        for _ in range(2500 if limit else 800):
            way = dice.randrange(8)
            if way < 3:
                lock.take_read(tid)
                look()
                if way == 0 and lock.try_read_to_seek(tid):
                    look()
                    lock.seek_to_write(tid)
                    write(tid)
                    end_write(tid, dice)
                else:
                    failed[tid] += way == 0
                    lock.drop_read(tid)
            elif way < 5:
                lock.take_write(tid)
                write(tid)
                end_write(tid, dice)
            elif way == 5:
                lock.take_seek(tid)
                look()
                lock.seek_to_read(tid)
                look()
                lock.drop_read(tid)
            elif way == 6:
                if lock.try_take_write(tid):
                    write(tid)
                    end_write(tid, dice)
                elif lock.try_take_seek(tid):
                    lock.seek_to_write(tid)
                    write(tid)
                    end_write(tid, dice)
                elif lock.try_take_read(tid):
                    look()
                    lock.drop_read(tid)
            else:
                lock._check()

    try:
        at_once(body)
    finally:
        if checked:
            debug.disable()
    lock._check()
    assert lock.state == "U"
    assert pair == [sum(writes)] * 2
    counted = stats.snapshot_of(LockLabel.OTHER)
    assert counted.write_locks == counted.write_unlocks == sum(writes)
    assert counted.seek_locks == counted.seek_unlocks
    assert counted.read_locks == counted.read_unlocks
    assert counted.failed_upgrades == sum(failed)


class Job:
    """A shared task that notices being run by two threads."""

    __slots__ = ("expire", "owner", "runs", "stopped", "wq_key")

    def __init__(self) -> None:
        self.expire: int | None = None
        self.wq_key: tuple[int, int] | None = None
        self.owner: int | None = None
        self.runs = 0
        self.stopped = False

    def own(self, tid: int) -> None:
        assert self.owner is None, (self.owner, tid)
        self.owner = tid

    def disown(self, tid: int) -> None:
        assert self.owner == tid
        self.owner = None


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_wait_queue(variant: str, seed: int) -> None:
    """Tasks are collected, moved, unlinked and queued again; each has one owner at any time.

    The clock is the number of turns that all threads have made.
    """
    zero_counts(LockLabel.TASK_WQ, THREADS)
    queue: WaitQueueBase[Job] = VARIANTS[variant]()
    jobs = [Job() for _ in range(200)]
    for tick, job in enumerate(jobs):
        queue.queue(job, tick % 50, 0)
    clock = Counter()

    def give_back(job: Job, tick: int, tid: int) -> None:
        job.disown(tid)
        queue.queue(job, tick, tid)

    def body(tid: int) -> None:
        dice = random.Random(seed * 100 + tid)
        for turn in range(1500):
            now = clock.next()
            if queue.PEEKS_LOCKED:
                queue.next_expiry(tid)
            got = queue.collect(now, tid, budget=dice.choice((1, 4, 32)))
            for job in got:
                job.own(tid)
                assert job.wq_key is None
            for job in got:
                assert job.expire is not None
                assert job.expire <= now
                job.runs += 1
                if job.stopped:
                    job.disown(tid)
                else:
                    give_back(job, now + dice.randrange(1, 60), tid)
            way = dice.randrange(6)
            job = dice.choice(jobs)
            if way == 0 and queue.unlink(job, tid):
                job.own(tid)
                give_back(job, now + dice.randrange(30), tid)
            elif way == 1:
                queue.move(job, now + dice.randrange(-20, 80), tid)
            elif way == 2 and turn % 64 == 0 and queue.unlink(job, tid):
                job.own(tid)
                job.stopped = True
                job.disown(tid)
            elif way == 3 and turn % 50 == 0:
                queue._check(tid, at_rest=False)

    at_once(body)
    queue._check()
    assert all(job.owner is None for job in jobs)
    # nobody is lost: what was not stopped is queued
    assert [job.wq_key is not None for job in jobs] == [not job.stopped for job in jobs]
    # and everything comes out in the end, once
    rest: list[Job] = []
    while queue.next_tick < 1 << 40:
        rest += queue.collect(1 << 40, 0, budget=7)
    assert len(rest) == len(set(rest)) == sum(not job.stopped for job in jobs)
    # one that loses its processor while it collects leaves the others nothing to run
    assert sum(job.runs for job in jobs) > 100
    counted = stats.snapshot_of(LockLabel.TASK_WQ)
    assert counted.write_locks == counted.write_unlocks
    assert counted.seek_locks == counted.seek_unlocks
    assert counted.read_locks == counted.read_unlocks
