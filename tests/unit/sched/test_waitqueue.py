"""The global wait queue: what one thread sees, and the interleavings of several.

All variants give the same tasks to the same callers, so most tests run with each of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest

from mtproxy.sched.waitqueue import GRACE, NEVER, PENDING, SETTLE_MOST, WaitQueue, WaitQueueBase
from mtproxy.sched.waitqueue_variants import VARIANTS, MutexWaitQueue
from mtproxy.sync import stats
from mtproxy.sync.labels import LockLabel
from mtproxy.sync.locks import Lock
from mtproxy.sync.seeklock import SeekLock
from mtproxy.testing.counts import zero_counts
from mtproxy.testing.sequencer import BLOCKED, DONE, Sequencer, explore


class Timer:
    """The least that the queue needs of a task."""

    __slots__ = ("expire", "name", "wq_key")

    def __init__(self, name: str) -> None:
        self.name = name
        self.expire: int | None = None
        self.wq_key: tuple[int, int] | None = None

    def __repr__(self) -> str:
        return f"<Timer {self.name} expire={self.expire} key={self.wq_key}>"


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def new_queue(variant: str, *ticks: int) -> tuple[WaitQueueBase[Timer], list[Timer]]:
    zero_counts(LockLabel.TASK_WQ, 8)
    queue: WaitQueueBase[Timer] = VARIANTS[variant]()
    timers = [Timer(f"t{number}") for number in range(len(ticks))]
    for timer, tick in zip(timers, ticks, strict=True):
        queue.queue(timer, tick, 0)
    return queue, timers


def is_free(queue: WaitQueueBase[Timer]) -> bool:
    """Whether nobody holds the queue's lock."""
    if isinstance(queue, MutexWaitQueue):
        return not queue.lock.locked()
    assert isinstance(queue, WaitQueue)
    return queue.lock.state == "U"


def locks_taken() -> int:
    return stats.snapshot_of(LockLabel.TASK_WQ).locks


# -- one thread -------------------------------------------------------------------------------


def test_an_empty_queue(variant: str) -> None:
    queue, _ = new_queue(variant)
    assert queue.next_tick == NEVER
    assert len(queue) == 0
    assert queue.collect(NEVER - 1, 0) == []
    queue._check()


def test_due_ones_come_out_in_order(variant: str) -> None:
    queue, (a, b, c, d) = new_queue(variant, 30, 10, 20, 10)
    assert queue.next_tick == 10
    assert queue.collect(20, 0) == [b, d, c]
    assert queue.next_tick == 30
    assert (a.wq_key is None, b.wq_key is None) == (False, True)
    queue._check()


def test_nothing_due_takes_no_lock() -> None:
    queue, _ = new_queue("seek", 100)
    before = locks_taken()
    assert queue.collect(99, 0) == []
    assert locks_taken() == before


def test_one_pass_is_bounded_and_the_rest_stays_due(variant: str) -> None:
    queue, timers = new_queue(variant, *range(10))
    assert queue.collect(50, 0, budget=4) == timers[:4]
    assert queue.next_tick == 4
    assert queue.collect(50, 0, budget=4) == timers[4:8]
    assert queue.collect(50, 0, budget=4) == timers[8:]
    assert queue.collect(50, 0, budget=4) == []


def test_one_pass_upgrades_once() -> None:
    queue, _ = new_queue("seek", *range(10))
    stats.reset(LockLabel.TASK_WQ)
    queue.collect(50, 0)
    counted = stats.snapshot_of(LockLabel.TASK_WQ)
    assert (counted.read_locks, counted.seek_locks, counted.write_locks) == (1, 1, 1)


def test_later_is_only_noted(variant: str) -> None:
    queue, (a,) = new_queue(variant, 10)
    stats.reset(LockLabel.TASK_WQ)
    assert not queue.queue(a, 25, 0)
    if variant != "mutex":  # which has one kind of lock only
        counted = stats.snapshot_of(LockLabel.TASK_WQ)
        assert (counted.read_locks, counted.write_locks) == (1, 0)
    assert (a.expire, a.wq_key and a.wq_key[0], queue.next_tick) == (25, 10, 10)
    assert queue.collect(10, 0) == []
    assert queue.next_tick == 25
    assert queue.collect(24, 0) == []
    assert queue.collect(25, 0) == [a]


def test_earlier_moves_the_entry_and_tells(variant: str) -> None:
    queue, (a, b) = new_queue(variant, 10, 20)
    told: list[int] = []
    queue.on_earlier = told.append
    assert not queue.queue(b, 15, 0)
    assert queue.queue(b, 5, 0)
    assert told == [5]
    assert queue.collect(10, 0) == [b, a]


def test_the_hook_is_called_without_the_lock(variant: str) -> None:
    queue, (a,) = new_queue(variant, 10)
    states: list[tuple[int, bool, int]] = []
    queue.on_earlier = lambda tick: states.append((tick, is_free(queue), queue.next_tick))
    queue.queue(a, 3, 0)
    queue.move(a, 2, 0)
    assert states == [(3, True, 3), (2, True, 2)]


def test_unlinked_ones_do_not_come_out(variant: str) -> None:
    queue, (a, b) = new_queue(variant, 10, 20)
    assert queue.unlink(a, 0)
    assert not queue.unlink(a, 0)
    assert (a.expire, a.wq_key, queue.next_tick) == (None, None, 20)
    assert queue.collect(30, 0) == [b]
    assert not queue.unlink(b, 0)


def test_disarmed_ones_are_dropped_when_their_entry_fires(variant: str) -> None:
    queue, (a, b) = new_queue(variant, 10, 20)
    a.expire = None
    assert queue.collect(30, 0) == [b]
    assert a.wq_key is None


def test_move_leaves_what_is_not_queued(variant: str) -> None:
    queue, (a,) = new_queue(variant, 10)
    assert queue.move(a, 50, 0)
    assert a.expire == 50
    assert queue.move(a, 5, 0)
    assert queue.next_tick == 5
    assert queue.collect(5, 0) == [a]
    assert not queue.move(a, 1, 0)
    assert (a.expire, a.wq_key, queue.next_tick) == (5, None, NEVER)


def test_an_error_leaves_no_lock_behind(variant: str) -> None:
    queue, (a, b) = new_queue(variant, 10, 20)
    b.wq_key = (15, 99)  # corrupt: no such entry
    with pytest.raises(ValueError, match="is not in the wait queue at"):
        queue.unlink(b, 0)
    assert is_free(queue)
    assert queue.collect(10, 0) == [a]


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        # a pass that returns three, queueing, a pass that finds nothing due, a look before sleeping
        ("seek", {"read": 1, "seek": 1, "write": 2}),
        ("write", {"read": 3, "seek": 0, "write": 5}),
        ("mutex", {"read": 0, "seek": 0, "write": 4}),
    ],
)
def test_the_locks_that_each_variant_takes(name: str, kinds: dict[str, int]) -> None:
    """The published state before: R for each look, W for each entry and for the end of the scan."""
    queue, (a, *_) = new_queue(name, 1, 2, 3)
    stats.reset(LockLabel.TASK_WQ)
    assert len(queue.collect(5, 0)) == 3
    queue.queue(a, 9, 0)
    assert queue.collect(8, 0) == []
    assert queue.next_expiry(0) == 9
    counted = stats.snapshot_of(LockLabel.TASK_WQ)
    for kind, locks in kinds.items():
        assert getattr(counted, f"{kind}_locks") == locks
        assert getattr(counted, f"{kind}_unlocks") == locks
    assert queue.PEEKS_LOCKED is (name != "seek")


# -- interleavings ----------------------------------------------------------------------------


def stepped(variant: str, seq: Sequencer, *ticks: int) -> tuple[WaitQueueBase[Timer], list[Timer]]:
    """A queue whose users stop at each operation on its lock."""
    queue, timers = new_queue(variant, *ticks)
    step(queue, seq)
    seq.points(SeekLock, "take_read")
    return queue, timers


def step(queue: WaitQueueBase[Timer], seq: Sequencer) -> None:
    """Let the queue's users stop before each change of its lock, except before R.

    Not inside a mutex: there the sequencer would not see who waits.
    """
    if isinstance(queue, WaitQueue):
        queue.lock.waiter_factory = seq.waiter
    seq.points(SeekLock, "try_read_to_seek", "seek_to_write", "take_write", "try_take_write")
    seq.points(Lock, "take")


def finished(queue: WaitQueueBase[Timer]) -> None:
    assert is_free(queue)
    queue._check()
    entries = queue._entries()
    assert queue.next_tick == (entries[0][0] if entries else NEVER)


def test_second_collector_leaves_at_once() -> None:
    with Sequencer() as seq:
        queue, timers = stepped("seek", seq, 1, 2)
        seq.spawn("a", queue.collect, 5, 0)
        seq.spawn("b", queue.collect, 5, 1)
        seq.run_to("b", "try_read_to_seek")  # b reads, and goes on to upgrade
        seq.run_to("a", "seek_to_write")  # a was faster, and is scanning
        assert seq.run_to("b", DONE) == DONE
        assert seq.result("b") == []
        assert seq.run_to("a", DONE) == DONE
        assert seq.result("a") == timers
        finished(queue)
    assert stats.snapshot_of(LockLabel.TASK_WQ).failed_upgrades == 1


def test_collector_waits_for_a_reader_to_leave() -> None:
    with Sequencer() as seq:
        queue, timers = stepped("seek", seq, 1)
        seq.wrap(SeekLock, "drop_read", before="drop_read")
        seq.spawn("a", queue.collect, 5, 0)
        seq.spawn("b", queue.move, timers[0], 9, 1)
        seq.run_to("a", "seek_to_write")
        seq.run_to("b", "drop_read")  # b has noted a later expiry under R
        assert seq.step("a") == BLOCKED
        assert seq.run_to("b", DONE) == DONE
        seq.run_to("a", DONE)
        # and a, deciding under W, sees it
        assert (seq.result("a"), seq.result("b")) == ([], True)
        assert (timers[0].expire, queue.next_tick) == (9, 9)
        finished(queue)


@pytest.mark.parametrize("budget", [1, 32])
def test_two_collectors_never_get_the_same(variant: str, budget: int) -> None:
    def scenario(seq: Sequencer) -> Callable[[], None]:
        queue, timers = stepped(variant, seq, 1, 2, 3)
        seq.spawn("a", queue.collect, 2, 0, budget)
        seq.spawn("b", queue.collect, 2, 1, budget)

        def check() -> None:
            got = seq.result("a") + seq.result("b")
            assert len(got) == len(set(got))
            assert 1 <= len(got) <= 2
            if budget > 1:
                assert set(got) == set(timers[:2])
            assert timers[2].wq_key is not None
            finished(queue)

        return check

    assert explore(scenario) >= {"seek": 10, "write": 20, "mutex": 2}[variant]


def test_collect_against_unlink(variant: str) -> None:
    """Either the collector gets the task or the one who unlinks it; never both, never nobody."""
    outcomes = set()

    def scenario(seq: Sequencer) -> Callable[[], None]:
        queue, (a, b) = stepped(variant, seq, 1, 2)
        seq.spawn("collect", queue.collect, 5, 0)
        seq.spawn("unlink", queue.unlink, a, 1)

        def check() -> None:
            unlinked = seq.result("unlink")
            got = seq.result("collect")
            assert (a in got) is not unlinked
            assert b in got
            assert a.expire == (None if unlinked else 1)
            assert len(queue) == 0
            finished(queue)
            outcomes.add(unlinked)

        return check

    explore(scenario)
    assert outcomes == {True, False}


@pytest.mark.parametrize("tick", [0, 1, 3, 9])
def test_collect_against_queue(variant: str, tick: int) -> None:
    """Whatever the order, the task ends in the queue at the new tick, or has run for it."""
    outcomes = set()

    def scenario(seq: Sequencer) -> Callable[[], None]:
        queue, (a, b) = stepped(variant, seq, 1, 2)
        seq.spawn("collect", queue.collect, 3, 0)
        seq.spawn("queue", queue.queue, a, tick, 1)

        def check() -> None:
            got = seq.result("collect")
            queued = a.wq_key is not None
            assert a in got or queued
            assert a.expire == tick
            assert b in got
            if tick > 3:
                assert queued
            finished(queue)
            outcomes.add((a in got, queued))

        return check

    explore(scenario)
    assert (True, True) in outcomes  # collected, then queued again
    assert ((False, True) if tick > 3 else (True, False)) in outcomes


@pytest.mark.parametrize("tick", [0, 3, 9])
def test_collect_against_move(variant: str, tick: int) -> None:
    """A move that says True is obeyed; one that says False has changed nothing."""
    outcomes = set()

    def scenario(seq: Sequencer) -> Callable[[], None]:
        queue, (a, _) = stepped(variant, seq, 1, 2)
        seq.spawn("collect", queue.collect, 3, 0)
        seq.spawn("move", queue.move, a, tick, 1)

        def check() -> None:
            got = seq.result("collect")
            moved = seq.result("move")
            outcomes.add(moved)
            assert a.expire == (tick if moved else 1)
            if moved and tick > 3:
                assert a not in got
                assert a.wq_key is not None
            else:
                assert a in got
                assert a.wq_key is None
            finished(queue)

        return check

    explore(scenario)
    assert outcomes == {True, False}


def test_collect_unlink_and_queue_again(variant: str) -> None:
    """While one thread scans, another takes a task out and queues it anew, a third collects too."""

    def scenario(seq: Sequencer) -> Callable[[], None]:
        queue, (a,) = new_queue(variant, 1)
        step(queue, seq)
        requeued: list[bool] = []

        def take_and_queue(tid: int) -> None:
            if queue.unlink(a, tid):
                queue.queue(a, 2, tid)
                requeued.append(True)

        seq.spawn("a", queue.collect, 5, 0)
        seq.spawn("b", queue.collect, 5, 1)
        seq.spawn("c", take_and_queue, 2)

        def check() -> None:
            runs = len(seq.result("a")) + len(seq.result("b"))
            queued = a.wq_key is not None
            # one owner at the end: a collector, or the queue
            assert runs + queued == 1
            assert not queued or requeued
            finished(queue)

        return check

    assert explore(scenario) > (5 if variant == "mutex" else 50)


# -- queueing without the lock ----------------------------------------------------------------


class SteppedLog(deque[tuple[int, Timer]]):
    """The log of `queue`, whose users stop around what they do to it."""

    def __init__(self, seq: Sequencer) -> None:
        super().__init__()
        self.seq = seq

    def append(self, call: tuple[int, Timer], /) -> None:
        self.seq.at("log")
        super().append(call)
        self.seq.at("logged")

    def rotate(self, count: int = 1, /) -> None:
        self.seq.at("told")  # next_tick is stored
        super().rotate(count)


def logging_queue(seq: Sequencer, *ticks: int) -> tuple[WaitQueue[Timer], list[Timer]]:
    queue, timers = new_queue("seek", *ticks)
    assert isinstance(queue, WaitQueue)
    queue._check()  # works in what was logged so far
    queue._log = SteppedLog(seq)
    queue.lock.waiter_factory = seq.waiter
    seq.points(SeekLock, "seek_to_write", "take_write", "try_take_write")
    seq.wrap(SeekLock, "drop_write", before="drop_write")
    return queue, timers


def nothing_overlooked(queue: WaitQueue[Timer]) -> None:
    """Whoever waits until `next_tick` and collects then is not late for anything in the log."""
    assert all(queue.next_tick <= tick for tick, _ in queue._log)
    finished(queue)


def test_a_later_one_is_queued_without_the_lock() -> None:
    queue, (a, b, c) = new_queue("seek", 10, 20, 10)
    stats.reset(LockLabel.TASK_WQ)
    d = Timer("d")
    assert not queue.queue(d, 15, 0)
    assert locks_taken() == 0
    assert (d.expire, d.wq_key, len(queue), queue.next_tick) == (15, PENDING, 4, 10)
    # in the order of their ticks, and of queueing
    assert queue.collect(20, 0) == [a, c, d, b]


def test_logged_ones_are_found_by_others() -> None:
    queue, (a, b, c) = new_queue("seek", 10, 20, 30)
    assert queue.unlink(b, 0)
    d = Timer("d")
    queue.queue(d, 40, 0)
    assert queue.move(d, 5, 0)
    assert queue.next_tick == 5
    assert queue.collect(50, 0) == [d, a, c]


def test_calls_for_one_task_are_worked_in_in_their_order() -> None:
    queue, (a,) = new_queue("seek", 10)
    b, c = Timer("b"), Timer("c")
    for tick in (40, 20, 30):
        queue.queue(b, tick, 0)
    for tick in (15, 45):
        queue.queue(c, tick, 0)
    assert queue.collect(10, 0) == [a]
    assert queue.next_tick == 15
    # both were moved later after all
    assert queue.collect(29, 0) == []
    assert queue.collect(30, 0) == [b]
    assert queue.collect(44, 0) == []
    assert queue.collect(45, 0) == [c]


def test_a_logged_one_can_be_disarmed() -> None:
    queue, (a,) = new_queue("seek", 10)
    b = Timer("b")
    queue.queue(b, 20, 0)
    b.expire = None
    assert queue.collect(30, 0) == [a]
    assert len(queue) == 0


def test_a_long_log_is_worked_in_by_several_passes() -> None:
    queue, _ = new_queue("seek", 10)
    timers = [Timer(str(number)) for number in range(3 * SETTLE_MOST)]
    for number, timer in enumerate(timers):
        queue.queue(timer, 20 + number, 0)
    assert queue.collect(10, 0) != []
    left = len(queue) - len(queue._entries())
    assert 0 < left < len(timers)
    assert queue.next_tick <= 10  # somebody goes on at once
    passes = 0
    while queue.next_tick <= 10:
        assert queue.collect(10, 0) == []
        passes += 1
    assert passes >= 1
    assert queue.next_tick == 20
    assert queue.collect(1 << 40, 0, budget=1 << 20) == timers


@pytest.mark.parametrize("tick", [5, 6, 30])
def test_logging_against_collecting(tick: int) -> None:
    """The one who takes the head out and the one who logs cannot both miss each other."""
    outcomes = set()

    def scenario(seq: Sequencer) -> Callable[[], None]:
        queue, (a, far) = logging_queue(seq, 4, 99)
        b = Timer("b")
        told: list[int] = []
        queue.on_earlier = told.append
        seq.spawn("collect", queue.collect, 5, 0)
        seq.spawn("queue", queue.queue, b, tick, 1)

        def check() -> None:
            got = seq.result("collect")
            assert a in got
            assert far not in got
            assert queue.next_tick <= tick or b in got
            # the sleepers know of tick 4, of 99, or of the collector's `now` + 1
            outcomes.add((b in got, bool(told), bool(queue._log)))
            nothing_overlooked(queue)

        return check

    assert explore(scenario) > 10
    assert len(outcomes) > 1


def test_logging_against_unlinking_the_same() -> None:
    """Unlinked after it was queued, or queued after a vain unlink; never queued and disarmed."""
    outcomes = set()

    def scenario(seq: Sequencer) -> Callable[[], None]:
        queue, _ = logging_queue(seq, 4, 99)
        b = Timer("b")
        seq.spawn("queue", queue.queue, b, 50, 1)
        seq.spawn("unlink", queue.unlink, b, 0)

        def check() -> None:
            queue._check()
            unlinked = seq.result("unlink")
            outcomes.add(unlinked)
            assert (b.wq_key is None) is unlinked
            assert b.expire == (None if unlinked else 50)
            assert (b in queue.collect(60, 0)) is not unlinked

        return check

    explore(scenario)
    assert outcomes == {True, False}


def test_logging_against_unlinking_the_head() -> None:
    def scenario(seq: Sequencer) -> Callable[[], None]:
        queue, (a, _) = logging_queue(seq, 4, 99)
        b = Timer("b")
        told: list[int] = []
        queue.on_earlier = told.append
        seq.spawn("unlink", queue.unlink, a, 0)
        seq.spawn("queue", queue.queue, b, 50, 1)

        def check() -> None:
            assert seq.result("unlink")
            assert queue.next_tick <= 50
            nothing_overlooked(queue)

        return check

    assert explore(scenario) > 10


def test_the_look_after_the_store_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who tells what is first and does not look at the log again overlooks a call."""

    def careless(queue: WaitQueue[Timer], seq: Sequencer) -> None:
        while queue._log:
            tick, task = queue._log.popleft()
            queue._insert(task, tick)
        seq.at("worked in")
        entries = queue._entries()
        queue.next_tick = entries[0][0] if entries else NEVER

    def scenario(seq: Sequencer) -> Callable[[], None]:
        queue, (a, _) = logging_queue(seq, 4, 99)
        monkeypatch.setattr(WaitQueue, "_settle", lambda queue: careless(queue, seq))
        b = Timer("b")
        seq.spawn("unlink", queue.unlink, a, 0)
        seq.spawn("queue", queue.queue, b, 50, 1)

        def check() -> None:
            assert queue.next_tick <= 50

        return check

    with pytest.raises(AssertionError):
        explore(scenario)


def test_others_leave_a_collector_alone() -> None:
    """While one collects, the others see nothing due, and take no lock to find out."""
    with Sequencer() as seq:
        queue, timers = stepped("seek", seq, 1, 2)
        seq.spawn("a", queue.collect, 5, 0)
        seq.run_to("a", "seek_to_write")
        before = locks_taken()
        assert queue.next_tick == 6
        assert queue.collect(5, 1) == []
        assert locks_taken() == before
        # and one who comes with the next tick leaves at once
        assert queue.collect(6, 1) == []
        assert seq.run_to("a", DONE) == DONE
        assert seq.result("a") == timers
        finished(queue)


@pytest.mark.timeout(900)  # thousands of schedules, each with real threads
def test_one_who_found_a_collector_hides_nothing() -> None:
    """He says that nobody need come before the next tick, perhaps after the collector has said
    when the next one is due. With that tick all is right again.
    """
    seen = set()

    def scenario(seq: Sequencer) -> Callable[[], None]:
        queue, (a, far) = logging_queue(seq, 4, 99)
        seq.wrap(SeekLock, "try_take_read", after="looked")
        seq.wrap(SeekLock, "try_read_to_seek", after="tried")
        b = Timer("b")
        seq.spawn("a", queue.collect, 5, 0)
        seq.spawn("b", queue.collect, 5, 1)
        seq.spawn("queue", queue.queue, b, 6, 2)

        def check() -> None:
            got = seq.result("a") + seq.result("b")
            assert got in ([a], [])
            seen.add((len(got), queue.next_tick))
            assert queue.next_tick <= 6
            got += queue.collect(6, 0)
            assert got == [a, b]
            assert queue.next_tick == 99
            assert far.wq_key is not None
            finished(queue)

        return check

    assert explore(scenario) > 100
    assert len(seen) > 1


# -- who sleeps must be told ------------------------------------------------------------------


def sleeper_scenario(variant: str, seq: Sequencer, announce_first: bool) -> Callable[[], None]:
    """A thread computes its timeout and goes to sleep while another queues an earlier task."""
    queue, (_, b) = new_queue(variant, 100, 100)
    step(queue, seq)
    if variant != "mutex":
        seq.points(SeekLock, "take_read")
        seq.wrap(VARIANTS[variant], "_settle", before="store", after="stored")
    state = {"sleeping": False, "told": False, "until": NEVER}

    def tell(_: int) -> None:
        seq.at("hook")
        if state["sleeping"]:
            state["told"] = True

    queue.on_earlier = tell

    def go_to_sleep() -> None:
        if announce_first:
            state["sleeping"] = True
            seq.at("announced")
            state["until"] = queue.next_expiry(0)
        else:
            state["until"] = queue.next_expiry(0)
            seq.at("looked")
            state["sleeping"] = True

    seq.spawn("sleeper", go_to_sleep)
    seq.spawn("queuer", queue.queue, b, 10, 1)

    def check() -> None:
        assert state["until"] == 10 or state["told"]

    return check


def test_no_interleaving_lets_a_thread_oversleep(variant: str) -> None:
    assert explore(lambda seq: sleeper_scenario(variant, seq, announce_first=True)) > 5


def test_the_order_of_announcing_and_looking_matters(variant: str) -> None:
    """The documented order is needed: the other one oversleeps in some interleaving."""
    with pytest.raises(AssertionError) as caught:
        explore(lambda seq: sleeper_scenario(variant, seq, announce_first=False))
    assert any("looked" in note for note in caught.value.__notes__)


# -- one watches ------------------------------------------------------------------------------


def test_the_first_sleeper_watches_and_the_others_come_later(variant: str) -> None:
    queue, _ = new_queue(variant, 100)
    assert queue.wake_for(100) == 100
    assert queue.wake_for(100) == 100 + GRACE
    # a head that became earlier is watched by the next one who goes to sleep
    assert queue.wake_for(50) == 50
    assert queue.wake_for(50) == 50 + GRACE
    queue.watched = NEVER  # the watching thread is awake
    assert queue.wake_for(100) == 100


def test_somebody_always_comes_in_time() -> None:
    """Threads fall asleep and wake up while one queues an earlier task: in every interleaving each
    comes at most GRACE after the expiry that it saw, and at the tick in `watched` one does come.
    """

    def scenario(seq: Sequencer) -> Callable[[], None]:
        queue, (_, b) = new_queue("seek", 100, 100)
        until: dict[str, int] = {}
        told: list[int] = []
        queue.on_earlier = told.append

        def sleep(name: str) -> None:
            tick = queue.next_expiry(0)
            seq.at("looked")
            at = queue.wake_for(tick)
            assert tick <= at <= tick + GRACE
            until[name] = at

        def sleep_and_wake() -> None:
            tick = queue.next_expiry(0)
            at = queue.wake_for(tick)
            seq.at("asleep")
            if at == tick:
                queue.watched = NEVER
            sleep("again")

        seq.spawn("one", sleep, "one")
        seq.spawn("two", sleep_and_wake)
        seq.spawn("queue", queue.queue, b, 50, 1)

        def check() -> None:
            assert set(until) == {"one", "again"}
            # who was asleep already when the task was queued is told of it
            assert told == [50]
            assert all(at in (50, 50 + GRACE, 100, 100 + GRACE) for at in until.values())
            # a value that nobody stands for any more would let all oversleep
            assert queue.watched == NEVER or queue.watched in until.values()

        return check

    assert explore(scenario) > 5
