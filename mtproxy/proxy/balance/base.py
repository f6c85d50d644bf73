"""What every balancing algorithm offers to its backend.

A `Balancer` is shared by all threads and knows servers by their position in the backend. Its state
is guarded by the backend's LBPRM lock, except where an algorithm says that a structure needs none.
Each thread has a picker of its own, made from that thread's own `Server` objects.

Weights come in units of 1/SCALE where an algorithm is `dynamic` (they may be any at any time, as
slow start wants it), else as they were configured: a static algorithm knows a server with its own
weight or without any.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from mtproxy.base.addresses import Address
    from mtproxy.base.server_settings import ServerSettings
    from mtproxy.proxy.server import Server

#: parts of a weight; HAProxy's BE_WEIGHT_SCALE
SCALE = 16
#: the heaviest weight in these units
HEAVIEST = 256 * SCALE

#: whether a server can take no session more (it would have to queue); asked on its own thread
type Full = Callable[[Server], bool]
#: the 32-bit hash of a stream's key; None: it has none
type HashOf = Callable[[Any], int | None]


class Picker(Protocol):
    """Choose a server for the session of `stream` and take it (`Server.take`); None if none is
    usable, or if all that might be chosen are full.

    `avoid` is the server that has just failed: another one is chosen if the algorithm can choose
    another. The caller calls `Server.release` exactly once when the session leaves the server.
    Owner thread only.
    """

    def __call__(self, stream: Any, avoid: Server | None = None) -> Server | None: ...


class Balancer(ABC):
    """One algorithm at work in one backend. It starts with no usable server."""

    __slots__ = ()

    #: whether weights may change by parts of one, and servers be added, while it works
    dynamic: ClassVar[bool] = True

    @abstractmethod
    def update(self, weights: Mapping[int, int]) -> None:
        """Change the weights (0..HEAVIEST; 0: not usable) of the servers at these positions.

        The caller holds the LBPRM lock. No later pick chooses a server whose weight is 0.
        """

    @abstractmethod
    def resize(self, size: int) -> None:
        """Have room for `size` servers, at least as many as before; the new ones have weight 0.

        The caller holds the LBPRM lock. Pickers stay valid, but every thread makes a new one before
        a new position is given a weight.
        """

    @abstractmethod
    def picker(
        self,
        servers: Sequence[Server],
        tid: int,
        full: Full | None = None,
        hash_of: HashOf | None = None,
    ) -> Picker:
        """A picker for thread `tid`, whose own server objects are `servers`, by position.

        `full` where some server has a limit: such a server is passed over while it is reached.
        `hash_of` is for the algorithms that choose by a key.
        """

    def put(self, position: int, settings: ServerSettings) -> None:  # most do not care
        """A server that is not usable yet has this position. The caller holds the LBPRM lock."""

    def move(self, position: int, address: Address) -> None:  # most do not care
        """A server has another address. The caller holds the LBPRM lock."""

    def take(self, position: int, tid: int) -> None:  # most do not care
        """A session was given to a server without a pick (persistence, a queued session)."""

    def release_hook(self) -> Callable[[int], None] | None:
        """What to call with a server's position when a session leaves it; None: nothing.

        Each caller asks for a hook of its own, so that no two threads share one.
        """
        return None

    @abstractmethod
    def _check(self) -> None:
        """Raise AssertionError where an invariant does not hold (tests; all threads at rest)."""
