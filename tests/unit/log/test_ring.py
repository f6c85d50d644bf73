"""Rings: order, bounds, readers that are overtaken, waiting, threads at once."""

from __future__ import annotations

import random
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtproxy.base.log_settings import RingSettings
from mtproxy.log.ring import OVERHEAD, Ring, RingTarget
from mtproxy.sync import stats
from mtproxy.sync.labels import LockLabel
from mtproxy.testing.threads import run_threads


@pytest.fixture(autouse=True)
def slots() -> None:
    stats.configure(4)


def ring(size: int = 1000, **changes: object) -> Ring:
    return Ring(RingSettings("r", size=size, **changes))  # type: ignore[arg-type]


def everything(one: Ring) -> list[bytes]:
    return one.read(one.first, 1 << 30)[0]


def test_messages_come_out_in_order():
    one = ring()
    one.append([b"a", b"b"], 0)
    one.append([b"c"], 1)
    assert everything(one) == [b"a", b"b", b"c"]
    assert (one.first, one.end) == (0, 3)
    one._check()


def test_the_oldest_make_room():
    one = ring(size=10 * (7 + OVERHEAD))
    for number in range(25):
        one.append([b"%07d" % number], 0)
        one._check()
    assert everything(one) == [b"%07d" % n for n in range(15, 25)]
    assert one.first == 15


def test_one_batch_may_be_more_than_the_ring():
    one = ring(size=100)
    one.append([b"x" * 10] * 50, 0)
    assert one.end == 50
    assert len(everything(one)) == 100 // (10 + OVERHEAD)
    one.append([b"y" * 200], 0)  # longer than the ring: nothing is left, nothing breaks
    assert everything(one) == []
    one.append([b"z"], 0)
    assert everything(one) == [b"z"]
    one._check()


def test_reading_in_pieces():
    one = ring(10_000)
    one.append([b"x" * 10] * 20, 0)
    found, position, lost = one.read(0, 35)
    assert (len(found), position, lost) == (4, 4, 0)  # the one that goes over the limit included
    found, position, lost = one.read(position, 1000, 10)
    assert (len(found), position, lost) == (6, 10, 0)
    assert one.read(20, 1000) == ([], 20, 0)


def test_a_reader_that_was_overtaken_goes_on_with_the_oldest():
    one = ring(size=5 * (4 + OVERHEAD))
    one.append([b"%04d" % n for n in range(12)], 0)
    assert one.read(3, 1000) == ([b"%04d" % n for n in range(7, 12)], 12, 4)


def test_waiting():
    one = ring()
    woken: list[str] = []
    one.wait(0, lambda: woken.append("first"))
    one.wait(0, lambda: woken.append("second"))
    assert woken == []
    one.append([b"a"], 0)
    assert woken == ["first", "second"]
    one.append([b"b"], 0)
    assert woken == ["first", "second"]  # once each
    one.wait(1, lambda: woken.append("late"))
    assert woken[2:] == ["late"]  # there was one already


def test_target_flushes_a_turn_under_one_lock():
    one = ring(10_000)
    target = RingTarget(one, 1)
    target.waiting += [b"a", b"b", b"c"]
    before = stats.snapshot_of(LockLabel.RING).write_locks
    target.flush()
    target.flush()
    assert stats.snapshot_of(LockLabel.RING).write_locks - before == 1
    target.send(b"d")
    assert everything(one) == [b"a", b"b", b"c", b"d"]
    assert (target.sent, target.dropped, target.waiting) == (4, 0, [])
    target.close()
    assert everything(one) == [b"a", b"b", b"c", b"d"]


@settings(max_examples=200, deadline=None)
@given(
    size=st.integers(1, 300),
    batches=st.lists(st.lists(st.binary(max_size=40), min_size=1, max_size=8), max_size=30),
)
def test_a_ring_is_the_tail_of_what_was_written(size: int, batches: list[list[bytes]]):
    one = ring(size)
    written: list[bytes] = []
    for batch in batches:
        one.append(batch, 0)
        one._check()
        written += batch
    kept = everything(one)
    assert kept == written[len(written) - len(kept) :]
    assert (one.first, one.end) == (len(written) - len(kept), len(written))
    left = sum(len(m) + OVERHEAD for m in kept)
    assert left <= size
    if one.first:  # no more went than had to
        assert left + len(written[one.first - 1]) + OVERHEAD > size


def test_writers_and_readers_at_once():
    """Each reader sees every writer's messages in order, and with those it lost, all of them."""
    one = ring(size=4000)
    done = [False, False]
    counts = [0, 0]
    lost = [0, 0]

    def write(tid: int) -> None:
        rng = random.Random(tid)
        for batch in range(600):
            size = rng.randint(1, 5)
            one.append([b"%d %d" % (tid, batch * 10 + n) for n in range(size)], tid)
        done[tid] = True

    def read(number: int) -> None:
        position = 0
        last = {b"0": -1, b"1": -1}
        while True:
            finished = all(done)
            found, position, missed = one.read(position, 500)
            lost[number] += missed
            counts[number] += len(found)
            for message in found:
                writer, _, value = message.partition(b" ")
                assert last[writer] < int(value)
                last[writer] = int(value)
            if finished and position == one.end:
                return

    run_threads(4, lambda number: write(number) if number < 2 else read(number - 2))
    one._check()
    assert [a + b for a, b in zip(counts, lost, strict=True)] == [one.end, one.end]


def test_every_wait_is_answered():
    """Two readers wait whenever they have read everything; none is forgotten."""
    one = ring(size=100_000)
    total = 2 * 400
    got = [0, 0]

    def write(tid: int) -> None:
        for _ in range(400):
            one.append([b"m"], tid)

    def read(number: int) -> None:
        position = 0
        while position < total:
            found, position, _ = one.read(position, 1 << 20)
            got[number] += len(found)
            if not found:
                woken = threading.Event()
                one.wait(position, woken.set)
                assert woken.wait(20), "nobody woke the reader"

    run_threads(4, lambda number: write(number) if number < 2 else read(number - 2))
    assert got == [total, total]
