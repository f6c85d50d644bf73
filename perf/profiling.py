"""What profiling costs: keep-alive HTTP with and without a session of the built-in sampler at 100
samples per second, and with task profiling.

One proxy serves all variants, so that nothing differs but the profiling. The client that receives
the samples is a process of its own, whose CPU time is not counted.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from mtproxy.testing import procfs
from mtproxy.testing.nginx import Nginx
from mtproxy.testing.program import Program
from perf import clients
from perf.http import CONNECTIONS, http_config
from perf.results import interleave, ratio
from perf.sink import Sink
from perf.suite import Benchmark, Outcome, Say, add_seconds, pick, series_of

#: of CPU per request, with a session / without; see docs/profiling.md
MOST_CPU = 1.03
#: seconds that a session lasts longer than the load that it watches, at each end
_MARGIN = 0.3


@contextmanager
def session(proxy: Program, seconds: float, rate: int) -> Iterator[Path]:
    """A profiling session around a load of `seconds`; yields where its result will be."""
    output = proxy.directory / "profile.txt"
    output.unlink(missing_ok=True)
    command = [sys.executable, "-m", "mtproxy", "profile", "-S", proxy.socket_path]
    command += ["--sampler", "builtin", "--seconds", str(seconds + 2 * _MARGIN + 1)]
    command += ["--rate", str(rate), "--format", "top", "-o", str(output)]
    client = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert client.stderr is not None
        client.stderr.readline()  # "not py-spy: ..." or the sampler's announcement: it begins
        yield output
    finally:
        _, said = client.communicate(timeout=60)
        if client.returncode != 0:
            raise RuntimeError(f"mtproxy profile failed: {said}")


def rounds_of(text: str) -> tuple[int, float]:
    """Samples and seconds that the head of the table tells."""
    words = text.split()
    return int(words[words.index("rounds") - 1]), float(words[words.index("rounds") + 2])


def profiling(options: argparse.Namespace, say: Say) -> Outcome:
    """CPU per request off, sampled, and with tasks profiled."""
    variants = ["off", f"sampler {options.rate} Hz", "tasks on"]
    rates: list[float] = []
    with ExitStack() as stack:
        sink = stack.enter_context(Sink())
        origin = stack.enter_context(Nginx())
        config = http_config(origin.port, sink.port, options.threads)
        proxy = stack.enter_context(Program("mtproxy", config))
        proxy.wait_ready()
        clients.wrk(proxy.port(), "/small", seconds=2, connections=CONNECTIONS)

        def load() -> dict[str, float]:
            before = procfs.cpu_seconds(proxy.pid)
            load = clients.wrk(
                proxy.port(), "/small", seconds=options.seconds, connections=CONNECTIONS
            )
            spent = procfs.cpu_seconds(proxy.pid) - before
            return {
                "CPU": spent / load.requests * 1e6,
                "rate": load.requests / load.seconds,
                "p99": load.p99_us / 1000,
            }

        def measure(variant: str) -> dict[str, float]:
            if variant == "off":
                return load()
            if variant == "tasks on":
                proxy.cli("set profiling tasks on")
                try:
                    return load()
                finally:
                    proxy.cli("set profiling tasks off")
            with session(proxy, options.seconds, options.rate) as output:
                found = load()
            samples, seconds = rounds_of(output.read_text())
            rates.append(samples / seconds)
            return found

        found = interleave(variants, options.rounds, measure, say)
    series = series_of(found, {"CPU": "us/request", "rate": "requests/s", "p99": "ms"})
    ratios = []
    for metric in ("CPU", "rate"):
        off = pick(series, "off", metric)
        for variant in variants[1:]:
            bound = MOST_CPU if (metric, variant) == ("CPU", variants[1]) else None
            title = f"{metric}: {variant} / off"
            ratios.append(ratio(title, pick(series, variant, metric), off, bound))
    settings: dict[str, object] = {
        "connections": CONNECTIONS,
        "rounds": options.rounds,
        "seconds": options.seconds,
        "threads": options.threads,
        "rate": options.rate,
        "config": http_config(0, 0, options.threads),
    }
    least = min(rates)
    notes = [f"samples per second: {least:.0f} to {max(rates):.0f}, asked for {options.rate}"]
    if least < 0.8 * options.rate:
        notes.append("that is less than asked for: the machine was short of CPUs")
    return Outcome(series, ratios, settings, notes)


def _options(parser: argparse.ArgumentParser) -> None:
    add_seconds(parser, 5)
    parser.add_argument("--threads", type=int, default=2, help="nbthread (2)")
    parser.add_argument("--rate", type=int, default=100, help="samples per second (100)")


BENCHMARK = Benchmark(
    "profiling",
    "keep-alive requests with and without profiling: CPU time per request, requests/s",
    profiling,
    _options,
    lambda _options: ["nginx", "wrk"],
    rounds=7,
)
