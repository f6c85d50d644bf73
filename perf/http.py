"""Keep-alive HTTP: wrk through the proxy to nginx, against HAProxy."""

from __future__ import annotations

import argparse
from contextlib import ExitStack

from mtproxy.testing.nginx import Nginx
from mtproxy.testing.program import Program
from perf import clients
from perf.results import interleave, ratio
from perf.sink import Sink
from perf.suite import (
    Benchmark,
    Outcome,
    Say,
    add_programs,
    add_seconds,
    pick,
    program_names,
    program_tools,
    series_of,
)

CONNECTIONS = 64
TIMEOUTS = "timeout connect 5s\n    timeout client 60s\n    timeout server 60s"

#: what the proxy has to reach; see README
MOST_CPU = 2.0
LEAST_RATE = 0.65
MOST_THREADS_COST = 1.1


def http_config(origin_port: int, sink_port: int, threads: int, rules: str = "") -> str:
    """The configuration that both programs get, word for word."""
    return f"""
global
    nbthread {threads}
    log 127.0.0.1:{sink_port} local0
defaults
    mode http
    log global
    option httplog
    {TIMEOUTS}
frontend fe
    bind "fd@${{fe}}"
{rules}    default_backend be
backend be
    balance roundrobin
    server s1 127.0.0.1:{origin_port}
"""


def http(options: argparse.Namespace, say: Say) -> Outcome:
    """HTTP/1.1 keep-alive GETs of 34 bytes over 64 connections, httplog to a UDP sink."""
    programs = [options.against, options.program]
    names = program_names(programs)
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
            load, cost = clients.wrk_cost(
                running[variant], seconds=options.seconds, connections=CONNECTIONS
            )
            requests += load.requests
            return {
                "CPU": cost,
                "rate": load.requests / load.seconds,
                "p99": load.p99_us / 1000,
            }

        found = interleave(list(variants), options.rounds, measure, say)
    series = series_of(found, {"CPU": "us/request", "rate": "requests/s", "p99": "ms"})
    ratios = []
    for n in options.threads:
        theirs, ours = (f"{name} nbthread {n}" for name in names)
        for metric, bound, at_most in (("CPU", MOST_CPU, True), ("rate", LEAST_RATE, False)):
            title = f"{metric}, {n} thread{'s' * (n > 1)}: {names[1]} / {names[0]}"
            above, below = pick(series, ours, metric), pick(series, theirs, metric)
            # Asked of one thread; on two cores two threads share them with wrk and nginx.
            ratios.append(ratio(title, above, below, bound if n == 1 else None, at_most=at_most))
    if {1, 2} <= set(options.threads):
        for name, asked in zip(names, (None, MOST_THREADS_COST), strict=True):
            two, one = (pick(series, f"{name} nbthread {n}", "CPU") for n in (2, 1))
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


def _options(parser: argparse.ArgumentParser) -> None:
    add_seconds(parser, 5)
    add_programs(parser)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="nbthread (1 2)")


BENCHMARK = Benchmark(
    "http",
    "wrk's keep-alive requests through the proxy to nginx: CPU time per request, requests/s",
    http,
    _options,
    lambda options: ["nginx", "wrk", *program_tools(options)],
)
