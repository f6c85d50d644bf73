"""The poller for `noepoll` (-de): poll(2) behind the three calls of select.epoll that we use.

What epoll tells edge-triggered is asked for only while it is not known: a direction whose `ready`
bit is set in the fd table is left out until its owner has cleared the bit, and a descriptor that is
broken is left out for good. So the owners see what they see with epoll, at the cost of a look at
every descriptor per turn. Owner thread only.
"""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mtproxy.sched.context import FdOwner

_EXCLUSIVE = 1 << 28  # EPOLLEXCLUSIVE: poll(2) has no such thing
#: reported without being asked for, and again and again
_BROKEN = select.POLLERR | select.POLLHUP


class PollPoller:
    """`fdtab` is the thread's own: who is in it no more is not watched any more.

    The bits of poll(2) have the values of epoll's.
    """

    def __init__(self, fdtab: dict[int, FdOwner]) -> None:
        self._fdtab = fdtab
        self._poll = select.poll()
        #: descriptor -> what it was registered for; those of the second are edge-triggered
        self._level: dict[int, int] = {}
        self._edge: dict[int, int] = {}
        #: what poll(2) is asked for now, of edge-triggered descriptors; -1: nothing at all
        self._asked: dict[int, int] = {}

    def register(self, fd: int, events: int) -> None:
        """Watch `fd` from the next poll on."""
        if events & select.EPOLLET:
            self._edge[fd] = events & ~select.EPOLLET
            # a number that was used before starts anew
            self._asked.pop(fd, None)
            self._level.pop(fd, None)
        else:
            self._level[fd] = events & ~_EXCLUSIVE
            self._edge.pop(fd, None)
            self._asked.pop(fd, None)
            self._poll.register(fd, events & ~_EXCLUSIVE)

    def unregister(self, fd: int) -> None:
        """Do not watch `fd` any more. An edge-triggered one need not be unregistered."""
        if self._level.pop(fd, None) is None:
            del self._edge[fd]
            self._forget(fd)
        else:
            self._poll.unregister(fd)

    def poll(self, timeout: float, _max_events: int = -1) -> list[tuple[int, int]]:
        """Wait at most `timeout` seconds (0: not at all, below 0: for ever); descriptors with their
        bits.
        """
        gone = []
        for fd, events in self._edge.items():
            owner = self._fdtab.get(fd)
            if owner is None:
                gone.append(fd)
                continue
            ready = owner.ready
            wanted = -1 if ready & _BROKEN else events & ~ready
            if wanted != self._asked.get(fd):
                if wanted >= 0:
                    self._poll.register(fd, wanted)
                else:
                    self._unwatch(fd)
                self._asked[fd] = wanted
        for fd in gone:
            del self._edge[fd]
            self._forget(fd)
        return self._poll.poll(None if timeout < 0 else timeout * 1000)

    def close(self) -> None:
        """For the end, as epoll's: there is no descriptor to give back."""
        self._edge.clear()
        self._level.clear()
        self._asked.clear()

    def _forget(self, fd: int) -> None:
        if self._asked.pop(fd, -1) >= 0:
            self._unwatch(fd)

    def _unwatch(self, fd: int) -> None:
        if fd not in self._level:
            try:
                self._poll.unregister(fd)
            except KeyError:
                return  # it was never asked for
