import pytest

from mtproxy.http.cache import HeadCache
from mtproxy.http.errors import BadMessage
from mtproxy.http.h1_response import (
    BODY_CHUNKED,
    BODY_LENGTH,
    BODY_NONE,
    BODY_UNTIL_CLOSE,
    ResponseHead,
    parse_response_head,
    status_line,
)

OK = b"HTTP/1.1 200 OK\r\n"
ACCEPT = b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"


def parse(data: bytes, method: bytes = b"GET") -> ResponseHead:
    """The head, parsed by lines, by known lines and by its block, with the same result."""
    cache = HeadCache()
    results = [parse_response_head(data, method, cache) for _ in range(3)]
    first = results[0]
    for other in results[1:]:
        assert other.headers is not first.headers
        for name in vars(first):
            assert getattr(other, name) == getattr(first, name), name
    assert first.body == first.body_mode(method)
    cache._check()
    return first


def refused(data: bytes) -> BadMessage:
    errors = []
    cache = HeadCache()
    for _ in range(3):
        with pytest.raises(BadMessage) as caught:
            parse_response_head(data, b"GET", cache)
        errors.append(str(caught.value))
    assert len(set(errors)) == 1
    cache._check()
    return caught.value


def wire(head: ResponseHead) -> bytes:
    return head.start_wire + b"".join([header[2] for header in head.headers]) + b"\r\n"


def test_a_plain_response() -> None:
    head = parse(
        b"HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Sun, 30 Nov 2025 13:00:00 GMT\r\n"
        b"Content-Type: text/html\r\nContent-Length: 34\r\nConnection: keep-alive\r\n"
        b'ETag: "692c-22"\r\nAccept-Ranges: bytes\r\n\r\n'
    )
    assert (head.status, head.reason, head.version) == (200, b"OK", 11)
    assert (head.content_length, head.chunked, head.keep_alive) == (34, False, True)
    assert (head.body, head.upgrade) == (BODY_LENGTH, None)
    assert head.start_line == b"HTTP/1.1 200 OK"
    assert wire(head) == (
        b"HTTP/1.1 200 OK\r\nserver: nginx/1.22.1\r\ndate: Sun, 30 Nov 2025 13:00:00 GMT\r\n"
        b"content-type: text/html\r\ncontent-length: 34\r\n"
        b'etag: "692c-22"\r\naccept-ranges: bytes\r\n\r\n'
    )
    assert repr(head) == "<ResponseHead b'HTTP/1.1 200 OK' 6 headers>"


@pytest.mark.parametrize(
    ("line", "normal", "status", "reason", "version"),
    [
        (b"HTTP/1.1 200 OK", b"HTTP/1.1 200 OK", 200, b"OK", 11),
        (b"HTTP/1.1 200 ", b"HTTP/1.1 200 ", 200, b"", 11),
        (b"HTTP/1.1 200", b"HTTP/1.1 200 ", 200, b"", 11),
        (b"HTTP/1.1 200  OK ", b"HTTP/1.1 200 OK", 200, b"OK", 11),
        (b"HTTP/1.1 404 Not \t Found", b"HTTP/1.1 404 Not \t Found", 404, b"Not \t Found", 11),
        (b"HTTP/1.1 200 \xe9", b"HTTP/1.1 200 \xe9", 200, b"\xe9", 11),
        (b"HTTP/1.0 200 OK", b"HTTP/1.0 200 OK", 200, b"OK", 10),
        (b"HTTP/1.2 200 OK", b"HTTP/1.1 200 OK", 200, b"OK", 11),
        (b"HTTP/1.1 999 x", b"HTTP/1.1 999 x", 999, b"x", 11),
    ],
)
def test_good_status_lines(
    line: bytes, normal: bytes, status: int, reason: bytes, version: int
) -> None:
    head = parse(line + b"\r\n\r\n")
    assert (head.status, head.reason, head.version) == (status, reason, version)
    assert (head.start_line, head.start_wire) == (normal, normal + b"\r\n")
    assert status_line(version, status, reason) == head.start_wire


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"HTTP/1.1",
        b"HTTP/1.1 ",
        b"HTTP/1.1 20 OK",
        b"HTTP/1.1 2000 OK",
        b"HTTP/1.1 099 OK",
        b"HTTP/1.1 000 OK",
        b"HTTP/1.1 2x0 OK",
        b"HTTP/1.1 +20 OK",
        b"HTTP/1.1 200OK",
        b"HTTP/1.1  200 OK",
        b"HTTP/1.1\t200 OK",
        b"HTTP/1.1 200\tOK",
        b" HTTP/1.1 200 OK",
        b"HTTP/2.0 200 OK",
        b"HTTP/0.9 200 OK",
        b"HTTP/1.10 200 OK",
        b"HTTP/11 200 OK",
        b"http/1.1 200 OK",
        b"ICY 200 OK",
        b"200 OK",
        b"HTTP/1.1 200 a\x00b",
        b"HTTP/1.1 200 a\rb",
        b"HTTP/1.1 200 a\nb",
        b"HTTP/1.1 200 \x7f",
        b"GET / HTTP/1.1",
    ],
)
def test_bad_status_lines(line: bytes) -> None:
    error = refused(line + b"\r\nContent-Length: 0\r\n\r\n")
    assert (error.status, error.reason, error.position) == (502, "bad status line", 0)


def test_bad_headers_are_a_bad_gateway() -> None:
    data = OK + b"X: a\r\nY : b\r\n\r\n"
    error = refused(data)
    assert (error.status, error.position) == (502, data.index(b" :"))
    assert refused(OK + b"X: a\r\n b\r\n\r\n").status == 502
    assert refused(OK + b"x: a\r\n" * 101 + b"\r\n").reason == "too many headers"


def test_a_part_of_a_head_is_a_mistake_of_the_caller() -> None:
    for data in (OK, OK + b"\r", OK[:-2], OK + b"X: a\r\n"):
        with pytest.raises(ValueError, match="not a whole head"):
            parse_response_head(data, b"GET", HeadCache())


LENGTH = b"Content-Length: 5\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    ("method", "status", "fields", "body"),
    [
        (b"GET", 200, LENGTH, BODY_LENGTH),
        (b"GET", 200, b"Content-Length: 0\r\n", BODY_LENGTH),
        (b"GET", 200, CHUNKED, BODY_CHUNKED),
        (b"GET", 200, LENGTH + CHUNKED, BODY_CHUNKED),
        (b"GET", 200, b"", BODY_UNTIL_CLOSE),
        (b"POST", 200, b"", BODY_UNTIL_CLOSE),
        (b"POST", 404, LENGTH, BODY_LENGTH),
        (b"HEAD", 200, LENGTH, BODY_NONE),
        (b"HEAD", 200, CHUNKED, BODY_NONE),
        (b"HEAD", 200, b"", BODY_NONE),
        (b"GET", 204, b"", BODY_NONE),
        (b"GET", 204, LENGTH, BODY_NONE),
        (b"GET", 204, CHUNKED, BODY_NONE),
        (b"GET", 304, LENGTH, BODY_NONE),
        (b"GET", 304, CHUNKED, BODY_NONE),
        (b"GET", 304, b"", BODY_NONE),
        (b"GET", 205, b"", BODY_UNTIL_CLOSE),
        (b"GET", 100, b"", BODY_NONE),
        (b"GET", 103, LENGTH, BODY_NONE),
        (b"CONNECT", 200, LENGTH, BODY_NONE),
        (b"CONNECT", 200, CHUNKED, BODY_NONE),
        (b"CONNECT", 299, b"", BODY_NONE),
        (b"CONNECT", 302, LENGTH, BODY_LENGTH),
        (b"CONNECT", 407, b"", BODY_UNTIL_CLOSE),
    ],
)
def test_body_rules(method: bytes, status: int, fields: bytes, body: int) -> None:
    head = parse(b"HTTP/1.1 %d x\r\n%b\r\n" % (status, fields), method)
    assert head.body == body


@pytest.mark.parametrize("status", [100, 102, 199, 204])
@pytest.mark.parametrize("fields", [LENGTH, CHUNKED, LENGTH + CHUNKED])
def test_fields_of_a_body_do_not_go_on_where_there_is_none(status: int, fields: bytes) -> None:
    head = parse(b"HTTP/1.1 %d x\r\nX: y\r\n%b\r\n" % (status, fields))
    assert wire(head) == b"HTTP/1.1 %d x\r\nx: y\r\n\r\n" % status
    assert (head.content_length, head.chunked) == (-1, False)


def test_not_modified_may_speak_of_a_length() -> None:
    head = parse(b"HTTP/1.1 304 x\r\n" + LENGTH + b"\r\n")
    assert wire(head) == b"HTTP/1.1 304 x\r\ncontent-length: 5\r\n\r\n"
    assert head.content_length == 5


@pytest.mark.parametrize(
    ("data", "keep_alive"),
    [
        (OK + LENGTH, True),
        (OK + LENGTH + b"Connection: close\r\n", False),
        (OK + LENGTH + b"Connection: Keep-Alive\r\n", True),
        (OK + LENGTH + b"Connection: x\r\nConnection: x, close\r\n", False),
        (OK + CHUNKED, True),
        (OK + CHUNKED + LENGTH, False),
        (b"HTTP/1.0 200 OK\r\n" + LENGTH, False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n" + LENGTH, True),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n" + CHUNKED, False),
    ],
)
def test_keep_alive(data: bytes, keep_alive: bool) -> None:
    assert parse(data + b"\r\n").keep_alive is keep_alive


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: x\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: 5, 6\r\n",
        b"Transfer-Encoding: gzip\r\n",
        b"Transfer-Encoding: identity\r\n",
        b"Transfer-Encoding: chunked, chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: x\r\n",
    ],
)
def test_bad_framing(fields: bytes) -> None:
    assert refused(OK + fields + b"\r\n").status == 502


def test_lists_of_lengths_become_one() -> None:
    head = parse(OK + b"Content-Length: 5, 5\r\nX: a\r\nContent-Length: 5\r\n\r\n")
    assert wire(head) == OK + b"content-length: 5\r\nx: a\r\n\r\n"
    assert head.content_length == 5


def test_a_host_means_nothing_in_a_response() -> None:
    head = parse(OK + b"Host: a b\r\nContent-Length: 5\r\nHost: c\r\n\r\n")
    assert len(head.headers) == 3


@pytest.mark.parametrize(
    ("status", "fields", "upgrade"),
    [
        (101, b"Connection: upgrade\r\nUpgrade: x\r\n", b"x"),
        (101, b"Connection: Upgrade\r\nUpgrade: websocket\r\n" + ACCEPT, b"websocket"),
        (101, b"Connection: upgrade\r\nUpgrade: x\r\nContent-Length: 3\r\n", b"x"),
        (200, b"Connection: upgrade\r\nUpgrade: websocket\r\n", b"websocket"),
        (426, b"Upgrade: x\r\n", None),
    ],
)
def test_upgrade(status: int, fields: bytes, upgrade: bytes | None) -> None:
    head = parse(b"HTTP/1.1 %d x\r\n%b\r\n" % (status, fields))
    assert head.upgrade == upgrade
    assert b"\r\nupgrade: " in wire(head)
    if status == 101:
        assert b"content-length" not in wire(head)


@pytest.mark.parametrize(
    "fields",
    [
        b"",
        b"Upgrade: x\r\n",
        b"Connection: upgrade\r\n",
        b"Connection: upgrade\r\nUpgrade: \r\n",
        b"Connection: upgrade\r\nUpgrade: websocket\r\n",
        b"Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: \r\n",
    ],
)
def test_bad_switch(fields: bytes) -> None:
    assert refused(b"HTTP/1.1 101 x\r\n" + fields + b"\r\n").status == 502


def test_one_block_under_several_status_lines_and_methods() -> None:
    cache = HeadCache()
    block = b"Content-Length: 5\r\n\r\n"
    for _ in range(3):
        for line, method, body, kept in (
            (OK, b"GET", BODY_LENGTH, True),
            (OK, b"HEAD", BODY_NONE, True),
            (b"HTTP/1.1 204 x\r\n", b"GET", BODY_NONE, False),
            (b"HTTP/1.1 304 x\r\n", b"GET", BODY_NONE, True),
            (b"HTTP/1.0 200 x\r\n", b"GET", BODY_LENGTH, True),
            (OK, b"CONNECT", BODY_NONE, True),
        ):
            head = parse_response_head(line + block, method, cache)
            assert head.body == body
            assert (b"content-length" in wire(head)) == kept
            assert head.keep_alive == line.startswith(b"HTTP/1.1")
    cache._check()
