"""Lock: a labelled mutex with statistics.

Taken and dropped by any thread, with the caller's tid. The fast path is one non-blocking acquire
and one increment in the caller's own statistics slot; the clock is read only when the thread has
to wait. Not recursive, not fair (a waiter may be overtaken, as with any mutex of the system). It
counts as write locks in the statistics, as HAProxy counts its spin locks.
"""

from __future__ import annotations

from _thread import allocate_lock
from time import perf_counter_ns

from mtproxy.sync.labels import LockLabel
from mtproxy.sync.stats import WRITE_LOCKS, WRITE_WAITS, record_wait, slots_of


class Lock:
    """A mutual exclusion lock. Slot positions 4 and 5 are write locks and write unlocks."""

    __slots__ = ("_acquire", "_mutex", "_release", "_slots", "label")

    def __init__(self, label: LockLabel) -> None:
        self.label = label
        self._mutex = allocate_lock()
        self._acquire = self._mutex.acquire
        self._release = self._mutex.release
        self._slots = slots_of(label)

    def take(self, tid: int) -> None:
        """Wait for the lock and take it."""
        if self._acquire(False):
            self._slots[tid][4] += 1
        else:
            self._take_slow(tid)

    def _take_slow(self, tid: int) -> None:
        start = perf_counter_ns()
        self._acquire()
        slot = self._slots[tid]
        slot[WRITE_LOCKS] += 1
        record_wait(slot, self.label, WRITE_WAITS, perf_counter_ns() - start)

    def try_take(self, tid: int) -> bool:
        """Take the lock if it is free; never waits."""
        if self._acquire(False):
            self._slots[tid][4] += 1
            return True
        return False

    def drop(self, tid: int) -> None:
        """Release the lock, which the caller must hold. RuntimeError if nobody holds it."""
        # counted before the release: afterwards the next holder may already be counted
        self._slots[tid][5] += 1
        self._release()

    def locked(self) -> bool:
        """Whether somebody holds it; true only for the moment of the call."""
        return self._mutex.locked()

    def __repr__(self) -> str:
        return f"<Lock {self.label.name} {'taken' if self.locked() else 'free'}>"
