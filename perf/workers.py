"""Threads of this process that do one piece of work at the same time, and what that cost."""

from __future__ import annotations

import dataclasses
import gc
import threading
import time
from collections.abc import Callable

from mtproxy.sync import stats


@dataclasses.dataclass(frozen=True, slots=True)
class Spent:
    """`seconds` from the first start to the last end; `cpu_seconds` of all threads together."""

    seconds: float
    cpu_seconds: float


def together(count: int, prepare: Callable[[int], Callable[[], None]]) -> Spent:
    """Each of `count` threads calls `prepare(tid)`; when all have, they run what they got at once.

    What a thread prepares belongs to it, as the runtime objects of the proxy's threads do. The
    garbage collector does not run meanwhile: it would stop all threads at moments of its own.
    """
    stats.configure(count)
    barrier = threading.Barrier(count)
    begins, ends, cpu = [0.0] * count, [0.0] * count, [0.0] * count
    failures: list[BaseException] = []

    def run(tid: int) -> None:
        try:
            stats.adopt(tid)
            work = prepare(tid)
            barrier.wait(60)
            begins[tid], before = time.perf_counter(), time.thread_time()
            work()
            ends[tid], cpu[tid] = time.perf_counter(), time.thread_time() - before
        except BaseException as error:  # noqa: BLE001 - raised again below
            failures.append(error)
            barrier.abort()

    gc.collect()
    gc.disable()
    try:
        threads = [threading.Thread(target=run, args=(tid,)) for tid in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.enable()
    if failures:
        raise failures[0]
    return Spent(max(ends) - min(begins), sum(cpu))
