"""The wait queue under other locks, to be compared with (`tune.wait-queue`, docs/mechanisms.md).

Who gets which task is the same in all of them; what differs is how long a thread holds the lock,
and whom it keeps waiting meanwhile:

- `seek`: `mtproxy.sched.waitqueue.WaitQueue`, the default.
- `write`: as HAProxy did it before its wait queue got an upgradable lock. Each look at the first
  expiry is one under R, in each turn and before each sleep; each entry is taken out under a write
  lock of its own, so all threads that see something due queue up for it.
- `mutex`: a plain Lock for every operation, the look at the first expiry included; a pass takes
  out all that it returns at once.

Both look under the lock where `seek` compares `next_tick` with the clock, hence `PEEKS_LOCKED`.
Any thread may call, as for `WaitQueue`; the locks carry the label TASK_WQ.
"""

from __future__ import annotations

from typing import Any

from mtproxy.sched.waitqueue import SharedTask, WaitQueue, WaitQueueBase
from mtproxy.sync.labels import LockLabel
from mtproxy.sync.locks import Lock


class WriteWaitQueue[T: SharedTask](WaitQueue[T]):
    """A read lock for each look, a write lock for each entry that is taken out."""

    __slots__ = ()

    PEEKS_LOCKED = True

    queue = WaitQueue._queue_locked
    _settle = WaitQueueBase._settle

    def next_expiry(self, tid: int) -> int:
        self.lock.take_read(tid)
        tick = self.next_tick
        self.lock.drop_read(tid)
        return tick

    def collect(self, now: int, tid: int, budget: int = 32) -> list[T]:
        tasks: list[T] = []
        if self.next_expiry(tid) > now:
            return tasks
        lock = self.lock
        for _ in range(budget):
            lock.take_write(tid)
            try:
                if self.next_tick > now:
                    break
                tasks += self._take_out(now, 1)
            finally:
                lock.drop_write(tid)
        return tasks


class MutexWaitQueue[T: SharedTask](WaitQueueBase[T]):
    """One mutex for everything."""

    __slots__ = ("lock",)

    PEEKS_LOCKED = True

    def __init__(self, lock: Lock | None = None) -> None:
        super().__init__()
        self.lock = lock if lock is not None else Lock(LockLabel.TASK_WQ)

    def queue(self, task: T, tick: int, tid: int) -> bool:
        self.lock.take(tid)
        try:
            earlier = self._place(task, tick)
        finally:
            self.lock.drop(tid)
        if earlier and self.on_earlier is not None:
            self.on_earlier(tick)
        return earlier

    def move(self, task: T, tick: int, tid: int) -> bool:
        earlier = False
        self.lock.take(tid)
        try:
            queued = task.wq_key is not None
            if queued:
                earlier = self._place(task, tick)
        finally:
            self.lock.drop(tid)
        if earlier and self.on_earlier is not None:
            self.on_earlier(tick)
        return queued

    def unlink(self, task: T, tid: int) -> bool:
        self.lock.take(tid)
        try:
            return self._unlink(task)
        finally:
            self.lock.drop(tid)

    def collect(self, now: int, tid: int, budget: int = 32) -> list[T]:
        self.lock.take(tid)
        try:
            if self.next_tick > now:
                return []
            return self._take_out(now, budget)
        finally:
            self.lock.drop(tid)

    def next_expiry(self, tid: int) -> int:
        self.lock.take(tid)
        tick = self.next_tick
        self.lock.drop(tid)
        return tick

    def _check(self, tid: int = 0, *, at_rest: bool = True) -> None:
        self.lock.take(tid)
        try:
            self._check_entries(at_rest=at_rest)
        finally:
            self.lock.drop(tid)


#: by the word of `tune.wait-queue`
VARIANTS: dict[str, type[WaitQueueBase[Any]]] = {
    "seek": WaitQueue,
    "write": WriteWaitQueue,
    "mutex": MutexWaitQueue,
}

DEFAULT_VARIANT = "seek"
