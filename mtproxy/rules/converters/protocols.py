"""Fields of binary messages (manual 7.3.1: fix_is_valid, fix_tag_value, protobuf, ungrpc).

FIX messages that are not complete give no sample and say so (`view.may_change`); for all others
more bytes would change nothing, whatever their fetch said. Those of MQTT are in `mqtt`. Functions
belong to the thread that made them.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any, Final

from mtproxy.rules.tables import ArgKind, Converter, optional, required
from mtproxy.rules.types import INT_MAX, INT_MIN, Binary, Type, Value, wrap

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Convert
    from mtproxy.rules.view import View

# --- FIX

_BEGIN_STRING, _BODY_LENGTH, _CHECK_SUM, _MSG_TYPE = 8, 9, 10, 35
_TAGS: Final = {
    b"beginstring": _BEGIN_STRING,
    b"bodylength": _BODY_LENGTH,
    b"checksum": _CHECK_SUM,
    b"msgtype": _MSG_TYPE,
    b"sendercompid": 49,
    b"targetcompid": 56,
}
#: the highest tag of each version, but for those that users define
_HIGHEST: Final = {
    b"FIX.4.0": 140,
    b"FIX.4.1": 211,
    b"FIX.4.2": 446,
    b"FIX.4.3": 659,
    b"FIX.4.4": 956,
    b"FIXT.1.1": 1621,
}
_USER_DEFINED: Final = range(10000, 20000)
_SHORTEST: Final = 26
#: the next field: all before "=", all before the delimiter
_field = re.compile(rb"([^=]*)=([^\x01]*)\x01").match


def _tag_number(text: bytes) -> int:
    """A tag's number, 0 if it is none; 32 bits, as HAProxy counts them."""
    return int(text[-20:]) & 0xFFFFFFFF if text.isdigit() else 0


def fix_is_valid(message: bytes) -> bool | None:
    """Whether a FIX message is valid; None while that cannot be told."""
    if len(message) < _SHORTEST:
        return None
    at = number = body = length = total = 0
    highest = 0
    while at < len(message):
        found = _field(message, at)
        if found is None:
            return None
        tag = _tag_number(found[1])
        if not tag or (number and tag > highest and tag not in _USER_DEFINED):
            return False
        number += 1
        value = found[2]
        if number == 1:
            highest = _HIGHEST.get(value, 0)
            if tag != _BEGIN_STRING or not highest:
                return False
        elif number == 2:
            length = int(value[-20:]) & 0xFFFFFFFF if value.isdigit() else 0
            if tag != _BODY_LENGTH or not length:
                return False
            body = found.end()
        elif number == 3:
            if tag != _MSG_TYPE:
                return False
        elif tag == _CHECK_SUM:
            # three digits of the sum of all bytes before; the last field
            return length == at - body and len(value) == 3 and value == b"%03d" % (total & 255)
        total += sum(found[0])
        at = found.end()
    return None if body else False


def _fix_is_valid(value: Any, view: View) -> bool | None:
    valid = fix_is_valid(value)
    view.may_change = valid is None
    return valid


def _fix_tag_value(args: tuple[Any, ...], _build: Build) -> Convert:
    wanted = _tag_number(args[0]) or _TAGS[args[0].lower()]

    def find(value: Any, view: View) -> Value | None:
        at = 0
        view.may_change = False
        while at < len(value):
            found = _field(value, at)
            if found is None:
                break
            tag = _tag_number(found[1])
            if tag == wanted and found[2]:
                return Binary(found[2])
            if not tag or tag == _CHECK_SUM:
                return None
            at = found.end()
        view.may_change = True
        return None

    return find


def _check_tag(args: tuple[Any, ...]) -> str | None:
    if _tag_number(args[0]) or args[0].lower() in _TAGS:
        return None
    return f"unknown FIX tag name '{args[0].decode(errors='replace')}'"


# --- protocol buffers

_VARINT, _LONG, _BLOCK, _WORD = 0, 1, 2, 5
_SIZES: Final = {_LONG: 8, _WORD: 4}
#: types by name: their wire type, and what to make of the number or of the bytes
_KINDS: Final = {
    b"int32": (_VARINT, ""),
    b"uint32": (_VARINT, ""),
    b"int64": (_VARINT, ""),
    b"uint64": (_VARINT, ""),
    b"bool": (_VARINT, ""),
    b"enum": (_VARINT, ""),
    b"sint32": (_VARINT, "zigzag"),
    b"sint64": (_VARINT, "zigzag"),
    b"fixed32": (_WORD, "<I"),
    b"sfixed32": (_WORD, "<i"),
    b"float": (_WORD, "<f"),
    b"fixed64": (_LONG, "<q"),
    b"sfixed64": (_LONG, "<q"),
    b"double": (_LONG, "<d"),
}
_dotted = re.compile(rb"\d+(?:\.\d+)*").fullmatch
_HEADER: Final = 5


def _varint(data: bytes, at: int, end: int) -> tuple[int, int] | None:
    """A number of up to ten bytes, and the place behind it."""
    number = shift = 0
    while at < end and shift <= 63:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
    return None


def _lookup(
    data: bytes, at: int, path: tuple[int, ...], kind: tuple[int, str] | None
) -> Value | None:
    """The field that `path` leads to, through messages within messages."""
    end = len(data)
    #: the ends of the messages that we are in; leaving one, the search begins anew
    depth = 0
    inner = end
    while at < end:
        key = _varint(data, at, end)
        if key is None:
            return None
        wire, number = key[0] & 7, key[0] >> 3 & 0xFFFFFFFF
        at = key[1]
        found = number == path[depth]
        if wire == _BLOCK:
            size = _varint(data, at, end)
            if size is None or size[0] > end - size[1]:
                return None
            start, stop = size[1], size[1] + size[0]
        elif wire == _VARINT:
            read = _varint(data, at, end)
            if read is None:
                return None
            start, stop = at, read[1]
        elif wire in _SIZES:
            start, stop = at, at + _SIZES[wire]
            if stop > end:
                return None
        else:
            return None
        if found and depth == len(path) - 1:
            return _value(data, start, stop, wire, kind)
        if found and wire == _BLOCK:
            depth += 1
            inner = stop
            at = start
            continue
        at = stop
        if depth and at >= inner:
            depth, inner = 0, end
    return None


def _value(
    data: bytes, start: int, stop: int, wire: int, kind: tuple[int, str] | None
) -> Value | None:
    if kind is None:
        return Binary(data[start:stop])
    if kind[0] != wire:
        return None
    if wire == _VARINT:
        read = _varint(data, start, stop)
        assert read is not None
        number = read[0]
        return wrap(number >> 1 ^ -(number & 1) if kind[1] else number)
    unpacked: int | float = struct.unpack_from(kind[1], data, start)[0]
    if isinstance(unpacked, float):
        # what C makes of numbers without a place among integers
        if INT_MIN <= unpacked <= INT_MAX:
            return int(unpacked)
        return 0 if wire == _WORD else INT_MIN
    return unpacked


def _protobuf(args: tuple[Any, ...], _build: Build) -> Convert:
    path, kind = _path(args[0]), _KINDS.get(args[1] or b"")
    return lambda value, _view: _lookup(value, 0, path, kind)  # type: ignore[arg-type]


def _ungrpc(args: tuple[Any, ...], _build: Build) -> Convert:
    """The same within the messages of gRPC, each behind its header of five bytes."""
    path, kind = _path(args[0]), _KINDS.get(args[1] or b"")

    def find(value: Any, _view: View) -> Value | None:
        at = 0
        while len(value) - at > _HEADER:
            stop = at + _HEADER + int.from_bytes(value[at + 1 : at + _HEADER])
            if stop > len(value):
                return None
            found = _lookup(value[:stop], at + _HEADER, path, kind)
            if found is not None:
                return found
            at = stop
        return None

    return find


def _path(text: bytes) -> tuple[int, ...]:
    return tuple(int(number) & 0xFFFFFFFF for number in text.split(b"."))


def _check_field(args: tuple[Any, ...]) -> str | None:
    if _dotted(args[0]) is None:
        return f"'{args[0].decode(errors='replace')}' is no number of a field ('1.2.3')"
    if args[1] is not None and args[1] not in _KINDS:
        return f"wrong protocol buffer type '{args[1].decode(errors='replace')}'"
    return None


_FIELD = (*required(ArgKind.STR), *optional(ArgKind.STR))

CONVERTERS: tuple[Converter, ...] = (
    Converter("fix_is_valid", Type.BIN, Type.BOOL, lambda _args, _build: _fix_is_valid),
    Converter(
        "fix_tag_value", Type.BIN, Type.BIN, _fix_tag_value, required(ArgKind.STR), _check_tag
    ),
    Converter("protobuf", Type.BIN, Type.BIN, _protobuf, _FIELD, _check_field, loose=True),
    Converter("ungrpc", Type.BIN, Type.BIN, _ungrpc, _FIELD, _check_field, loose=True),
)
