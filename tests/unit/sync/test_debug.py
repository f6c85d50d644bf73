"""The checks of owner and order: each rule broken once, and nothing left behind when off."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from mtproxy.sync import debug
from mtproxy.sync.debug import LockUseError
from mtproxy.sync.labels import LockLabel
from mtproxy.sync.locks import Lock
from mtproxy.sync.seeklock import SeekLock

PLAIN_TAKE = Lock.take
PLAIN_TAKE_READ = SeekLock.take_read


@pytest.fixture
def checked() -> Iterator[None]:
    debug.enable()
    yield
    debug.disable()
    assert not debug.is_enabled()
    assert Lock.take is PLAIN_TAKE
    assert SeekLock.take_read is PLAIN_TAKE_READ


@pytest.fixture
def server(checked: None) -> Lock:
    return Lock(LockLabel.SERVER)


@pytest.fixture
def wq(checked: None) -> SeekLock:
    return SeekLock(LockLabel.TASK_WQ)


def in_thread(body: Callable[[], object]) -> list[BaseException]:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            body()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            errors.append(error)

    thread = threading.Thread(target=run, name="other")
    thread.start()
    thread.join(10)
    return errors


def test_enable_is_idempotent(checked: None) -> None:
    assert debug.is_enabled()
    take = Lock.take
    debug.enable()
    assert Lock.take is take


def test_good_use_passes(server: Lock, wq: SeekLock) -> None:
    server.take(0)
    wq.take_read(0)
    assert list(debug.held_locks().values()) == [["SERVER(W)", "TASK_WQ(R)"]]
    assert wq.try_read_to_seek(0)
    wq.seek_to_write(0)
    wq.write_to_seek(0)
    wq.seek_to_read(0)
    server.drop(0)  # not the reverse order, which is allowed
    wq.drop_read(0)
    assert wq.try_take_write(0)
    wq.write_to_read(0)
    wq.drop_read(0)
    wq.take_seek(0)
    wq.drop_seek(0)
    assert debug.held_locks() == {}


def test_order(server: Lock, wq: SeekLock) -> None:
    wq.take_read(0)
    with pytest.raises(LockUseError, match=r"take of SERVER: out of order \(.*TASK_WQ\(R\)\)"):
        server.take(0)
    assert not server.locked()
    assert server.try_take(0)  # does not wait, so cannot close a circle


def test_two_of_one_label(server: Lock) -> None:
    server.take(0)
    with pytest.raises(LockUseError, match="out of order"):
        Lock(LockLabel.SERVER).take(0)


def test_recursion(server: Lock, wq: SeekLock) -> None:
    server.take(0)
    with pytest.raises(LockUseError, match="take of SERVER: the lock is held as W"):
        server.take(0)
    with pytest.raises(LockUseError, match="try_take of SERVER: the lock is held as W"):
        server.try_take(0)
    wq.take_read(0)
    with pytest.raises(LockUseError, match="take_read of TASK_WQ: the lock is held as R"):
        wq.take_read(0)


@pytest.mark.parametrize(
    ("take", "wrong"),
    [
        ("take_read", "drop_write"),
        ("take_read", "drop_seek"),
        ("take_read", "seek_to_write"),
        ("take_seek", "drop_read"),
        ("take_seek", "write_to_read"),
        ("take_seek", "try_read_to_seek"),
        ("take_write", "seek_to_read"),
        ("take_write", "drop_seek"),
    ],
)
def test_wrong_mode(wq: SeekLock, take: str, wrong: str) -> None:
    getattr(wq, take)(0)
    state = wq.state
    with pytest.raises(LockUseError, match=f"{wrong} of TASK_WQ: the lock is held as {state}"):
        getattr(wq, wrong)(0)
    assert wq.state == state


def test_drop_of_another_threads_lock(server: Lock) -> None:
    server.take(0)
    (error,) = in_thread(lambda: server.drop(1))
    assert isinstance(error, LockUseError)
    assert "drop of SERVER: the lock is not held by this thread (it holds nothing)" in str(error)


def test_retry_of_a_failed_upgrade(wq: SeekLock) -> None:
    errors = in_thread(lambda: wq.take_seek(1))
    wq.take_read(0)
    assert not wq.try_read_to_seek(0)
    with pytest.raises(LockUseError, match="tried again without having dropped R"):
        wq.try_read_to_seek(0)
    wq.drop_read(0)
    wq.take_read(0)
    assert not wq.try_read_to_seek(0)
    assert errors == []


def test_tid_of_another_thread(server: Lock) -> None:
    server.take(0)
    gate = threading.Event()

    def other() -> None:
        Lock(LockLabel.OTHER).take(1)
        gate.wait(10)

    thread = threading.Thread(target=other, name="worker")
    thread.start()
    while threading.Event().wait(0.001) or "worker" not in debug.held_locks():
        pass
    with pytest.raises(LockUseError, match="MainThread has tid 0, but says 1"):
        server.drop(1)
    (error,) = in_thread(lambda: Lock(LockLabel.OTHER).take(1))
    assert "tid 1 belongs to worker, not to other" in str(error)
    gate.set()
    thread.join(10)
    # an ended thread's tid may be used again
    assert in_thread(lambda: Lock(LockLabel.OTHER).take(1)) == []


def test_every_operation_is_checked(checked: None) -> None:
    for cls in (Lock, SeekLock):
        names = {
            name
            for name in vars(cls)
            if name.startswith(("take", "try_", "drop", "read_to", "seek_to", "write_to"))
        }
        assert names == set(debug._STEPS[cls])
