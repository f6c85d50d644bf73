"""Traffic beside health checks: requests/s with 2,000 checked servers against none.

The checked servers stand in a backend of their own, so that both variants balance alike; their
ports are answered by the kernel, as in `perf checks`.
"""

from __future__ import annotations

import argparse
import socket
from contextlib import ExitStack

from mtproxy.testing.nginx import Nginx
from mtproxy.testing.program import Program
from perf import clients
from perf.checks import LISTENERS
from perf.http import CONNECTIONS, http_config
from perf.results import interleave, ratio
from perf.sink import Sink
from perf.suite import Benchmark, Outcome, Say, add_programs, add_seconds, pick, series_of

#: what is asked of requests/s, with checked servers / without
LEAST_RATE = 0.95


def checked(options: argparse.Namespace, say: Say) -> Outcome:
    """Keep-alive GETs while 2,000 other servers are checked by TCP at the interval given."""
    with ExitStack() as stack:
        ports = []
        for _ in range(LISTENERS):
            listener = stack.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            listener.listen(1024)
            ports.append(listener.getsockname()[1])
        servers = "".join(
            f"    server s{i} 127.0.0.1:{ports[i % LISTENERS]} check inter {options.inter}\n"
            for i in range(options.servers)
        )
        sink = stack.enter_context(Sink())
        origin = stack.enter_context(Nginx())
        running: dict[str, Program] = {}
        for name, more in (("none", ""), ("checked", f"backend many\n{servers}")):
            config = http_config(origin.port, sink.port, options.nbthread) + more
            running[name] = stack.enter_context(Program(options.program, config))
            clients.wrk(running[name].port(), "/small", seconds=1, connections=CONNECTIONS)

        def measure(variant: str) -> dict[str, float]:
            load, cost = clients.wrk_cost(
                running[variant], seconds=options.seconds, connections=CONNECTIONS
            )
            return {"CPU": cost, "rate": load.requests / load.seconds}

        found = interleave(list(running), options.rounds, measure, say)
    series = series_of(found, {"CPU": "us/request", "rate": "requests/s"})
    ratios = [
        ratio(
            "rate: checked / none",
            pick(series, "checked", "rate"),
            pick(series, "none", "rate"),
            LEAST_RATE,
            at_most=False,
        ),
        ratio("CPU: checked / none", pick(series, "checked", "CPU"), pick(series, "none", "CPU")),
    ]
    settings: dict[str, object] = {
        "servers": options.servers,
        "inter": options.inter,
        "nbthread": options.nbthread,
        "connections": CONNECTIONS,
        "rounds": options.rounds,
        "seconds": options.seconds,
    }
    return Outcome(series, ratios, settings)


def _options(parser: argparse.ArgumentParser) -> None:
    add_seconds(parser, 4)
    add_programs(parser)
    parser.add_argument("--servers", type=int, default=2000, help="checked servers (2000)")
    parser.add_argument("--inter", default="2s", help="interval of their checks (2s)")
    parser.add_argument("--nbthread", type=int, default=2, help="threads (2)")


BENCHMARK = Benchmark(
    "checked",
    "requests/s while 2,000 other servers are checked, against none",
    checked,
    _options,
    lambda _options: ["nginx", "wrk"],
)
