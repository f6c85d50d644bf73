"""Counter: numbers handed out once each, to any thread, without a lock.

`next(itertools.count())` is one atomic step in free-threaded CPython: the iterator advances by a
compare-and-swap of its machine word. It is the only iterator that threads may share.
"""

from __future__ import annotations

from itertools import count


class Counter:
    """Hands out start, start+1, ... : `next()` may be called by any thread."""

    __slots__ = ("next",)

    def __init__(self, start: int = 0) -> None:
        #: the next number; no two calls get the same one, none is left out
        self.next = count(start).__next__
