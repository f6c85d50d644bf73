"""Rate limiting by source with a stick table: what it costs, on one thread and on two.

wrk's keep-alive requests through the proxy to nginx, as in `http`, with the rules that people use
against floods: the client's address is tracked, and a request is denied where its rate is above a
limit (which the load never reaches). `limited`: all clients have one address, hence one entry that
all threads want for every request, the worst case of a shared table. `sources`: 1,000 addresses in
turn, told by a header, as behind another proxy.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path

from mtproxy.testing.nginx import Nginx
from mtproxy.testing.program import Program
from perf import clients
from perf.http import CONNECTIONS, TIMEOUTS
from perf.results import Ratio, interleave, ratio
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

#: what the issue of threads that share a table may cost
MOST_THREADS_COST = 1.1

SOURCES = 1000
_SCRIPT = f"""
local n = 0
request = function()
    n = (n + 1) % {SOURCES}
    wrk.headers["X-Client"] = "10.1." .. math.floor(n / 250) .. "." .. (n % 250)
    return wrk.format()
end
"""
_RULES = """
    stick-table type ip size 100k expire 60s store http_req_rate(10s)
    http-request track-sc0 src
    http-request deny deny_status 429 if { sc_http_req_rate(0) gt 4000000000 }"""


_BY_HEADER = _RULES.replace("track-sc0 src", "track-sc0 req.hdr_ip(x-client)")


def config(origin_port: int, threads: int, rules: str = _RULES) -> str:
    """The configuration that both programs get, word for word."""
    return f"""
global
    nbthread {threads}
defaults
    mode http
    {TIMEOUTS}
frontend fe
    bind "fd@${{fe}}"{rules}
    default_backend be
backend be
    server s1 127.0.0.1:{origin_port}
"""


def sticktables(options: argparse.Namespace, say: Say) -> Outcome:
    """Each program with and without the rules, by number of threads."""
    programs = [options.against, options.program]
    names = program_names(programs)
    variants = {
        f"{name} {kind} nbthread {n}": (program, n, rules)
        for n in options.threads
        for name, program in zip(names, programs, strict=True)
        for kind, rules in (("plain", ""), ("limited", _RULES), ("sources", _BY_HEADER))
    }
    with ExitStack() as stack:
        origin = stack.enter_context(Nginx())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mtproxy-perf-")))
        script = folder / "sources.lua"
        script.write_text(_SCRIPT)
        running: dict[str, Program] = {}
        for variant, (program, threads, rules) in variants.items():
            proxy = Program(program, config(origin.port, threads, rules))
            running[variant] = stack.enter_context(proxy)
            clients.wrk(proxy.port(), "/small", seconds=1, connections=CONNECTIONS)

        def measure(variant: str) -> dict[str, float]:
            load, cost = clients.wrk_cost(
                running[variant],
                seconds=options.seconds,
                connections=CONNECTIONS,
                script=script if " sources " in variant else None,
            )
            return {"CPU": cost, "rate": load.requests / load.seconds}

        found = interleave(list(variants), options.rounds, measure, say)
    series = series_of(found, {"CPU": "us/request", "rate": "requests/s"})

    def compare(title: str, above: str, below: str, asked: float | None = None) -> Ratio:
        return ratio(title, pick(series, above, "CPU"), pick(series, below, "CPU"), asked)

    theirs, ours = names
    ratios = []
    for n in options.threads:
        what = f"CPU, {n} thread{'s' * (n > 1)}"
        limited, plain = f"limited nbthread {n}", f"plain nbthread {n}"
        ratios.append(
            compare(f"{what}: {ours} / {theirs}", f"{ours} {limited}", f"{theirs} {limited}")
        )
        ratios.append(
            compare(
                f"{what}: {ours} with / without the rules", f"{ours} {limited}", f"{ours} {plain}"
            )
        )
    if {1, 2} <= set(options.threads):
        for name, bound in ((theirs, None), (ours, MOST_THREADS_COST)):
            for kind, asked in (("sources", bound), ("limited", None)):
                one, two = (f"{name} {kind} nbthread {n}" for n in (1, 2))
                ratios.append(compare(f"CPU of {name}, {kind}: 2 threads / 1", two, one, asked))
    settings: dict[str, object] = {
        "connections": CONNECTIONS,
        "rounds": options.rounds,
        "seconds": options.seconds,
        "config": config(0, 1),
    }
    return Outcome(series, ratios, settings)


def _options(parser: argparse.ArgumentParser) -> None:
    add_seconds(parser, 2)
    add_programs(parser)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="nbthread (1 2)")


BENCHMARK = Benchmark(
    "sticktables",
    "rate limiting by source with a stick table: CPU time per request, 1 thread and 2",
    sticktables,
    _options,
    lambda options: ["nginx", "wrk", *program_tools(options)],
)
