"""Lock statistics: always on, one slot per label and thread, written by that thread alone.

A slot is a plain list of integers (positions below). The owner increments it right after it got a
lock and right before it releases it; nobody else ever writes to it. Readers sum over the threads
without any lock: they read every unlock counter before any lock counter, so that a difference is
never negative, and exact when the lock is at rest. A reset stores the current sums as a baseline
which later readings subtract; it touches no slot.

All helper threads share the last slot and so must not use locks at the same time (the watchdog is
the only one). `configure` is called before threads start; `reset` by one thread at a time (runtime
socket); `adopt` by the owner; `snapshot` and `totals_of` by any thread at any time. What is made of
the figures (text, JSON, ...) is in `sync.reports`; hold times are in `sync.profile`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from time import monotonic

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
READ_LONGEST_WAIT_NS = 13
SEEK_LONGEST_WAIT_NS = 14
WRITE_LONGEST_WAIT_NS = 15
LONGEST_EPOCH = 16  # the reset epoch to which the longest waits belong
#: how many positions are sums; those before the longest waits
_SUMS = READ_LONGEST_WAIT_NS
# 24 eight-byte items: a slot's items fill three cache lines and so share none with a neighbour's
SLOT_SIZE = 24

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
    read_longest_wait_ns: int
    seek_longest_wait_ns: int
    write_longest_wait_ns: int
    #: how long they have been counted, in seconds
    seconds: float = field(default=0.0, compare=False)

    @property
    def wait_ns(self) -> int:
        """Time spent waiting for the label's locks in all, ns."""
        return self.read_wait_ns + self.seek_wait_ns + self.write_wait_ns

    @property
    def waits(self) -> int:
        """How often a thread had to wait, whatever it wanted to do."""
        return self.read_waits + self.seek_waits + self.write_waits

    @property
    def locks(self) -> int:
        """Locks taken, of any kind."""
        return self.read_locks + self.seek_locks + self.write_locks

    @property
    def longest_wait_ns(self) -> int:
        """The longest single wait of any kind, ns."""
        return max(self.read_longest_wait_ns, self.seek_longest_wait_ns, self.write_longest_wait_ns)

    @property
    def used(self) -> bool:
        """Whether anything was counted."""
        return bool(self.locks or self.failed_upgrades or self.waits)


def _new_slot() -> Slot:
    return [0] * SLOT_SIZE


# The outer lists are never replaced, only extended: a lock keeps a reference to its label's.
_slots: list[Slots] = [[_new_slot(), _new_slot()] for _ in LABELS]
_baseline: list[list[int]] = [[0] * _SUMS for _ in LABELS]
_epoch = [0] * len(LABELS)
#: when counting began, monotonic seconds
_since = [monotonic()] * len(LABELS)

# Unlocks first: see the module's docstring.
_UNLOCKS = (READ_UNLOCKS, SEEK_UNLOCKS, WRITE_UNLOCKS)
_READ_ORDER = (*_UNLOCKS, *(i for i in range(_SUMS) if i not in _UNLOCKS))


class _Process:
    """What `configure` was told."""

    nbthread = 1


def configure(nbthread: int) -> None:
    """Make slots for threads 0 .. nbthread-1 and one for helper threads (tid = nbthread).

    Call before the threads start. Slots that exist stay, with what they have counted.
    """
    if nbthread < 1:
        raise ValueError(f"nbthread must be at least 1, not {nbthread}")
    for slots in _slots:
        while len(slots) < nbthread + 1:
            slots.append(_new_slot())
    _Process.nbthread = nbthread
    _since[:] = [monotonic()] * len(_since)


def thread_count() -> int:
    """How many threads the program has, helpers aside."""
    return _Process.nbthread


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
        slot[READ_LONGEST_WAIT_NS:LONGEST_EPOCH] = (0, 0, 0)
        slot[LONGEST_EPOCH] = epoch
    if waited_ns > slot[waits + 6]:
        slot[waits + 6] = waited_ns


def _sums(label: LockLabel) -> list[int]:
    slots = _slots[label.value]
    sums = [0] * _SUMS
    for position in _READ_ORDER:
        sums[position] = sum(slot[position] for slot in slots)
    return sums


def _stats(label: LockLabel, sums: list[int]) -> LockStats:
    rank = label.value
    epoch = _epoch[rank]
    # copies: the three belong to the epoch that stands beside them
    slots = [slot.copy() for slot in _slots[rank]]
    longest = [
        max((slot[position] for slot in slots if slot[LONGEST_EPOCH] == epoch), default=0)
        for position in range(READ_LONGEST_WAIT_NS, LONGEST_EPOCH)
    ]
    return replace(LockStats(label.name, *sums, *longest), seconds=monotonic() - _since[rank])


def snapshot_of(label: LockLabel) -> LockStats:
    """What one label has counted since its last reset."""
    baseline = _baseline[label.value]
    sums = _sums(label)
    return _stats(label, [total - base for total, base in zip(sums, baseline, strict=True)])


def totals_of(label: LockLabel) -> LockStats:
    """What one label has counted since the start, whatever was reset; the longest waits aside."""
    return _stats(label, _sums(label))


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
        _since[one.value] = monotonic()
