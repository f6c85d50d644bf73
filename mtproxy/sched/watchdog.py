"""The watchdog: a thread that notices when a loop has made no progress.

It samples each thread's loop counter. A thread that is not waiting in its poll and has not
finished a turn for `limit_ms` is reported once, with the Python stacks of all threads
(`faulthandler` stops the world for that, which is the only safe way on a free-threaded build).
It is reported again when it moves on. Nothing is killed: in Python a long turn is a slow piece of
code, not a dead lock on an interrupt.

Reads `activity.loops` and `shared.sleeping` of other threads: single loads, no lock.
"""

from __future__ import annotations

import _thread
import faulthandler
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from mtproxy.base.clock import monotonic_ms
from mtproxy.base.report import say
from mtproxy.base.stderr import write_error

if TYPE_CHECKING:
    from mtproxy.sched.context import ThreadContext


class Watchdog:
    """`limit_ms` 0 turns it off."""

    def __init__(
        self, contexts: Sequence[ThreadContext], limit_ms: int, out: TextIO | None = None
    ) -> None:
        self.contexts = contexts
        self.limit_ms = limit_ms
        self.out = out
        self.reports = 0
        self._seen = [(-1, 0)] * len(contexts)
        self._stuck = [False] * len(contexts)
        #: held until `stop`, and while the thread runs
        self._go_on = _thread.allocate_lock()
        self._running = _thread.allocate_lock()
        #: the thread's identifier, None while it does not run
        self.ident: int | None = None

    def start(self) -> None:
        if self.limit_ms > 0:
            self._go_on.acquire()
            self._running.acquire()
            # Not a threading.Thread, whose wait costs six frames in every dump of a profile.
            self.ident = _thread.start_new_thread(self._run, ())

    def stop(self) -> None:
        """End the thread; waits for a second at most. One thread at a time, any number of times."""
        if self.ident is not None and not self.ended:
            if self._go_on.locked():
                self._go_on.release()
            if self._running.acquire(timeout=1):
                self._running.release()

    @property
    def ended(self) -> bool:
        """Whether the thread does not run, or not any more."""
        return not self._running.locked()

    def _run(self) -> None:
        while not self._go_on.acquire(timeout=self.limit_ms / 4000):
            self.look(monotonic_ms())
        self._running.release()

    def look(self, now: int) -> None:
        """Compare every thread with what was seen before; report the ones that stand still."""
        for i, ctx in enumerate(self.contexts):
            loops = ctx.activity.loops
            last, since = self._seen[i]
            if loops != last or ctx.shared.sleeping or ctx.shared.stopped:
                if self._stuck[i]:
                    self._stuck[i] = False
                    self._say(f"thread {i + 1} makes progress again")
                self._seen[i] = (loops, now)
            elif not self._stuck[i] and now - since >= self.limit_ms:
                self._stuck[i] = True
                self.reports += 1
                tasklet = ctx.running
                what = f" while running '{tasklet.name}'" if tasklet is not None else ""
                self._say(
                    f"thread {i + 1} has made no progress for {now - since} ms{what}; "
                    "stacks of all threads follow"
                )
                self._dump_stacks()

    def _dump_stacks(self) -> None:
        """By way of a file in memory: with the world stopped, nobody may wait for a reader."""
        with open(os.memfd_create("stacks"), "w+", encoding="utf-8", errors="replace") as stacks:
            faulthandler.dump_traceback(file=stacks, all_threads=True)
            stacks.seek(0)
            self._write(stacks.read())

    def _say(self, text: str) -> None:
        say("warning", f"watchdog: {text}", self.out)

    def _write(self, text: str) -> None:
        if self.out is None:
            write_error(text)
        else:
            self.out.write(text)
            self.out.flush()
