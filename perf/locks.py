"""What lock statistics cost: counted (always on), built out of the lock, and profiled.

Two views. HTTP: requests through `balance leastconn`, which takes one lock per request. Micro:
taking and giving back a lock of each kind, nothing else.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from mtproxy.sync import bare, profile, stats
from mtproxy.sync.labels import LockLabel
from mtproxy.sync.locks import Lock
from mtproxy.sync.seeklock import SeekLock
from mtproxy.testing import procfs
from mtproxy.testing.nginx import Nginx
from mtproxy.testing.program import Program
from mtproxy.testing.threads import run_threads
from perf import clients
from perf.http import CONNECTIONS, TIMEOUTS
from perf.results import Ratio, Series, interleave, ratio
from perf.suite import Benchmark, Outcome, Say, add_seconds, pick, series_of

COUNTED, BUILT_OUT, PROFILED = "statistics", "built out", "profiling"
#: how a variant is configured
VARIANTS = {COUNTED: "", BUILT_OUT: "tune.lock-stats off", PROFILED: "profiling.locks on"}

#: what always-on statistics may cost, of the CPU time of a request
MOST_CPU = 1.03

#: pairs of operations in one micro measurement
TURNS = 50_000

SERVERS = 4
#: loads that a process gets in its round; the middle one counts
TURNS_OF_A_ROUND = 5


def config(origin_port: int, threads: int, line: str) -> str:
    """`leastconn` over several names of one origin; no log, so that the lock weighs more."""
    servers = "\n".join(f"    server s{n} 127.0.0.1:{origin_port}" for n in range(SERVERS))
    return f"""
    nbthread {threads}
    {line}
defaults
    mode http
    {TIMEOUTS}
frontend fe
    bind "fd@${{fe}}"
    default_backend be
backend be
    balance leastconn
{servers}
"""


def _started(stack: ExitStack, origin_port: int, threads: int, line: str) -> Program:
    """A warm proxy, until the stack is left."""
    proxy = stack.enter_context(Program("mtproxy", config(origin_port, threads, line)))
    proxy.wait_ready()
    clients.wrk(proxy.port(), "/small", seconds=1, connections=CONNECTIONS)
    return proxy


def _measure(running: dict[str, Program], seconds: float, variant: str) -> dict[str, float]:
    proxy = running[variant]
    before = procfs.cpu_seconds(proxy.pid)
    load = clients.wrk(proxy.port(), "/small", seconds=seconds, connections=CONNECTIONS)
    spent = procfs.cpu_seconds(proxy.pid) - before
    return {"CPU": spent / load.requests * 1e6, "rate": load.requests / load.seconds}


def _http(options: argparse.Namespace, say: Say) -> tuple[list[Series], list[Ratio]]:
    """CPU per request of each variant and number of threads."""
    variants = {
        f"{name}, {n} thread{'s' * (n > 1)}": (n, line)
        for n in options.threads
        for name, line in VARIANTS.items()
    }
    found: dict[str, list[dict[str, float]]] = {variant: [] for variant in variants}
    with Nginx() as origin:
        for turn in range(options.rounds):
            with ExitStack() as stack:
                # New processes in each round: where a process happens to have its objects makes a
                # difference of several percent, as large as what is looked for, all its life long.
                running = {
                    variant: _started(stack, origin.port, threads, line)
                    for variant, (threads, line) in variants.items()
                }
                # Turns of a second, because the machine's own speed changes within a few.
                measure = partial(_measure, running, options.seconds)
                turns = interleave(list(variants), TURNS_OF_A_ROUND, measure, lambda _text: None)
            for variant, loads in turns.items():
                middle = {
                    metric: statistics.median(load[metric] for load in loads)
                    for metric in ("CPU", "rate")
                }
                found[variant].append(middle)
                say(f"round {turn + 1}/{options.rounds}  {variant:22} CPU {middle['CPU']:.1f}")
    series = series_of(found, {"CPU": "us/request", "rate": "requests/s"})
    ratios = []
    for n in options.threads:
        title = f"{n} thread{'s' * (n > 1)}"
        counted, built_out, profiled = (
            pick(series, f"{name}, {title}", "CPU") for name in VARIANTS
        )
        ratios += [
            ratio(f"CPU, {title}: {COUNTED} / {BUILT_OUT}", counted, built_out, MOST_CPU),
            ratio(f"CPU, {title}: {PROFILED} / {COUNTED}", profiled, counted),
        ]
    return series, ratios


# -- micro -----------------------------------------------------------------------------------------


def _mutex(turns: int) -> None:
    lock = Lock(LockLabel.OTHER)
    take, drop = lock.take, lock.drop  # as the balancers keep them
    for _ in range(turns):
        take(0)
        drop(0)


def _read(turns: int) -> None:
    lock = SeekLock(LockLabel.OTHER)
    for _ in range(turns):
        lock.take_read(0)
        lock.drop_read(0)


def _write(turns: int) -> None:
    lock = SeekLock(LockLabel.OTHER)
    for _ in range(turns):
        lock.take_write(0)
        lock.drop_write(0)


def _upgrade(turns: int) -> None:
    lock = SeekLock(LockLabel.OTHER)
    for _ in range(turns):
        lock.take_read(0)
        lock.try_read_to_seek(0)
        lock.seek_to_write(0)
        lock.drop_write(0)


def _nothing(turns: int) -> None:
    for _ in range(turns):
        pass


WAYS: dict[str, Callable[[int], None]] = {
    "Lock take, drop": _mutex,
    "SeekLock take_read, drop_read": _read,
    "SeekLock take_write, drop_write": _write,
    "SeekLock read, seek, write, drop": _upgrade,
}


@contextmanager
def _built(variant: str) -> Iterator[None]:
    """The lock classes of this process as the variant has them."""
    if variant == BUILT_OUT:
        bare.strip()
    elif variant == PROFILED:
        profile.switch_on()
    try:
        yield
    finally:
        bare.restore()
        profile.switch_off()
        profile.reset()


def _micro(options: argparse.Namespace, say: Say) -> tuple[list[Series], list[Ratio]]:
    """Nanoseconds for one pair of operations, without the loop around it; one thread."""
    # from here on CPython shares functions among threads as it does in the proxy
    run_threads(1, lambda _number: None)
    stats.configure(1)
    stats.adopt(0)

    def timed(way: Callable[[int], None]) -> float:
        begin = time.thread_time_ns()
        way(TURNS)
        return (time.thread_time_ns() - begin) / TURNS

    def measure(name: str) -> dict[str, float]:
        way, _, variant = name.partition(": ")
        with _built(variant):
            WAYS[way](TURNS // 10)
            return {"time": timed(WAYS[way]) - timed(_nothing)}

    names = [f"{way}: {variant}" for way in WAYS for variant in VARIANTS]
    found = interleave(names, options.rounds, measure, lambda _text: None)
    say(f"micro: {options.rounds} rounds of {TURNS:,} turns")
    series = series_of(found, {"time": "ns"})
    ratios = [
        ratio(
            f"{way}: {above} / {below}",
            pick(series, f"{way}: {above}", "time"),
            pick(series, f"{way}: {below}", "time"),
        )
        for way in WAYS
        for above, below in ((COUNTED, BUILT_OUT), (PROFILED, COUNTED))
    ]
    return series, ratios


def _share(series: list[Series], micro: list[Series], threads: int) -> str:
    """What the micro figures say of a request: steadier than a difference of two loads."""
    counted, built_out = (
        pick(micro, f"Lock take, drop: {name}", "time").median for name in (COUNTED, BUILT_OUT)
    )
    title = f"{COUNTED}, {threads} thread{'s' * (threads > 1)}"
    request = pick(series, title, "CPU").median
    return (
        f"By the micro figures, {title}: {counted - built_out:.0f} ns for the one lock of a "
        f"request of {request:.1f} us, {(counted - built_out) / request / 10:.2f} %."
    )


def locks(options: argparse.Namespace, say: Say) -> Outcome:
    """Both views."""
    micro, micro_ratios = _micro(options, say)
    series, ratios = ([], []) if options.micro else _http(options, say)
    shares = [] if options.micro else [_share(series, micro, n) for n in options.threads]
    return Outcome(
        [*series, *micro],
        [*ratios, *micro_ratios],
        {
            "rounds": options.rounds,
            "seconds": options.seconds,
            "connections": CONNECTIONS,
            "turns": TURNS,
            "config": config(0, 1, "tune.lock-stats off"),
        },
        [
            *shares,
            "'built out' compiles the locks' source once more, without counters, clock and the "
            "attempt before a wait.",
            "Profiling that is off costs nothing: the classes then have the very functions that "
            "they had before.",
        ],
    )


def _options(parser: argparse.ArgumentParser) -> None:
    add_seconds(parser, 1)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="nbthread (1 2)")
    parser.add_argument("--micro", action="store_true", help="only the locks by themselves")


BENCHMARK = Benchmark(
    "locks",
    "what lock statistics and lock profiling cost: CPU time per request, time per operation",
    locks,
    _options,
    lambda options: [] if options.micro else ["nginx", "wrk"],
    rounds=7,
)
