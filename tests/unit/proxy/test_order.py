"""WeightedOrder: HAProxy's order, windows kept and windows computed, picks that come again."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import chain, islice, repeat
from pathlib import Path

import pytest

from mtproxy.proxy.balance import SCALE
from mtproxy.proxy.balance import order as order_module
from mtproxy.proxy.balance.order import BLOCK, WeightedOrder

GOLDEN = json.loads(Path(__file__).parents[2].joinpath("golden/proxy/balance.json").read_text())


def picks(order: WeightedOrder, count: int) -> list[int]:
    return list(islice(chain.from_iterable(order.block() for _ in repeat(None)), count))


@pytest.mark.parametrize("case", GOLDEN["roundrobin"], ids=lambda case: str(case["weights"])[:40])
def test_order_is_haproxys(case: dict[str, object]) -> None:
    weights: list[int] = case["weights"]  # type: ignore[assignment]
    expected = [int(word) for word in str(case["order"]).split()]
    assert picks(WeightedOrder([SCALE * weight for weight in weights]), len(expected)) == expected


def test_no_weights_no_picks() -> None:
    assert not WeightedOrder([]).block()
    assert not WeightedOrder([0, 0]).block()


@pytest.mark.parametrize("weights", [[16, 16, 16], [97, 31, 64, 5, 5, 1, 200], [160, 320, 80, 16]])
def test_a_kept_window_continues_the_computed_order(
    monkeypatch: pytest.MonkeyPatch, weights: list[int]
) -> None:
    order = WeightedOrder(weights)
    kept = picks(order, 5000)
    assert order._cycle is not None
    monkeypatch.setattr(order_module, "CYCLE_MAX", 0)
    assert picks(WeightedOrder(weights), 5000) == kept


def test_blocks_stay_small() -> None:
    order = WeightedOrder([255 - i % 97 for i in range(500)])
    assert all(0 < len(order.block()) <= BLOCK for _ in range(2000))


def test_unused_picks_come_again() -> None:
    for weights in ([1, 1, 2], [16, 32, 5], [97, 31, 64, 5, 5, 1, 200], [256 * 16] * 3):
        plain = picks(WeightedOrder(weights), 3000)
        order = WeightedOrder(weights)
        made: list[int] = []
        chance = random.Random(str(weights))
        while len(made) < 3000 - BLOCK:
            block = order.block()
            used = chance.randint(0, len(block))
            made += block[:used]
            if used < len(block) or chance.random() < 0.1:
                order.back(len(block) - used)
                order._check()
        assert made == plain[: len(made)]


def test_frequent_changes_favour_nobody() -> None:
    """One of 50 servers comes and goes after each 10 picks; the others still share evenly."""
    order = WeightedOrder([16] * 50)
    block: list[int] = []
    counts: Counter[int] = Counter()
    for _ in range(400):
        for _ in range(10):
            if not block:
                block = list(order.block())
            counts[block.pop(0)] += 1
        order.back(len(block))
        block = []
        order.change({0: order.weights[0] ^ 16})
    order._check()
    del counts[0]
    assert max(counts.values()) - min(counts.values()) <= 4


def test_who_is_refused_is_passed_over() -> None:
    order = WeightedOrder([16, 16, 16])
    assert order.pick(lambda position: position != 2) == 2
    # the others counted as served
    assert [order.pick(lambda _: False) for _ in range(3)] == [0, 1, 2]
    assert order.pick(lambda _: True) == -1
    assert order.pick(lambda position: position != 1, avoid=1) == 1
    order._check()
    assert WeightedOrder([0]).pick(lambda _: False) == -1
