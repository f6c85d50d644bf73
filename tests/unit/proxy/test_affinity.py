"""`hash-preserve-affinity`: whether a stream waits for its own server or goes to another."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mtproxy.base.settings import BalanceSettings
from mtproxy.proxy.balance import Consistent
from mtproxy.testing.proxies import make_backend


@pytest.mark.parametrize(
    ("affinity", "waiting", "stays"),
    [
        ("always", 0, True),
        ("always", 2, True),
        ("maxconn", 0, False),
        ("maxqueue", 0, True),
        ("maxqueue", 1, True),
        ("maxqueue", 2, False),
    ],
)
def test_a_full_server(affinity: str, waiting: int, stays: bool) -> None:
    params = BalanceSettings(consistent=True, affinity=affinity)
    shared, (backend,) = make_backend([1, 1, 1], balance="uri", params=params)
    assert isinstance(shared.balancer, Consistent)
    queue = SimpleNamespace(length=waiting)
    servers: list[Any] = [
        SimpleNamespace(
            position=server.position,
            counters=server.counters,
            shared=server.shared,
            limit=SimpleNamespace(maxqueue=2, waiting=queue),
        )
        for server in backend.servers
    ]
    usual = shared.balancer.picker(servers, 0, None, lambda _stream: 12345)(None)
    full: list[Any] = [usual]
    pick = shared.balancer.picker(
        servers, 0, lambda server: any(one is server for one in full), lambda _stream: 12345
    )
    assert (pick(None) is usual) == stays
    full += servers
    assert pick(None) is usual, "where all are full it is its own server that it waits for"
