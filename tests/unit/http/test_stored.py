"""Responses that stand in files."""

from __future__ import annotations

import pytest

from mtproxy.http.stored import BadStored, parse_stored


def test_line_ends_of_both_kinds() -> None:
    data = b"HTTP/1.1 503 Sorry, no\r\nX-A:  b \nContent-Length: 3\n\na\nb"
    stored = parse_stored(data)
    assert (stored.version, stored.status, stored.reason) == (11, 503, b"Sorry, no")
    assert stored.headers == ((b"x-a", b"b"), (b"content-length", b"3"))
    assert stored.body == b"a\nb"
    assert not stored.close


def test_without_a_length_the_connection_ends_the_body() -> None:
    assert parse_stored(b"HTTP/1.0 503 X\n\nbody").close
    assert not parse_stored(b"HTTP/1.0 304 X\n\n").close


def test_an_empty_file_is_no_response() -> None:
    assert parse_stored(b"").silent


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"HTTP/1.1 503 X\nA: b\n", "unable to parse headers"),
        (b"\n\n", "unable to parse headers"),
        (b"HTTP/1.1 503 X\nno colon\n\n", "error offset: 15"),
        (b"HTTP/1.1 503 X\nA: b\n folded\n\n", "error offset: 20"),
        (b"HTTP/2.0 503 X\n\n", "invalid http version"),
        (b"HTTP/1.1 50 X\n\n", "invalid status line"),
        (b"HTTP/1.1 100 X\n\n", "invalid http status"),
        (b"HTTP/1.1 503 X\nTransfer-Encoding: chunked\n\n", "chunk-encoded"),
        (b"HTTP/1.1 503 X\nContent-Length: 4\n\nbody!", "5 != 4"),
        (b"HTTP/1.1 503 X\nContent-Length: 4\nContent-Length: 5\n\nbody", "bad content-length"),
        (b"HTTP/1.1 503 X\nContent-Length: 0\n\nbody", "not expected"),
        (b"HTTP/1.1 204 X\n\nbody", "not expected"),
    ],
)
def test_what_cannot_be_sent(data: bytes, part: str) -> None:
    with pytest.raises(BadStored, match=part):
        parse_stored(data)
