"""How many sessions a frontend, backend or server has over all threads, at a price for every line.

Each thread counts its own in `counters.conn_cur`. `Load` adds the other threads' counts to the own
one; those are read once per tick at most, because reading what another thread writes costs several
times a read of one's own. So the total may be a millisecond old in what others did, and exact in
what this thread did. Owner thread only; `sides` is complete before traffic starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Counted(Protocol):
    """One thread's counters of a frontend, backend or server."""

    conn_cur: int


class Peaked(Counted, Protocol):
    """The same with the highest number of sessions of all threads that the thread saw."""

    conn_max: int


class Load:
    """One thread's view. `sides` are the counters of all threads, the own ones (`mine`) among them.

    `others` is valid at `tick`; hot callers compare, `look`, and add their own count themselves.
    """

    __slots__ = ("_mine", "_sides", "others", "tick")

    def __init__(self, mine: Counted, sides: Sequence[Counted]) -> None:
        self._mine = mine
        self._sides = sides
        self.tick = -1
        self.others = 0

    def look(self, now: int) -> None:
        """Add up the other threads' sessions at tick `now`."""
        self.tick = now
        mine = self._mine
        self.others = 0
        if len(self._sides) > 1:
            self.others = sum([c.conn_cur for c in self._sides if c is not mine])

    def note_peak(self, counters: Peaked, now: int) -> None:
        """More than `conn_max` were seen at once: look whether they really are, now, and store it.

        What is a tick old may count a session of another thread beside the one that followed it.
        """
        self.look(now)
        total = self.others + counters.conn_cur
        if total > counters.conn_max:
            counters.conn_max = total

    def total(self, now: int) -> int:
        """Sessions over all threads at tick `now`."""
        if now != self.tick:
            self.look(now)
        return self.others + self._mine.conn_cur
