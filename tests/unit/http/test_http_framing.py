import pytest

from mtproxy.http.errors import BadMessage
from mtproxy.http.framing import (
    EMPTY_LINES_MAX,
    check_codings,
    find_head_end,
    lists_websocket,
    parse_length,
    skip_empty_lines,
)

HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def test_head_end_whole_and_with_trailing_data() -> None:
    assert find_head_end(HEAD) == len(HEAD)
    assert find_head_end(HEAD + HEAD) == len(HEAD)
    assert find_head_end(HEAD + HEAD, len(HEAD)) == 2 * len(HEAD)
    assert find_head_end(b"GET / HTTP/1.1\r\n\r\n\n\x00") == 18
    assert find_head_end(bytearray(HEAD)) == len(HEAD)


@pytest.mark.parametrize("lead", [b"", b"\r\n", b"\r\n" * EMPTY_LINES_MAX])
@pytest.mark.parametrize("remember", [False, True])
def test_head_end_byte_by_byte(lead: bytes, remember: bool) -> None:
    data = lead + HEAD
    seen = 0
    for size in range(len(data)):
        assert find_head_end(data[:size], 0, seen=seen) == -1, data[:size]
        seen = size if remember else 0
    assert find_head_end(data, 0, seen=seen) == len(data)


@pytest.mark.parametrize("data", [b"", b"\r", b"\r\n", b"\r\n\r\n", b"\r\n\r\n\r"])
def test_empty_lines_are_no_head(data: bytes) -> None:
    assert find_head_end(data) == -1


@pytest.mark.parametrize("tail", [b"", HEAD])
def test_too_many_empty_lines(tail: bytes) -> None:
    with pytest.raises(BadMessage, match="too many empty lines"):
        find_head_end(b"\r\n" * (EMPTY_LINES_MAX + 1) + tail)
    assert skip_empty_lines(b"\r\n\r\nx\r\n") == 4
    assert skip_empty_lines(b"x\r\n\r\ny", 1) == 5


@pytest.mark.parametrize(
    ("data", "reason", "position"),
    [
        (b"GET / HTTP/1.1\nHost: a\n\n", "bare LF", 14),
        (b"\nGET", "bare LF", 0),
        (b"GET / HTTP/1.1\r\nX: a\n", "bare LF", 20),
        (b"GET\r/", "bare CR", 3),
        (b"\rG", "bare CR", 0),
        (b"\x16\x03\x01\x02\x00\x01", "control character in a head", 0),
        (b"GET / \x00", "control character in a head", 6),
    ],
)
def test_hopeless_bytes_are_refused_at_once(data: bytes, reason: str, position: int) -> None:
    with pytest.raises(BadMessage) as caught:
        find_head_end(data)
    assert (caught.value.status, caught.value.reason) == (400, reason)
    assert caught.value.position == position
    # in pieces: as soon as the byte that tells has come, with and without the memory of the caller
    for remember in (False, True):
        seen = 0
        refused_at = None
        for size in range(1, len(data) + 1):
            try:
                assert find_head_end(data[:size], 0, seen=seen) == -1
            except BadMessage:
                refused_at = size
                break
            seen = size if remember else 0
        # a bare CR shows one byte later
        assert refused_at == position + (2 if "CR" in reason else 1)


@pytest.mark.parametrize("data", [HEAD, HEAD[:-1]])
def test_limit(data: bytes) -> None:
    assert find_head_end(data, 0, limit=len(data)) == (len(HEAD) if data == HEAD else -1)
    with pytest.raises(BadMessage, match="head too long"):
        find_head_end(data, 0, limit=len(data) - 1)
    with pytest.raises(BadMessage, match="head too long"):
        find_head_end(b"\r\n" + data, 0, limit=len(data))


@pytest.mark.parametrize(
    ("value", "length", "digits"),
    [
        (b"0", 0, b"0"),
        (b"5", 5, b"5"),
        (b"0005", 5, b"0005"),
        (b"5, 5", 5, b"5"),
        (b"5\t,5 ,  5", 5, b"5"),
        (b"9223372036854775807", (1 << 63) - 1, b"9223372036854775807"),
    ],
)
def test_good_length(value: bytes, length: int, digits: bytes) -> None:
    assert parse_length(value, 400) == (length, digits)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"+5",
        b"-5",
        b"5 5",
        b"5,",
        b",5",
        b"5, 6",
        b"5, 05",
        b"0x5",
        b"5;",
        b"5.0",
        b"1e3",
        b"\xb2",
        b"1_0",
        b"9223372036854775808",
        b"18446744073709551615",
        b"00000000000000000005",
    ],
)
def test_bad_length(value: bytes) -> None:
    for status in (400, 502):
        with pytest.raises(BadMessage) as caught:
            parse_length(value, status)
        assert caught.value.status == status


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ([b"chunked"], None),
        ([b"CHUNKED"], None),
        ([b"gzip, chunked"], 422),
        ([b"gzip", b"chunked"], 422),
        ([b",chunked"], 422),
        ([b"chunked,"], 400),
        ([b"chunked", b"chunked"], 400),
        ([b"chunked, chunked"], 400),
        ([b"chunked, gzip, chunked"], 400),
        ([b"chunked, gzip"], 400),
        ([b"gzip"], 400),
        ([b"identity"], 400),
        ([b""], 400),
        ([b'"chunked"'], 400),
        ([b"chunked;q=1"], 400),
        ([b"xchunked"], 400),
    ],
)
def test_transfer_codings(values: list[bytes], status: int | None) -> None:
    if status is None:
        check_codings(values, 400)
        return
    with pytest.raises(BadMessage) as caught:
        check_codings(values, 400)
    assert caught.value.status == status


def test_lists_websocket() -> None:
    assert lists_websocket(b"websocket")
    assert lists_websocket(b"x, WebSocket")
    assert not lists_websocket(b"websocket/13")
    assert not lists_websocket(b"")
