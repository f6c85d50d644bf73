"""The timer queue against a dictionary of expiries."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mtproxy.base.clock import NEVER
from mtproxy.sched.tasklet import Task
from mtproxy.testing.pools import lone_context

TASKS = 6
task_numbers = st.integers(0, TASKS - 1)
distances = st.integers(0, 12)


class TimersAgainstADict(RuleBasedStateMachine):
    """A few tasks, ticks close together, so that buckets are shared, emptied and met again."""

    def __init__(self) -> None:
        super().__init__()
        self._context = lone_context()
        self.ctx = self._context.__enter__()
        self.now = 1000
        self.tasks = [Task(self.ctx, lambda _value: None, str(i)) for i in range(TASKS)]
        #: when each task is to be woken
        self.model: dict[int, int] = {}

    def teardown(self) -> None:
        self._context.__exit__(None, None, None)

    @rule(number=task_numbers, distance=distances)
    def set_expire(self, number: int, distance: int) -> None:
        self.tasks[number].set_expire(self.now + distance)
        self.model[number] = self.now + distance

    @rule(number=task_numbers, distance=distances)
    def store_a_later_one(self, number: int, distance: int) -> None:
        task = self.tasks[number]
        if task.timer == NEVER:
            return  # not armed: a mere store would never be seen
        task.expire = max(task.timer, self.now) + distance
        self.model[number] = task.expire

    @rule(number=task_numbers)
    def never(self, number: int) -> None:
        self.tasks[number].set_expire(NEVER)
        self.model.pop(number, None)

    @rule(number=task_numbers)
    def disarm(self, number: int) -> None:
        self.ctx.timers.disarm(self.tasks[number])
        self.model.pop(number, None)

    @rule(distance=distances)
    def time_passes(self, distance: int) -> None:
        self.now += distance
        due = {number for number, tick in self.model.items() if tick <= self.now}
        first = self.ctx.timers.next
        count = self.ctx.timers.expire_due(self.now)
        woken = {int(tasklet.name) for tasklet in self.ctx.normal}
        assert woken == due
        assert count == len(due)
        assert not due or first <= self.now, "the loop would not have looked"
        for tasklet in self.ctx.normal:
            tasklet.queued = False
        self.ctx.normal.clear()
        for number in due:
            del self.model[number]

    @invariant()
    def is_whole(self) -> None:
        self.ctx.timers._check()
        if self.model:
            # early is allowed (a lazy move, an emptied bucket), late is not
            assert self.ctx.timers.next <= min(self.model.values())


TestTimersAgainstADict = TimersAgainstADict.TestCase
TestTimersAgainstADict.settings = settings(max_examples=80, stateful_step_count=50)
