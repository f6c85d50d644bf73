"""The benchmarks: keep-alive HTTP, bulk TCP, and the time from start to the first answer."""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from mtproxy.testing import procfs
from mtproxy.testing.nginx import Nginx
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program
from mtproxy.testing.wire import as_wire
from perf import clients
from perf.results import Ratio, Series, interleave, ratio
from perf.sink import Sink

CONNECTIONS = 64
FILE_SIZE = 100 * 1000 * 1000
_TIMEOUTS = "timeout connect 5s\n    timeout client 60s\n    timeout server 60s"

#: what the proxy has to reach; see README
MOST_CPU = 2.0
LEAST_RATE = 0.65
MOST_THREADS_COST = 1.1
LEAST_BULK_PLAIN = 2.0
LEAST_BULK_SPLICE = 0.85
MOST_START_MS = 300.0


@dataclasses.dataclass(slots=True)
class Outcome:
    """A benchmark's result, ready to be printed and saved."""

    series: list[Series]
    ratios: list[Ratio]
    settings: dict[str, object]
    notes: list[str] = dataclasses.field(default_factory=list)


type Say = Callable[[str], None]


def _series(found: dict[str, list[dict[str, float]]], units: dict[str, str]) -> list[Series]:
    return [
        Series(variant, metric, unit, [values[metric] for values in rounds])
        for variant, rounds in found.items()
        for metric, unit in units.items()
    ]


def _pick(series: Sequence[Series], variant: str, metric: str) -> Series:
    return next(s for s in series if (s.variant, s.metric) == (variant, metric))


# -- HTTP


def http_config(origin_port: int, sink_port: int, threads: int) -> str:
    """The configuration that both programs get, word for word."""
    return f"""
global
    nbthread {threads}
    log 127.0.0.1:{sink_port} local0
defaults
    mode http
    log global
    option httplog
    {_TIMEOUTS}
frontend fe
    bind "fd@${{fe}}"
    default_backend be
backend be
    balance roundrobin
    server s1 127.0.0.1:{origin_port}
"""


def http(options: argparse.Namespace, say: Say) -> Outcome:
    """HTTP/1.1 keep-alive GETs of 34 bytes over 64 connections, httplog to a UDP sink."""
    programs = [options.against, options.program]
    names = _names(programs)
    variants = {
        f"{name} nbthread {n}": (program, n)
        for n in options.threads
        for name, program in zip(names, programs, strict=True)
    }
    requests = 0
    with ExitStack() as stack:
        sink = Sink()
        stack.enter_context(sink)
        origin = stack.enter_context(Nginx())
        running: dict[str, Program] = {}
        for variant, (program, threads) in variants.items():
            proxy = Program(program, http_config(origin.port, sink.port, threads))
            running[variant] = stack.enter_context(proxy)
            load = clients.wrk(proxy.port(), "/small", seconds=1, connections=CONNECTIONS)
            requests += load.requests

        def measure(variant: str) -> dict[str, float]:
            nonlocal requests
            proxy = running[variant]
            before = procfs.cpu_seconds(proxy.pid)
            load = clients.wrk(
                proxy.port(), "/small", seconds=options.seconds, connections=CONNECTIONS
            )
            requests += load.requests
            spent = procfs.cpu_seconds(proxy.pid) - before
            return {
                "CPU": spent / load.requests * 1e6,
                "rate": load.requests / load.seconds,
                "p99": load.p99_us / 1000,
            }

        found = interleave(list(variants), options.rounds, measure, say)
    series = _series(found, {"CPU": "us/request", "rate": "requests/s", "p99": "ms"})
    ratios = []
    for n in options.threads:
        theirs, ours = (f"{name} nbthread {n}" for name in names)
        for metric, bound, at_most in (("CPU", MOST_CPU, True), ("rate", LEAST_RATE, False)):
            title = f"{metric}, {n} thread{'s' * (n > 1)}: {names[1]} / {names[0]}"
            above, below = _pick(series, ours, metric), _pick(series, theirs, metric)
            # Asked of one thread; on two cores two threads share them with wrk and nginx.
            ratios.append(ratio(title, above, below, bound if n == 1 else None, at_most=at_most))
    if {1, 2} <= set(options.threads):
        for name, asked in zip(names, (None, MOST_THREADS_COST), strict=True):
            two, one = (_pick(series, f"{name} nbthread {n}", "CPU") for n in (2, 1))
            ratios.append(ratio(f"CPU of {name}: 2 threads / 1", two, one, asked))
    settings: dict[str, object] = {
        "connections": CONNECTIONS,
        "rounds": options.rounds,
        "seconds": options.seconds,
        "config": http_config(0, 0, 1),
    }
    share = 100 * sink.messages / requests
    notes = [f"log lines received: {share:.1f} % of {requests:,} requests"]
    return Outcome(series, ratios, settings, notes)


# -- bulk TCP


def tcp_config(origin_port: int, *, splice: bool) -> str:
    """`mode tcp`, with or without the splice options."""
    options = "option splice-request\n    option splice-response\n    " if splice else ""
    return f"""
global
    nbthread 1
defaults
    mode tcp
    {options}{_TIMEOUTS}
listen l
    bind "fd@${{fe}}"
    server s1 127.0.0.1:{origin_port}
"""


def tcp(options: argparse.Namespace, say: Say) -> Outcome:
    """100 MB downloads through `mode tcp`: bytes per CPU second of the proxy."""
    theirs, ours = _names([options.against, options.program])
    variants = {
        f"{theirs} plain": (options.against, False),
        f"{theirs} splice": (options.against, True),
        f"{ours}": (options.program, False),
        f"{ours} splice": (options.program, True),
    }
    with ExitStack() as stack:
        origin = stack.enter_context(Nginx())
        origin.add_file("bulk", FILE_SIZE)
        running: dict[str, Program] = {}
        for variant, (program, splice) in variants.items():
            proxy = Program(program, tcp_config(origin.port, splice=splice))
            running[variant] = stack.enter_context(proxy)
            clients.download(proxy.port(), "/bulk", FILE_SIZE, seconds=0, connections=1)

        def measure(variant: str) -> dict[str, float]:
            proxy = running[variant]
            before = procfs.cpu_seconds(proxy.pid)
            count, seconds = clients.download(
                proxy.port(),
                "/bulk",
                FILE_SIZE,
                seconds=options.seconds,
                connections=options.connections,
            )
            spent = max(procfs.cpu_seconds(proxy.pid) - before, 0.005)
            return {
                "bytes per CPU": count / spent / 1e9,
                "CPU": spent / (count / 1e9),
                "rate": count / seconds / 1e9,
            }

        found = interleave(list(variants), options.rounds, measure, say)
    units = {"bytes per CPU": "GB/CPU s", "CPU": "CPU s/GB", "rate": "GB/s"}
    series = _series(found, units)
    ratios = []
    for name in (ours, f"{ours} splice"):
        for other, bound in (("plain", LEAST_BULK_PLAIN), ("splice", LEAST_BULK_SPLICE)):
            above = _pick(series, name, "bytes per CPU")
            below = _pick(series, f"{theirs} {other}", "bytes per CPU")
            title = f"bytes per CPU s: {name} / {theirs} {other}"
            ratios.append(ratio(title, above, below, bound, at_most=False))
    settings: dict[str, object] = {
        "file_bytes": FILE_SIZE,
        "clients": options.connections,
        "rounds": options.rounds,
        "seconds": options.seconds,
        "config": tcp_config(0, splice=False),
        "splice_config": tcp_config(0, splice=True),
    }
    return Outcome(series, ratios, settings)


# -- start


def start(options: argparse.Namespace, say: Say) -> Outcome:
    """From exec to the first answered request. The client is there first: its connection waits in
    the queue of the inherited listener.
    """
    programs = [options.against, options.program]
    names = _names(programs)
    by_name = dict(zip(names, programs, strict=True))
    with Origin(record=False) as origin:

        def measure(name: str) -> dict[str, float]:
            config = http_config(origin.port, 9, 1)
            proxy = Program(by_name[name], config)
            begin = time.monotonic()
            with proxy, proxy.connect(seconds=20) as wire:
                wire.send(as_wire("GET /len/34 HTTP/1.1\nhost: perf"))
                if wire.read_response().status != 200:
                    raise clients.BadLoad("the first answer was not 200")
                took = time.monotonic() - begin
                spent = procfs.cpu_seconds(proxy.pid)
                return {"start": took * 1000, "CPU": spent * 1000, "memory": proxy.rss() / 1e6}

        for name in names:  # once without counting: files come from the disk, bytecode is written
            measure(name)
        found = interleave(names, options.rounds, measure, say)
    series = _series(found, {"start": "ms", "CPU": "ms", "memory": "MB"})
    ours = _pick(series, names[1], "start")
    bound = Ratio(
        f"start of {names[1]} / the {MOST_START_MS:.0f} ms allowed",
        tuple(value / MOST_START_MS for value in ours.values),
        1.0,
    )
    ratios = [
        bound,
        ratio(f"start: {names[1]} / {names[0]}", ours, _pick(series, names[0], "start")),
    ]
    return Outcome(series, ratios, {"rounds": options.rounds})


def _names(programs: Sequence[str]) -> list[str]:
    """Short names; the same program twice (a check of the method) gets two."""
    names = [program.rpartition("/")[2] for program in programs]
    if names[0] == names[1]:
        names[1] += "'"
    return names
