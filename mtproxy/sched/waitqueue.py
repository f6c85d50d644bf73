"""The global wait queue: timers of tasks that any thread of the pool may run.

Entries are ordered by `(tick, sequence)`, `tick` in ms of the monotonic clock; equal ticks fire in
order of queueing. They stand in a bucket for each tick, and the ticks in a SortedList: with
thousands of timers most ticks have a bucket already, and what is due is taken out bucket by bucket.
`task.wq_key` is `(tick, sequence)` while the task has an entry, else None, or PENDING while it is
on its way there; apart from that mark it is written under the lock alone. `task.expire` is the tick
at which the task wants to run, or None for never. Moving `expire` later leaves the entry where it
is ("lazy"): when the entry fires, the task is queued again instead of being returned.

Ownership: a queued task belongs to the queue. Whoever takes it out (`collect`, or `unlink` that
returns True) owns it alone, runs it, and may queue it again; so no task is run by two threads at
once. Others only `move` or `unlink` it, which do nothing to a task that is not queued.

`WaitQueueBase` has the entries and what is done to them under the lock; its subclasses say how the
lock is taken. `WaitQueue`, the one that is used, has a SeekLock with label TASK_WQ: it guards the
entries, every queued task's `wq_key`, and `expire` against all methods here. They may be called by
any thread that holds no lock whose label stands after TASK_WQ. What it is compared with stands in
`mtproxy.sched.waitqueue_variants`. Neither `collect` nor `queue` of a task that is not queued ever
waits for another thread that changes the queue.

`next_tick` is at most the first entry's tick (NEVER if there is none), kept as a plain attribute so
that each loop turn can compare it with the clock without any lock. It is stored under W by whoever
changes the head, and in passing by `collect`. A reader may see the value of a moment ago:

- Too early a value costs a look at the queue that finds nothing.
- Too late a value can mean that a task was queued just now, at an earlier tick. A thread that is
  awake sees it on its next turn. A thread that goes to sleep must first announce that it sleeps
  and then read `next_tick`; `queue` and `move` store `next_tick` first and then call `on_earlier`,
  which wakes an announced sleeper. Whichever comes second sees what the other has stored.
- Or, for the rest of one tick, that a thread is collecting, see `collect`.

A task that is queued behind the head takes no lock: the call is logged in a deque, and whoever next
has W works the log in. `queue` logs first and then reads `next_tick`; who has W stores `next_tick`
first and then looks into the log. Both pass the deque's mutex in between, so if the head has become
later than the logged task, one of the two notices.

`watched` lets one of the sleeping threads watch for the first expiry, see `wake_for`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, ClassVar, Protocol, cast

from sortedcontainers import SortedList

from mtproxy.sync.labels import LockLabel
from mtproxy.sync.seeklock import SeekLock

#: `next_tick` of an empty queue: later than any tick
NEVER = 1 << 62

#: `wq_key` of a task that its owner is queueing, until the call is worked in
PENDING = (NEVER, 0)
#: how long after an expiry, in ms, a thread comes to see whether the one that watches is busy
GRACE = 4
#: logged calls that one pass works in at most, see `WaitQueue._settle`
SETTLE_MOST = 256
#: `next_tick` when more were logged: the next turn of any thread goes on
LOOK_AGAIN = 0


class SharedTask(Protocol):
    """What the queue needs of a task; the loop, besides, calls `run(ctx)` on what was collected."""

    expire: int | None
    wq_key: tuple[int, int] | None


class WaitQueueBase[T: SharedTask](ABC):
    """The entries, and what is done to them under the lock that a subclass has."""

    __slots__ = ("_buckets", "_count", "_sequence", "_ticks", "next_tick", "on_earlier", "watched")

    #: the loop asks `next_expiry` and calls `collect` in each turn, and never reads `next_tick`
    PEEKS_LOCKED: ClassVar[bool] = False

    def __init__(self) -> None:
        #: the ticks that have a bucket, and the buckets: sequence -> task, in order
        self._ticks: SortedList[int] = SortedList()
        self._buckets: dict[int, dict[int, T]] = {}
        self._count = 0
        self._sequence = 0
        #: tick of the first entry, or NEVER; read by any thread without the lock
        self.next_tick = NEVER
        #: a sleeping thread wakes up at this tick to look at the queue; NEVER: none does
        self.watched = NEVER
        #: called without the lock by a thread that queued a task before all others
        self.on_earlier: Callable[[int], None] | None = None

    @abstractmethod
    def queue(self, task: T, tick: int, tid: int) -> bool:
        """Make `task` run at `tick` (ms), whether it is queued already or not; owner only.

        Returns whether the head of the queue became earlier; `on_earlier(tick)` was called then.
        """

    @abstractmethod
    def move(self, task: T, tick: int, tid: int) -> bool:
        """Make a queued task run at `tick` (ms) instead; whether it was queued. Anybody may.

        If it is not, some thread has taken it out and owns it, and nothing is changed.
        """

    @abstractmethod
    def unlink(self, task: T, tid: int) -> bool:
        """Take `task` out and set its `expire` to None; whether it was queued. Anybody may.

        If it was, the caller owns it now. If not, its owner may be about to run it, or to queue it
        again, and nothing is changed.
        """

    @abstractmethod
    def collect(self, now: int, tid: int, budget: int = 32) -> list[T]:
        """Take out and return tasks that are due at `now`, in order; looks at `budget` at most.

        What is left over stays due, as `next_tick` tells.
        """

    @abstractmethod
    def next_expiry(self, tid: int) -> int:
        """The first entry's tick, or NEVER: what a thread looks at before it goes to sleep."""

    def wake_for(self, tick: int) -> int:
        """When a thread that goes to sleep must wake up for the first expiry, which is at `tick`.

        At `tick` if nobody else does: then it watches, and when it is awake, whatever woke it, it
        stores NEVER to `watched`. Else a little later, in case the watching one is busy by then.
        """
        if tick < self.watched:
            self.watched = tick
            return tick
        return tick + GRACE

    @abstractmethod
    def _check(self, tid: int = 0, *, at_rest: bool = True) -> None:
        """Assert the invariants; any thread that holds no lock. `at_rest`: no other thread uses the
        queue meanwhile, so that `next_tick` is exact.
        """

    def __len__(self) -> int:
        """Number of entries now; a snapshot."""
        return self._count

    # -- under the lock --------------------------------------------------------------------------

    def _take_out(self, now: int, budget: int) -> list[T]:
        """Remove the entries that are due, `budget` at most; return their tasks, except postponed
        and disarmed ones.
        """
        tasks: list[T] = []
        postponed: list[tuple[int, T]] = []
        for task in self._pop(now, budget):
            task.wq_key = None
            # a postponement made under R was before this and is seen, or finds wq_key gone
            expire = task.expire
            if expire is None:
                continue
            if expire > now:
                postponed.append((expire, task))
            else:
                tasks.append(task)
        for expire, task in postponed:
            self._add(expire, task)
        self._settle()
        return tasks

    def _pop(self, now: int, budget: int) -> list[T]:
        """Remove the first entries that are due, `budget` at most; returns what they were for."""
        ticks = self._ticks
        taken: list[T] = []
        while budget > 0 and ticks:
            tick = ticks[0]
            if tick > now:
                break
            bucket = self._buckets[tick]
            if len(bucket) <= budget:
                ticks.pop(0)
                del self._buckets[tick]
                taken += bucket.values()
                budget -= len(bucket)
            else:
                taken += [bucket.pop(sequence) for sequence in list(islice(bucket, budget))]
                budget = 0
        self._count -= len(taken)
        return taken

    def _place(self, task: T, tick: int) -> bool:
        """Queue the task, or queue it anew if its entry is later; whether the head is earlier."""
        before = self.next_tick
        task.expire = tick
        self._insert(task, tick)
        self._settle()
        return tick < before

    def _insert(self, task: T, tick: int) -> None:
        """An entry at `tick` for the task, unless it has one which is not later."""
        key = task.wq_key
        if key is not None and key is not PENDING:
            if key[0] <= tick:
                return
            self._remove(key, task)
        self._add(tick, task)

    def _unlink(self, task: T) -> bool:
        """Take the task out if it is queued; whether it was."""
        key = task.wq_key  # once: an owner may set the mark at any time
        if key is None or key is PENDING:
            return False
        task.expire = task.wq_key = None
        self._remove(key, task)
        self._settle()
        return True

    def _add(self, tick: int, task: T) -> None:
        self._sequence = sequence = self._sequence + 1
        task.wq_key = (tick, sequence)
        bucket = self._buckets.get(tick)
        if bucket is None:
            bucket = self._buckets[tick] = {}
            self._ticks.add(tick)
        bucket[sequence] = task
        self._count += 1

    def _remove(self, key: tuple[int, int], task: T) -> None:
        tick, sequence = key
        bucket = self._buckets.get(tick)
        if bucket is None or bucket.pop(sequence, None) is not task:
            raise ValueError(f"{task!r} is not in the wait queue at {key}")
        if not bucket:
            del self._buckets[tick]
            self._ticks.remove(tick)
        self._count -= 1

    def _settle(self) -> None:
        """The last step of every change: tell what is first."""
        ticks = self._ticks
        self.next_tick = ticks[0] if ticks else NEVER

    def _entries(self) -> list[tuple[int, int, T]]:
        """All entries in order: (tick, sequence, task). For tests."""
        return [
            (tick, sequence, task)
            for tick in self._ticks
            for sequence, task in self._buckets[tick].items()
        ]

    def _check_entries(self, *, at_rest: bool) -> None:
        # not in the type stubs, but public in all but name: the library's own tests use it
        cast(Any, self._ticks)._check()
        assert set(self._ticks) == set(self._buckets)
        assert all(self._buckets.values()), "an empty bucket"
        entries = self._entries()
        keys = [entry[:2] for entry in entries]
        assert keys == sorted(set(keys))
        assert len(entries) == self._count
        if at_rest:
            assert self.next_tick == (self._ticks[0] if self._ticks else NEVER)
        for tick, sequence, task in entries:
            assert task.wq_key == (tick, sequence), (task, tick, sequence)
            assert sequence <= self._sequence
            assert task.expire is None or task.expire >= tick, (task, tick)


class WaitQueue[T: SharedTask](WaitQueueBase[T]):
    """The wait queue under an upgradable lock. See the module's docstring."""

    __slots__ = ("_log", "lock")

    def __init__(self, lock: SeekLock | None = None) -> None:
        super().__init__()
        self.lock = lock if lock is not None else SeekLock(LockLabel.TASK_WQ)
        #: calls of `queue` which are not worked in yet, oldest first: (tick, task)
        self._log: deque[tuple[int, T]] = deque()

    def queue(self, task: T, tick: int, tid: int) -> bool:
        key = task.wq_key
        if key is None:
            # from here on others do not touch it until they find it in the log
            task.wq_key = PENDING
        elif key is not PENDING:
            return self._queue_locked(task, tick, tid)
        task.expire = tick
        self._log.append((tick, task))
        if self.next_tick <= tick:
            return False  # whoever collects the head works the log in
        # It may be the head itself.
        if self.lock.try_take_write(tid):
            try:
                self._settle()
                earlier = self.next_tick == tick
            finally:
                self.lock.drop_write(tid)
        else:
            # Who has the lock either still looks into the log, after its last store to `next_tick`,
            # or stores no more; then this store stays, and the next turn of a thread works it in.
            self.next_tick = LOOK_AGAIN
            earlier = True
        if earlier and self.on_earlier is not None:
            self.on_earlier(tick)
        return earlier

    def _queue_locked(self, task: T, tick: int, tid: int) -> bool:
        if task.wq_key is not None and self._note(task, tick, tid):
            return False
        self.lock.take_write(tid)
        try:
            self._settle()
            earlier = self._place(task, tick)
        finally:
            self.lock.drop_write(tid)
        if earlier and self.on_earlier is not None:
            self.on_earlier(tick)
        return earlier

    def move(self, task: T, tick: int, tid: int) -> bool:
        if self._note(task, tick, tid):
            return True
        earlier = False
        self.lock.take_write(tid)
        try:
            self._settle_all()
            key = task.wq_key
            queued = key is not None and key is not PENDING
            if queued:
                earlier = self._place(task, tick)
        finally:
            self.lock.drop_write(tid)
        if earlier and self.on_earlier is not None:
            self.on_earlier(tick)
        return queued

    def _note(self, task: T, tick: int, tid: int) -> bool:
        """The lazy way: only store `expire`, if the task is queued at `tick` or before."""
        self.lock.take_read(tid)
        # under R nobody can take the entry out
        key = task.wq_key
        noted = key is not None and key[0] <= tick
        if noted:
            task.expire = tick
        self.lock.drop_read(tid)
        return noted

    def unlink(self, task: T, tid: int) -> bool:
        self.lock.take_write(tid)
        try:
            self._settle_all()
            return self._unlink(task)
        finally:
            self.lock.drop_write(tid)

    def collect(self, now: int, tid: int, budget: int = 32) -> list[T]:
        if self.next_tick > now:
            return []
        lock = self.lock
        # In every case no other thread need come before the next tick. It would find this one at
        # it, or the one that is in the way; again and again if that has lost its processor.
        if not lock.try_take_read(tid):
            self.next_tick = now + 1
            return []
        if not lock.try_read_to_seek(tid):
            lock.drop_read(tid)
            self.next_tick = now + 1
            return []
        self.next_tick = now + 1
        # One upgrade for all of them: W is held for at most `budget` removals.
        lock.seek_to_write(tid)
        try:
            self._work_in()
            return self._take_out(now, budget)
        finally:
            lock.drop_write(tid)

    def next_expiry(self, tid: int) -> int:
        return self.next_tick

    def __len__(self) -> int:
        """Number of tasks that wait; a snapshot."""
        return self._count + len(self._log)

    # -- under W --------------------------------------------------------------------------------

    def _work_in(self) -> None:
        """Before a scan: what was logged may be due."""
        if self._log:
            self._settle()

    def _settle(self) -> None:
        """Work the log in, SETTLE_MOST calls at most, and tell what is first."""
        log = self._log
        ticks = self._ticks
        for _ in range(SETTLE_MOST):
            if log:
                # under W nobody else removes
                tick, task = log.popleft()
                self._insert(task, tick)
                continue
            self.next_tick = ticks[0] if ticks else NEVER
            # The deque's own mutex orders this store and `append`: who appended before is seen
            # here, who appends from now on sees the new `next_tick` afterwards.
            log.rotate(0)
            if not log:
                return
        self.next_tick = LOOK_AGAIN

    def _settle_all(self) -> None:
        self._settle()
        while self._log:
            self._settle()

    def _check(self, tid: int = 0, *, at_rest: bool = True) -> None:
        self.lock._check()
        self.lock.take_write(tid)
        try:
            self._settle_all()
            self._check_entries(at_rest=at_rest)
        finally:
            self.lock.drop_write(tid)
