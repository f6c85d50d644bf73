"""Checks of lock owners and lock order, for the debugging option -dL.

`enable` replaces the methods of `Lock` and `SeekLock` by checked ones, on the classes, so that the
normal methods carry no trace of it. It must run before threads start, before lock profiling, and
before anybody keeps a bound method of a lock. What is checked, before each operation:

- a waiting operation (take_*) only takes labels that stand after all those the thread holds;
- no operation takes a lock that the thread holds already, in whatever mode;
- a drop or a transition is done by a thread that holds the lock in that mode;
- after a failed try_read_to_seek, R is dropped before the next try;
- a tid is used by one live thread, and a thread uses one tid.

A violation raises `LockUseError` in the thread that is wrong, before the lock is touched. What a
thread holds is kept in a list that this thread alone changes; `held_locks` may be called by any.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from mtproxy.sync import profile
from mtproxy.sync.locks import Lock
from mtproxy.sync.seeklock import SeekLock

type AnyLock = Lock | SeekLock


class LockUseError(AssertionError):
    """A thread used a lock against the rules. The message says which, and what it holds."""


class _Held:
    """One lock that a thread holds."""

    __slots__ = ("lock", "mode", "refused")

    def __init__(self, lock: AnyLock, mode: str) -> None:
        self.lock = lock
        self.mode = mode
        self.refused = False  # an upgrade from this R has failed

    def __str__(self) -> str:
        return f"{self.lock.label.name}({self.mode})"


class _ThreadRecord:
    """What one thread does with locks; changed by that thread alone."""

    __slots__ = ("held", "thread", "tid")

    def __init__(self, thread: threading.Thread, tid: int) -> None:
        self.thread = thread
        self.tid = tid
        self.held: list[_Held] = []


_records: dict[int, _ThreadRecord] = {}  # by thread identity
_owner_of: dict[int, threading.Thread] = {}  # by tid
_originals: dict[tuple[type[AnyLock], str], Callable[..., Any]] = {}

# method -> (mode needed before, mode after); "-" is not held
_STEPS: dict[type[AnyLock], dict[str, tuple[str, str]]] = {
    Lock: {"take": ("-", "W"), "try_take": ("-", "W"), "drop": ("W", "-")},
    SeekLock: {
        "take_read": ("-", "R"),
        "take_seek": ("-", "S"),
        "take_write": ("-", "W"),
        "try_take_read": ("-", "R"),
        "try_take_seek": ("-", "S"),
        "try_take_write": ("-", "W"),
        "try_read_to_seek": ("R", "S"),
        "seek_to_write": ("S", "W"),
        "write_to_seek": ("W", "S"),
        "write_to_read": ("W", "R"),
        "seek_to_read": ("S", "R"),
        "drop_read": ("R", "-"),
        "drop_seek": ("S", "-"),
        "drop_write": ("W", "-"),
    },
}


def _my_locks(tid: int) -> list[_Held]:
    ident = threading.get_ident()
    record = _records.get(ident)
    if record is None or not record.thread.is_alive():
        me = threading.current_thread()
        owner = _owner_of.setdefault(tid, me)
        if owner is not me:
            if owner.is_alive():
                raise LockUseError(f"tid {tid} belongs to {owner.name}, not to {me.name}")
            _owner_of[tid] = me
        # (the system gives the identity of an ended thread to a new one)
        record = _records[ident] = _ThreadRecord(me, tid)
    if record.tid != tid:
        raise LockUseError(f"{record.thread.name} has tid {record.tid}, but says {tid}")
    return record.held


def _check_before(name: str, needed: str, lock: AnyLock, mine: list[_Held]) -> _Held | None:
    entry = next((one for one in mine if one.lock is lock), None)
    mode = "-" if entry is None else entry.mode
    what = f"{name} of {lock.label.name}"
    holding = ", ".join(map(str, mine)) or "nothing"
    if mode != needed:
        state = {"-": "is not held", "R": "is held as R", "S": "is held as S", "W": "is held as W"}
        raise LockUseError(f"{what}: the lock {state[mode]} by this thread (it holds {holding})")
    if name.startswith("take"):
        highest = max((one.lock.label.value for one in mine), default=-1)
        if lock.label.value <= highest:
            raise LockUseError(f"{what}: out of order (this thread holds {holding})")
    if name == "try_read_to_seek" and entry is not None and entry.refused:
        raise LockUseError(f"{what}: tried again without having dropped R (holds {holding})")
    return entry


def _checked(
    name: str, needed: str, after: str, original: Callable[..., Any]
) -> Callable[..., Any]:
    def method(lock: AnyLock, tid: int) -> Any:
        mine = _my_locks(tid)
        entry = _check_before(name, needed, lock, mine)
        result = original(lock, tid)
        if result is False:
            if entry is not None:
                entry.refused = True
        elif entry is None:
            mine.append(_Held(lock, after))
        elif after == "-":
            mine.remove(entry)
        else:
            entry.mode = after
            entry.refused = False
        return result

    method.__name__ = name
    method.__doc__ = original.__doc__
    return method


def enable() -> None:
    """Check every lock operation from now on. No lock may be held, no thread started yet."""
    if _originals:
        return
    if profile.is_on():
        raise RuntimeError("lock checks must be enabled before lock profiling")
    for cls, steps in _STEPS.items():
        for name, (needed, after) in steps.items():
            original = getattr(cls, name)
            _originals[cls, name] = original
            setattr(cls, name, _checked(name, needed, after, original))


def disable() -> None:
    """Restore the unchecked methods and forget who holds what; for tests."""
    assert not profile.is_on()
    for (cls, name), original in _originals.items():
        setattr(cls, name, original)
    _originals.clear()
    _records.clear()
    _owner_of.clear()


def is_enabled() -> bool:
    """Whether lock operations are checked."""
    return bool(_originals)


def held_locks() -> dict[str, list[str]]:
    """What each thread (by name) holds now, such as `TASK_WQ(R)`; threads with locks only."""
    # atomic copies: the threads go on meanwhile
    return {
        record.thread.name: [str(one) for one in held]
        for record in _records.copy().values()
        if (held := record.held.copy())
    }
