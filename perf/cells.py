"""Compare-and-swap in Python: the emulations against each other and against a native one.

The operation is the one that log sampling needs: read the value, work out the next one, exchange,
and again if another thread was faster. All threads use one cell, which is the worst case. Beside
it stand a bare counter (`next(itertools.count())`), which needs no exchange, and an atomic of a
package with native code, a yardstick only: it is installed into a folder that is thrown away, if
it installs and leaves the global interpreter lock off; otherwise the notes say why it is missing.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from mtproxy.sync.cells import AtomicCell, ChainCell, LockedCell
from mtproxy.sync.counters import Counter
from mtproxy.sync.labels import LockLabel
from mtproxy.sync.stats import snapshot_of
from perf.results import interleave, ratio
from perf.suite import Benchmark, Outcome, Say, pick, positive, series_of
from perf.workers import together

#: the package with native atomics, in a version that was tried
PACKAGE, VERSION = "cereggii", "1.0.0.post1"
NATIVE = f"{PACKAGE} AtomicInt64"
COUNTER = "Counter"

#: what a thread does, and a check of what all have done
type Job = tuple[Callable[[int, int], Callable[[], None]], Callable[[int], None]]


def _exchanges(cell: AtomicCell[int]) -> Job:
    def prepare(tid: int, times: int) -> Callable[[], None]:
        load, exchange = cell.load, cell.compare_exchange

        def work() -> None:
            for _ in range(times):
                while True:
                    value = load()
                    if exchange(value, value + 1, tid):
                        break

        return work

    def check(total: int) -> None:
        if cell.load() != total:
            raise RuntimeError(f"{type(cell).__name__} counted {cell.load()} instead of {total}")

    return prepare, check


def _native_exchanges(cell: Any) -> Job:
    def prepare(_tid: int, times: int) -> Callable[[], None]:
        load, exchange = cell.get, cell.compare_and_set

        def work() -> None:
            for _ in range(times):
                while True:
                    value = load()
                    if exchange(value, value + 1):
                        break

        return work

    def check(total: int) -> None:
        if cell.get() != total:
            raise RuntimeError(f"{NATIVE} counted {cell.get()} instead of {total}")

    return prepare, check


def _counts(counter: Counter) -> Job:
    def prepare(_tid: int, times: int) -> Callable[[], None]:
        following = counter.next

        def work() -> None:
            for _ in range(times):
                following()

        return work

    def check(total: int) -> None:
        found = counter.next()
        if found != total:
            raise RuntimeError(f"Counter counted {found} instead of {total}")

    return prepare, check


def install(folder: str) -> Any:
    """The native package's module from `folder`. Raises RuntimeError with the reason if not."""
    # no dependencies: they are for parts that are not used here
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["--only-binary", ":all:", "--target", folder, f"{PACKAGE}=={VERSION}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        raise RuntimeError("pip took more than two minutes") from None
    if done.returncode:
        raise RuntimeError(f"pip: {done.stderr.strip().splitlines()[-1]}")
    # in a process of its own first: a module that wants the lock turns it on for good
    code = f"import sys; import {PACKAGE}; print(getattr(sys, '_is_gil_enabled', bool)())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": folder},
    )
    if done.returncode:
        raise RuntimeError(f"its import fails: {done.stderr.strip().splitlines()[-1]}")
    if done.stdout.strip() == "True":
        raise RuntimeError("its import turns the global interpreter lock on")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(PACKAGE)
    finally:
        sys.path.remove(folder)


def run(options: argparse.Namespace, say: Say) -> Outcome:
    """Every kind of cell with every number of threads, in every round."""
    notes: list[str] = []
    makes: dict[str, Callable[[], Job]] = {
        "LockedCell": lambda: _exchanges(LockedCell(0)),
        "ChainCell": lambda: _exchanges(ChainCell(0)),
        COUNTER: lambda: _counts(Counter()),
    }
    with ExitStack() as stack:
        if options.native:
            try:
                module = install(stack.enter_context(tempfile.TemporaryDirectory()))
            except RuntimeError as error:
                notes.append(f"without {NATIVE}: {error}")
            else:
                makes[NATIVE] = lambda: _native_exchanges(module.AtomicInt64(0))
        variants = {f"{n} thr {name}": (n, name) for n in options.threads for name in makes}

        def measure(variant: str) -> dict[str, float]:
            threads, name = variants[variant]
            each = options.exchanges // threads
            prepare, check = makes[name]()
            spent = together(threads, lambda tid: prepare(tid, each))
            check(each * threads)
            total = each * threads
            return {"CPU": spent.cpu_seconds / total * 1e9, "rate": total / spent.seconds}

        waited = snapshot_of(LockLabel.CELL).write_waits
        found = interleave(list(variants), options.rounds, measure, say)
        waited = snapshot_of(LockLabel.CELL).write_waits - waited
    series = series_of(found, {"CPU": "ns/exchange", "rate": "exchanges/s"})
    ratios = [
        ratio(
            f"CPU, {n} thr: {name} / LockedCell",
            pick(series, f"{n} thr {name}", "CPU"),
            pick(series, f"{n} thr LockedCell", "CPU"),
        )
        for n in options.threads
        for name in makes
        if name != "LockedCell"
    ]
    notes.append(f"a LockedCell's mutex was waited for {waited:,} times")
    settings: dict[str, object] = {
        "rounds": options.rounds,
        "exchanges": options.exchanges,
        "native": f"{PACKAGE} {VERSION}" if NATIVE in makes else "absent",
    }
    return Outcome(series, ratios, settings, notes)


def _exchange_count(text: str) -> int:
    return max(1000, int(positive(text)))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--exchanges", type=_exchange_count, default=200_000, help="of one round (200000)"
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4], help="(1 2 4)")
    parser.add_argument(
        "--no-native", dest="native", action="store_false", help="do not install the yardstick"
    )


BENCHMARK = Benchmark(
    "cells",
    "compare-and-swap: the emulations, a bare counter, and a native atomic as a yardstick",
    run,
    _options,
)
