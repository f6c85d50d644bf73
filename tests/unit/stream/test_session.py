"""From an accepted socket to a stream, and what becomes of one that cannot be watched."""

from __future__ import annotations

import errno
import os
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from mtproxy.base.addresses import Address, AddressKind, BindSettings
from mtproxy.base.settings import StatsSocket
from mtproxy.cli.connection import CliGate, CliStarter
from mtproxy.net.listener import Acceptor
from mtproxy.proxy.counters import FrontendCounters
from mtproxy.proxy.quota import Quota
from mtproxy.sched.context import ThreadContext
from mtproxy.sched.loop import run_some
from mtproxy.stream.room import FrontGate, ListenerRoom
from mtproxy.stream.session import SessionStarter
from mtproxy.testing.streams import make_front


class FullEpoll:
    """A poller that watches nothing more, as epoll at fs.epoll.max_user_watches."""

    def __init__(self, epoll: Any) -> None:
        self._epoll = epoll
        self.unregister = epoll.unregister
        self.poll = epoll.poll
        self.close = epoll.close

    def register(self, _fd: int, _events: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("mode", ["http", "tcp"])
def test_a_connection_that_cannot_be_watched_is_given_back(
    ctx: ThreadContext,
    client: socket.socket,
    accepted: socket.socket,
    mode: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its limits are free again, nothing runs, and the client is not left waiting."""
    front = make_front(ctx)
    listener = ListenerRoom(front, 1, [FrontendCounters()], (Quota(10), Quota(1)))
    ctx.room.listeners[1] = listener
    gate = FrontGate(ctx.tid, listener)
    ctx.epoll = FullEpoll(ctx.epoll)
    for _ in range(2):
        assert gate.admit()
        gate.enter()
        assert gate.full()
        SessionStarter("fe", mode, 1)(ctx, accepted.dup(), ("127.0.0.1", 4711))
        assert not gate.full()
    accepted.close()
    assert client.recv(1) == b""
    assert listener.counters is not None
    assert listener.counters.conn_cur == front.frontend.counters.conn_cur == 0
    assert ctx.shared.conns == 0
    assert ctx.fdtab == {}
    assert run_some(ctx, ctx.normal, 10) == 2, "late wake-ups do nothing"
    assert (ctx.tasklets, front.streams) == (set(), set())
    said = capsys.readouterr().err
    assert said.count("accepted connections are closed at once: ") == 1, "once in a second"


def test_a_runtime_connection_that_cannot_be_watched_is_given_back(
    ctx: ThreadContext,
    client: socket.socket,
    accepted: socket.socket,
    capsys: pytest.CaptureFixture[str],
) -> None:
    gate = CliGate(1)
    bind = BindSettings(Address(AddressKind.UNIX, "/s"), level="admin")
    starter = CliStarter(SimpleNamespace(cli_connections=0), StatsSocket(bind), gate)  # type: ignore[arg-type]
    ctx.epoll = FullEpoll(ctx.epoll)
    gate.enter()
    starter(ctx, accepted.dup(), None)
    accepted.close()
    assert not gate.full()
    assert client.recv(1) == b""
    assert run_some(ctx, ctx.normal, 10) == 1
    assert ctx.tasklets == set()
    assert "a connection to the runtime socket is closed at once: " in capsys.readouterr().err


def test_a_listener_that_cannot_be_watched_is_tried_again(
    ctx: ThreadContext, listener: socket.socket, capsys: pytest.CaptureFixture[str]
) -> None:
    front = make_front(ctx)
    gate = FrontGate(ctx.tid, ctx.room.listeners[1])
    acceptor = Acceptor(ctx, listener, lambda *_args: None, gate)
    front.room.acceptors.append(acceptor)
    acceptor.pause()
    usual, ctx.epoll = ctx.epoll, FullEpoll(ctx.epoll)
    front.room.after_session(ctx)
    assert acceptor.paused
    assert ctx.fdtab == {}
    assert "cannot watch a listening socket, trying again" in capsys.readouterr().err
    ctx.epoll = usual
    front.room.after_session(ctx)
    assert not acceptor.paused
    acceptor.pause()
