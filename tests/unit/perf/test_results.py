"""What a benchmark concludes from its rounds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perf import machine
from perf.results import Ratio, Series, interleave, number, ratio, ratio_lines, save, table


def series(name: str, *values: float) -> Series:
    return Series(name, "CPU", "us", list(values))


def test_a_ratio_is_paired_by_round() -> None:
    found = ratio("r", series("a", 10, 40), series("b", 5, 10))
    assert found.values == (2.0, 4.0)
    assert found.median == 3.0


@pytest.mark.parametrize(
    ("values", "apart"),
    [((1.1, 1.2), True), ((0.8, 0.9), True), ((0.9, 1.2), False), ((1.0, 1.2), False)],
)
def test_told_apart_only_when_all_rounds_agree(values: tuple[float, ...], apart: bool) -> None:
    assert Ratio("r", values).told_apart is apart


@pytest.mark.parametrize(
    ("bound", "at_most", "met"), [(2.0, True, True), (1.0, True, False), (1.0, False, True)]
)
def test_bounds(bound: float, at_most: bool, met: bool) -> None:
    found = Ratio("r", (1.4, 1.5, 1.6), bound, at_most)
    assert found.met is met
    (line,) = ratio_lines([found])
    assert ("MISSED" in line) is not met
    assert f"at {'most' if at_most else 'least'} {bound:g}" in line


def test_no_bound_no_verdict() -> None:
    assert Ratio("r", (1.5,)).met is None


def test_table_shows_median_and_spread() -> None:
    lines = table([series("one", 3, 1, 2), Series("one", "rate", "1/s", [1000, 3000, 2000])])
    assert lines[1].split() == ["one", "2", "[1..3]", "2,000", "[1,000..3,000]"]


def test_variants_take_turns() -> None:
    order: list[str] = []

    def measure(variant: str) -> dict[str, float]:
        order.append(variant)
        return {"x": 1.0}

    found = interleave(["a", "b", "c"], 3, measure, lambda _: None)
    assert order == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]
    assert {variant: len(rounds) for variant, rounds in found.items()} == {"a": 3, "b": 3, "c": 3}


@pytest.mark.parametrize(
    ("value", "text"), [(12345.6, "12,346"), (123.4, "123"), (12.345, "12.3"), (0.01234, "0.0123")]
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


def test_saved_results_tell_everything(tmp_path: Path) -> None:
    data = [series("a", 1, 2, 3)]
    path = save("http", {"cpu": "x"}, {"rounds": 3}, data, [Ratio("r", (2.0,), 1.0)], tmp_path)
    content = json.loads(path.read_text())
    assert content["series"][0]["values"] == [1, 2, 3]
    assert content["series"][0]["median"] == 2
    assert content["ratios"][0]["met"] is False
    assert content["machine"] == {"cpu": "x"}


def test_the_machine_is_described() -> None:
    described = machine.describe()
    assert int(str(described["cores"])) >= 1
    assert described["python_build"] in ("plain", "PGO", "LTO", "PGO+LTO")
    assert len(machine.lines(described)) >= 4
