"""`python -m perf NAME`: runs a benchmark, prints it, saves it under perf/results/."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from mtproxy.testing.program import find_tool
from perf import (
    boot,
    cells,
    checked,
    checks,
    clients,
    connections,
    http,
    httpchecks,
    idle,
    locks,
    machine,
    maps,
    profiling,
    results,
    rules,
    runqueue,
    sampling,
    scrape,
    start,
    sticktables,
    tcp,
    waitqueue,
)
from perf.suite import Benchmark

#: in the order in which --help shows them
BENCHMARKS: tuple[Benchmark, ...] = (
    http.BENCHMARK,
    connections.BENCHMARK,
    *idle.BENCHMARKS,
    tcp.BENCHMARK,
    start.BENCHMARK,
    runqueue.BENCHMARK,
    boot.BENCHMARK,
    waitqueue.BENCHMARK,
    checks.BENCHMARK,
    httpchecks.BENCHMARK,
    checked.BENCHMARK,
    locks.BENCHMARK,
    profiling.BENCHMARK,
    rules.BENCHMARK,
    sampling.BENCHMARK,
    scrape.BENCHMARK,
    cells.BENCHMARK,
    sticktables.BENCHMARK,
    maps.BENCHMARK,
)

_NEED = Path(__file__).resolve().parent.parent / ".ci" / "need"


def _rounds(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return value


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line; `benchmark` is a Benchmark."""
    parser = argparse.ArgumentParser(
        prog="python -m perf",
        description="Measure mtproxy, print a table and save it under perf/results/.",
        epilog="The variants take turns in every round. A ratio compares them round by round; "
        "what matters is its median. Exit code: 0 measured (whatever came out), 2 not possible. "
        "`python -m perf NAME --help` shows a benchmark's options.",
    )
    names = parser.add_subparsers(title="benchmarks", metavar="NAME", required=True)
    for benchmark in BENCHMARKS:
        one = names.add_parser(benchmark.name, help=benchmark.help, description=benchmark.help)
        one.set_defaults(benchmark=benchmark)
        one.add_argument(
            "--rounds",
            type=_rounds,
            default=benchmark.rounds,
            help=f"measurements of each variant ({benchmark.rounds})",
        )
        one.add_argument("--no-save", action="store_true", help="write nothing to perf/results/")
        benchmark.add_options(one)
    return parser.parse_args(arguments)


def have_tools(options: argparse.Namespace) -> bool:
    """Installs missing Debian packages through .ci/need; False with a message if that fails."""
    absent = [name for name in options.benchmark.needs(options) if find_tool(name) is None]
    if not absent:
        return True
    print(f"missing: {' '.join(absent)}; trying .ci/need {' '.join(absent)}", file=sys.stderr)
    if _NEED.exists():
        subprocess.run([str(_NEED), *absent], check=False)
    absent = [name for name in absent if find_tool(name) is None]
    if absent:
        names = " ".join(absent)
        print(f"cannot measure without {names}: as root, apt-get install {names}", file=sys.stderr)
    return not absent


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when measured (whatever came out), 2 when that was not possible."""
    options = parse(arguments)
    if not have_tools(options):
        return 2
    described = machine.describe()
    for line in machine.lines(described):
        print(line)
    begin = time.monotonic()
    try:
        outcome = options.benchmark.run(options, lambda text: print(f"  {text}", flush=True))
    except (clients.BadLoad, RuntimeError, OSError, TimeoutError) as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 2
    print()
    print("\n".join(results.table(outcome.series)))
    print()
    print("\n".join(results.ratio_lines(outcome.ratios)))
    for note in outcome.notes:
        print(note)
    print(
        "Each figure is the median of the rounds; between brackets are the least and the "
        f"greatest.\nIt took {time.monotonic() - begin:.0f} s."
    )
    if not options.no_save:
        path = results.save(
            options.benchmark.name, described, outcome.settings, outcome.series, outcome.ratios
        )
        print(f"saved: {os.path.relpath(path)}")
        for name, image in outcome.plots.items():
            beside = path.with_name(f"{path.stem}-{name}.svg")
            beside.write_text(image)
            print(f"saved: {os.path.relpath(beside)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
