"""HTTP health checks of thousands of servers at the interval that people use.

All servers are one nginx, which answers with 34 bytes. The machine is not the limit here: what
counts is the share of a core that the checks of 2,000 servers take, each once a second.
"""

from __future__ import annotations

import argparse
import time

from mtproxy.testing import procfs
from mtproxy.testing.nginx import Nginx
from mtproxy.testing.program import Program
from perf.results import Ratio, interleave
from perf.suite import Benchmark, Outcome, Say, add_seconds, pick, series_of

#: what the checks may take of one core, in percent
MOST_CPU = 25.0
#: seconds until each server was checked twice
WARM_UP = 2.5

#: by title: what is in the backend
KINDS = {
    "tcp": "",
    "httpchk": "option httpchk GET /small HTTP/1.1\n    http-check send hdr Host localhost",
    "httpchk, body": "option httpchk GET /small HTTP/1.1\n"
    "    http-check send hdr Host localhost\n    http-check expect string hello",
    "httpchk, no two alike": "option httpchk GET /unlike HTTP/1.1\n"
    "    http-check send hdr Host localhost",
    "tcp-check": "option tcp-check\n    tcp-check send GET\\ /small\\ HTTP/1.0\\r\\n\\r\\n\n"
    "    tcp-check expect string hello",
}


def config(kind: str, port: int, servers: int, inter: str, threads: int) -> str:
    """One backend whose servers are all at `port`."""
    lines = "\n".join(f"    server s{i} 127.0.0.1:{port} check" for i in range(servers))
    return f"""
global
    nbthread {threads}
defaults
    mode http
    timeout connect 5s
    timeout client 5s
    timeout server 5s
    default-server inter {inter}
frontend fe
    bind "fd@${{fe}}"
    default_backend be
backend be
    {KINDS[kind]}
{lines}
"""


def measure_one(proxy: Program, seconds: float) -> dict[str, float]:
    """What the running proxy's checks cost, for `seconds`."""
    time.sleep(WARM_UP)
    cpu, begin = procfs.cpu_seconds(proxy.pid), time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - begin
    return {"CPU": (procfs.cpu_seconds(proxy.pid) - cpu) / took * 100}


def httpchecks(options: argparse.Namespace, say: Say) -> Outcome:
    """Each kind of check, with mtproxy and with HAProxy."""
    variants = {
        f"{program} {kind}": (program, kind) for kind in KINDS for program in ("mtproxy", "haproxy")
    }
    with Nginx() as nginx:

        def measure(title: str) -> dict[str, float]:
            program, kind = variants[title]
            text = config(kind, nginx.port, options.servers, options.inter, options.threads)
            with Program(program, text) as proxy:
                proxy.wait_ready()
                found = measure_one(proxy, options.seconds)
                up = proxy.cli("show stat be 4 -1").count(",UP,")
                if up != options.servers:
                    raise RuntimeError(f"{up} of {options.servers} servers are up")
                return found

        found = interleave(list(variants), options.rounds, measure, say)
    series = series_of(found, {"CPU": "% of a core"})
    ratios = []
    for kind in KINDS:
        cpu = pick(series, f"mtproxy {kind}", "CPU")
        shares = tuple(value / MOST_CPU for value in cpu.values)
        ratios.append(Ratio(f"CPU, {kind} / the {MOST_CPU:.0f} % allowed", shares, 1.0))
    settings: dict[str, object] = {
        "servers": options.servers,
        "inter": options.inter,
        "threads": options.threads,
        "rounds": options.rounds,
        "seconds": options.seconds,
        "config": config("httpchk", 0, 1, options.inter, options.threads),
    }
    return Outcome(series, ratios, settings, [])


def _options(parser: argparse.ArgumentParser) -> None:
    add_seconds(parser, 5)
    parser.add_argument("--servers", type=int, default=2000, help="checked servers (2000)")
    parser.add_argument("--inter", default="1s", help="interval of each check (1s)")
    parser.add_argument("--threads", type=int, default=2, help="nbthread (2)")


BENCHMARK = Benchmark(
    "httpchecks",
    "HTTP health checks of 2,000 servers once a second: share of a core, beside HAProxy",
    httpchecks,
    _options,
)
