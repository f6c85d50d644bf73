from collections.abc import Callable

import pytest

from mtproxy.http.chunked import (
    FORBIDDEN_TRAILERS,
    LAST_CHUNK,
    REFUSED_TRAILERS,
    SIZE_LINE_MAX,
    ChunkedReader,
    encode_chunk,
    encode_last,
)
from mtproxy.http.errors import BadMessage
from mtproxy.http.headers import make_header

Split = Callable[[bytes], list[bytes]]


def whole(data: bytes) -> list[bytes]:
    return [data]


def bytewise(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def halves(data: bytes) -> list[bytes]:
    return [data[: len(data) // 2], data[len(data) // 2 :]]


SPLITS = [whole, bytewise, halves]


# body, payload, what goes on
GOOD = [
    (b"0\r\n\r\n", b"", None),
    (b"3\r\nabc\r\n0\r\n\r\n", b"abc", None),
    (b"A\r\n0123456789\r\n1\r\nx\r\n0\r\n\r\n", b"0123456789x", None),
    (b"03\r\nabc\r\n0\r\n\r\n", b"abc", None),
    (b"2\r\n\r\n\r\n0\r\n\r\n", b"\r\n", None),
    (b"3;a=b\r\nabc\r\n0\r\n\r\n", b"abc", b"3\r\nabc\r\n0\r\n\r\n"),
    (b"3;\r\nabc\r\n0\r\n\r\n", b"abc", b"3\r\nabc\r\n0\r\n\r\n"),
    (b"3 \t\r\nabc\r\n0\r\n\r\n", b"abc", b"3\r\nabc\r\n0\r\n\r\n"),
    (b'3 ;a="\xe9;"\r\nabc\r\n0\r\n\r\n', b"abc", b"3\r\nabc\r\n0\r\n\r\n"),
    (b"00000000000000000003\r\nabc\r\n0\r\n\r\n", b"abc", b"3\r\nabc\r\n0\r\n\r\n"),
    (b"1\r\na\r\n00\r\n\r\n", b"a", b"1\r\na\r\n0\r\n\r\n"),
    (b"1\r\na\r\n0;x=y\r\n\r\n", b"a", b"1\r\na\r\n0\r\n\r\n"),
]


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("rest", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\r\n", b"0\r\n\r\n"])
@pytest.mark.parametrize(("body", "payload", "wire"), GOOD)
def test_good_bodies(
    body: bytes, payload: bytes, wire: bytes | None, rest: bytes, split: Split
) -> None:
    reader = ChunkedReader()
    out: list[bytes] = []
    for piece in split(body + rest):
        out += reader.feed(piece)
    assert reader.done
    assert all(out)
    assert b"".join(out) == payload
    assert (reader.payload, reader.rest, reader.trailers) == (len(payload), rest, [])

    reader = ChunkedReader()
    out = []
    for piece in split(body + rest):
        out += reader.relay(piece)
    assert reader.done
    assert all(out)
    assert b"".join(out) == (body if wire is None else wire)
    assert (reader.payload, reader.rest) == (len(payload), rest)


@pytest.mark.parametrize("split", SPLITS)
def test_trailers(split: Split) -> None:
    data = b"1\r\na\r\n0\r\nX:  A \r\nTE: x\r\nY: \xe9\r\nCookie: c\r\nX: b\r\n\r\nrest"
    expected = [make_header(b"x", b"A"), make_header(b"y", b"\xe9"), make_header(b"x", b"b")]
    for method in ("feed", "relay"):
        reader = ChunkedReader()
        out: list[bytes] = []
        for piece in split(data):
            assert not reader.trailers or reader.done
            out += getattr(reader, method)(piece)
        assert (reader.done, reader.trailers, reader.rest) == (True, expected, b"rest")
        relayed = b"1\r\na\r\n0\r\nx: A\r\ny: \xe9\r\nx: b\r\n\r\n"
        assert b"".join(out) == (b"a" if method == "feed" else relayed)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(
    "body",
    [
        b"\r\n",
        b"g\r\n",
        b"-3\r\nabc\r\n",
        b"+3\r\nabc\r\n",
        b" 3\r\nabc\r\n",
        b"\t3\r\n",
        b"0x3\r\nabc\r\n",
        b"3,\r\nabc\r\n",
        b"3 3\r\nabc\r\n",
        b";a\r\n",
        b"3\nabc\r\n",
        b"3\rabc\r\n",
        b"3;a\nabc\r\n",
        b"3;a\rb\r\nabc\r\n",
        b"3;a\x00\r\nabc\r\n",
        b"3;a\x7f\r\nabc\r\n",
        b"3\x0b\r\nabc\r\n",
        b"1000000000000000\r\n",
        b"ffffffffffffffff\r\n",
        b"000000000000000000003\r\n",
        b"3\r\nabcd\r\n",
        b"3\r\nabc0\r\n",
        b"3\r\nabc\n0\r\n\r\n",
        b"3\r\nabc\rx",
        b"3\r\nab\r\n0\r\n\r\n",
        b"0\n\r\n",
        b"0\r\n\n",
        b"0\r\nX: a\n\r\n",
        b"0\r\nX: a\r\n\n",
        b"0\r\nX\r\n\r\n",
        b"0\r\n: a\r\n\r\n",
        b"0\r\nX : a\r\n\r\n",
        b"0\r\n X: a\r\n\r\n",
        b"0\r\nX: a\r\n b\r\n\r\n",
        b"0\r\nX: a\x00\r\n\r\n",
        b"0\r\nX: a\rb\r\n\r\n",
        b"0\r\nContent-Length: 3\r\n\r\n",
        b"0\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"0\r\nHost: a\r\n\r\n",
        b"0\r\n" + b"x: a\r\n" * 101 + b"\r\n",
        b"0\r\nx: " + b"a" * 16000 + b"\r\n\r\n",
        b"0\r\nx: " + b"a" * 16000,
        b"3;" + b"a" * SIZE_LINE_MAX,
        b"3;" + b"a" * SIZE_LINE_MAX + b"\r\nabc\r\n0\r\n\r\n",
    ],
)
def test_bad_bodies(body: bytes, split: Split) -> None:
    def read(reader: ChunkedReader, method: str) -> None:
        for piece in split(body):
            getattr(reader, method)(piece)

    for method in ("feed", "relay"):
        reader = ChunkedReader()
        with pytest.raises(BadMessage) as caught:
            read(reader, method)
        assert caught.value.status == 400
        assert not reader.done


@pytest.mark.parametrize("method", ["feed", "relay"])
def test_every_prefix_of_a_good_body_waits_for_more(method: str) -> None:
    body = b"3;x=y\r\nabc\r\n11\r\n0123456789abcdefX\r\n0\r\nX: a\r\n\r\n"
    for size in range(len(body)):
        reader = ChunkedReader()
        getattr(reader, method)(body[:size])
        assert not reader.done
        getattr(reader, method)(body[size:])
        assert reader.done


def test_limits_of_the_trailer_section_are_parameters() -> None:
    with pytest.raises(BadMessage, match="too many trailer fields"):
        ChunkedReader(fields_max=1).feed(b"0\r\nx: a\r\ny: b\r\n\r\n")
    with pytest.raises(BadMessage, match="trailer section too long"):
        ChunkedReader(trailers_max=10).feed(b"0\r\nx: aaaaaaaaaa\r\n\r\n")
    ChunkedReader(trailers_max=10, fields_max=1).feed(b"0\r\nx: aaa\r\n\r\n")


def test_well_formed_chunks_are_relayed_without_a_copy() -> None:
    data = b"4000\r\n" + b"a" * 0x4000 + b"\r\n"
    reader = ChunkedReader()
    (piece,) = reader.relay(data)
    assert piece is data
    last = data + LAST_CHUNK
    (piece,) = reader.relay(last)
    assert piece is last
    assert reader.done


def test_bytes_after_the_end_are_kept_in_order() -> None:
    reader = ChunkedReader()
    assert reader.feed(b"0\r\n\r\na") == []
    assert reader.feed(b"b") == []
    assert reader.relay(b"c") == []
    assert reader.rest == b"abc"


def test_nothing_of_bad_data_is_given_back() -> None:
    reader = ChunkedReader()
    assert reader.relay(b"1\r\na\r\n") == [b"1\r\na\r\n"]
    with pytest.raises(BadMessage):
        reader.relay(b"1\r\nb\r\nx\r\n")


def test_encoder() -> None:
    data = encode_chunk(b"x" * 26) + encode_chunk(b"y") + encode_last([make_header(b"a", b"b")])
    assert data == b"1a\r\n" + b"x" * 26 + b"\r\n1\r\ny\r\n0\r\na: b\r\n\r\n"
    assert encode_last([]) == LAST_CHUNK
    reader = ChunkedReader()
    assert reader.feed(data) == [b"x" * 26, b"y"]
    assert reader.trailers == [make_header(b"a", b"b")]


def test_dropped_and_refused_trailers_are_disjoint() -> None:
    assert not FORBIDDEN_TRAILERS & REFUSED_TRAILERS
    for name in FORBIDDEN_TRAILERS:
        reader = ChunkedReader()
        reader.feed(b"0\r\n" + name.title() + b": x\r\n\r\n")
        assert reader.done
        assert not reader.trailers
