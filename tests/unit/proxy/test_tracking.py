"""Servers that follow others: how they begin, and that all of a chain change together.

What the log says is compared with HAProxy itself in tests/differential/test_server_states.py.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from mtproxy.base.server_settings import CheckSettings, ServerSettings, StateSettings
from mtproxy.base.settings import ProxySettings
from mtproxy.proxy.backend import BackendShared
from mtproxy.proxy.checkstatus import CheckStatus
from mtproxy.proxy.states import (
    DRAIN,
    FDRAIN,
    FMAINT,
    IDRAIN,
    IMAINT,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    server_status,
)
from mtproxy.proxy.tracking import link_tracks
from mtproxy.proxy.transitions import (
    end_slowstart,
    report_check,
    set_drain,
    set_health,
    set_maint,
    set_ready,
)
from mtproxy.testing.proxies import FakeContext, Messages, server_settings

CHECK = CheckSettings(inter=1000, rise=2, fall=3)


def track(number: int, whom: str, **fields: object) -> ServerSettings:
    return server_settings(number, states=StateSettings(track=whom), **fields)


def make(*servers: ServerSettings, messages: Messages | None = None) -> BackendShared:
    backend = BackendShared(
        ProxySettings("be", 1, "backend", servers=servers), 0, messages or Messages()
    )
    link_tracks({"be": backend}, 0)
    backend._check()
    return backend


def states(backend: BackendShared) -> list[tuple[int, int]]:
    for server in backend.servers:
        server._check()
    backend._check()
    return [(server.state, server.admin) for server in backend.servers]


def test_a_chain_changes_together() -> None:
    backend = make(server_settings(1, check=CHECK), track(2, "s1"), track(3, "be/s2"))
    one, _, three = backend.servers
    ctx = FakeContext()
    report_check(one, ctx, CheckStatus.L4CON, "Connection refused", 0)
    assert states(backend) == [(STOPPED, 0)] * 3
    assert [server_status(server) for server in backend.servers] == ["DOWN"] * 3
    report_check(one, ctx, CheckStatus.L7OKC, "", 0, 404)
    assert [server_status(server) for server in backend.servers] == ["DOWN 1/2"] * 3
    report_check(one, ctx, CheckStatus.L7OKC, "", 0, 404)
    assert states(backend) == [(STOPPING, 0)] * 3
    assert [server_status(server) for server in backend.servers] == ["NOLB"] * 3
    report_check(one, ctx, CheckStatus.L4OK, "", 0)
    assert states(backend) == [(RUNNING, 0)] * 3
    report_check(one, ctx, CheckStatus.L4CON, "", 0)
    assert [server_status(server) for server in backend.servers] == ["UP 2/3"] * 3
    set_maint(one, ctx)
    assert states(backend) == [(STOPPED, FMAINT), (STOPPED, IMAINT), (STOPPED, IMAINT)]
    assert server_status(three) == "MAINT (via be/s2)"
    set_drain(one, ctx)
    assert states(backend) == [(RUNNING, FDRAIN), (RUNNING, IDRAIN), (RUNNING, IDRAIN)]
    set_ready(three, ctx)
    assert three.admin & DRAIN, "what is inherited stays"
    set_ready(one, ctx)
    assert states(backend) == [(RUNNING, 0)] * 3


def test_own_maintenance_outlasts_that_of_the_tracked_server() -> None:
    messages = Messages()
    backend = make(server_settings(1, check=CHECK), track(2, "s1"), messages=messages)
    one, two = backend.servers
    ctx = FakeContext()
    set_maint(two, ctx)
    set_maint(one, ctx)
    assert states(backend)[1] == (STOPPED, FMAINT | IMAINT)
    set_ready(one, ctx)
    assert states(backend)[1] == (STOPPED, FMAINT)
    set_health(one, ctx, STOPPED)
    messages.take()
    set_ready(two, ctx)
    assert states(backend)[1] == (STOPPED, 0)
    assert messages.take()[0][1] == "Server be/s2 is DOWN/READY (leaving forced maintenance)."


@pytest.mark.parametrize("disabled", [True, False])
def test_it_begins_like_the_tracked_server(disabled: bool) -> None:
    check = replace(CHECK)
    first = server_settings(
        1, check=check, disabled=disabled, states=StateSettings(init_state="down")
    )
    messages = Messages()
    backend = make(first, track(2, "s1"), track(3, "s2"), messages=messages)
    expected = [(STOPPED, IMAINT if disabled else 0)] * 2
    assert states(backend)[1:] == expected
    assert (backend.active, messages.take()) == (0, [])


@pytest.mark.parametrize(
    ("start", "status", "passes", "failures"),
    [
        ("up", "UP 1/3", 0, 1),
        ("fully-up", "UP", 0, 3),
        ("down", "DOWN 1/2", 1, 0),
        ("fully-down", "DOWN", 2, 0),
    ],
)
def test_init_state(start: str, status: str, passes: int, failures: int) -> None:
    """So many checks it takes to turn the server, at the start and after maintenance."""
    backend = make(server_settings(1, check=CHECK, states=StateSettings(init_state=start)))
    (one,) = backend.servers
    ctx = FakeContext()
    for _ in range(2):
        assert server_status(one) == status
        was = one.running
        result = CheckStatus.L4OK if passes else CheckStatus.L4CON
        for _ in range(passes + failures):
            assert one.running == was
            report_check(one, ctx, result, "", 0)
        assert one.running != was
        set_maint(one, ctx)
        set_ready(one, ctx)


def test_slowstart_is_a_state() -> None:
    messages = Messages()
    backend = make(server_settings(1, check=CHECK, slowstart=5000), messages=messages)
    (one,) = backend.servers
    ctx = FakeContext()
    assert one.state == RUNNING, "at the start there is none"
    set_health(one, ctx, STOPPED)
    set_health(one, ctx, RUNNING)
    assert (one.state, one.usable, server_status(one)) == (STARTING, True, "UP")
    messages.take()
    end_slowstart(one, ctx)
    assert one.state == RUNNING
    assert "is UP." in messages.take()[0][1]
    end_slowstart(one, ctx)
    assert messages.take() == []
