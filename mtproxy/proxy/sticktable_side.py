"""TableSide: one thread's access to a stick table, for what happens with each request.

It has numbers and cells of its own, so that the thread touches of the shared table little more than
the shard and the entry that it needs. Owner thread only; it takes the lock of one shard at a time
(STK_TABLE), for one short step. Ticks are the thread's (`ctx.now`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.base.sticktable import Stored
from mtproxy.proxy.sticktable import SHARDS, Entry, Key, StickTable
from mtproxy.proxy.sticktable_layout import (
    EXPIRE,
    MASK32,
    USES,
    Event,
    Layout,
    apply,
    count,
    estimate,
)

if TYPE_CHECKING:
    from mtproxy.sched.context import ThreadContext

_MASK = SHARDS - 1
_NOTHING = Event()


def _own(number: int) -> int:
    """The same number as an object of the calling thread."""
    return int(str(number))


class TableSide:
    """A table as one thread sees it. Events (`start`, ...) are what this table counts of them."""

    __slots__ = (
        "_bytes_in",
        "_bytes_out",
        "_conn_cur",
        "_ctx",
        "_expire",
        "_shards",
        "_tid",
        "_touches_at_end",
        "error",
        "events",
        "fail",
        "layout",
        "name",
        "request",
        "session",
        "settings",
        "start",
        "table",
    )

    def __init__(self, table: StickTable, ctx: ThreadContext) -> None:
        self.table = table
        self.settings = table.settings
        self.name = table.name
        self._ctx = ctx
        self._tid = ctx.tid
        self._shards = tuple(shard for shard in table.shards)  # its own
        self._expire = _own(table.settings.expire)
        self.layout = layout = Layout(
            Stored(one.name, _own(one.period), one.count) for one in table.layout.stored
        )
        #: a stream begins to track a key
        self.start = layout.event("conn_cur", "conn_cnt", "conn_rate")
        self.session = layout.event("sess_cnt", "sess_rate")
        self.request = layout.event("http_req_cnt", "http_req_rate")
        self.error = layout.event("http_err_cnt", "http_err_rate")
        self.fail = layout.event("http_fail_cnt", "http_fail_rate")
        self._bytes_in = layout.event("bytes_in_cnt", "bytes_in_rate")
        self._bytes_out = layout.event("bytes_out_cnt", "bytes_out_rate")
        self._conn_cur = layout.cell("conn_cur")
        self._touches_at_end = bool(self._bytes_in or self._bytes_out or self._conn_cur is not None)
        #: events that rules cause, by (data type, index)
        self.events: dict[tuple[str, int], Event] = {}

    def event(self, counter: str, index: int) -> Event:
        """What "gpc", "gpc0" or "gpc1" adds to: the counter and its rate."""
        found = self.events.get((counter, index))
        if found is None:
            found = self.layout.event(f"{counter}_rate", counter, index=index)
            self.events[counter, index] = found
        return found

    # --- entries in use
    def track(self, key: Key, event: Event) -> Entry | None:
        """Use the entry of a key, made if needed, until `end` or `release`, and count `event`.

        None where the table is full. Written out: it runs for each request.
        """
        now = self._ctx.now
        tid = self._tid
        shard = self._shards[hash((key,)) & _MASK]
        lock = shard.lock
        lock.take(tid)
        try:
            entry = shard.entries[key]
        except KeyError:
            lock.drop(tid)
            made = self.table.open(key, now, tid)
            if made is None:
                return None
            entry = made
        cells = entry.cells
        cells[0] += 1
        cells[1] = now + self._expire
        for cell in event.counts:
            cells[cell] = cells[cell] + 1 & MASK32
        for cell, period in event.rates:
            tick = cells[cell]
            if now - tick < period:
                cells[cell + 1] = cells[cell + 1] + 1 & MASK32
            else:
                count(cells, cell, period, now, 1)
        lock.drop(tid)
        return entry

    def end(self, entry: Entry, received: int, sent: int) -> None:
        """The end of what `track` began: `received` and `sent` bytes were those of the client."""
        now = self._ctx.now
        tid = self._tid
        lock = entry.shard.lock
        lock.take(tid)
        cells = entry.cells
        if self._touches_at_end:
            if received and self._bytes_in:
                apply(cells, self._bytes_in, now, received)
                cells[1] = now + self._expire
            if sent and self._bytes_out:
                apply(cells, self._bytes_out, now, sent)
                cells[1] = now + self._expire
            cell = self._conn_cur
            if cell is not None:
                if cells[cell] > 0:
                    cells[cell] -= 1
                cells[1] = now + self._expire
        cells[0] = uses = cells[0] - 1
        if not uses and cells[1] <= now:
            self.table.drop_if_expired(entry, now, tid)
        lock.drop(tid)

    def add_bytes(self, entry: Entry, received: int, sent: int) -> None:
        """Count bytes for an entry that stays in use."""
        if received and self._bytes_in:
            self.add(entry, self._bytes_in, received)
        if sent and self._bytes_out:
            self.add(entry, self._bytes_out, sent)

    def hold(self, key: Key) -> Entry | None:
        """Use the entry of a key, made if needed, until `release`; nothing is counted."""
        entry = self.table.open(key, self._ctx.now, self._tid)
        if entry is not None:
            entry.cells[USES] += 1
            entry.shard.lock.drop(self._tid)
        return entry

    def release(self, entry: Entry) -> None:
        """The end of `hold`."""
        lock = entry.shard.lock
        lock.take(self._tid)
        entry.cells[USES] -= 1
        lock.drop(self._tid)

    def add(self, entry: Entry, event: Event, amount: int = 1) -> None:
        """Count an event that this table stores something of, for an entry in use."""
        if not event:
            return
        now = self._ctx.now
        lock = entry.shard.lock
        lock.take(self._tid)
        cells = entry.cells
        apply(cells, event, now, amount)
        cells[1] = now + self._expire
        lock.drop(self._tid)

    def bump(self, entry: Entry, event: Event) -> int:
        """Count an event; returns the counter, or the events of the period where it has none."""
        if not event:
            return 0
        now = self._ctx.now
        lock = entry.shard.lock
        lock.take(self._tid)
        cells = entry.cells
        apply(cells, event, now)
        cells[1] = now + self._expire
        result = cells[event.counts[0]] if event.counts else cells[event.rates[0][0] + 1]
        lock.drop(self._tid)
        return result

    def exchange(self, entry: Entry, cell: int, value: int) -> int:
        """Store a number of 32 bits; returns the one before."""
        lock = entry.shard.lock
        lock.take(self._tid)
        cells = entry.cells
        before = cells[cell]
        cells[cell] = value & MASK32
        cells[1] = self._ctx.now + self._expire
        lock.drop(self._tid)
        return before

    # --- entries as they are
    def find(self, key: Key) -> Entry | None:
        """The entry of a key, if there is one; it may be removed at any time."""
        try:
            return self._shards[hash((key,)) & _MASK].entries[key]
        except KeyError:
            return None

    def rate(self, entry: Entry, cell: int, period: int) -> int:
        """Events per period now.

        Read without the lock; under it where a period ends at this moment. What an event of the
        same moment has changed already or not yet makes no difference: either is right.
        """
        cells = entry.cells
        tick = cells[cell]
        current = cells[cell + 1]
        past = cells[cell + 2]
        if tick & 1 or cells[cell] != tick:
            lock = entry.shard.lock
            lock.take(self._tid)
            tick, current, past = cells[cell : cell + 3]
            lock.drop(self._tid)
        return estimate(tick, current, past, period, self._ctx.now)

    def remain(self, entry: Entry) -> int:
        """Milliseconds until the entry expires."""
        return max(0, entry.cells[EXPIRE] - self._ctx.now)

    # --- persistence
    def touch(self, entry: Entry) -> None:
        """The entry was used: it expires later."""
        lock = entry.shard.lock
        lock.take(self._tid)
        entry.cells[1] = self._ctx.now + self._expire
        lock.drop(self._tid)

    def stick(self, key: Key, server_id: int, server_key: str) -> None:
        """Note the server that a key is stuck to. As in HAProxy, which makes a new entry before it
        looks for the old one, a full table that purges nothing keeps what it has.
        """
        table = self.table
        if table.settings.nopurge and table.used >= table.settings.size:
            return
        now = self._ctx.now
        entry = self.table.open(key, now, self._tid)
        if entry is None:
            return
        cells = entry.cells
        cell = self.layout.cell("server_id")
        if cell is not None:
            cells[cell] = server_id
        entry.server_key = server_key
        cells[1] = now + self._expire
        entry.shard.lock.drop(self._tid)
