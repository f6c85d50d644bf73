"""Images of curves: well-formed, with everything that was measured in the right place."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf import plot

SVG = "{http://www.w3.org/2000/svg}"


@given(st.floats(-1e9, 1e9), st.floats(0, 1e9), st.integers(2, 12))
def test_ticks_are_round_and_hold_everything(low: float, span: float, wanted: int) -> None:
    marks = plot.ticks(low, low + span, wanted)
    slack = 1e-6 * max(1.0, abs(low), span)
    assert marks[0] <= low + slack
    assert marks[-1] >= low + span - slack
    assert 2 <= len(marks) <= wanted + 2


@pytest.mark.parametrize(
    ("low", "high", "marks"),
    [
        (0, 100, [0, 20, 40, 60, 80, 100]),
        (18_200, 34_400, [15_000, 20_000, 25_000, 30_000, 35_000]),
        (7, 7, [6, 8, 10, 12, 14]),
    ],
)
def test_ticks(low: float, high: float, marks: list[float]) -> None:
    assert plot.ticks(low, high) == marks


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (25_000.0, "25,000"), (0.25, "0.25"), (-1.5, "-1.5")]
)
def test_tick_text(value: float, text: str) -> None:
    assert plot.tick_text(value) == text


def circles(svg: str) -> list[tuple[float, float, str]]:
    found = []
    for circle in ET.fromstring(svg).iter(f"{SVG}circle"):
        title = circle.find(f"{SVG}title")
        assert title is not None
        found.append((float(circle.attrib["cx"]), float(circle.attrib["cy"]), title.text or ""))
    return found


def test_points_stand_where_they_belong() -> None:
    curves = {"a < b": [(8.0, 1.0, 0.5, 1.5), (64.0, 2.0, 2.0, 2.0), (16.0, 3.0, 1.0, 3.0)]}
    points = circles(plot.lines("rates & more", "depth", "1/s", curves, log_x=True))
    assert [text for _, _, text in points] == [
        "a < b: 8 \N{RIGHTWARDS ARROW} 1 (0.5 to 1.5)",
        "a < b: 16 \N{RIGHTWARDS ARROW} 3 (1 to 3)",
        "a < b: 64 \N{RIGHTWARDS ARROW} 2 (2 to 2)",
    ]
    (x1, y1, _), (x2, y2, _), (x3, y3, _) = points
    assert x2 - x1 == pytest.approx((x3 - x1) / 3, abs=0.2)  # one doubling of three
    assert y1 > y3 > y2  # downwards in pixels


def test_a_linear_axis_from_zero() -> None:
    curves = {"a": [(0.0, 50.0, 50.0, 50.0), (1.0, 100.0, 100.0, 100.0), (4.0, 0.5, 0.0, 1.0)]}
    points = circles(plot.lines("t", "x", "y", curves, zero=True))
    xs, ys = [x for x, _, _ in points], [y for _, y, _ in points]
    assert xs[1] - xs[0] == pytest.approx((xs[2] - xs[0]) / 4, abs=0.2)
    assert ys[0] - ys[1] == pytest.approx(ys[2] - ys[0], rel=0.02)


def test_many_curves_and_one_point() -> None:
    svg = plot.lines("t", "x", "y", {f"curve {n}": [(1.0, n, n, n)] for n in range(9)})
    assert len(circles(svg)) == 9
    assert all(x == x and y == y for x, y, _ in circles(svg))


def test_nothing_to_draw() -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        plot.lines("t", "x", "y", {"a": []})
