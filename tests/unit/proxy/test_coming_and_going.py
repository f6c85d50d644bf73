"""Servers that come and go while the backend serves: positions, choices, counters."""

from __future__ import annotations

import random

import pytest

from mtproxy.proxy.backend import MOST_HOLES, Backend, BackendShared
from mtproxy.proxy.balance import ALGORITHMS
from mtproxy.proxy.server import ServerState
from mtproxy.proxy.transitions import set_maint, set_ready
from mtproxy.testing.proxies import FakeContext, make_backend, server_settings

CTX = FakeContext()
#: `first` gives one server all there is
DYNAMIC = sorted(set(ALGORITHMS) - {"first"})


def add(shared: BackendShared, sides: list[Backend], number: int) -> ServerState:
    state = shared.new_server(server_settings(number, disabled=True), CTX)
    for side in sides:
        side.adopt(state)
    shared.publish(state)
    return state


def remove(shared: BackendShared, sides: list[Backend], state: ServerState) -> None:
    set_maint(state, CTX)
    shared.withdraw(state, CTX)
    for side in sides:
        assert side.forget(state) == []
        side.bury()


@pytest.mark.parametrize("balance", DYNAMIC)
def test_a_new_server_gets_traffic_once_it_is_enabled(balance: str) -> None:
    shared, sides = make_backend([1], balance=balance, threads=2)
    state = add(shared, sides, 2)
    for side in sides:
        assert side.pick(CTX).shared is shared.servers[0]
    set_ready(state, CTX)
    shared._check()
    for side in sides:
        assert {side.pick(CTX).shared for _ in range(40)} == set(shared.servers)


@pytest.mark.parametrize("balance", DYNAMIC)
def test_the_first_server_of_an_empty_backend(balance: str) -> None:
    shared, (side,) = make_backend([], balance=balance)
    assert side.pick(CTX) is None
    state = add(shared, [side], 1)
    assert not shared.up
    set_ready(state, CTX)
    assert side.pick(CTX).shared is state
    remove(shared, [side], state)
    assert side.pick(CTX) is None
    assert shared.servers == side.servers == ()
    shared._check()


def test_totals_keep_what_a_removed_server_has_counted() -> None:
    shared, (side,) = make_backend([1])
    state = add(shared, [side], 2)
    set_ready(state, CTX)
    server = side.servers[1]
    server.take()
    server.counters.cum_sess += 5
    server.counters.bytes_out += 70
    server.counters.http_rsp[2] += 5
    set_maint(state, CTX)
    shared.withdraw(state, CTX)
    side.forget(state)
    side.bury()
    assert side.retired == [server]
    server.counters.cum_sess += 1  # it ends after the removal
    server.release()
    for _ in range(2):
        totals = side.totals()
        assert (totals.cum_sess, totals.bytes_out, totals.http_rsp[2]) == (6, 70, 5)
        assert side.sessions_so_far() == 6
        side.bury()
    assert side.retired == []
    assert side.counters.cum_sess == 6


def test_those_who_keep_something_by_server_are_told() -> None:
    shared, (side,) = make_backend([1])
    seen: list[list[str]] = []
    side.on_servers.append(lambda: seen.append([server.name for server in side.servers]))
    remove(shared, [side], add(shared, [side], 2))
    assert seen == [["s1", "s2"], ["s1"]]


@pytest.mark.parametrize("balance", DYNAMIC)
@pytest.mark.parametrize("seed", range(3))
def test_any_sequence(balance: str, seed: int) -> None:
    """Against a plain list: who may be picked, in what order servers stand, how many positions."""
    rng = random.Random(seed)
    shared, sides = make_backend([1, 1], balance=balance, threads=2)
    model = list(shared.servers)
    number = 10
    for _ in range(400):
        step = rng.random()
        if step < 0.3:
            number += 1
            model.append(add(shared, sides, number))
        elif model and step < 0.55:
            state = rng.choice(model)
            model.remove(state)
            remove(shared, sides, state)
        elif model:
            state = rng.choice(model)
            (set_ready if state.maint else set_maint)(state, CTX)
        else:
            continue
        assert list(shared.servers) == model
        usable = {state for state in model if state.usable}
        for side in sides:
            assert [server.shared for server in side.servers] == model
            server = side.pick(CTX)
            assert (server is None) == (not usable)
            if server is not None:
                assert server.shared in usable
                server.release()
        shared._check()
        positions = [state.position for state in model]
        assert len(set(positions)) == len(positions)


def test_positions_are_used_again() -> None:
    shared, sides = make_backend([1])
    last = shared.servers[0]
    for number in range(2, 1000):
        state = add(shared, sides, number)
        remove(shared, sides, last)
        last = state
    assert len(shared._weights) <= 2 + MOST_HOLES + 1
    set_ready(last, CTX)
    assert sides[0].pick(CTX).shared is last
    shared._check()
