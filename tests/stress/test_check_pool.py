"""Checks on a real pool of threads: servers die, come back and are switched while checks run."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from mtproxy.base.addresses import Address, AddressKind
from mtproxy.base.clock import monotonic_ms
from mtproxy.base.server_settings import CheckSettings
from mtproxy.base.settings import GlobalSettings, ProxySettings, Settings
from mtproxy.cli.args import parse_args
from mtproxy.config.load import load
from mtproxy.proxy.backend import Backend, BackendShared
from mtproxy.proxy.check import start_checks
from mtproxy.proxy.checks.script import Script
from mtproxy.proxy.checkstatus import CheckStatus
from mtproxy.proxy.transitions import set_maint, set_ready
from mtproxy.rules.build import Build, RuleShared
from mtproxy.sched.context import ThreadContext
from mtproxy.sched.pool import Pool
from mtproxy.sync import stats
from mtproxy.testing.checked import CheckedServer, Take
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


def test_scripts_on_several_threads() -> None:
    """Every server answers with its own number; each check sees its own server's answers only."""
    stats.configure(2)
    many = 12
    settings, diagnostics = load_text(
        "backend be\n timeout connect 9s\n timeout server 9s\n timeout check 9s\n"
        " option httpchk\n option log-health-checks\n"
        " http-check set-var(check.n) srv_name\n"
        ' http-check send uri-lf "/%[var(check.n)]"\n'
        ' http-check expect string-lf "%[var(check.n)]." on-success "%[res.body]"\n'
        + "".join(f" server n{i} 127.0.0.1:1 check inter 5ms\n" for i in range(many))
        + "listen l\n bind 127.0.0.1:1\n"
    )
    assert settings is not None, diagnostics
    proxy = settings.proxy("be", backend=True)
    assert proxy is not None and proxy.check_script is not None
    script = proxy.check_script
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b"
    messages = Messages()
    shared = BackendShared(proxy, monotonic_ms(), messages)
    pool = Pool(2)
    checks = start_checks([shared], settings.global_, pool.wait_queue, monotonic_ms(), 0)
    rules = RuleShared(settings)

    def setup(ctx: ThreadContext) -> None:
        Backend(shared, ctx.tid)
        ctx.room = SimpleNamespace(
            check_scripts={"be": Script(script, Build(rules, proxy, ctx, None))}, backends={}
        )

    def played() -> None:
        def passed() -> bool:
            return all(
                server.check.status is CheckStatus.L7OK for server in shared.servers
            ) and all(server.seen_often(20) for server in servers)

        wait_until(passed, "many checks of each server")

    with ExitStack() as stack:
        servers = []
        for state in shared.servers:
            body = f"{state.name}.".encode()
            one = stack.enter_context(CheckedServer([Take(), answer % (len(body), body)]))
            servers.append(one)
            state.address = Address(AddressKind.IPV4, "127.0.0.1", one.port)
        try:
            run_with(pool, played, setup)
            for state, one in zip(shared.servers, servers, strict=True):
                assert state.check.info == f"{state.name}."
                assert state.check.code == 200
                asked = f"OPTIONS /{state.name} HTTP/1.0\r\n\r\n".encode()
                assert set(one.seen) <= {asked, b""}
            pool.wait_queue._check()
            under_way = [check for check in checks if check.wq_key is None]
            assert len(pool.wait_queue) + len(under_way) == many
            assert not [text for _, text in messages.sent if "invalid response" in text]
            assert all(ctx.activity.errors == 0 for ctx in pool.contexts)
        finally:
            close(pool)


def load_text(text: str) -> tuple[Settings | None, list[str]]:
    with tempfile.NamedTemporaryFile("w", suffix=".cfg") as file:
        file.write(text)
        file.flush()
        cmdline = parse_args(["-f", file.name])
        settings, diagnostics = load(cmdline.paths, cmdline, environ={})
        return settings, [item.text() for item in diagnostics]
