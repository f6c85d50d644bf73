"""Sampling: all strategies choose what the definition says, for any ranges and number of messages;
with threads, every position is handed out exactly once.
"""

from __future__ import annotations

from collections import Counter as Tally

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtproxy.base.log_settings import SampleSettings
from mtproxy.log.sampling import STRATEGIES, Line, make_sampling
from mtproxy.sync import stats
from mtproxy.testing.threads import run_threads

LEVEL = 6
stats.configure(4)


@st.composite
def samples(draw: st.DrawFn, largest: int = 40) -> SampleSettings:
    size = draw(st.integers(1, largest))
    positions = draw(st.sets(st.integers(1, size), min_size=1))
    ranges: list[tuple[int, int]] = []
    for position in sorted(positions):
        # neighbours are one range or two: both are possible in a configuration
        if ranges and ranges[-1][1] == position - 1 and draw(st.booleans()):
            ranges[-1] = (ranges[-1][0], position)
        else:
            ranges.append((position, position))
    return SampleSettings(tuple(ranges), size)


def belongs(sample: SampleSettings, number: int) -> bool:
    """The definition: the number-th message, from 0, for this line."""
    position = number % sample.size + 1
    return any(first <= position <= last for first, last in sample.ranges)


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=150, deadline=None)
@given(
    sampled=st.lists(samples() | samples(3000), min_size=1, max_size=6), count=st.integers(0, 300)
)
def test_every_strategy_does_what_is_defined(
    strategy: str, sampled: list[SampleSettings], count: int
):
    sampling = make_sampling([Line(LEVEL, sample) for sample in sampled], strategy)
    assert sampling is not None
    draw = sampling.draw(LEVEL, 0)
    for number in range(count):
        expected = {i for i, sample in enumerate(sampled) if belongs(sample, number)}
        assert sampling.chosen(LEVEL, draw.ticket()) == expected


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=8, deadline=None)
@given(
    sampled=st.lists(samples(12) | samples(1500), min_size=1, max_size=4),
    shares=st.lists(st.integers(0, 400), min_size=2, max_size=3),
)
def test_shares_with_threads(strategy: str, sampled: list[SampleSettings], shares: list[int]):
    """However threads interleave, M messages choose as often as M messages in a row do."""
    sampling = make_sampling([Line(LEVEL, sample) for sample in sampled], strategy)
    assert sampling is not None
    tallies: list[Tally[int]] = [Tally() for _ in shares]

    def log(tid: int) -> None:
        draw = sampling.draw(LEVEL, tid)
        for _ in range(shares[tid]):
            tallies[tid].update(sampling.chosen(LEVEL, draw.ticket()))

    run_threads(len(shares), log)
    total = sum(shares)
    expected = {
        i: sum(belongs(sample, number) for number in range(total))
        for i, sample in enumerate(sampled)
    }
    assert {i: sum(tally[i] for tally in tallies) for i in expected} == expected
