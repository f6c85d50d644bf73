"""Slow start: what a server that came up is given, second by second, and its end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mtproxy.proxy.backend import BackendShared
from mtproxy.proxy.slowstart import limited, throttle
from mtproxy.proxy.states import RUNNING, STARTING
from mtproxy.proxy.transitions import set_maint, set_ready, set_weight
from mtproxy.testing.proxies import FakeContext, Messages, make_backend

SECONDS = 10


def backend(balance: str) -> tuple[BackendShared, FakeContext]:
    shared, _ = make_backend([4, 1], balance=balance)
    one, two = (
        replace(server, slowstart=1000 * SECONDS, weight=weight)
        for server, weight in zip(shared.settings.servers, (4, 1), strict=True)
    )
    settings = replace(shared.settings, servers=(one, two))
    return BackendShared(settings, 0, Messages()), FakeContext()


def run_due(ctx: FakeContext) -> int:
    tasks = ctx.pool.wait_queue.collect(ctx.now, ctx.tid)
    for task in tasks:
        task.run(ctx)  # type: ignore[arg-type]
    return len(tasks)


def restart(shared: BackendShared, ctx: FakeContext) -> None:
    set_maint(shared.servers[0], ctx)
    set_ready(shared.servers[0], ctx)


def test_a_server_begins_whole() -> None:
    shared, _ = backend("roundrobin")
    assert shared.servers[0].state == RUNNING
    assert shared._effective == [64, 16]


@pytest.mark.parametrize("balance", ["roundrobin", "leastconn", "first", "random"])
def test_weight_grows_by_the_second(balance: str) -> None:
    shared, ctx = backend(balance)
    one = shared.servers[0]
    restart(shared, ctx)
    assert one.state == STARTING
    seen = []
    for second in range(SECONDS):
        ctx.now = 1000 * second
        if second:
            assert run_due(ctx) == 1
        seen.append((shared._effective[0], throttle(one, ctx.now), limited(one, 50, ctx.now)))
        shared._check()
    # HAProxy's steps: weight times (16 * seconds + 10) / 10
    assert [weight for weight, _, _ in seen] == [4, 8, 16, 20, 28, 36, 40, 48, 52, 60]
    assert [percent for _, percent, _ in seen] == [6, 12, 25, 31, 43, 56, 62, 75, 81, 93]
    assert [most for _, _, most in seen] == [1, 5, 10, 15, 20, 25, 30, 35, 40, 45]
    assert one.shown_weight(ctx.now) == 4
    ctx.now = 1000 * SECONDS
    assert run_due(ctx) == 1
    assert one.state == RUNNING
    assert shared._effective == [64, 16]
    assert throttle(one, ctx.now) is None
    assert limited(one, 50, ctx.now) == 50
    ctx.now += 100_000
    assert run_due(ctx) == 0


def test_static_algorithms_know_no_parts() -> None:
    shared, ctx = backend("static-rr")
    restart(shared, ctx)
    assert shared.servers[0].state == STARTING
    assert shared._effective == [4, 1]
    assert throttle(shared.servers[0], 0) == 100


def test_a_second_start_begins_again() -> None:
    shared, ctx = backend("roundrobin")
    restart(shared, ctx)
    ctx.now = 5000
    run_due(ctx)
    restart(shared, ctx)
    assert shared._effective[0] == 4
    ctx.now = 9999
    run_due(ctx)
    assert shared._effective[0] == 28
    for ctx.now in range(10_000, 16_000, 500):
        run_due(ctx)
    assert shared.servers[0].state == RUNNING


def test_a_weight_set_meanwhile_grows_too() -> None:
    shared, ctx = backend("roundrobin")
    restart(shared, ctx)
    ctx.now = 5000
    set_weight(shared.servers[0], ctx, 100)  # type: ignore[arg-type]
    assert shared._effective[0] == 900
    assert shared.total_weight() == 58
