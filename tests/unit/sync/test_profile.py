"""Lock profiling: holds by kind, call sites, switching while locks are held, nothing when off."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from mtproxy.sync import debug, profile, stats
from mtproxy.sync.labels import LockLabel
from mtproxy.sync.locks import Lock
from mtproxy.sync.profile import Holds, LabelProfile
from mtproxy.sync.seeklock import SeekLock
from mtproxy.testing.counts import zero_counts
from mtproxy.testing.threads import run_threads

LABEL = LockLabel.OTHER
PLAIN = {cls: dict(vars(cls)) for cls in (Lock, SeekLock)}


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    zero_counts(LABEL, 4)
    yield
    profile.switch_off()
    profile.reset()
    # switched off, the classes are what they were before anybody profiled
    assert {cls: dict(vars(cls)) for cls in (Lock, SeekLock)} == PLAIN


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """A clock that stands still; `clock(ns)` moves it on."""
    now = [1000]
    monkeypatch.setitem(vars(profile), "perf_counter_ns", lambda: now[0])

    def move(ns: int) -> None:
        now[0] += ns

    return move


def found() -> LabelProfile:
    return profile.profile_of(LABEL)


def counts() -> dict[str, tuple[int, int, int]]:
    return {kind: (one.count, one.total_ns, one.longest_ns) for kind, one in found().holds.items()}


NOTHING = {"read": (0, 0, 0), "seek": (0, 0, 0), "write": (0, 0, 0)}


def test_holds_of_a_mutex(clock: Callable[[int], None]) -> None:
    profile.switch_on()
    lock = Lock(LABEL)
    for ns in (5, 70, 10):
        lock.take(0)
        clock(ns)
        lock.drop(0)
        clock(1_000_000)
    assert lock.try_take(1)
    assert not lock.try_take(2)
    clock(3)
    lock.drop(1)
    assert counts() == NOTHING | {"write": (4, 88, 70)}
    assert found().holds["write"].mean_ns == 22.0
    assert Holds().mean_ns == 0.0


def test_holds_of_every_kind(clock: Callable[[int], None]) -> None:
    profile.switch_on()
    lock = SeekLock(LABEL)
    lock.take_read(0)
    clock(1)
    assert lock.try_read_to_seek(0)
    clock(20)
    lock.seek_to_write(0)
    clock(300)
    lock.write_to_seek(0)
    clock(4000)
    lock.seek_to_read(0)
    clock(50_000)
    lock.drop_read(0)
    assert counts() == {
        "read": (2, 50_001, 50_000),
        "seek": (2, 4020, 4000),
        "write": (1, 300, 300),
    }
    lock.take_write(0)
    clock(7)
    lock.write_to_read(0)
    lock.drop_read(0)
    lock.take_seek(0)
    lock.drop_seek(0)
    assert lock.try_take_read(0)
    lock.drop_read(0)
    assert lock.try_take_seek(0)
    lock.drop_seek(0)
    assert lock.try_take_write(0)
    lock.drop_write(0)
    assert {kind: one[0] for kind, one in counts().items()} == {"read": 4, "seek": 4, "write": 3}


def test_readers_are_timed_each_for_itself(clock: Callable[[int], None]) -> None:
    profile.switch_on()
    lock = SeekLock(LABEL)
    lock.take_read(0)
    clock(10)
    lock.take_read(1)
    lock.take_seek(2)
    clock(100)
    lock.drop_read(0)
    clock(1000)
    lock.drop_read(1)
    lock.drop_seek(2)
    assert counts() == NOTHING | {"read": (2, 1210, 1100), "seek": (1, 1100, 1100)}


def test_a_failed_upgrade_goes_on_reading(clock: Callable[[int], None]) -> None:
    profile.switch_on()
    lock = SeekLock(LABEL)
    lock.take_seek(1)
    lock.take_read(0)
    clock(9)
    assert not lock.try_read_to_seek(0)
    clock(1)
    lock.drop_read(0)
    lock.drop_seek(1)
    assert counts() == NOTHING | {"read": (1, 10, 10), "seek": (1, 10, 10)}


def test_two_locks_of_one_thread(clock: Callable[[int], None]) -> None:
    profile.switch_on()
    outer, inner = Lock(LABEL), SeekLock(LABEL)
    outer.take(0)
    clock(1)
    inner.take_write(0)
    clock(10)
    outer.drop(0)
    clock(100)
    inner.drop_write(0)
    assert counts() == NOTHING | {"write": (2, 121, 110)}


# --- sites


def here() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_sites_name_function_and_line(clock: Callable[[int], None]) -> None:
    profile.switch_on()
    lock = SeekLock(LABEL)

    def short() -> int:
        lock.take_write(0)
        clock(1)
        lock.drop_write(0)
        return here() - 3

    def long() -> int:
        lock.take_write(1)
        clock(50)
        lock.drop_write(1)
        return here() - 3

    lines = [short(), short(), long()]
    sites = found().hold_sites
    assert [(s.function, s.line, s.count, s.total_ns, s.longest_ns) for s in sites] == [
        ("long", lines[2], 1, 50, 50),
        ("short", lines[0], 2, 2, 1),
    ]
    assert {s.file for s in sites} == {"tests/unit/sync/test_profile.py"}
    assert str(sites[0]) == f"long:{lines[2]} (tests/unit/sync/test_profile.py)"
    assert {s.kind for s in sites} == {"write"}


def test_one_site_of_several_threads_is_one() -> None:
    profile.switch_on()

    def use(tid: int) -> None:
        lock = Lock(LABEL)
        for _ in range(5):
            lock.take(tid)
            lock.drop(tid)

    run_threads(4, use)
    (site,) = found().hold_sites
    assert (site.function, site.count) == ("use", 20)


def test_methods_are_named_with_their_class() -> None:
    profile.switch_on()

    class Place:
        def use(self) -> None:
            lock = Lock(LABEL)
            lock.take(0)
            lock.drop(0)

    Place().use()
    assert [site.function for site in found().hold_sites] == ["Place.use"]


def test_a_call_of_several_lines() -> None:
    profile.switch_on()
    lock = Lock(LABEL)
    first = here() + 1
    lock.take(
        0,
    )
    lock.drop(0)
    (site,) = found().hold_sites
    assert first <= site.line <= first + 2


@pytest.mark.parametrize("kind", ["read", "seek", "write"])
def test_waits_have_sites(kind: str) -> None:
    """What the sites say adds up to what the statistics have counted."""
    profile.switch_on()
    lock = SeekLock(LABEL)
    lock.take_write(0)
    started = threading.Event()

    def the_one_that_waits() -> None:
        started.set()
        getattr(lock, f"take_{kind}")(1)
        getattr(lock, f"drop_{kind}")(1)

    thread = threading.Thread(target=the_one_that_waits)
    thread.start()
    assert started.wait(10)
    while not lock._queue:
        threading.Event().wait(0.001)
    lock.drop_write(0)
    thread.join(10)
    counted = stats.snapshot_of(LABEL)
    waits = found().wait_sites
    assert waits[0].function == "the_one_that_waits"
    assert waits[0].kind == kind
    assert sum(site.total_ns for site in waits) == counted.wait_ns
    assert waits[0].longest_ns == counted.longest_wait_ns > 0


def test_a_wait_for_a_mutex_has_a_site() -> None:
    profile.switch_on()
    lock = Lock(LABEL)
    lock.take(0)
    started = threading.Event()

    def waiter() -> None:
        started.set()
        lock.take(1)
        lock.drop(1)

    thread = threading.Thread(target=waiter)
    thread.start()
    assert started.wait(10)
    threading.Event().wait(0.02)  # the wait that is to be measured
    lock.drop(0)
    thread.join(10)
    (site,) = found().wait_sites
    assert (site.function, site.count) == ("waiter", 1)
    assert site.total_ns == stats.snapshot_of(LABEL).write_wait_ns


# --- switching


def test_switching_reports_whether_it_changed() -> None:
    assert not profile.is_on()
    assert not profile.switch_off()
    assert profile.switch_on()
    assert profile.is_on()
    take = Lock.take
    assert not profile.switch_on()
    assert Lock.take is take
    assert profile.switch_off()
    assert not profile.is_on()


def test_a_hold_that_began_before_is_not_counted(clock: Callable[[int], None]) -> None:
    lock, seek = Lock(LABEL), SeekLock(LABEL)
    lock.take(0)
    seek.take_seek(0)
    clock(1000)
    profile.switch_on()
    lock.drop(0)
    clock(10)
    seek.seek_to_write(0)  # of which the beginning is known
    clock(3)
    seek.drop_write(0)
    assert counts() == NOTHING | {"write": (1, 3, 3)}


def test_a_hold_that_ends_afterwards_is_not_counted(clock: Callable[[int], None]) -> None:
    profile.switch_on()
    lock = Lock(LABEL)
    lock.take(0)
    clock(10)
    profile.switch_off()
    clock(10)
    lock.drop(0)
    assert counts() == NOTHING
    # nor under the next profile, whose clock has gone on
    lock.take(0)
    profile.switch_on()
    clock(5)
    lock.drop(0)
    assert counts() == NOTHING


def test_a_hold_over_two_switches_is_not_counted(clock: Callable[[int], None]) -> None:
    profile.switch_on()
    lock = Lock(LABEL)
    lock.take(0)
    profile.switch_off()
    profile.switch_on()
    clock(5)
    lock.drop(0)
    assert counts() == NOTHING


def test_methods_that_were_kept(clock: Callable[[int], None]) -> None:
    """Whoever keeps a bound method counts by it as before the switch, but never wrongly."""
    lock = Lock(LABEL)
    take, drop = lock.take, lock.drop
    profile.switch_on()
    take(0)
    clock(5)
    drop(0)
    take(0)
    clock(5)
    lock.drop(0)
    assert counts() == NOTHING
    kept = lock.drop
    profile.switch_off()
    lock.take(0)
    kept(0)
    assert counts() == NOTHING
    assert stats.snapshot_of(LABEL).write_locks == stats.snapshot_of(LABEL).write_unlocks == 3


def test_the_order_of_the_switch() -> None:
    """Giving back is replaced first, so that no noted hold is given back without being seen."""
    ways = ["take" if held is None else "drop" if kind is None else "change"
            for _, _, kind, held in profile._METHODS]  # fmt: skip
    assert [way for way, after in pairwise([*ways, ""]) if way != after] == [
        "drop",
        "change",
        "take",
    ]
    for cls in (Lock, SeekLock):
        names = {
            name
            for name in vars(cls)
            if name.startswith(("take", "try_", "drop", "read_to", "seek_to", "write_to"))
        }
        assert names == {name for one, name, _, _ in profile._METHODS if one is cls}


def test_results_stay_until_the_next(clock: Callable[[int], None]) -> None:
    profile.switch_on()
    lock = Lock(LABEL)
    lock.take(0)
    clock(4)
    lock.drop(0)
    profile.switch_off()
    assert counts() == NOTHING | {"write": (1, 4, 4)}
    assert found().found
    profile.switch_on()
    assert counts() == NOTHING
    assert not found().found


def test_reset(clock: Callable[[int], None]) -> None:
    profile.switch_on()
    lock, other = Lock(LABEL), Lock(LockLabel.SERVER)
    for one in (lock, other):
        one.take(0)
        clock(4)
        one.drop(0)
    lock.take(0)
    clock(100)
    profile.reset(LABEL)
    assert counts() == NOTHING
    assert profile.profile_of(LockLabel.SERVER).holds["write"].count == 1
    clock(10)
    lock.drop(0)  # it began before
    assert counts() == NOTHING
    lock.take(0)
    clock(7)
    lock.drop(0)
    assert counts() == NOTHING | {"write": (1, 7, 7)}
    profile.reset()
    assert not profile.profile_of(LockLabel.SERVER).found


def test_wrappers_are_made_once() -> None:
    """CPython never frees a function that threads share."""
    profile.switch_on()
    take = Lock.take
    profile.switch_off()
    profile.switch_on()
    assert Lock.take is take
    assert not take.__code__.co_flags & inspect.CO_NESTED


def test_errors_pass_through() -> None:
    profile.switch_on()
    with pytest.raises(RuntimeError):
        Lock(LABEL).drop(0)
    assert counts() == NOTHING


def test_together_with_the_checks(clock: Callable[[int], None]) -> None:
    debug.enable()
    try:
        profile.switch_on()
        with pytest.raises(AssertionError):
            debug.disable()
        lock = Lock(LABEL)
        lock.take(0)
        with pytest.raises(debug.LockUseError):
            lock.take(0)
        clock(6)
        lock.drop(0)
        with pytest.raises(debug.LockUseError):
            lock.drop(0)
        assert counts() == NOTHING | {"write": (1, 6, 6)}
        (site,) = found().hold_sites
        assert site.function == "test_together_with_the_checks"
        profile.switch_off()
    finally:
        debug.disable()


def test_checks_come_first() -> None:
    profile.switch_on()
    with pytest.raises(RuntimeError, match="before lock profiling"):
        debug.enable()
    assert not debug.is_enabled()


@pytest.mark.parametrize("on", [True, False], ids=["on", "off"])
@pytest.mark.parametrize("first", range(len(profile._METHODS)))
def test_every_moment_of_a_switch(
    on: bool, first: int, clock: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hold begins after `first` methods were replaced and ends after any number, or after the
    switch: it is counted exactly or not at all, and nothing of it is left behind.
    """
    for last in range(first, len(profile._METHODS) + 1):
        for take, drop, kind in (
            (SeekLock.take_read, SeekLock.drop_read, "read"),
            (SeekLock.take_write, SeekLock.drop_write, "write"),
            (SeekLock.take_seek, SeekLock.drop_seek, "seek"),
            (Lock.take, Lock.drop, "write"),
        ):
            lock = Lock(LABEL) if take is Lock.take else SeekLock(LABEL)
            steps = 0

            def act(steps: int, lock: Lock | SeekLock = lock, names: tuple[str, str] = (
                take.__name__, drop.__name__), last: int = last) -> None:  # fmt: skip
                if steps == first:
                    getattr(lock, names[0])(0)
                clock(1)
                if steps == last:
                    getattr(lock, names[1])(0)

            def step(cls: type, name: str, value: object) -> None:
                nonlocal steps
                act(steps)
                setattr(cls, name, value)
                steps += 1

            if not on:
                profile.switch_on()
            monkeypatch.setitem(vars(profile), "setattr", step)
            if on:
                profile.switch_on()
            else:
                profile.switch_off()
            monkeypatch.delitem(vars(profile), "setattr")
            act(steps)
            exact = last - first + 1
            assert counts() in (NOTHING, NOTHING | {kind: (1, exact, exact)})
            assert on or not profile.is_on()
            if on:
                assert not profile._tables[0].held
                profile.switch_off()
