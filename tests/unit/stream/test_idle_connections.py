"""What is kept between two requests: `pool-max-conn`, `pool-purge-delay`, `max-reuse`."""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from mtproxy.base.addresses import Address, AddressKind, SourceSettings
from mtproxy.base.settings import GlobalSettings, ProxySettings
from mtproxy.net.connection import ENDED, IN, OUT, READABLE
from mtproxy.net.sockets import FAST_OPEN
from mtproxy.proxy.backend import Backend, BackendShared
from mtproxy.proxy.server import Server
from mtproxy.stream.conf import BackConf
from mtproxy.stream.connect import (
    IDLE_PER_SERVER,
    ServerMark,
    close_ended,
    give_idle,
    is_quiet,
    prepare,
    purge_idle,
    reuse_kept,
    shed_idle,
    take_idle,
    take_proven,
)
from mtproxy.testing.proxies import Messages, server_settings
from mtproxy.testing.threads import run_threads


class FakeConnection:
    """A server connection that is between two messages; `unread` is what a recv would find."""

    def __init__(self, srv: Server, ready: int = OUT, unread: bytes | None = None) -> None:
        self.ready = ready
        self.unread = unread
        self.mark = ServerMark(srv)
        self.tasklet: object = None
        self.closed = False

    def recv(self, _count: int) -> bytes:
        if self.unread is None:
            raise BlockingIOError
        return self.unread

    def close(self) -> None:
        self.closed = True


def servers(threads: int = 1, mode: str = "http", **fields: Any) -> list[Server]:
    """The sides of one server on each thread."""
    settings = ProxySettings("be", 1, "backend", mode=mode, servers=(server_settings(1, **fields),))
    shared = BackendShared(settings, 0, Messages())
    sides = []
    for tid in range(threads):
        (server,) = Backend(shared, tid).servers
        ctx: Any = SimpleNamespace(normal=None)
        prepare(ctx, server, BackConf(settings, GlobalSettings()), http=mode == "http")
        sides.append(server)
    return sides


def kept(srv: Server, count: int, *, reused: int = 0) -> int:
    """How many of `count` connections are kept."""
    for _ in range(count):
        conn: Any = FakeConnection(srv)
        conn.mark.reused = reused
        give_idle(conn, 0)
        assert conn.closed is (conn not in srv.idle)
    return len(srv.idle)


def test_many_are_kept() -> None:
    (srv,) = servers()
    assert kept(srv, IDLE_PER_SERVER + 3) == IDLE_PER_SERVER


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_pool_max_conn(limit: int) -> None:
    (srv,) = servers(pool_max_conn=limit)
    assert kept(srv, 5) == limit


def leave_by_use(srv: Server) -> None:
    task: Any = object()
    while take_idle(task, srv):
        pass


def leave_by_time(srv: Server) -> None:
    purge_idle(srv, 1 << 40)


def leave_by_end(srv: Server) -> None:
    for conn in srv.idle:
        conn.ready |= READABLE | ENDED
    close_ended(srv)


def leave_by_change(srv: Server) -> None:
    srv.shared.epoch += 1
    purge_idle(srv, 0)


def leave_by_shortage(srv: Server) -> None:
    ctx: Any = SimpleNamespace(
        room=SimpleNamespace(backends={"be": SimpleNamespace(servers=[srv])}), pipes=[]
    )
    while srv.idle:
        assert shed_idle(ctx)


@pytest.mark.parametrize(
    "leave", [leave_by_use, leave_by_time, leave_by_end, leave_by_change, leave_by_shortage]
)
def test_pool_max_conn_counts_all_threads(leave: Callable[[Server], None]) -> None:
    one, other = servers(2, pool_max_conn=3)
    assert kept(one, 2) == 2
    assert kept(other, 5) == 1
    leave(one)
    assert not one.idle
    other.refresh()  # new connections know the server's present epoch
    assert kept(other, 5) == 3
    assert kept(one, 1) == 0


def test_pool_max_conn_when_another_thread_gives_meanwhile() -> None:
    """Between the decision to keep a connection and keeping it, another thread decides too."""
    one, other = servers(2, pool_max_conn=1)

    class Meanwhile(deque[Any]):
        def append(self, conn: Any) -> None:
            assert kept(other, 1) == 0
            super().append(conn)

    one.idle = Meanwhile()
    assert kept(one, 1) == 1


def test_pool_max_conn_when_threads_give_at_once() -> None:
    sides = servers(4, pool_max_conn=2)
    step = threading.Barrier(len(sides), timeout=30)

    def use(tid: int) -> None:
        srv = sides[tid]
        for _ in range(300):
            step.wait()
            kept(srv, 2)
            step.wait()
            assert sum(len(side.idle) for side in sides) == 2
            step.wait()
            leave_by_use(srv)

    run_threads(len(sides), use)


def test_a_purge_delay_of_zero_keeps_nothing() -> None:
    (srv,) = servers(pool_purge_delay=0)
    assert kept(srv, 3) == 0


def test_purge_delay() -> None:
    (srv,) = servers(pool_purge_delay=700)
    for since in (0, 300, 301):
        conn: Any = FakeConnection(srv)
        give_idle(conn, since)
    purge_idle(srv, 699)
    assert len(srv.idle) == 3
    purge_idle(srv, 1000)
    assert [conn.mark.since for conn in srv.idle] == [301]


@pytest.mark.parametrize(
    ("limit", "reused", "count"), [(0, 0, 0), (2, 1, 1), (2, 2, 0), (-1, 9, 1)]
)
def test_max_reuse(limit: int, reused: int, count: int) -> None:
    (srv,) = servers(max_reuse=limit)
    assert kept(srv, 1, reused=reused) == count


def test_a_connection_of_its_own_client_is_reused_within_the_limit() -> None:
    (srv,) = servers(max_reuse=2)
    conn: Any = FakeConnection(srv)
    assert [reuse_kept(conn, srv) for _ in range(4)] == [True, True, False, False]


def test_a_connection_to_another_server_is_not_reused() -> None:
    (srv,), (other,) = servers(), servers()
    conn: Any = FakeConnection(srv)
    assert not reuse_kept(conn, other)
    srv.epoch += 1  # it went down meanwhile
    assert not reuse_kept(conn, srv)


@pytest.mark.parametrize(
    ("ready", "unread", "quiet"),
    [
        (OUT, None, True),
        (IN | OUT, None, True),  # the last read was exactly full
        (IN | OUT, b"x", False),
        (IN | OUT | ENDED, None, False),
        (IN | OUT, b"", False),
    ],
)
def test_quiet_connections(ready: int, unread: bytes | None, *, quiet: bool) -> None:
    (srv,) = servers()
    conn: Any = FakeConnection(srv, ready, unread)
    assert is_quiet(conn) is quiet
    if quiet:
        assert not conn.ready & IN
    again: Any = FakeConnection(srv, ready, unread)
    give_idle(again, 0)
    assert again.closed is not quiet
    task: Any = object()
    assert (take_idle(task, srv) is again) is quiet


def test_how_connections_are_made() -> None:
    (srv,) = servers(tcp_ut=500, tfo=True)
    assert FAST_OPEN[0] in srv.socket_options
    assert [value for *_, value in srv.socket_options] == [500, 1]
    assert srv.source is None
    (plain,) = servers(mode="tcp", tfo=True)  # the server may be the one that speaks first
    assert plain.socket_options == ()


def test_source_of_the_server_comes_first() -> None:
    own = SourceSettings(Address(AddressKind.IPV4, "127.0.0.3"))
    common = SourceSettings(Address(AddressKind.IPV4, "127.0.0.2"))
    for given, expected in ((own, "127.0.0.3"), (None, "127.0.0.2")):
        settings = ProxySettings(
            "be", 1, "backend", servers=(server_settings(1, source=given),), source=common
        )
        (srv,) = Backend(BackendShared(settings, 0, Messages()), 0).servers
        ctx: Any = SimpleNamespace(normal=None)
        prepare(ctx, srv, BackConf(settings, GlobalSettings()), http=False)
        assert srv.source is not None
        with srv.source.open(socket.AF_INET) as sock:
            srv.source.bind(sock)
            assert sock.getsockname() == (expected, 0)


@pytest.mark.parametrize(
    ("reused", "unread", "taken", "left"),
    [
        ((), {}, None, []),
        ((0, 0), {}, None, [0, 1]),
        ((1, 0, 0), {}, 0, [1, 2]),
        ((0, 1, 0, 2, 0), {}, 3, [0, 1, 2, 4]),
        ((0, 1, 0, 2, 0), {3: b""}, 1, [0, 2, 4]),
        ((0, 2), {1: b"x"}, None, [0]),
    ],
)
def test_first_requests_take_a_connection_that_was_reused(
    reused: tuple[int, ...], unread: dict[int, bytes], taken: int | None, left: list[int]
) -> None:
    """`http-reuse aggressive`: the newest one, past those that never were; the order stays."""
    (srv,) = servers(pool_max_conn=10)
    assert srv.permits is not None
    conns: list[Any] = [FakeConnection(srv) for _ in reused]
    for conn, times in zip(conns, reused, strict=True):
        conn.mark.reused = times
        give_idle(conn, 0)
    for at, data in unread.items():
        conns[at].ready, conns[at].unread = IN | OUT, data
    task: Any = SimpleNamespace()
    conn = take_proven(task, srv)
    assert conn is (None if taken is None else conns[taken])
    assert [conns.index(conn) for conn in srv.idle] == left
    assert len(srv.permits) == 10 - len(left)
    assert [c.closed for c in conns] == [at in unread for at in range(len(conns))]
    if conn is not None:
        assert conn.tasklet is task
