"""One stick table and real threads: nothing is lost, counted twice or dropped while in use."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from mtproxy.proxy.sticktable_expiry import start_expiry
from mtproxy.proxy.sticktable_layout import USES
from mtproxy.sched.waitqueue import WaitQueue
from mtproxy.sync import stats
from mtproxy.testing.proxies import FakeContext, FakePool
from mtproxy.testing.tables import make_side, make_table
from mtproxy.testing.threads import run_threads

pytestmark = pytest.mark.stress
THREADS = 4
stats.configure(THREADS + 1)


@pytest.mark.parametrize("keys", [1, 3, 50])
def test_every_event_is_counted_once(keys: int) -> None:
    table = make_table(store="conn_cnt,conn_cur,http_req_cnt,gpc0,bytes_in_cnt")
    each = 10_000
    bumped: list[set[int]] = [set() for _ in range(THREADS)]

    def work(tid: int) -> None:
        rng, ctx = random.Random(tid), FakeContext(tid)
        side = make_side(table, ctx)
        event = side.start + side.request
        gpc0 = side.event("gpc0", 0)
        for _ in range(each):
            key = rng.randrange(keys)
            entry: Any = side.track(key, event)
            value = side.bump(entry, gpc0)
            if key == 0:
                assert value not in bumped[tid]
                bumped[tid].add(value)
            side.end(entry, 3, 0)

    run_threads(THREADS, work)
    table._check()
    cells = table.layout.cells
    entries: list[Any] = [entry for part in table.entries(0) for entry in part]
    assert len(entries) == keys
    for name, expected in {
        "conn_cnt": 1, "conn_cur": 0, "http_req_cnt": 1, "gpc0": 1, "bytes_in_cnt": 3,
    }.items():  # fmt: skip
        total = sum(entry.cells[cells[name]] for entry in entries)
        assert total == expected * each * THREADS, name
    assert all(entry.cells[USES] == 0 for entry in entries)
    # no two threads got the same number
    union = set().union(*bumped)
    assert len(union) == sum(map(len, bumped)) == table.find(0).cells[cells["gpc0"]]  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_keys_come_and_go(seed: int) -> None:
    """A small table: purges, expiry, removal by hand, all at once. Entries in use stay."""
    table = make_table(60, expire=3, store="http_req_cnt")
    pool = FakePool()
    pool.wait_queue = WaitQueue()
    start_expiry([table], pool.wait_queue)  # type: ignore[arg-type]
    refused = [0] * THREADS

    def work(tid: int) -> None:
        rng, ctx = random.Random(seed * 10 + tid), FakeContext(tid, pool)
        side = make_side(table, ctx)
        held: list[tuple[int, Any]] = []
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            ctx.now = int(time.monotonic() * 1000)
            for task in pool.wait_queue.collect(ctx.now, tid):
                task.run(ctx)  # type: ignore[arg-type]
            for _ in range(20):
                key = rng.randrange(200)
                entry: Any = side.track(key, side.request)
                if entry is None:
                    refused[tid] += 1
                else:
                    held.append((key, entry))
                if rng.random() < 0.1:
                    found: Any = table.find(rng.randrange(200))
                    if found is not None:
                        lock = found.shard.lock
                        lock.take(tid)
                        table.drop_if_unused(found, tid)
                        lock.drop(tid)
                while len(held) > 10:
                    key, entry = held.pop(rng.randrange(len(held)))
                    assert not entry.dead
                    assert table.find(key) is entry
                    side.end(entry, 0, 0)
        for _, entry in held:
            side.end(entry, 0, 0)

    run_threads(THREADS, work)
    table._check()
    assert table.used <= 60
    assert not any(entry.cells[USES] for part in table.entries(0) for entry in part)
    # and what is left goes by itself
    ctx = FakeContext(0, pool)
    ctx.now = int(time.monotonic() * 1000) + 10_000
    while table.used:
        for task in pool.wait_queue.collect(ctx.now, 0):
            task.run(ctx)  # type: ignore[arg-type]
        ctx.now += 10
        assert ctx.now < int(time.monotonic() * 1000) + 100_000, "entries do not expire"
    table._check()
    assert len(pool.wait_queue) == 0
