"""What every balancing algorithm offers to its backend.

A `Balancer` is shared by all threads and knows servers by their position in the backend. Its state
is guarded by the backend's LBPRM lock, except where an algorithm says that a structure needs none.
Each thread has a picker of its own, made from that thread's own `Server` objects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mtproxy.proxy.server import Server
    from mtproxy.sched.context import ThreadContext
    from mtproxy.sync.locks import Lock


class Picker(Protocol):
    """Choose a server for a new session and take it (`Server.take`); None if none is usable.

    `avoid` is the server that has just failed: another one is chosen if there is another. The
    caller calls `Server.release` exactly once when the session leaves the server. Owner thread
    only.
    """

    def __call__(self, ctx: ThreadContext, avoid: Server | None = None) -> Server | None: ...


class Balancer(ABC):
    """One algorithm at work in one backend. It starts with no usable server."""

    __slots__ = ()

    #: a request belongs to one server (hashes): if that has no slot free, it waits for this one
    binds = False
    #: the pickers look after `Server.limit` themselves: what they return has its slot taken
    #: (`ServerLimit.try_take`), and they return None when all servers are full, too. All other
    #: algorithms are asked again and again for one that is not full (`proxy.queue`).
    takes_slots = False

    @abstractmethod
    def __init__(self, lock: Lock, size: int) -> None:
        """`lock` is the backend's LBPRM lock, `size` the number of its servers, usable or not."""

    @abstractmethod
    def update(self, weights: Mapping[int, int]) -> None:
        """Change the weights (0..256; 0: not usable) of the servers at these positions.

        The caller holds the LBPRM lock. No later pick chooses a server whose weight is 0.
        """

    @abstractmethod
    def resize(self, size: int) -> None:
        """Have room for `size` servers, at least as many as before; the new ones have weight 0.

        The caller holds the LBPRM lock. Pickers stay valid, but every thread makes a new one before
        a new position is given a weight.
        """

    @abstractmethod
    def picker(self, servers: Sequence[Server], tid: int) -> Picker:
        """A picker for thread `tid`, whose own server objects are `servers`, by position."""

    @abstractmethod
    def take(self, position: int, tid: int) -> None:
        """A session was given to a server without a pick (persistence, a queued session)."""

    @abstractmethod
    def release_hook(self) -> Callable[[int], None] | None:
        """What to call with a server's position when a session leaves it; None: nothing.

        Each caller asks for a hook of its own, so that no two threads share one.
        """

    @abstractmethod
    def _check(self) -> None:
        """Raise AssertionError where an invariant does not hold (tests; all threads at rest)."""
