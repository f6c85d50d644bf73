"""Cells: one value with an atomic compare-and-exchange, in several implementations.

CPython offers no compare-and-swap on a Python object, so it is emulated:

- `LockedCell`: a mutex of its own;
- `StripedCell`: one of 64 mutexes, chosen by the cell's address; costs no memory per cell;
- `ChainCell`: without a mutex, on `dict.setdefault`, which is atomic for a string key. No thread
  ever waits for another, but each exchange makes an object that, as a rule, another thread frees,
  and that costs CPython more than a mutex does as soon as two threads exchange at once.

All may be called by any thread. Values are compared with `==`; use immutable ones. The mutexes here
stand for one machine instruction: they are held for a comparison and a store, never while another
lock is taken, and so have no label and no statistics.
"""

from __future__ import annotations

from _thread import allocate_lock
from typing import Any, Protocol


class AtomicCell[T](Protocol):
    """What all implementations offer."""

    def load(self) -> T: ...
    def store(self, value: T) -> None: ...
    def compare_exchange(self, old: T, new: T) -> bool: ...


class LockedCell[T]:
    """A cell with its own mutex."""

    __slots__ = ("_mutex", "_value")

    def __init__(self, value: T) -> None:
        self._value = value
        self._mutex = allocate_lock()

    def load(self) -> T:
        """The value now."""
        return self._value

    def store(self, value: T) -> None:
        """Replace the value whatever it is."""
        with self._mutex:
            self._value = value

    def compare_exchange(self, old: T, new: T) -> bool:
        """Replace the value by `new` if it equals `old`; whether it did."""
        with self._mutex:
            if self._value == old:
                self._value = new
                return True
            return False

    def _check(self) -> None:
        """Assert that the mutex is free; only while nobody uses the cell."""
        assert not self._mutex.locked(), self


_STRIPES = tuple(allocate_lock() for _ in range(64))


class StripedCell[T](LockedCell[T]):
    """A cell that shares its mutex with one in 64 of the others."""

    __slots__ = ()

    def __init__(self, value: T) -> None:
        self._value = value
        # objects of this size are aligned to 16 bytes
        self._mutex = _STRIPES[(id(self) >> 4) & 63]


class ChainCell[T]:
    """A cell without a mutex: a chain of nodes, each of which gets a successor once.

    A node is a dict `{"value": v}`; `setdefault("next", node)` on the last one is the exchange:
    of several threads exactly one installs its node, and the others see which. The value is that
    of the last node. `_hint` is some node of the chain, usually the last; a thread that was held
    up may set it back, which costs the next caller a walk but nothing else, since nodes keep their
    successors. Nodes before the hint are freed when the last thread lets go of them.
    """

    __slots__ = ("_hint",)

    def __init__(self, value: T) -> None:
        self._hint: dict[str, Any] = {"value": value}

    def _last(self) -> dict[str, Any]:
        node = self._hint
        while (following := node.get("next")) is not None:
            node = following
        return node

    def load(self) -> T:
        """The value now."""
        value: T = self._last()["value"]
        return value

    def store(self, value: T) -> None:
        """Replace the value whatever it is."""
        mine: dict[str, Any] = {"value": value}
        node = self._hint
        while (winner := node.setdefault("next", mine)) is not mine:
            node = winner
        self._publish(mine)

    def compare_exchange(self, old: T, new: T) -> bool:
        """Replace the value by `new` if it equals `old`; whether it did."""
        mine: dict[str, Any] = {"value": new}
        while True:
            node = self._last()
            if node["value"] != old:
                return False
            if node.setdefault("next", mine) is mine:
                self._publish(mine)
                return True

    def _publish(self, node: dict[str, Any]) -> None:
        # not atomic with the claim, and need not be: see the class's docstring
        self._hint = node

    def _check(self) -> None:
        """Assert that the hint leads to the value; only while nobody uses the cell."""
        node, steps = self._hint, 0
        while "next" in node:
            assert set(node) == {"value", "next"}, node
            node, steps = node["next"], steps + 1
        assert set(node) == {"value"}, node
        assert node is self._last(), (node, steps)


#: the implementation to use where nothing speaks for another
Cell = LockedCell
