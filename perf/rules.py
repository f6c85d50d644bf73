"""What rules cost: header rules, ACLs, a map of 10,000 entries and a variable, against HAProxy.

The same file for both, and beside it the same proxies without any rule: what the rules themselves
cost is the difference.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path

from mtproxy.testing.nginx import Nginx
from mtproxy.testing.program import Program
from perf import clients
from perf.http import CONNECTIONS, http_config
from perf.results import Series, interleave, ratio
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

#: what is asked of the CPU per request with rules, ours / HAProxy's
MOST_CPU = 2.0
MAP_ENTRIES = 10_000

RULES = """\
    acl static path_end .gif .png .css .js
    acl known hdr(host),map_str({map},none) -m str tenant
    http-request set-var(txn.host) hdr(host),lower
    http-request set-header X-Forwarded-Proto http
    http-request set-header X-Tenant %[var(txn.host)] if !known
    http-request deny if static known
    http-response set-header X-Served-By proxy
"""


def write_map(folder: Path) -> Path:
    """A map of host names, of which the client sends none."""
    path = folder / "hosts.map"
    lines = [f"host-{number}.example.org tenant{number % 7}\n" for number in range(MAP_ENTRIES)]
    path.write_text("".join(lines))
    return path


def rules(options: argparse.Namespace, say: Say) -> Outcome:
    """HTTP/1.1 keep-alive GETs, three header rules, two ACLs, a variable, httplog."""
    programs = [options.against, options.program]
    names = program_names(programs)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mtproxy-perf-")))
        with_rules = RULES.format(map=write_map(folder))
        sink = stack.enter_context(Sink())
        origin = stack.enter_context(Nginx())
        running: dict[str, Program] = {}
        for name, program in zip(names, programs, strict=True):
            for kind, text in (("rules", with_rules), ("none", "")):
                config = http_config(origin.port, sink.port, options.nbthread, text)
                proxy = stack.enter_context(Program(program, config))
                running[f"{name} {kind}"] = proxy
                clients.wrk(proxy.port(), "/small", seconds=1, connections=CONNECTIONS)

        def measure(variant: str) -> dict[str, float]:
            load, cost = clients.wrk_cost(
                running[variant], seconds=options.seconds, connections=CONNECTIONS
            )
            return {"CPU": cost, "rate": load.requests / load.seconds}

        found = interleave(list(running), options.rounds, measure, say)
    series: list[Series] = series_of(found, {"CPU": "us/request", "rate": "requests/s"})
    theirs, ours = names
    ratios = [
        ratio(
            f"CPU with rules: {ours} / {theirs}",
            pick(series, f"{ours} rules", "CPU"),
            pick(series, f"{theirs} rules", "CPU"),
            MOST_CPU,
        ),
        *(
            ratio(
                f"CPU of {name}: rules / none",
                pick(series, f"{name} rules", "CPU"),
                pick(series, f"{name} none", "CPU"),
            )
            for name in names
        ),
    ]
    settings: dict[str, object] = {
        "connections": CONNECTIONS,
        "rounds": options.rounds,
        "seconds": options.seconds,
        "config": http_config(0, 0, options.nbthread, RULES.format(map="hosts.map")),
    }
    return Outcome(series, ratios, settings)


def _options(parser: argparse.ArgumentParser) -> None:
    add_seconds(parser, 4)
    add_programs(parser)
    parser.add_argument("--nbthread", type=int, default=1, help="threads of both (1)")


BENCHMARK = Benchmark(
    "rules",
    "header rules, ACLs, a map and a variable in every request: CPU time against HAProxy",
    rules,
    _options,
    lambda options: ["nginx", "wrk", *program_tools(options)],
)
