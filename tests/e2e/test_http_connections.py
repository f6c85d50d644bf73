"""Who keeps which connection open: HTTP versions, Connection headers, close options, reuse."""

from __future__ import annotations

import socket
import time

import pytest

from mtproxy.testing.configs import HTTP, http
from mtproxy.testing.origin import Origin
from mtproxy.testing.payload import payload
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import Wire, as_wire


def test_client_asks_to_close(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port)).connect()
    answer = wire.request("GET /head HTTP/1.1\nhost: a\nconnection: close")
    assert answer.head.has_token("connection", "close")
    assert wire.at_end()
    # the server side keeps its own connection
    assert b"connection: close" not in answer.body


def test_server_asks_to_close(proxy, origin: Origin) -> None:
    """The client's connection does not end because the server's does."""
    running = proxy(http(origin.port))
    wire = running.connect()
    for number in (1, 2):
        answer = wire.request("GET /bye/5 HTTP/1.1\nhost: a")
        assert answer.get("x-conn") == str(number).encode()
        assert not answer.head.has_token("connection", "close")
        # a request that meets the end on its way would be lost, with HAProxy too
        wait_until(
            lambda: running.stat("be", "s1")["srv_icur"] == "0", "the proxy to notice the end"
        )
    assert wire.request("GET /len/5 HTTP/1.1\nhost: a").status == 200


def test_server_closes_an_idle_connection(proxy, origin: Origin) -> None:
    running = proxy(http(origin.port))
    wire = running.connect()
    assert wire.request("GET /len/5 HTTP/1.1\nhost: a").get("x-conn") == b"1"
    origin.reset_all()
    wait_until(lambda: origin.open_connections() == 0, "the origin's connection to end")
    # an own round trip through the proxy first, so that it has seen the close
    running.cli("show version")
    answer = wire.request("GET /len/5 HTTP/1.1\nhost: a")
    assert (answer.status, answer.get("x-conn")) == (200, b"2")


def test_idle_server_connections_are_reused_by_other_clients(proxy, origin: Origin) -> None:
    running = proxy(http(origin.port))
    seen = []
    for _ in range(4):
        wire = running.connect()
        # http-reuse safe: a client's first request takes a new connection, unless the server
        # was seen to keep its connections; the following ones take any idle one
        seen += [wire.request("GET /len/5 HTTP/1.1\nhost: a").get("x-conn") for _ in range(3)]
        wire.close()
    assert len(set(seen)) == origin.accepted <= 4
    assert seen[:3] == [b"1", b"1", b"1"]


def test_http_reuse_never(proxy, origin: Origin) -> None:
    running = proxy(http(origin.port, be="http-reuse never"))
    for number in (1, 2, 3):
        wire = running.connect()
        for _ in range(2):
            answer = wire.request("GET /len/5 HTTP/1.1\nhost: a")
            assert answer.get("x-conn") == str(number).encode()
        wire.close()


def test_http_reuse_always(proxy, origin: Origin) -> None:
    running = proxy(http(origin.port, be="http-reuse always"))
    seen = set()
    for _ in range(5):
        wire = running.connect()
        seen.add(wire.request("GET /len/5 HTTP/1.1\nhost: a").get("x-conn"))
        wire.close()
    # per thread: two threads may have one each
    assert len(seen) <= 2


def test_http_server_close(proxy, origin: Origin) -> None:
    """The client's connection stays, the server's ends after each answer."""
    wire = proxy(http(origin.port, be="option http-server-close")).connect()
    for number in (1, 2, 3):
        answer = wire.request("GET /head HTTP/1.1\nhost: a")
        assert answer.get("x-conn") == str(number).encode()
        assert b"\r\nconnection: close\r\n" in answer.body
        assert not answer.head.has_token("connection", "close")


def test_httpclose(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port, fe="option httpclose", be="option httpclose")).connect()
    answer = wire.request("GET /head HTTP/1.1\nhost: a")
    assert answer.head.has_token("connection", "close")
    assert b"\r\nconnection: close\r\n" in answer.body
    assert wire.at_end()


def test_http10_closes(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port)).connect()
    answer = wire.request("GET /head HTTP/1.0\nhost: a")
    assert answer.status == 200
    assert answer.head.get("content-length") is not None
    assert wire.at_end()


def test_http10_keep_alive(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port)).connect()
    for _ in range(3):
        answer = wire.request("GET /len/7 HTTP/1.0\nhost: a\nconnection: keep-alive")
        assert answer.head.has_token("connection", "keep-alive")
        assert len(answer.body) == 7


def test_http10_and_a_chunked_answer(proxy, origin: Origin) -> None:
    """RFC 9112 section 6.1 forbids chunks to a 1.0 client; HAProxy passes the server's framing all
    the same. Both are taken here; the connection ends in either case."""
    wire = proxy(http(origin.port)).connect()
    answer = wire.request("GET /chunked/20000 HTTP/1.0\nhost: a")
    assert answer.framing in ("chunked", "close")
    assert answer.body == payload("/chunked/20000", 20000)
    assert answer.head.has_token("connection", "close") or answer.framing == "close"
    assert wire.at_end()


def test_http10_without_host(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port)).connect()
    assert wire.request("GET /len/1 HTTP/1.0").status == 200


def test_http10_server_closing(proxy, serve) -> None:
    def handler(wire: Wire) -> None:
        wire.read_request()
        wire.send(b"HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\n\r\nold server")

    wire = proxy(http(serve(handler).port)).connect()
    answer = wire.request("GET / HTTP/1.1\nhost: a")
    assert answer.body == b"old server"
    # the server's version is not hidden
    assert answer.head.version == b"HTTP/1.0"


def test_http10_server_with_length_keeps_the_client(proxy, serve) -> None:
    def handler(wire: Wire) -> None:
        wire.read_request()
        wire.send(b"HTTP/1.0 200 OK\r\ncontent-length: 3\r\n\r\nold")

    wire = proxy(http(serve(handler).port)).connect()
    for _ in range(3):
        assert wire.request("GET / HTTP/1.1\nhost: a").body == b"old"


def test_hop_by_hop_words_are_not_forwarded(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port)).connect()
    answer = wire.request(
        "GET /head HTTP/1.1\nhost: a\nconnection: keep-alive\nkeep-alive: timeout=5"
    )
    assert b"\r\nconnection:" not in answer.body


def test_half_closing_client_still_gets_its_answer(proxy, origin: Origin) -> None:
    """A client that has sent all and shuts its side down (nc, old scripts) is served."""
    wire = proxy(http(origin.port)).connect()
    wire.send(as_wire("GET /slow/1000/10 HTTP/1.1\nhost: a"))
    wire.shutdown_write()
    answer = wire.read_response()
    assert len(answer.body) == 1000
    assert wire.at_end()


def test_a_client_that_leaves_ends_the_server_side(proxy, origin: Origin) -> None:
    running = proxy(http(origin.port))
    wire = running.connect()
    # 3 s of data: the next piece meets the reset
    wire.send(as_wire("GET /slow/100000/300 HTTP/1.1\nhost: a"))
    wire.read_head()
    wire.reset()
    wait_until(lambda: origin.open_connections() == 0, "the server's side to be closed")


def test_server_dies_in_the_middle_of_a_body(proxy, origin: Origin) -> None:
    """What came is forwarded, and the connection is closed before the promised length."""
    wire = proxy(http(origin.port)).connect()
    wire.send(as_wire("GET /reset/1000 HTTP/1.1\nhost: a"))
    assert wire.read_head().get("content-length") == b"2000"
    assert len(wire.read_to_end()) <= 1000


def test_truncated_chunks_end_without_the_last_chunk(proxy, serve) -> None:
    def handler(wire: Wire) -> None:
        wire.read_request()
        wire.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nbody\r\n")

    wire = proxy(http(serve(handler).port)).connect()
    wire.send(as_wire("GET / HTTP/1.1\nhost: a"))
    wire.read_head()
    rest = wire.read_to_end()
    assert b"body" in rest
    assert not rest.endswith(b"0\r\n\r\n")


def test_frontend_serves_many_clients_at_once(proxy, origin: Origin) -> None:
    running = proxy(http(origin.port))
    wires = [running.connect() for _ in range(60)]
    for number, wire in enumerate(wires):
        wire.send(as_wire(f"GET /len/100 HTTP/1.1\nhost: a\nx-id: c{number}"))
    for number, wire in enumerate(wires):
        assert wire.read_response().get("x-id") == f"c{number}".encode()


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_threads(proxy, origin: Origin, threads: int) -> None:
    running = proxy(f"global\n    nbthread {threads}\n" + http(origin.port))
    wires = [running.connect() for _ in range(20)]
    for turn in range(5):
        for number, wire in enumerate(wires):
            wire.send(as_wire(f"GET /len/{turn} HTTP/1.1\nhost: a\nx-id: {number}-{turn}"))
        for number, wire in enumerate(wires):
            answer = wire.read_response()
            assert (answer.status, answer.get("x-id")) == (200, f"{number}-{turn}".encode())
    # not one connection per request: the idle ones are reused
    assert origin.accepted <= 40


def test_listen_section(proxy, origin: Origin) -> None:
    running = proxy(f"""{HTTP}
listen all
    bind "fd@${{fe}}"
    server s1 127.0.0.1:{origin.port}
""")
    assert running.connect().request("GET /len/5 HTTP/1.1\nhost: a").status == 200


def test_two_frontends_share_a_backend(proxy, origin: Origin) -> None:
    running = proxy(f"""{HTTP}
frontend one
    bind "fd@${{one}}"
    default_backend be
frontend two
    bind "fd@${{two}}"
    default_backend be
backend be
    server s1 127.0.0.1:{origin.port}
""")
    for name in ("one", "two"):
        assert running.connect(name).request("GET /len/5 HTTP/1.1\nhost: a").status == 200
    # a request is counted after its answer has left
    wait_until(lambda: running.stat("be", "BACKEND")["req_tot"] == "2", "both requests")


def test_nodelay_small_answers(proxy, origin: Origin) -> None:
    """Neither Nagle nor a delayed acknowledgement may hold answers back: that costs 40 ms each."""
    wire = proxy(http(origin.port)).connect()
    wire.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
    times = []
    for _ in range(40):
        start = time.monotonic()
        assert wire.request("GET /len/5 HTTP/1.1\nhost: a").status == 200
        times.append(time.monotonic() - start)
    # other things hold some of them back on a busy machine
    assert sorted(times)[10] < 0.03
