"""The sequencer itself: threads stop where they should, and nowhere else."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from mtproxy.testing.sequencer import (
    BLOCKED,
    DONE,
    START,
    WOKEN,
    SequenceError,
    Sequencer,
    explore,
)


class Counter:
    """A counter with the race of all counters."""

    def __init__(self) -> None:
        self.value = 0

    def load(self) -> int:
        return self.value

    def store(self, value: int) -> None:
        self.value = value

    def add(self) -> None:
        self.store(self.load() + 1)


def test_a_thread_runs_only_when_told() -> None:
    log: list[str] = []
    with Sequencer() as seq:

        def body(name: str) -> str:
            log.append(f"{name}1")
            seq.at("middle")
            log.append(f"{name}2")
            return name.upper()

        seq.spawn("a", body, "a")
        seq.spawn("b", body, "b")
        assert (seq.stands("a"), seq.stands("b"), log) == (START, START, [])
        assert seq.step("b") == "middle"
        assert log == ["b1"]
        assert seq.step("a") == "middle"
        assert seq.step("b") == DONE
        assert log == ["b1", "a1", "b2"]
        assert seq.result("b") == "B"
        with pytest.raises(SequenceError, match="a is not done"):
            seq.result("a")
        seq.finish()
        assert seq.result("a") == "A"


def test_wrapped_methods_stop_and_are_restored() -> None:
    original = Counter.load
    with Sequencer() as seq:
        seq.points(Counter, "load")
        seq.wrap(Counter, "store", before="store", after="stored")
        counter = Counter()
        counter.add()  # not one of the sequencer's threads: passes through
        seq.spawn("a", counter.add)
        assert [seq.step("a") for _ in range(4)] == ["load", "store", "stored", DONE]
    assert Counter.load is original
    assert counter.value == 2


def test_a_lost_update_is_forced() -> None:
    with Sequencer() as seq:
        seq.points(Counter, "store")
        counter = Counter()
        seq.spawn("a", counter.add)
        seq.spawn("b", counter.add)
        seq.run_to("a", "store")
        seq.run_to("b", DONE)
        seq.finish()
    assert counter.value == 1


def test_blocked_and_woken() -> None:
    with Sequencer() as seq:
        waiter = seq.waiter()
        seq.spawn("sleeper", waiter.wait)
        seq.spawn("waker", waiter.wake)
        assert seq.step("sleeper") == BLOCKED
        with pytest.raises(SequenceError, match="sleeper cannot go on"):
            seq.step("sleeper")
        assert seq.ready() == ["waker"]
        seq.step("waker")
        assert seq.stands("sleeper") == WOKEN
        assert seq.step("sleeper") == DONE


def test_woken_before_it_waits() -> None:
    with Sequencer() as seq:
        waiter = seq.waiter()
        waiter.wake()
        seq.spawn("sleeper", waiter.wait)
        assert seq.step("sleeper") == WOKEN
        assert seq.step("sleeper") == DONE


def test_errors_reach_the_test() -> None:
    def fail() -> None:
        raise KeyError("here")

    with Sequencer() as seq:
        seq.spawn("a", fail)
        assert seq.step("a") == DONE
        with pytest.raises(KeyError, match="here"):
            seq.finish()


def test_waiting_for_ever_is_an_error() -> None:
    seq = Sequencer()
    seq.spawn("a", seq.waiter().wait)
    with pytest.raises(SequenceError, match="blocked for ever: a at blocked"):
        seq.finish()
    with pytest.raises(SequenceError, match="left unfinished"), seq:
        pass


def test_a_wait_that_it_cannot_see_ends_at_the_deadline() -> None:
    gate = threading.Event()
    with Sequencer(deadline_s=0.05) as seq:
        seq.spawn("a", gate.wait)
        with pytest.raises(SequenceError, match="no progress: a at running"):
            seq.step("a")
        gate.set()
        seq.finish()


def test_threads_left_behind_are_an_error_and_end() -> None:
    seq = Sequencer()
    seq.spawn("left", seq.at, "point")
    seq.step("left")
    with pytest.raises(SequenceError, match="left unfinished"), seq:
        pass
    assert not any(thread.name == "left" for thread in threading.enumerate())


def test_a_thread_that_goes_elsewhere_is_an_error() -> None:
    with Sequencer() as seq:
        seq.spawn("a", lambda: None)
        with pytest.raises(SequenceError, match="did not come to there"):
            seq.run_to("a", "there")


def test_explore_runs_every_interleaving_once() -> None:
    seen: list[str] = []

    def scenario(seq: Sequencer) -> Callable[[], None]:
        order: list[str] = []

        def body(name: str) -> None:
            order.append(name)
            seq.at("between")
            order.append(name)

        seq.spawn("a", body, "a")
        seq.spawn("b", body, "b")
        return lambda: seen.append("".join(order))

    assert explore(scenario) == 6
    assert sorted(seen) == ["aabb", "abab", "abba", "baab", "baba", "bbaa"]


def test_explore_finds_the_lost_update_and_names_the_schedule() -> None:
    def scenario(seq: Sequencer) -> Callable[[], None]:
        seq.points(Counter, "store")
        counter = Counter()
        seq.spawn("a", counter.add)
        seq.spawn("b", counter.add)

        def check() -> None:
            assert counter.value == 2

        return check

    with pytest.raises(AssertionError) as caught:
        explore(scenario)
    assert any(note.startswith("schedule: ") for note in caught.value.__notes__)


def test_explore_refuses_too_many() -> None:
    def scenario(seq: Sequencer) -> Callable[[], None]:
        for name in "abcd":
            seq.spawn(name, seq.at, "point")
        return lambda: None

    with pytest.raises(SequenceError, match="more than 10 interleavings"):
        explore(scenario, at_most=10)
