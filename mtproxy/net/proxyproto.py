"""The PROXY protocol, versions 1 and 2 (proxy-protocol.txt): a codec without I/O.

A header tells, before a connection's first byte, between whom it was made. `parse` reads one from
the bytes that have come so far, `build_v1` and `build_v2` make one. Endpoints are (address in text,
port); what is no IP address ("unix") cannot be told, and becomes UNKNOWN or LOCAL. Pure functions:
any thread.

Read more strictly than HAProxy where the specification is stricter (numbers of version 1), and more
generously where it is more generous: whatever follows UNKNOWN is passed over, and a header of
version 2 about other things than TCP leaves the connection its own endpoints.
"""

from __future__ import annotations

import socket
import struct
from enum import Enum
from typing import Final, NamedTuple

from mtproxy.base.hashes import crc32c

type Endpoint = tuple[str, int]
type Tlv = tuple[int, bytes]

#: bytes of the longest header of version 1, line end included (2.1)
V1_MAX: Final = 107
_V1: Final = b"PROXY "
_V2: Final = b"\r\n\r\n\0\r\nQUIT\n"
#: signature, version and command, family, length
_V2_HEAD: Final = 16
_V1_FIELDS: Final = 6
_PORT_MAX: Final = 65535

# types of TLVs (2.2)
TLV_AUTHORITY: Final = 0x02
TLV_CRC32C: Final = 0x03
TLV_UNIQUE_ID: Final = 0x05
_AUTHORITY_MAX: Final = 255
UNIQUE_ID_MAX: Final = 128
_TLV_HEAD: Final = 3

_TCP4, _TCP6 = 0x11, 0x21
#: high half of the family byte -> bytes of both addresses
_ADDRESS_SIZES: Final = {0: 0, 1: 12, 2: 36, 3: 216}


class Fault(Enum):
    """Why there is no header, as HAProxy numbers (fc_err) and says it (fc_err_str, the log)."""

    EMPTY = (11, "Connection closed while waiting for PROXY protocol header")
    ABORT = (12, "Connection error while waiting for PROXY protocol header")
    TIMEOUT = (13, "Timeout while waiting for PROXY protocol header")
    TRUNCATED = (14, "Truncated PROXY protocol header received")
    NO_HEADER = (15, "Received something which does not look like a PROXY protocol header")
    BAD_HEADER = (16, "Received an invalid PROXY protocol header")
    BAD_PROTOCOL = (17, "Received an unhandled protocol in the PROXY protocol header")

    def __init__(self, number: int, text: str) -> None:
        self.number = number
        self.text = text


class HeaderError(Exception):
    """What came is no header. `source`: what it had told by then of its client, for the log."""

    def __init__(self, fault: Fault, source: Endpoint | None = None) -> None:
        super().__init__(fault.text)
        self.fault = fault
        self.source = source


class Header(NamedTuple):
    """A header: endpoints are None where it leaves the connection its own; `size` in bytes."""

    size: int
    source: Endpoint | None = None
    destination: Endpoint | None = None
    tlvs: tuple[Tlv, ...] = ()


def parse(data: bytes, limit: int = 1 << 16) -> Header | None:
    """The header that `data` begins with; None: more has to come. Raises HeaderError.

    `limit`: the largest header that is read, in bytes.
    """
    if data.startswith(_V1[: len(data)]):
        return _parse_v1(data)
    if data.startswith(_V2[: len(data)]):
        return _parse_v2(data, limit)
    # HAProxy cannot tell before this many bytes have come
    raise HeaderError(Fault.NO_HEADER if len(data) >= _V2_HEAD else Fault.TRUNCATED)


# --- version 1


def _parse_v1(data: bytes) -> Header | None:
    line, end, _ = data[:V1_MAX].partition(b"\n")
    if not end and len(data) < V1_MAX:
        return None
    if not end or not line.endswith(b"\r"):
        raise HeaderError(Fault.BAD_HEADER)
    size = len(line) + 1
    fields = line[:-1].split(b" ")
    protocol = fields[1]
    if protocol == b"UNKNOWN":
        return Header(size)
    if protocol not in (b"TCP4", b"TCP6"):
        raise HeaderError(Fault.BAD_PROTOCOL)
    if len(fields) != _V1_FIELDS:
        raise HeaderError(Fault.BAD_HEADER)
    family = socket.AF_INET if protocol == b"TCP4" else socket.AF_INET6
    source, destination = (_address(family, field) for field in fields[2:4])
    source_port, destination_port = (_port(field) for field in fields[4:])
    return Header(size, (source, source_port), (destination, destination_port))


def _address(family: int, field: bytes) -> str:
    try:
        text = field.decode("ascii")
        return socket.inet_ntop(family, socket.inet_pton(family, text))
    except (OSError, ValueError):
        raise HeaderError(Fault.BAD_HEADER) from None


def _port(field: bytes) -> int:
    """A decimal number without heading zeroes, 0 to 65535."""
    if not field.isdigit() or len(field) > 5 or (field[0] == 0x30 and len(field) > 1):
        raise HeaderError(Fault.BAD_HEADER)
    port = int(field)
    if port > _PORT_MAX:
        raise HeaderError(Fault.BAD_HEADER)
    return port


def build_v1(source: Endpoint, destination: Endpoint) -> bytes:
    """A line about two endpoints; UNKNOWN unless both are IP addresses."""
    packed = _pack_both(source[0], destination[0])
    if packed is None:
        return b"PROXY UNKNOWN\r\n"
    family, one, other = packed
    text = "PROXY {} {} {} {} {}\r\n".format(
        "TCP4" if family == socket.AF_INET else "TCP6",
        socket.inet_ntop(family, one),
        socket.inet_ntop(family, other),
        source[1],
        destination[1],
    )
    return text.encode("ascii")


# --- version 2


def _parse_v2(data: bytes, limit: int) -> Header | None:
    if len(data) < _V2_HEAD:
        return None
    command, family, length = struct.unpack_from("!BBH", data, len(_V2))
    if command >> 4 != 2:
        raise HeaderError(Fault.NO_HEADER)
    size = _V2_HEAD + length
    if size > limit:
        raise HeaderError(Fault.TRUNCATED)
    if len(data) < size:
        return None
    if command == 0x20:
        return Header(size)  # LOCAL: everything else is to be ignored
    if command != 0x21:
        raise HeaderError(Fault.BAD_HEADER)
    begin = _V2_HEAD + _ADDRESS_SIZES.get(family >> 4, length)
    if begin > size:
        raise HeaderError(Fault.BAD_HEADER)
    source = destination = None
    if family in (_TCP4, _TCP6):
        net, width = (socket.AF_INET, 4) if family == _TCP4 else (socket.AF_INET6, 16)
        middle, end = _V2_HEAD + width, _V2_HEAD + 2 * width
        ports = struct.unpack_from("!HH", data, end)
        source = (socket.inet_ntop(net, data[_V2_HEAD:middle]), ports[0])
        destination = (socket.inet_ntop(net, data[middle:end]), ports[1])
    try:
        tlvs = _parse_tlvs(data[:size], begin)
    except HeaderError as error:
        raise HeaderError(error.fault, source) from None
    return Header(size, source, destination, tlvs)


def _parse_tlvs(data: bytes, position: int) -> tuple[Tlv, ...]:
    """The TLVs of a whole header, from `position` to its end. Raises HeaderError."""
    size = len(data)
    tlvs = []
    while position < size:
        begin = position + _TLV_HEAD
        if begin > size:
            raise HeaderError(Fault.BAD_HEADER)
        kind, length = struct.unpack_from("!BH", data, position)
        position = begin + length
        if position > size:
            raise HeaderError(Fault.BAD_HEADER)
        value = data[begin:position]
        if kind == TLV_CRC32C:
            if length != 4 or crc32c(data[:begin] + bytes(4) + data[position:]) != int.from_bytes(
                value
            ):
                raise HeaderError(Fault.BAD_HEADER)
        elif (kind == TLV_AUTHORITY and length > _AUTHORITY_MAX) or (
            kind == TLV_UNIQUE_ID and length > UNIQUE_ID_MAX
        ):
            raise HeaderError(Fault.BAD_HEADER)
        tlvs.append((kind, value))
    return tuple(tlvs)


def build_v2(
    source: Endpoint | None,
    destination: Endpoint | None,
    tlvs: tuple[Tlv, ...] = (),
    *,
    checksum: bool = False,
) -> bytes:
    """A header about two endpoints; LOCAL unless both are IP addresses. TLVs go with it anyway.

    `checksum` adds the CRC-32C of the whole, before the other TLVs.
    """
    body = b""
    command, family = 0x20, 0
    packed = (
        None if source is None or destination is None else _pack_both(source[0], destination[0])
    )
    if packed is not None and source is not None and destination is not None:
        command, family = 0x21, _TCP4 if packed[0] == socket.AF_INET else _TCP6
        body = packed[1] + packed[2] + struct.pack("!HH", source[1], destination[1])
    place = 0
    if checksum:
        place = _V2_HEAD + len(body) + _TLV_HEAD
        body += struct.pack("!BHI", TLV_CRC32C, 4, 0)
    for kind, value in tlvs:
        body += struct.pack("!BH", kind, len(value)) + value
    header = _V2 + struct.pack("!BBH", command, family, len(body)) + body
    if checksum:
        header = header[:place] + struct.pack("!I", crc32c(header)) + header[place + 4 :]
    return header


# --- both


def _pack_both(one: str, other: str) -> tuple[int, bytes, bytes] | None:
    """Two addresses as bytes of one family; None unless both are IP addresses.

    An IPv4 address beside one of IPv6 is mapped into it (RFC 4291, 2.5.5.2).
    """
    if one == "unix" or other == "unix":
        return None
    if ":" not in one and ":" not in other:
        family = socket.AF_INET
        return family, socket.inet_pton(family, one), socket.inet_pton(family, other)
    return socket.AF_INET6, _pack_v6(one), _pack_v6(other)


def _pack_v6(text: str) -> bytes:
    if ":" in text:
        # a link-local address may name its interface
        return socket.inet_pton(socket.AF_INET6, text.partition("%")[0])
    return bytes(10) + b"\xff\xff" + socket.inet_pton(socket.AF_INET, text)
