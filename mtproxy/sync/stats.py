"""Lock statistics: always on, one slot per label and thread, written by that thread alone.

A slot is a plain list of integers (positions below). The owner increments it right after it got a
lock and right before it releases it; nobody else ever writes to it. Readers sum over the threads
without any lock: they read every unlock counter before any lock counter, so that a difference is
never negative, and exact when the lock is at rest. A reset stores the current sums as a baseline
which later readings subtract; it touches no slot.

All helper threads share the last slot and so must not use locks at the same time (the watchdog is
the only one). `configure` is called before threads start; `reset` by one thread at a time (runtime
socket); `adopt` by the owner; `snapshot` and the renderers by any thread at any time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields

from mtproxy.sync.labels import LABELS, LockLabel

# Positions in a slot. Locks write them as literal numbers on their fast paths (a global costs a
# dictionary look-up on an interpreter without specialization); test_stats.py holds them together.
READ_LOCKS = 0
READ_UNLOCKS = 1
SEEK_LOCKS = 2
SEEK_UNLOCKS = 3
WRITE_LOCKS = 4
WRITE_UNLOCKS = 5
FAILED_UPGRADES = 6
READ_WAITS = 7
SEEK_WAITS = 8
WRITE_WAITS = 9
READ_WAIT_NS = 10
SEEK_WAIT_NS = 11
WRITE_WAIT_NS = 12
LONGEST_WAIT_NS = 13
LONGEST_EPOCH = 14  # the reset epoch to which LONGEST_WAIT_NS belongs
# 16 eight-byte items: a slot's items fill two cache lines and so share none with a neighbour's
SLOT_SIZE = 16

type Slot = list[int]
type Slots = list[Slot]  # of one label, indexed by tid


@dataclass(frozen=True, slots=True)
class LockStats:
    """The sums of one label since the last reset. Times in nanoseconds."""

    label: str
    read_locks: int
    read_unlocks: int
    seek_locks: int
    seek_unlocks: int
    write_locks: int
    write_unlocks: int
    failed_upgrades: int
    read_waits: int
    seek_waits: int
    write_waits: int
    read_wait_ns: int
    seek_wait_ns: int
    write_wait_ns: int
    longest_wait_ns: int

    @property
    def wait_ns(self) -> int:
        """Time spent waiting for the label's locks in all, ns."""
        return self.read_wait_ns + self.seek_wait_ns + self.write_wait_ns

    @property
    def locks(self) -> int:
        """Locks taken, of any kind."""
        return self.read_locks + self.seek_locks + self.write_locks


def _new_slot() -> Slot:
    return [0] * SLOT_SIZE


# The outer lists are never replaced, only extended: a lock keeps a reference to its label's.
_slots: list[Slots] = [[_new_slot(), _new_slot()] for _ in LABELS]
_baseline: list[list[int]] = [[0] * LONGEST_WAIT_NS for _ in LABELS]
_epoch = [0] * len(LABELS)

# Unlocks first: see the module's docstring.
_UNLOCKS = (READ_UNLOCKS, SEEK_UNLOCKS, WRITE_UNLOCKS)
_READ_ORDER = (*_UNLOCKS, *(i for i in range(LONGEST_WAIT_NS) if i not in _UNLOCKS))


def configure(nbthread: int) -> None:
    """Make slots for threads 0 .. nbthread-1 and one for helper threads (tid = nbthread).

    Call before the threads start. Slots that exist stay, with what they have counted.
    """
    if nbthread < 1:
        raise ValueError(f"nbthread must be at least 1, not {nbthread}")
    for slots in _slots:
        while len(slots) < nbthread + 1:
            slots.append(_new_slot())


def adopt(tid: int) -> None:
    """Make the slots of `tid` anew from the calling thread, which must be their owner.

    CPython counts references to an object with plain arithmetic in the thread that created it and
    atomically in all others, so a thread counts faster in lists of its own making. Counts are kept.
    Call at the start of the thread; optional.
    """
    for slots in _slots:
        slots[tid] = slots[tid].copy()


def slots_of(label: LockLabel) -> Slots:
    """The slots of a label, indexed by tid; the list stays the same object for ever."""
    return _slots[label.value]


def record_wait(slot: Slot, label: LockLabel, waits: int, waited_ns: int) -> None:
    """Add one wait to the caller's own slot. `waits` is one of the *_WAITS positions."""
    slot[waits] += 1
    slot[waits + 3] += waited_ns
    epoch = _epoch[label.value]
    if slot[LONGEST_EPOCH] != epoch:
        slot[LONGEST_WAIT_NS] = waited_ns
        slot[LONGEST_EPOCH] = epoch
    elif waited_ns > slot[LONGEST_WAIT_NS]:
        slot[LONGEST_WAIT_NS] = waited_ns


def _sums(label: LockLabel) -> list[int]:
    slots = _slots[label.value]
    sums = [0] * LONGEST_WAIT_NS
    for position in _READ_ORDER:
        sums[position] = sum(slot[position] for slot in slots)
    return sums


def snapshot_of(label: LockLabel) -> LockStats:
    """What one label has counted since its last reset."""
    rank = label.value
    baseline = _baseline[rank]
    epoch = _epoch[rank]
    sums = _sums(label)
    longest = max(
        (slot[LONGEST_WAIT_NS] for slot in _slots[rank] if slot[LONGEST_EPOCH] == epoch), default=0
    )
    values = [total - base for total, base in zip(sums, baseline, strict=True)]
    values.append(longest)
    return LockStats(label.name, *values)


def snapshot() -> list[LockStats]:
    """All labels in rank order."""
    return [snapshot_of(label) for label in LABELS]


def reset(label: LockLabel | None = None) -> None:
    """Start counting anew, for one label or all.

    Locks held at the time keep their difference: their unlocks would otherwise be counted alone.
    """
    for one in LABELS if label is None else (label,):
        sums = _sums(one)
        # what is held now was locked before the reset and will be unlocked after it
        for locks in (READ_LOCKS, SEEK_LOCKS, WRITE_LOCKS):
            sums[locks] = sums[locks + 1]
        _baseline[one.value] = sums
        _epoch[one.value] += 1


def _kind_text(kind: str, locks: int, unlocks: int, wait_ns: int) -> str:
    return (
        f"\t {kind + ' lock':<12}: {locks}\n"
        f"\t {kind + ' unlock':<12}: {unlocks} ({unlocks - locks})\n"
        f"\t {'wait time for ' + kind:<24}: {wait_ns / 1e6:.3f} msec\n"
        f"\t {'wait time for ' + kind + '/lock':<24}: {wait_ns / locks:.3f} nsec\n"
    )


def render_one(stats: LockStats) -> str:
    """One label as HAProxy prints it, followed by failed upgrades and the longest wait.

    A kind of lock that was never taken has no lines.
    """
    text = f"Stats about Lock {stats.label}:\n"
    if stats.write_locks:
        text += _kind_text("write", stats.write_locks, stats.write_unlocks, stats.write_wait_ns)
    if stats.seek_locks:
        text += _kind_text("seek", stats.seek_locks, stats.seek_unlocks, stats.seek_wait_ns)
    if stats.read_locks:
        text += _kind_text("read", stats.read_locks, stats.read_unlocks, stats.read_wait_ns)
    if stats.locks:
        text += f"\t {'failed upgrades':<24}: {stats.failed_upgrades}\n"
        text += f"\t {'longest wait':<24}: {stats.longest_wait_ns / 1e6:.3f} msec\n"
    return text


def render_text(label: LockLabel | None = None) -> str:
    """The blocks of all labels, or of one."""
    return "".join(render_one(snapshot_of(one)) for one in (LABELS if label is None else (label,)))


def render_json() -> str:
    """The same as a JSON array of objects, one per label, with `LockStats`'s field names."""
    names = [field.name for field in fields(LockStats)]
    return json.dumps([{name: getattr(one, name) for name in names} for one in snapshot()])
