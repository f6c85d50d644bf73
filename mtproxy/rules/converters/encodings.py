"""Base64, hexadecimal and URL encodings (manual 7.3.1: b64dec, base64, be2dec, hex, url_dec, ...;
3.2's le2dec).

What is wrongly encoded gives no sample. Base64 and URL encoding that do not fit a buffer give no
sample either; dumps of bytes are cut off there. Pure functions: any thread.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal

from mtproxy.rules.converters.limits import buffer_size
from mtproxy.rules.tables import ArgKind, Converter, optional, required
from mtproxy.rules.types import Binary, Type, wrap

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Convert
    from mtproxy.rules.view import View

_UNRESERVED: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_TO_URL: Final = bytes.maketrans(b"+/", b"-_")
#: HAProxy takes the padding of base64url for the last letter of the alphabet, and so do we
_FROM_URL: Final = bytes.maketrans(b"-_=+/", b"+//**")
_ENCODED: Final = [
    bytes((byte,)) if byte in _UNRESERVED else b"%%%02X" % byte for byte in range(256)
]
_blocks = re.compile(rb"(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{1,3}={1,3})*+").fullmatch
_hexadecimal = re.compile(rb"[0-9A-Fa-f]*").fullmatch
_DIGITS: Final = "0123456789ABCDEFabcdef"
#: what two hexadecimal digits stand for
_DECODED: Final = {
    f"{high}{low}".encode(): bytes((int(high + low, 16),)) for high in _DIGITS for low in _DIGITS
}


# --- base64


def decode_base64(text: bytes) -> Binary | None:
    """What `text` stands for; None if it is no base64 in blocks of four."""
    try:
        return Binary(binascii.a2b_base64(text, strict_mode=True))
    except (binascii.Error, ValueError):
        if len(text) % 4 or _blocks(text) is None:
            return None
    # padding within: each block stands for itself, as in HAProxy
    decoded = []
    for start in range(0, len(text), 4):
        letters = text[start : start + 4].rstrip(b"=")
        block = binascii.a2b_base64(letters.ljust(4, b"A"))
        decoded.append(block[: len(letters) - 1])
    return Binary(b"".join(decoded))


def decode_base64url(text: bytes) -> Binary | None:
    """What `text` in base64url (RFC 4648, 5), without padding, stands for, or None."""
    missing = -len(text) % 4
    try:
        decoded = binascii.a2b_base64(text.translate(_FROM_URL) + b"=" * missing, strict_mode=True)
    except (binascii.Error, ValueError):
        return None
    return Binary(decoded)


def _b64dec(value: Any, _view: View) -> Binary | None:
    return decode_base64(value)


def _ub64dec(value: Any, _view: View) -> Binary | None:
    return decode_base64url(value)


def _base64(_args: tuple[Any, ...], build: Build) -> Convert:
    limit = buffer_size(build)

    def encode(value: Any, _view: View) -> bytes | None:
        text = binascii.b2a_base64(value, newline=False)
        return text if len(text) < limit else None

    return encode


def _ub64enc(_args: tuple[Any, ...], build: Build) -> Convert:
    limit = buffer_size(build)

    def encode(value: Any, _view: View) -> bytes | None:
        text = binascii.b2a_base64(value, newline=False)
        return text.translate(_TO_URL).rstrip(b"=") if len(text) < limit else None

    return encode


# --- numbers as text


def _hex(_args: tuple[Any, ...], build: Build) -> Convert:
    limit = buffer_size(build) // 2
    return lambda value, _view: value[:limit].hex().upper().encode()  # type: ignore[index]


def _hex2i(value: Any, _view: View) -> int | None:
    """The low 64 bits of a hexadecimal number; 0 for an empty text."""
    if _hexadecimal(value) is None:
        return None
    number = int(value[-16:] or b"0", 16)
    return number if number < 1 << 63 else wrap(number)


def _chunks(value: bytes, size: int, truncate: bool) -> list[bytes]:
    last = len(value) - size + 1 if truncate else len(value)
    return [value[start : start + size] for start in range(0, last, size)]


def _join(pieces: list[bytes], separator: bytes, limit: int) -> bytes:
    """The pieces as far as they fit."""
    text = separator.join(pieces)
    if len(text) <= limit:
        return text
    size = 0
    for number, piece in enumerate(pieces):
        size += len(piece) + (len(separator) if number else 0)
        if size > limit:
            return separator.join(pieces[:number])
    return text


def _decimal(order: Literal["big", "little"]) -> Callable[[tuple[Any, ...], Build], Convert]:
    def make(args: tuple[Any, ...], build: Build) -> Convert:
        separator, size, truncate = args[0], args[1], bool(args[2])
        limit = buffer_size(build) - 1

        def decimal(value: Any, _view: View) -> bytes:
            chunks = _chunks(value, size, truncate)
            return _join([b"%d" % int.from_bytes(one, order) for one in chunks], separator, limit)

        return decimal

    return make


def _check_decimal(args: tuple[Any, ...]) -> str | None:
    if not 1 <= args[1] <= 8:
        return f"chunk_size out of [1..8] range ({args[1]})"
    return _check_truncate(args)


def _check_truncate(args: tuple[Any, ...]) -> str | None:
    return None if args[2] in (None, 0, 1) else f"unsupported truncate value ({args[2]})"


def _be2hex(args: tuple[Any, ...], build: Build) -> Convert:
    separator, size, truncate = (args[0] or b""), (args[1] or 0), bool(args[2])
    limit = buffer_size(build)
    if not separator and not truncate:
        return _hex((), build)

    def hexadecimal(value: Any, _view: View) -> bytes:
        chunks = _chunks(value, size, truncate)
        return _join([one.hex().upper().encode() for one in chunks], separator, limit)

    return hexadecimal


def _check_be2hex(args: tuple[Any, ...]) -> str | None:
    if (args[1] or 0) <= 0 and (args[0] or args[2]):
        return f"chunk_size needs to be positive ({args[1] or 0})"
    return _check_truncate(args)


# --- URLs


def _url_dec(args: tuple[Any, ...], _build: Build) -> Convert:
    """A '+' is a blank in a form, and behind a '?' (as it is written, not %3F)."""
    in_form = bool(args[0])

    def decode(value: Any, _view: View) -> bytes | None:
        text: bytes = value
        if b"\0" in text:
            text = text.partition(b"\0")[0]
        if b"+" in text:
            if in_form:
                text = text.replace(b"+", b" ")
            else:
                path, mark, query = text.partition(b"?")
                text = path + mark + query.replace(b"+", b" ")
        if b"%" not in text:
            return text
        plain, *escaped = text.split(b"%")
        try:
            return plain + b"".join([_DECODED[part[:2]] + part[2:] for part in escaped])
        except KeyError:
            return None

    return decode


def _url_enc(_args: tuple[Any, ...], build: Build) -> Convert:
    limit = buffer_size(build)

    def encode(value: Any, _view: View) -> bytes | None:
        text: bytes = value
        if text.translate(None, _UNRESERVED):
            text = b"".join([_ENCODED[byte] for byte in text])
        return text if len(text) < limit else None

    return encode


def _check_url_enc(args: tuple[Any, ...]) -> str | None:
    if args[0] in (None, b"", b"query"):
        return None
    return f"unexpected encode type '{args[0].decode(errors='replace')}', expects 'query'"


_CHUNKS = (*required(ArgKind.STR, ArgKind.SINT), *optional(ArgKind.SINT))

CONVERTERS: tuple[Converter, ...] = (
    Converter("b64dec", Type.STR, Type.BIN, lambda _args, _build: _b64dec),
    Converter("base64", Type.BIN, Type.STR, _base64),
    Converter("ub64dec", Type.STR, Type.BIN, lambda _args, _build: _ub64dec),
    Converter("ub64enc", Type.BIN, Type.STR, _ub64enc),
    Converter("hex", Type.BIN, Type.STR, _hex),
    Converter("hex2i", Type.STR, Type.SINT, lambda _args, _build: _hex2i),
    Converter("be2dec", Type.BIN, Type.STR, _decimal("big"), _CHUNKS, _check_decimal),
    Converter("le2dec", Type.BIN, Type.STR, _decimal("little"), _CHUNKS, _check_decimal),
    Converter(
        "be2hex",
        Type.BIN,
        Type.STR,
        _be2hex,
        optional(ArgKind.STR, ArgKind.SINT, ArgKind.SINT),
        _check_be2hex,
    ),
    Converter("url_dec", Type.STR, Type.STR, _url_dec, optional(ArgKind.SINT)),
    Converter("url_enc", Type.STR, Type.STR, _url_enc, optional(ArgKind.STR), _check_url_enc),
)
