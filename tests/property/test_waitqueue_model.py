"""The wait queue against a sorted list, one thread, any sequence of operations."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mtproxy.sched.waitqueue import NEVER, WaitQueue, WaitQueueBase
from mtproxy.sched.waitqueue_variants import VARIANTS, MutexWaitQueue
from mtproxy.sync import stats

TICKS = st.integers(0, 60)


class Timer:
    """The least that the queue needs of a task."""

    __slots__ = ("expire", "name", "wq_key")

    def __init__(self, name: int) -> None:
        self.name = name
        self.expire: int | None = None
        self.wq_key: tuple[int, int] | None = None

    def __repr__(self) -> str:
        return f"<Timer {self.name} expire={self.expire} key={self.wq_key}>"


class WaitQueueMachine(RuleBasedStateMachine):
    """The model is a list of [tick, sequence, timer], sorted; expiries stand in the timers."""

    variant: type[WaitQueueBase[Any]] = WaitQueue

    @initialize(count=st.sampled_from((2, 8, 40)))
    def start(self, count: int) -> None:
        stats.configure(2)
        self.queue: WaitQueueBase[Timer] = self.variant()
        self.timers = [Timer(name) for name in range(count)]
        self.model: list[tuple[int, int, Timer]] = []
        self.expire: dict[int, int | None] = dict.fromkeys(range(count))
        self.sequence = 0
        self.told: list[int] = []
        self.queue.on_earlier = self.told.append

    def timer(self, data: st.DataObject) -> Timer:
        return self.timers[data.draw(st.integers(0, len(self.timers) - 1))]

    def head(self) -> int:
        return self.model[0][0] if self.model else NEVER

    def entry_of(self, timer: Timer) -> tuple[int, int, Timer] | None:
        return next((entry for entry in self.model if entry[2] is timer), None)

    def add(self, tick: int, timer: Timer) -> None:
        self.sequence += 1
        self.model.append((tick, self.sequence, timer))
        self.model.sort(key=lambda entry: entry[:2])

    def place(self, timer: Timer, tick: int) -> bool:
        before = self.head()
        self.expire[timer.name] = tick
        entry = self.entry_of(timer)
        if entry is not None:
            if entry[0] <= tick:
                return False
            self.model.remove(entry)
        self.add(tick, timer)
        return tick < before

    @rule(data=st.data(), tick=TICKS)
    def do_queue(self, data: st.DataObject, tick: int) -> None:
        timer = self.timer(data)
        earlier = self.place(timer, tick)
        self.told.clear()
        assert self.queue.queue(timer, tick, 0) is earlier
        assert self.told == ([tick] if earlier else [])

    @rule(data=st.data(), tick=TICKS)
    def do_move(self, data: st.DataObject, tick: int) -> None:
        timer = self.timer(data)
        queued = self.entry_of(timer) is not None
        earlier = queued and self.place(timer, tick)
        self.told.clear()
        assert self.queue.move(timer, tick, 0) is queued
        assert self.told == ([tick] if earlier else [])

    @rule(data=st.data())
    def do_unlink(self, data: st.DataObject) -> None:
        timer = self.timer(data)
        entry = self.entry_of(timer)
        if entry is not None:
            self.model.remove(entry)
            self.expire[timer.name] = None
        assert self.queue.unlink(timer, 1) is (entry is not None)

    @rule(data=st.data())
    def disarm_without_the_lock(self, data: st.DataObject) -> None:
        """The owner of a timer may just say that there is nothing to wait for."""
        timer = self.timer(data)
        timer.expire = self.expire[timer.name] = None

    @rule(now=TICKS, budget=st.sampled_from((1, 2, 32)))
    def do_collect(self, now: int, budget: int) -> None:
        due = [entry for entry in self.model if entry[0] <= now][:budget]
        expected: list[Timer] = []
        late: list[Timer] = []
        for entry in due:
            self.model.remove(entry)
            expire = self.expire[entry[2].name]
            if expire is None:
                continue
            (expected if expire <= now else late).append(entry[2])
        for timer in late:
            expire = self.expire[timer.name]
            assert expire is not None
            self.add(expire, timer)
        assert self.queue.collect(now, 1, budget) == expected

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "queue"):
            return
        queue = self.queue
        queue._check()
        assert queue.next_tick == queue.next_expiry(0) == self.head()
        assert len(queue) == len(self.model)
        assert queue._entries() == self.model
        for timer in self.timers:
            entry = self.entry_of(timer)
            assert timer.wq_key == (entry[:2] if entry else None)
            assert timer.expire == self.expire[timer.name]
        if isinstance(queue, WaitQueue):
            assert queue.lock.state == "U"
        else:
            assert isinstance(queue, MutexWaitQueue)
            assert not queue.lock.locked()


class WriteMachine(WaitQueueMachine):
    variant = VARIANTS["write"]


class MutexMachine(WaitQueueMachine):
    variant = VARIANTS["mutex"]


TestSeekAgainstSortedList = WaitQueueMachine.TestCase
TestWriteAgainstSortedList = WriteMachine.TestCase
TestMutexAgainstSortedList = MutexMachine.TestCase
LIMITS = settings(max_examples=100, stateful_step_count=50, deadline=None)
TestSeekAgainstSortedList.settings = LIMITS
TestWriteAgainstSortedList.settings = LIMITS
TestMutexAgainstSortedList.settings = LIMITS
