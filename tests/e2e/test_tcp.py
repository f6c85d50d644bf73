"""`mode tcp`: bytes both ways at once, half-close, resets, timeouts, bulk."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from mtproxy.testing.configs import TCP, tcp
from mtproxy.testing.payload import digest, payload
from mtproxy.testing.server import free_port
from mtproxy.testing.waiting import PATIENCE, wait_until
from mtproxy.testing.wire import PeerClosed, Wire

SPLICE = "option splice-request\n option splice-response"


def echo(wire: Wire) -> None:
    while wire.fill():
        wire.send(wire.take(len(wire.buffer)))


def test_bytes_pass(proxy, serve) -> None:
    wire = proxy(tcp(serve(echo).port)).connect()
    for data in (b"hello", b"\x00\xff\r\n", b"x" * 100_000):
        wire.send(data)
        assert wire.read_exactly(len(data)) == data


def test_the_server_may_speak_first(proxy, serve) -> None:
    def handler(wire: Wire) -> None:
        wire.send(b"220 ready\r\n")
        assert wire.read_until(b"\r\n") == b"QUIT\r\n"
        wire.send(b"221 bye\r\n")

    wire = proxy(tcp(serve(handler).port)).connect()
    assert wire.read_until(b"\r\n") == b"220 ready\r\n"
    wire.send(b"QUIT\r\n")
    assert wire.read_to_end() == b"221 bye\r\n"


def test_half_close_by_the_client(proxy, serve) -> None:
    """The request ends by the client's FIN, and the answer still comes."""

    def handler(wire: Wire) -> None:
        data = wire.read_to_end()
        wire.send(b"%d bytes" % len(data))

    wire = proxy(tcp(serve(handler).port)).connect()
    wire.send(b"x" * 200_000)
    wire.shutdown_write()
    assert wire.read_to_end() == b"200000 bytes"


def test_half_close_by_the_server(proxy, serve) -> None:
    """The server has said all and still listens."""
    heard: list[bytes] = []

    def handler(wire: Wire) -> None:
        wire.send(b"that is all")
        wire.shutdown_write()
        heard.append(wire.read_to_end())

    server = serve(handler)
    wire = proxy(tcp(server.port)).connect()
    assert wire.read_to_end() == b"that is all"
    wire.send(b"still talking")
    wire.shutdown_write()
    wait_until(lambda: heard, "the server to hear the client")
    assert heard == [b"still talking"]


def test_the_server_closes(proxy, serve) -> None:
    wire = proxy(tcp(serve(lambda wire: wire.send(b"short")).port)).connect()
    assert wire.read_to_end() == b"short"


def test_the_client_resets(proxy, serve) -> None:
    ended = threading.Event()

    def handler(wire: Wire) -> None:
        try:
            wire.read_to_end()
        except PeerClosed:
            pass  # a reset is passed on as one or as an end
        ended.set()

    server = serve(handler)
    wire = proxy(tcp(server.port)).connect()
    wire.send(b"hello")
    wait_until(lambda: server.accepted == 1, "the server's connection")
    wire.reset()
    assert ended.wait(PATIENCE)


def test_the_server_resets(proxy, serve) -> None:
    def handler(wire: Wire) -> None:
        wire.read_exactly(5)
        wire.reset()

    wire = proxy(tcp(serve(handler).port)).connect()
    wire.send(b"hello")
    assert wire.at_end()


def test_a_refusing_server_closes_the_client(proxy) -> None:
    wire = proxy(tcp(free_port(), be="retries 0")).connect()
    assert wire.at_end()


@pytest.mark.parametrize("options", ["", SPLICE], ids=["copy", "splice"])
def test_bulk_down(proxy, serve, options: str) -> None:
    data = payload("down", 20_000_000)
    wire = proxy(tcp(serve(lambda w: w.send(data)).port, fe=options, be=options)).connect()
    assert digest(wire.read_to_end()) == digest(data)


@pytest.mark.parametrize("options", ["", SPLICE], ids=["copy", "splice"])
def test_bulk_up(proxy, serve, options: str) -> None:
    data = payload("up", 20_000_000)

    def handler(wire: Wire) -> None:
        wire.send(digest(wire.read_to_end()).encode())

    wire = proxy(tcp(serve(handler).port, fe=options, be=options)).connect()
    wire.send(data)
    wire.shutdown_write()
    assert wire.read_to_end().decode() == digest(data)


@pytest.mark.parametrize("options", ["", SPLICE], ids=["copy", "splice"])
def test_bulk_both_ways_at_once(proxy, program: str, serve, options: str) -> None:
    """Neither direction waits for the other."""
    if program == "haproxy" and options:
        pytest.skip("HAProxy 2.6 that splices both ways resets the client in one of ten runs")
    down, up = payload("down", 12_000_000), payload("up", 12_000_000)
    heard: list[str] = []

    def handler(wire: Wire) -> None:
        sender = threading.Thread(target=wire.send, args=(down,))
        sender.start()
        heard.append(digest(wire.read_to_end()))
        sender.join(PATIENCE)

    wire = proxy(tcp(serve(handler).port, fe=options, be=options)).connect()

    def upload() -> None:
        wire.send(up)
        wire.shutdown_write()

    sender = threading.Thread(target=upload)
    sender.start()
    assert digest(wire.read_to_end()) == digest(down)
    sender.join(PATIENCE)
    wait_until(lambda: heard, "the upload to arrive")
    assert heard == [digest(up)]


@pytest.mark.parametrize("options", ["", SPLICE], ids=["copy", "splice"])
def test_back_pressure(proxy, serve, options: str) -> None:
    """A client that does not read stops the server: the proxy holds no more than its buffers."""
    sent = 0
    stalled = threading.Event()

    def handler(wire: Wire) -> None:
        nonlocal sent
        wire.sock.settimeout(0.5)
        try:
            while sent < 200_000_000:
                sent += wire.sock.send(bytes(65536))
        except TimeoutError:
            pass
        stalled.set()

    running = proxy(tcp(serve(handler).port, fe=options, be=options))
    before = running.rss()
    running.connect()
    assert stalled.wait(PATIENCE)
    # kernel buffers of four sockets (and pipes), not the 200 MB
    assert 0 < sent < 40_000_000
    assert running.rss() - before < 30_000_000


def test_timeout_client_ends_a_silent_connection(proxy, serve) -> None:
    wire = proxy(
        tcp(serve(echo).port, fe="timeout client 300ms", be="timeout server 300ms")
    ).connect()
    start = time.monotonic()
    wire.send(b"hello")
    assert wire.read_exactly(5) == b"hello"
    assert wire.at_end()
    assert time.monotonic() - start > 0.25


def test_activity_keeps_a_connection_alive(proxy, serve) -> None:
    wire = proxy(
        tcp(serve(echo).port, fe="timeout client 1500ms", be="timeout server 1500ms")
    ).connect()
    for _ in range(10):  # 2 s in all
        assert wire.still_open(0.2)
        wire.send(b"x")
        assert wire.read_exactly(1) == b"x"


def test_many_connections_at_once(proxy, serve) -> None:
    running = proxy(tcp(serve(echo).port))
    wires = [running.connect() for _ in range(100)]
    for number, wire in enumerate(wires):
        wire.send(b"%05d" % number)
    for number, wire in enumerate(wires):
        assert wire.read_exactly(5) == b"%05d" % number


def test_connections_leave_no_descriptor(proxy, serve) -> None:
    server = serve(echo)
    running = proxy(tcp(server.port, fe=SPLICE, be=SPLICE))
    with running.connect() as wire:
        wire.send(b"x")
        wire.read_exactly(1)
    wait_until(lambda: server.open_connections() == 0, "the first connection's end")
    running.cli("show version")
    before = running.fd_count()
    for _ in range(50):
        with running.connect() as wire:
            wire.send(b"x" * 10_000)
            wire.read_exactly(10_000)
    # pipes may be kept for later, but not one pair per connection
    wait_until(lambda: running.fd_count() <= before + 8, "descriptors to be given back")


def test_keepalive_options_are_accepted(proxy, serve) -> None:
    running = proxy(tcp(serve(echo).port, fe="option clitcpka", be="option srvtcpka"))
    wire = running.connect()
    wire.send(b"x")
    assert wire.read_exactly(1) == b"x"


def test_maxconn_of_the_frontend(proxy, serve) -> None:
    """Beyond `maxconn` clients wait in the kernel's queue; they are served when one leaves."""
    running = proxy(tcp(serve(echo).port, fe="maxconn 2"))
    first, second, third = (running.connect() for _ in range(3))
    for wire in (first, second):
        wire.send(b"x")
        assert wire.read_exactly(1) == b"x"
    third.send(b"x")
    assert third.still_open(0.2)
    first.close()
    assert third.read_exactly(1) == b"x"


def test_tcp_listen_with_two_binds(proxy, serve) -> None:
    running = proxy(f"""{TCP}
listen l
    bind "fd@${{one}}"
    bind "fd@${{two}}"
    server s1 127.0.0.1:{serve(echo).port}
""")
    for name in ("one", "two"):
        wire = running.connect(name)
        wire.send(b"x")
        assert wire.read_exactly(1) == b"x"


def test_urgent_shutdown_order(proxy, serve) -> None:
    """Data right before a FIN is never lost, however small the pieces."""
    data = payload("tail", 300_001)

    def handler(wire: Wire) -> None:
        wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        wire.send(data)

    running = proxy(tcp(serve(handler).port))
    for _ in range(5):
        assert running.connect().read_to_end() == data
