"""Quota and Rate: limits on connections that all threads share, kept exactly.

One object for the process (`maxconn` in the global section), for each frontend and for each
listener with a limit. A place is taken before a connection is accepted and given back when it ends,
on whichever thread. A lock guards the count: it is taken twice in the life of a connection, never
for a request. Nothing else is taken while it is held.
"""

from __future__ import annotations

from mtproxy.sync.labels import LockLabel
from mtproxy.sync.locks import Lock


class Quota:
    """`limit` places, at least 1. Any thread."""

    __slots__ = ("_lock", "_used", "_wanted", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = Lock(LockLabel.LISTENER)
        self._used = 0
        #: somebody was refused since the last `leave`
        self._wanted = False

    def enter(self, tid: int) -> bool:
        """Take a place; False if there is none."""
        self._lock.take(tid)
        free = self._used < self.limit
        if free:
            self._used += 1
        else:
            self._wanted = True
        self._lock.drop(tid)
        return free

    def leave(self, tid: int) -> bool:
        """Give a place back. Whether somebody was refused since the last time: the caller should
        look for a connection that waits, as the refused thread may not look again.
        """
        self._lock.take(tid)
        self._used -= 1
        wanted = self._wanted
        self._wanted = False
        self._lock.drop(tid)
        return wanted

    @property
    def full(self) -> bool:
        """Whether all places are taken at this moment."""
        return self._used >= self.limit

    def _check(self, used: int) -> None:
        """Assert that so many places are taken; only while nobody uses it."""
        assert self._used == used, (self._used, used)
        assert 0 <= used <= self.limit


class Rate:
    """At most `limit` connections per second, 0: no limit (manual 4.2 `rate-limit sessions`, 3.2
    `maxconnrate`, `maxsessrate`). Any thread.

    What counts at a moment is what has come in this second and, of what came in the one before, the
    share that is not a second old yet: HAProxy's frequency counters.
    """

    __slots__ = ("_before", "_count", "_lock", "_second", "limit")

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit
        self._lock = Lock(LockLabel.LISTENER)
        self._second = 0
        self._count = 0
        self._before = 0

    def enter(self, now: int, tid: int) -> bool:
        """Count a connection at the tick `now`; False if it comes too early."""
        self._lock.take(tid)
        used = self._used(now)
        free = not self.limit or used < self.limit
        if free:
            self._count += 1
        self._lock.drop(tid)
        return free

    def cancel(self, tid: int) -> None:
        """There was no connection."""
        self._lock.take(tid)
        self._count -= self._count > 0
        self._lock.drop(tid)

    @property
    def delay(self) -> int:
        """How many ms a connection has to wait, about, that came too early."""
        return max(1, 1000 // self.limit) if self.limit else 0

    def _used(self, now: int) -> int:
        second, passed = divmod(now, 1000)
        if second != self._second:
            self._before = self._count if second == self._second + 1 else 0
            self._count = 0
            self._second = second
        return self._count + self._before * (1000 - passed) // 1000
