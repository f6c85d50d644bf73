"""Run-queue depth: how many tasklets a turn of the loop should run at most.

The load of the published measurement: `balance leastconn`, one server, 1000 keep-alive connections.
Each variant is a running program; they take turns. The activity counters before and after a round
explain its figures: a turn is one poll and the tasklets that it runs.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from contextlib import ExitStack

from mtproxy.sched.runqueue import DEFAULT_RUNQUEUE_DEPTH
from mtproxy.testing import procfs
from mtproxy.testing.nginx import Nginx
from mtproxy.testing.program import Program
from mtproxy.testing.server import free_port
from perf import clients, plot
from perf.http import TIMEOUTS
from perf.results import Ratio, Series, interleave, number, ratio
from perf.suite import Benchmark, Outcome, Say, add_seconds, pick, series_of

DEPTHS = (8, 16, 32, 40, 48, 64, 200)
#: what was published: the first was up to 18 % faster than the second
PUBLISHED = (40, 200)
UNITS = {
    "CPU": "us/request",
    "rate": "requests/s",
    "mean": "ms",
    "p99": "ms",
    "per turn": "tasklets",
    "work left": "% of turns",
    "turn": "us CPU",
    "no CPU": "% of time",
}


def config(port: int, origin_port: int, threads: int, depth: int) -> str:
    """The configuration of one variant. The listener is its own: it needs a long queue."""
    return f"""
global
    nbthread {threads}
    tune.runqueue-depth {depth}
    maxconn 5000
defaults
    mode http
    {TIMEOUTS}
frontend fe
    bind 127.0.0.1:{port} backlog 4096
    default_backend be
backend be
    balance leastconn
    server s1 127.0.0.1:{origin_port} pool-purge-delay 1s
"""


def activity(proxy: Program) -> dict[str, int]:
    """The totals of `show activity`, mtproxy's or HAProxy's."""
    figures = {}
    for line in proxy.cli("show activity").splitlines():
        name, _, text = line.partition(": ")
        words = text.split()
        if words and words[0].isdigit():
            figures[name] = int(words[0])
    return figures


class Variant:
    """One running program."""

    def __init__(
        self, program: str, origin_port: int, threads: int, depth: int, connections: int
    ) -> None:
        self.threads = threads
        self.connections = connections
        self.port = free_port()
        self.proxy = Program(program, config(self.port, origin_port, threads, depth))

    def measure(self, seconds: float) -> dict[str, float]:
        pid = self.proxy.pid
        turns = activity(self.proxy)
        ran, waited = procfs.thread_seconds(pid)
        load = clients.wrk(self.port, "/small", seconds=seconds, connections=self.connections)
        ran, waited = (
            now - before
            for now, before in zip(procfs.thread_seconds(pid), (ran, waited), strict=True)
        )
        after = activity(self.proxy)
        done = {name: after[name] - turns[name] for name in ("loops", "ctxsw", "long_rq")}
        return {
            "CPU": ran / load.requests * 1e6,
            "rate": load.requests / load.seconds,
            "mean": load.mean_us / 1000,
            "p99": load.p99_us / 1000,
            "per turn": done["ctxsw"] / done["loops"],
            "work left": 100 * done["long_rq"] / done["loops"],
            "turn": ran / done["loops"] * 1e6,
            "no CPU": 100 * waited / (load.seconds * self.threads),
        }


def name_of(threads: int, depth: int) -> str:
    """The name of a variant."""
    return f"{threads} thread{'s' * (threads > 1)}, depth {depth}"


def runqueue(options: argparse.Namespace, say: Say) -> Outcome:
    """All depths with all numbers of threads, in turns."""
    depths = sorted({*options.depths, DEFAULT_RUNQUEUE_DEPTH})
    variants: dict[str, Variant] = {}
    repeated: list[str] = []
    with ExitStack() as stack:
        origin = stack.enter_context(Nginx())
        for threads in options.threads:
            for depth in depths:
                variant = Variant(options.program, origin.port, threads, depth, options.connections)
                stack.enter_context(variant.proxy)
                variant.proxy.wait_ready()
                variants[name_of(threads, depth)] = variant
        for variant in list(variants.values())[:: len(depths)]:
            variant.measure(1)  # the caches of the kernel and the origin server get warm

        def measure(name: str) -> dict[str, float]:
            try:
                return variants[name].measure(options.seconds)
            except clients.BadLoad as error:
                repeated.append(name)
                say(f"once more, {name}: {error}")
            return variants[name].measure(options.seconds)

        found = interleave(list(variants), options.rounds, measure, say)
    series = series_of(found, UNITS)
    cores = len(os.sched_getaffinity(0))
    ratios = [
        one
        for threads in options.threads
        for one in compared(series, threads, depths, over=threads > cores)
    ]
    ratios += oversubscribed(series, options.threads, cores)
    settings: dict[str, object] = {
        "program": options.program,
        "connections": options.connections,
        "rounds": options.rounds,
        "seconds": options.seconds,
        "depths": depths,
        "threads": options.threads,
        "config": config(0, 0, 1, DEFAULT_RUNQUEUE_DEPTH),
    }
    notes = [best(series, threads, depths) for threads in options.threads]
    if any(threads > cores for threads in options.threads):
        notes.append(f"Over-subscribed are threads that share {cores} cores with others of theirs.")
    if repeated:
        notes.append(f"measured again after an error that wrk saw: {', '.join(repeated)}")
    return Outcome(
        series, ratios, settings, notes, plots=plots(series, options.threads, depths, cores)
    )


def compared(
    series: Sequence[Series], threads: int, depths: Sequence[int], *, over: bool
) -> list[Ratio]:
    """Each depth against the default, and what was published."""
    mark = " (over-subscribed)" if over else ""
    base = DEFAULT_RUNQUEUE_DEPTH
    pairs = [(depth, base) for depth in depths if depth != base]
    if PUBLISHED not in [(b, a) for a, b in pairs] and set(PUBLISHED) <= set(depths):
        pairs.append(PUBLISHED)
    return [
        ratio(
            f"{metric}, {threads} thread{'s' * (threads > 1)}{mark}: depth {a} / {b}",
            pick(series, name_of(threads, a), metric),
            pick(series, name_of(threads, b), metric),
        )
        for metric in ("CPU", "rate", "mean")
        for a, b in pairs
    ]


def oversubscribed(series: Sequence[Series], counts: Sequence[int], cores: int) -> list[Ratio]:
    """What more threads than cores cost, at the default depth."""
    fitting = [threads for threads in counts if threads <= cores]
    if not fitting:
        return []
    most = max(fitting)
    return [
        ratio(
            f"over-subscribed: {metric}, {threads} threads / {most}",
            pick(series, name_of(threads, DEFAULT_RUNQUEUE_DEPTH), metric),
            pick(series, name_of(most, DEFAULT_RUNQUEUE_DEPTH), metric),
        )
        for threads in counts
        if threads > cores
        for metric in ("CPU", "rate", "mean", "p99")
    ]


def best(series: Sequence[Series], threads: int, depths: Sequence[int]) -> str:
    """Which depth costs least CPU per request, and which others cannot be told from it."""
    by_depth = {depth: pick(series, name_of(threads, depth), "CPU") for depth in depths}
    least = min(by_depth, key=lambda depth: by_depth[depth].median)
    alike = [
        str(depth)
        for depth in depths
        if depth != least and not ratio("", by_depth[depth], by_depth[least]).told_apart
    ]
    text = (
        f"{threads} thread{'s' * (threads > 1)}: depth {least} takes the least CPU "
        f"({number(by_depth[least].median)} us/request)"
    )
    return f"{text}; not told from it: {', '.join(alike)}" if alike else text


def plots(
    series: Sequence[Series], counts: Sequence[int], depths: Sequence[int], cores: int
) -> dict[str, str]:
    """Images by name: CPU, rate and latency by depth."""
    found = {}
    for metric, title in (
        ("CPU", "CPU per request"),
        ("rate", "Requests per second"),
        ("mean", "Mean latency"),
        ("p99", "Latency of the slowest percent"),
    ):
        curves = {}
        for threads in counts:
            points = []
            for depth in depths:
                one = pick(series, name_of(threads, depth), metric)
                points.append((float(depth), one.median, min(one.values), max(one.values)))
            over = f" on {cores} cores" if threads > cores else ""
            curves[f"{threads} thread{'s' * (threads > 1)}{over}"] = points
        found[metric] = plot.lines(
            f"{title} by run-queue depth",
            "tasklets of a turn at most (tune.runqueue-depth)",
            UNITS[metric],
            curves,
            log_x=True,
        )
    return found


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return value


def _options(parser: argparse.ArgumentParser) -> None:
    add_seconds(parser, 2)
    numbers = " ".join(map(str, DEPTHS))
    parser.add_argument(
        "--depths", type=_positive, nargs="+", default=list(DEPTHS), help=f"({numbers})"
    )
    parser.add_argument(
        "--threads", type=_positive, nargs="+", default=[1, 2, 4], help="nbthread (1 2 4)"
    )
    parser.add_argument(
        "--connections", type=_positive, default=1000, help="keep-alive connections (1000)"
    )
    parser.add_argument(
        "--program", default="mtproxy", help="mtproxy, or haproxy for its own curve here (mtproxy)"
    )


BENCHMARK = Benchmark(
    "runqueue",
    "run-queue depth: CPU per request, requests/s and latency with 1000 connections",
    runqueue,
    _options,
    lambda options: ["nginx", "wrk", *[p for p in (options.program,) if p == "haproxy"]],
)
