"""Rates by sampling, sums over threads, and what clearing leaves."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import pytest

from mtproxy.proxy.counters import BackendCounters, FrontendCounters, ServerCounters
from mtproxy.stats.rates import Rates
from mtproxy.stats.runtime import Runtime
from mtproxy.stats.totals import Baselines, add_up, clear_maxima
from mtproxy.testing.runtime import make_runtime

KEY = (None, None, "cum_conn")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def runtime(clock: Clock) -> Runtime:
    runtime = make_runtime()
    runtime.rates = Rates(runtime, clock)
    return runtime


def total(runtime: Runtime) -> int:
    return runtime.rates.process_totals()["cum_conn"]


def tick(runtime: Runtime, clock: Clock, seconds: float, connections: int) -> None:
    """`connections` come in, spread over the threads, then `seconds` pass and a sample is taken."""
    counters = [f.counters for f in runtime.proxies[0].frontends]
    for i in range(connections):
        counters[i % 2].cum_conn += 1
    clock.now += seconds
    runtime.rates.sample()


def test_rate_of_the_last_second(runtime: Runtime, clock: Clock):
    tick(runtime, clock, 1.0, 50)
    assert runtime.rates.rate(KEY, total(runtime)) == 50
    tick(runtime, clock, 2.0, 50)
    assert runtime.rates.rate(KEY, total(runtime)) == 25
    assert runtime.rates.highest(KEY, total(runtime)) == 50


def test_rate_slides_between_samples(runtime: Runtime, clock: Clock):
    tick(runtime, clock, 1.0, 100)
    clock.now += 0.25
    assert runtime.rates.rate(KEY, total(runtime)) == 75
    runtime.proxies[0].frontends[0].counters.cum_conn += 30
    assert runtime.rates.rate(KEY, total(runtime)) == 105
    clock.now += 0.75
    assert runtime.rates.rate(KEY, total(runtime)) == 30


def test_rate_before_the_first_sample(runtime: Runtime, clock: Clock):
    runtime.proxies[0].frontends[0].counters.cum_conn += 7
    clock.now += 0.5
    assert runtime.rates.rate(KEY, total(runtime)) == 7
    assert runtime.rates.highest(KEY, total(runtime)) == 7


def test_peaks(runtime: Runtime, clock: Clock):
    key = (2, "F", "conn")
    one, two = (f.counters for f in runtime.proxies[0].frontends)
    one.conn_cur, two.conn_cur = 3, 4
    tick(runtime, clock, 1.0, 0)
    one.conn_cur = two.conn_cur = 0
    assert runtime.rates.peak(key, 0, 0) == 7
    assert runtime.rates.peak(key, 9, 0) == 9
    assert runtime.rates.peak(key, 0, 8) == 8


def test_clear_forgets_highest_values_only(runtime: Runtime, clock: Clock):
    runtime.proxies[0].frontends[0].counters.conn_cur = 5
    tick(runtime, clock, 1.0, 100)
    runtime.proxies[0].frontends[0].counters.conn_cur = 0
    tick(runtime, clock, 1.0, 10)
    runtime.rates.clear()
    assert runtime.rates.rate(KEY, total(runtime)) == 10
    assert runtime.rates.highest(KEY, total(runtime)) == 10
    assert runtime.rates.peak((2, "F", "conn"), 0, 0) == 0


def test_every_proxy_and_server_has_its_rate(runtime: Runtime, clock: Clock):
    backend = runtime.backend("app")
    assert backend is not None
    backend.backends[1].counters.cum_sess = 4
    backend.backends[1].servers[0].counters.cum_sess = 3
    tick(runtime, clock, 1.0, 0)
    assert runtime.rates.rate((3, "B", "cum_sess"), 4) == 4
    assert runtime.rates.rate((3, 1, "cum_sess"), 3) == 3
    assert runtime.rates.rate((3, 2, "cum_sess"), 0) == 0


def test_idle_percentage(runtime: Runtime, clock: Clock):
    runtime.rates.sample()
    clock.now += 1.0
    runtime.pool.contexts[0].cpu_ns += 500_000_000
    runtime.rates.sample()
    assert runtime.rates.idle_percent == 75


# --- totals


def test_sums_maxima_and_dates():
    one, two = BackendCounters(), BackendCounters()
    one.cum_sess, two.cum_sess = 2, 3
    one.conn_max, two.conn_max = 5, 4
    one.last_tick, two.last_tick = 100, 90
    one.http_rsp[5] = 1
    totals = add_up([one, two])
    assert (totals.cum_sess, totals.conn_max, totals.last_tick) == (5, 5, 100)
    assert totals.http_rsp == [0, 0, 0, 0, 0, 1]
    with pytest.raises(AttributeError):
        _ = totals.nothing_of_the_kind
    with pytest.raises(ValueError, match="no counters"):
        add_up([])


def test_baseline_subtracts_all_but_gauges_and_maxima():
    counters = ServerCounters()
    counters.cum_sess, counters.conn_cur, counters.conn_max, counters.last_tick = 10, 2, 6, 77
    counters.http_rsp[2] = 9
    baselines = Baselines()
    baselines.clear("key", [counters])
    counters.cum_sess += 3
    counters.http_rsp[2] += 1
    totals = baselines.since_clear("key", [counters])
    assert (totals.cum_sess, totals.conn_cur, totals.conn_max, totals.last_tick) == (3, 2, 6, 77)
    assert totals.http_rsp[2] == 1
    # the thread's own counters are never written
    assert counters.cum_sess == 13
    assert baselines.since_clear("other", [counters]).cum_sess == 13


def test_clear_maxima_keeps_what_is_going_on():
    counters = BackendCounters()
    counters.conn_cur, counters.conn_max, counters.qtime_max = 2, 9, 50
    clear_maxima(counters)
    assert (counters.conn_max, counters.qtime_max, counters.conn_cur) == (2, 0, 2)


@pytest.mark.parametrize("kind", [FrontendCounters, BackendCounters, ServerCounters])
def test_counters_have_a_type_for_every_slot(kind: type):
    declared = {n for base in kind.__mro__[:-1] for n in inspect.get_annotations(base)}
    names = kind.names()  # type: ignore[attr-defined]
    assert len(set(names)) == len(names)
    assert set(names) == declared - {"GAUGES", "MAXIMA"}
    fresh = kind()
    assert {n for n in names if n != "http_rsp" and getattr(fresh, n) != 0} == set()
    assert fresh.http_rsp == [0] * 6
    assert set(names) >= kind.GAUGES | kind.MAXIMA  # type: ignore[attr-defined]


def test_runtime_finds_proxies(runtime: Runtime):
    assert [p.name for p in runtime.proxies] == ["web", "app", "raw", "empty"]
    assert runtime.proxy("3") is runtime.proxy("#3") is runtime.proxy("app")
    assert runtime.proxy("nope") is None
    assert runtime.proxy("²") is None
    assert runtime.frontend("app") is None
    assert runtime.backend("web") is None
    assert runtime.backend("raw") is runtime.frontend("raw") is runtime.backend("4")
    assert all(len(p.frontends) in (0, 2) for p in runtime.proxies)
    assert runtime.node == "box"
    runtime.housekeeping(SimpleNamespace())  # type: ignore[arg-type]
