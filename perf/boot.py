"""Boot: what `maxconn` costs at the start, with the table of descriptors scanned in full or not.

From exec to the answer to `show version`. The client is there first: its connection and its command
wait in an inherited runtime socket, so nothing is polled.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence

from mtproxy.testing import procfs
from mtproxy.testing.program import Program
from perf import clients
from perf.http import TIMEOUTS
from perf.results import Ratio, Series, interleave, number, ratio
from perf.suite import Benchmark, Outcome, Say, pick, series_of

FEW, MANY = 1_000, 2_000_000
HIGHEST, FULL = "highest", "full"
THREADS = (1, 2, 8, 64)
UNITS = {"start": "ms", "CPU": "ms", "memory": "MB"}

#: how much longer the start may take with MANY than with FEW, and how much more memory
MOST_MS = 10.0
MOST_MB = 40.0


def config(threads: int, maxconn: int, scan: str | None) -> str:
    """`no strict-limits`: where the system allows fewer descriptors the tables are made all the
    same. `scan` None: for HAProxy, which has no such keyword.
    """
    tune = f"    tune.fd.scan {scan}\n" if scan else ""
    return f"""
    stats socket "fd@${{cli}}" level admin
    nbthread {threads}
    maxconn {maxconn}
    no strict-limits
{tune}defaults
    mode http
    {TIMEOUTS}
listen l
    bind "fd@${{fe}}"
    server s1 127.0.0.1:9
"""


def name_of(threads: int, maxconn: int, scan: str | None) -> str:
    """The name of a variant."""
    how = f"scan {scan}" if scan else "haproxy"
    return f"{threads} thread{'s' * (threads > 1)}, maxconn {maxconn:,}, {how}"


def measure(program: str, text: str) -> dict[str, float]:
    """One start."""
    proxy = Program(program, text)
    begin = time.monotonic()
    with proxy, proxy.connect("cli", seconds=120) as wire:
        wire.send(b"show version\n")
        answer = wire.read_to_end()
        took = time.monotonic() - begin
        spent, _ = procfs.thread_seconds(proxy.pid)
        memory = proxy.rss()
        if not answer.strip():
            raise clients.BadLoad(f"no answer to show version:\n{proxy.output()}")
    return {"start": took * 1000, "CPU": spent * 1000, "memory": memory / 1e6}


def boot(options: argparse.Namespace, say: Say) -> Outcome:
    """Starts with few and many connections, with both ways to scan, in turns."""
    variants: dict[str, tuple[str, str]] = {}
    for threads in options.threads:
        for maxconn, scan in ((FEW, HIGHEST), (options.maxconn, HIGHEST), (options.maxconn, FULL)):
            text = config(threads, maxconn, scan)
            variants[name_of(threads, maxconn, scan)] = (options.program, text)
        if options.against:
            text = config(threads, options.maxconn, None)
            variants[name_of(threads, options.maxconn, None)] = (options.against, text)
    first = next(iter(variants.values()))
    measure(*first)  # files come from the disk, bytecode is written
    found = interleave(list(variants), options.rounds, lambda name: measure(*variants[name]), say)
    series = series_of(found, UNITS)
    cores = len(os.sched_getaffinity(0))
    ratios = [
        one
        for threads in options.threads
        for one in compared(series, threads, options.maxconn, over=threads > cores)
    ]
    settings: dict[str, object] = {
        "program": options.program,
        "rounds": options.rounds,
        "threads": options.threads,
        "config": config(1, options.maxconn, HIGHEST),
    }
    return Outcome(series, ratios, settings, notes(series, options.threads, options.maxconn))


def compared(series: Sequence[Series], threads: int, maxconn: int, *, over: bool) -> list[Ratio]:
    """The goals, and the full scan against the short one."""
    few, many, full = (
        {metric: pick(series, name_of(threads, *which), metric) for metric in UNITS}
        for which in ((FEW, HIGHEST), (maxconn, HIGHEST), (maxconn, FULL))
    )
    mark = f"{threads} thread{'s' * (threads > 1)}{' (over-subscribed)' * over}"
    return [
        growth(f"start, {mark}: growth by maxconn / {MOST_MS:g} ms", many, few, "start", MOST_MS),
        growth(f"memory, {mark}: growth by maxconn / {MOST_MB:g} MB", many, few, "memory", MOST_MB),
        growth(f"CPU, {mark}: growth by maxconn / {MOST_MS:g} ms", many, few, "CPU", MOST_MS),
        ratio(f"start, {mark}: scan full / highest", full["start"], many["start"]),
        ratio(f"CPU, {mark}: scan full / highest", full["CPU"], many["CPU"]),
    ]


def growth(
    name: str, many: dict[str, Series], few: dict[str, Series], metric: str, allowed: float
) -> Ratio:
    """How much of what is allowed the difference takes, round by round."""
    pairs = zip(many[metric].values, few[metric].values, strict=True)
    return Ratio(name, tuple((a - b) / allowed for a, b in pairs), 1.0)


def notes(series: Sequence[Series], counts: Sequence[int], maxconn: int) -> list[str]:
    """What one more thread costs."""
    least, most = min(counts), max(counts)
    if least == most:
        return []
    texts = []
    for scan in (HIGHEST, FULL):
        low, high = (pick(series, name_of(n, maxconn, scan), "CPU") for n in (least, most))
        each = (high.median - low.median) / (most - least)
        texts.append(f"scan {scan}: each thread more takes {number(each)} ms of CPU to start")
    return texts


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--program", default="mtproxy", help="mtproxy, or a path (mtproxy)")
    parser.add_argument(
        "--against", default="haproxy", help="shown beside it; an empty word: nothing (haproxy)"
    )
    parser.add_argument(
        "--threads", type=int, nargs="+", default=list(THREADS), help="nbthread (1 2 8 64)"
    )
    parser.add_argument("--maxconn", type=int, default=MANY, help=f"many connections ({MANY})")


BENCHMARK = Benchmark(
    "boot",
    "what maxconn 2000000 costs at the start: time, CPU, memory; by threads and way to scan",
    boot,
    _options,
    lambda options: [p for p in (options.program, options.against) if p == "haproxy"],
    rounds=9,
)
