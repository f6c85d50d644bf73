"""Which lines get which message: every strategy against the definition, tables, threads' shares."""

from __future__ import annotations

import itertools
from collections import Counter as Tally

import pytest

from mtproxy.base.log_settings import SampleSettings
from mtproxy.config.keywords_log import parse_sample
from mtproxy.log.sampling import (
    MAX_PERIOD,
    STRATEGIES,
    IndexSampling,
    Line,
    Sampling,
    Span,
    ThreadSampling,
    make_sampling,
    table_of,
)
from mtproxy.sync import counters, stats
from mtproxy.sync.labels import LockLabel

INFO, DEBUG, ERR = 6, 7, 3


@pytest.fixture(autouse=True)
def slots() -> None:
    stats.configure(4)


@pytest.fixture(params=STRATEGIES)
def strategy(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def lines(*specs: str, level: int = DEBUG) -> list[Line]:
    return [Line(level, parse_sample(spec) if spec else None) for spec in specs]


def shared(strategy: str, *specs: str) -> Sampling:
    sampling = make_sampling(lines(*specs), strategy)
    assert sampling is not None
    return sampling


def messages(sampling: Sampling, count: int, level: int = DEBUG) -> list[set[int]]:
    draw = sampling.draw(level, 0)
    return [set(sampling.chosen(level, draw.ticket())) for _ in range(count)]


def positions(strategy: str, spec: str, count: int) -> str:
    """What one line gets, as HAProxy 2.6 was seen to do it: "0" for a message, "." for none."""
    return "".join("0" if chosen else "." for chosen in messages(shared(strategy, spec), count))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("1:1", "0000000000000"),
        ("1,3-5:6", "0.000.0.000.0"),
        ("3,2,1:3", "0000000000000"),
        ("5,1-3:6", "000.0.000.0.0"),
        ("1,:4", "0...0...0...0"),
        ("1-3:6", "000...000...0"),
        ("1-2,4:5", "00.0.00.0.00."),
        ("2-3,5-6:7", ".00.00..00.00"),
        ("1-4:4", "0000000000000"),
        ("6:6", ".....0.....0."),
        ("1:1000000000", "0............"),
        ("2-4294967295:4294967295", ".000000000000"),
        ("2,4,6-1500:1600", ".0.0.00000000"),
    ],
)
def test_positions(strategy: str, spec: str, expected: str):
    assert positions(strategy, spec, 13) == expected


def test_ranges_go_round(strategy: str):
    ranges = "2,4,6-1500:1600"
    got = positions(strategy, ranges, 3300)
    one = ".0.0." + "0" * 1495 + "." * 100
    assert got == (one * 3)[:3300]


def test_lines_beside_each_other(strategy: str):
    sampling = shared(strategy, "1:4", "", "2:4", "3-4:4", "1:3")
    got = messages(sampling, 12)
    assert got == [{0, 4}, {2}, {3}, {3, 4}, {0}, {2}, {3, 4}, {3}, {0}, {2, 4}, {3}, {3}]


def test_a_long_common_period(strategy: str):
    """Sizes whose common multiple is no table: 1009 * 1013 * 7."""
    sampling = shared(strategy, "1:1009", "1013:1013", "2-3,7:7")
    got = messages(sampling, 2100)
    for n, chosen in enumerate(got):
        assert (0 in chosen) == (n % 1009 == 0)
        assert (1 in chosen) == (n % 1013 == 1012)
        assert (2 in chosen) == (n % 7 in (1, 2, 6))


def test_levels_count_for_themselves(strategy: str):
    sampling = make_sampling(
        [
            Line(INFO, parse_sample("1:2")),
            Line(ERR, parse_sample("1:2")),
            Line(ERR, parse_sample("2:2")),
        ],
        strategy,
    )
    assert sampling is not None
    mine = ThreadSampling(sampling, 0)
    assert mine.skipped(INFO) == set()  # line 0: 1st message; the others are not asked
    assert mine.skipped(ERR) == {0, 2}  # line 0: 2nd; lines 1 and 2: 1st
    assert mine.skipped(ERR) == {1}
    assert mine.skipped(DEBUG) == set()
    assert mine.skipped(INFO) == {0}


def test_nothing_is_shared_without_samples(strategy: str):
    assert make_sampling(lines("", ""), strategy) is None


def test_threads_share_one_count(strategy: str):
    sampling = shared(strategy, "1:3", "2-3:3")
    draws = [sampling.draw(DEBUG, tid) for tid in range(3)]
    got = [
        sampling.chosen(DEBUG, draw.ticket())
        for draw in itertools.islice(itertools.cycle(draws), 9)
    ]
    assert got == [{0}, {1}, {1}] * 3


def test_tables(strategy: str):
    sampling = shared(strategy, "1:4", "3-4:4")
    table = table_of(sampling, DEBUG, sorted)
    draw = sampling.draw(DEBUG, 0)
    assert [table[draw.ticket()] for _ in range(8)] == [[0], [], [1], [1]] * 2
    assert isinstance(table, list)


def test_tables_of_many_lines_are_made_when_needed(strategy: str):
    specs = [f"1:{size}" for size in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)]
    sampling = shared(strategy, *specs)
    table = table_of(sampling, DEBUG, sorted)
    assert not isinstance(table, list)
    draw = sampling.draw(DEBUG, 0)
    for n in range(3 * MAX_PERIOD):
        expected = [i for i, spec in enumerate(specs) if n % int(spec[2:]) == 0]
        assert table[draw.ticket()] == expected
    assert len(table) <= MAX_PERIOD


def test_span_is_written_once_per_range(monkeypatch: pytest.MonkeyPatch):
    moves = []
    move = Span._move
    monkeypatch.setattr(Span, "_move", lambda self, p: (moves.append(p), move(self, p)))
    span = Span(SampleSettings(((11, 20), (31, 40)), 50))
    got = [span.has(n) for n in range(100)]
    assert got == [(n % 50) // 10 in (1, 3) for n in range(100)]
    assert moves == [1, 11, 21, 31, 41, 1, 11, 21, 31, 41]


def test_the_index_goes_beyond_a_machine_word(monkeypatch: pytest.MonkeyPatch):
    start = 2**63 - 5
    monkeypatch.setattr(counters.Counter, "__init__", _starting_at(start))
    got = messages(IndexSampling(lines("1:3", "2:3", "3:3")), 12)
    assert got == [{(start + n) % 3} for n in range(12)]


def _starting_at(start: int):
    def init(self: counters.Counter, _start: int = 0) -> None:
        self.next = itertools.count(start).__next__

    return init


@pytest.mark.parametrize(("name", "label"), [("lock", "LOGSRV"), ("cas", "CELL")])
def test_locks_are_in_the_statistics(name: str, label: str):
    before = stats.snapshot_of(LockLabel[label]).write_locks
    messages(shared(name, "1:4", "2:4"), 10)
    assert stats.snapshot_of(LockLabel[label]).write_locks - before == 20


@pytest.mark.parametrize("name", ["index", "cas-chain"])
def test_no_lock_is_taken(name: str):
    before = [one.locks for one in stats.snapshot()]
    messages(shared(name, "1:4", "2:4"), 10)
    assert [one.locks for one in stats.snapshot()] == before


def test_shares_of_a_whole_period(strategy: str):
    sampling = shared(strategy, "1:12", "2-4:12", "5,7:12", "1-12:12")
    tally = Tally(n for chosen in messages(sampling, 12 * 20) for n in chosen)
    assert tally == {0: 20, 1: 60, 2: 40, 3: 240}
