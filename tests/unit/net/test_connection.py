"""Connections as the poller sees them: registered once, closed once, errors told."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from mtproxy.net.connection import ENDED, IN, OUT, RDHUP, READABLE, Connection, open_connection
from mtproxy.sched.context import ThreadContext
from mtproxy.sched.tasklet import Tasklet
from mtproxy.testing.pools import poll
from mtproxy.testing.waiting import PATIENCE


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock


def idle(ctx: ThreadContext) -> Tasklet:
    return Tasklet(ctx, lambda _value: None, "t")


@pytest.fixture
def pair(ctx: ThreadContext, listener: socket.socket) -> Iterator[tuple[Connection, socket.socket]]:
    """A connection and its peer, over TCP."""
    with socket.create_connection(listener.getsockname()) as peer:
        sock, _ = listener.accept()
        sock.setblocking(False)
        conn = Connection(ctx, sock, idle(ctx))
        yield conn, peer
        conn.close()


def test_a_new_connection_is_worth_a_try(pair: tuple[Connection, socket.socket]) -> None:
    conn, _ = pair
    assert conn.ready == IN | OUT
    with pytest.raises(BlockingIOError):
        conn.recv(1)


def test_events_come_once_each(ctx: ThreadContext, pair: tuple[Connection, socket.socket]) -> None:
    conn, peer = pair
    poll(ctx)
    conn.ready = 0
    assert poll(ctx) == [], "the same state again is no event"
    peer.send(b"a")
    assert poll(ctx, PATIENCE) == [conn]
    assert conn.ready & READABLE == IN
    conn.ready = 0
    peer.send(b"b")
    assert poll(ctx, PATIENCE) == [conn]
    assert conn.recv(10) == b"ab"
    conn.ready = 0
    peer.shutdown(socket.SHUT_WR)
    assert poll(ctx, PATIENCE) == [conn]
    assert conn.ready & ENDED == RDHUP
    assert conn.recv(10) == b""


def test_closing_twice_closes_once(
    ctx: ThreadContext, pair: tuple[Connection, socket.socket]
) -> None:
    conn, peer = pair
    assert ctx.fdtab == {conn.fd: conn}
    conn.close()
    assert conn.closed
    assert ctx.fdtab == {}
    # another connection gets the number; the first must not close it
    with socket.socket() as other:
        assert other.fileno() == conn.fd
        conn.close()
        conn.reset()
        assert other.fileno() == conn.fd
        os.fstat(other.fileno())
    peer.settimeout(PATIENCE)
    assert peer.recv(1) == b""


def test_reset_is_seen_as_one(pair: tuple[Connection, socket.socket]) -> None:
    conn, peer = pair
    conn.reset()
    peer.settimeout(PATIENCE)
    with pytest.raises(ConnectionResetError):
        peer.recv(1)


def test_reset_of_a_unix_socket_closes_it(ctx: ThreadContext) -> None:
    sock, peer = socket.socketpair()
    sock.setblocking(False)
    with peer:
        Connection(ctx, sock, idle(ctx)).reset()
        assert peer.recv(1) == b""


def test_shutdown_write_ends_one_direction(pair: tuple[Connection, socket.socket]) -> None:
    conn, peer = pair
    conn.shutdown_write()
    peer.settimeout(PATIENCE)
    assert peer.recv(1) == b""
    peer.send(b"still here")
    conn.sock.settimeout(PATIENCE)
    assert conn.recv(100) == b"still here"


def test_shutdown_write_to_a_peer_that_has_gone_is_no_error(
    ctx: ThreadContext, pair: tuple[Connection, socket.socket]
) -> None:
    conn, peer = pair
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    peer.close()
    poll(ctx, PATIENCE)
    while not conn.ready & ENDED:
        poll(ctx, PATIENCE)
    conn.shutdown_write()


def until_answered(ctx: ThreadContext, conn: Connection) -> int:
    while (error := conn.connect_error()) == errno.EINPROGRESS:
        assert poll(ctx, PATIENCE), "no answer"
    return error


def test_connecting(ctx: ThreadContext, listener: socket.socket) -> None:
    conn = open_connection(ctx, socket.AF_INET, listener.getsockname(), idle(ctx))
    try:
        assert until_answered(ctx, conn) == 0
        assert conn.ready & OUT
        assert conn.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert not conn.sock.getblocking()
        with listener.accept()[0] as accepted:
            assert accepted.getpeername() == conn.sock.getsockname()
    finally:
        conn.close()


def test_a_refused_connect(ctx: ThreadContext) -> None:
    with socket.socket() as dead:  # taken, so that nobody else listens there
        dead.bind(("127.0.0.1", 0))
        conn = open_connection(ctx, socket.AF_INET, dead.getsockname(), idle(ctx))
        assert until_answered(ctx, conn) == errno.ECONNREFUSED
    # the error was taken off the socket; it still is no connection
    assert conn.connect_error() not in (0, errno.EINPROGRESS)
    conn.close()


def test_a_connect_under_way_has_no_answer(ctx: ThreadContext, listener: socket.socket) -> None:
    """A listener whose queue is full does not answer."""
    listener.listen(0)
    where = listener.getsockname()
    with contextlib.ExitStack() as stack:
        while True:
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(where)
            conn = open_connection(ctx, socket.AF_INET, where, idle(ctx))
            stack.callback(conn.close)
            poll(ctx, 0.05)
            if conn.connect_error() == errno.EINPROGRESS:
                break
        assert not conn.ready & OUT


@pytest.mark.parametrize(
    ("make", "error"), [(None, FileNotFoundError), ("dead", ConnectionRefusedError)]
)
def test_what_the_kernel_refuses_at_once_is_raised(
    ctx: ThreadContext, tmp_path: Path, make: str | None, error: type[OSError]
) -> None:
    path = str(tmp_path / "s")
    if make:
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(path)
    with pytest.raises(error):
        open_connection(ctx, socket.AF_UNIX, path, idle(ctx))
    assert ctx.fdtab == {}


def test_repr_tells_its_state(pair: tuple[Connection, socket.socket]) -> None:
    conn, _ = pair
    assert repr(conn) == f"<Connection fd={conn.fd} in+out>"
    conn.ready = 0
    conn.close()
    assert repr(conn) == f"<Connection fd={conn.fd} idle closed>"
