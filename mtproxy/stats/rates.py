"""Rates per second and highest values, by looking at the counters once a second.

Nothing is counted per request for this: `Rates.sample` runs about once a second on one thread
(thread 0's housekeeping), remembers every total and derives the rate of the second that has passed.
A reader gets a sliding value: what came since the last sample plus the fading rest of the second
before (the same estimate as HAProxy's frequency counters). Highest connection numbers are those
that a thread saw when it logged the end of a session (`Stream.note_loads`), exact but for what
other threads did in the last millisecond. Without a log they are the highest sampled sums: bursts
shorter than a second may be missed.

`sample` and `clear` belong to the sampling thread and the runtime socket; readers may be on any
thread: each entry is replaced as a whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mtproxy.stats.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Sample:
    """A total at `at` (seconds), the rate of the second before it, and the highest rate so far."""

    total: int
    at: float
    rate: float
    highest: float

    def next(self, total: int, now: float) -> Sample:
        elapsed = now - self.at
        rate = (total - self.total) / elapsed if elapsed > 0 else self.rate
        return Sample(total, now, rate, max(self.highest, rate))

    def current(self, total: int, now: float) -> float:
        """The rate per second at `now`."""
        elapsed = now - self.at
        since = total - self.total
        if elapsed >= 1.0:
            return since / elapsed
        return since + self.rate * (1.0 - elapsed)


Key = tuple[object, ...]


class Rates:
    """Samples of all totals that have a rate, by key: (proxy id, side or server id, name)."""

    def __init__(self, runtime: Runtime, clock: Callable[[], float] = time.monotonic) -> None:
        self._runtime = runtime
        self._clock = clock
        self._samples: dict[Key, Sample] = {}
        self._peaks: dict[Key, int] = {}
        self._start = clock()
        #: share of time the threads had nothing to do in the last second, 0..100
        self.idle_percent = 100
        self._cpu_seen: tuple[float, int] | None = None

    def sample(self) -> None:
        """Look at all totals. To be called about once a second, always by the same thread."""
        now = self._clock()
        samples = self._samples
        for key, total in self._totals():
            samples[key] = self._last(key).next(total, now)
        for key, current in self._gauges():
            if current > self._peaks.get(key, 0):
                self._peaks[key] = current
        self._sample_idle(now)

    def _sample_idle(self, now: float) -> None:
        contexts = self._runtime.pool.contexts
        used = sum(ctx.cpu_ns for ctx in contexts)
        if self._cpu_seen is not None:
            then, before = self._cpu_seen
            span = (now - then) * 1e9 * len(contexts)
            if span > 0:
                self.idle_percent = max(0, min(100, round(100 - 100 * (used - before) / span)))
        self._cpu_seen = (now, used)

    def _last(self, key: Key) -> Sample:
        return self._samples.get(key) or Sample(0, self._start, 0.0, 0.0)

    def rate(self, key: Key, total: int) -> int:
        """The current rate of the total that belongs to `key`, per second."""
        return round(self._last(key).current(total, self._clock()))

    def highest(self, key: Key, total: int) -> int:
        """The highest rate so far, the current one included."""
        last = self._last(key)
        return round(max(last.highest, last.current(total, self._clock())))

    def peak(self, key: Key, current: int, of_one_thread: int, in_all: int = 0) -> int:
        """The highest value of a gauge that was seen; at least 1 when `in_all` ever came."""
        return max(self._peaks.get(key, 0), current, of_one_thread, int(in_all > 0))

    def forget(self, proxy: int, server: int) -> None:
        """A server is gone, and its id may come again. On the sampling thread."""
        self._samples.pop((proxy, server, "cum_sess"), None)
        self._peaks.pop((proxy, server, "conn"), None)

    def clear(self) -> None:
        """Forget the highest values."""
        self._peaks.clear()
        for key, sample in list(self._samples.items()):
            self._samples[key] = Sample(sample.total, sample.at, sample.rate, 0.0)

    def _totals(self) -> Iterator[tuple[Key, int]]:
        for name, total in self.process_totals().items():
            yield (None, None, name), total
        for proxy in self._runtime.proxies:
            number = proxy.settings.id
            if proxy.frontends:
                sets = [f.counters for f in proxy.frontends]
                yield (number, "F", "cum_conn"), sum(c.cum_conn for c in sets)
                yield (number, "F", "cum_sess"), sum(c.cum_sess for c in sets)
                yield (number, "F", "cum_req"), sum(c.cum_req for c in sets)
            if proxy.backends:
                yield (number, "B", "cum_sess"), sum(b.sessions_so_far() for b in proxy.backends)
                for server in () if proxy.shared is None else proxy.shared.servers:
                    total = sum(c.cum_sess for c in server.side_counters)
                    yield (number, server.id, "cum_sess"), total

    def _gauges(self) -> Iterator[tuple[Key, int]]:
        for proxy in self._runtime.proxies:
            number = proxy.settings.id
            if proxy.frontends:
                yield (number, "F", "conn"), sum(f.counters.conn_cur for f in proxy.frontends)
            for listener in proxy.listeners:
                current = sum(c.conn_cur for c in listener.counters)
                yield (number, "L", listener.settings.id, "conn"), current
            if proxy.backends:
                yield (number, "B", "conn"), sum(b.counters.conn_cur for b in proxy.backends)
                for server in () if proxy.shared is None else proxy.shared.servers:
                    yield (number, server.id, "conn"), server.sessions()

    def process_totals(self) -> dict[str, int]:
        """Connections, sessions, requests and bytes sent since start, over all frontends."""
        sets = [f.counters for p in self._runtime.proxies for f in p.frontends]
        return {
            "cum_conn": sum(c.cum_conn for c in sets),
            "cum_sess": sum(c.cum_sess for c in sets),
            "cum_req": sum(c.cum_req for c in sets),
            "bytes_out": sum(c.bytes_out for c in sets),
        }
