"""Inbox: items from any thread to one owner, without a lock.

`put` may be called by any thread (`deque.append` is atomic); `drain` by the owner only. Order is
kept per sender. It does not wake the owner: that is the business of the sender, who can know
whether the owner sleeps.
"""

from __future__ import annotations

from collections import deque


class Inbox[T]:
    """A many-producers, one-consumer queue."""

    __slots__ = ("_items", "put")

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        #: append an item; any thread
        self.put = self._items.append

    def drain(self) -> list[T]:
        """Take out what is there now, oldest first; owner only.

        What arrives during the call stays for the next one, so the work per call is bounded.
        """
        items = self._items
        # only the owner removes, so at least len() items can be popped
        pop = items.popleft
        return [pop() for _ in range(len(items))]

    def __len__(self) -> int:
        return len(self._items)
