"""What a check finds on real sockets: connected, refused, silent, no such socket. Mock time."""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from mtproxy.base.addresses import Address, AddressKind
from mtproxy.base.server_settings import CheckSettings
from mtproxy.base.settings import ProxySettings, Timeouts
from mtproxy.proxy.backend import Backend, BackendShared
from mtproxy.proxy.check import Check
from mtproxy.proxy.checks.outcome import local_failure
from mtproxy.proxy.checkstatus import CheckStatus
from mtproxy.proxy.server import ServerState
from mtproxy.proxy.transitions import set_maint
from mtproxy.sched.context import ThreadContext
from mtproxy.sched.loop import run_some
from mtproxy.sched.pool import Pool
from mtproxy.testing.proxies import Messages, server_settings
from mtproxy.testing.server import free_port
from mtproxy.testing.waiting import wait_until

INTER = 700


@pytest.fixture
def ctx() -> Iterator[ThreadContext]:
    context = Pool(1).contexts[0]
    context.now = 1000
    yield context
    assert context.fdtab == {}, "a check left its connection behind"
    assert not len(context.timers), "a check left its timer behind"
    context.epoll.close()
    os.close(context.shared.event_fd)


def checked(address: Address, **timeouts: int) -> tuple[ServerState, Check]:
    server = server_settings(1, check=CheckSettings(inter=INTER, rise=1, fall=1))
    server = type(server)(server.name, server.id, address, check=server.check)
    settings = ProxySettings("be", 1, "backend", servers=(server,), timeouts=Timeouts(**timeouts))
    shared = BackendShared(settings, 0, Messages())
    Backend(shared, 0)
    return shared.servers[0], Check(shared.servers[0], 0)


def local(port: int) -> Address:
    return Address(AddressKind.IPV4, "127.0.0.1", port)


def turn(ctx: ThreadContext, now: int | None = None) -> None:
    """One turn of the loop, at the tick `now`."""
    if now is not None:
        ctx.now = now
    for fd, bits in ctx.epoll.poll(0):
        owner = ctx.fdtab[fd]
        owner.ready |= bits
        owner.tasklet.wake()
    ctx.timers.expire_due(ctx.now)
    run_some(ctx, ctx.normal, 100)


def finish(ctx: ThreadContext, server: ServerState) -> None:
    def done() -> bool:
        turn(ctx)
        return not server.check.in_progress

    wait_until(done, "the end of the check")


def result(server: ServerState) -> tuple[str, str, int]:
    return (server.check.status.code, server.check.info, server.check.duration)


def test_connected(ctx: ThreadContext) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        server, check = checked(local(listener.getsockname()[1]))
        check.run(ctx)
        finish(ctx, server)
        assert result(server) == ("L4OK", "", 0)
        assert server.running
        # put back an interval later
        assert check.expire == 1000 + INTER
        assert ctx.pool.wait_queue.next_tick == 1000 + INTER
        # the handshake was never completed: the server has nothing to accept
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_ipv6(ctx: ThreadContext) -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
        server, check = checked(Address(AddressKind.IPV6, "::1", listener.getsockname()[1]))
        check.run(ctx)
        finish(ctx, server)
        assert result(server) == ("L4OK", "", 0)


def test_refused(ctx: ThreadContext) -> None:
    server, check = checked(local(free_port()))
    check.run(ctx)
    finish(ctx, server)
    assert result(server) == ("L4CON", "Connection refused", 0)
    assert (server.running, server.failed_checks) == (False, 1)


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that neither accepts nor refuses: its backlog is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fill = []
        for _ in range(3):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(listener.getsockname())
            fill.append(sock)
        yield listener.getsockname()[1]
        for sock in fill:
            sock.close()


@pytest.mark.parametrize(
    ("timeouts", "expected"),
    [
        ({}, INTER),
        ({"connect": 300}, INTER),
        ({"check": 100}, INTER),
        ({"connect": 300, "check": 100}, 300),
        ({"connect": 5000, "check": 100}, INTER),
    ],
)
def test_timeout(ctx: ThreadContext, silent: int, timeouts: dict[str, int], expected: int) -> None:
    server, check = checked(local(silent), **timeouts)
    check.run(ctx)
    turn(ctx, 1000 + expected - 1)
    assert server.check.in_progress
    turn(ctx, 1000 + expected)
    assert result(server) == ("L4TOUT", "", expected)
    assert not server.check.in_progress
    # the interval counts from the end
    assert check.expire == 1000 + expected + INTER


def test_unix_socket(ctx: ThreadContext, tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    server, check = checked(Address(AddressKind.UNIX, path))
    check.run(ctx)
    assert result(server) == (
        "SOCKERR",
        "General socket error (No such file or directory)",
        0,
    )
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        check.run(ctx)
        assert result(server)[1] == "General socket error (Connection refused)"
        listener.listen()
        check.run(ctx)
        assert result(server) == ("L4OK", "", 0)
    server, check = checked(Address(AddressKind.UNIX, "/" + "x" * 200))
    check.run(ctx)
    assert result(server) == ("SOCKERR", "General socket error (AF_UNIX path too long)", 0)


def test_reset_by_the_server_is_a_connection(ctx: ThreadContext) -> None:
    """Who accepts and closes at once is alive."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        server, check = checked(local(listener.getsockname()[1]))
        check.run(ctx)
        finish(ctx, server)
        assert server.check.status is CheckStatus.L4OK


def test_maintenance_during_a_check(ctx: ThreadContext, silent: int) -> None:
    server, check = checked(local(silent))
    check.run(ctx)
    set_maint(server, ctx)
    turn(ctx, 1000 + INTER)
    assert (server.check.in_progress, server.check.status, server.failed_checks) == (
        False,
        CheckStatus.INI,
        0,
    )
    assert check.expire is not None
    # and none starts
    check.run(ctx)
    assert not server.check.in_progress


@pytest.mark.parametrize(
    ("error", "family", "expected"),
    [
        (errno.ENETUNREACH, socket.AF_INET, (CheckStatus.L4CON, "Network is unreachable")),
        (errno.EACCES, socket.AF_INET6, (CheckStatus.L4CON, "Permission denied")),
        (errno.EMFILE, socket.AF_INET, (CheckStatus.SOCKERR, "Too many open files")),
        (errno.ENOENT, socket.AF_UNIX, (CheckStatus.SOCKERR, "No such file or directory")),
    ],
)
def test_local_failures(error: int, family: int, expected: tuple[CheckStatus, str]) -> None:
    status, info, _ = local_failure(OSError(error, os.strerror(error)), family)
    assert (status, info) == (expected[0], f"General socket error ({expected[1]})")


def test_refused_at_once() -> None:
    error = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
    assert local_failure(error, socket.AF_INET) == (CheckStatus.L4CON, "Connection refused", 0)
