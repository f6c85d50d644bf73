"""Checks on a real pool of threads: servers die, come back and are switched while checks run."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from mtproxy.base.clock import monotonic_ms
from mtproxy.base.settings import CheckSettings, GlobalSettings, ProxySettings
from mtproxy.proxy.backend import Backend, BackendShared
from mtproxy.proxy.check import start_checks
from mtproxy.proxy.transitions import set_maint, set_ready
from mtproxy.sched.context import ThreadContext
from mtproxy.sched.pool import Pool
from mtproxy.sync import stats
from mtproxy.testing.pools import close, run_with
from mtproxy.testing.proxies import Messages, server_settings
from mtproxy.testing.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.stress
SERVERS = 40
CHECK = CheckSettings(inter=20, fastinter=10, rise=2, fall=2)


class Farm:
    """Listeners that never accept: a check needs no more."""

    def __init__(self) -> None:
        self.listeners: list[socket.socket | None] = [
            socket.create_server(("127.0.0.1", 0)) for _ in range(SERVERS)
        ]
        self.ports = [listener.getsockname()[1] for listener in self.listeners if listener]

    def kill(self, number: int) -> None:
        listener = self.listeners[number]
        assert listener is not None
        listener.close()
        self.listeners[number] = None

    def revive(self, number: int) -> None:
        self.listeners[number] = socket.create_server(("127.0.0.1", self.ports[number]))

    def close(self) -> None:
        for listener in self.listeners:
            if listener is not None:
                listener.close()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_states_follow_the_servers() -> None:
    stats.configure(2)
    farm = Farm()
    messages = Messages()
    servers = tuple(server_settings(i + 1, port, check=CHECK) for i, port in enumerate(farm.ports))
    shared = BackendShared(
        ProxySettings("be", 1, "backend", servers=servers), monotonic_ms(), messages
    )
    pool = Pool(2)
    checks = start_checks([shared], GlobalSettings(), pool.wait_queue, monotonic_ms(), 0)
    open_before = descriptors()

    def setup(ctx: ThreadContext) -> None:
        Backend(shared, ctx.tid)

    def states() -> list[bool]:
        return [server.running for server in shared.servers]

    def played() -> None:
        wait_until(lambda: all(s.check.health.full for s in shared.servers), "all up")
        for number in range(0, SERVERS, 2):
            farm.kill(number)
        wait_until(lambda: states() == [False, True] * (SERVERS // 2), "half of them down")
        assert (shared.active, shared.servers[0].check.status.code) == (SERVERS // 2, "L4CON")
        for number in range(0, SERVERS, 2):
            farm.revive(number)
        wait_until(lambda: all(states()), "all up again")
        done = threading.Event()

        def switch(ctx: ThreadContext) -> None:
            for server in shared.servers[:5]:
                set_maint(server, ctx)
            done.set()

        def admit(ctx: ThreadContext) -> None:
            for server in shared.servers[:5]:
                set_ready(server, ctx)

        pool.run_on(1, switch)
        assert done.wait(PATIENCE)
        assert shared.active == SERVERS - 5
        pool.run_everywhere(admit)
        wait_until(lambda: all(s.check.health.full for s in shared.servers), "all full")

    try:
        run_with(pool, played, setup)
        shared._check()
        texts = [text for _, text in messages.sent]
        assert sum(" is DOWN, " in text for text in texts) == SERVERS // 2
        assert sum(" is UP, " in text for text in texts) == SERVERS // 2
        assert sum("going DOWN for maintenance" in text for text in texts) == 5
        assert sum("leaving forced maintenance" in text for text in texts) == 5
        assert [server.down_transitions for server in shared.servers[:6]] == [2, 1, 2, 1, 2, 0]
        # each check is in the queue or under way, exactly once
        pool.wait_queue._check()
        under_way = [check for check in checks if check.wq_key is None]
        assert len(pool.wait_queue) + len(under_way) == SERVERS
        assert all(check.server.check.in_progress for check in under_way)
        assert descriptors() <= open_before + len(under_way) + 4
        both = [ctx.activity.tasksw for ctx in pool.contexts]
        assert sum(both) > SERVERS
    finally:
        farm.close()
        close(pool)
