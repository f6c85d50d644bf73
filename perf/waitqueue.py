"""The global wait queue alone: threads that poll it while timers expire as fast as it can go.

A thread's turn is the loop's: look at the next expiry and wait for it in the poller, unless it has
come; collect what is due; queue each task anew, an interval ahead; some work of its own. 2,000
timers ask for more expiries than any machine gives, so something is due all the time, and a look
finds either a batch of due timers or another thread at it.

What is measured, as CPU time of all threads (time asleep on a lock is not in it):

- scan: looking and collecting, for each expiry. Where `queue` only logs its calls, the collector
  works them in; that is queueing and not in here.
- queueing: the calls of `queue`, and the working in of the log.
- all: both.

The poller and the work of a turn are in none of them. A thread reads its CPU clock at the borders
of these parts, up to five times in a turn.

Besides the three variants of `tune.wait-queue` there are the steps between them: `seek, each` is
HAProxy's published change (an upgrade for each entry, looks under R), `write, once` has plain write
locks, but one for a pass, and looks without a lock.
"""

from __future__ import annotations

import argparse
import gc
import os
import select
import sys
import threading
import time
from time import monotonic_ns, thread_time_ns
from typing import Any

from mtproxy.sched.pool import DEFAULT_WAIT_QUEUE_BUDGET
from mtproxy.sched.waitqueue import WaitQueue, WaitQueueBase
from mtproxy.sched.waitqueue_variants import MutexWaitQueue, WriteWaitQueue
from mtproxy.sync import stats
from mtproxy.sync.labels import LockLabel
from perf.results import Ratio, interleave, ratio
from perf.suite import Benchmark, Outcome, Say, add_seconds, pick, positive, series_of

#: what the scan may cost with seek, compared with write, at two and more threads
MOST_SCAN = 0.5


class Timer:
    """The least that the queue needs of a task."""

    __slots__ = ("expire", "wq_key")

    def __init__(self) -> None:
        self.expire: int | None = None
        self.wq_key: tuple[int, int] | None = None


class Seek(WaitQueue[Timer]):
    """`seek`, which measures the part of a pass that is queueing."""

    __slots__ = ("worked_in_ns",)

    def __init__(self) -> None:
        super().__init__()
        self.worked_in_ns = 0  # changed under W

    def _work_in(self) -> None:
        begin = thread_time_ns()
        super()._work_in()
        self.worked_in_ns += thread_time_ns() - begin


class SeekEach(WriteWaitQueue[Timer]):
    """R for a look, S for the scan, up to W and back for each entry; queueing under W."""

    __slots__ = ()

    def collect(self, now: int, tid: int, budget: int = 32) -> list[Timer]:
        tasks: list[Timer] = []
        lock = self.lock
        lock.take_read(tid)
        if self.next_tick > now or not lock.try_read_to_seek(tid):
            lock.drop_read(tid)
            return tasks
        for _ in range(budget):
            if self.next_tick > now:
                break
            lock.seek_to_write(tid)
            tasks += self._take_out(now, 1)
            lock.write_to_seek(tid)
        lock.drop_seek(tid)
        return tasks


class WriteOnce(WriteWaitQueue[Timer]):
    """One plain write lock for a pass, and no lock for a look; queueing under W."""

    __slots__ = ()

    PEEKS_LOCKED = False

    def collect(self, now: int, tid: int, budget: int = 32) -> list[Timer]:
        if self.next_tick > now:
            return []
        self.lock.take_write(tid)
        try:
            return self._take_out(now, budget)
        finally:
            self.lock.drop_write(tid)


QUEUES: dict[str, type[WaitQueueBase[Any]]] = {
    "seek": Seek,
    "write": WriteWaitQueue,
    "mutex": MutexWaitQueue,
    "seek, each": SeekEach,
    "write, once": WriteOnce,
}

UNITS = {
    "rate": "expiries/s",
    "scan": "us/expiry",
    "queueing": "us/expiry",
    "all": "us/expiry",
    "share": "% of CPU",
    "looks": "per expiry",
    "waited": "ms",
    "waiting": "% of thread time",
    "per lock": "ns",
}


class Run:
    """Threads at one queue for some seconds."""

    def __init__(self, queue: WaitQueueBase[Timer], threads: int, inter: int, spin: int) -> None:
        self.queue = queue
        self.threads = threads
        self.inter = inter
        self.spin = spin
        self.stop = False
        self.gate = threading.Barrier(threads + 1)
        #: by thread: CPU in all, scanning, queueing (ns); expiries; looks
        self.found: list[tuple[int, int, int, int, int]] = []

    def body(self, tid: int, timers: list[Timer]) -> None:
        """A thread; it owns `timers` at first."""
        stats.adopt(tid)
        queue, inter = self.queue, self.inter
        begin = monotonic_ns() // 1_000_000
        for number, timer in enumerate(timers):
            queue.queue(timer, begin + number % inter, tid)
        peek = queue.next_expiry if queue.PEEKS_LOCKED else None
        own = range(self.spin)
        poller = select.epoll()
        scanning = queueing = expiries = looks = 0
        self.gate.wait()
        self.gate.wait()
        start = thread_time_ns()
        while not self.stop:
            looks += 1
            got: list[Timer] = []
            before = thread_time_ns()
            tick = queue.next_tick if peek is None else peek(tid)
            after = thread_time_ns()
            scanning += after - before
            # at most until a second is over, as the loop
            wait_ms = min(tick - monotonic_ns() // 1_000_000, 1000)
            poller.poll(wait_ms / 1000 if wait_ms > 0 else 0)
            now = monotonic_ns() // 1_000_000
            before = thread_time_ns()
            if peek is not None or queue.next_tick <= now:
                got = queue.collect(now, tid, DEFAULT_WAIT_QUEUE_BUDGET)
            after = thread_time_ns()
            scanning += after - before
            if got:
                expiries += len(got)
                for timer in got:
                    queue.queue(timer, now + inter, tid)
                before, after = after, thread_time_ns()
                queueing += after - before
            for _ in own:
                pass
        after = thread_time_ns()
        poller.close()
        self.found.append((after - start, scanning, queueing, expiries, looks))

    def measure(self, seconds: float, timers: int) -> dict[str, float]:
        """The metrics named in UNITS."""
        pool = [
            threading.Thread(
                target=self.body, args=(tid, [Timer() for _ in range(timers // self.threads)])
            )
            for tid in range(self.threads)
        ]
        for thread in pool:
            thread.start()
        self.gate.wait()
        gc.collect()
        gc.freeze()
        stats.reset(LockLabel.TASK_WQ)
        self.gate.wait()
        begin = time.monotonic()
        time.sleep(seconds)
        self.stop = True
        for thread in pool:
            thread.join()
        took = time.monotonic() - begin
        gc.unfreeze()
        self.queue._check()
        lock = stats.snapshot_of(LockLabel.TASK_WQ)
        cpu, scanning, queueing, expiries, looks = map(sum, zip(*self.found, strict=True))
        if not expiries:
            raise RuntimeError("no timer expired")
        worked_in = self.queue.worked_in_ns if isinstance(self.queue, Seek) else 0
        return {
            "rate": expiries / took,
            "scan": (scanning - worked_in) / expiries / 1e3,
            "queueing": (queueing + worked_in) / expiries / 1e3,
            "all": (scanning + queueing) / expiries / 1e3,
            "share": (scanning - worked_in) / cpu * 100,
            "looks": looks / expiries,
            "waited": lock.wait_ns / 1e6,
            "waiting": lock.wait_ns / (took * 1e9 * self.threads) * 100,
            "per lock": lock.wait_ns / lock.locks if lock.locks else 0.0,
        }


def spin_count(us: float) -> int:
    """How many turns of an empty loop take `us` microseconds of CPU here."""
    turns = 100_000
    best = min(_spin_ns(turns) for _ in range(5))
    return max(1, round(us * 1000 * turns / best))


def _spin_ns(turns: int) -> int:
    begin = thread_time_ns()
    for _ in range(turns):
        pass
    return thread_time_ns() - begin


def title_of(name: str, threads: int) -> str:
    """A variant's name, or the beginning of a ratio's."""
    return f"{name}, {threads} thread{'s' * (threads > 1)}"


def waitqueue(options: argparse.Namespace, say: Say) -> Outcome:
    """Each queue with each number of threads."""
    if sys._is_gil_enabled():
        raise RuntimeError("this needs a Python without the global interpreter lock")
    stats.configure(max(options.threads))
    spin = spin_count(options.work)
    variants = {title_of(name, n): (name, n) for n in options.threads for name in QUEUES}

    def measure(title: str) -> dict[str, float]:
        name, threads = variants[title]
        run = Run(QUEUES[name](), threads, options.inter, spin)
        return run.measure(options.seconds, options.timers)

    found = interleave(list(variants), options.rounds, measure, say)
    series = series_of(found, UNITS)
    cores = len(os.sched_getaffinity(0))

    def compare(metric: str, above: str, below: str, n: int, bound: float | None = None) -> Ratio:
        many = " (over-subscribed)" if n > cores else ""
        return ratio(
            f"{title_of(metric, n)}{many}: {above} / {below}",
            pick(series, title_of(above, n), metric),
            pick(series, title_of(below, n), metric),
            bound,
        )

    ratios = []
    for n in options.threads:
        ratios.append(compare("scan", "seek", "write", n, MOST_SCAN if n >= 2 else None))
        ratios.append(compare("all", "seek", "write", n))
        ratios.append(compare("rate", "seek", "write", n))
        ratios.append(compare("all", "seek", "mutex", n))
        ratios.append(compare("scan", "seek, each", "write", n))
        ratios.append(compare("scan", "write, once", "write", n))
    fit = max((n for n in options.threads if n <= cores), default=None)
    for n in options.threads:
        if fit is None or n <= cores:
            continue
        for name in ("seek", "write", "mutex"):
            for metric in ("rate", "all"):
                above, below = (pick(series, title_of(name, k), metric) for k in (n, fit))
                title = f"over-subscribed: {metric} of {name}, {n} threads / {fit}"
                ratios.append(ratio(title, above, below))
    settings: dict[str, object] = {
        name: getattr(options, name) for name in ("timers", "inter", "work", "rounds", "seconds")
    }
    notes = [
        "scan: looking and collecting; queueing: calls of queue() and the working in of their log; "
        "share: the scan's.",
    ]
    return Outcome(series, ratios, settings, notes)


def _options(parser: argparse.ArgumentParser) -> None:
    add_seconds(parser, 0.8)
    parser.add_argument(
        "--threads", type=int, nargs="+", default=[1, 2, 4, 8], help="numbers of threads (1 2 4 8)"
    )
    parser.add_argument("--timers", type=int, default=2000, help="timers (2000)")
    parser.add_argument("--inter", type=int, default=5, help="ms between a timer's expiries (5)")
    parser.add_argument(
        "--work", type=positive, default=10, help="us of other work in each turn (10)"
    )


BENCHMARK = Benchmark(
    "waitqueue",
    "the global wait queue under three kinds of locks: CPU of the scan, time waited",
    waitqueue,
    _options,
)
