"""A connection per request: wrk asks with `Connection: close`, against HAProxy.

Both programs open a connection to the server for each request too: with `http-reuse safe` the first
request of a client's connection does not use one that was left by another (manual, `http-reuse`).
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack

from mtproxy.testing.nginx import Nginx
from mtproxy.testing.program import Program
from perf import clients
from perf.http import CONNECTIONS, http_config
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

#: what is asked of the CPU per request, ours / HAProxy's
MOST_CPU = 1.8


def connections(options: argparse.Namespace, say: Say) -> Outcome:
    """HTTP/1.1 GETs of 34 bytes, a connection each on both sides, httplog to a UDP sink."""
    programs = [options.against, options.program]
    names = program_names(programs)
    with ExitStack() as stack:
        sink = stack.enter_context(Sink())
        origin = stack.enter_context(Nginx())
        running: dict[str, Program] = {}
        for name, program in zip(names, programs, strict=True):
            config = http_config(origin.port, sink.port, options.nbthread)
            running[name] = stack.enter_context(Program(program, config))
            clients.wrk(
                running[name].port(), "/small", seconds=1, connections=CONNECTIONS, close=True
            )

        def measure(variant: str) -> dict[str, float]:
            load, cost = clients.wrk_cost(
                running[variant], seconds=options.seconds, connections=CONNECTIONS, close=True
            )
            return {"CPU": cost, "rate": load.requests / load.seconds}

        found = interleave(list(running), options.rounds, measure, say)
    series = series_of(found, {"CPU": "us/request", "rate": "requests/s"})
    theirs, ours = names
    ratios = [
        ratio(
            f"CPU: {ours} / {theirs}",
            pick(series, ours, "CPU"),
            pick(series, theirs, "CPU"),
            MOST_CPU,
        )
    ]
    settings: dict[str, object] = {
        "connections": CONNECTIONS,
        "rounds": options.rounds,
        "seconds": options.seconds,
        "config": http_config(0, 0, options.nbthread),
    }
    return Outcome(series, ratios, settings)


def _options(parser: argparse.ArgumentParser) -> None:
    add_seconds(parser, 3)
    add_programs(parser)
    parser.add_argument("--nbthread", type=int, default=1, help="threads of both (1)")


BENCHMARK = Benchmark(
    "connections",
    "a connection per request, on both sides: CPU time against HAProxy",
    connections,
    _options,
    lambda options: ["nginx", "wrk", *program_tools(options)],
)
