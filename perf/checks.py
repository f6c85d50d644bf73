"""Health checks as fast as they go: thousands of servers, lock statistics while it runs.

Every server is checked by a TCP connection at an interval that no machine keeps up with. The
listening sockets belong to the benchmark and nobody accepts: a check that has connected is reset
before its handshake is acknowledged, so the kernel answers and keeps nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import time
from contextlib import ExitStack
from typing import Any

from mtproxy.sched.waitqueue_variants import VARIANTS
from mtproxy.testing import procfs
from mtproxy.testing.program import Program
from perf.results import Ratio, interleave, ratio
from perf.runqueue import activity
from perf.suite import Benchmark, Outcome, Say, add_seconds, pick, series_of

#: addresses and ports the servers are spread over: client ports are used again after a while
LISTENERS = 40
#: what waiting for TASK_WQ may take of the threads' time, in percent
MOST_WAITING = 0.5
#: seconds until the checks are in their stride
WARM_UP = 1.0


def checks_config(ports: list[int], servers: int, inter: str, threads: int, variant: str) -> str:
    """One backend; server number i is checked at 127.0.0.x, listener i modulo their number."""
    lines = "\n".join(
        f"    server s{i} 127.0.0.1:{ports[i % len(ports)]} check" for i in range(servers)
    )
    return f"""
global
    nbthread {threads}
    tune.wait-queue {variant}
defaults
    mode tcp
    timeout connect 5s
    timeout client 5s
    timeout server 5s
    default-server inter {inter}
frontend fe
    bind "fd@${{fe}}"
    default_backend be
backend be
{lines}
"""


def lock_of(proxy: Program, label: str) -> dict[str, Any]:
    """The figures of one label, at this moment."""
    found: list[dict[str, Any]] = json.loads(proxy.cli("show locks json"))
    return next(one for one in found if one["label"] == label)


def measure_one(proxy: Program, threads: int, seconds: float) -> dict[str, float]:
    """The running proxy's checks and what they cost, for `seconds`."""
    time.sleep(WARM_UP)
    proxy.cli("show locks reset TASK_WQ")
    cpu, done, begin = procfs.cpu_seconds(proxy.pid), activity(proxy)["tasksw"], time.monotonic()
    time.sleep(seconds)
    lock = lock_of(proxy, "TASK_WQ")
    took = time.monotonic() - begin
    # shared tasks that were run: checks are the only ones
    done, cpu = activity(proxy)["tasksw"] - done, procfs.cpu_seconds(proxy.pid) - cpu
    if not done:
        raise RuntimeError("no check was made")
    waited = sum(lock[f"{kind}_wait_ns"] for kind in ("read", "seek", "write"))
    locks = sum(lock[f"{kind}_locks"] for kind in ("read", "seek", "write"))
    return {
        "rate": done / took,
        "per CPU second": done / cpu,
        "CPU": cpu / took * 100,
        "waiting": waited / (took * 1e9 * threads) * 100,
        "per lock": waited / max(1, locks),
        "locks": locks / done,
        "longest": lock["longest_wait_ns"] / 1e6,
    }


UNITS = {
    "rate": "checks/s",
    "per CPU second": "checks",
    "CPU": "% of a core",
    "waiting": "% of thread time",
    "per lock": "ns",
    "locks": "per check",
    "longest": "ms",
}


def checks(options: argparse.Namespace, say: Say) -> Outcome:
    """Each variant of the wait queue with each number of threads."""
    variants = {f"{name} nbthread {n}": (name, n) for n in options.threads for name in VARIANTS}
    dumps: dict[str, str] = {}
    with ExitStack() as stack:
        ports = []
        for _ in range(LISTENERS):
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=4096))
            ports.append(listener.getsockname()[1])

        def measure(title: str) -> dict[str, float]:
            variant, threads = variants[title]
            config = checks_config(ports, options.servers, options.inter, threads, variant)
            with Program("mtproxy", config) as proxy:
                proxy.wait_ready()
                found = measure_one(proxy, threads, options.seconds)
                dumps[title] = proxy.cli("show locks TASK_WQ")
                return found

        found = interleave(list(variants), options.rounds, measure, say)
    series = series_of(found, UNITS)
    cores = len(os.sched_getaffinity(0))
    ratios = []
    for n in options.threads:
        many = " (over-subscribed)" if n > cores else ""
        waiting = pick(series, f"seek nbthread {n}", "waiting")
        title = f"waiting for TASK_WQ, seek, {n} threads{many} / the {MOST_WAITING} % allowed"
        shares = tuple(value / MOST_WAITING for value in waiting.values)
        ratios.append(Ratio(title, shares, None if many else 1.0))
        for other in ("write", "mutex"):
            for metric in ("per CPU second", "rate"):
                above, below = (pick(series, f"{v} nbthread {n}", metric) for v in ("seek", other))
                name = f"checks {metric}, {n} threads{many}: seek / {other}".replace(
                    "checks rate", "checks/s"
                )
                ratios.append(ratio(name, above, below))
    fit = max((n for n in options.threads if n <= cores), default=None)
    for n in options.threads:
        if fit is None or n <= cores:
            continue
        for name in VARIANTS:
            for metric, what in (("per CPU second", "checks per CPU second"), ("rate", "checks/s")):
                above, below = (pick(series, f"{name} nbthread {k}", metric) for k in (n, fit))
                title = f"over-subscribed: {what}, {name}, {n} threads / {fit}"
                ratios.append(ratio(title, above, below))
    settings: dict[str, object] = {
        "servers": options.servers,
        "inter": options.inter,
        "rounds": options.rounds,
        "seconds": options.seconds,
        "config": checks_config([0], 1, options.inter, 1, "seek"),
    }
    last = f"seek nbthread {max(options.threads)}"
    notes = [f"{last}, TASK_WQ as its runtime socket showed it in the last round:", dumps[last]]
    return Outcome(series, ratios, settings, notes)


def _options(parser: argparse.ArgumentParser) -> None:
    add_seconds(parser, 3)
    parser.add_argument("--servers", type=int, default=2000, help="checked servers (2000)")
    parser.add_argument("--inter", default="10ms", help="interval of each check (10ms)")
    parser.add_argument(
        "--threads", type=int, nargs="+", default=[1, 2, 4], help="nbthread (1 2 4)"
    )


BENCHMARK = Benchmark(
    "checks",
    "health checks of 2,000 servers: checks per CPU second, waiting for the wait queue's lock",
    checks,
    _options,
)
