"""Stick tables: what is known of each key, for all threads (manual 4.2, `stick-table`).

A StickTable is cut into SHARDS parts by the hash of the key. Each Shard has a lock of its own
(label STK_TABLE), which guards its entries, their order of expiry and all data of its entries, and
is held for a few bytecodes: threads that serve different clients rarely meet at one. How many
entries there are in all is guarded by another lock (STK_COUNT), taken only where one comes or goes.
`sticktable_side.TableSide`, one per thread and table, does what happens for each request.

An entry that some stream tracks (`USES` above 0) is never removed. Any other goes when it has not
been touched for `expire`, or when a new key needs its place: then the least recently touched ones
of the whole table go first. The order is a heap per shard of (tick, number, entry); a touch only
stores the entry's new tick, and the heap is put right when the old one comes up.

Entries are looked up by `entries[key]`, never by `entries.get(key)`: where the key in the dict is
equal and was made by another thread, free-threaded CPython 3.13 takes 0.1 us for the one and 19 us
for the other.

Plain numbers may be read without a lock: an entry's cells are replaced by nobody, and one cell is
one machine word. Any thread may call everything here, with its tid and its tick; nothing here is
called with a lock held, unless said so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Any, Final

from mtproxy.base.sticktable import Stored
from mtproxy.proxy.sticktable_layout import EXPIRE, USES, Cells, Layout
from mtproxy.sync.labels import LockLabel
from mtproxy.sync.locks import Lock

if TYPE_CHECKING:
    from mtproxy.base.settings import Settings
    from mtproxy.base.sticktable import StickTableSettings
    from mtproxy.proxy.sticktable_side import TableSide
    from mtproxy.sched.context import ThreadContext

SHARDS: Final = 64
_MASK = SHARDS - 1
#: entries that make room for a new one at once, at most; HAProxy's share of a table is 1/256
_PURGE_MOST = 64
#: steps that may be taken for them without finding any
_SEARCH_LEAST = 512
#: an expired entry that is in use is looked at again after this, ms
_USED_AGAIN = 1000

#: an address or a number (int), or the bytes of a string or binary key
type Key = int | bytes


class Entry:
    """What is known of one key. `cells` as the table's layout says; see `sticktable_layout`."""

    __slots__ = ("cells", "dead", "key", "server_key", "shard")

    def __init__(self, key: Key, cells: Cells, shard: Shard) -> None:
        self.key = key
        self.cells = cells
        self.shard = shard
        #: the name or address of the server that the key is stuck to
        self.server_key: str | None = None
        #: removed from the table
        self.dead = False


class Shard:
    """One part of a table. `heap` may hold dead entries, `stale` tells how many.

    The lock guards the rest, and the cells of all entries.
    """

    __slots__ = ("entries", "heap", "lock", "sequence", "stale")

    def __init__(self) -> None:
        self.lock = Lock(LockLabel.STK_TABLE)
        self.entries: dict[Key, Entry] = {}
        self.heap: list[tuple[int, int, Entry]] = []
        self.sequence = 0
        self.stale = 0

    # -- under the lock
    def push(self, entry: Entry, tick: int) -> None:
        self.sequence = sequence = self.sequence + 1
        heappush(self.heap, (tick, sequence, entry))

    def remove(self, entry: Entry) -> None:
        """Take the entry out; its place in the heap is given up later."""
        del self.entries[entry.key]
        entry.dead = True
        self.stale += 1
        if self.stale > len(self.entries) + SHARDS:
            self.heap[:] = [one for one in self.heap if not one[2].dead]
            heapify(self.heap)
            self.stale = 0

    def head(self) -> tuple[int, int, Entry] | None:
        """The first place in the heap that a living entry has."""
        heap = self.heap
        while heap:
            first = heap[0]
            if not first[2].dead:
                return first
            heappop(heap)
            self.stale -= 1
        return None


class StickTable:
    """One table. `expiry` is told when the first entry of an empty table comes."""

    __slots__ = (
        "_count_lock",
        "_sides",
        "_used",
        "expiry",
        "layout",
        "name",
        "settings",
        "shards",
    )

    def __init__(self, settings: StickTableSettings) -> None:
        self.settings = settings
        self.name = settings.name
        self.layout = Layout(settings.store)
        self.shards = tuple(Shard() for _ in range(SHARDS))
        self._count_lock = Lock(LockLabel.STK_COUNT)
        self._used = 0
        #: a `sticktable_expiry.TableExpiry`, where entries expire
        self.expiry: Any = None
        #: by tid; each thread adds its own
        self._sides: dict[int, TableSide] = {}

    def side(self, ctx: ThreadContext) -> TableSide:
        """The calling thread's own access to the table."""
        side = self._sides.get(ctx.tid)
        if side is None:
            from mtproxy.proxy.sticktable_side import TableSide

            side = self._sides[ctx.tid] = TableSide(self, ctx)
        return side

    @property
    def used(self) -> int:
        """How many entries there are now."""
        return self._used

    def shard_of(self, key: Key) -> Shard:
        # a tuple's hash mixes what an int's leaves as it is: networks end with zeros
        return self.shards[hash((key,)) & _MASK]

    def find(self, key: Key) -> Entry | None:
        """The entry of a key, if there is one; it may be removed at any time."""
        try:
            return self.shard_of(key).entries[key]
        except KeyError:
            return None

    # --- entries that come
    def open(self, key: Key, now: int, tid: int) -> Entry | None:
        """The entry of a key, made if there is none, with its shard's lock TAKEN.

        None, without any lock, where the table is full and nothing can go.
        """
        shard = self.shard_of(key)
        shard.lock.take(tid)
        if key in shard.entries:
            return shard.entries[key]
        shard.lock.drop(tid)
        if not self._reserve(now, tid):
            return None
        shard.lock.take(tid)
        if key in shard.entries:
            # another thread was faster
            self._leave(1, tid)
            return shard.entries[key]
        expire = now + self.settings.expire
        entry = Entry(key, self.layout.template[:], shard)
        entry.cells[EXPIRE] = expire
        shard.entries[key] = entry
        shard.push(entry, expire)
        expiry = self.expiry
        if expiry is not None and expiry.resting:
            # the wait queue is not to be changed with a lock held
            shard.lock.drop(tid)
            expiry.arm(now, tid)
            return self.open(key, now, tid)
        return entry

    def _reserve(self, now: int, tid: int) -> bool:
        """Count one entry more, if there is or can be made room for it."""
        size = self.settings.size
        lock = self._count_lock
        while True:
            lock.take(tid)
            free = self._used < size
            if free:
                self._used += 1
            lock.drop(tid)
            if free:
                return True
            if self.settings.nopurge or not self._purge(now, tid):
                return False

    def _leave(self, entries: int, tid: int) -> None:
        """Count entries that have gone. The lock of a shard may be held."""
        self._count_lock.take(tid)
        self._used -= entries
        self._count_lock.drop(tid)

    # --- entries that go
    def drop_if_expired(self, entry: Entry, now: int, tid: int) -> None:
        """Remove an entry whose time has come and that nobody uses. Under its shard's lock."""
        if self.settings.expire and entry.cells[EXPIRE] <= now:
            self.drop_if_unused(entry, tid)

    def drop_if_unused(self, entry: Entry, tid: int) -> bool:
        """Remove an entry unless it is in use; whether it has gone. Under its shard's lock."""
        if not entry.dead:
            if entry.cells[USES]:
                return False
            entry.shard.remove(entry)
            self._leave(1, tid)
        return True

    def expire_some(self, shard: Shard, now: int, tid: int, budget: int) -> tuple[int, int | None]:
        """Remove entries of a shard whose time has come, looking at `budget` at most.

        Returns how many were looked at, and when to come again (None: no entries are left).
        """
        looked = removed = 0
        keep = self.settings.expire
        shard.lock.take(tid)
        while (first := shard.head()) is not None and looked < budget:
            tick, number, entry = first
            if tick > now:
                break
            looked += 1
            due = entry.cells[EXPIRE]
            if due > now:
                heapreplace(shard.heap, (due, number, entry))
            elif entry.cells[USES]:
                # it goes when it is given back, see TableSide.end; or is touched meanwhile
                heapreplace(shard.heap, (now + max(keep, _USED_AGAIN), number, entry))
            else:
                heappop(shard.heap)
                del shard.entries[entry.key]
                entry.dead = True
                removed += 1
        shard.lock.drop(tid)
        if removed:
            self._leave(removed, tid)
        return looked, None if first is None else first[0]

    def _purge(self, now: int, tid: int) -> bool:
        """Remove the least recently touched entries that nobody uses; whether there were any."""
        wanted = min((self.settings.size >> 8) + 1, _PURGE_MOST)
        steps = max(2 * wanted, _SEARCH_LEAST)
        removed = 0
        skipped: list[tuple[int, int, Entry]] = []
        heads: list[tuple[int, int]] = []
        for position, shard in enumerate(self.shards):
            first = next(iter(shard.heap[:1]), None)
            if first is not None:
                heads.append((first[0], position))
        heapify(heads)
        while heads and removed < wanted and steps > 0:
            steps -= 1
            tick, position = heads[0]
            shard = self.shards[position]
            shard.lock.take(tid)
            first = shard.head()
            if first is not None and first[0] <= tick:
                due = first[2].cells[EXPIRE]
                if due != first[0]:
                    # touched since: it stands further back
                    heapreplace(shard.heap, (due, *first[1:]))
                elif first[2].cells[USES]:
                    skipped.append(heappop(shard.heap))
                else:
                    entry = heappop(shard.heap)[2]
                    del shard.entries[entry.key]
                    entry.dead = True
                    removed += 1
                first = shard.head()
            shard.lock.drop(tid)
            if first is None:
                heappop(heads)
            else:
                heapreplace(heads, (first[0], position))
        for place in skipped:
            shard = place[2].shard
            shard.lock.take(tid)
            if place[2].dead:
                # removed meanwhile, and counted as if it had stood in the heap
                shard.stale = sum(one[2].dead for one in shard.heap)
            else:
                heappush(shard.heap, place)
            shard.lock.drop(tid)
        if removed:
            self._leave(removed, tid)
        return removed > 0

    # --- reports
    def entries(self, tid: int) -> Iterator[list[Entry]]:
        """All entries, shard by shard, as they are when each is reached."""
        for shard in self.shards:
            shard.lock.take(tid)
            found = list(shard.entries.values())
            shard.lock.drop(tid)
            yield found

    def _check(self) -> None:
        """Assert the invariants; all threads at rest."""
        total = 0
        for shard in self.shards:
            assert not shard.lock.locked()
            total += len(shard.entries)
            living = [place for place in shard.heap if not place[2].dead]
            assert len(living) == len(shard.entries)
            assert len(shard.heap) - len(living) == shard.stale
            assert {place[2].key for place in living} == set(shard.entries)
            for index, place in enumerate(shard.heap[1:], 1):
                assert shard.heap[(index - 1) // 2] <= place
            for key, entry in shard.entries.items():
                assert entry.key == key
                assert entry.shard is shard
                assert not entry.dead
                assert self.shard_of(key) is shard
                assert entry.cells[USES] >= 0
                assert len(entry.cells) == len(self.layout.template)
        assert total == self._used <= self.settings.size, (total, self._used)


def make_tables(settings: Settings) -> dict[str, StickTable]:
    """All tables of a configuration by name, in its order. Main thread, before the others start.

    A table that `stick` rules use stores the server, whatever its line says.
    """
    sticky = {
        rule.table or proxy.name
        for proxy in settings.proxies
        if not proxy.disabled
        for rule in proxy.rules.stick
    }
    tables = {}
    for proxy in settings.proxies:
        table = proxy.stick_table
        if table is None:
            continue
        if table.name in sticky:
            extra = (Stored("server_id"), Stored("server_key"))
            table = replace(table, store=table.store + extra)
        tables[table.name] = StickTable(table)
    return tables
