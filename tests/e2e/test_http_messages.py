"""HTTP/1 messages through the proxy: framing both ways, bodies, trailers, interim answers."""

from __future__ import annotations

import pytest

from mtproxy.testing.configs import http
from mtproxy.testing.origin import Origin
from mtproxy.testing.payload import payload
from mtproxy.testing.wire import Wire, as_wire


def test_one_get(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port)).connect()
    answer = wire.request("GET /len/34 HTTP/1.1\nhost: a")
    assert (answer.status, answer.framing) == (200, "length")
    assert answer.body == payload("/len/34", 34)
    assert answer.get("x-origin") == b"o1"
    assert answer.head.start == b"HTTP/1.1 200 OK"


def test_the_request_is_forwarded_whole(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port)).connect()
    answer = wire.request(
        "GET /head?q=1&r=%20x HTTP/1.1\nHost: example.org\nX-Mixed-Case: Some Value"
    )
    lines = answer.body.split(b"\r\n")
    assert lines[0] == b"GET /head?q=1&r=%20x HTTP/1.1"
    assert lines[1:-2] == [b"host: example.org", b"x-mixed-case: Some Value"]


def test_repeated_headers_keep_their_order(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port)).connect()
    answer = wire.request("GET /head HTTP/1.1\nhost: a\nx-a: 1\nx-b: 2\nx-a: 3\nx-a:\nx-a:  4  ")
    lines = answer.body.split(b"\r\n")[1:-2]
    # surrounding blanks go, an empty value stays
    assert lines == [b"host: a", b"x-a: 1", b"x-b: 2", b"x-a: 3", b"x-a: ", b"x-a: 4"]


def test_keep_alive_on_both_sides(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port)).connect()
    for number in range(1, 6):
        answer = wire.request(f"GET /len/{number} HTTP/1.1\nhost: a")
        assert len(answer.body) == number
        assert answer.get("x-seq") == str(number).encode()
        assert answer.get("connection") is None
    assert origin.accepted == 1


def test_pipelined_requests_are_answered_in_order(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port)).connect()
    sizes = [3, 70000, 0, 17, 1]
    wire.send(
        b"".join(as_wire(f"GET /len/{size} HTTP/1.1\nhost: a\nx-id: r{size}") for size in sizes)
    )
    for size in sizes:
        answer = wire.read_response()
        assert answer.get("x-id") == f"r{size}".encode()
        assert answer.body == payload(f"r{size}", size)
    assert wire.still_open()


def test_pipelined_posts_with_both_framings(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port)).connect()
    one = as_wire("POST /echo HTTP/1.1\nhost: a\ncontent-length: 5") + b"first"
    two = as_wire("POST /echo HTTP/1.1\nhost: a\ntransfer-encoding: chunked")
    wire.send(one + two + b"6\r\nsecond\r\n0\r\n\r\n" + one)
    assert [wire.read_response().body for _ in range(3)] == [b"first", b"second", b"first"]


@pytest.mark.parametrize("split", [1, 2, 3, 7, 40])
def test_a_request_in_pieces(proxy, origin: Origin, split: int) -> None:
    wire = proxy(http(origin.port)).connect()
    data = as_wire("POST /echo HTTP/1.1\nhost: a\ntransfer-encoding: chunked")
    data += b"5\r\nhello\r\n6;ext=1\r\n world\r\n0\r\nx-t: 1\r\n\r\n"
    for start in range(0, len(data), split):
        wire.send(data[start : start + split])
    answer = wire.read_response()
    assert answer.body == b"hello world"
    assert origin.requests[0].trailers == [(b"x-t", b"1")]


@pytest.mark.parametrize("size", [0, 1, 1000, 16384, 100_000, 5_000_000])
@pytest.mark.parametrize("path", ["len", "chunked", "close"])
def test_response_bodies(proxy, origin: Origin, path: str, size: int) -> None:
    wire = proxy(http(origin.port)).connect()
    answer = wire.request(f"GET /{path}/{size} HTTP/1.1\nhost: a")
    assert answer.framing == {"len": "length", "chunked": "chunked", "close": "close"}[path]
    assert answer.body == payload(f"/{path}/{size}", size)
    if path == "close":
        assert answer.head.has_token("connection", "close")
    else:
        assert wire.request("GET /len/1 HTTP/1.1\nhost: a").status == 200


@pytest.mark.parametrize("size", [0, 1, 1000, 16384, 100_000, 5_000_000])
def test_request_body_with_content_length(proxy, origin: Origin, size: int) -> None:
    wire = proxy(http(origin.port)).connect()
    body = payload("up", size)
    wire.send(as_wire(f"POST /len/3 HTTP/1.1\nhost: a\ncontent-length: {size}"))
    wire.send(body)
    assert wire.read_response().status == 200
    assert origin.requests[0].body == body
    assert origin.requests[0].framing == "length"


@pytest.mark.parametrize("size", [0, 1, 1000, 16384, 100_000, 5_000_000])
def test_request_body_in_chunks(proxy, origin: Origin, size: int) -> None:
    wire = proxy(http(origin.port)).connect()
    body = payload("up", size)
    wire.send(as_wire("POST /len/3 HTTP/1.1\nhost: a\ntransfer-encoding: chunked"))
    for start in range(0, size, 7919):
        wire.send_chunk(body[start : start + 7919])
    wire.send_last_chunk()
    assert wire.read_response().status == 200
    assert origin.requests[0].body == body
    assert origin.requests[0].framing == "chunked"


def test_trailers_both_ways(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port)).connect()
    wire.send(as_wire("POST /echo HTTP/1.1\nhost: a\ntransfer-encoding: chunked"))
    wire.send_chunk(b"body")
    wire.send_last_chunk(b"X-Sum: abc\r\nx-other: 2\r\n")
    answer = wire.read_response()
    assert origin.requests[0].trailers == [(b"x-sum", b"abc"), (b"x-other", b"2")]
    assert answer.trailers == [(b"x-sum", b"abc"), (b"x-other", b"2")]
    assert wire.request("GET /len/1 HTTP/1.1\nhost: a").status == 200


def test_an_until_close_body_to_a_keep_alive_client(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port)).connect()
    answer = wire.request("GET /close/70000 HTTP/1.1\nhost: a")
    assert answer.body == payload("/close/70000", 70000)
    assert wire.at_end()


def test_an_answer_larger_than_all_buffers_to_a_slow_reader(proxy, origin: Origin) -> None:
    running = proxy(http(origin.port))
    wire = running.connect()
    wire.send(as_wire("GET /len/20000000 HTTP/1.1\nhost: a"))
    head = wire.read_head()
    assert head.get("content-length") == b"20000000"
    # nothing is read for a while: both sides are full, and no other client suffers
    other = running.connect().request("GET /len/10 HTTP/1.1\nhost: a")
    assert other.status == 200
    assert wire.read_exactly(20_000_000) == payload("/len/20000000", 20_000_000)


@pytest.mark.parametrize("path", ["/len/1000", "/chunked/1000", "/status/304"])
def test_head_has_no_body(proxy, origin: Origin, path: str) -> None:
    wire = proxy(http(origin.port)).connect()
    answer = wire.request(f"HEAD {path} HTTP/1.1\nhost: a")
    assert answer.body == b""
    if path == "/len/1000":
        assert answer.get("content-length") == b"1000"
    # the next answer starts where it should
    assert wire.request("GET /len/5 HTTP/1.1\nhost: a").body == payload("/len/5", 5)


@pytest.mark.parametrize("code", [204, 304])
def test_bodyless_statuses(proxy, origin: Origin, code: int) -> None:
    wire = proxy(http(origin.port)).connect()
    answer = wire.request(f"GET /status/{code} HTTP/1.1\nhost: a")
    assert (answer.status, answer.framing) == (code, "none")
    assert answer.get("transfer-encoding") is None
    assert wire.request("GET /len/5 HTTP/1.1\nhost: a").body == payload("/len/5", 5)


def test_304_with_content_length(proxy, serve) -> None:
    def handler(wire: Wire) -> None:
        for _ in range(2):
            wire.read_request()
            wire.send(b"HTTP/1.1 304 Not Modified\r\ncontent-length: 500\r\netag: x\r\n\r\n")
        assert wire.at_end()

    server = serve(handler)
    with proxy(http(server.port)).connect() as wire:
        for _ in range(2):
            answer = wire.request("GET / HTTP/1.1\nhost: a")
            assert (answer.status, answer.body, answer.get("etag")) == (304, b"", b"x")


def test_interim_answers_pass(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port)).connect()
    answer = wire.request("GET /1xx/10 HTTP/1.1\nhost: a")
    assert [head.status for head in answer.interim] == [103]
    assert answer.interim[0].get("link") == b"</a.css>; rel=preload"
    assert answer.body == payload("/1xx/10", 10)


def test_expect_100_continue(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port)).connect()
    wire.send(as_wire("POST /1xx/4 HTTP/1.1\nhost: a\ncontent-length: 6\nexpect: 100-continue"))
    assert wire.read_head().status == 100
    assert wire.read_head().status == 103
    wire.send(b"abcdef")
    assert wire.read_response().status == 200
    assert origin.requests[0].body == b"abcdef"


def test_early_response_while_the_body_flows(proxy, serve) -> None:
    """The client gets the answer before it has sent its body; the rest still goes through."""

    def handler(wire: Wire) -> None:
        wire.read_head()
        wire.read_exactly(5)
        wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nearly")
        assert wire.read_exactly(5) == b"-rest"
        wire.read_head()
        wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnext")

    server = serve(handler)
    wire = proxy(http(server.port)).connect()
    wire.send(as_wire("POST / HTTP/1.1\nhost: a\ncontent-length: 10") + b"first")
    assert wire.read_response().body == b"early"
    wire.send(b"-rest")
    assert wire.request("GET /next HTTP/1.1\nhost: a").body == b"next"


def test_both_bodies_flow_at_once(proxy, serve) -> None:
    """An answer that is made of the request while it comes: neither side waits for the other."""

    def handler(wire: Wire) -> None:
        wire.read_head()
        wire.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for chunk in wire.read_chunks():
            wire.send_chunk(chunk.upper())
        wire.read_trailers()
        wire.send_last_chunk()

    server = serve(handler)
    wire = proxy(http(server.port)).connect()
    wire.send(as_wire("POST / HTTP/1.1\nhost: a\ntransfer-encoding: chunked"))
    assert wire.read_head().status == 200
    chunks = wire.read_chunks()
    for number in range(3):  # HAProxy may hold each small chunk for 200 ms
        wire.send_chunk(b"piece %d" % number)
        assert next(chunks) == b"PIECE %d" % number
    wire.send_last_chunk()
    assert list(chunks) == []
    assert wire.read_trailers() == []


def test_methods_pass(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port)).connect()
    for method in ["PUT", "DELETE", "OPTIONS", "PATCH", "PROPFIND", "M-SEARCH"]:
        answer = wire.request(f"{method} /head HTTP/1.1\nhost: a\ncontent-length: 0")
        assert answer.body.startswith(method.encode() + b" /head HTTP/1.1\r\n")


def test_options_star_and_absolute_target(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port)).connect()
    assert wire.request("OPTIONS * HTTP/1.1\nhost: a").status == 404  # the origin's word
    assert origin.requests[-1].head.target == b"*"
    assert wire.request("GET http://b.example/head HTTP/1.1\nhost: b.example").status == 200
    assert origin.requests[-1].head.target == b"http://b.example/head"


def test_reason_and_unknown_status_pass(proxy, serve) -> None:
    def handler(wire: Wire) -> None:
        for start in [b"HTTP/1.1 299 Quite Fine", b"HTTP/1.1 599 ", b"HTTP/1.1 200 "]:
            wire.read_request()
            wire.send(start + b"\r\ncontent-length: 0\r\n\r\n")

    wire = proxy(http(serve(handler).port)).connect()
    starts = [wire.request("GET / HTTP/1.1\nhost: a").head.start for _ in range(3)]
    assert starts == [b"HTTP/1.1 299 Quite Fine", b"HTTP/1.1 599 ", b"HTTP/1.1 200 "]


def test_leading_empty_lines_before_a_request(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port)).connect()
    wire.send(b"\r\n" + as_wire("GET /len/3 HTTP/1.1\nhost: a"))
    assert wire.read_response().body == payload("/len/3", 3)
