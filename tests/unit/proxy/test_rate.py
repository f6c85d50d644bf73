"""Rate: connections per second."""

from __future__ import annotations

from mtproxy.proxy.quota import Rate
from mtproxy.sync import stats

stats.configure(2)


def test_so_many_per_second() -> None:
    rate = Rate(4)
    assert [rate.enter(10_000, 0) for _ in range(6)] == [True] * 4 + [False] * 2
    # half of the second before counts still
    assert [rate.enter(11_500, 0) for _ in range(4)] == [True] * 2 + [False] * 2
    assert [rate.enter(14_000, 0) for _ in range(5)] == [True] * 4 + [False]


def test_what_did_not_come_does_not_count() -> None:
    rate = Rate(1)
    assert rate.enter(10_000, 0)
    rate.cancel(0)
    assert rate.enter(10_001, 0)
    assert not rate.enter(10_002, 0)


def test_no_limit() -> None:
    rate = Rate()
    assert all(rate.enter(10_000, 0) for _ in range(1000))
    assert rate.delay == 0
    rate.limit = 5
    assert not rate.enter(10_000, 0)
    assert rate.delay == 200
