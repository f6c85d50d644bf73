"""How a thread blocks until another one hands it what it waits for.

A `Waiter` is used once: one thread calls `wait`, another `wake`, in any order. Tests replace the
factory of a lock to see, and to schedule, who sleeps (mtproxy.testing.sequencer).
"""

from __future__ import annotations

from _thread import allocate_lock
from typing import Protocol


class Parker(Protocol):
    """What a lock needs of a waiter."""

    def wait(self) -> None: ...
    def wake(self) -> None: ...


class Waiter:
    """A one-shot event on a single mutex that is born taken: `wake` opens it, `wait` passes."""

    __slots__ = ("_gate",)

    def __init__(self) -> None:
        self._gate = allocate_lock()
        self._gate.acquire()

    def wait(self) -> None:
        """Block until `wake` has been called."""
        self._gate.acquire()

    def wake(self) -> None:
        """Let `wait` return. Exactly one call is allowed."""
        self._gate.release()
