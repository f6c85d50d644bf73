"""Converters of strings (manual 7.3.1: add_item, concat, cut_crlf, iif, length, lower, ...).

Texts put together are cut off at the size of a buffer less one byte, as HAProxy cuts them.
`field`, `word` and `regsub` are in `texts`. Functions belong to the thread that made them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mtproxy.rules.casts import dynamic, to_text
from mtproxy.rules.converters.limits import buffer_size
from mtproxy.rules.tables import ArgKind, Converter, optional, required
from mtproxy.rules.types import Binary, Type, Value
from mtproxy.rules.variables import reader

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Convert, Evaluate
    from mtproxy.rules.view import View


def _lower(value: Any, _view: View) -> bytes:
    text: bytes = value
    return text.lower()


def _upper(value: Any, _view: View) -> bytes:
    text: bytes = value
    return text.upper()


def _length(value: Any, _view: View) -> int:
    return len(value)


def _cut_crlf(value: Any, _view: View) -> bytes:
    text: bytes = value
    return text.partition(b"\n")[0].partition(b"\r")[0]


_END = 1 << 62


def _bytes(args: tuple[Any, ...], build: Build) -> Convert:
    """Offset and length are numbers, or variables (since 2.9): without those nothing is given."""
    offset, length = args
    if isinstance(offset, str) or isinstance(length, str):
        return _variable_bytes(offset, length, build)
    # HAProxy compares without sign: a negative offset is beyond any end, such a length is all
    start = offset if offset >= 0 else _END
    stop = start + length if length is not None and length >= 0 else _END

    def part(value: Any, _view: View) -> Value:
        cut: bytes = value[start:stop]
        return Binary(cut) if type(value) is Binary else cut

    return part


def _variable_bytes(offset: int | str, length: int | str | None, build: Build) -> Convert:
    start_of, length_of = _number(offset, build), _number(length, build)

    def part(value: Any, view: View) -> Value | None:
        start = start_of(view)
        size = _END if length is None else length_of(view)
        if start is None or size is None or start < 0 or size < 0:
            return None
        cut: bytes = value[start : start + size]
        return Binary(cut) if type(value) is Binary else cut

    return part


def _number(argument: int | str | None, build: Build) -> Callable[[View], int | None]:
    if not isinstance(argument, str):
        return lambda _view: argument
    read = reader(argument, build)

    def number(view: View) -> int | None:
        value = read(view)
        return None if value is None else dynamic(value, Type.SINT)  # type: ignore[return-value]

    return number


def _variable_text(name: str | None, build: Build) -> Evaluate | None:
    if name is None:
        return None
    read = reader(name, build)

    def text(view: View) -> bytes:
        value = read(view)
        if type(value) is bytes:
            return value
        return b"" if value is None else to_text(value)

    return text


def _concat(args: tuple[Any, ...], build: Build) -> Convert:
    start, name, end = (args[0] or b""), args[1], (args[2] or b"")
    limit = buffer_size(build) - 1
    variable: Any = _variable_text(name, build)
    if variable is None:
        tail = start + end

        def append(value: Any, _view: View) -> bytes:
            text: bytes = value + tail
            return text if len(text) <= limit else text[:limit]

        return append

    def concat(value: Any, view: View) -> bytes:
        text: bytes = value + start + variable(view) + end
        return text if len(text) <= limit else text[:limit]

    return concat


def _add_item(args: tuple[Any, ...], build: Build) -> Convert:
    delimiter, name, suffix = args[0], args[1], (args[2] or b"")
    limit = buffer_size(build) - 1
    variable: Any = _variable_text(name, build) or (lambda _view: b"")

    def add_item(value: Any, view: View) -> bytes:
        item: bytes = variable(view) + suffix
        text: bytes = value + delimiter + item if value and item else value + item
        return text if len(text) <= limit else text[:limit]

    return add_item


def _needs_item(args: tuple[Any, ...]) -> str | None:
    if not args[1] and not args[2]:
        return "one of the optional arguments has to be nonempty"
    return None


def _ltrim(args: tuple[Any, ...], _build: Build) -> Convert:
    characters = args[0]
    # without characters there is nothing to skip; lstrip() would skip blanks
    return lambda value, _view: value.lstrip(characters) if characters else value  # type: ignore[union-attr]


def _rtrim(args: tuple[Any, ...], _build: Build) -> Convert:
    characters = args[0]
    return lambda value, _view: value.rstrip(characters) if characters else value  # type: ignore[union-attr]


def _strcmp(args: tuple[Any, ...], build: Build) -> Convert:
    read = reader(args[0], build)

    def compare(value: Any, view: View) -> int | None:
        found = read(view)
        if found is None:
            return None
        other = found if type(found) is bytes else to_text(found)
        return 0 if value == other else _order(value, other)

    return compare


def _order(left: bytes, right: bytes) -> int:
    """As C compares strings: up to a NUL in both, then by length."""
    for a, b in zip(left, right, strict=False):
        if a != b:
            return a - b
        if not a:
            break
    return (len(left) > len(right)) - (len(left) < len(right))


def _iif(args: tuple[Any, ...], _build: Build) -> Convert:
    true, false = args
    return lambda value, _view: true if value else false


def _host_only(value: Any, _view: View) -> bytes:
    text: bytes = value
    colon = text.rfind(b":")
    # the colons of a bare IPv6 address are within brackets
    if colon >= 0 and text.find(b"]", colon) < 0:
        text = text[:colon]
    return text.lower()


def _port_only(value: Any, _view: View) -> int:
    text: bytes = value
    colon = text.rfind(b":")
    if colon < 0 or text.find(b"]", colon) >= 0:
        return 0
    digits = text[colon + 1 :]
    if digits.isdigit() and len(digits) < 10:
        return int(digits)
    number = 0
    for byte in digits:
        # nothing is checked here; 32 bits are kept
        number = (number * 10 + byte - 48) & 0xFFFFFFFF
    return number


def _plain(name: str, gives: Type, convert: Convert) -> Converter:
    return Converter(name, Type.STR, gives, lambda _args, _build: convert)


_THREE = (*required(ArgKind.STR), *optional(ArgKind.VARIABLE, ArgKind.STR))

CONVERTERS: tuple[Converter, ...] = (
    _plain("lower", Type.STR, _lower),
    _plain("upper", Type.STR, _upper),
    _plain("length", Type.SINT, _length),
    _plain("cut_crlf", Type.STR, _cut_crlf),
    _plain("host_only", Type.STR, _host_only),
    _plain("port_only", Type.SINT, _port_only),
    Converter(
        "bytes",
        Type.BIN,
        Type.BIN,
        _bytes,
        (*required(ArgKind.PLACE), *optional(ArgKind.PLACE)),
    ),
    Converter("concat", Type.STR, Type.STR, _concat, _THREE),
    Converter("add_item", Type.STR, Type.STR, _add_item, _THREE, _needs_item),
    Converter("ltrim", Type.STR, Type.STR, _ltrim, required(ArgKind.STR)),
    Converter("rtrim", Type.STR, Type.STR, _rtrim, required(ArgKind.STR)),
    Converter("strcmp", Type.STR, Type.SINT, _strcmp, required(ArgKind.VARIABLE)),
    Converter("iif", Type.BOOL, Type.STR, _iif, required(ArgKind.STR, ArgKind.STR)),
)
