"""Cells: one value with an atomic compare-and-exchange, in two implementations.

CPython offers no compare-and-swap on a Python object, so it is emulated:

- `LockedCell`: a mutex of its own, held for one comparison and one store;
- `ChainCell`: without a mutex, on `list.append`, which is atomic. No thread ever waits for another,
  but each exchange makes an object that, as a rule, another thread frees.

The mutex stands for one machine instruction. It has a label and statistics all the same (CELL), so
that `show locks` holds every lock of the program and tells who waits for a cell; that costs 0.1 us
of the 0.4 us that an exchange takes. The statistics are written here rather than by
`sync.locks.Lock`, whose two calls would cost another 0.15 us.

A third way, a chain of dicts by `dict.setdefault`, was given up: 0.6 us in one thread, but 20 us
in two, because CPython delays the freeing of a dict that several threads have read.
`python -m perf cells` measures what is here.

Any thread may call everything, with its `tid`. Values are compared with `==`; use immutable ones.
"""

from __future__ import annotations

from _thread import allocate_lock
from time import perf_counter_ns
from typing import Any, Protocol

from mtproxy.sync.labels import LockLabel
from mtproxy.sync.stats import WRITE_WAITS, record_wait, slots_of


class AtomicCell[T](Protocol):
    """What all implementations offer."""

    def load(self) -> T: ...
    def compare_exchange(self, old: T, new: T, tid: int) -> bool: ...


class LockedCell[T]:
    """A cell with its own mutex."""

    __slots__ = ("_acquire", "_mutex", "_release", "_slots", "_value")

    def __init__(self, value: T) -> None:
        self._value = value
        self._mutex = allocate_lock()
        self._acquire = self._mutex.acquire
        self._release = self._mutex.release
        self._slots = slots_of(LockLabel.CELL)

    def load(self) -> T:
        """The value now."""
        return self._value

    def compare_exchange(self, old: T, new: T, tid: int) -> bool:
        """Replace the value by `new` if it equals `old`; whether it did."""
        if not self._acquire(False):
            self._wait(tid)
        slot = self._slots[tid]
        slot[4] += 1  # write locks and unlocks, as in sync.locks
        equal = self._value == old
        if equal:
            self._value = new
        slot[5] += 1
        self._release()
        return equal

    def _wait(self, tid: int) -> None:
        start = perf_counter_ns()
        self._acquire()
        record_wait(self._slots[tid], LockLabel.CELL, WRITE_WAITS, perf_counter_ns() - start)

    def _check(self) -> None:
        """Assert that the mutex is free; only while nobody uses the cell."""
        assert not self._mutex.locked(), self


class ChainCell[T]:
    """A cell without a mutex: a chain of nodes, each of which gets a successor once.

    A node is a list `[value]`; several threads may append a node of theirs to the last one, but the
    first that does stands at index 1 for ever, and is the successor. The value is that of the last
    node. `_hint` is some node of the chain, usually the last; a thread that was held up may set it
    back, which costs the next caller a walk but nothing else, since nodes keep their successors.
    Nodes before the hint are freed when the last thread lets go of them.
    """

    __slots__ = ("_hint",)

    def __init__(self, value: T) -> None:
        self._hint: list[Any] = [value]

    def _last(self) -> list[Any]:
        node = self._hint
        while len(node) > 1:
            node = node[1]
        return node

    def load(self) -> T:
        """The value now."""
        value: T = self._last()[0]
        return value

    def compare_exchange(self, old: T, new: T, _tid: int) -> bool:
        """Replace the value by `new` if it equals `old`; whether it did."""
        mine: list[Any] = [new]
        while True:
            node = self._last()
            if node[0] != old:
                return False
            node.append(mine)
            if node[1] is mine:
                self._publish(mine)
                return True
            # another thread's value came first; it may be equal to `old` again

    def _publish(self, node: list[Any]) -> None:
        # not atomic with the append, and need not be: see the class's docstring
        self._hint = node

    def _check(self) -> None:
        """Assert that the hint leads to the value; only while nobody uses the cell."""
        node, steps = self._hint, 0
        while len(node) > 1:
            node, steps = node[1], steps + 1
        assert node is self._last(), (node, steps)
