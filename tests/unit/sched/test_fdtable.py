"""The table of descriptors that are there before the threads."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from mtproxy.sched.fdtable import ENTRY_SIZE, FdTable
from mtproxy.testing import procfs


def adopted(table: FdTable, tid: int) -> list[str]:
    """What thread `tid` is given, in order."""
    ctx: Any = SimpleNamespace(tid=tid, got=[])
    table.adopt(ctx)
    found: list[str] = ctx.got
    return found


def give(name: str) -> Any:
    return lambda ctx: ctx.got.append(name)


@pytest.mark.parametrize("full_scan", [False, True])
def test_each_thread_adopts_its_own_by_descriptor(full_scan: bool) -> None:
    table = FdTable(100, full_scan=full_scan)
    table.insert(9, range(64), give("listener"))
    table.insert(5, [0], give("socket"))
    table.insert(0, [1], give("first"))
    table.insert(99, [0, 63], give("last"))
    assert table.highest == 99
    assert adopted(table, 0) == ["socket", "listener", "last"]
    assert adopted(table, 1) == ["first", "listener"]
    assert adopted(table, 2) == ["listener"]
    assert adopted(table, 63) == ["listener", "last"]


def test_an_empty_table() -> None:
    table = FdTable(0)
    assert (table.size, table.highest) == (1, -1)
    assert adopted(table, 0) == []


def test_a_descriptor_beyond_the_end_makes_it_longer() -> None:
    table = FdTable(10)
    table.insert(3, [0], give("a"))
    table.insert(1000, [0, 1], give("b"))
    table.insert(9, [1], give("c"))
    assert (table.size, table.highest) == (1001, 1000)
    assert adopted(table, 0) == ["a", "b"]
    assert adopted(table, 1) == ["c", "b"]


def test_a_descriptor_is_inserted_once() -> None:
    table = FdTable(10)
    table.insert(3, [0], give("a"))
    with pytest.raises(AssertionError, match="descriptor 3 was inserted already"):
        table.insert(3, [1], give("b"))


def test_what_one_thread_raises_reaches_the_caller() -> None:
    table = FdTable(10)

    def fail(_ctx: object) -> None:
        raise RuntimeError("on purpose")

    table.insert(3, [0], fail)
    with pytest.raises(RuntimeError, match="on purpose"):
        adopted(table, 0)
    assert adopted(table, 1) == []


@pytest.mark.parametrize(("full_scan", "looks"), [(False, 8), (True, 1000)])
def test_how_far_a_thread_looks(
    full_scan: bool, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = FdTable(1000, full_scan=full_scan)
    table.insert(7, [0], give("a"))
    ranges: list[int] = []

    def counting_range(end: int) -> range:
        ranges.append(end)
        return range(end)

    monkeypatch.setattr("mtproxy.sched.fdtable.range", counting_range, raising=False)
    assert adopted(table, 0) == ["a"]
    assert ranges == [looks]


def test_a_table_for_two_million_connections_takes_no_memory() -> None:
    """Only the page that was written to, and what Python itself needs meanwhile."""
    before = procfs.rss_bytes(os.getpid())
    table = FdTable(4_000_100)
    assert table.size * ENTRY_SIZE > 30 << 20
    table.insert(12, range(64), give("a"))
    assert adopted(table, 5) == ["a"]
    assert procfs.rss_bytes(os.getpid()) - before < 4 << 20
