"""Rings: buffers in memory for log lines, the oldest of which make room for new ones.

One `Ring` exists once for all threads. A thread puts what it has logged in a turn of its loop in at
once, under the lock RING; that is one lock per thread and turn, whatever the number of lines.
Readers (`show events`, the forwarders to servers) take no lock: a message stands in a dict under
its number, which CPython looks up atomically, and a reader that finds it gone has been overtaken.

A reader that has read everything leaves a function with `wait`; whoever appends calls it, once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import count

from mtproxy.base.log_settings import BUILT_IN_SINKS, RingSettings
from mtproxy.log.targets import LogTarget
from mtproxy.sync.labels import LockLabel
from mtproxy.sync.locks import Lock

#: bytes that each message takes besides its own: HAProxy stores its length and its readers' count
OVERHEAD = 3
#: `ring@buf0` is there without a section (HAProxy's)
BUF0 = RingSettings("buf0", "in-memory ring buffer", format="timed", maxlen=1024, size=1 << 20)
assert BUF0.name in BUILT_IN_SINKS


class Ring:
    """The messages of one ring, without newlines, numbered from 0.

    `first` is the oldest that is there, `end` the number of the next one. Both only grow, and are
    single stores, so any thread may read them; a value is at most too old.
    """

    __slots__ = (
        "_lock",
        "_messages",
        "_used",
        "_waiting",
        "description",
        "dropped",
        "end",
        "first",
        "format",
        "maxlen",
        "name",
        "size",
    )

    def __init__(self, settings: RingSettings) -> None:
        self.name = settings.name
        self.description = settings.description
        self.format = settings.format
        self.maxlen = settings.maxlen
        self.size = settings.size
        self.first = 0
        self.end = 0
        #: messages that were overwritten before a forwarder had sent them; counted by `note_lost`
        self.dropped = 0
        self._messages: dict[int, bytes] = {}
        self._used = 0
        self._lock = Lock(LockLabel.RING)
        self._waiting: deque[Callable[[], None]] = deque()

    def append(self, messages: Sequence[bytes], tid: int) -> None:
        """Put messages in, in order; the oldest go when the size is exceeded. Any thread."""
        added = sum(map(len, messages)) + OVERHEAD * len(messages)
        stored = self._messages
        lock = self._lock
        lock.take(tid)
        try:
            stored.update(zip(count(self.end), messages, strict=False))
            # before anything goes: a reader that misses a message must see a later `first`
            end = self.end + len(messages)
            used = self._used + added
            first = self.first
            while used > self.size and first < end:
                used -= len(stored[first]) + OVERHEAD
                first += 1
            old, self.first = self.first, first
            for number in range(old, first):
                del stored[number]
            self._used = used
            self.end = end
        finally:
            lock.drop(tid)
        waiting = self._waiting
        while waiting:
            try:
                wake = waiting.popleft()
            except IndexError:  # another thread was faster
                return
            wake()

    def read(
        self, position: int, limit: int, end: int | None = None
    ) -> tuple[list[bytes], int, int]:
        """Messages from number `position` on, of about `limit` bytes and before number `end`; the
        number that follows; and how many were gone already. Any thread.
        """
        found: list[bytes] = []
        lost = 0
        while position < (self.end if end is None else end) and limit > 0:
            message = self._messages.get(position)
            if message is None:
                first = self.first
                lost += first - position
                position = first
                continue
            found.append(message)
            limit -= len(message)
            position += 1
        return found, position, lost

    def wait(self, position: int, wake: Callable[[], None]) -> None:
        """Have `wake()` called, by any thread, once there is a message `position` or it may be
        there already.
        """
        self._waiting.append(wake)
        # What was appended before our registration was seen has set `end` by now, and what comes
        # after finds us: both sides pass the deque's own mutex in between.
        if self.end > position:
            wake()

    def note_lost(self, messages: int) -> None:
        """A forwarder was overtaken. Called by the ring's forwarders, which are on one thread."""
        self.dropped += messages

    def _check(self) -> None:
        """Assert the invariants; only while nobody uses the ring."""
        assert list(self._messages) == list(range(self.first, self.end)), self.name
        used = sum(len(message) + OVERHEAD for message in self._messages.values())
        assert used == self._used <= self.size, (used, self._used, self.size)


class RingTarget(LogTarget):
    """One thread's way into a ring."""

    __slots__ = ("_tid", "ring")

    def __init__(self, ring: Ring, tid: int) -> None:
        super().__init__(ring.name)
        self.ring = ring
        self._tid = tid

    def send(self, message: bytes) -> None:
        self.ring.append((message,), self._tid)
        self.sent += 1

    def flush(self) -> None:
        waiting = self.waiting
        if waiting:
            self.ring.append(waiting, self._tid)
            self.sent += len(waiting)
            waiting.clear()

    def close(self) -> None:
        """The ring itself stays."""
