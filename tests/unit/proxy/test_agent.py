"""Agents: the words of their lines, and what each kind of answer does to a server.

The results were compared with HAProxy's for the same answers.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from mtproxy.base.addresses import Address, AddressKind
from mtproxy.base.server_settings import AgentSettings
from mtproxy.base.settings import ProxySettings
from mtproxy.proxy.agent import AgentCheck, Reply, parse_reply
from mtproxy.proxy.backend import BackendShared
from mtproxy.proxy.server import ServerState
from mtproxy.proxy.states import FDRAIN, FMAINT, RUNNING, STOPPED, server_status
from mtproxy.proxy.transitions import enable_check, set_health, set_maint
from mtproxy.sched.context import ThreadContext
from mtproxy.sched.loop import run_some
from mtproxy.sched.pool import Pool
from mtproxy.testing.proxies import Messages, server_settings
from mtproxy.testing.waiting import wait_until


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", Reply()),
        ("up", Reply(health="up")),
        ("UP", Reply(health="UP")),
        ("up down", Reply(health="down")),
        ("down # too hot ", Reply(health="down", description="too hot ")),
        ("#up", Reply(description="up")),
        ("up#no", Reply(odd="up#no")),
        (",\tready,75%\tmaxconn:12", Reply(admin="ready", weight="75%", maxconn="12")),
        ("drain maint 10% 20%", Reply(admin="maint", weight="20%")),
        ("MaxConn:", Reply(maxconn="")),
        ("75", Reply(odd="75")),
        ("5%0", Reply(weight="5%0")),
        ("bogus worse fail", Reply(health="fail", odd="bogus")),
        ("stopped #", Reply(health="stopped")),
    ],
)
def test_words(line: str, expected: Reply) -> None:
    assert parse_reply(line) == expected


@pytest.fixture
def agent() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        yield listener


@pytest.fixture
def ctx() -> Iterator[ThreadContext]:
    context = Pool(1).contexts[0]
    context.now = 1000
    yield context
    assert context.fdtab == {}, "a check left its connection behind"


def turn(ctx: ThreadContext, now: int) -> None:
    """One turn of the loop, at the tick `now`."""
    ctx.now = now
    for fd, bits in ctx.epoll.poll(0):
        owner = ctx.fdtab[fd]
        owner.ready |= bits
        owner.tasklet.wake()
    ctx.timers.expire_due(ctx.now)
    run_some(ctx, ctx.normal, 100)


def asked(
    port: int, send: bytes = b"", *, inter: int = 60_000, messages: Messages | None = None
) -> tuple[ServerState, AgentCheck]:
    settings = server_settings(1, weight=100, agent=AgentSettings(inter, port, send=send))
    proxy = ProxySettings("be", 1, "backend", servers=(settings,))
    shared = BackendShared(proxy, 0, messages or Messages())
    (server,) = shared.servers
    server.agent_address = Address(AddressKind.IPV4, "127.0.0.1", 0, text="127.0.0.1")
    return server, AgentCheck(server, 0)


def answer(ctx: ThreadContext, check: AgentCheck, agent: socket.socket, line: bytes) -> bytes:
    """One check, which is told `line`; returns what the agent was sent."""
    check.run(ctx)
    turn(ctx, ctx.now)
    sock, _ = agent.accept()
    with sock:
        sock.settimeout(20)
        wanted = check.server.agent_send

        def sent() -> bool:
            turn(ctx, ctx.now)
            return True

        sent()
        got = sock.recv(100) if wanted else b""
        if line:
            sock.sendall(line)
    finish(ctx, check)
    return got


def finish(ctx: ThreadContext, check: AgentCheck, step: int = 0) -> None:
    def over() -> bool:
        ctx.now += step
        turn(ctx, ctx.now)
        return not check.server.agent.in_progress

    wait_until(over, "the agent check to end")
    assert check.expire is not None


def result(server: ServerState) -> tuple[str, str]:
    return server.agent.status.code, server.agent.info


def test_health(ctx: ThreadContext, agent: socket.socket) -> None:
    server, check = asked(agent.getsockname()[1], b"hello\n")
    assert answer(ctx, check, agent, b"down # too hot\n") == b"hello\n"
    assert (server.state, result(server)) == (STOPPED, ("L7STS", "via agent : down (too hot)"))
    assert server_status(server) == "DOWN (agent)"
    # no news, no change
    answer(ctx, check, agent, b"\n")
    assert (server.state, result(server)) == (STOPPED, ("CHECKED", ""))
    answer(ctx, check, agent, b"up bogus\r\nfail\r\n")
    assert (server.state, result(server)) == (RUNNING, ("L7OK", "via agent : up (bogus)"))
    answer(ctx, check, agent, b"stopped bogus\n")
    assert result(server) == ("L7STS", "via agent : stopped (bogus)")
    assert server.failed_checks == 0


def test_administration_and_weights(ctx: ThreadContext, agent: socket.socket) -> None:
    server, check = asked(agent.getsockname()[1])
    answer(ctx, check, agent, b"drain 30% maxconn:7\n")
    assert (server.admin, server.weight, result(server)) == (FDRAIN, 30, ("CHECKED", ""))
    assert server.limit is not None
    assert server.limit.maxconn == 7
    assert server_status(server) == "DRAIN (agent)"
    answer(ctx, check, agent, b"maint\n")
    assert (server.admin, server.state) == (FMAINT, STOPPED)
    # maintenance does not silence it
    answer(ctx, check, agent, b"ready,100%,up\n")
    assert (server.admin, server.state, server.weight) == (0, RUNNING, 100)
    answer(ctx, check, agent, b"maxconn:x 999%\n")
    assert (server.weight, server.limit.maxconn) == (256, 7)
    assert result(server)[1] == "agent warns : maxconn string empty or preceded by garbage"
    answer(ctx, check, agent, b"nonsense 3%\n")
    assert (server.weight, result(server)[1]) == (3, "agent reports an error : nonsense")


def test_an_agent_that_says_nothing_changes_nothing(
    ctx: ThreadContext, agent: socket.socket
) -> None:
    server, check = asked(agent.getsockname()[1])
    answer(ctx, check, agent, b"")
    assert result(server) == ("L7RSP", "TCPCHK got an empty response at step 2")
    answer(ctx, check, agent, b"down")
    assert result(server) == ("L7TOUT", "Ignoring incomplete line from agent")
    check.run(ctx)
    turn(ctx, ctx.now)
    ctx.now += 59_000
    turn(ctx, ctx.now)
    assert server.agent.in_progress
    finish(ctx, check, 1000)
    assert result(server) == ("L7TOUT", "")
    agent.close()
    check.run(ctx)
    finish(ctx, check)
    assert result(server) == ("L4CON", "Connection refused")
    assert (server.state, server.agent.health.value, server.failed_checks) == (RUNNING, 1, 0)


def test_switched_off(ctx: ThreadContext, agent: socket.socket) -> None:
    server, check = asked(agent.getsockname()[1])
    enable_check(server, ctx, on=False, agent=True)
    check.run(ctx)
    assert not server.agent.in_progress
    enable_check(server, ctx, on=True, agent=True)
    check.run(ctx)
    turn(ctx, ctx.now)
    enable_check(server, ctx, on=False, agent=True)
    sock, _ = agent.accept()
    with sock:
        sock.sendall(b"down maint 0%\n")
        finish(ctx, check)
    assert (server.state, server.admin, server.weight) == (RUNNING, 0, 100)


def test_by_hand(ctx: ThreadContext, agent: socket.socket) -> None:
    """`set server ... agent`; and the health check alone does not bring it up again."""
    messages = Messages()
    server, check = asked(agent.getsockname()[1], messages=messages)
    set_health(server, ctx, STOPPED, agent=True)
    assert server_status(server) == "DOWN (agent)"
    assert messages.take()[0][1].startswith("Server be/s1 is DOWN, changed from CLI.")
    set_maint(server, ctx)
    answer(ctx, check, agent, b"ready\n")
    assert (server.state, server.admin) == (STOPPED, 0)
    answer(ctx, check, agent, b"up\n")
    assert server.state == RUNNING
