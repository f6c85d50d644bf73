"""WeightedOrder: HAProxy's order, cycles kept and cycles computed, waiting times carried over."""

from __future__ import annotations

import json
from collections import Counter
from itertools import chain, islice, repeat
from math import gcd
from pathlib import Path

import pytest

from mtproxy.proxy.balance import order as order_module
from mtproxy.proxy.balance.order import BLOCK, INTERVAL, WeightedOrder

GOLDEN = json.loads(Path(__file__).parents[2].joinpath("golden/proxy/balance.json").read_text())


def picks(order: WeightedOrder, count: int) -> list[int]:
    return list(islice(chain.from_iterable(order.block() for _ in repeat(None)), count))


@pytest.mark.parametrize("case", GOLDEN["roundrobin"], ids=lambda case: str(case["weights"])[:40])
def test_order_is_haproxys(case: dict[str, object]) -> None:
    weights: list[int] = case["weights"]  # type: ignore[assignment]
    # two cycles: HAProxy begins its order anew after 16 * sum(weights) picks, we go on
    cycle = sum(weights) // gcd(*weights)
    expected = [int(word) for word in str(case["order"]).split()][: 2 * cycle]
    assert picks(WeightedOrder(weights), len(expected)) == expected


def test_no_weights_no_picks() -> None:
    assert not WeightedOrder([]).block()
    assert not WeightedOrder([0, 0]).block()
    assert WeightedOrder([0, 0]).waits([]) == {}


def test_a_kept_cycle_continues_the_computed_order(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = [97, 31, 64, 5, 5, 1, 200]
    kept = picks(WeightedOrder(weights), 5000)
    monkeypatch.setattr(order_module, "CYCLE_MAX", 0)
    assert picks(WeightedOrder(weights), 5000) == kept


def test_repetition_is_found_for_uneven_starts() -> None:
    order = WeightedOrder([3, 3, 2])
    first = picks(order, 8)
    assert Counter(first) == {0: 4, 1: 3, 2: 1}
    for _ in range(40):
        order.block()
    assert order._cycle is not None
    assert Counter(order._cycle) == {0: 3, 1: 3, 2: 2}


def test_blocks_stay_small() -> None:
    order = WeightedOrder([255 - i % 97 for i in range(500)])
    assert all(0 < len(order.block()) <= BLOCK for _ in range(2000))


def test_waits_name_the_next_turns() -> None:
    order = WeightedOrder([1, 1, 2])
    block = list(order.block())
    # nothing of the block was used: the next turn of each server is its first one in it
    waits = order.waits(block)
    total = 4
    for position, weight in enumerate((1, 1, 2)):
        assert waits[position] == block.index(position) * weight * INTERVAL // total


def test_waits_carry_over_to_the_same_weights() -> None:
    """An order made anew after some picks goes on as if nothing had happened."""
    weights = [1, 1, 1, 1, 1]
    order = WeightedOrder(weights)
    block = list(order.block())
    used, rest = block[:3], block[3:]
    assert used == [0, 1, 2]
    again = WeightedOrder(weights, order.waits(rest))
    assert picks(again, 5) == [3, 4, 0, 1, 2]


def test_frequent_changes_favour_nobody() -> None:
    """One of 50 servers comes and goes after each 10 picks; the others still share evenly."""
    size = 50
    weights = [1] * size
    order = WeightedOrder(weights)
    block: list[int] = []
    counts: Counter[int] = Counter()
    for turn in range(400):
        for _ in range(10):
            if not block:
                block = list(order.block())
            counts[block.pop(0)] += 1
        waits = order.waits(block)
        weights = weights.copy()
        weights[0] ^= 1
        if turn % 2:
            waits.pop(0, None)
        order = WeightedOrder(weights, waits)
        block = []
    del counts[0]
    assert max(counts.values()) - min(counts.values()) <= 4


def test_waits_of_a_long_cycle_use_the_kept_positions() -> None:
    weights = [97, 31, 64, 5, 5, 1, 200]
    order = WeightedOrder(weights)
    length = sum(weights)
    while order._cycle is None:
        order.block()
    order.block()
    waits = order.waits([])
    upcoming = picks(order, length)
    for position, weight in enumerate(weights):
        expected = upcoming.index(position) * weight * INTERVAL // length
        assert waits[position] == min(INTERVAL, expected)
