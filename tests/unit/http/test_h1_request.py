import pytest

from mtproxy.http import headers
from mtproxy.http.cache import HeadCache
from mtproxy.http.errors import BadMessage
from mtproxy.http.h1_request import RequestHead, parse_request_head, request_line

GET = b"GET / HTTP/1.1\r\nHost: a\r\n"
KEY = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"


def parse(data: bytes, cache: HeadCache | None = None) -> RequestHead:
    """The head, parsed by lines, by known lines and by its block, with the same result."""
    cache = cache or HeadCache()
    results = [parse_request_head(data, cache) for _ in range(3)]
    first = results[0]
    for other in results[1:]:
        assert other is not first
        assert other.headers is not first.headers
        for name in vars(first):
            assert getattr(other, name) == getattr(first, name), name
    cache._check()
    return first


def refused(data: bytes) -> BadMessage:
    """The error, which must not depend on what the cache knows."""
    errors = []
    cache = HeadCache()
    for _ in range(3):
        with pytest.raises(BadMessage) as caught:
            parse_request_head(data, cache)
        errors.append(str(caught.value))
    assert len(set(errors)) == 1
    cache._check()
    return caught.value


def wire(head: RequestHead) -> bytes:
    return head.start_wire + b"".join([header[2] for header in head.headers]) + b"\r\n"


def test_a_plain_request() -> None:
    head = parse(b"GET /x?y HTTP/1.1\r\nHost: a:80\r\nUser-Agent:  curl \r\nAccept:*/*\r\n\r\n")
    assert (head.method, head.target, head.version) == (b"GET", b"/x?y", 11)
    assert head.headers == [
        (b"host", b"a:80", b"host: a:80\r\n", headers.K_HOST),
        (b"user-agent", b"curl", b"user-agent: curl\r\n", 0),
        (b"accept", b"*/*", b"accept: */*\r\n", 0),
    ]
    assert head.host == b"a:80"
    assert (head.content_length, head.chunked, head.keep_alive) == (-1, False, True)
    assert (head.upgrade, head.expect_continue) == (None, False)
    assert head.start_line == b"GET /x?y HTTP/1.1"
    assert wire(head) == (
        b"GET /x?y HTTP/1.1\r\nhost: a:80\r\nuser-agent: curl\r\naccept: */*\r\n\r\n"
    )
    assert repr(head) == "<RequestHead b'GET /x?y HTTP/1.1' 3 headers>"


def test_no_headers_at_all() -> None:
    head = parse(b"GET / HTTP/1.1\r\n\r\n")
    assert (head.headers, head.host, head.keep_alive) == ([], None, True)


def test_a_copy_of_a_head_is_its_own() -> None:
    """Heads are shared once their parts came before; copies never are."""
    cache = HeadCache()
    first = [parse_request_head(GET + b"\r\n", cache) for _ in range(5)]
    assert first[-1] is first[-2]
    for _ in range(4):
        head = parse_request_head(GET + b"\r\n", cache).copy()
        assert head.keep_alive
        assert len(head.headers) == 1
        head.headers.append((b"x", b"", b"", 0))
        head.keep_alive = False


@pytest.mark.parametrize(
    ("line", "normal", "version"),
    [
        (b"GET / HTTP/1.1", b"GET / HTTP/1.1", 11),
        (b"GET / HTTP/1.0", b"GET / HTTP/1.0", 10),
        (b"GET / HTTP/1.2", b"GET / HTTP/1.1", 11),
        (b"GET / HTTP/1.9", b"GET / HTTP/1.1", 11),
        (b"POST  /1   HTTP/1.1", b"POST /1 HTTP/1.1", 11),
        (b"get / HTTP/1.1", b"get / HTTP/1.1", 11),
        (b"M-SEARCH / HTTP/1.1", b"M-SEARCH / HTTP/1.1", 11),
        (b"OPTIONS * HTTP/1.1", b"OPTIONS * HTTP/1.1", 11),
        (b'GET /"<>\\^`{|} HTTP/1.1', b'GET /"<>\\^`{|} HTTP/1.1', 11),
    ],
)
def test_good_request_lines(line: bytes, normal: bytes, version: int) -> None:
    head = parse(line + b"\r\nHost: a\r\n\r\n")
    assert (head.start_line, head.start_wire, head.version) == (normal, normal + b"\r\n", version)
    assert request_line(head.method, head.target, version) == head.start_wire
    assert head.keep_alive == (version == 11)


@pytest.mark.parametrize(
    ("line", "reason", "position"),
    [
        (b"GET", "bad request line", 0),
        (b"GET /", "bad request line", 0),
        (b"GET / ", "bad request line", 0),
        (b"GET / HTTP/1.1 ", "bad request line", 0),
        (b"GET / HTTP/1.1 x", "bad request line", 0),
        (b"GET / x HTTP/1.1", "bad request line", 0),
        (b" GET / HTTP/1.1", "bad character in the method", 0),
        (b"G@T / HTTP/1.1", "bad character in the method", 1),
        (b"G\xc9T / HTTP/1.1", "bad character in the method", 1),
        (b"GET\t/ HTTP/1.1", "bad character in the method", 3),
        (b"GET /\t HTTP/1.1", "bad character in the request target", 5),
        (b"GET /# HTTP/1.1", "bad character in the request target", 5),
        (b"GET /\xff HTTP/1.1", "bad character in the request target", 5),
        (b"GET /\x7f HTTP/1.1", "bad character in the request target", 5),
        (b"GET /\x00 HTTP/1.1", "bad character in the request target", 5),
        (b"GET / HTTP/1.1\n", "bad character in the request target", 14),
        (b"GET / http/1.1", "bad request line", 0),
        (b"GET / RTSP/1.0", "bad request line", 0),
        (b"GET / HTTP/2.0", "unsupported HTTP version", 6),
        (b"PRI * HTTP/2.0", "unsupported HTTP version", 6),
        (b"GET / HTTP/0.9", "unsupported HTTP version", 6),
        (b"GET / HTTP/1.10", "unsupported HTTP version", 6),
        (b"GET / HTTP/1.", "unsupported HTTP version", 6),
        (b"GET / HTTP/11", "unsupported HTTP version", 6),
        (b"GET a HTTP/1.1", "bad request target", 4),
        (b"GET * HTTP/1.1", "bad request target", 4),
        (b"CONNECT / HTTP/1.1", "CONNECT needs host:port", 8),
    ],
)
def test_bad_request_lines(line: bytes, reason: str, position: int) -> None:
    error = refused(line + b"\r\nHost: a\r\n\r\n")
    assert (error.status, error.reason, error.position) == (400, reason, position)


def test_position_of_a_bad_header_counts_from_the_first_byte() -> None:
    data = b"GET  / HTTP/1.1\r\nHost: a\r\nx: ok\r\ny: a\x00\r\nz: b\r\n\r\n"
    assert refused(data).position == data.index(b"\x00")
    assert refused(b"\r\n\r\n" + data).position == data.index(b"\x00") + 4


def test_empty_lines_before_the_request_are_dropped() -> None:
    head = parse(b"\r\n\r\n" + GET + b"\r\n")
    assert head.start_line == b"GET / HTTP/1.1"
    assert refused(b"\r\n" * 5 + GET + b"\r\n").reason.startswith("too many empty lines")


@pytest.mark.parametrize(
    "data", [b"", b"GET / HTTP/1.1", b"GET / HTTP/1.1\r\n", GET, GET + b"\r", GET + b"\r\nx"]
)
def test_a_part_of_a_head_is_a_mistake_of_the_caller(data: bytes) -> None:
    with pytest.raises((ValueError, BadMessage)):
        parse_request_head(data, HeadCache())


def test_a_second_message_in_the_bytes_is_refused() -> None:
    assert refused(GET + b"\r\n" + GET + b"\r\n").reason == "header line without a colon"


@pytest.mark.parametrize("count", [99, 100, 101])
def test_number_of_headers(count: int) -> None:
    data = b"GET / HTTP/1.1\r\n" + b"x: a\r\n" * count + b"\r\n"
    if count <= 100:
        assert len(parse(data).headers) == count
    else:
        assert refused(data).reason == "too many headers"


def test_number_of_headers_is_a_parameter() -> None:
    data = GET + b"x: a\r\n\r\n"
    assert len(parse(data, HeadCache(2)).headers) == 2
    with pytest.raises(BadMessage, match="too many headers"):
        parse(data, HeadCache(1))


@pytest.mark.parametrize(
    ("version", "connection", "keep_alive"),
    [
        (b"1", b"", True),
        (b"1", b"Connection: close\r\n", False),
        (b"1", b"Connection: keep-alive\r\n", True),
        (b"1", b"Connection: x\r\nConnection: Close\r\n", False),
        (b"1", b"Connection: keep-alive, close\r\n", False),
        (b"1", b"Connection: close;x\r\n", True),
        (b"1", b"Proxy-Connection: close\r\n", True),
        (b"0", b"", False),
        (b"0", b"Connection: close\r\n", False),
        (b"0", b"Connection: Keep-Alive\r\n", True),
        (b"0", b"Connection: keep-alive, close\r\n", False),
        (b"0", b"Proxy-Connection: keep-alive\r\n", False),
        (b"0", b"Keep-Alive: 300\r\n", False),
    ],
)
def test_keep_alive(version: bytes, connection: bytes, keep_alive: bool) -> None:
    head = parse(b"GET / HTTP/1." + version + b"\r\nHost: a\r\n" + connection + b"\r\n")
    assert head.keep_alive is keep_alive
    assert b"close\r\n" not in wire(head).replace(b"proxy-connection: close\r\n", b"")


@pytest.mark.parametrize(
    ("fields", "length", "kept"),
    [
        (b"Content-Length: 0\r\n", 0, b"content-length: 0\r\n"),
        (b"Content-Length: 5\r\n", 5, b"content-length: 5\r\n"),
        (b"Content-Length: 005\r\n", 5, b"content-length: 005\r\n"),
        (b"Content-Length: 5, 5\r\n", 5, b"content-length: 5\r\n"),
        (
            b"Content-Length: 5\r\nX: a\r\nContent-Length: 5\r\n",
            5,
            b"content-length: 5\r\nx: a\r\n",
        ),
        (b"Content-Length: 5,5\r\ncontent-length: 5\r\n", 5, b"content-length: 5\r\n"),
    ],
)
def test_content_length(fields: bytes, length: int, kept: bytes) -> None:
    head = parse(GET + fields + b"\r\n")
    assert (head.content_length, head.chunked, head.keep_alive) == (length, False, True)
    assert wire(head) == b"GET / HTTP/1.1\r\nhost: a\r\n" + kept + b"\r\n"


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: \r\n",
        b"Content-Length: -5\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: 5\r\nContent-Length: 05\r\n",
        b"Content-Length: 5, 6\r\n",
        b"Content-Length: x\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\nContent-Length: 6\r\n",
        b"Transfer-Encoding: gzip\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: \r\n",
    ],
)
def test_bad_framing(fields: bytes) -> None:
    assert refused(GET + fields + b"\r\n").status == 400


def test_unsupported_coding() -> None:
    assert refused(GET + b"Transfer-Encoding: gzip, chunked\r\n\r\n").status == 422


@pytest.mark.parametrize(
    ("head_bytes", "keep_alive"),
    [
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", True),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n", True),
        (b"POST / HTTP/1.1\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n", False),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 9\r\n", False),
        (b"POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n", False),
    ],
)
def test_chunked_wins_over_a_length_but_then_the_connection_ends(
    head_bytes: bytes, keep_alive: bool
) -> None:
    head = parse(head_bytes + b"\r\n")
    assert (head.chunked, head.content_length, head.keep_alive) == (True, -1, keep_alive)
    assert b"content-length" not in wire(head)
    assert b"transfer-encoding: " in wire(head)


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"DELETE"])
@pytest.mark.parametrize("body", [b"Content-Length: 2\r\n", b"Transfer-Encoding: chunked\r\n"])
def test_http_10_knows_no_body_on_some_methods(method: bytes, body: bytes) -> None:
    data = method + b" / HTTP/1.0\r\n" + body + b"\r\n"
    assert refused(data).status == 413
    cache = HeadCache(payload_with_any_method=True)
    assert parse(data, cache).method == method
    assert parse(data.replace(b"1.0", b"1.1")).method == method
    assert parse(method + b" / HTTP/1.0\r\nContent-Length: 0\r\n\r\n").content_length == 0
    assert parse(b"POST / HTTP/1.0\r\n" + body + b"\r\n").method == b"POST"


def test_several_hosts() -> None:
    head = parse(b"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\nhost:a\r\n\r\n")
    assert wire(head) == b"GET / HTTP/1.1\r\nhost: a\r\nx: y\r\n\r\n"
    head = parse(b"GET http://a:80/ HTTP/1.1\r\nHost: a:80\r\nHost: a:80\r\n\r\n")
    assert wire(head) == b"GET http://a/ HTTP/1.1\r\nhost: a\r\n\r\n"
    for other in (b"b", b"A", b"a:80", b""):
        error = refused(b"GET / HTTP/1.1\r\nHost: a\r\nHost: " + other + b"\r\n\r\n")
        assert error.reason == "different Host headers"


def test_bad_host() -> None:
    assert refused(b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n").reason == "bad Host"
    assert refused(b"GET / HTTP/1.1\r\nHost: a\r\nHost: a b\r\n\r\n").reason == "bad Host"


def test_absolute_form() -> None:
    head = parse(b"GET http://a:80/x HTTP/1.1\r\nX: y\r\nHost: a:80\r\n\r\n")
    assert (head.target, head.host) == (b"http://a/x", b"a")
    assert wire(head) == b"GET http://a/x HTTP/1.1\r\nx: y\r\nhost: a\r\n\r\n"
    assert head.start_line == b"GET http://a/x HTTP/1.1"
    assert refused(b"GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n").status == 400
    # a block that came with an origin form is not believed for an absolute form
    cache = HeadCache()
    for target in (b"/", b"/", b"/", b"http://b/"):
        data = b"GET " + target + b" HTTP/1.1\r\nHost: a\r\n\r\n"
        if target == b"/":
            parse_request_head(data, cache)
    with pytest.raises(BadMessage):
        parse_request_head(data, cache)


def test_connect() -> None:
    head = parse(b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n")
    assert (head.target, head.host, head.content_length) == (b"a:443", b"a", -1)
    for body in (b"Content-Length: 2\r\n", b"Transfer-Encoding: chunked\r\n"):
        error = refused(b"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n" + body + b"\r\n")
        assert error.reason == "CONNECT with a body"


@pytest.mark.parametrize(
    ("fields", "upgrade"),
    [
        (b"Connection: upgrade\r\nUpgrade: x\r\n", b"x"),
        (b"Upgrade: x\r\nConnection: keep-alive, Upgrade\r\n", b"x"),
        (b"Connection: upgrade\r\nUpgrade: x\r\nUpgrade: y\r\n", b"x, y"),
        (b"Connection: upgrade\r\nUpgrade: x\r\nContent-Length: 0\r\n", b"x"),
        (b"Connection: upgrade\r\nUpgrade: websocket\r\n" + KEY, b"websocket"),
        (b"Connection: upgrade\r\nUpgrade: WebSocket, x\r\n" + KEY, b"WebSocket, x"),
        (b"Upgrade: x\r\n", None),
        (b"Upgrade: websocket\r\n", None),
        (b"Connection: upgrade\r\n", None),
        (b"Connection: upgrade\r\nUpgrade: \r\n", None),
        (b"Connection: close\r\nUpgrade: x\r\n", None),
        (b"Connection: upgrade\r\nUpgrade: x\r\nContent-Length: 1\r\n", None),
        (b"Connection: upgrade\r\nUpgrade: x\r\nTransfer-Encoding: chunked\r\n", None),
    ],
)
def test_upgrade(fields: bytes, upgrade: bytes | None) -> None:
    head = parse(GET + fields + b"\r\n")
    assert head.upgrade == upgrade
    with_body = b"Length: 1" in fields or b"chunked" in fields
    # an offer that is withdrawn does not go on; one that was none is left alone
    assert (b"\r\nupgrade: " in wire(head)) == (b"Upgrade: " in fields and not with_body)


@pytest.mark.parametrize(
    "fields",
    [
        b"",
        b"Sec-WebSocket-Key: x\r\n",
        b"Sec-WebSocket-Key: \r\n",
        KEY + KEY,
    ],
)
def test_websocket_needs_one_good_key(fields: bytes) -> None:
    error = refused(GET + b"Connection: upgrade\r\nUpgrade: websocket\r\n" + fields + b"\r\n")
    assert (error.status, error.reason) == (400, "WebSocket handshake without a good key")


@pytest.mark.parametrize(
    ("data", "expect"),
    [
        (b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n", True),
        (b"POST / HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n", True),
        (b"POST / HTTP/1.1\r\nExpect: x\r\nContent-Length: 1\r\n\r\n", False),
        (b"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n", False),
    ],
)
def test_expect(data: bytes, expect: bool) -> None:
    head = parse(data)
    assert head.expect_continue is expect
    assert b"\r\nexpect: " in wire(head)


def test_what_goes_on_of_the_fields_of_one_connection() -> None:
    head = parse(
        GET + b"Connection: x, close\r\nX: y\r\nTE: gzip, trailers\r\nKeep-Alive: 5\r\n\r\n"
    )
    assert wire(head) == (
        b"GET / HTTP/1.1\r\nhost: a\r\nconnection: x\r\nx: y\r\nte: trailers\r\n"
        b"keep-alive: 5\r\n\r\n"
    )
    # rules see what goes on: close was said to us
    assert (b"connection", b"x") in [header[:2] for header in head.headers]


def test_the_cache_forgets_secrets_and_queries() -> None:
    cache = HeadCache()
    data = b"GET /?password=1 HTTP/1.1\r\nHost: a\r\nCookie: s=1\r\nAuthorization: b\r\n\r\n"
    for _ in range(4):
        parse_request_head(data, cache)
    cache._check()
    assert not cache.requests
    assert not cache.request_blocks
    assert list(cache.lines) == [b"Host: a"]


def test_the_block_cache_learns_on_the_second_appearance_and_stays_bounded() -> None:
    cache = HeadCache(entries_max=8)
    parse_request_head(GET + b"\r\n", cache)
    assert not cache.request_blocks
    parse_request_head(GET + b"\r\n", cache)
    assert list(cache.request_blocks) == [b"Host: a\r\n\r\n"]
    for number in range(100):
        for _ in range(3):
            parse_request_head(b"GET /%d HTTP/1.1\r\nX: %d\r\n\r\n" % (number, number), cache)
        cache._check()
