"""Bulk TCP: large downloads in mode tcp, spliced and copied, against HAProxy."""

from __future__ import annotations

import argparse
from contextlib import ExitStack

from mtproxy.testing import procfs
from mtproxy.testing.nginx import Nginx
from mtproxy.testing.program import Program
from perf import clients
from perf.http import TIMEOUTS
from perf.results import interleave, ratio
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

FILE_SIZE = 100 * 1000 * 1000

#: what the proxy has to reach; see README
LEAST_BULK_PLAIN = 2.0
LEAST_BULK_SPLICE = 0.85


def tcp_config(origin_port: int, *, splice: bool) -> str:
    """`mode tcp`, with or without the splice options."""
    options = "option splice-request\n    option splice-response\n    " if splice else ""
    return f"""
global
    nbthread 1
defaults
    mode tcp
    {options}{TIMEOUTS}
listen l
    bind "fd@${{fe}}"
    server s1 127.0.0.1:{origin_port}
"""


def tcp(options: argparse.Namespace, say: Say) -> Outcome:
    """100 MB downloads through `mode tcp`: bytes per CPU second of the proxy."""
    theirs, ours = program_names([options.against, options.program])
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
    series = series_of(found, units)
    ratios = []
    for name in (ours, f"{ours} splice"):
        for other, bound in (("plain", LEAST_BULK_PLAIN), ("splice", LEAST_BULK_SPLICE)):
            above = pick(series, name, "bytes per CPU")
            below = pick(series, f"{theirs} {other}", "bytes per CPU")
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


def _options(parser: argparse.ArgumentParser) -> None:
    add_seconds(parser, 5)
    add_programs(parser)
    parser.add_argument("--connections", type=int, default=2, help="downloads at once (2)")


BENCHMARK = Benchmark(
    "tcp",
    "large downloads in mode tcp, spliced and copied: bytes per CPU second",
    tcp,
    _options,
    lambda options: ["nginx", *program_tools(options)],
)
