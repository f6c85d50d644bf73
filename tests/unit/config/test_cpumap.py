"""`cpu-map`."""

from __future__ import annotations

import pytest

from mtproxy.base.errors import ConfigError
from mtproxy.config.cpumap import MAX_CPUS, MAX_THREADS, parse_cpu_map


def parse(text: str) -> dict[int, frozenset[int]]:
    return parse_cpu_map(tuple(text.split()))


def test_a_set_of_threads_shares_a_set_of_cpus() -> None:
    assert parse("1/1-2 0 4-5") == {1: frozenset({0, 4, 5}), 2: frozenset({0, 4, 5})}
    assert parse("1/3 1,2") == {3: frozenset({1, 2})}


@pytest.mark.parametrize("text", ["1 0", "1/all 0", "all 0", "1-4 0", "1/1- 0"])
def test_all_threads(text: str) -> None:
    assert sorted(parse(text)) == list(range(1, MAX_THREADS + 1))


def test_odd_and_even_threads() -> None:
    assert set(parse("1/odd 0")) == set(range(1, MAX_THREADS, 2))
    assert set(parse("1/even 0")) == set(range(2, MAX_THREADS + 1, 2))


def test_open_and_reversed_ranges() -> None:
    assert len(parse("1/1 0-")[1]) == MAX_CPUS
    assert set(parse("1/4-3 0")) == {3, 4}


@pytest.mark.parametrize("text", ["auto:1/1-4 0-3", "auto:1/1-4 0-1 2-3", "auto:1/1-4 3 2 1 0"])
def test_auto_gives_one_cpu_to_each_thread_in_order(text: str) -> None:
    assert parse(text) == {n: frozenset({n - 1}) for n in range(1, 5)}


def test_other_thread_groups_do_not_exist() -> None:
    assert parse("2 0") == {}
    assert parse("2/1-4 0-3") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1", "expects a thread group and set"),
        ("x 0", "'x' is not a valid number or range"),
        ("0 1", "'0' is not within 1 to 64"),
        ("65 1", "'65' is not within 1 to 64"),
        ("1/0 1", "'0' is not within 1 to 64"),
        ("1/ 1", "'' is not a valid number or range"),
        ("1/1/1 1", "'1/1' is not a valid number or range"),
        ("1/1 all", "'all' is not a valid number or range"),
        ("1/1 9999", "'9999' is not within 0 to 1023"),
        ("auto:1/1-4 0-2", "must have the same size"),
        ("auto:1-4 0-3", "needs one thread group"),
    ],
)
def test_faults(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(text)
