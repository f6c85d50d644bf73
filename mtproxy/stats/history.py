"""The last minute of the threads and locks, a point each second, for the charts of the page.

`sample` is called once a second by one thread (thread 0's housekeeping). Readers on any thread copy
a deque, which is one atomic call; the figures of other threads are single loads.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mtproxy.sync import bare, stats
from mtproxy.sync.labels import LABELS

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtproxy.sched.pool import Pool

#: seconds that are kept
SPAN: Final = 60


@dataclass(frozen=True, slots=True)
class ThreadPoint:
    """One second of one thread. `busy` and `polling` are percentages of it; `turn_us` is the mean
    CPU time of a turn of its loop.
    """

    busy: float = 0.0
    polling: float = 100.0
    per_loop: float = 0.0
    loops: float = 0.0
    turn_us: float = 0.0


class History:
    """Points of each thread, and of each lock label: ms that threads waited for it in a second."""

    def __init__(self, pool: Pool, clock: Callable[[], float] = time.monotonic) -> None:
        self._pool = pool
        self._clock = clock
        self._threads: list[deque[ThreadPoint]] = [deque(maxlen=SPAN) for _ in range(pool.nbthread)]
        self._locks: dict[str, deque[float]] = {one.name: deque(maxlen=SPAN) for one in LABELS}
        self._seen: list[tuple[float, int, int, int]] = []
        self._waited: dict[str, int] = {}
        self._last = clock()

    def sample(self) -> None:
        """Take a point of everything."""
        now = self._clock()
        elapsed = max(now - self._last, 1e-3)
        self._last = now
        self._sample_threads(now)
        if bare.is_stripped():
            return
        for label in LABELS:
            waited = stats.totals_of(label).wait_ns
            before = self._waited.get(label.name, waited)
            self._waited[label.name] = waited
            self._locks[label.name].append((waited - before) / 1e6 / elapsed)

    def _sample_threads(self, now: float) -> None:
        first = not self._seen
        for tid, ctx in enumerate(self._pool.contexts):
            activity = ctx.activity
            found = (now, ctx.cpu_ns, activity.loops, activity.ctxsw)
            if first:
                self._seen.append(found)
                continue
            then, cpu, loops, tasklets = self._seen[tid]
            if found[1] == cpu and now - then < 2.0:
                continue  # it has not looked at its own clock since
            self._seen[tid] = found
            span = max(now - then, 1e-3)
            used, turns = found[1] - cpu, found[2] - loops
            busy = min(100.0, used / 1e7 / span)
            self._threads[tid].append(
                ThreadPoint(
                    busy,
                    100.0 - busy,
                    (found[3] - tasklets) / turns if turns else 0.0,
                    turns / span,
                    used / 1000 / turns if turns else 0.0,
                )
            )

    def threads(self) -> list[list[ThreadPoint]]:
        """By thread, the oldest point first."""
        return [list(points) for points in self._threads]

    def locks(self) -> dict[str, list[float]]:
        """By label, ms of waiting per second, the oldest first."""
        return {name: list(points) for name, points in self._locks.items()}

    def _check(self) -> None:
        """Raise AssertionError where an invariant does not hold (tests; the sampler at rest)."""
        assert len(self._threads) == self._pool.nbthread
        for points in self._threads:
            assert len(points) <= SPAN
            for point in points:
                assert 0.0 <= point.busy <= 100.0
                assert abs(point.busy + point.polling - 100.0) < 1e-6
                assert point.per_loop >= 0
                assert point.turn_us >= 0
        for waits in self._locks.values():
            assert len(waits) <= SPAN
            assert all(wait >= 0 for wait in waits)
