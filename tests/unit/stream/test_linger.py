"""Closing so that the last answer arrives."""

from __future__ import annotations

import socket

import pytest

from mtproxy.base.clock import monotonic_ms
from mtproxy.base.settings import Timeouts
from mtproxy.sched.context import ThreadContext
from mtproxy.stream import linger as linger_module
from mtproxy.stream.linger import linger
from mtproxy.stream.stream import Stream
from mtproxy.testing.pools import run_task
from mtproxy.testing.streams import make_front, with_stream
from mtproxy.testing.threads import playing

#: ms that nothing takes unless it waits for its end
LONG = 30_000


async def answer(stream: Stream) -> bool:
    """Send an answer and linger; whether the connection was closed by that already."""
    stream.conn.send(b"answer")
    await linger(stream)
    return stream.conn.closed


def run(ctx: ThreadContext, sock: socket.socket, **front: object) -> bool:
    return run_task(ctx, with_stream(ctx, make_front(ctx, front=front), sock, answer))


def read_all(sock: socket.socket) -> bytes:
    data = b""
    while piece := sock.recv(100):
        data += piece
    return data


def test_unread_input_does_not_destroy_the_answer(
    ctx: ThreadContext, client: socket.socket, accepted: socket.socket
) -> None:
    client.send(bytes(200_000))
    got = []

    def play() -> None:
        got.append(client.recv(100))
        got.append(client.recv(100))
        client.close()

    with playing(play):
        run(ctx, accepted)
    assert got == [b"answer", b""]


def test_a_client_that_has_closed_is_not_waited_for(
    ctx: ThreadContext,
    client: socket.socket,
    accepted: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(linger_module, "LINGER_MS", LONG)
    client.send(b"request")
    client.shutdown(socket.SHUT_WR)
    started = monotonic_ms()
    run(ctx, accepted)
    assert monotonic_ms() - started < LONG
    assert client.recv(100) == b"answer"


def test_a_client_that_stays_is_waited_for_so_long(
    ctx: ThreadContext,
    client: socket.socket,
    accepted: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(linger_module, "LINGER_MS", 60)
    started = monotonic_ms()
    run(ctx, accepted)
    assert monotonic_ms() - started >= 60
    assert client.recv(100) == b"answer"
    assert client.recv(100) == b""


def test_a_shorter_client_timeout_goes_first(
    ctx: ThreadContext,
    client: socket.socket,
    accepted: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(linger_module, "LINGER_MS", LONG)
    started = monotonic_ms()
    run(ctx, accepted, timeouts=Timeouts(client=40))
    assert 40 <= monotonic_ms() - started < LONG


def test_a_client_that_never_stops_is_cut_off(
    ctx: ThreadContext,
    client: socket.socket,
    accepted: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(linger_module, "LINGER_BYTES", 500_000)
    monkeypatch.setattr(linger_module, "LINGER_MS", LONG)
    sent = []

    def play() -> None:
        try:
            while True:
                sent.append(client.send(bytes(65536)))
        except (BrokenPipeError, ConnectionResetError):
            sent.append(0)

    started = monotonic_ms()
    with playing(play):
        run(ctx, accepted)
    assert monotonic_ms() - started < LONG
    assert sent[-1] == 0, "cut off"
    assert sum(sent) >= 500_000


def test_a_reset_ends_it(
    ctx: ThreadContext, client: socket.socket, accepted: socket.socket
) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.close()
    run_task(ctx, with_stream(ctx, make_front(ctx), accepted, linger))


def test_nolinger_resets_at_once(
    ctx: ThreadContext, client: socket.socket, accepted: socket.socket
) -> None:
    assert run(ctx, accepted, options=frozenset({"nolinger"}))
    with pytest.raises(ConnectionResetError):
        read_all(client)
