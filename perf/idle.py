"""Idle keep-alive connections, and slow clients: what they cost, and whom.

`idle` opens many connections, each of which has had one answer, and looks at the memory of the
proxy before and then; where a process may not have that many descriptors, several proxies share
the connections. `slow` lets many clients send a head or a body byte by byte while wrk
measures how the others fare, with and without them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from mtproxy.testing.nginx import Nginx
from mtproxy.testing.program import Program, in_shell
from perf import clients
from perf.holders import raise_limit
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

#: what slow clients may cost the others
LEAST_RATE = 0.9
_CONNECTIONS = 64
#: descriptors for everything else
_SPARE = 1000


def _config(origin: int, count: int, threads: int) -> str:
    return f"""
global
    nbthread {threads}
    no strict-limits
    maxconn {count + 500}
defaults
    mode http
    timeout connect 5s
    timeout client 1h
    timeout server 1h
    timeout http-request 1h
    timeout http-keep-alive 1h
frontend fe
    bind "fd@${{fe}}"
    default_backend be
backend be
    server s1 127.0.0.1:{origin}
"""


def _possible(count: int) -> int:
    """As many connections as a proxy may hold here, at most `count`; it reckons with two
    descriptors for each.
    """
    return min(count, (raise_limit(2 * count + _SPARE) - _SPARE) // 2)


def _program(program: str, origin: int, count: int, threads: int) -> Program:
    wanted = 3 * count + 2000
    limit = raise_limit(wanted)
    wrapper = in_shell(f"ulimit -n {min(wanted, limit)}")
    return Program(program, _config(origin, count, threads), wrapper=wrapper)


@contextmanager
def _holding(port: int, count: int, slow: float = 0) -> Iterator[subprocess.Popen[str]]:
    """`count` connections, open while the block runs. Raises RuntimeError where they cannot be."""
    words = [sys.executable, "-m", "perf.holders", "--port", str(port), "--count", str(count)]
    holder = subprocess.Popen(
        [*words, "--slow", str(slow)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None and holder.stdin is not None
    try:
        said = holder.stdout.readline().strip()
        if said == "limit":
            raise RuntimeError(f"no process may have {count} descriptors here: --connections less")
        if said != "ready":
            raise RuntimeError(f"the clients failed after {said!r}")
        yield holder
        holder.stdin.close()
        last = holder.stdout.read().split()
        if slow and last[-1:] != ["0"]:
            raise RuntimeError(f"slow clients were closed: {last}")
    finally:
        if holder.poll() is None:
            holder.kill()
        holder.wait()
        holder.stdout.close()


def idle(options: argparse.Namespace, say: Say) -> Outcome:
    """Memory of idle keep-alive connections."""
    programs = [options.against, options.program]
    names = program_names(programs)
    by_name = dict(zip(names, programs, strict=True))
    processes = -(-options.connections // _possible(options.connections))
    share = -(-options.connections // processes)
    notes = [f"{processes} processes of each program share the connections: a process may not have"
             " descriptors for all"]  # fmt: skip
    with Nginx() as origin:

        def measure(variant: str) -> dict[str, float]:
            with ExitStack() as stack:
                proxies = [
                    stack.enter_context(
                        _program(by_name[variant], origin.port, share, options.nbthread)
                    )
                    for _ in range(processes)
                ]
                for proxy in proxies:
                    clients.wrk(proxy.port(), "/small", seconds=1, connections=_CONNECTIONS)
                before = sum(proxy.rss() for proxy in proxies)
                for proxy in proxies:
                    stack.enter_context(_holding(proxy.port(), share))
                grown = sum(proxy.rss() for proxy in proxies) - before
                open_now = sum(int(proxy.stat("fe", "FRONTEND")["scur"]) for proxy in proxies)
                if open_now < share * processes:
                    raise RuntimeError(f"{variant} holds {open_now} of {share * processes}")
            return {"memory": grown / share / processes / 1024}

        found = interleave(names, options.rounds, measure, say)
    series = series_of(found, {"memory": "KB/connection"})
    theirs, ours = names
    ratios = [
        ratio(
            f"memory: {ours} / {theirs}",
            pick(series, ours, "memory"),
            pick(series, theirs, "memory"),
        )
    ]
    settings = {
        "connections": share * processes,
        "processes": processes,
        "nbthread": options.nbthread,
    }
    return Outcome(series, ratios, settings, notes if processes > 1 else [])


def slow(options: argparse.Namespace, say: Say) -> Outcome:
    """What clients that send slowly cost the others."""
    names = program_names([options.against, options.program])
    by_name = dict(zip(names, [options.against, options.program], strict=True))
    variants = [f"{name} {how}" for name in names for how in ("alone", "beside slow clients")]
    count = _possible(options.connections)
    with ExitStack() as stack:
        origin = stack.enter_context(Nginx())
        running = {
            name: stack.enter_context(_program(program, origin.port, count, options.nbthread))
            for name, program in by_name.items()
        }

        def measure(variant: str) -> dict[str, float]:
            name, _, how = variant.partition(" ")
            port = running[name].port()
            with ExitStack() as inner:
                if how != "alone":
                    inner.enter_context(_holding(port, count, options.interval))
                load = clients.wrk(
                    port, "/small", seconds=options.seconds, connections=_CONNECTIONS
                )
            return {"rate": load.requests / load.seconds, "p99": load.p99_us / 1000}

        found = interleave(variants, options.rounds, measure, say)
    series = series_of(found, {"rate": "requests/s", "p99": "ms"})
    ratios: list[Ratio] = [
        ratio(
            f"rate of {name} beside slow clients / alone",
            pick(series, f"{name} beside slow clients", "rate"),
            pick(series, f"{name} alone", "rate"),
            LEAST_RATE,
            at_most=False,
        )
        for name in names
    ]
    settings = {"connections": count, "nbthread": options.nbthread, "interval": options.interval}
    return Outcome(series, ratios, settings)


def _options(count: int, parser: argparse.ArgumentParser) -> None:
    add_programs(parser)
    parser.add_argument("--connections", type=int, default=count, help=f"how many ({count})")
    parser.add_argument("--nbthread", type=int, default=2, help="threads of the proxy (2)")


def _idle_options(parser: argparse.ArgumentParser) -> None:
    _options(20_000, parser)


def _slow_options(parser: argparse.ArgumentParser) -> None:
    _options(5000, parser)
    add_seconds(parser, 5)
    parser.add_argument(
        "--interval", type=float, default=5, help="seconds between two bytes of a client (5)"
    )


def _tools(options: argparse.Namespace) -> list[str]:
    return ["nginx", "wrk", *program_tools(options)]


BENCHMARKS = (
    Benchmark(
        "idle", "memory of 20,000 idle keep-alive connections", idle, _idle_options, _tools, 3
    ),
    Benchmark(
        "slow", "5,000 clients that send slowly beside others", slow, _slow_options, _tools, 3
    ),
)
