"""Errors in a row that traffic shows: counted over all threads, and what is done at the limit.

What each answer means to a server is compared with HAProxy in tests/e2e/test_server_states.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from mtproxy.base.server_settings import CheckSettings, StateSettings
from mtproxy.base.settings import ProxySettings
from mtproxy.proxy.backend import BackendShared
from mtproxy.proxy.checkstatus import CheckStatus
from mtproxy.proxy.observe import HTTP_OK, HTTP_STS, L4_ERR, L4_OK, of_status
from mtproxy.proxy.server import ServerState
from mtproxy.proxy.states import server_status
from mtproxy.proxy.transitions import notice, report_check
from mtproxy.testing.proxies import FakeContext, Messages, server_settings
from mtproxy.testing.threads import run_threads

CHECK = CheckSettings(inter=10_000, fastinter=100, rise=2, fall=3)


def watched(observe: str = "layer7", action: str = "fail-check", limit: int = 3) -> ServerState:
    states = StateSettings(observe=observe, on_error=action, error_limit=limit)
    settings = server_settings(1, check=CHECK, states=states)
    proxy = ProxySettings("be", 1, "backend", mode="http", servers=(settings,))
    server = BackendShared(proxy, 0, Messages()).servers[0]
    report_check(server, FakeContext(), CheckStatus.L4OK, "", 0)
    return server


def show(server: ServerState, *events: Any) -> None:
    ctx = FakeContext()
    for event in events:
        notice(server, ctx, event)


@pytest.mark.parametrize(
    ("action", "after"),
    [
        ("fastinter", ["UP", "UP", "UP"]),
        ("fail-check", ["UP 2/3", "UP 1/3", "DOWN"]),
        ("sudden-death", ["UP 1/3", "DOWN", "DOWN"]),
        ("mark-down", ["DOWN", "DOWN", "DOWN"]),
    ],
)
def test_what_is_done(action: str, after: list[str]) -> None:
    server = watched(action=action)
    for number, expected in enumerate(after, 1):
        show(server, HTTP_STS, HTTP_STS)
        assert server.failed_hana == number - 1
        show(server, HTTP_STS)
        assert (server_status(server), server.failed_hana) == (expected, number)


def test_only_errors_in_a_row_count() -> None:
    server = watched()
    show(server, HTTP_STS, HTTP_STS, HTTP_OK, HTTP_STS, L4_ERR, L4_OK)
    assert server.failed_hana == 0
    # a connection alone proves nothing in layer 7, and a passed check starts anew
    show(server, HTTP_STS)
    assert server.failed_hana == 1
    show(server, HTTP_STS, HTTP_STS)
    report_check(server, FakeContext(), CheckStatus.L4OK, "", 0)
    show(server, HTTP_STS)
    assert server.failed_hana == 1


def test_layer4_looks_at_connections_alone() -> None:
    server = watched("layer4", limit=2)
    show(server, HTTP_STS, HTTP_STS, HTTP_STS, L4_ERR, HTTP_OK)
    assert server.failed_hana == 0
    show(server, L4_ERR)
    assert server.failed_hana == 1
    assert server.check.info.endswith("last one was: L4 unsuccessful connection")


@pytest.mark.parametrize(("status", "good"), [(200, 1), (404, 1), (500, 0), (501, 1), (505, 1)])
def test_statuses(status: int, good: int) -> None:
    assert (of_status(status) is HTTP_OK) == bool(good)


def test_the_next_check_comes_sooner() -> None:
    server = watched(action="fastinter", limit=1)
    ctx = FakeContext()

    class Task:
        expire: int | None = None
        wq_key: tuple[int, int] | None = None

    task: Any = Task()
    server.check_task = task
    ctx.pool.wait_queue.queue(task, 9000, 0)
    notice(server, ctx, HTTP_STS)
    assert task.expire == 100
    # never later than planned
    ctx.now = 50
    notice(server, ctx, HTTP_STS)
    assert task.expire == 100


def test_no_error_is_lost_among_threads() -> None:
    server = watched(action="fastinter", limit=10)

    def work(tid: int) -> None:
        ctx = FakeContext(tid)
        for _ in range(500):
            notice(server, ctx, HTTP_STS)

    run_threads(4, work)
    assert server.failed_hana == 200
