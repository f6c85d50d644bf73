"""Sample types and the Python values that stand for them (manual 7.3).

| type | Python value |
|---|---|
| bool | bool |
| sint | int, always within 64 bits signed |
| ipv4, ipv6 | `Ip4`, `Ip6`: int of 32 and 128 bits |
| str, meth | bytes |
| bin | `Binary`: bytes that are no text |

A fetch or a converter that has nothing to say gives None: the sample does not exist. The class of a
value says its type, so values of unknown type (variables) carry their own. Constants and pure
functions: any thread.
"""

from __future__ import annotations

import socket
from enum import StrEnum
from typing import Final


class Type(StrEnum):
    """Sample types. ANY is known at run time only; ADDR is IPV4 or IPV6."""

    ANY = "any"
    BOOL = "bool"
    SINT = "sint"
    ADDR = "addr"
    IPV4 = "ipv4"
    IPV6 = "ipv6"
    STR = "str"
    BIN = "bin"
    METH = "meth"


class Binary(bytes):
    """A sample of type bin."""

    __slots__ = ()


class Ip4(int):
    """An IPv4 address as a number."""

    __slots__ = ()


class Ip6(int):
    """An IPv6 address as a number."""

    __slots__ = ()


type Value = bool | int | bytes | Binary | Ip4 | Ip6

INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 63) - 1


def wrap(number: int) -> int:
    """`number` as the 64 bits of a C integer would hold it."""
    return (number - INT_MIN & (1 << 64) - 1) + INT_MIN


def clamp(number: int) -> int:
    """The nearest number of 64 bits signed."""
    return INT_MIN if number < INT_MIN else min(number, INT_MAX)


def type_of(value: Value) -> Type:
    """The type of a value that exists."""
    return _TYPES[type(value)]


_TYPES: Final[dict[type, Type]] = {
    bool: Type.BOOL,
    int: Type.SINT,
    bytes: Type.STR,
    Binary: Type.BIN,
    Ip4: Type.IPV4,
    Ip6: Type.IPV6,
}


def parse_ip(text: str) -> Ip4 | Ip6 | None:
    """A literal address, or None."""
    try:
        return Ip4(int.from_bytes(socket.inet_pton(socket.AF_INET, text)))
    except (OSError, ValueError):
        pass
    try:
        return Ip6(int.from_bytes(socket.inet_pton(socket.AF_INET6, text)))
    except (OSError, ValueError):
        return None


def ip_text(address: Ip4 | Ip6) -> bytes:
    """An address as it is written."""
    if type(address) is Ip4:
        return b"%d.%d.%d.%d" % (
            address >> 24,
            address >> 16 & 255,
            address >> 8 & 255,
            address & 255,
        )
    return socket.inet_ntop(socket.AF_INET6, int(address).to_bytes(16)).encode()
