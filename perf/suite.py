"""What every benchmark is made of: its entry in the list, its result, and a few helpers.

A benchmark is a module of this package with a `BENCHMARK`; `perf.__main__` lists them.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Sequence

from perf.results import Ratio, Series

type Say = Callable[[str], None]


@dataclasses.dataclass(slots=True)
class Outcome:
    """A benchmark's result, ready to be printed and saved."""

    series: list[Series]
    ratios: list[Ratio]
    settings: dict[str, object]
    notes: list[str] = dataclasses.field(default_factory=list)
    #: images (SVG) by a short name; they are saved beside the JSON
    plots: dict[str, str] = dataclasses.field(default_factory=dict)


def _nothing(_parser: argparse.ArgumentParser) -> None:
    """A benchmark without options of its own."""


def _no_tools(_options: argparse.Namespace) -> Sequence[str]:
    return ()


@dataclasses.dataclass(frozen=True, slots=True)
class Benchmark:
    """An entry of `python -m perf`. `run(options, say)` measures; it raises clients.BadLoad,
    RuntimeError, OSError or TimeoutError when it cannot.
    """

    name: str
    #: one line for --help
    help: str
    run: Callable[[argparse.Namespace, Say], Outcome]
    #: adds the options that it has besides --rounds and --no-save
    add_options: Callable[[argparse.ArgumentParser], None] = _nothing
    #: Debian's packages that must be there, by the options
    needs: Callable[[argparse.Namespace], Sequence[str]] = _no_tools
    #: measurements of each variant, unless the command line says otherwise
    rounds: int = 5


def positive(text: str) -> float:
    """Argparse type: a number above 0."""
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def add_seconds(parser: argparse.ArgumentParser, default: float) -> None:
    """The option --seconds: how long one round of one variant lasts."""
    parser.add_argument(
        "--seconds", type=positive, default=default, help=f"seconds of one round ({default:g})"
    )


def add_programs(parser: argparse.ArgumentParser) -> None:
    """The options --program and --against."""
    parser.add_argument("--program", default="mtproxy", help="mtproxy, or a path (mtproxy)")
    parser.add_argument("--against", default="haproxy", help="what it is held against (haproxy)")


def program_tools(options: argparse.Namespace) -> list[str]:
    """The package that --program and --against need."""
    return [p for p in (options.program, options.against) if p == "haproxy"]


def program_names(programs: Sequence[str]) -> list[str]:
    """Short names; the same program twice (a check of the method) gets two."""
    names = [program.rpartition("/")[2] for program in programs]
    if names[0] == names[1]:
        names[1] += "'"
    return names


def series_of(found: dict[str, list[dict[str, float]]], units: dict[str, str]) -> list[Series]:
    """What `results.interleave` found, by variant and metric. `units`: metric -> unit."""
    return [
        Series(variant, metric, unit, [values[metric] for values in rounds])
        for variant, rounds in found.items()
        for metric, unit in units.items()
    ]


def pick(series: Sequence[Series], variant: str, metric: str) -> Series:
    """The one series of a variant and metric."""
    return next(s for s in series if (s.variant, s.metric) == (variant, metric))
