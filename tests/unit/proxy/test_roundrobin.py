"""RoundRobin in a backend: order, changes, avoided servers."""

from __future__ import annotations

from collections import Counter

from mtproxy.proxy.transitions import set_drain, set_maint, set_ready, set_weight
from mtproxy.testing.proxies import FakeContext, make_backend

CTX = FakeContext()


def test_threads_share_one_order() -> None:
    shared, (one, two) = make_backend([1, 1, 1], threads=2)
    order = []
    for backend in (one, two, two, one, two, one):
        server = backend.pick(CTX)
        assert server is backend.servers[server.position]
        order.append(server.position)
    assert order == [0, 1, 2, 0, 1, 2]
    assert [state.sessions() for state in shared.servers] == [2, 2, 2]


def test_nothing_usable() -> None:
    _, (backend,) = make_backend([0, 0])
    assert backend.pick(CTX) is None
    assert backend.pick(CTX, backend.servers[0]) is None
    _, (empty,) = make_backend([])
    assert empty.pick(CTX) is None


def picked(backend, count: int) -> list[int]:
    order = []
    for _ in range(count):
        server = backend.pick(CTX)
        order.append(server.position)
        server.release()
    return order


def test_a_server_that_goes_is_not_picked_again() -> None:
    shared, (backend,) = make_backend([1, 1, 1])
    assert picked(backend, 4) == [0, 1, 2, 0]
    set_maint(shared.servers[1], CTX)
    assert picked(backend, 5) == [2, 0, 2, 0, 2]
    set_ready(shared.servers[1], CTX)
    counts = Counter(picked(backend, 30))
    assert counts == {0: 10, 1: 10, 2: 10}
    set_drain(shared.servers[0], CTX)
    assert set(picked(backend, 10)) == {1, 2}
    shared._check()


def test_all_go_and_one_comes_back() -> None:
    shared, (backend,) = make_backend([1, 1])
    for state in shared.servers:
        set_maint(state, CTX)
    assert backend.pick(CTX) is None
    set_ready(shared.servers[1], CTX)
    assert picked(backend, 3) == [1, 1, 1]


def test_weight_change_takes_effect_at_once() -> None:
    shared, (backend,) = make_backend([1, 1])
    picked(backend, 3)
    set_weight(shared.servers[0], CTX, 3)
    assert Counter(picked(backend, 400)) == {0: 300, 1: 100}
    set_weight(shared.servers[0], CTX, 0)
    assert set(picked(backend, 10)) == {1}


def test_avoided_server_loses_its_turn() -> None:
    _, (backend,) = make_backend([1, 1, 1])
    picked(backend, 1)
    other = backend.pick(CTX, backend.servers[1])
    assert other is backend.servers[2]
    # the turn that was skipped counts as taken, as in HAProxy
    assert picked(backend, 4) == [0, 1, 2, 0]


def test_avoided_server_is_better_than_none() -> None:
    _, (backend,) = make_backend([5, 0])
    assert backend.pick(CTX, backend.servers[0]) is backend.servers[0]


def test_heavy_avoided_server() -> None:
    _, (backend,) = make_backend([256, 1])
    assert backend.pick(CTX, backend.servers[0]) is backend.servers[1]
    counts = Counter(picked(backend, 256))
    assert counts == {0: 256}
    assert backend.pick(CTX).position in (0, 1)


def test_only_the_first_backup() -> None:
    shared, (backend,) = make_backend([1, 1, 1, 1], backups=(1, 2))
    assert set(picked(backend, 6)) == {0, 3}
    set_maint(shared.servers[0], CTX)
    set_maint(shared.servers[3], CTX)
    assert shared.on_backup
    assert set(picked(backend, 6)) == {1}
    set_maint(shared.servers[1], CTX)
    assert set(picked(backend, 6)) == {2}
    set_ready(shared.servers[1], CTX)
    assert set(picked(backend, 6)) == {1}
    set_ready(shared.servers[3], CTX)
    assert set(picked(backend, 6)) == {3}
    shared._check()


def test_all_backups() -> None:
    shared, (backend,) = make_backend([1, 1, 3], backups=(1, 2), options=("allbackups",))
    set_maint(shared.servers[0], CTX)
    assert Counter(picked(backend, 8)) == {1: 2, 2: 6}
    assert shared.total_weight() == 4


def test_a_weightless_server_is_not_counted() -> None:
    shared, _ = make_backend([0, 1])
    assert (shared.active, shared.backup, shared.total_weight()) == (1, 0, 1)
