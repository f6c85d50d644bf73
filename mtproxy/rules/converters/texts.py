"""Parts of strings (manual 7.3.1: field, word, regsub).

What is looked for is made into regular expressions at load; those of `field` and `word` never try
a place twice. Functions belong to the thread that made them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mtproxy.rules import regex
from mtproxy.rules.converters.limits import buffer_size
from mtproxy.rules.tables import ArgKind, Converter, optional, required
from mtproxy.rules.types import Type

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Convert
    from mtproxy.rules.view import View

#: no text has more parts; Python's own bound for repetitions is near
_MANY = 1 << 30


def _classes(delimiters: bytes) -> tuple[str, str]:
    """Regular expressions for one of the delimiters, and for anything else."""
    inner = "".join(f"\\x{byte:02x}" for byte in delimiters)
    return f"[{inner}]", f"[^{inner}]"


def _check(args: tuple[Any, ...]) -> str | None:
    if not args[0]:
        return "unexpected value 0 for index"
    return None if args[1] else "empty separators list"


def _field(args: tuple[Any, ...], _build: Build) -> Convert:
    index, delimiters, count = args[0], args[1], 1 if args[2] is None else args[2]
    if len(delimiters) == 1 and count == 1:
        return _single_field(index, delimiters)
    delimiter, other = _classes(delimiters)
    if index > 0:
        before = f"(?:{other}*+{delimiter}){{{min(index - 1, _MANY)}}}"
        wanted = ".*"
        if count > 0:
            wanted = f"{other}*+(?:{delimiter}{other}*+){{0,{min(count - 1, _MANY)}}}+"
        match = re.compile(f"{before}({wanted})".encode(), re.DOTALL).match

        def from_start(value: Any, _view: View) -> bytes | None:
            found = match(value)
            return None if found is None else found[1]

        return from_start
    finditer = re.compile(delimiter.encode()).finditer

    def from_end(value: Any, _view: View) -> bytes | None:
        text: bytes = value
        stops = [found.start() for found in finditer(text)]
        last = len(stops) + 1 + index
        if last < 0:
            return None
        first = last - count + 1 if count > 0 else 0
        start = stops[first - 1] + 1 if first > 0 else 0
        return text[start : stops[last]] if last < len(stops) else text[start:]

    return from_end


def _single_field(index: int, delimiter: bytes) -> Convert:
    if index > 0:
        place = index - 1

        def from_start(value: Any, _view: View) -> bytes | None:
            parts: list[bytes] = value.split(delimiter, index)
            return parts[place] if len(parts) > place else None

        return from_start

    def from_end(value: Any, _view: View) -> bytes | None:
        parts: list[bytes] = value.rsplit(delimiter, -index)
        return parts[index] if len(parts) >= -index else None

    return from_end


def _word(args: tuple[Any, ...], _build: Build) -> Convert:
    """A word that is not there is an empty text; too many words reach up to the text's end."""
    index, delimiters, count = args[0], args[1], 1 if args[2] is None else args[2]
    delimiter, other = _classes(delimiters)
    if index > 0:
        before = f"{delimiter}*+(?:{other}++{delimiter}++){{{min(index - 1, _MANY)}}}"
        wanted = f"{other}.*"
        if count > 0:
            exact = f"{other}++(?:{delimiter}++{other}++){{{min(count - 1, _MANY)}}}"
            wanted = f"{exact}|{wanted}"
        match = re.compile(f"{before}({wanted})".encode(), re.DOTALL).match

        def from_start(value: Any, _view: View) -> bytes:
            found = match(value)
            return b"" if found is None else found[1]

        return from_start
    if len(delimiters) == 1 and count == 1:

        def last_words(value: Any, _view: View) -> bytes:
            words = [word for word in value.split(delimiters) if word]
            return words[index] if len(words) >= -index else b""

        return last_words
    finditer = re.compile(f"{other}+".encode()).finditer

    def from_end(value: Any, _view: View) -> bytes:
        text: bytes = value
        spans = [found.span() for found in finditer(text)]
        last = len(spans) + index
        if last < 0:
            return b""
        first = last - count + 1
        start = spans[first][0] if count > 0 and first >= 0 else 0
        return text[start : spans[last][1]]

    return from_end


# --- regsub


def _flags(argument: bytes | None) -> tuple[bool, bool]:
    """Whether the case is ignored, and whether every match is replaced."""
    flags = argument or b""
    return b"i" in flags, b"g" in flags


def _regsub(args: tuple[Any, ...], build: Build) -> Convert:
    ignore_case, everywhere = _flags(args[2])
    template = args[1]
    substitute = regex.compile(args[0], ignore_case).substitute
    limit = buffer_size(build)

    def convert(value: Any, _view: View) -> bytes:
        text = substitute(value, template, everywhere)
        return text if len(text) <= limit else text[:limit]

    return convert


def _check_regsub(args: tuple[Any, ...]) -> str | None:
    wrong = (args[2] or b"").translate(None, b"ig")
    if wrong:
        flag = wrong[:1].decode(errors="replace")
        return f"invalid regex flag '{flag}', only 'i' and 'g' are supported"
    try:
        regex.compile(args[0], _flags(args[2])[0])
    except regex.RegexError as error:
        return f"error in regex '{args[0]}' at character {error.offset} : {error}"
    return regex.template_error(args[1])


_PARTS = (*required(ArgKind.SINT, ArgKind.STR), *optional(ArgKind.SINT))

CONVERTERS: tuple[Converter, ...] = (
    Converter("field", Type.STR, Type.STR, _field, _PARTS, _check),
    Converter("word", Type.STR, Type.STR, _word, _PARTS, _check),
    Converter(
        "regsub",
        Type.STR,
        Type.STR,
        _regsub,
        (*required(ArgKind.REGEX, ArgKind.STR), *optional(ArgKind.STR)),
        _check_regsub,
    ),
)
