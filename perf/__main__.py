"""`python -m perf http|tcp|start`: runs a benchmark, prints it, saves it under perf/results/."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from mtproxy.testing.program import find_tool
from perf import benchmarks, clients, machine, results

_RUNS = {"http": benchmarks.http, "tcp": benchmarks.tcp, "start": benchmarks.start}
_BENCHMARKS = """\
benchmarks:
  http   wrk's keep-alive requests through the proxy to nginx: CPU time per request, requests/s
  tcp    large downloads in mode tcp, spliced and copied: bytes per CPU second
  start  from the start of the process until it serves

The variants take turns in every round. A ratio compares them round by round; what matters is its
median. Exit code: 0 measured (whatever came out), 2 not possible.
"""
_NEEDS = {"http": ("nginx", "wrk"), "tcp": ("nginx",), "start": ()}
_NEED = Path(__file__).resolve().parent.parent / ".ci" / "need"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m perf",
        description="Measure mtproxy against HAProxy, print a table and save it under "
        "perf/results/.",
        epilog=_BENCHMARKS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("benchmark", choices=sorted(_RUNS), help="what is measured, see below")
    parser.add_argument("--rounds", type=int, help="measurements of each variant (5; start: 10)")
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="http, tcp: seconds of one round (5)"
    )
    parser.add_argument("--program", default="mtproxy", help="mtproxy, or a path (mtproxy)")
    parser.add_argument("--against", default="haproxy", help="what it is held against (haproxy)")
    parser.add_argument(
        "--threads", type=int, nargs="+", default=[1, 2], help="http: nbthread (1 2)"
    )
    parser.add_argument("--connections", type=int, default=2, help="tcp: downloads at once (2)")
    parser.add_argument("--no-save", action="store_true", help="write nothing under perf/results/")
    options = parser.parse_args(arguments)
    if options.rounds is None:
        options.rounds = 10 if options.benchmark == "start" else 5
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("--rounds and --seconds must be positive")
    return options


def have_tools(options: argparse.Namespace) -> bool:
    """Installs missing Debian packages through .ci/need; False with a message if that fails."""
    wanted = [*_NEEDS[options.benchmark]]
    wanted += [p for p in (options.program, options.against) if p == "haproxy"]
    absent = [name for name in wanted if find_tool(name) is None]
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
        outcome = _RUNS[options.benchmark](options, lambda text: print(f"  {text}", flush=True))
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
            options.benchmark, described, outcome.settings, outcome.series, outcome.ratios
        )
        print(f"saved: {os.path.relpath(path)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
