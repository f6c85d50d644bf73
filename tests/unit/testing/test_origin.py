"""The scripted origin and the wire client judge the proxy, so they are judged first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from mtproxy.testing.origin import Origin
from mtproxy.testing.payload import digest, payload
from mtproxy.testing.server import Server, free_port
from mtproxy.testing.syslog_sink import parse_http_line, parse_tcp_line
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import PeerClosed, Wire, WireError, as_wire, connect, refused


@pytest.fixture
def origin() -> Iterator[Origin]:
    with Origin() as running:
        yield running


@pytest.fixture
def wire(origin: Origin) -> Iterator[Wire]:
    with connect(origin.address) as connected:
        yield connected


@pytest.mark.parametrize("size", [0, 1, 1_048_573, 1_048_574, 3_000_000])
def test_payload(size: int) -> None:
    body = payload("key", size)
    assert len(body) == size
    assert body == payload("key", size)
    if size:
        assert digest(body) != digest(payload("other", size))


@pytest.mark.parametrize(
    ("path", "framing"), [("len", "length"), ("chunked", "chunked"), ("close", "close")]
)
def test_bodies(wire: Wire, path: str, framing: str) -> None:
    answer = wire.request(f"GET /{path}/70000 HTTP/1.1\nhost: a\nx-id: me")
    assert (answer.status, answer.framing) == (200, framing)
    assert answer.body == payload("me", 70000)
    assert answer.get("x-id") == b"me"


def test_counting(origin: Origin) -> None:
    for number in ("1", "2"):
        with connect(origin.address) as wire:
            for sequence in ("1", "2"):
                answer = wire.request("GET /len/1 HTTP/1.1\nhost: a")
                assert answer.get("x-conn") == number.encode()
                assert answer.get("x-seq") == sequence.encode()
    assert len(origin.requests) == 4


def test_upload_digest(wire: Wire) -> None:
    head = f"POST /echo HTTP/1.1\nhost: a\ncontent-length: 4\nx-digest: {digest(b'body')}"
    wire.send(as_wire(head) + b"body")
    assert wire.read_response().body == b"body"
    wire.send(as_wire(head) + b"b0dy")
    assert wire.read_response().status == 520


def test_early_answer(wire: Wire) -> None:
    wire.send(as_wire("POST /early/403 HTTP/1.1\nhost: a\ncontent-length: 4"))
    assert wire.read_response().status == 403
    wire.send(b"body" + as_wire("GET /len/1 HTTP/1.1\nhost: a"))
    assert wire.read_response().status == 200


def test_interim_answers(wire: Wire) -> None:
    answer = wire.request("GET /1xx/1 HTTP/1.1\nhost: a\nexpect: 100-continue")
    assert [head.status for head in answer.interim] == [100, 103]


def test_reset_and_stall(origin: Origin) -> None:
    with connect(origin.address) as wire:
        wire.send(as_wire("GET /reset HTTP/1.1\nhost: a"))
        with pytest.raises(PeerClosed) as closed:
            wire.read_head()
        assert closed.value.reset
    with connect(origin.address) as wire:
        wire.send(as_wire("GET /stall/10 HTTP/1.1\nhost: a"))
        wire.read_head()
        assert wire.read_exactly(10) == payload("/stall/10", 10)
        assert wire.still_open()


def test_reset_all(origin: Origin, wire: Wire) -> None:
    wire.request("GET /len/1 HTTP/1.1\nhost: a")
    assert origin.reset_all() == 1
    with pytest.raises(PeerClosed) as closed:
        wire.fill()
    assert closed.value.reset


@pytest.mark.parametrize("kind", ["upgrade", "connect"])
def test_tunnels(wire: Wire, kind: str) -> None:
    if kind == "upgrade":
        text = "GET /upgrade HTTP/1.1\nhost: a\nconnection: upgrade\nupgrade: x"
        assert wire.request(text).status == 101
    else:
        assert wire.request("CONNECT a:1 HTTP/1.1\nhost: a:1").status == 200
    wire.send(b"ping")
    assert wire.read_exactly(4) == b"ping"


def test_a_handler_that_fails_fails_the_test() -> None:
    def handler(wire: Wire) -> None:
        assert wire.read_exactly(2) == b"no"

    server = Server(handler)
    with connect(server.address) as wire:
        wire.send(b"ok")
        wait_until(lambda: server.accepted == 1 and server.open_connections() == 0, "the handler")
    with pytest.raises(AssertionError):
        server.close()


def test_the_wire_is_strict() -> None:
    def handler(wire: Wire) -> None:
        wire.read_head()
        wire.send(b"HTTP/1.1 200 OK\r\nbad header : x\r\n\r\n")

    with Server(handler) as server, connect(server.address) as wire, pytest.raises(WireError):
        wire.request("GET / HTTP/1.1\nhost: a")


def test_short_bodies_are_noticed() -> None:
    def handler(wire: Wire) -> None:
        wire.read_head()
        wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort")

    with Server(handler) as server, connect(server.address) as wire:
        with pytest.raises(PeerClosed) as closed:
            wire.request("GET / HTTP/1.1\nhost: a")
        assert closed.value.got == b"short"


def test_as_a_process() -> None:
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "mtproxy.testing.origin", "--port", str(port)],
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"listening on 127.0.0.1:{port}\n".encode()
        with connect(("127.0.0.1", port)) as wire:
            assert wire.request("GET /len/3 HTTP/1.1\nhost: a").status == 200
            os.kill(process.pid, signal.SIGUSR1)
            with pytest.raises(PeerClosed):
                wire.fill()
        process.terminate()
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert refused(("127.0.0.1", port))


def test_log_lines_are_taken_apart() -> None:
    line = parse_http_line(
        "10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/+109 200 +2750 "
        '- - ---- 1/1/1/1/+2 0/3 "GET /index.html HTTP/1.1"'
    )
    assert (line.client_ip, line.client_port) == ("10.0.1.2", 33317)
    assert (line.active_time, line.bytes_read, line.retries) == (109, 2750, "+2")
    assert line.queues == (0, 3)
    tcp = parse_tcp_line(
        "10.0.1.2:33313 [06/Feb/2009:12:12:51.443] fnt bck/srv1 0/0/5007 212 -- 0/0/0/0/3 0/0"
    )
    assert (tcp.total_time, tcp.bytes_read, tcp.termination) == (5007, 212, "--")
    with pytest.raises(AssertionError):
        parse_http_line("nonsense")
