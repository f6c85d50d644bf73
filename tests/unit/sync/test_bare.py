"""Locks without statistics: the same locks, and nothing of the statistics is left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mtproxy.sync import bare, profile, stats
from mtproxy.sync.labels import LockLabel
from mtproxy.sync.locks import Lock
from mtproxy.sync.profile import ProfilingUnavailable
from mtproxy.sync.seeklock import SeekLock
from mtproxy.sync.stripper import TRACES
from mtproxy.testing.counts import zero_counts
from mtproxy.testing.threads import run_threads

LABEL = LockLabel.OTHER
PLAIN = {cls: dict(vars(cls)) for cls in (Lock, SeekLock)}


@pytest.fixture(autouse=True)
def _stripped() -> Iterator[None]:
    zero_counts(LABEL, 4)
    bare.strip()
    yield
    bare.restore()
    assert not bare.is_stripped()
    assert {cls: dict(vars(cls)) for cls in (Lock, SeekLock)} == PLAIN


def test_nothing_of_the_statistics_is_left() -> None:
    assert bare.is_stripped()
    changed = set()
    for cls, before in PLAIN.items():
        for name, method in vars(cls).items():
            if method is not before.get(name):
                changed.add(name)
                used = set(method.__code__.co_names) | set(method.__code__.co_varnames)
                assert not used & TRACES, (cls, name)
    # whatever takes, changes or drops is another one
    ways = {
        name
        for cls in (Lock, SeekLock)
        for name in vars(cls)
        if name.startswith(("take", "try", "drop", "read", "seek", "write"))
    }
    assert ways <= changed


def test_nothing_is_counted() -> None:
    lock, seek = Lock(LABEL), SeekLock(LABEL)
    lock.take(0)
    assert lock.locked()
    assert not lock.try_take(1)
    lock.drop(0)
    seek.take_read(0)
    assert seek.try_read_to_seek(0)
    assert seek.try_take_read(1)
    assert not seek.try_take_seek(1)
    seek.drop_read(1)
    seek.seek_to_write(0)
    assert seek.state == "W"
    seek.write_to_seek(0)
    seek.seek_to_read(0)
    seek.drop_read(0)
    assert seek.state == "U"
    seek._check()
    assert not stats.snapshot_of(LABEL).used


def test_profiling_is_refused() -> None:
    with pytest.raises(ProfilingUnavailable, match=r"tune\.lock-stats off"):
        profile.switch_on()
    assert not profile.is_on()


def test_they_still_exclude() -> None:
    lock, seek = Lock(LABEL), SeekLock(LABEL)
    counts = [0, 0]

    def work(tid: int) -> None:
        for turn in range(2000):
            lock.take(tid)
            counts[0] += 1
            lock.drop(tid)
            if turn % 2:
                seek.take_write(tid)
                counts[1] += 1
                seek.drop_write(tid)
            else:
                seek.take_seek(tid)
                seek.seek_to_write(tid)
                counts[1] += 1
                seek.write_to_read(tid)
                seek.drop_read(tid)

    run_threads(4, work)
    assert counts == [8000, 8000]
    seek._check()


def test_twice_is_once() -> None:
    take = Lock.take
    bare.strip()
    assert Lock.take is take
