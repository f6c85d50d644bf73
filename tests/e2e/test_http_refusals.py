"""Messages that are refused: the right answer, a closed connection, and nothing of it forwarded."""

from __future__ import annotations

import pytest

from mtproxy.testing.configs import http
from mtproxy.testing.origin import Origin
from mtproxy.testing.wire import Wire, as_wire

_POST = b"POST /echo HTTP/1.1\r\nhost: a\r\n"

BAD_REQUESTS = {
    "no version": b"GET /\r\n\r\n",
    "another protocol": b"GET / HTTX/1.1\r\nhost: a\r\n\r\n",
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32),
    "a method that is no token": b"G@T / HTTP/1.1\r\nhost: a\r\n\r\n",
    "a blank before the method": b" GET / HTTP/1.1\r\nhost: a\r\n\r\n",
    "a word too many": b"GET / x HTTP/1.1\r\nhost: a\r\n\r\n",
    "a control byte in the target": b"GET /\x01 HTTP/1.1\r\nhost: a\r\n\r\n",
    "an 8-bit byte in the target": b"GET /\x80 HTTP/1.1\r\nhost: a\r\n\r\n",
    "a fragment in the target": b"GET /a#b HTTP/1.1\r\nhost: a\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
    "a host that is not the target's": b"GET http://b/ HTTP/1.1\r\nhost: a\r\n\r\n",
    "a blank in a header's name": b"GET / HTTP/1.1\r\nhost: a\r\nx y: 1\r\n\r\n",
    "a blank before the colon": b"GET / HTTP/1.1\r\nhost: a\r\nxy : 1\r\n\r\n",
    "a header without name": b"GET / HTTP/1.1\r\nhost: a\r\n: 1\r\n\r\n",
    "a header without colon": b"GET / HTTP/1.1\r\nhost: a\r\nnocolon\r\n\r\n",
    "a bare CR in a value": b"GET / HTTP/1.1\r\nhost: a\r\nx: a\rb\r\n\r\n",
    "two lengths": _POST + b"content-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
    "two lengths in one": _POST + b"content-length: 3, 4\r\n\r\nabcd",
    "a signed length": _POST + b"content-length: +3\r\n\r\nabc",
    "a negative length": _POST + b"content-length: -3\r\n\r\nabc",
    "a hexadecimal length": _POST + b"content-length: 0x3\r\n\r\nabc",
    "an empty length": _POST + b"content-length: \r\n\r\n",
    "a length beyond 64 bits": _POST + b"content-length: 99999999999999999999999\r\n\r\nabc",
    "a coding that is not chunked": _POST + b"transfer-encoding: gzip\r\n\r\nabc",
    "chunked not last": _POST + b"transfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "chunked twice": _POST + b"transfer-encoding: chunked\r\n" * 2 + b"\r\n0\r\n\r\n",
    "a vertical tab before chunked": _POST + b"transfer-encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "a chunk size that is no number": _POST + b"transfer-encoding: chunked\r\n\r\nzz\r\n\r\n",
    "a chunk size with 0x": _POST + b"transfer-encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n",
    "a chunk size beyond 64 bits": _POST
    + b"transfer-encoding: chunked\r\n\r\n"
    + b"f" * 17
    + b"\r\n",
    "more bytes than the chunk's size": _POST
    + b"transfer-encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
    "a trailer without colon": _POST
    + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nbad trailer\r\n\r\n",
    "a head beyond the buffer": b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"a" * 17000 + b"\r\n\r\n",
    "more than 101 headers": b"GET / HTTP/1.1\r\nhost: a\r\n"
    + b"".join(b"x%d: 1\r\n" % n for n in range(101))
    + b"\r\n",
    "CONNECT without port": b"CONNECT a HTTP/1.1\r\nhost: a\r\n\r\n",
    "CONNECT with another host": b"CONNECT a:80 HTTP/1.1\r\nhost: b:80\r\n\r\n",
}

_PAGE = (
    b"HTTP/1.1 400 Bad request\r\nContent-length: 90\r\nCache-Control: no-cache\r\n"
    b"Connection: close\r\nContent-Type: text/html\r\n\r\n"
    b"<html><body><h1>400 Bad request</h1>\nYour browser sent an invalid request.\n"
    b"</body></html>\n"
)


@pytest.mark.parametrize("data", BAD_REQUESTS.values(), ids=BAD_REQUESTS.keys())
def test_bad_request(proxy, origin: Origin, data: bytes) -> None:
    running = proxy(http(origin.port))
    wire = running.connect()
    wire.send(data)
    answer = wire.read_response()
    assert answer.status == 400
    assert answer.head.has_token("connection", "close")
    assert wire.at_end()
    # a whole good exchange later, the origin has seen nothing of the bad one
    assert running.connect().request("GET /len/1 HTTP/1.1\nhost: a").status == 200
    assert [message.head.target for message in origin.requests] == [b"/len/1"]


def test_the_400_page(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port)).connect()
    wire.send(b"nonsense\r\n\r\n")
    # header names' case is a matter of taste, everything else is not
    assert wire.read_to_end().lower() == _PAGE.lower()


def test_good_requests_before_a_bad_one_are_answered(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port)).connect()
    wire.send(as_wire("GET /len/3 HTTP/1.1\nhost: a") + b"G@T / HTTP/1.1\r\n\r\n")
    assert wire.read_response().status == 200
    assert wire.read_response().status == 400
    assert wire.at_end()


def test_pipelined_bytes_after_a_bad_request_are_dropped(proxy, origin: Origin) -> None:
    """The smuggler's way: what follows a refused message is never a request."""
    wire = proxy(http(origin.port)).connect()
    wire.send(
        _POST
        + b"content-length: 3\r\ncontent-length: 40\r\n\r\n"
        + as_wire("GET /len/1 HTTP/1.1\nhost: a")
    )
    assert wire.read_response().status == 400
    assert wire.at_end()
    assert origin.requests == []


def test_length_with_chunked_closes_after_the_answer(proxy, origin: Origin) -> None:
    """RFC 9112 section 6.3: chunked wins, the length is not forwarded, and the connection ends."""
    wire = proxy(http(origin.port)).connect()
    wire.send(
        _POST + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    )
    assert wire.read_response().body == b"hello"
    assert wire.at_end()
    assert origin.requests[0].head.get("content-length") is None


def test_equal_lengths_become_one(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port)).connect()
    for lines in (b"content-length: 3\r\n" * 2, b"content-length: 3, 3\r\n"):
        wire.send(_POST + lines + b"\r\nabc")
        assert wire.read_response().body == b"abc"
    assert [m.head.all("content-length") for m in origin.requests] == [[b"3"], [b"3"]]


BAD_RESPONSES = {
    "no status line": b"hello\r\n\r\n",
    "a status that is no number": b"HTTP/1.1 2x0 OK\r\ncontent-length: 0\r\n\r\n",
    "a header without colon": b"HTTP/1.1 200 OK\r\nnocolon\r\ncontent-length: 0\r\n\r\n",
    "a blank before the colon": b"HTTP/1.1 200 OK\r\nxy : 1\r\ncontent-length: 0\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
    "a negative length": b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
    "a head beyond the buffer": b"HTTP/1.1 200 OK\r\nx: " + b"a" * 17000 + b"\r\n\r\n",
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\ncontent-le",
}


@pytest.mark.parametrize("data", BAD_RESPONSES.values(), ids=BAD_RESPONSES.keys())
def test_bad_response(proxy, serve, data: bytes) -> None:
    def handler(wire: Wire) -> None:
        wire.read_request()
        wire.send(data)

    wire = proxy(http(serve(handler).port, be="option httpclose")).connect()
    answer = wire.request("GET / HTTP/1.1\nhost: a")
    assert answer.status == 502
    assert b"502 Bad Gateway" in answer.body


def test_a_bad_chunk_in_a_response_cuts_it(proxy, serve) -> None:
    def handler(wire: Wire) -> None:
        wire.read_request()
        wire.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\ngood\r\n")
        wire.send(b"zz\r\nevil\r\n0\r\n\r\n")

    # HAProxy leaves the client to its timeout then
    wire = proxy(http(serve(handler).port, fe="timeout client 300ms")).connect()
    wire.send(as_wire("GET / HTTP/1.1\nhost: a"))
    rest = wire.read_to_end()
    assert b"evil" not in rest
    assert not rest.endswith(b"0\r\n\r\n")


def test_response_with_length_and_chunked(proxy, serve) -> None:
    def handler(wire: Wire) -> None:
        wire.read_request()
        wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n")
        wire.send(b"5\r\nhello\r\n0\r\n\r\n")

    wire = proxy(http(serve(handler).port)).connect()
    answer = wire.request("GET / HTTP/1.1\nhost: a")
    assert (answer.body, answer.get("content-length")) == (b"hello", None)


UNPARSED = {
    "bad": (b"BAD\r\n\r\n", False, 400),
    "a bad chunk": (_POST + b"transfer-encoding: chunked\r\n\r\nzz\r\n", False, 400),
    "late": (b"GET / HT", False, 408),
    "cut": (b"GET / HT", True, 400),
    "nothing": (b"", True, 400),
}


@pytest.mark.parametrize(("data", "ended", "status"), UNPARSED.values(), ids=UNPARSED.keys())
@pytest.mark.parametrize("page", [None, b"", b"HTTP/1.0 402 Own\r\ncontent-length: 3\r\n\r\nabc"])
def test_error_files_of_what_was_no_request(
    proxy, origin: Origin, tmp_path, data: bytes, ended: bool, status: int, page: bytes | None
) -> None:
    """An empty one keeps the page back; any other one is not sent, the built-in page is."""
    rules = "timeout http-request 500ms"
    if page is not None:
        (tmp_path / "page").write_bytes(page)
        rules += f"\nerrorfile {status} {tmp_path}/page"
    wire = proxy(http(origin.port, fe=rules)).connect()
    wire.send(data)
    if ended:
        wire.shutdown_write()
    got = wire.read_to_end()
    assert got == b"" if page == b"" else got.startswith(b"HTTP/1.1 %d " % status)


def test_error_files_of_the_backend_have_no_say(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port, be="errorfile 400 /dev/null")).connect()
    wire.send(b"BAD\r\n\r\n")
    assert wire.read_response().status == 400
