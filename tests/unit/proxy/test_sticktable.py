"""Stick tables on one thread: what is stored, for how long, and what gives way."""

from __future__ import annotations

from typing import Any

import pytest

from mtproxy.base.sticktable import DATA_TYPES, Stored
from mtproxy.proxy.sticktable import SHARDS, Entry
from mtproxy.proxy.sticktable_expiry import TableExpiry, start_expiry
from mtproxy.proxy.sticktable_layout import EXPIRE, USES, Event, Layout, apply, count, rate
from mtproxy.proxy.sticktable_side import TableSide
from mtproxy.testing.proxies import FakeContext
from mtproxy.testing.tables import make_side, make_table, stored


def used_by(side: TableSide, key: int) -> Entry:
    """Track a key and end it at once."""
    entry = side.track(key, side.start)
    assert entry is not None
    side.end(entry, 0, 0)  # type: ignore[arg-type]
    return entry  # type: ignore[return-value]


# --- layout and rates


def test_cells_stand_in_the_order_of_the_data_types() -> None:
    layout = Layout(stored(*reversed([one.name for one in DATA_TYPES])))
    assert [one.name for one in layout.stored] == [one.name for one in DATA_TYPES]
    cells = list(layout.cells.values())
    assert cells == sorted(set(cells))
    assert len(layout.template) == cells[-1] + 9  # gpc_rate: three rates


def test_elements_of_arrays_answer_to_the_old_names() -> None:
    layout = Layout(stored("gpc", "gpt", "gpc_rate"))
    assert layout.cell("gpc0") == layout.cell("gpc", 0)
    assert layout.cell("gpc1") == layout.cell("gpc", 1)
    assert layout.cell("gpt0") == layout.cell("gpt")
    assert layout.cell("gpc1_rate") == layout.cell("gpc_rate", 1) == layout.cells["gpc_rate"] + 3
    assert layout.period("gpc0_rate") == 1000
    assert layout.cell("gpc", 3) is layout.cell("gpc", -1) is layout.cell("conn_cnt") is None


def test_what_is_not_stored_is_no_part_of_an_event() -> None:
    layout = Layout(stored("conn_cnt", "bytes_in_cnt", "conn_rate"))
    event = layout.event("conn_cur", "conn_cnt", "conn_rate", "bytes_in_cnt")
    assert event == Event(
        (layout.cells["conn_cnt"],),
        ((layout.cells["conn_rate"], 1000),),
        (layout.cells["bytes_in_cnt"],),
    )
    assert not layout.event("http_req_cnt")


def test_counters_wrap_where_haproxys_do() -> None:
    layout = Layout(stored("conn_cnt", "bytes_in_cnt"))
    cells = layout.template[:]
    cells[layout.cells["conn_cnt"]] = 0xFFFFFFFF
    cells[layout.cells["bytes_in_cnt"]] = 1 << 40
    apply(cells, layout.event("conn_cnt", "bytes_in_cnt"), 0)
    assert cells[layout.cells["conn_cnt"]] == 0
    assert cells[layout.cells["bytes_in_cnt"]] == (1 << 40) + 1


class PlainRate:
    """HAProxy's frequency counter in its own words (freq_ctr)."""

    def __init__(self) -> None:
        self.tick, self.current, self.previous = -(10**9), 0, 0

    def add(self, period: int, now: int, events: int) -> None:
        if now - self.tick < period:
            self.current += events
            return
        self.previous, self.current = self.current, events
        self.tick += period
        if now - self.tick >= period:
            self.previous, self.tick = 0, now
        self.tick -= self.tick % 2

    def read(self, period: int, now: int) -> int:
        remain = self.tick + period - now
        current, previous = self.current, self.previous
        if remain < 0:
            remain += period
            previous, current = (current if remain >= 0 else 0), 0
        if not current and previous <= 1:
            return previous
        return (previous * remain + current * period) // period


@pytest.mark.parametrize("period", [1, 7, 1000, 10_000])
@pytest.mark.parametrize("step", [1, 3, 900, 1001, 2500, 30_000])
def test_a_rate_is_haproxys(period: int, step: int) -> None:
    cells = Layout([Stored("conn_rate", period)]).template[:]
    plain = PlainRate()
    now = 123_457
    for turn in range(40):
        events = turn % 5 + 1
        count(cells, 2, period, now, events)
        plain.add(period, now, events)
        for later in (0, period // 2, period, 2 * period, 3 * period):
            assert rate(cells, 2, period, now + later) == plain.read(period, now + later)
        now += step


def test_a_rate_of_one_does_not_flap() -> None:
    cells = Layout([Stored("conn_rate", 1000)]).template[:]
    assert rate(cells, 2, 1000, 5) == 0
    count(cells, 2, 1000, 5000, 1)
    assert [rate(cells, 2, 1000, 5000 + later) for later in (0, 1000, 1001, 1999, 2001)] == [
        1, 1, 1, 1, 0,
    ]  # fmt: skip


# --- entries


def test_tracking_counts_and_keeps_the_entry() -> None:
    ctx = FakeContext()
    ctx.now = 1000
    table = make_table(expire=500, store="conn_cnt,conn_cur,bytes_in_cnt,bytes_out_cnt")
    side = make_side(table, ctx)
    cells = side.layout.cells
    one: Any = side.track(7, side.start)
    two: Any = side.track(7, side.start)
    assert one is two is table.find(7)
    assert one.cells[USES] == 2
    assert one.cells[cells["conn_cnt"]] == one.cells[cells["conn_cur"]] == 2
    side.end(one, 100, 2000)
    assert one.cells[USES] == 1
    assert one.cells[cells["conn_cur"]] == 1
    assert one.cells[cells["bytes_in_cnt"]] == 100
    assert one.cells[cells["bytes_out_cnt"]] == 2000
    table._check()


def test_an_entry_lives_as_long_as_it_is_touched_and_used() -> None:
    ctx = FakeContext()
    table = make_table(expire=500, store="http_req_cnt")
    side = make_side(table, ctx)
    entry: Any = side.track(7, side.start)
    shard = entry.shard
    ctx.now = 600
    assert table.expire_some(shard, ctx.now, 0, 10) == (1, 600 + 1000)
    assert table.find(7) is entry
    side.add(entry, side.request)
    ctx.now = 1000
    side.end(entry, 0, 0)
    assert table.find(7) is entry, "touched 400 ms ago"
    ctx.now = 1600
    assert table.expire_some(shard, ctx.now, 0, 10) == (1, None)
    assert table.find(7) is None
    assert entry.dead
    assert table.used == 0
    table._check()


def test_an_entry_whose_time_has_come_goes_when_it_is_given_back() -> None:
    ctx = FakeContext()
    table = make_table(expire=500)
    side = make_side(table, ctx)
    entry: Any = side.track(7, side.start)
    ctx.now = 500
    side.end(entry, 0, 0)
    assert table.find(7) is None
    table._check()


def test_without_expire_entries_stay() -> None:
    ctx = FakeContext()
    table = make_table()
    side = make_side(table, ctx)
    used_by(side, 7)
    ctx.now = 1 << 40
    used_by(side, 8)
    assert table.used == 2


@pytest.mark.parametrize("size", [1, 2, 3, 100, 1000])
def test_a_full_table_drops_the_least_recently_touched_keys(size: int) -> None:
    ctx = FakeContext()
    table = make_table(size)
    side = make_side(table, ctx)
    for key in range(size):
        ctx.now += 1
        used_by(side, key)
    ctx.now += 1
    used_by(side, 0)
    ctx.now += 1
    used_by(side, size)
    gone = {key for key in range(size + 1) if table.find(key) is None}
    dropped = (size >> 8) + 1
    assert gone == set(range(1, dropped + 1)) if size > 1 else {0}
    assert table.used == size + 1 - len(gone)
    table._check()


def test_what_is_in_use_is_never_dropped() -> None:
    ctx = FakeContext()
    table = make_table(2)
    side = make_side(table, ctx)
    first = side.track(1, side.start)
    ctx.now += 1
    used_by(side, 2)
    ctx.now += 1
    assert used_by(side, 3)
    assert table.find(1) is first
    assert table.find(2) is None
    second = side.track(3, side.start)
    assert side.track(4, side.start) is None, "all are in use"
    assert table.find(4) is None
    assert second is table.find(3)
    assert table.used == 2
    table._check()


def test_nopurge_refuses_new_keys() -> None:
    table = make_table(1, nopurge=True)
    side = make_side(table)
    used_by(side, 1)
    assert side.track(2, side.start) is None
    assert side.hold(2) is None
    side.stick(2, 1, "s")
    assert table.used == 1
    assert side.track(1, side.start) is not None
    table._check()


def test_an_entry_is_removed_by_hand_unless_it_is_in_use() -> None:
    table = make_table()
    side = make_side(table)
    entry: Any = side.track(1, side.start)
    assert not table.drop_if_unused(entry, 0)
    side.end(entry, 0, 0)
    assert table.drop_if_unused(entry, 0)
    assert table.drop_if_unused(entry, 0), "it has gone already"
    assert table.used == 0
    table._check()


def test_removing_by_hand_leaves_no_rubbish() -> None:
    table = make_table(10)
    side = make_side(table)
    for key in range(1000):
        entry = used_by(side, key % 10)
        assert table.drop_if_unused(entry, 0)
    assert sum(len(shard.heap) for shard in table.shards) <= 10 * 2 * SHARDS
    table._check()


def test_bump_gives_the_counter_or_the_events_of_the_period() -> None:
    side = make_side(make_table(store="gpc0,gpc1_rate"))
    entry: Any = side.hold(1)
    assert [side.bump(entry, side.event("gpc0", 0)) for _ in range(3)] == [1, 2, 3]
    assert [side.bump(entry, side.event("gpc1", 0)) for _ in range(3)] == [1, 2, 3]
    assert side.bump(entry, side.event("gpc", 0)) == 0
    assert side.exchange(entry, side.layout.cells["gpc0"], 1 << 32 | 9) == 3
    assert entry.cells[side.layout.cells["gpc0"]] == 9
    side.release(entry)
    assert entry.cells[USES] == 0


# --- expiry


def expiring(ctx: FakeContext, expire: int) -> tuple[TableSide, TableExpiry]:
    table = make_table(10_000, expire=expire)
    (expiry,) = start_expiry([table], ctx.pool.wait_queue)  # type: ignore[arg-type]
    return make_side(table, ctx), expiry


def test_the_task_waits_for_the_first_entry_and_rests_when_all_have_gone() -> None:
    ctx = FakeContext()
    side, expiry = expiring(ctx, 160)
    queue = ctx.pool.wait_queue
    assert len(queue) == 0
    used_by(side, 1)
    ctx.now = 50
    used_by(side, 2)
    assert len(queue) == 1
    ctx.now = 169
    assert queue.collect(ctx.now, 0) == []
    ctx.now = 170
    (task,) = queue.collect(ctx.now, 0)
    assert task is expiry  # type: ignore[comparison-overlap]
    task.run(ctx)  # type: ignore[arg-type]
    assert side.find(1) is None
    assert side.find(2) is not None
    ctx.now = 300
    (task,) = queue.collect(ctx.now, 0)
    task.run(ctx)  # type: ignore[arg-type]
    assert side.table.used == 0
    assert len(queue) == 0
    used_by(side, 3)
    assert len(queue) == 1
    side.table._check()


def test_many_entries_go_in_turns() -> None:
    ctx = FakeContext()
    side, _expiry = expiring(ctx, 100)
    for key in range(3000):
        used_by(side, key)
    ctx.now = 1000
    turns = 0
    while side.table.used:
        before = side.table.used
        (task,) = ctx.pool.wait_queue.collect(ctx.now, 0)
        task.run(ctx)  # type: ignore[arg-type]
        assert before - side.table.used <= 512
        turns += 1
        ctx.now += 1
    assert turns >= 6
    side.table._check()


def test_tables_without_expire_have_no_task() -> None:
    assert start_expiry([make_table()], FakeContext().pool.wait_queue) == []  # type: ignore[arg-type]


def test_the_entry_tells_when_it_goes() -> None:
    ctx = FakeContext()
    side = make_side(make_table(expire=500), ctx)
    entry: Any = side.hold(1)
    ctx.now = 200
    assert side.remain(entry) == 300
    assert entry.cells[EXPIRE] == 500
    ctx.now = 900
    assert side.remain(entry) == 0
