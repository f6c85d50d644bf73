"""The timer queue of one thread: which tasks expire when.

Timeouts are mostly cancelled or moved, so both are made cheap: tasks with the same tick share a
bucket (a set), the distinct ticks stand in a heap. Arming and disarming are a set operation; the
heap grows only with distinct ticks, never with connections. Storing a later `expire` in a task
touches nothing here: when the bucket fires, such a task moves to its real bucket.

Owner thread only; no lock.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from mtproxy.base.clock import NEVER

if TYPE_CHECKING:
    from mtproxy.sched.tasklet import Task


class Timers:
    """The tasks of one thread by tick. See the module's docstring."""

    __slots__ = ("buckets", "next", "ticks")

    def __init__(self) -> None:
        self.buckets: dict[int, set[Task]] = {}
        self.ticks: list[int] = []
        #: the first tick at which `expire_due` has something to do; NEVER when empty
        self.next = NEVER

    def arm(self, task: Task, tick: int) -> None:
        """Have `task` looked at when `tick` has come, instead of at `task.timer`."""
        old = task.timer
        if old != NEVER:
            self.buckets[old].discard(task)
        bucket = self.buckets.get(tick)
        if bucket is None:
            self.buckets[tick] = {task}
            heappush(self.ticks, tick)
            self.next = self.ticks[0]
        else:
            bucket.add(task)
        task.timer = tick

    def disarm(self, task: Task) -> None:
        """Forget `task`: it is not woken by time any more."""
        task.expire = NEVER
        if task.timer != NEVER:
            self.buckets[task.timer].discard(task)
            task.timer = NEVER

    def expire_due(self, now: int) -> int:
        """Wake every task whose expiry is `now` or earlier. Returns how many were woken."""
        woken = 0
        ticks = self.ticks
        while ticks and ticks[0] <= now:
            for task in self.buckets.pop(heappop(ticks)):
                task.timer = NEVER
                if task.expire <= now:
                    woken += 1
                    if not task.queued:
                        task.queued = True
                        task.queue.append(task)
                elif task.expire != NEVER:
                    self.arm(task, task.expire)
        self.next = ticks[0] if ticks else NEVER
        return woken

    def __len__(self) -> int:
        return sum(map(len, self.buckets.values()))

    def _check(self) -> None:
        """Raise AssertionError where an invariant does not hold (tests)."""
        assert sorted(self.ticks) == sorted(self.buckets), "a tick without its bucket"
        assert self.next == (min(self.ticks) if self.ticks else NEVER)
        for tick, bucket in self.buckets.items():
            for task in bucket:
                assert task.timer == tick, f"{task.name}: in bucket {tick}, thinks {task.timer}"
                assert task.expire >= tick, f"{task.name}: expires before its bucket"
