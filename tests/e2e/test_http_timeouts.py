"""Every timeout of the manual's section 4.2 that HTTP proxying knows, with what the client gets.

Each is a few hundred ms and all others are a minute or more (`testing.configs`), so `struck` tells
them apart whatever the machine is busy with.
"""

from __future__ import annotations

import socket
import time

from mtproxy.testing.configs import http
from mtproxy.testing.origin import Origin
from mtproxy.testing.server import free_port
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import Wire, as_wire

#: ms; what clocks and roundings of two programs may differ by
CLOCKS = 50
#: ms; the other timeouts are twice as long
NEXT_TIMEOUT = 30_000


def struck(start: float, ms: int) -> bool:
    """Whether it was a timeout of `ms` that ended a wait. `start` is before what began it."""
    return ms - CLOCKS <= (time.monotonic() - start) * 1000 < NEXT_TIMEOUT


def test_http_request_timeout(proxy, origin: Origin) -> None:
    """A head that does not come whole in time: 408."""
    running = proxy(http(origin.port, fe="timeout http-request 300ms"))
    start = time.monotonic()  # the time runs from the accept
    wire = running.connect()
    wire.send(b"GET / HTTP/1.1\r\nhost: a\r\n")
    answer = wire.read_response()
    assert answer.status == 408
    assert answer.head.has_token("connection", "close")
    assert struck(start, 300)
    assert wire.at_end()


def test_http_request_timeout_is_for_the_whole_head(proxy, origin: Origin) -> None:
    """Dripping bytes does not push it back (slowloris)."""
    running = proxy(http(origin.port, fe="timeout http-request 400ms"))
    start = time.monotonic()
    wire = running.connect()
    wire.sock.settimeout(0.05)
    got = b""
    for byte in as_wire("GET / HTTP/1.1\nhost: a\nx-long: " + "a" * 200):
        try:
            wire.send(bytes([byte]))
            got = wire.sock.recv(4096)
        except TimeoutError:
            continue
        break
    assert got.startswith(b"HTTP/1.1 408 ")
    assert struck(start, 400)


def test_a_client_that_says_nothing_gets_408(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port, fe="timeout http-request 300ms")).connect()
    assert wire.read_response().status == 408
    assert wire.at_end()


def test_timeout_client_serves_for_the_head_too(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port, fe="timeout client 300ms")).connect()
    wire.send(b"GET / HTTP/1.1\r\n")
    assert wire.read_response().status == 408


def test_keep_alive_timeout_is_silent(proxy, origin: Origin) -> None:
    fe = "timeout http-keep-alive 300ms\n timeout http-request 60s"
    wire = proxy(http(origin.port, fe=fe)).connect()
    start = time.monotonic()
    assert wire.request("GET /len/3 HTTP/1.1\nhost: a").status == 200
    assert wire.at_end()
    assert struck(start, 300)


def test_without_keep_alive_timeout_the_request_timeout_counts(proxy, origin: Origin) -> None:
    """Manual, timeout http-keep-alive: unset, http-request is used, and the end is silent too."""
    wire = proxy(http(origin.port, fe="timeout http-request 300ms")).connect()
    assert wire.request("GET /len/3 HTTP/1.1\nhost: a").status == 200
    assert wire.at_end()


def test_a_started_second_request_has_its_own_time(proxy, origin: Origin) -> None:
    fe = "timeout http-keep-alive 60s\n timeout http-request 300ms"
    wire = proxy(http(origin.port, fe=fe)).connect()
    assert wire.request("GET /len/3 HTTP/1.1\nhost: a").status == 200
    assert wire.still_open(0.6)
    start = time.monotonic()
    wire.send(b"GET / HTTP/1.1\r\n")
    assert wire.read_response().status == 408
    assert struck(start, 300)


def test_server_timeout_before_the_answer(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port, be="timeout server 300ms")).connect()
    start = time.monotonic()
    answer = wire.request("GET /stall HTTP/1.1\nhost: a")
    assert answer.status == 504
    assert b"504 Gateway Time-out" in answer.body
    assert struck(start, 300)
    # the request was whole, so the client's connection lives on
    assert wire.request("GET /len/3 HTTP/1.1\nhost: a").status == 200


def test_server_timeout_in_the_body(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port, be="timeout server 1s")).connect()
    wire.send(as_wire("GET /stall/1000 HTTP/1.1\nhost: a"))
    assert wire.read_head().status == 200
    assert len(wire.read_to_end()) == 1000  # of 2000


def test_server_timeout_restarts_with_every_byte(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port, be="timeout server 1500ms")).connect()
    # 2 s in all; between two pieces nobody should need more than 1.3 s
    answer = wire.request("GET /slow/1000/200 HTTP/1.1\nhost: a")
    assert len(answer.body) == 1000


def test_client_timeout_in_the_request_body(proxy, origin: Origin) -> None:
    """The client stops in the middle of its body. HAProxy goes on waiting for the server's word and
    answers 504 after `timeout server`; 408 after `timeout client` would be as true."""
    running = proxy(http(origin.port, fe="timeout client 200ms", be="timeout server 500ms"))
    wire = running.connect()
    start = time.monotonic()
    wire.send(as_wire("POST /echo HTTP/1.1\nhost: a\ncontent-length: 10") + b"abc")
    assert wire.read_response().status in (408, 504)
    assert struck(start, 200)
    assert wire.at_end()


def test_client_timeout_while_it_does_not_read(proxy, origin: Origin) -> None:
    """A client that takes nothing more of its answer is dropped, and the server's side with it."""
    running = proxy(http(origin.port, fe="timeout client 300ms"))
    wire = running.connect()
    wire.send(as_wire("GET /len/50000000 HTTP/1.1\nhost: a"))
    wire.read_head()
    wait_until(lambda: origin.open_connections() == 0, "the server's side to be closed")
    wait_until(lambda: running.stat("fe", "FRONTEND")["scur"] == "0", "no session left")


def test_server_timeout_counts_after_the_request_is_whole(proxy, serve) -> None:
    """A slow upload longer than `timeout server` does not end in 504."""

    def handler(wire: Wire) -> None:
        body = wire.read_request().body
        wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

    wire = proxy(http(serve(handler).port, be="timeout server 1s")).connect()
    wire.send(as_wire("POST / HTTP/1.1\nhost: a\ncontent-length: 8"))
    for _ in range(8):
        assert wire.still_open(0.2)
        wire.send(b"x")
    assert wire.read_response().body == b"x" * 8


def test_connect_timeout(proxy) -> None:
    """A listener whose queue is full drops new connections: connecting takes for ever."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
            fillers.append(filler)
        try:
            be = "timeout connect 200ms\n retries 1"
            wire = proxy(http(port, be=be)).connect()
            start = time.monotonic()
            answer = wire.request("GET / HTTP/1.1\nhost: a")
            assert answer.status == 503
            assert b"503 Service Unavailable" in answer.body
            assert struck(start, 400)  # two attempts of 200 ms
        finally:
            for filler in fillers:
                filler.close()


def test_refused_connection(proxy) -> None:
    wire = proxy(http(free_port(), be="retries 0")).connect()
    answer = wire.request("GET / HTTP/1.1\nhost: a")
    assert answer.status == 503
    # the request was whole, so the client's connection lives on
    assert wire.request("GET / HTTP/1.1\nhost: a\nconnection: close").status == 503
    assert wire.at_end()


def test_no_server_at_all(proxy) -> None:
    wire = proxy("""
defaults
    mode http
    timeout connect 60s
    timeout client 60s
    timeout server 60s
frontend fe
    bind "fd@${fe}"
    default_backend be
backend be
""").connect()
    start = time.monotonic()
    assert wire.request("GET / HTTP/1.1\nhost: a").status == 503
    assert struck(start, 0)


def test_no_backend_at_all(proxy) -> None:
    wire = proxy("""
frontend fe
    mode http
    timeout client 60s
    bind "fd@${fe}"
""").connect()
    assert wire.request("GET / HTTP/1.1\nhost: a").status == 503
