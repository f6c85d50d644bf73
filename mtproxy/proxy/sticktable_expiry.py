"""The expiry of a stick table's entries: a shared task of the global wait queue, one per table.

Whichever pool thread collects it removes what is due, a bounded number of entries at a time, and
queues the task again. While a table is empty its task is in no queue: it lies in `resting`, from
which one thread that has made an entry takes it (`deque.pop` is atomic) and queues it.

Nothing is overlooked: who makes an entry puts it into its shard and *then* looks into `resting`;
who lays the task there does so and *then* looks whether there are entries after all. Both pass the
lock of a shard, or the deque's own, between their two steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mtproxy.proxy.sticktable import StickTable

if TYPE_CHECKING:
    from mtproxy.sched.context import ThreadContext
    from mtproxy.sched.waitqueue import WaitQueueBase

#: entries that one turn looks at, in all and while one lock is held
_TURN = 512
_SHARD = 64
#: entries go this much later than they could, in ms at most, so that several go at once
_LATEST = 20


class TableExpiry:
    """See the module. `run` on the thread that has collected it."""

    __slots__ = ("_first", "_grain", "_wait_queue", "expire", "resting", "table", "wq_key")

    def __init__(self, table: StickTable, wait_queue: WaitQueueBase[TableExpiry]) -> None:
        self.table = table
        self._wait_queue = wait_queue
        self.expire: int | None = None
        self.wq_key: tuple[int, int] | None = None
        #: the task itself while it is in no queue
        self.resting: deque[TableExpiry] = deque([self])
        self._grain = min(_LATEST, max(1, table.settings.expire // 16))
        #: the shard that the next turn begins with
        self._first = 0
        table.expiry = self

    def arm(self, now: int, tid: int) -> None:
        """An entry was made. Called by any thread, without a lock."""
        if self.resting:
            try:
                task = self.resting.pop()
            except IndexError:
                return
            self._wait_queue.queue(task, now + self.table.settings.expire + self._grain, tid)

    def run(self, ctx: ThreadContext) -> None:
        """Remove what is due and come again when the next entry is."""
        table, now, tid = self.table, ctx.now, ctx.tid
        shards = table.shards
        budget = _TURN
        following: int | None = None
        for step in range(len(shards)):
            position = (self._first + step) % len(shards)
            looked, tick = table.expire_some(shards[position], now, tid, min(_SHARD, budget))
            budget -= looked
            if tick is not None and (following is None or tick < following):
                following = tick
            if budget <= 0:
                self._first = position
                following = now - self._grain  # at once
                break
        if following is not None:
            self._wait_queue.queue(self, max(now + 1, following + self._grain), tid)
            return
        self.resting.append(self)
        if table.used:
            self.arm(now, tid)


def start_expiry(
    tables: Iterable[StickTable], wait_queue: WaitQueueBase[TableExpiry]
) -> list[TableExpiry]:
    """Let the entries of all tables expire. Once, before traffic or after it has begun."""
    return [TableExpiry(table, wait_queue) for table in tables if table.settings.expire]
