"""PROXY headers, byte by byte as proxy-protocol.txt has them."""

from __future__ import annotations

import struct

import pytest

from mtproxy.base.hashes import crc32c
from mtproxy.net.proxyproto import (
    V1_MAX,
    Fault,
    Header,
    HeaderError,
    build_v1,
    build_v2,
    parse,
)

SIGNATURE = bytes.fromhex("0d0a0d0a000d0a515549540a")
LOCALHOST4 = bytes.fromhex("7f0000017f000001002a0539")
IPV6 = bytes.fromhex("20010db800000000000000000000000120010db800000000000000000000000204d2162e")
REST = b"GET / HTTP/1.1\r\n\r\n"


def v2(command: int, family: int, body: bytes) -> bytes:
    return SIGNATURE + struct.pack("!BBH", command, family, len(body)) + body


def fault(data: bytes, limit: int = 1 << 16) -> Fault:
    with pytest.raises(HeaderError) as caught:
        parse(data, limit)
    return caught.value.fault


# --- version 1


@pytest.mark.parametrize(
    ("line", "source", "destination"),
    [
        (
            b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443",
            ("192.168.0.1", 56324),
            ("192.168.0.11", 443),
        ),
        (b"PROXY TCP4 255.255.255.255 0.0.0.0 65535 0", ("255.255.255.255", 65535), ("0.0.0.0", 0)),
        (b"PROXY TCP6 2001:DB8::1 ::1 1 2", ("2001:db8::1", 1), ("::1", 2)),
        (b"PROXY TCP6 ::ffff:1.2.3.4 :: 1 2", ("::ffff:1.2.3.4", 1), ("::", 2)),
        (b"PROXY UNKNOWN", None, None),
        (b"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535", None, None),
    ],
)
def test_lines(line: bytes, source: tuple[str, int] | None, destination: tuple[str, int]) -> None:
    whole = line + b"\r\n"
    assert parse(whole + REST) == Header(len(whole), source, destination)
    for size in range(len(whole)):
        assert parse(whole[:size]) is None


@pytest.mark.parametrize(
    "line",
    [
        b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 65536\r\n",
        b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443 \r\n",
        b"PROXY TCP4 192.168.0.1 192.168.0.11 56324\r\n",
        b"PROXY TCP4 192.168.0.1  192.168.0.11 56324 443\r\n",
        b"PROXY TCP4 192.168.0.1 192.168.0.11 -1 443\r\n",
        b"PROXY TCP4 192.168.0.1 192.168.0.11 +1 443\r\n",
        b"PROXY TCP4 192.168.0.1 192.168.0.11 1 0443\r\n",
        b"PROXY TCP4 192.168.0.1 192.168.0.11 1_0 443\r\n",
        b"PROXY TCP4 192.168.0.1 192.168.0.11 \xb2 443\r\n",
        b"PROXY TCP4 192.168.0.1 192.168.0.11 1 443\n",
        b"PROXY TCP4 192.168.1 192.168.0.11 1 443\r\n",
        b"PROXY TCP4 192.168.0.1\0 192.168.0.11 1 443\r\n",
        b"PROXY TCP4 192.168.0.01 192.168.0.11 1 443\r\n",
        b"PROXY TCP4 ::1 ::1 1 443\r\n",
        b"PROXY TCP6 1.2.3.4 1.2.3.4 1 443\r\n",
        b"PROXY TCP6 fe80::1%lo ::1 1 443\r\n",
        b"PROXY TCP6 \xc3\xa9 ::1 1 443\r\n",
        b"PROXY UNKNOWN " + b"x" * V1_MAX,
    ],
)
def test_bad_lines(line: bytes) -> None:
    assert fault(line) is Fault.BAD_HEADER


@pytest.mark.parametrize("protocol", [b"UDP4", b"tcp4", b"", b"TCP44", b"UNKNOWNx"])
def test_other_protocols(protocol: bytes) -> None:
    assert fault(b"PROXY " + protocol + b" 1.2.3.4 1.2.3.4 1 2\r\n") is Fault.BAD_PROTOCOL


def test_the_longest_line() -> None:
    """107 bytes with its end; not one more, and then nothing is waited for."""
    line = b"PROXY UNKNOWN ".ljust(V1_MAX - 2, b"x")
    assert parse(line) is None
    assert parse(line + b"\r") is None
    assert parse(line + b"\r\n") == Header(V1_MAX)
    assert fault(line + b"xx") is Fault.BAD_HEADER
    assert fault(line + b"x\r\n") is Fault.BAD_HEADER


# --- no header


@pytest.mark.parametrize(
    "data", [REST, b"PROXI " + REST, b"\r\n\r\n\0\r\nQUIT\r" + REST, b" PROXY TCP4 1.2.3.4"]
)
def test_something_else(data: bytes) -> None:
    assert fault(data) is Fault.NO_HEADER


def test_something_else_that_is_short() -> None:
    assert fault(b"GET /\r\n") is Fault.TRUNCATED
    assert fault(b"x") is Fault.TRUNCATED
    assert parse(b"") is None


# --- version 2


def test_tcp_over_ipv4() -> None:
    whole = v2(0x21, 0x11, LOCALHOST4)
    expected = Header(28, ("127.0.0.1", 42), ("127.0.0.1", 1337))
    assert parse(whole + REST) == expected
    for size in range(len(whole)):
        assert parse(whole[:size]) is None


def test_tcp_over_ipv6() -> None:
    whole = v2(0x21, 0x21, IPV6)
    assert parse(whole + REST) == Header(52, ("2001:db8::1", 1234), ("2001:db8::2", 5678))


@pytest.mark.parametrize(
    ("family", "addresses"),
    [
        (0x00, b""),
        (0x12, LOCALHOST4),
        (0x22, IPV6),
        (0x10, LOCALHOST4),
        (0x31, b"/tmp/client".ljust(108, b"\0") + b"/tmp/server".ljust(108, b"\0")),
        (0x32, bytes(216)),
    ],
)
def test_what_is_not_tcp(family: int, addresses: bytes) -> None:
    """The connection keeps its own endpoints; TLVs are read all the same."""
    tlv = bytes.fromhex("020003") + b"abc"
    whole = v2(0x21, family, addresses + tlv)
    assert parse(whole + REST) == Header(len(whole), None, None, ((2, b"abc"),))


def test_an_unknown_family() -> None:
    """Nobody knows how long its addresses are."""
    whole = v2(0x21, 0x41, b"some bytes")
    assert parse(whole) == Header(len(whole))


@pytest.mark.parametrize("body", [b"", b"xyz", LOCALHOST4 + b"\x02\xff\xff"])
def test_local(body: bytes) -> None:
    """Everything that it says is to be ignored."""
    whole = v2(0x20, 0x11, body)
    assert parse(whole + REST) == Header(len(whole))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (v2(0x11, 0x11, LOCALHOST4), Fault.NO_HEADER),
        (v2(0x31, 0x11, LOCALHOST4), Fault.NO_HEADER),
        (v2(0x22, 0x11, LOCALHOST4), Fault.BAD_HEADER),
        (v2(0x2F, 0x11, LOCALHOST4), Fault.BAD_HEADER),
        (v2(0x21, 0x11, LOCALHOST4[:-1]), Fault.BAD_HEADER),
        (v2(0x21, 0x11, b""), Fault.BAD_HEADER),
        (v2(0x21, 0x21, IPV6[:-1]), Fault.BAD_HEADER),
        (v2(0x21, 0x31, bytes(215)), Fault.BAD_HEADER),
    ],
)
def test_bad_headers(data: bytes, expected: Fault) -> None:
    assert fault(data + REST) is expected


def test_a_header_that_is_too_large() -> None:
    whole = v2(0x21, 0x11, LOCALHOST4)
    assert parse(whole, len(whole)) is not None
    assert fault(whole, len(whole) - 1) is Fault.TRUNCATED
    assert fault(whole[:16], len(whole) - 1) is Fault.TRUNCATED, "known before it has come"


@pytest.mark.parametrize(
    "tlvs",
    [
        "02",
        "0200",
        "020005 31323334",
        "02000a 3132333435",
        "020005 3132333435 02",
        "030003 000000",
        "030005 0000000000",
        "030004 61626364",
        "020100" + "61" * 256,
        "050081" + "61" * 129,
    ],
)
def test_bad_tlvs(tlvs: str) -> None:
    with pytest.raises(HeaderError) as caught:
        parse(v2(0x21, 0x11, LOCALHOST4 + bytes.fromhex(tlvs)))
    assert caught.value.fault is Fault.BAD_HEADER
    assert caught.value.source == ("127.0.0.1", 42), "told before it went wrong"


def test_tlvs() -> None:
    tlvs = bytes.fromhex("020005 3132333435 040000 050002 6964 e00001 78")
    header = parse(v2(0x21, 0x11, LOCALHOST4 + tlvs))
    assert header is not None
    assert header.tlvs == ((2, b"12345"), (4, b""), (5, b"id"), (0xE0, b"x"))


def test_a_checksum() -> None:
    before = LOCALHOST4 + bytes.fromhex("030004")
    after = bytes.fromhex("020001 61")
    number = crc32c(v2(0x21, 0x11, before + bytes(4) + after))
    whole = v2(0x21, 0x11, before + number.to_bytes(4) + after)
    header = parse(whole)
    assert header is not None
    assert header.tlvs == ((3, number.to_bytes(4)), (2, b"a"))
    kind = 16 + len(LOCALHOST4)  # where another type would be no checksum any more
    for position in set(range(16, len(whole))) - {kind}:
        broken = bytearray(whole)
        broken[position] ^= 0x01
        with pytest.raises(HeaderError):
            parse(bytes(broken))


# --- what is sent


@pytest.mark.parametrize(
    ("source", "destination", "line"),
    [
        (("192.0.2.1", 1), ("192.0.2.2", 2), b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"),
        (("::1", 1), ("2001:db8::2", 2), b"PROXY TCP6 ::1 2001:db8::2 1 2\r\n"),
        (("192.0.2.1", 1), ("::2", 2), b"PROXY TCP6 ::ffff:192.0.2.1 ::2 1 2\r\n"),
        (("fe80::1%lo", 1), ("192.0.2.1", 2), b"PROXY TCP6 fe80::1 ::ffff:192.0.2.1 1 2\r\n"),
        (("unix", 3), ("192.0.2.2", 2), b"PROXY UNKNOWN\r\n"),
        (("192.0.2.2", 2), ("unix", 3), b"PROXY UNKNOWN\r\n"),
    ],
)
def test_version_1(source: tuple[str, int], destination: tuple[str, int], line: bytes) -> None:
    assert build_v1(source, destination) == line


def test_version_2() -> None:
    assert build_v2(("127.0.0.1", 42), ("127.0.0.1", 1337)) == v2(0x21, 0x11, LOCALHOST4)
    assert build_v2(("2001:db8::1", 1234), ("2001:db8::2", 5678)) == v2(0x21, 0x21, IPV6)
    mapped = bytes(10) + b"\xff\xff\x7f\0\0\1"
    whole = v2(0x21, 0x21, mapped + bytes(15) + b"\1" + bytes.fromhex("002a0539"))
    assert build_v2(("127.0.0.1", 42), ("::1", 1337)) == whole


def test_version_2_local() -> None:
    assert build_v2(None, None) == v2(0x20, 0, b"")
    assert build_v2(("unix", 1), ("unix", 1)) == v2(0x20, 0, b"")
    # as HAProxy 2.6 sends it with proxy-v2-options crc32c
    expected = v2(0x20, 0, bytes.fromhex("030004a9b87e8f"))
    assert build_v2(None, None, checksum=True) == expected


def test_version_2_with_tlvs() -> None:
    whole = build_v2(("127.0.0.1", 42), ("127.0.0.1", 1337), ((5, b"id"), (2, b"")), checksum=True)
    header = parse(whole)
    assert header is not None
    assert [kind for kind, _ in header.tlvs] == [3, 5, 2]
    assert header.tlvs[1:] == ((5, b"id"), (2, b""))
