"""The descriptors that are there before the threads: a table of who has to watch which.

One entry for each descriptor that the process may have, as many as `maxconn` asks for: a mask of
the threads that watch it. What the program opens while it starts (listening sockets, runtime
sockets, the threads' wake-up descriptors) is inserted by the main thread; then each thread, while
it sets itself up, adopts its own: it scans the table up to the highest descriptor that was ever
inserted and calls what was inserted with it, which registers it with the thread's poller.

What this must not cost, whatever `maxconn` is:

- time: a look at one entry takes 40 ns, so a scan of the whole table for two million connections
  takes 150 ms in each thread. `highest` bounds the scan to the few entries there are.
  (`tune.fd.scan full` scans the whole table, to show the difference.)
- memory: the entries are anonymous memory of the kernel, which has no page before it is written to.

What a thread opens later is its own from the beginning and stands in its `ThreadContext.fdtab`:
a dictionary, which grows with what the thread serves rather than with what the process might serve.

The main thread inserts before the threads start; after that nobody writes, so any thread may adopt.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtproxy.sched.context import Message, ThreadContext

#: bytes of one entry: a bit for each of 64 threads
ENTRY_SIZE = 8


class FdTable:
    """See the module. `size` is the number of entries, `highest` the highest one in use or -1."""

    __slots__ = ("_adopters", "_memory", "full_scan", "highest", "size")

    def __init__(self, size: int, *, full_scan: bool = False) -> None:
        self.size = max(1, size)
        self.highest = -1
        self.full_scan = full_scan
        self._memory = _memory(self.size)
        self._adopters: dict[int, Message] = {}

    def insert(self, fd: int, tids: Sequence[int], adopt: Message) -> None:
        """Have each thread of `tids` call `adopt(ctx)` when it starts, which watches `fd`.

        A descriptor beyond the end, as one may be inherited, makes the table longer.
        """
        assert fd not in self._adopters, f"descriptor {fd} was inserted already"
        if fd >= self.size:
            self._grow(fd + 1)
        mask = 0
        for tid in tids:
            mask |= 1 << tid
        with memoryview(self._memory) as raw, raw.cast("Q") as masks:
            masks[fd] = mask
        self._adopters[fd] = adopt
        self.highest = max(self.highest, fd)

    def adopt(self, ctx: ThreadContext) -> None:
        """Call what was inserted for this thread, by descriptor. Once, on the thread itself."""
        mine = 1 << ctx.tid
        end = self.size if self.full_scan else self.highest + 1
        # a view of one's own: threads that scan the same object would fight for its counter
        with memoryview(self._memory) as raw, raw.cast("Q") as masks:
            for fd in range(end):
                if masks[fd] & mine:
                    self._adopters[fd](ctx)

    def _grow(self, size: int) -> None:
        longer = _memory(size)
        used = (self.highest + 1) * ENTRY_SIZE
        longer[:used] = self._memory[:used]
        self._memory.close()
        self._memory = longer
        self.size = size


def _memory(size: int) -> mmap.mmap:
    """Zero bytes. Raises OSError when there is not enough, as with a limit of memory (-m)."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_NORESERVE
    return mmap.mmap(-1, size * ENTRY_SIZE, flags=flags)
