"""SeekLock: read / seek / write, with upgrades; the lock of structures that are scanned a lot.

States: U (unlocked), R (readers), S (one seeker, beside readers), W (one writer). A seeker reads
too, and alone has the right to become the writer later. What may be held at once:

|   | R   | S   | W  |
|---|-----|-----|----|
| R | yes | yes | no |
| S | yes | no  | no |
| W | no  | no  | no |

Transitions: take_*, try_take_*, drop_* for each kind; `try_read_to_seek` (never waits);
`seek_to_write` (waits for the readers to leave, letting no new ones in); `write_to_seek`,
`write_to_read`, `seek_to_read` (never wait). A thread holds one kind of one SeekLock at a time and
never takes the same lock again while it holds it. After a failed `try_read_to_seek` it must drop R
before it tries again: the seeker may be waiting for that very R to go away.

Fairness: waiters stand in one queue in order of arrival. A released lock is not given to the first
of them at once, but left free, and those who can go on are woken to take it: a thread that is
running may overtake them meanwhile, since a lock that stands idle until a sleeper has got a
processor helps nobody. After OVERTAKE_LIMIT overtakings of the same head of the queue that ends:
newcomers join the queue, and the next release hands the lock to those who are first. So a writer
waits for those who held the lock when it came, for those before it in the queue, and for
OVERTAKE_LIMIT others for each of these; readers cannot starve it, nor it them. A reader that
passes waiting seekers delays nobody and is not counted. A seeker that upgrades lets no new reader
in and gets the lock from the last reader directly; nobody else could take it anyway.

Any thread of the pool, or the helper thread, may call. The state is guarded by `_guard`, a mutex
that is held for a few bytecodes and never while waiting. A thread that has to wait blocks on a
`Waiter` of its own (no spinning); only then is the clock read. Statistics count a transition as an
unlock of one kind and a lock of the other, so that locks minus unlocks is what is held, by kind.

Measured on CPython 3.13.15t, 2 cores, other load present, so only the ratios count. Timers that
expire as fast as 2 and 4 threads can collect and queue them: 1.6 and 2.7 times as many per second
with OVERTAKE_LIMIT 64 as with 0 (strict hand-over), at 0.38 and 0.30 times the CPU for each; 16
lies between, 256 gives nothing more. Spinning for up to 200 rounds before sleeping changed nothing.
A reader's take and drop cost 1.5 times a `Lock`'s; a flag per thread instead of the guarded count
of readers would make it 1.0, but would stand on the order of memory accesses between two objects,
which CPython does not promise.
"""

from __future__ import annotations

from _thread import allocate_lock
from collections import deque
from collections.abc import Callable
from time import perf_counter_ns

from mtproxy.sync.labels import LockLabel
from mtproxy.sync.parking import Parker, Waiter
from mtproxy.sync.stats import (
    READ_LOCKS,
    READ_WAITS,
    SEEK_LOCKS,
    SEEK_WAITS,
    WRITE_LOCKS,
    WRITE_WAITS,
    record_wait,
    slots_of,
)

#: how many newcomers may take the lock before the head of the queue, see the module's docstring
OVERTAKE_LIMIT = 64


class _Entry:
    """A thread in the queue."""

    __slots__ = ("granted", "kind", "signalled", "waiter")

    def __init__(self, kind: int, waiter: Parker) -> None:
        #: position of the kind's lock counter in a slot: READ_LOCKS, SEEK_LOCKS or WRITE_LOCKS
        self.kind = kind
        self.waiter = waiter
        #: `waiter.wake` was called, or is about to be, and the thread has not looked yet
        self.signalled = False
        #: the lock is the thread's already
        self.granted = False


class SeekLock:
    """A lock with readers, one seeker and one writer. See the module's docstring.

    Slot positions: 0/1 read locks/unlocks, 2/3 seek, 4/5 write, 6 failed upgrades.
    """

    __slots__ = (
        "_bars",
        "_enter",
        "_guard",
        "_leave",
        "_overtaken",
        "_queue",
        "_readers",
        "_seeker",
        "_slots",
        "_upgrader",
        "_writer",
        "label",
        "waiter_factory",
    )

    def __init__(self, label: LockLabel) -> None:
        self.label = label
        self._slots = slots_of(label)
        self._guard = allocate_lock()
        self._enter = self._guard.acquire
        self._leave = self._guard.release
        self._readers = 0
        self._seeker = False
        self._writer = False
        #: the seeker that waits for the readers to leave
        self._upgrader: Parker | None = None
        #: reasons to let no new reader in: the writer, an upgrading seeker, each queued writer
        self._bars = 0
        #: in order of arrival
        self._queue: deque[_Entry] = deque()
        #: newcomers that took the lock while the present head of the queue stood there
        self._overtaken = 0
        self.waiter_factory: Callable[[], Parker] = Waiter

    # -- taking ---------------------------------------------------------------------------------

    def take_read(self, tid: int) -> None:
        """U, R or S -> one more reader; waits for a writer, and behind a waiting one."""
        if not self._enter(False):
            self._enter_slow(tid, READ_WAITS)
        if self._bars:
            self._take_slow(tid, READ_LOCKS, READ_WAITS)
        else:
            self._readers += 1
            self._leave()
            self._slots[tid][0] += 1

    def take_seek(self, tid: int) -> None:
        """U or R -> S; waits for a seeker or a writer."""
        if not self._enter(False):
            self._enter_slow(tid, SEEK_WAITS)
        if self._seeker or self._writer or self._queue:
            self._take_slow(tid, SEEK_LOCKS, SEEK_WAITS)
        else:
            self._seeker = True
            self._leave()
            self._slots[tid][2] += 1

    def take_write(self, tid: int) -> None:
        """U -> W; waits for everybody else."""
        if not self._enter(False):
            self._enter_slow(tid, WRITE_WAITS)
        if self._writer or self._readers or self._seeker or self._queue:
            self._take_slow(tid, WRITE_LOCKS, WRITE_WAITS)
        else:
            self._writer = True
            self._bars += 1
            self._leave()
            self._slots[tid][4] += 1

    def try_take_read(self, tid: int) -> bool:
        """Like take_read, but gives up instead of waiting."""
        if not self._enter(False):
            self._enter_slow(tid, READ_WAITS)
        if self._bars:
            self._leave()
            return False
        self._readers += 1
        self._leave()
        self._slots[tid][0] += 1
        return True

    def try_take_seek(self, tid: int) -> bool:
        """Like take_seek, but gives up instead of waiting."""
        if not self._enter(False):
            self._enter_slow(tid, SEEK_WAITS)
        if self._seeker or self._writer or self._queue:
            self._leave()
            return False
        self._seeker = True
        self._leave()
        self._slots[tid][2] += 1
        return True

    def try_take_write(self, tid: int) -> bool:
        """Like take_write, but gives up instead of waiting."""
        if not self._enter(False):
            self._enter_slow(tid, WRITE_WAITS)
        if self._writer or self._readers or self._seeker or self._queue:
            self._leave()
            return False
        self._writer = True
        self._bars += 1
        self._leave()
        self._slots[tid][4] += 1
        return True

    # -- dropping -------------------------------------------------------------------------------

    def drop_read(self, tid: int) -> None:
        """One reader less; the last one lets an upgrading seeker, or the queue, go on."""
        self._slots[tid][1] += 1
        if not self._enter(False):
            self._enter_slow(tid, READ_WAITS)
        self._readers -= 1
        if self._readers or not (self._upgrader or self._queue):
            self._leave()
        else:
            self._let_in()

    def drop_seek(self, tid: int) -> None:
        """S -> U or R."""
        self._slots[tid][3] += 1
        if not self._enter(False):
            self._enter_slow(tid, SEEK_WAITS)
        self._seeker = False
        if self._queue:
            self._let_in()
        else:
            self._leave()

    def drop_write(self, tid: int) -> None:
        """W -> U."""
        self._slots[tid][5] += 1
        if not self._enter(False):
            self._enter_slow(tid, WRITE_WAITS)
        self._writer = False
        self._bars -= 1
        if self._queue:
            self._let_in()
        else:
            self._leave()

    # -- transitions ----------------------------------------------------------------------------

    def try_read_to_seek(self, tid: int) -> bool:
        """R -> S if there is no seeker; whether it did. On False the caller still holds R."""
        slot = self._slots[tid]
        if not self._enter(False):
            self._enter_slow(tid, SEEK_WAITS)
        if self._seeker:
            self._leave()
            slot[6] += 1
            return False
        self._readers -= 1
        self._seeker = True
        self._leave()
        slot[1] += 1
        slot[2] += 1
        return True

    def seek_to_write(self, tid: int) -> None:
        """S -> W; waits for the readers to leave, and lets no new ones in meanwhile."""
        slot = self._slots[tid]
        slot[3] += 1
        if not self._enter(False):
            self._enter_slow(tid, WRITE_WAITS)
        self._bars += 1
        if self._readers:
            waiter = self._upgrader = self.waiter_factory()
            self._leave()
            start = perf_counter_ns()
            waiter.wait()
            record_wait(slot, self.label, WRITE_WAITS, perf_counter_ns() - start)
        else:
            self._seeker = False
            self._writer = True
            self._leave()
        slot[4] += 1

    def write_to_seek(self, tid: int) -> None:
        """W -> S; waiting readers come in."""
        slot = self._slots[tid]
        slot[5] += 1
        if not self._enter(False):
            self._enter_slow(tid, SEEK_WAITS)
        self._writer = False
        self._seeker = True
        self._bars -= 1
        if self._queue:
            self._let_in()
        else:
            self._leave()
        slot[2] += 1

    def write_to_read(self, tid: int) -> None:
        """W -> R; waiting readers, and one waiting seeker, come in."""
        slot = self._slots[tid]
        slot[5] += 1
        if not self._enter(False):
            self._enter_slow(tid, READ_WAITS)
        self._writer = False
        self._readers += 1
        self._bars -= 1
        if self._queue:
            self._let_in()
        else:
            self._leave()
        slot[0] += 1

    def seek_to_read(self, tid: int) -> None:
        """S -> R; one waiting seeker comes in."""
        slot = self._slots[tid]
        slot[3] += 1
        if not self._enter(False):
            self._enter_slow(tid, READ_WAITS)
        self._seeker = False
        self._readers += 1
        if self._queue:
            self._let_in()
        else:
            self._leave()
        slot[0] += 1

    # -- waiting --------------------------------------------------------------------------------

    def _enter_slow(self, tid: int, waits: int) -> None:
        """Wait for the guard; that is waiting for the lock, and counted as such."""
        start = perf_counter_ns()
        self._enter()
        record_wait(self._slots[tid], self.label, waits, perf_counter_ns() - start)

    def _take_slow(self, tid: int, kind: int, waits: int) -> None:
        """Overtake the queue if that is allowed, else join it and block. Entered with the guard."""
        if self._overtaken < OVERTAKE_LIMIT and self._is_free_for(kind):
            self._overtaken += 1
            self._admit(kind)
            self._leave()
            self._slots[tid][kind] += 1
            return
        entry = _Entry(kind, self.waiter_factory())
        self._queue.append(entry)
        if kind == WRITE_LOCKS:
            self._bars += 1
        self._leave()
        start = perf_counter_ns()
        while True:
            entry.waiter.wait()
            self._enter()
            if entry.granted:
                break
            if self._is_free_for(kind):
                self._unqueue(entry)
                self._admit(kind)
                break
            # overtaken: sleep again, at the same place in the queue
            entry.waiter = self.waiter_factory()
            entry.signalled = False
            self._leave()
        self._leave()
        slot = self._slots[tid]
        record_wait(slot, self.label, waits, perf_counter_ns() - start)
        slot[kind] += 1

    def _is_free_for(self, kind: int) -> bool:
        """The compatibility matrix, and an upgrading seeker that lets no reader in."""
        if self._writer:
            return False
        if kind == READ_LOCKS:
            return self._upgrader is None
        if kind == SEEK_LOCKS:
            return not self._seeker
        return not (self._readers or self._seeker)

    def _admit(self, kind: int) -> None:
        if kind == READ_LOCKS:
            self._readers += 1
        elif kind == SEEK_LOCKS:
            self._seeker = True
        else:
            self._writer = True
            self._bars += 1

    def _unqueue(self, entry: _Entry) -> None:
        if self._queue[0] is entry:
            self._overtaken = 0
            self._queue.popleft()
        else:
            self._queue.remove(entry)
        if entry.kind == WRITE_LOCKS:
            self._bars -= 1

    def _let_in(self) -> None:
        """After something was released: wake those who can go on. Leaves the guard."""
        woken: list[Parker] = []
        if self._upgrader is not None:
            if not self._readers:
                woken.append(self._upgrader)
                self._upgrader = None
                self._seeker = False
                self._writer = True  # its bar stays, now as the writer's
        else:
            chosen = self._next_ones()
            if self._overtaken >= OVERTAKE_LIMIT:
                for entry in chosen:
                    self._unqueue(entry)
                    self._admit(entry.kind)
                    entry.granted = True
            for entry in chosen:
                if not entry.signalled:
                    entry.signalled = True
                    woken.append(entry.waiter)
        self._leave()
        for waiter in woken:
            waiter.wake()

    def _next_ones(self) -> list[_Entry]:
        """Who can have the lock now together, in the order of the queue."""
        chosen: list[_Entry] = []
        seeker = self._seeker
        if self._writer or self._upgrader is not None:
            return chosen
        for entry in self._queue:
            if entry.kind == WRITE_LOCKS:
                if not (self._readers or seeker or chosen):
                    chosen.append(entry)
                break
            if entry.kind == READ_LOCKS:
                chosen.append(entry)
            elif not seeker:
                seeker = True
                chosen.append(entry)
            # else a second seeker: readers behind it may still pass
        return chosen

    # -- inspection -----------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """U, R, S or W at the moment of the call; for messages and tests."""
        if self._writer:
            return "W"
        if self._seeker:
            return "S"
        return "R" if self._readers else "U"

    def __repr__(self) -> str:
        return (
            f"<SeekLock {self.label.name} {self.state} readers={self._readers}"
            f" waiting={len(self._queue)}>"
        )

    def _check(self) -> None:
        """Assert the invariants; any thread, at any time."""
        self._enter()
        try:
            kinds = [entry.kind for entry in self._queue]
            assert self._readers >= 0, self
            assert not (self._writer and (self._readers or self._seeker)), self
            assert self._upgrader is None or (self._seeker and self._readers), self
            bars = kinds.count(WRITE_LOCKS) + self._writer + (self._upgrader is not None)
            assert self._bars == bars, (self, self._bars, bars)
            assert not any(entry.granted for entry in self._queue), self
            assert 0 <= self._overtaken <= OVERTAKE_LIMIT, self
            assert self._queue or not self._overtaken, self
            # nobody sleeps who could have the lock
            assert all(entry.signalled for entry in self._next_ones()), self
        finally:
            self._leave()
