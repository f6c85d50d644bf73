"""Curves of a benchmark as an SVG image: one text, no library, readable in light and dark.

`lines(title, x_label, y_label, {name: [(x, y, low, high), ...]})` draws each series as a line with
its spread behind it. The x axis is logarithmic where that is asked for, and has a tick at each x
that was measured; the y axis begins at 0 only if `zero` says so, and has round numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

#: x, y, and the least and the greatest y that were seen there
type Point = tuple[float, float, float, float]
type Curves = Mapping[str, Sequence[Point]]

_WIDTH, _HEIGHT = 760, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 24, 64, 56
#: distinguishable for colour-blind eyes (Okabe and Ito)
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "1 2")
_STYLE = """
  text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #333; }
  .title { font-size: 16px; font-weight: 600; fill: #111; }
  .axis { stroke: #888; } .grid { stroke: #ddd; }
  .paper { fill: #fff; } .mark { stroke: #fff; stroke-width: 1.5; }
  @media (prefers-color-scheme: dark) {
    text { fill: #ccc; } .title { fill: #eee; } .axis { stroke: #888; } .grid { stroke: #3a3a3a; }
    .paper { fill: #1e1e1e; } .mark { stroke: #1e1e1e; }
  }
"""


def ticks(low: float, high: float, wanted: int = 6) -> list[float]:
    """Round numbers from at most `low` to at least `high`: multiples of 1, 2 or 5 times a power of
    ten, about `wanted` of them.
    """
    if high - low <= 1e-9 * max(1e-9, abs(low), abs(high)):  # no span that floats could divide
        high = low + (abs(low) if abs(low) > 1e-9 else 1.0)
    raw = (high - low) / max(1, wanted - 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [n * step for n in range(first, last + 1)]


def tick_text(value: float) -> str:
    """`value` without zeros that say nothing; thousands separated."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:.6f}".rstrip("0").rstrip(".")


class _Scale:
    """From values to pixels."""

    def __init__(
        self, low: float, high: float, begin: float, end: float, *, log: bool = False
    ) -> None:
        self._log = log
        self._low, high = self._of(low), self._of(high)
        self._span = high - self._low or 1.0
        self._begin, self._end = begin, end

    def _of(self, value: float) -> float:
        return math.log(value) if self._log else value

    def __call__(self, value: float) -> float:
        share = (self._of(value) - self._low) / self._span
        return round(self._begin + share * (self._end - self._begin), 1)


def lines(
    title: str,
    x_label: str,
    y_label: str,
    curves: Curves,
    *,
    log_x: bool = False,
    zero: bool = False,
) -> str:
    """The image as SVG text. Raises ValueError where there is nothing to draw."""
    points = [point for curve in curves.values() for point in curve]
    if not points:
        raise ValueError("nothing to draw")
    xs = sorted({point[0] for point in points})
    lowest = 0.0 if zero else min(point[2] for point in points)
    marks = ticks(lowest, max(point[3] for point in points))
    x_of = _Scale(xs[0], xs[-1], _LEFT + 12, _WIDTH - _RIGHT - 12, log=log_x)
    y_of = _Scale(marks[0], marks[-1], _HEIGHT - _BOTTOM, _TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{escape(title)}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{_WIDTH}" height="{_HEIGHT}"/>',
        f'<text class="title" x="{_LEFT}" y="24">{escape(title)}</text>',
        *_axes(xs, marks, x_of, y_of, x_label, y_label),
    ]
    for number, (name, curve) in enumerate(curves.items()):
        if curve:
            parts += _curve(name, sorted(curve), x_of, y_of, number)
    parts += _legend(list(curves))
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _axes(
    xs: Sequence[float],
    marks: Sequence[float],
    x_of: _Scale,
    y_of: _Scale,
    x_label: str,
    y_label: str,
) -> list[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    parts = []
    for mark in marks:
        y = y_of(mark)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y}" y2="{y}"/>')
        parts.append(
            f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{tick_text(mark)}</text>'
        )
    last = -math.inf
    for x in xs:
        place = x_of(x)
        parts.append(
            f'<line class="axis" x1="{place}" x2="{place}" y1="{bottom}" y2="{bottom + 5}"/>'
        )
        text = tick_text(x)
        if place - last > 8 * len(text):  # no text upon another
            parts.append(f'<text x="{place}" y="{bottom + 20}" text-anchor="middle">{text}</text>')
            last = place
    middle = (_LEFT + right) / 2
    parts += [
        f'<line class="axis" x1="{_LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>',
        f'<text x="{middle}" y="{_HEIGHT - 12}" text-anchor="middle">{escape(x_label)}</text>',
        f'<text transform="translate(18 {(_TOP + bottom) / 2}) rotate(-90)" '
        f'text-anchor="middle">{escape(y_label)}</text>',
    ]
    return parts


def _curve(name: str, curve: Sequence[Point], x_of: _Scale, y_of: _Scale, number: int) -> list[str]:
    colour, dash = _look(number)
    upper = [f"{x_of(x)},{y_of(high)}" for x, _, _, high in curve]
    lower = [f"{x_of(x)},{y_of(low)}" for x, _, low, _ in reversed(curve)]
    middle = " ".join(f"{x_of(x)},{y_of(y)}" for x, y, _, _ in curve)
    parts = [
        f'<polygon points="{" ".join(upper + lower)}" fill="{colour}" fill-opacity="0.14"/>',
        f'<polyline points="{middle}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>',
    ]
    for x, y, low, high in curve:
        about = f"{name}: {tick_text(x)} \N{RIGHTWARDS ARROW} {y:.6g} ({low:.6g} to {high:.6g})"
        parts.append(
            f'<circle class="mark" cx="{x_of(x)}" cy="{y_of(y)}" r="4" fill="{colour}">'
            f"<title>{escape(about)}</title></circle>"
        )
    return parts


def _legend(names: Sequence[str]) -> list[str]:
    parts = []
    x = float(_LEFT)
    for number, name in enumerate(names):
        colour, dash = _look(number)
        parts.append(
            f'<line x1="{x}" x2="{x + 26}" y1="44" y2="44" stroke="{colour}" '
            f'stroke-width="2.5"{dash}/>'
        )
        parts.append(f'<text x="{x + 32}" y="48">{escape(name)}</text>')
        x += 54 + 7.2 * len(name)
    return parts


def _look(number: int) -> tuple[str, str]:
    dash = _DASHES[number % len(_DASHES)]
    return _COLOURS[number % len(_COLOURS)], f' stroke-dasharray="{dash}"' if dash else ""
