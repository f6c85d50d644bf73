"""The time from the start of the process until it serves, against HAProxy."""

from __future__ import annotations

import argparse
import time

from mtproxy.testing import procfs
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program
from mtproxy.testing.wire import as_wire
from perf import clients
from perf.http import http_config
from perf.results import Ratio, interleave, ratio
from perf.suite import (
    Benchmark,
    Outcome,
    Say,
    add_programs,
    pick,
    program_names,
    program_tools,
    series_of,
)

#: what the proxy has to reach; see README
MOST_START_MS = 300.0


def start(options: argparse.Namespace, say: Say) -> Outcome:
    """From exec to the first answered request. The client is there first: its connection waits in
    the queue of the inherited listener.
    """
    programs = [options.against, options.program]
    names = program_names(programs)
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
    series = series_of(found, {"start": "ms", "CPU": "ms", "memory": "MB"})
    ours = pick(series, names[1], "start")
    bound = Ratio(
        f"start of {names[1]} / the {MOST_START_MS:.0f} ms allowed",
        tuple(value / MOST_START_MS for value in ours.values),
        1.0,
    )
    ratios = [
        bound,
        ratio(f"start: {names[1]} / {names[0]}", ours, pick(series, names[0], "start")),
    ]
    return Outcome(series, ratios, {"rounds": options.rounds})


BENCHMARK = Benchmark(
    "start",
    "from the start of the process until it serves",
    start,
    add_programs,
    program_tools,
    rounds=10,
)
