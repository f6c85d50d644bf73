"""Quota: a limit on connections that all threads share, kept exactly.

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
