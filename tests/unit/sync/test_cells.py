"""Cells, counters and inboxes: what is atomic stays whole under real threads."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from mtproxy.sync import stats
from mtproxy.sync.cells import ChainCell, LockedCell
from mtproxy.sync.counters import Counter
from mtproxy.sync.inbox import Inbox
from mtproxy.sync.labels import LockLabel
from mtproxy.testing.sequencer import Sequencer, explore
from mtproxy.testing.threads import run_threads

IMPLEMENTATIONS = [LockedCell, ChainCell]
type AnyCell = LockedCell[Any] | ChainCell[Any]


@pytest.fixture(autouse=True)
def slots() -> None:
    stats.configure(4)


@pytest.fixture(params=IMPLEMENTATIONS, ids=lambda cls: cls.__name__)
def make(request: pytest.FixtureRequest) -> Callable[[Any], AnyCell]:
    factory: Callable[[Any], AnyCell] = request.param
    return factory


def test_one_thread(make: Callable[[Any], AnyCell]) -> None:
    cell = make(1)
    assert cell.load() == 1
    assert cell.compare_exchange(1, 2, 0)
    assert not cell.compare_exchange(1, 3, 0)
    assert cell.load() == 2
    assert cell.compare_exchange(2, 2, 0)
    # equal, not identical
    assert make((1, 2)).compare_exchange(tuple([1, 2]), None, 0)  # noqa: C409
    cell._check()


def test_no_increment_is_lost(make: Callable[[Any], AnyCell]) -> None:
    cell = make(0)

    def add(number: int) -> None:
        for _ in range(2000):
            while True:
                value = cell.load()
                if cell.compare_exchange(value, value + 1, number):
                    break

    run_threads(3, add)
    assert cell.load() == 6000
    cell._check()


def test_each_value_has_one_winner(make: Callable[[Any], AnyCell]) -> None:
    """Threads race for the same exchange: exactly one succeeds, round after round."""
    cell = make(0)
    won: list[list[int]] = [[] for _ in range(3)]

    def race(number: int) -> None:
        for value in range(1500):
            if cell.compare_exchange(value, value + 1, number):
                won[number].append(value)
            while cell.load() <= value:
                pass

    run_threads(3, race)
    assert sorted(value for mine in won for value in mine) == list(range(1500))


def test_loads_never_go_back(make: Callable[[Any], AnyCell]) -> None:
    cell = make(0)

    def write_or_watch(number: int) -> None:
        if number == 0:
            for value in range(4000):
                assert cell.compare_exchange(value, value + 1, number)
            return
        last = 0
        while last < 4000:
            value = cell.load()
            assert value >= last
            last = value

    run_threads(3, write_or_watch)


class _SteppedChain(ChainCell[int]):
    """A ChainCell to be stopped where others can come between."""

    __slots__ = ()


@pytest.mark.parametrize(
    "operations",
    [("cas", "cas"), ("cas", "load"), ("cas", "cas", "load"), ("cas", "cas", "cas")],
)
def test_chain_under_every_interleaving(operations: tuple[str, ...]) -> None:
    def scenario(seq: Sequencer) -> Callable[[], None]:
        seq.wrap(_SteppedChain, "_last", after="read")
        seq.wrap(_SteppedChain, "_publish", before="claimed")
        cell = _SteppedChain(0)
        success: list[bool] = []
        loaded: list[int] = []

        def act(operation: str, number: int) -> None:
            if operation == "cas":
                success.append(cell.compare_exchange(0, number, number))
            else:
                loaded.append(cell.load())

        for number, operation in enumerate(operations, 1):
            seq.spawn(f"{operation}{number}", act, operation, number)

        def check() -> None:
            assert success.count(True) == 1
            assert operations[cell.load() - 1] == "cas"
            assert all(value in range(len(operations) + 1) for value in loaded)
            cell._check()

        return check

    assert explore(scenario) > 1


def test_a_chain_lets_its_past_go() -> None:
    class Value:
        pass

    cell: ChainCell[Value] = ChainCell(Value())
    first = weakref.ref(cell.load())
    for _ in range(10):
        assert cell.compare_exchange(cell.load(), Value(), 0)
    gc.collect()
    assert first() is None


def test_locked_cells_are_in_the_statistics() -> None:
    before = stats.snapshot_of(LockLabel.CELL)
    cell = LockedCell(0)
    cell.compare_exchange(0, 1, 1)
    cell.compare_exchange(0, 1, 1)
    cell.load()
    after = stats.snapshot_of(LockLabel.CELL)
    assert after.write_locks - before.write_locks == 2
    assert after.write_unlocks - before.write_unlocks == 2
    assert after.write_waits == before.write_waits


def test_waiting_for_a_cell_is_timed() -> None:
    before = stats.snapshot_of(LockLabel.CELL)
    cell = LockedCell(0)
    cell._acquire()
    thread = threading.Thread(target=cell._release)
    thread.start()
    cell._wait(2)  # what an exchange does that finds the mutex taken
    thread.join(5)
    after = stats.snapshot_of(LockLabel.CELL)
    assert after.write_waits - before.write_waits == 1
    assert after.write_wait_ns > before.write_wait_ns
    cell._release()
    cell._check()


def test_counter_gives_each_number_once() -> None:
    counter = Counter(10)
    assert counter.next() == 10
    got: list[list[int]] = [[], [], []]

    def take(number: int) -> None:
        take_next = counter.next
        got[number] = [take_next() for _ in range(20_000)]

    run_threads(3, take)
    assert sorted(value for mine in got for value in mine) == list(range(11, 60_011))
    assert all(a < b for mine in got for a, b in pairwise(mine))


def test_inbox_keeps_the_order_of_each_sender_and_loses_nothing() -> None:
    inbox: Inbox[tuple[int, int]] = Inbox()
    got: list[tuple[int, int]] = []
    total = 3 * 5000

    def run(number: int) -> None:
        if number:
            for value in range(5000):
                inbox.put((number, value))
            return
        while len(got) < total:
            got.extend(inbox.drain())

    run_threads(4, run)
    assert len(inbox) == 0
    assert not inbox
    assert inbox.drain() == []
    for sender in (1, 2, 3):
        assert [value for who, value in got if who == sender] == list(range(5000))


def test_inbox_drains_what_is_there() -> None:
    inbox: Inbox[str] = Inbox()
    inbox.put("a")
    inbox.put("b")
    assert len(inbox) == 2
    assert inbox
    assert inbox.drain() == ["a", "b"]
