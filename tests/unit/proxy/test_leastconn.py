"""LeastConn: HAProxy's choices, changes of state, avoided servers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mtproxy.proxy.transitions import set_maint, set_ready, set_weight
from mtproxy.testing.proxies import FakeContext, make_backend

CTX = FakeContext()
GOLDEN = json.loads(Path(__file__).parents[2].joinpath("golden/proxy/balance.json").read_text())


@pytest.mark.parametrize("case", GOLDEN["leastconn"], ids=lambda case: str(case["weights"]))
@pytest.mark.parametrize("threads", [1, 3])
def test_choices_are_haproxys(case: dict[str, list], threads: int) -> None:
    shared, sides = make_backend(case["weights"], balance="leastconn", threads=threads)
    order = []
    taken = []
    for number, step in enumerate(case["script"]):
        if step is None:
            server = sides[number % threads].pick(CTX)
            taken.append(server)
            order.append(server.position)
        else:
            taken[step].release()
        shared._check()
    assert order == case["order"]


def test_nothing_usable() -> None:
    _, (backend,) = make_backend([0], balance="leastconn")
    assert backend.pick(CTX) is None
    assert backend.pick(CTX, backend.servers[0]) is None


def test_avoid() -> None:
    shared, (backend,) = make_backend([1, 1], balance="leastconn")
    one, two = backend.servers
    assert [backend.pick(CTX, one) for _ in range(3)] == [two, two, two]
    assert backend.pick(CTX) is one
    set_maint(shared.servers[1], CTX)
    assert backend.pick(CTX, one) is one
    shared._check()


def test_sessions_count_over_a_change_of_state() -> None:
    shared, (backend,) = make_backend([1, 1], balance="leastconn")
    one, two = backend.servers
    assert [backend.pick(CTX) for _ in range(4)] == [one, two, one, two]
    set_maint(shared.servers[0], CTX)
    assert [backend.pick(CTX) for _ in range(2)] == [two, two]
    set_ready(shared.servers[0], CTX)
    # 2 sessions against 4
    assert [backend.pick(CTX) for _ in range(2)] == [one, one]
    one.release()
    assert backend.pick(CTX) is one
    shared._check()


def test_weight_change() -> None:
    shared, (backend,) = make_backend([1, 1], balance="leastconn")
    set_weight(shared.servers[1], CTX, 100)
    picked = [backend.pick(CTX).position for _ in range(20)]
    assert picked.count(1) == 19
    set_weight(shared.servers[1], CTX, 0)
    assert backend.pick(CTX).position == 0
    shared._check()


def test_taken_without_a_pick_counts() -> None:
    _, (backend,) = make_backend([1, 1], balance="leastconn")
    one, two = backend.servers
    one.take()
    one.take()
    assert [backend.pick(CTX) for _ in range(3)] == [two, two, one]
    assert one.counters.conn_cur == 3


def test_the_heap_stays_small() -> None:
    shared, (backend,) = make_backend([1] * 5, balance="leastconn")
    for _ in range(1000):
        backend.pick(CTX).release()
        assert len(shared.balancer._heap) <= shared.balancer._slack  # type: ignore[attr-defined]
    shared._check()
