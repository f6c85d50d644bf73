"""Servers that follow each other, changed by real threads at once, seeded and bounded."""

from __future__ import annotations

import random

import pytest

from mtproxy.base.server_settings import CheckSettings, StateSettings
from mtproxy.base.settings import ProxySettings
from mtproxy.proxy.backend import BackendShared
from mtproxy.proxy.checkstatus import CheckStatus
from mtproxy.proxy.states import RUNNING, STOPPED, STOPPING
from mtproxy.proxy.tracking import link_tracks
from mtproxy.proxy.transitions import (
    enable_check,
    report_check,
    set_drain,
    set_health,
    set_maint,
    set_ready,
    set_weight,
)
from mtproxy.sync import stats
from mtproxy.testing.proxies import FakeContext, Messages, server_settings
from mtproxy.testing.threads import run_threads

pytestmark = pytest.mark.stress
THREADS = 4
STEPS = 1500
stats.configure(THREADS + 1)
RESULTS = (CheckStatus.L4OK, CheckStatus.L4CON, CheckStatus.L7OKC, CheckStatus.L7STS)


def backends() -> dict[str, BackendShared]:
    """Two backends: a tree of followers below two checked servers, and a chain."""
    check = CheckSettings(rise=2, fall=2)
    follow = ["", "s1", "s1", "s2", "s4", "b/s1", "b/s2"]
    made = {}
    for name, tracks in (("a", follow), ("b", ["", "a/s1", "a/s4"])):
        servers = tuple(
            server_settings(
                number,
                check=None if whom else check,
                states=StateSettings(track=whom),
                backup=number % 3 == 0,
            )
            for number, whom in enumerate(tracks, 1)
        )
        made[name] = BackendShared(
            ProxySettings(name, 1, "backend", servers=servers), 0, Messages()
        )
    link_tracks(made, 0)
    return made


@pytest.mark.parametrize("seed", [1, 2])
def test_followers_end_where_the_followed_ones_are(seed: int) -> None:
    made = backends()
    servers = [server for backend in made.values() for server in backend.servers]

    def change(rng: random.Random, ctx: FakeContext) -> None:
        server = rng.choice(servers)
        ctx.now += 1
        match rng.randrange(7):
            case 0:
                set_maint(server, ctx)
            case 1:
                set_ready(server, ctx)
            case 2:
                set_drain(server, ctx)
            case 3:
                set_weight(server, ctx, rng.choice((0, 1, 5)))
            case 4 if server.track is None:
                set_health(server, ctx, rng.choice((STOPPED, RUNNING, STOPPING)))
            case 5:
                enable_check(server, ctx, on=rng.random() < 0.7)
            case _ if server.track is None:
                report_check(server, ctx, rng.choice(RESULTS), "", 0, 404)

    def work(tid: int) -> None:
        rng, ctx = random.Random(seed * 100 + tid), FakeContext(tid)
        for _ in range(STEPS):
            change(rng, ctx)

    run_threads(THREADS, work)
    for server in servers:
        server._check()
    for backend in made.values():
        backend._check()
    # and all of it can still be brought back
    ctx = FakeContext()
    for server in servers:
        set_ready(server, ctx)
        set_weight(server, ctx, 1)
    for server in servers:
        if server.track is None:
            set_health(server, ctx, RUNNING)
    assert {(server.state, server.admin) for server in servers} == {(RUNNING, 0)}
    for backend in made.values():
        backend._check()
