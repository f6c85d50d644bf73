"""SeekLock without contention: transitions, tries, counts; and waiting with real threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from mtproxy.sync import seeklock, stats
from mtproxy.sync.labels import LockLabel
from mtproxy.sync.seeklock import SeekLock
from mtproxy.testing.counts import zero_counts
from mtproxy.testing.sequencer import BLOCKED, DONE, WOKEN, Sequencer, explore

LABEL = LockLabel.OTHER


@pytest.fixture
def lock() -> SeekLock:
    zero_counts(LABEL, 8)
    return SeekLock(LABEL)


@pytest.fixture(params=[0, 64], ids=["hand-over", "overtaking"])
def limit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    value: int = request.param
    monkeypatch.setattr(seeklock, "OVERTAKE_LIMIT", value)
    return value


@pytest.fixture
def seq() -> Iterator[Sequencer]:
    with Sequencer() as sequencer:
        yield sequencer


@pytest.mark.parametrize(
    ("path", "states"),
    [
        ("take_read drop_read", "RU"),
        ("take_seek drop_seek", "SU"),
        ("take_write drop_write", "WU"),
        ("take_read try_read_to_seek seek_to_write write_to_seek drop_seek", "RSWSU"),
        ("take_seek seek_to_read drop_read", "SRU"),
        ("take_write write_to_read drop_read", "WRU"),
        ("try_take_read drop_read try_take_seek drop_seek try_take_write drop_write", "RUSUWU"),
    ],
)
def test_one_thread(lock: SeekLock, path: str, states: str) -> None:
    for operation, state in zip(path.split(), states, strict=True):
        assert getattr(lock, operation)(0) in (None, True)
        assert lock.state == state
        lock._check()
    counted = stats.snapshot_of(LABEL)
    assert counted.read_locks == counted.read_unlocks == states.count("R")
    assert counted.seek_locks == counted.seek_unlocks == states.count("S")
    assert counted.write_locks == counted.write_unlocks == states.count("W")
    assert counted.wait_ns == counted.longest_wait_ns == counted.failed_upgrades == 0


@pytest.mark.parametrize(
    ("held", "wanted", "compatible"),
    [
        ("read", "read", True),
        ("read", "seek", True),
        ("read", "write", False),
        ("seek", "read", True),
        ("seek", "seek", False),
        ("seek", "write", False),
        ("write", "read", False),
        ("write", "seek", False),
        ("write", "write", False),
    ],
)
def test_matrix(lock: SeekLock, held: str, wanted: str, compatible: bool) -> None:
    getattr(lock, f"take_{held}")(0)
    assert getattr(lock, f"try_take_{wanted}")(1) is compatible
    lock._check()


def test_upgrade_fails_beside_a_seeker(lock: SeekLock) -> None:
    lock.take_read(0)
    lock.take_read(1)
    assert lock.try_read_to_seek(0)
    assert not lock.try_read_to_seek(1)
    lock.drop_read(1)
    lock.seek_to_write(0)
    lock.drop_write(0)
    counted = stats.snapshot_of(LABEL)
    assert counted.failed_upgrades == 1
    assert (counted.read_locks, counted.seek_locks, counted.write_locks) == (2, 1, 1)


def test_repr_says_who_is_there(lock: SeekLock) -> None:
    lock.take_read(0)
    assert repr(lock) == "<SeekLock OTHER R readers=1 waiting=0>"


# -- forced interleavings ---------------------------------------------------------------------


def sequenced(seq: Sequencer) -> SeekLock:
    zero_counts(LABEL, 8)
    lock = SeekLock(LABEL)
    lock.waiter_factory = seq.waiter
    return lock


@pytest.mark.usefixtures("limit")
def test_writer_waits_for_all_readers(seq: Sequencer) -> None:
    lock = sequenced(seq)
    lock.take_read(0)
    lock.take_read(1)
    seq.spawn("writer", lock.take_write, 2)
    assert seq.step("writer") == BLOCKED
    lock.drop_read(0)
    assert seq.stands("writer") == BLOCKED
    lock.drop_read(1)
    assert seq.stands("writer") == WOKEN
    assert seq.step("writer") == DONE
    assert lock.state == "W"
    counted = stats.snapshot_of(LABEL)
    assert counted.write_waits == 1
    assert counted.write_wait_ns == counted.longest_wait_ns > 0


@pytest.mark.usefixtures("limit")
def test_seeker_upgrades_while_readers_are_present(seq: Sequencer) -> None:
    lock = sequenced(seq)
    lock.take_seek(0)
    lock.take_read(1)
    seq.spawn("seeker", lock.seek_to_write, 0)
    assert seq.step("seeker") == BLOCKED
    # no new reader comes in, and the present one cannot become a seeker
    assert not lock.try_take_read(2)
    assert not lock.try_read_to_seek(1)
    seq.spawn("late", lock.take_read, 3)
    assert seq.step("late") == BLOCKED
    lock._check()
    lock.drop_read(1)
    assert seq.stands("seeker") == WOKEN
    assert seq.stands("late") == BLOCKED
    assert lock.state == "W"
    assert seq.step("seeker") == DONE
    lock.write_to_seek(0)
    assert seq.stands("late") == WOKEN
    assert seq.step("late") == DONE
    assert lock.state == "S"
    lock.drop_seek(0)
    assert lock.state == "R"


@pytest.mark.usefixtures("limit")
def test_two_readers_try_to_become_the_seeker() -> None:
    def scenario(seq: Sequencer) -> Callable[[], None]:
        lock = sequenced(seq)
        seq.points(SeekLock, "take_read", "try_read_to_seek", "drop_read", "drop_write")
        seeking: list[int] = []
        both: list[bool] = []

        def body(tid: int) -> None:
            lock.take_read(tid)
            got = lock.try_read_to_seek(tid)
            if not got:
                lock.drop_read(tid)
                return
            seeking.append(tid)
            both.append(len(seeking) > 1)
            lock.seek_to_write(tid)
            assert lock.state == "W"
            seeking.remove(tid)
            lock.drop_write(tid)

        seq.spawn("a", body, 0)
        seq.spawn("b", body, 1)

        def check() -> None:
            assert both in ([False], [False, False])  # one at a time, and always one at least
            assert lock.state == "U"
            lock._check()

        return check

    assert explore(scenario) > 20


@pytest.mark.usefixtures("limit")
def test_no_interleaving_breaks_the_data() -> None:
    """A writer, an upgrading seeker and a reader around a value that must never be seen torn."""

    def scenario(seq: Sequencer) -> Callable[[], None]:
        lock = sequenced(seq)
        seq.wrap(SeekLock, "take_write", after="W")
        seq.wrap(SeekLock, "seek_to_write", before="S", after="SW")
        seq.wrap(SeekLock, "take_read", after="R")
        pair = [0, 0]

        def write(tid: int) -> None:
            lock.take_write(tid)
            pair[0] += 1
            seq.at("torn")
            pair[1] += 1
            lock.drop_write(tid)

        def seek(tid: int) -> None:
            lock.take_seek(tid)
            assert pair[0] == pair[1]
            lock.seek_to_write(tid)
            pair[0] += 1
            seq.at("torn")
            pair[1] += 1
            lock.drop_write(tid)

        def read(tid: int) -> None:
            lock.take_read(tid)
            assert pair[0] == pair[1]
            lock.drop_read(tid)

        seq.spawn("writer", write, 0)
        seq.spawn("seeker", seek, 1)
        seq.spawn("reader", read, 2)

        def check() -> None:
            assert pair == [2, 2]
            assert lock.state == "U"
            lock._check()
            counted = stats.snapshot_of(LABEL)
            assert counted.write_locks == counted.write_unlocks == 2

        return check

    assert explore(scenario) > 100


# -- fairness ---------------------------------------------------------------------------------


def test_readers_overtake_a_writer_a_bounded_number_of_times(
    seq: Sequencer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seeklock, "OVERTAKE_LIMIT", 3)
    lock = sequenced(seq)
    lock.take_read(0)
    seq.spawn("writer", lock.take_write, 1)
    assert seq.step("writer") == BLOCKED
    assert not lock.try_take_read(2)  # who does not want to wait does not overtake either
    for _ in range(3):
        lock.take_read(2)
        lock.drop_read(2)
    seq.spawn("reader", lock.take_read, 2)
    assert seq.step("reader") == BLOCKED
    lock.drop_read(0)
    assert seq.stands("writer") == WOKEN
    # handed over: nobody can be faster now
    assert lock.state == "W"
    assert not lock.try_take_write(3)
    assert seq.step("writer") == DONE
    lock.drop_write(1)
    assert seq.run_to("reader", DONE) == DONE
    assert lock.state == "R"


def test_an_overtaken_writer_goes_back_to_its_place(seq: Sequencer) -> None:
    lock = sequenced(seq)
    lock.take_write(0)
    seq.spawn("first", lock.take_write, 1)
    seq.spawn("second", lock.take_write, 2)
    assert seq.step("first") == seq.step("second") == BLOCKED
    lock.drop_write(0)
    assert (seq.stands("first"), seq.stands("second")) == (WOKEN, BLOCKED)
    lock.take_write(0)  # faster than the first, which has not looked yet
    assert seq.step("first") == BLOCKED
    lock._check()
    lock.drop_write(0)
    assert (seq.stands("first"), seq.stands("second")) == (WOKEN, BLOCKED)
    assert seq.step("first") == DONE
    lock.drop_write(1)
    assert seq.run_to("second", DONE) == DONE
    # one wait each, however often it was woken
    assert stats.snapshot_of(LABEL).write_waits == 2


@pytest.mark.usefixtures("limit")
def test_readers_pass_a_waiting_seeker(seq: Sequencer) -> None:
    lock = sequenced(seq)
    lock.take_seek(0)
    seq.spawn("seeker", lock.take_seek, 1)
    assert seq.step("seeker") == BLOCKED
    for _ in range(100):
        lock.take_read(2)
        lock.drop_read(2)
    assert lock._overtaken == 0
    lock.drop_seek(0)
    assert seq.run_to("seeker", DONE) == DONE


# -- real threads, real waiting ---------------------------------------------------------------


def test_a_waiting_thread_sleeps_and_is_timed(lock: SeekLock) -> None:
    lock.take_write(0)
    cpu: list[int] = []

    def wait() -> None:
        start = time.thread_time_ns()
        lock.take_read(1)
        cpu.append(time.thread_time_ns() - start)
        lock.drop_read(1)

    thread = threading.Thread(target=wait)
    thread.start()
    pause = threading.Event()
    while not lock._queue:
        pause.wait(0.001)
    pause.wait(0.05)  # the wait that is to be measured
    lock.drop_write(0)
    thread.join(10)
    assert not thread.is_alive()
    counted = stats.snapshot_of(LABEL)
    assert counted.read_waits == 1
    assert counted.read_wait_ns >= 50_000_000
    assert counted.longest_wait_ns == counted.read_wait_ns
    assert cpu[0] < 25_000_000  # blocked, not spinning
