"""PROXY headers: what is built is read again, in any pieces, and no bytes break the reader."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from mtproxy.net.proxyproto import (
    TLV_CRC32C,
    V1_MAX,
    Fault,
    Header,
    HeaderError,
    build_v1,
    build_v2,
    parse,
)

PORTS = st.integers(0, 65535)
V4 = st.tuples(st.ip_addresses(v=4).map(str), PORTS)
V6 = st.tuples(st.ip_addresses(v=6).map(lambda ip: ip.compressed), PORTS)
PAIRS = st.one_of(st.tuples(V4, V4), st.tuples(V6, V6))
TLVS = st.lists(
    st.tuples(st.integers(0, 255).filter(lambda kind: kind != TLV_CRC32C), st.binary(max_size=128)),
    max_size=4,
).map(tuple)


def known(endpoint: tuple[str, int]) -> tuple[str, int]:
    """As the system writes the address."""
    import socket

    family = socket.AF_INET6 if ":" in endpoint[0] else socket.AF_INET
    return socket.inet_ntop(family, socket.inet_pton(family, endpoint[0])), endpoint[1]


def in_pieces(data: bytes, cuts: list[int]) -> Header | None:
    """What the reader says when `data` comes in pieces; None for every piece but the last."""
    for end in sorted(cut % (len(data) + 1) for cut in cuts):
        found = parse(data[:end])
        if found is not None:
            return found
    return parse(data)


CUTS = st.lists(st.integers(0, 1 << 16), max_size=5)


@given(PAIRS, CUTS, st.binary(max_size=20))
def test_version_1(pair, cuts, rest) -> None:
    line = build_v1(*pair)
    assert len(line) <= V1_MAX
    expected = Header(len(line), known(pair[0]), known(pair[1]))
    assert in_pieces(line + rest, cuts) == expected


@given(PAIRS, TLVS, st.booleans(), CUTS, st.binary(max_size=20))
def test_version_2(pair, tlvs, checksum, cuts, rest) -> None:
    whole = build_v2(*pair, tlvs, checksum=checksum)
    found = in_pieces(whole + rest, cuts)
    assert found is not None
    assert found[:3] == (len(whole), known(pair[0]), known(pair[1]))
    assert found.tlvs[checksum:] == tlvs


@given(
    st.one_of(
        st.binary(max_size=300),
        st.binary(max_size=120).map(lambda rest: b"PROXY " + rest),
        st.binary(max_size=300).map(lambda rest: b"\r\n\r\n\0\r\nQUIT\n" + rest),
        st.binary(max_size=40).map(lambda rest: b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x20" + rest),
    )
)
@example(b"PROXY \r\n")
@example(b"PROXY TCP4\r\n")
def test_any_bytes(data: bytes) -> None:
    """A header, a fault, or more is wanted; the same however it comes, once that is decided."""
    decided: object = None
    for size in range(len(data) + 1):
        try:
            found: object = parse(data[:size])
        except HeaderError as error:
            found = error.fault
        if decided is None:
            decided = found
        elif decided not in (Fault.TRUNCATED, Fault.NO_HEADER):
            assert found == decided
        else:
            assert found in (Fault.TRUNCATED, Fault.NO_HEADER)
    if decided is None:
        assert len(data) < V1_MAX or data.startswith(b"\r\n\r\n")
