"""Implicit conversions between sample types (manual 7.3: "sample types and their casts").

`cast(source, target)` gives the function for two types that are known when the configuration is
read, None where nothing has to be done; `can_cast` tells whether there is one. Pure: any thread.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from typing import Final

from mtproxy.rules.types import (
    INT_MAX,
    INT_MIN,
    Binary,
    Ip4,
    Ip6,
    Type,
    Value,
    clamp,
    ip_text,
    type_of,
)

type Cast = Callable[[Value], Value | None]

_ADDRESSES = (Type.ADDR, Type.IPV4, Type.IPV6)
#: up to 3 significant digits for each part; what follows neither goes on nor begins another
_ipv4 = re.compile(rb"0*(\d{1,3})\.0*(\d{1,3})\.0*(\d{1,3})\.0*(\d{1,3})(?![\d.])").match
_number = re.compile(rb"[+-]?\d+").match
_V4_IN_V6: Final = 0xFFFF << 32


def _to_str(value: Value) -> bytes:
    kind = type(value)
    if kind is bytes:
        return value  # type: ignore[return-value]
    if kind is Binary:
        # text ends with the first NUL
        return bytes(value).partition(b"\0")[0]
    if kind is Ip4 or kind is Ip6:
        return ip_text(value)  # type: ignore[arg-type]
    # a bool is the number 1 or 0
    return b"%d" % int(value)


def _to_bin(value: Value) -> Binary | None:
    kind = type(value)
    if kind is Ip4:
        return Binary(int(value).to_bytes(4))
    if kind is Ip6:
        return Binary(int(value).to_bytes(16))
    if kind is bytes or kind is Binary:
        return Binary(value)
    return Binary(int(value).to_bytes(8, signed=True))


def _to_sint(value: Value) -> int | None:
    kind = type(value)
    if kind is int or kind is bool or kind is Ip4:
        return int(value)
    return str_to_int(value) if kind is bytes else None  # type: ignore[arg-type]


def str_to_int(text: bytes) -> int | None:
    """What stands at the beginning as a number, saturated; 0 without any digit, None if empty.

    An optional sign, then digits; what follows is ignored.
    """
    try:
        number = int(text) if len(text) < 19 and text.isdigit() else _leading_int(text)
    except ValueError:
        # more digits than Python reads
        return INT_MIN if text[:1] == b"-" else INT_MAX
    return number


def _leading_int(text: bytes) -> int | None:
    if not text:
        return None
    found = _number(text)
    return 0 if found is None else clamp(int(found[0]))


def _to_bool(value: Value) -> bool | None:
    number = _to_sint(value)
    return None if number is None else number != 0


def _to_addr(value: Value) -> Ip4 | Ip6 | None:
    kind = type(value)
    if kind is Ip4 or kind is Ip6:
        return value  # type: ignore[return-value]
    if kind is bytes:
        return str_to_addr(value)  # type: ignore[arg-type]
    if kind is int:
        return Ip4(int(value) & 0xFFFFFFFF)
    return None


def str_to_addr(text: bytes) -> Ip4 | Ip6 | None:
    """The address at the beginning of a text (IPv4), or that it is (IPv6)."""
    found = _ipv4(text)
    if found is None:
        try:
            return Ip6(int.from_bytes(socket.inet_pton(socket.AF_INET6, text.decode("latin-1"))))
        except (OSError, ValueError):
            return None
    a, b, c, d = map(int, found.groups())
    if a > 255 or b > 255 or c > 255 or d > 255:
        return None
    return Ip4(a << 24 | b << 16 | c << 8 | d)


def _to_ip4(value: Value) -> Ip4 | None:
    address = _to_addr(value)
    if type(address) is Ip6:
        if isinstance(value, bytes):
            return None  # as text it is no IPv4 address
        # only an IPv4 address in IPv6 clothing has an IPv4 form
        return Ip4(address & 0xFFFFFFFF) if address >> 32 == 0xFFFF else None
    return address  # type: ignore[return-value]


def _to_ip6(value: Value) -> Ip6 | None:
    address = _to_addr(value)
    if type(address) is Ip4:
        if isinstance(value, bytes):
            return None  # as text it is no IPv6 address
        return Ip6(_V4_IN_V6 | address)
    return address  # type: ignore[return-value]


def _same(value: Value) -> Value:
    return value


_TARGETS: Final[dict[Type, Cast]] = {
    Type.ANY: _same,
    Type.BOOL: _to_bool,
    Type.SINT: _to_sint,
    Type.ADDR: _to_addr,
    Type.IPV4: _to_ip4,
    Type.IPV6: _to_ip6,
    Type.STR: _to_str,
    Type.BIN: _to_bin,
    Type.METH: _to_str,
}

#: pairs that no conversion leads from and to
_IMPOSSIBLE: Final = frozenset(
    {
        (Type.BOOL, Type.ADDR),
        (Type.BOOL, Type.IPV4),
        (Type.BOOL, Type.IPV6),
        (Type.BOOL, Type.METH),
        (Type.SINT, Type.METH),
        (Type.IPV6, Type.SINT),
        (Type.IPV6, Type.BOOL),
        (Type.IPV4, Type.BOOL),
        (Type.ADDR, Type.BOOL),
        (Type.BIN, Type.BOOL),
        (Type.BIN, Type.SINT),
        (Type.BIN, Type.ADDR),
        (Type.BIN, Type.IPV4),
        (Type.BIN, Type.IPV6),
        (Type.METH, Type.BOOL),
        (Type.METH, Type.SINT),
        *((address, Type.METH) for address in _ADDRESSES),
        *((Type.METH, address) for address in _ADDRESSES),
    }
)


def can_cast(source: Type, target: Type) -> bool:
    """Whether a sample of type `source` may stand where `target` is expected."""
    return (source, target) not in _IMPOSSIBLE


def cast(source: Type, target: Type) -> Cast | None:
    """The conversion; None where a value of `source` already is one of `target`.

    The result may be None for single values (text that is no address). An address of one family
    may turn up where the other is announced (`src`): it is converted, too.
    """
    if target is Type.ANY or (source is target and source not in _ADDRESSES):
        return None
    if source is Type.METH and target is Type.STR:
        return None
    if source is Type.STR and target is Type.METH:
        return None
    if target is Type.ADDR and source in _ADDRESSES:
        return None
    return _TARGETS[target]


def to_text(value: Value) -> bytes:
    """A value of any type as text."""
    return _to_str(value)


def dynamic(value: Value, target: Type) -> Value | None:
    """A value of unknown type as one of `target`; None where there is no such conversion."""
    if not can_cast(type_of(value), target):
        return None
    return _TARGETS[target](value)
