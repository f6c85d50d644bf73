import pytest

from mtproxy.http import headers
from mtproxy.http.cache import LINE_MAX, HeadCache
from mtproxy.http.framing import parse_lines
from mtproxy.http.headers import (
    CONNECTION_CLOSE,
    CONNECTION_KEEP_ALIVE,
    CONNECTION_UPGRADE,
    Header,
    connection_flags,
    is_token,
    make_header,
    parse_field_line,
    refuse_field_line,
)


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        (b"X: a", b"x", b"a"),
        (b"x:a", b"x", b"a"),
        (b"X-Mixed-CASE: \t a b \t ", b"x-mixed-case", b"a b"),
        (b"x:", b"x", b""),
        (b"x: \t ", b"x", b""),
        (b"x: a:b: c", b"x", b"a:b: c"),
        (b"x: a\tb", b"x", b"a\tb"),
        (b"x: \xe9\xff\x80", b"x", b"\xe9\xff\x80"),
        (b"!#$%&'*+-.^_`|~09AZaz: v", b"!#$%&'*+-.^_`|~09azaz", b"v"),
    ],
)
def test_good_line(line: bytes, name: bytes, value: bytes) -> None:
    assert parse_field_line(line) == (name, value, name + b": " + value + b"\r\n", 0)


@pytest.mark.parametrize(
    ("line", "reason", "position"),
    [
        (b"", "header line without a colon", 0),
        (b"x", "header line without a colon", 0),
        (b": a", "header without a name", 0),
        (b"x : a", "bad character in a header name", 1),
        (b"x\t: a", "bad character in a header name", 1),
        (b"x y: a", "bad character in a header name", 1),
        (b"a(b): c", "bad character in a header name", 1),
        (b"\xe9: c", "bad character in a header name", 0),
        (b"ab\x00: c", "bad character in a header name", 2),
        (b" x: a", "folded header line", 0),
        (b"\tx: a", "folded header line", 0),
        (b"x: a\x00", "control character in a header value", 4),
        (b"x: a\rb", "control character in a header value", 4),
        (b"x: a\nb", "control character in a header value", 4),
        (b"x: \x7f", "control character in a header value", 3),
        (b"x: a\x0b", "control character in a header value", 4),
        (b"x:\x1f", "control character in a header value", 2),
    ],
)
def test_bad_line(line: bytes, reason: str, position: int) -> None:
    assert parse_field_line(line) is None
    error = refuse_field_line(line, 100)
    assert (error.status, error.reason, error.position) == (400, reason, 100 + position)
    assert refuse_field_line(line, 0, 502).status == 502
    assert str(error) == f"400: {reason} at byte {100 + position}"


def test_every_byte_in_a_name_and_in_a_value() -> None:
    token = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    for code in range(256):
        byte = bytes([code])
        in_name = parse_field_line(b"a" + byte + b"b: c")
        # a colon ends the name
        assert (in_name is not None) == (byte in token or byte == b":"), byte
        assert is_token(byte) == (byte in token)
        in_value = parse_field_line(b"a: b" + byte + b"c")
        good = code == 9 or (code >= 32 and code != 127)
        assert (in_value is not None) == good, byte


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (b"close", b""),
        (b"keep-alive", b""),
        (b"Keep-Alive, CLOSE", b""),
        (b"", b""),
        (b",,", b""),
        (b"upgrade", b"connection: upgrade\r\n"),
        (b"Upgrade, keep-alive", b"connection: Upgrade\r\n"),
        (b"x, close ,y", b"connection: x, y\r\n"),
        (b"close;x", b"connection: close;x\r\n"),
    ],
)
def test_connection_leaves_what_speaks_of_this_connection(value: bytes, wire: bytes) -> None:
    header = make_header(b"connection", value)
    assert header[1:] == (value, wire, headers.K_CONNECTION)


@pytest.mark.parametrize(
    ("value", "flags"),
    [
        (b"close", CONNECTION_CLOSE),
        (b"Close", CONNECTION_CLOSE),
        (b"keep-alive", CONNECTION_KEEP_ALIVE),
        (b"upgrade", CONNECTION_UPGRADE),
        (b" keep-alive ,\tUpgrade", CONNECTION_KEEP_ALIVE | CONNECTION_UPGRADE),
        (b"close close", 0),
        (b'"close"', 0),
        (b"close;q=1", 0),
        (b"closed", 0),
        (b"", 0),
    ],
)
def test_connection_flags(value: bytes, flags: int) -> None:
    assert connection_flags(value) == flags
    cache = HeadCache()
    assert [cache.connection(value) for _ in range(2)] == [flags, flags]
    cache._check()


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (b"trailers", b"te: trailers\r\n"),
        (b"gzip, Trailers", b"te: trailers\r\n"),
        (b"gzip", b""),
        (b"trailers;q=0.5", b""),
        (b"trtrailers", b""),
        (b"", b""),
    ],
)
def test_te_keeps_trailers_alone(value: bytes, wire: bytes) -> None:
    assert make_header(b"te", value)[2] == wire


@pytest.mark.parametrize(
    "value", [b"a", b"a:80", b"a:", b"", b":80", b"a_b.c-d~", b"[::1]", b"[fe80::1%25eth0]:8080"]
)
def test_good_host(value: bytes) -> None:
    assert make_header(b"host", value)[3] == headers.K_HOST


@pytest.mark.parametrize(
    "value", [b"a b", b"a/", b"u@a", b"a:x", b"[::1", b"::1", b"a\xe9", b"a?b", b'"a"', b"a:80:80"]
)
def test_bad_host(value: bytes) -> None:
    assert make_header(b"host", value)[3] == headers.K_BAD_HOST


def test_kinds_are_distinct_and_sorted_by_the_work_they_make() -> None:
    assert len(set(headers.KINDS.values())) == len(headers.KINDS)
    assert all(name == name.lower() for name in headers.KINDS)
    assert headers.K_NONE not in headers.KINDS.values()
    for name in (b"host", b"connection", b"content-length", b"transfer-encoding", b"upgrade"):
        assert headers.KINDS[name] > 0
    for name in (b"cookie", b"keep-alive", b"trailer", b"te"):
        assert headers.KINDS[name] < 0


def _learn(cache: HeadCache, line: bytes) -> None:
    found: list[Header | None] = [None]
    parse_lines([line], found, cache, 0, 400)
    assert found == [parse_field_line(line)]


def test_cache_keeps_lines_but_no_secrets_and_no_long_ones() -> None:
    cache = HeadCache()
    kept = b"X: a"
    for line in (
        kept,
        b"Cookie: a=b",
        b"Set-Cookie: a=b",
        b"Authorization: x",
        b"Proxy-Authorization: x",
        b"Sec-WebSocket-Key: x",
        b"X: " + b"a" * LINE_MAX,
    ):
        _learn(cache, line)
    assert list(cache.lines) == [kept]
    assert cache.get(kept) == (b"x", b"a", b"x: a\r\n", 0)
    cache._check()


def test_cache_is_bounded() -> None:
    cache = HeadCache(entries_max=10)
    for number in range(1000):
        _learn(cache, b"X: %d" % number)
        cache.connection(b"x%d" % number)
        cache._check()
    assert b"X: 999" in cache.lines
    # the bound method still looks into the live table
    assert cache.get(b"X: 999") is cache.lines[b"X: 999"]
