"""How many sessions a frontend, backend or server has over all threads, cheap enough for every log line.

Each thread counts its own in `counters.conn_cur`. `Load` adds the other threads' counts to the own one;
those are read once per tick at most, because reading what another thread writes costs several times
a read of one's own. So the total may be a millisecond old in what others did, and exact in what this
thread did. Owner thread only; `sides` is complete before traffic starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Counted(Protocol):
    conn_cur: int


class Load:
    """One thread's view. `sides` are the counters of all threads, the own ones (`mine`) among them."""

    __slots__ = ("_mine", "_others", "_sides", "_tick")

    def __init__(self, mine: Counted, sides: Sequence[Counted]) -> None:
        self._mine = mine
        self._sides = sides
        self._tick = -1
        self._others = 0

    def total(self, now: int) -> int:
        """Sessions over all threads at tick `now`."""
        if now != self._tick:
            self._tick = now
            mine = self._mine
            self._others = 0
            if len(self._sides) > 1:
                self._others = sum([c.conn_cur for c in self._sides if c is not mine])
        return self._others + self._mine.conn_cur
