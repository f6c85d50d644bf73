"""Answers of MySQL, LDAP and SPOP, which no pattern can tell right from wrong.

Each function is given what came and whether nothing more will, and gives a Finding, or None to wait
for more. The formats are those of the MySQL client protocol, RFC 4511 and SPOE.txt. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from mtproxy.proxy.checkstatus import CheckStatus


class Finding(NamedTuple):
    """`status` None: as it should be, the script goes on (`info` counts if this was its end)."""

    status: CheckStatus | None = None
    info: bytes = b""
    code: int = 0


type Examine = Callable[[bytes, bool], Finding | None]

_BROKEN: Final = Finding(CheckStatus.L7RSP)


# --- MySQL: packets of a length (3 bytes, little endian), a number and so many bytes


def _packet(data: bytes, start: int, last: bool) -> Finding | None:
    if len(data) < start + 4:
        return _BROKEN if last else None
    end = start + 4 + int.from_bytes(data[start : start + 3], "little")
    if len(data) < end:
        return _BROKEN if last else None
    if data[start + 4 : start + 5] == b"\xff":
        # an error: its number, then its text
        code = int.from_bytes(data[start + 5 : start + 7], "little")
        return Finding(CheckStatus.L7STS, data[start + 7 :], code)
    # the greeting tells the version of the server, behind that of the protocol
    return Finding(info=data[5:].partition(b"\0")[0])


def mysql_greeting(data: bytes, last: bool) -> Finding | None:
    """The first packet."""
    return _packet(data, 0, last)


def mysql_ok(data: bytes, last: bool) -> Finding | None:
    """The one behind it, which answers the login."""
    return _packet(data, 4 + int.from_bytes(data[:3], "little"), last)


# --- LDAP: a bind response in BER

_NOT_LDAP: Final = Finding(CheckStatus.L7RSP, b"Not LDAPv3 protocol")
_REFUSED: Final = b"See RFC: http://tools.ietf.org/html/rfc4511#section-4.1.9"


def ldap_bind(data: bytes, last: bool) -> Finding | None:
    """Message 1 is a bind response with the result code 0."""
    first = data[1:2]
    if not first:
        return _BROKEN if last else None
    # lengths above 127 stand in as many bytes as the low bits say: Active Directory takes four
    size = first[0] & 0x7F if first[0] & 0x80 else 0
    if len(data) < 1 + size:
        return _BROKEN if last else None
    if size not in (0, 2, 4):
        return _NOT_LDAP
    length = int.from_bytes(data[2 : 2 + size]) if size else first[0]
    if len(data) < 2 + size + length:
        return _BROKEN if last else None
    rest = data[2 + size :]
    if rest[:4] != b"\x02\x01\x01\x61":
        return _NOT_LDAP
    rest = rest[4:]
    size = rest[0] & 0x7F if rest and rest[0] & 0x80 else 0
    rest = rest[1 + size :]
    if rest[:2] != b"\x0a\x01" or len(rest) < 3:
        return _NOT_LDAP
    if rest[2]:
        return Finding(CheckStatus.L7STS, _REFUSED, rest[2])
    return Finding(info=b"Success")


# --- SPOP: frames of a length (4 bytes), a type, flags (4 bytes), two numbers, then named items

_HELLO: Final = 101
_DISCONNECT: Final = 102
_WHOLE: Final = 1
_FRAME_MIN: Final = 256
_FRAME_MAX: Final = 16384 - 4
#: what agents may give as the reason of a disconnection (SPOE.txt, 3.5)
_REASONS: Final = {
    0: b"normal",
    1: b"I/O error",
    2: b"a timeout occurred",
    3: b"frame is too big",
    4: b"invalid frame received",
    5: b"version value not found",
    6: b"max-frame-size value not found",
    7: b"capabilities value not found",
    8: b"unsupported version",
    9: b"max-frame-size too big or too small",
    10: b"fragmentation not supported",
    11: b"invalid interlaced frames",
    12: b"frame-id not found",
    13: b"resource allocation error",
}
_UNKNOWN: Final = b"an unknown error occurred"


class _SpopError(ValueError):
    """`args[0]`: which of the reasons."""


class _Items:
    """Items of a frame, read one after the other. Raises _SpopError."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def byte(self) -> int:
        if self.at >= len(self.data):
            raise _SpopError(4)
        self.at += 1
        return self.data[self.at - 1]

    def number(self) -> int:
        value = self.byte()
        if value < 240:
            return value
        shift = 4
        while True:
            byte = self.byte()
            value += byte << shift
            shift += 7
            if byte < 128:
                return value

    def text(self) -> bytes:
        size = self.number()
        start, self.at = self.at, self.at + size
        if self.at > len(self.data):
            raise _SpopError(4)
        return self.data[start : self.at]

    def value(self) -> bytes | int | None:
        """A typed value: text and binary, numbers, truth; addresses are passed over."""
        kind = self.byte()
        match kind & 15:
            case 0:
                return None
            case 1:
                return kind >> 4
            case 2 | 3 | 4 | 5:
                return self.number()
            case 6:
                self.at += 4
                return None
            case 7:
                self.at += 16
                return None
            case 8 | 9:
                return self.text()
        raise _SpopError(4)


def spop_hello(data: bytes, last: bool) -> Finding | None:
    """AGENT-HELLO of version 2, in one frame."""
    if len(data) < 4:
        return _BROKEN if last else None
    size = int.from_bytes(data[:4])
    if len(data) < 4 + size and not last:
        return None
    frame = data[4 : 4 + size]
    try:
        _read_hello(frame)
    except _SpopError as error:
        return Finding(CheckStatus.L7RSP, _REASONS.get(error.args[0], _UNKNOWN))
    return Finding(info=b"SPOA server is ok")


def _read_hello(frame: bytes) -> None:
    if len(frame) < 7:
        raise _SpopError(4)
    items = _Items(frame[7:])
    if frame[0] == _DISCONNECT:
        found: dict[bytes, bytes | int | None] = {}
        while items.at < len(items.data):
            name = items.text()
            found[name] = items.value()
        raise _SpopError(found.get(b"status-code", 99))
    if frame[0] != _HELLO:
        raise _SpopError(4)
    if not int.from_bytes(frame[1:5]) & _WHOLE:
        raise _SpopError(10)
    if frame[5:7] != b"\0\0":
        raise _SpopError(4)
    seen: dict[bytes, bytes | int | None] = {}
    while items.at < len(items.data):
        name = items.text()
        if not name:
            raise _SpopError(4)
        value = items.value()
        seen[name] = value
        if name == b"version":
            if not isinstance(value, bytes):
                raise _SpopError(4)
            if value.strip().partition(b".")[0] != b"2":
                raise _SpopError(8)
        elif name == b"max-frame-size":
            if not isinstance(value, int):
                raise _SpopError(4)
            if not _FRAME_MIN <= value <= _FRAME_MAX:
                raise _SpopError(9)
        elif name == b"capabilities" and not isinstance(value, bytes):
            raise _SpopError(4)
    for name, reason in ((b"version", 5), (b"max-frame-size", 6), (b"capabilities", 7)):
        if name not in seen:
            raise _SpopError(reason)


#: by the name that scripts have for them
EXAMINERS: Final[dict[str, Examine]] = {
    "mysql-greeting": mysql_greeting,
    "mysql-ok": mysql_ok,
    "ldap-bind": ldap_bind,
    "spop-hello": spop_hello,
}
