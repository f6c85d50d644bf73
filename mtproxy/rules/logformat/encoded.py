"""Values of log formats as JSON or CBOR: the flags json, cbor, bin (manual of HAProxy 3.0, 8.2.6).

With `%{+json}o` the whole line is one object of everything that has a name, in the order of the
format; text between is left out. A single piece with the flag is a JSON value in the text. CBOR
(RFC 8949) is written as hexadecimal digits, or with `bin` as it is. What is missing is an empty
text. Pure functions: any thread.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

type Plain = bool | int | str | bytes | None

#: major types of CBOR, and the bytes around a map of unknown size
_UNSIGNED, _NEGATIVE, _BYTES, _TEXT = 0x00, 0x20, 0x40, 0x60
_MAP, _BREAK = b"\xbf", b"\xff"


def typed(value: Plain, kind: str) -> Plain:
    """A value as the type that its name asks for: "sint", "str", "bool", or "" for its own."""
    if value is None or not kind:
        return value
    if kind == "str":
        return value if isinstance(value, (str, bytes)) else str(int(value))
    number = number_of(value)
    return bool(number) if kind == "bool" and isinstance(number, int) else number


def number_of(value: Plain) -> Plain:
    """Text that is a number, as a number; "+2" counts as one."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        digits = value.removeprefix("+")
        return int(digits) if digits.removeprefix("-").isdecimal() and digits.isascii() else value
    return value


def json_value(value: Plain) -> str:
    """One value as JSON."""
    if value is None:
        return '""'
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        # bytes that are no text were kept as lone surrogates
        value = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return json.dumps(value, ensure_ascii=False)


def json_object(pairs: Sequence[tuple[str, Plain]]) -> str:
    """Named values as one JSON object."""
    return "{" + ", ".join([f"{json_value(name)}: {json_value(one)}" for name, one in pairs]) + "}"


def cbor_bytes(value: Plain) -> bytes:
    """One value as CBOR."""
    if isinstance(value, bool):
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, int):
        return _head(_UNSIGNED, value) if value >= 0 else _head(_NEGATIVE, -1 - value)
    if isinstance(value, bytes):
        return _head(_BYTES, len(value)) + value
    data = (value or "").encode("utf-8", "surrogateescape")
    return _head(_TEXT, len(data)) + data


def _head(major: int, number: int) -> bytes:
    if number < 24:
        return bytes((major | number,))
    for code, size in ((24, 1), (25, 2), (26, 4)):
        if number < 1 << 8 * size:
            return bytes((major | code,)) + number.to_bytes(size)
    return bytes((major | 27,)) + number.to_bytes(8)


def _shown(data: bytes, *, binary: bool) -> str:
    return data.decode("utf-8", "surrogateescape") if binary else data.hex().upper()


def cbor_value(value: Plain, *, binary: bool = False) -> str:
    """One value as CBOR for a text."""
    return _shown(cbor_bytes(value), binary=binary)


def cbor_map(pairs: Sequence[tuple[str, Plain]], *, binary: bool = False) -> str:
    """Named values as one CBOR map of unknown size."""
    items = [cbor_bytes(name) + cbor_bytes(one) for name, one in pairs]
    return _shown(b"".join([_MAP, *items, _BREAK]), binary=binary)
