"""Rounds of measurements: medians, spreads, ratios, tables, and their JSON."""

from __future__ import annotations

import dataclasses
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

RESULTS = Path(__file__).with_name("results")


@dataclasses.dataclass(slots=True)
class Series:
    """One variant's values of one metric, a value for each round."""

    variant: str
    metric: str
    unit: str
    values: list[float] = dataclasses.field(default_factory=list)

    @property
    def median(self) -> float:
        """The middle value."""
        return statistics.median(self.values)

    def spread(self) -> str:
        """The least and the greatest value."""
        return f"{number(min(self.values))}..{number(max(self.values))}"


@dataclasses.dataclass(frozen=True, slots=True)
class Ratio:
    """Two series divided round by round. `bound` is what is asked for, `at_most` its direction."""

    name: str
    values: tuple[float, ...]
    bound: float | None = None
    at_most: bool = True

    @property
    def median(self) -> float:
        """The middle of the rounds' ratios."""
        return statistics.median(self.values)

    @property
    def told_apart(self) -> bool:
        """False when some rounds say more and others less. With five rounds, two equals would be
        told apart by chance in one of 16 runs.
        """
        return min(self.values) > 1.0 or max(self.values) < 1.0

    @property
    def met(self) -> bool | None:
        """Whether the median keeps the bound; None without one."""
        if self.bound is None:
            return None
        return self.median <= self.bound if self.at_most else self.median >= self.bound


def ratio(
    name: str, above: Series, below: Series, bound: float | None = None, *, at_most: bool = True
) -> Ratio:
    """`above` / `below`, paired by round."""
    pairs = zip(above.values, below.values, strict=True)
    return Ratio(name, tuple(a / b for a, b in pairs), bound, at_most)


def number(value: float) -> str:
    """Three figures that matter, thousands separated."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"


def table(series: Sequence[Series]) -> list[str]:
    """One line per variant, one pair of columns per metric."""
    metrics = list(dict.fromkeys((s.metric, s.unit) for s in series))
    variants = list(dict.fromkeys(s.variant for s in series))
    head = ["", *(f"{metric} ({unit})" if unit else metric for metric, unit in metrics)]
    rows = [head]
    for variant in variants:
        row = [variant]
        for metric, _ in metrics:
            found = next((s for s in series if (s.variant, s.metric) == (variant, metric)), None)
            row.append(f"{number(found.median)}  [{found.spread()}]" if found else "-")
        rows.append(row)
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    return [
        "   ".join(cell.ljust(widths[i]) for i, cell in enumerate(row)).rstrip() for row in rows
    ]


def ratio_lines(ratios: Sequence[Ratio]) -> list[str]:
    """One line per ratio: median, spread, verdict."""
    width = max((len(r.name) for r in ratios), default=0)
    lines = []
    for r in ratios:
        text = f"{r.name.ljust(width)}  {r.median:6.3f}  [{min(r.values):.3f}..{max(r.values):.3f}]"
        if r.bound is not None:
            sign = "at most" if r.at_most else "at least"
            text += f"  the goal, {sign} {r.bound:g}, is {'met' if r.met else 'MISSED'}"
        if not r.told_apart:
            text += "  (the two cannot be told apart)"
        lines.append(text)
    return lines


def save(
    kind: str,
    machine: dict[str, object],
    settings: dict[str, object],
    series: Sequence[Series],
    ratios: Sequence[Ratio],
    folder: Path = RESULTS,
) -> Path:
    """Writes the result as JSON under perf/results/ and returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    path = folder / f"{kind}-{stamp}.json"
    content = {
        "kind": kind,
        "utc": stamp,
        "machine": machine,
        "settings": settings,
        "series": [dataclasses.asdict(s) | {"median": s.median} for s in series],
        "ratios": [
            dataclasses.asdict(r) | {"median": r.median, "met": r.met, "told_apart": r.told_apart}
            for r in ratios
        ],
    }
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path


def interleave(
    variants: Sequence[str],
    rounds: int,
    measure: Callable[[str], dict[str, float]],
    say: Callable[[str], None],
) -> dict[str, list[dict[str, float]]]:
    """Calls `measure` for each variant in every round; each round begins with another variant, so
    that none always follows the same one.
    """
    found: dict[str, list[dict[str, float]]] = {variant: [] for variant in variants}
    for turn in range(rounds):
        shift = turn % len(variants)
        for variant in [*variants[shift:], *variants[:shift]]:
            values = measure(variant)
            found[variant].append(values)
            shown = ", ".join(f"{key} {number(value)}" for key, value in values.items())
            say(f"round {turn + 1}/{rounds}  {variant:22} {shown}")
    return found
