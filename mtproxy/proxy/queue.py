"""Queues: the limit of sessions per server, and who waits for a free slot (manual 5.2, maxconn).

A backend of which some server has a `maxconn` has one `BackendQueue`, shared by all threads. Each
limited server has a `ServerLimit` in it: `served` slots of it are taken, exactly, over all threads.
A request that a client's persistence, or a hash, binds to a server waits in that server's own
queue, any other in the backend's. Whoever gives a slot back hands it on, under the same lock, to
the first of both queues: by priority class, then by time of arrival plus priority offset, then in
order. So no slot is free while somebody waits for it, and none is given twice.

A request is woken on its own thread: another thread posts the `Pendconn` into its inbox. Until its
stream runs, the slot is already its own; who gives up waiting asks `leave`, which says whether
a slot has come meanwhile and has to be used or given back.

Everything: QUEUE lock of the backend, held for a few bytecodes. Single numbers may be read without
it, for reports and as hints. A server without `maxconn` has no slots and never takes the lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from mtproxy.base.clock import monotonic_ms
from mtproxy.proxy.slowstart import limited
from mtproxy.sync.labels import LockLabel
from mtproxy.sync.locks import Lock

if TYPE_CHECKING:
    from mtproxy.proxy.backend import BackendShared
    from mtproxy.proxy.balance import Picker
    from mtproxy.proxy.server import Server, ServerState
    from mtproxy.sched.context import ThreadContext
    from mtproxy.sched.tasklet import Task

#: removed entries that a queue's heap may hold beside the same number of live ones
_SLACK = 64
#: how often a server is looked for whose last slot another thread has just taken
_RACES = 4


class Joined(Enum):
    """What became of a request that wanted a slot."""

    #: it has one
    GRANTED = "granted"
    #: it waits
    WAITING = "waiting"
    #: the server's queue is as long as `maxqueue` allows
    FULL = "full"
    #: slots have become free since the caller looked: it should look again
    AGAIN = "again"


class Pendconn:
    """A request that waits; made by its stream, on its thread.

    `target` is the server that a slot was given at (or a server without limit that came up), None
    while it waits or after it was sent away to be balanced anew (`moved`).
    """

    __slots__ = ("bound", "joined_at", "key", "moved", "place", "position", "target", "task", "tid")

    def __init__(self, task: Task, tid: int, priority: int, due: int, *, bound: bool) -> None:
        """`priority` is the class, the lowest first; `due` a tick, the time of arrival plus the
        offset. `bound`: it must not go elsewhere, not even when its server goes down.
        """
        self.key = (priority, due)
        self.task = task
        self.tid = tid
        self.bound = bound
        #: the queue it stands in
        self.place: Waiting | None = None
        #: how many its queue had served when it came
        self.joined_at = 0
        #: how many were served before it, itself counted: what the log shows
        self.position = 0
        self.target: ServerState | None = None
        self.moved = False

    def __call__(self, _ctx: ThreadContext) -> None:
        """The message to its thread."""
        self.task.wake()

    def wake(self, tid: int) -> None:
        """Have its stream run; the caller is thread `tid` and holds no lock."""
        task = self.task
        if tid == self.tid:
            task.wake()
        else:
            task.ctx.shared.post(self)


class Waiting:
    """A queue. QUEUE lock of its backend; `length` and `served` may be read without it."""

    __slots__ = ("_heap", "_serial", "length", "served")

    def __init__(self) -> None:
        #: (key, serial, request); those that have left stay until they come to the top
        self._heap: list[tuple[tuple[int, int], int, Pendconn]] = []
        self._serial = 0
        self.length = 0
        #: how many got a slot from here
        self.served = 0

    def add(self, pend: Pendconn) -> None:
        self._serial += 1
        heappush(self._heap, (pend.key, self._serial, pend))
        self.length += 1
        pend.place = self
        pend.joined_at = self.served

    def first(self) -> Pendconn | None:
        heap = self._heap
        while heap:
            pend = heap[0][2]
            if pend.place is self:
                return pend
            heappop(heap)
        return None

    def remove(self, pend: Pendconn) -> None:
        """Take it out, wherever it stands."""
        pend.place = None
        pend.position = self.served - pend.joined_at + 1
        self.length -= 1
        heap = self._heap
        if heap and heap[0][2] is pend:
            heappop(heap)
        elif len(heap) > 2 * self.length + _SLACK:
            heap[:] = [entry for entry in heap if entry[2].place is self]
            heapify(heap)

    def __iter__(self) -> Iterator[Pendconn]:
        """Those that wait, in no order, as a copy."""
        return iter([entry[2] for entry in self._heap if entry[2].place is self])

    def _check(self) -> None:
        live = [entry for entry in self._heap if entry[2].place is self]
        assert len(live) == self.length, (len(live), self.length)
        assert len(self._heap) <= 2 * self.length + _SLACK + 1


class ServerLimit:
    """The places of one limited server, and its own queue. QUEUE lock of its backend."""

    __slots__ = (
        "maxconn",
        "maxqueue",
        "minconn",
        "queue",
        "served",
        "server",
        "waiting",
        "warms_up",
    )

    def __init__(
        self, queue: BackendQueue, server: ServerState, maxconn: int, minconn: int
    ) -> None:
        self.queue = queue
        self.server = server
        #: 0: no limit any more
        self.maxconn = maxconn
        #: below `maxconn`: the limit follows the load of the backend
        self.minconn = minconn or maxconn
        self.maxqueue = server.settings.maxqueue
        self.served = 0
        self.waiting = Waiting()
        #: less is served while it warms up
        self.warms_up = bool(server.settings.slowstart)

    def most(self) -> int:
        """How many may be served now."""
        most = self.maxconn
        if not most:
            return 1 << 62
        if self.minconn < most:
            backend = self.server.backend
            load, full = backend.sessions(), backend.fullconn
            if load < full:
                most = max(self.minconn, load * most // full)
        if self.warms_up:
            most = limited(self.server, most, monotonic_ms())
        return most

    @property
    def has_room(self) -> bool:
        """A request that comes now would not wait. Without the lock a hint."""
        return not self.waiting.length and self.served < self.most()

    def enter(self, sessions: int, tid: int) -> None:
        """Count sessions that were there before the limit was."""
        self.queue.lock.take(tid)
        self.served += sessions
        self.queue.lock.drop(tid)

    def try_take(self, tid: int) -> bool:
        """Take a slot if there is one and nobody waits for it. Any thread."""
        lock = self.queue.lock
        lock.take(tid)
        free = not self.waiting.length and self.served < (
            self.maxconn if 0 < self.maxconn == self.minconn and not self.warms_up else self.most()
        )
        if free:
            self.served += 1
        lock.drop(tid)
        return free


class BackendQueue:
    """All slots and queues of one backend. Any thread."""

    __slots__ = ("backend", "freed", "limits", "lock", "waiting")

    def __init__(self, backend: BackendShared) -> None:
        self.backend = backend
        self.lock = Lock(LockLabel.QUEUE)
        #: of the servers that have a limit
        self.limits: list[ServerLimit] = []
        #: requests that any server may serve
        self.waiting = Waiting()
        #: grows when a slot becomes free that nobody waited for, or servers change
        self.freed = 0

    def add(self, server: ServerState, maxconn: int, minconn: int = 0) -> ServerLimit:
        """Limit a server. Before it serves, or on a change by the operator."""
        limit = ServerLimit(self, server, maxconn, minconn)
        self.limits.append(limit)
        return limit

    def drop(self, limit: ServerLimit) -> None:
        """The server is taken out of its backend."""
        self.limits = [one for one in self.limits if one is not limit]

    @property
    def waiting_in_all(self) -> int:
        """How many wait, in the backend's queue and those of its servers; exact at no moment."""
        return self.waiting.length + sum([limit.waiting.length for limit in self.limits])

    def some_room(self) -> bool:
        """Whether some server that the algorithm may choose has room. Without the lock a hint."""
        elects = self.backend.elects
        for server in self.backend.servers:
            limit = server.limit
            if (limit is None or limit.has_room) and elects(server):
                return True
        return False

    # --- getting a slot
    def join_server(self, limit: ServerLimit, pend: Pendconn, tid: int) -> Joined:
        """A slot of this server, or a place in its queue."""
        self.lock.take(tid)
        try:
            waiting = limit.waiting
            if not waiting.length and limit.served < limit.most():
                limit.served += 1
                return Joined.GRANTED
            if 0 < limit.maxqueue <= waiting.length:
                return Joined.FULL
            waiting.add(pend)
            return Joined.WAITING
        finally:
            self.lock.drop(tid)

    def join(self, pend: Pendconn, tid: int, seen: int) -> Joined:
        """A place in the backend's queue. `seen` is what `freed` was before the caller found all
        servers full: where slots have become free since, it does not wait.
        """
        self.lock.take(tid)
        try:
            if self.freed != seen and self.some_room():
                return Joined.AGAIN
            self.waiting.add(pend)
            return Joined.WAITING
        finally:
            self.lock.drop(tid)

    def leave(self, pend: Pendconn, tid: int) -> bool:
        """Wait no more. False: it did not wait any more, and what it got (`target`, `moved`) is to
        be looked at.
        """
        self.lock.take(tid)
        try:
            place = pend.place
            if place is None:
                return False
            place.remove(pend)
            return True
        finally:
            self.lock.drop(tid)

    # --- giving one back
    def give_back(self, limit: ServerLimit, tid: int) -> None:
        """A session has left the server: who waits first gets its slot."""
        lock = self.lock
        lock.take(tid)
        limit.served -= 1
        if limit.waiting.length or self.waiting.length:
            woken = self._hand_out(limit)
            lock.drop(tid)
            for pend in woken:
                pend.wake(tid)
        else:
            self.freed += 1
            lock.drop(tid)

    def _hand_out(self, limit: ServerLimit) -> list[Pendconn]:
        """Give free slots of a server to those who wait. Lock held; the caller wakes them."""
        mine, shared = limit.waiting, self.waiting
        server = limit.server
        elected = self.backend.elects(server)
        woken: list[Pendconn] = []
        while mine.length or shared.length:
            if limit.served >= limit.most():
                return woken
            pend = mine.first()
            other = shared.first() if elected else None
            if pend is None or (other is not None and other.key < pend.key):
                pend = other
            if pend is None:
                break
            place = pend.place
            assert place is not None
            # first what it got: its thread looks at `place` without the lock
            pend.target = server
            place.remove(pend)
            place.served += 1
            limit.served += 1
            woken.append(pend)
        if limit.served < limit.most():
            self.freed += 1
        return woken

    # --- changes of servers; called with no lock held
    def settle(self, server: ServerState, tid: int) -> int:
        """A server has come up, or its limit has changed: it takes those that it can serve. Returns
        how many.
        """
        limit = server.limit
        self.lock.take(tid)
        if limit is not None:
            woken = self._hand_out(limit)
        else:
            woken = []
            if self.backend.elects(server):
                while (pend := self.waiting.first()) is not None:
                    pend.target = server
                    self.waiting.remove(pend)
                    woken.append(pend)
        self.freed += 1
        self.lock.drop(tid)
        for pend in woken:
            pend.wake(tid)
        return len(woken)

    def redistribute(self, server: ServerState, tid: int) -> int:
        """A server has gone down: those in its queue that are not bound to it are balanced anew.
        Returns how many.
        """
        limit = server.limit
        if limit is None:
            return 0
        woken = []
        self.lock.take(tid)
        for pend in limit.waiting:
            if not pend.bound:
                pend.moved = True
                limit.waiting.remove(pend)
                woken.append(pend)
        self.lock.drop(tid)
        for pend in woken:
            pend.wake(tid)
        return len(woken)

    def set_maxconn(self, limit: ServerLimit, maxconn: int, tid: int) -> None:
        """Change a server's limit (0: none); sessions above it go on, new ones wait."""
        self.lock.take(tid)
        if limit.minconn == limit.maxconn or limit.minconn > maxconn:
            limit.minconn = maxconn
        limit.maxconn = maxconn
        self.lock.drop(tid)
        self.settle(limit.server, tid)

    def _check(self) -> None:
        """Raise AssertionError where an invariant does not hold (tests; all threads at rest)."""
        self.waiting._check()
        for limit in self.limits:
            limit.waiting._check()
            assert limit.served >= 0
            if limit.minconn == limit.maxconn and not limit.warms_up:
                room = limit.served < limit.most()
                assert not (room and limit.waiting.length), "a slot is free while somebody waits"
                if self.backend.elects(limit.server):
                    assert not (room and self.waiting.length), "the same in the backend's queue"


def is_full(server: Server) -> bool:
    """What algorithms ask before they choose a server. A hint, as everything without the lock."""
    limit = server.limit
    return limit is not None and not limit.has_room


def limited_picker(pick: Picker, tid: int) -> Picker:
    """`pick` where servers have limits: what it returns is taken with its slot; None means that no
    server may be chosen, or that the one that is chosen has no slot free.
    """

    def pick_free(stream: Any, avoid: Server | None = None) -> Server | None:
        for _ in range(_RACES):
            server = pick(stream, avoid)
            if server is None:
                return None
            limit = server.limit
            if limit is None or limit.try_take(tid):
                return server
            server.untake()
            if not limit.has_room:
                return None
        return None

    return pick_free


def releaser(
    limit: ServerLimit, note: Callable[[int], None] | None, tid: int
) -> Callable[[int], None]:
    """What `Server.release` calls for a limited server."""
    give_back = limit.queue.give_back

    def release(position: int) -> None:
        if note is not None:
            note(position)
        give_back(limit, tid)

    return release
