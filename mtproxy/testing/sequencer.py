"""Sequencer: real threads in lock step, so that a test decides how they interleave.

A test starts threads with `spawn`. Each runs only when the test says so, and stops at its next
*point*: a call of `at(name)`, usually made by a method that `points` has wrapped. So a test brings
every thread exactly where the race is, without sleeping and without luck::

    with Sequencer() as seq:
        seq.points(WaitQueue, "unlink")
        seq.points(SeekLock, "seek_to_write")
        seq.spawn("a", queue.collect, 10, 0)
        seq.spawn("b", queue.unlink, task, 1)
        seq.run_to("a", "seek_to_write")     # a holds S and is about to upgrade
        assert seq.run_to("b", DONE) == DONE
        seq.finish()

At any time at most one thread runs. A thread that waits for a lock is `BLOCKED` when the lock's
waiters come from `Sequencer.waiter` (set `lock.waiter_factory`); when another thread wakes it, it
goes on to the point "woken" and stops there. A thread must not stop at a point while it holds
something that the sequencer cannot see others wait for, such as a plain mutex; the wait would end
with `SequenceError` after the deadline, naming where everybody stands.

`explore` runs a scenario once for each possible interleaving of its threads.

`at` and the waiters are called by the sequenced threads, everything else by the test's own thread.
Calls of wrapped methods by other threads pass straight through. One mutex guards all state.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from functools import wraps
from types import TracebackType
from typing import Any, Final, Self

from mtproxy.sync.parking import Parker

START: Final = "start"  # where a thread stands before its first instruction
WOKEN: Final = "woken"  # after a wait for a lock
BLOCKED: Final = "blocked"  # waits until another thread wakes it
DONE: Final = "done"
_RUNNING: Final = "running"


class SequenceError(AssertionError):
    """The threads did not go where the test sent them."""


class _Abort(BaseException):
    """Unwinds a stopped thread when the test is over."""


class _Actor:
    __slots__ = ("error", "name", "result", "stands", "thread")

    def __init__(self, name: str) -> None:
        self.name = name
        self.stands = START
        self.result: Any = None
        self.error: BaseException | None = None
        self.thread: threading.Thread | None = None


class Sequencer:
    """Runs threads one at a time, from point to point. See the module's docstring."""

    def __init__(self, deadline_s: float = 10.0) -> None:
        self._deadline_s = deadline_s
        self._changed = threading.Condition(threading.Lock())
        self._actors: dict[str, _Actor] = {}
        self._by_ident: dict[int, _Actor] = {}
        self._restore: list[tuple[Any, str, Any]] = []
        self._aborted = False
        #: every stop so far, as (thread, point): printed by a failing test
        self.trace: list[tuple[str, str]] = []

    # -- set-up, by the test --------------------------------------------------------------------

    def spawn(self, name: str, fn: Callable[..., Any], *args: Any) -> None:
        """Start a thread that will run `fn(*args)`; it stands at START."""
        if name in self._actors:
            raise ValueError(f"there is a thread {name!r} already")
        actor = self._actors[name] = _Actor(name)
        actor.thread = threading.Thread(
            target=self._body, args=(actor, fn, args), name=name, daemon=True
        )
        actor.thread.start()

    def points(self, owner: type, *names: str) -> None:
        """Make each named method of a class stop at a point of its name before it runs."""
        for name in names:
            self.wrap(owner, name, before=name)

    def wrap(
        self, owner: type, name: str, before: str | None = None, after: str | None = None
    ) -> None:
        """Make a method of a class stop before and after it runs, at the points named."""
        original = getattr(owner, name)

        @wraps(original)
        def stopping(*args: Any, **kwargs: Any) -> Any:
            if before is not None:
                self.at(before)
            result = original(*args, **kwargs)
            if after is not None:
                self.at(after)
            return result

        self._restore.append((owner, name, owner.__dict__.get(name)))
        setattr(owner, name, stopping)

    def waiter(self) -> Parker:
        """A waiter for a lock's `waiter_factory` that tells the sequencer who sleeps."""
        return _SequencedWaiter(self)

    # -- in the sequenced threads ---------------------------------------------------------------

    def at(self, point: str) -> None:
        """Stop here until the test lets the thread go on. Does nothing in other threads."""
        actor = self._by_ident.get(threading.get_ident())
        if actor is not None:
            with self._changed:
                self._stop(actor, point)

    def _body(self, actor: _Actor, fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._by_ident[threading.get_ident()] = actor
        try:
            with self._changed:
                self._wait_until(lambda: actor.stands == _RUNNING)
            actor.result = fn(*args)
        except _Abort:
            pass
        except BaseException as error:  # noqa: BLE001 - handed to the test by result() and finish()
            actor.error = error
        finally:
            del self._by_ident[threading.get_ident()]
            with self._changed:
                self._stand(actor, DONE)

    def _stand(self, actor: _Actor, point: str) -> None:
        actor.stands = point
        self.trace.append((actor.name, point))
        self._changed.notify_all()

    def _stop(self, actor: _Actor, point: str) -> None:
        self._stand(actor, point)
        self._wait_until(lambda: actor.stands == _RUNNING)

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        # no deadline of its own: the test's thread has one and aborts us
        self._changed.wait_for(lambda: condition() or self._aborted)
        if self._aborted:
            raise _Abort

    # -- the schedule, by the test --------------------------------------------------------------

    def step(self, name: str) -> str:
        """Let one thread go on to its next stop, and return where it stands then.

        It must stand at a point. Threads that it wakes come to stand at WOKEN meanwhile.
        """
        actor = self._actors[name]
        with self._changed:
            self._settle()
            if actor.stands in (BLOCKED, DONE):
                raise SequenceError(f"{name} cannot go on: {self._where()}")
            actor.stands = _RUNNING
            self._changed.notify_all()
            self._settle()
            return actor.stands

    def run_to(self, name: str, point: str) -> str:
        """Step one thread until it stands at `point` (or DONE, BLOCKED: says which)."""
        while True:
            stands = self.step(name)
            if stands in (point, DONE, BLOCKED):
                if stands != point and point not in (DONE, BLOCKED):
                    raise SequenceError(f"{name} did not come to {point}: {self._where()}")
                return stands

    def finish(self) -> None:
        """Run all threads to their ends, in turn, and raise the first error that one raised."""
        while self.ready():
            for name in self.ready():
                if self.stands(name) not in (BLOCKED, DONE):
                    self.step(name)
        if any(actor.stands != DONE for actor in self._actors.values()):
            raise SequenceError(f"blocked for ever: {self._where()}")
        for name in self._actors:
            self.result(name)

    def ready(self) -> list[str]:
        """The threads that can go on, in the order in which they were spawned."""
        with self._changed:
            self._settle()
        return [a.name for a in self._actors.values() if a.stands not in (BLOCKED, DONE)]

    def stands(self, name: str) -> str:
        """Where a thread stands: START, a point's name, WOKEN, BLOCKED or DONE."""
        with self._changed:
            self._settle()
        return self._actors[name].stands

    def result(self, name: str) -> Any:
        """What the thread's function returned; raises what it raised."""
        actor = self._actors[name]
        if actor.error is not None:
            raise actor.error
        if actor.stands != DONE:
            raise SequenceError(f"{name} is not done: {self._where()}")
        return actor.result

    def _settle(self) -> None:
        """Wait until nobody runs: neither whom the test let go on, nor whom someone has woken."""

        def all_stand() -> bool:
            return all(actor.stands != _RUNNING for actor in self._actors.values())

        if not self._changed.wait_for(all_stand, self._deadline_s):
            raise SequenceError(f"no progress: {self._where()}")

    def _where(self) -> str:
        stands = ", ".join(f"{actor.name} at {actor.stands}" for actor in self._actors.values())
        return f"{stands}; so far: {' '.join(f'{name}:{point}' for name, point in self.trace)}"

    # -- end ------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Restore the wrapped methods and end all threads, wherever they stand."""
        while self._restore:
            owner, name, original = self._restore.pop()
            if original is None:
                delattr(owner, name)  # it was inherited
            else:
                setattr(owner, name, original)
        unfinished = [a.name for a in self._actors.values() if a.stands != DONE]
        with self._changed:
            self._aborted = True
            self._changed.notify_all()
        until = time.monotonic() + self._deadline_s
        for actor in self._actors.values():
            assert actor.thread is not None
            actor.thread.join(max(0.0, until - time.monotonic()))
        stuck = [a.name for a in self._actors.values() if a.thread and a.thread.is_alive()]
        if error is None and (unfinished or stuck):
            raise SequenceError(f"left unfinished: {unfinished or stuck}; {self._where()}")


class _SequencedWaiter:
    """A waiter whose sleeping the sequencer knows."""

    __slots__ = ("_actor", "_open", "_sequencer")

    def __init__(self, sequencer: Sequencer) -> None:
        self._sequencer = sequencer
        self._open = False
        self._actor: _Actor | None = None

    def wait(self) -> None:
        sequencer = self._sequencer
        actor = sequencer._by_ident[threading.get_ident()]
        with sequencer._changed:
            if not self._open:
                self._actor = actor
                sequencer._stand(actor, BLOCKED)
                sequencer._wait_until(lambda: self._open)
            sequencer._stop(actor, WOKEN)

    def wake(self) -> None:
        sequencer = self._sequencer
        with sequencer._changed:
            assert not self._open, "a waiter is woken once"
            self._open = True
            if self._actor is not None:
                self._actor.stands = _RUNNING  # until it comes to stand at WOKEN
            sequencer._changed.notify_all()


def explore(scenario: Callable[[Sequencer], Callable[[], None]], at_most: int = 20_000) -> int:
    """Run a scenario once for every interleaving of its threads; returns how many there are.

    `scenario(seq)` builds fresh state, spawns threads, and returns a check that is called when all
    are done. A failure is raised with the schedule that led to it. SequenceError when there are
    more than `at_most` interleavings: make the scenario smaller.
    """
    runs = 0
    todo: list[list[str]] = [[]]
    while todo:
        prefix = todo.pop()
        runs += 1
        if runs > at_most:
            raise SequenceError(f"more than {at_most} interleavings")
        todo.extend(_run_one(scenario, prefix))
    return runs


def _run_one(
    scenario: Callable[[Sequencer], Callable[[], None]], prefix: Iterable[str]
) -> list[list[str]]:
    """Follow `prefix`, then always the first ready thread; return the branches not taken."""
    branches: list[list[str]] = []
    schedule: list[str] = []
    forced = list(prefix)
    with Sequencer() as seq:
        try:
            check = scenario(seq)
            while ready := seq.ready():
                if len(schedule) < len(forced):
                    choice = forced[len(schedule)]
                else:
                    choice = ready[0]
                    branches += [[*schedule, other] for other in ready[1:]]
                schedule.append(choice)
                seq.step(choice)
            seq.finish()
            check()
        except Exception as error:
            error.add_note(f"schedule: {' '.join(schedule)}")
            error.add_note(f"stops: {' '.join(f'{name}:{point}' for name, point in seq.trace)}")
            raise
    return branches
