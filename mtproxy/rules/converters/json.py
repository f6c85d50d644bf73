"""JSON (manual 7.3.1: json, json_query).

`json` escapes a text; `json_query` reads one value out of a document without building it, and
looks at no more of it than it has to: what follows the value may be wrong. Functions belong to the
thread that made them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from mtproxy.rules.converters.limits import buffer_size
from mtproxy.rules.tables import ArgKind, Converter, optional, required
from mtproxy.rules.types import Type, Value

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Convert
    from mtproxy.rules.view import View

# --- escaping

_SHORT: Final = {
    0x22: b'\\"',
    0x5C: b"\\\\",
    0x2F: b"\\/",
    0x08: b"\\b",
    0x0C: b"\\f",
    0x0D: b"\\r",
    0x0A: b"\\n",
    0x09: b"\\t",
}


def _escaped(number: int) -> bytes:
    if number in _SHORT:
        return _SHORT[number]
    return bytes((number,)) if 0x20 <= number < 0x7F else b"\\u%04x" % number


_ESCAPED: Final = [_escaped(number) for number in range(256)]
#: what stands for itself
_PLAIN: Final = bytes(number for number in range(256) if len(_ESCAPED[number]) == 1)
#: length of a sequence of UTF-8 and the bits of its first byte that count, by that byte
_LEADS: Final = [
    (1, 0x7F) if byte < 0x80
    else (0, 0) if byte < 0xC0
    else (2, 0x1F) if byte < 0xE0
    else (3, 0x0F) if byte < 0xF0
    else (4, 0x07) if byte < 0xF8
    else (5, 0x03) if byte < 0xFC
    else (6, 0x01) if byte < 0xFE
    else (0, 0)
    for byte in range(256)
]  # fmt: skip
#: the smallest number that needs as many bytes; longer sequences are found too big anyway
_SMALLEST: Final = (0, 0, 0x80, 0x800, 0x10000)
_GOOD, _OVERLONG, _BAD = range(3)


def _next(text: bytes, at: int) -> tuple[int, int, int]:
    """The character at `at`: its number, the place behind it, and what is wrong with it."""
    length, bits = _LEADS[text[at]]
    if not length or at + length > len(text):
        return 0, at + 1, _BAD
    number = text[at] & bits
    for place in range(at + 1, at + length):
        byte = text[place]
        if byte & 0xC0 != 0x80:
            return 0, place, _BAD
        number = number << 6 | byte & 0x3F
    if 0xD800 <= number <= 0xDFFF or 0xFFFE <= number <= 0xFFFF:
        return 0, at + length, _BAD
    if length < len(_SMALLEST):
        overlong = number < _SMALLEST[length]
    else:
        overlong = number <= 0x1FFFFF
    return number, at + length, _OVERLONG if overlong else _GOOD


def _decoder(skip: bool, permissive: bool) -> Callable[[bytes], bytes | None]:
    """`skip`: wrong characters are left out, instead of failing. `permissive`: overlong is good."""
    worst = _OVERLONG if permissive else _GOOD

    def escape(text: bytes) -> bytes | None:
        out = []
        at = 0
        while at < len(text):
            number, at, wrong = _next(text, at)
            # JSON has four digits for a number
            if wrong > worst or number > 0xFFFF:
                if skip:
                    continue
                return None
            out.append(_ESCAPED[number] if number < 256 else b"\\u%04x" % number)
        return b"".join(out)

    return escape


def _ascii(text: bytes) -> bytes:
    return b"".join([_ESCAPED[byte] for byte in text])


_DECODERS: Final[dict[bytes, Callable[[bytes], bytes | None]]] = {
    b"": _ascii,
    b"ascii": _ascii,
    b"utf8": _decoder(skip=False, permissive=False),
    b"utf8s": _decoder(skip=True, permissive=False),
    b"utf8p": _decoder(skip=False, permissive=True),
    b"utf8ps": _decoder(skip=True, permissive=True),
}


def _json(args: tuple[Any, ...], build: Build) -> Convert:
    decode = _DECODERS[args[0]]
    limit = buffer_size(build)

    def escape(value: Any, _view: View) -> bytes | None:
        text: bytes | None = value
        if value.translate(None, _PLAIN):
            text = _ascii(value) if value.isascii() else decode(value)
        return text if text is not None and len(text) <= limit else None

    return escape


def _check_json(args: tuple[Any, ...]) -> str | None:
    if args[0] in _DECODERS:
        return None
    return "unexpected input code, expects 'ascii', 'utf8', 'utf8s', 'utf8p' or 'utf8ps'"


# --- queries

#: white space and a token behind it; the groups are numbered by the constants below
_token = re.compile(
    rb"[ \t\n\r]*+(?:"
    rb'"((?:[^"\\\0]|\\["\\]|\\)*+)"|'
    rb"(-?(?=[\d-])\d*+(?:(?<=\d)(?:\.\d*+(?=[eE])|\.\d++)?+(?:[eE][+-]?\d*+)?+)?)|"
    rb"(true)|(false)|(null)|([{\[])|([}\]])|(,)|(:))"
).match
_STRING, _NUMBER, _TRUE, _FALSE, _NULL, _OPEN, _CLOSE, _COMMA, _COLON = range(1, 10)
_SCALARS: Final = (_STRING, _NUMBER, _TRUE, _FALSE, _NULL)
_CLOSES: Final = {b"{": b"}", b"[": b"]"}
_DEPTH: Final = 20
_step = re.compile(r"\.((?:\\.|[^.\[\\])*)|\[([^\]]*)\]", re.DOTALL)
_INTEGER_MAX: Final = (1 << 53) - 1
_c_integer = re.compile(rb"-?(?:0[xX]([0-9a-fA-F]+)|0([0-7]*)|(\d+))").match

type Step = bytes | int
type Found = re.Match[bytes]


def parse_path(text: bytes) -> tuple[Step, ...] | None:
    r"""The steps of `$.key.another\.key[3]`: names as they are written in JSON, and numbers.

    None for what is no path: nothing is found by it.
    """
    path = text.decode("latin-1")
    if not path.startswith("$"):
        return None
    steps: list[Step] = []
    at = 1
    while at < len(path):
        found = _step.match(path, at)
        if found is None:
            return None
        if found[2] is None:
            steps.append(re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL).encode("latin-1"))
        else:
            digits = re.match(r"-?\d+", found[2])
            steps.append(int(digits[0]) if digits else 0)
        at = found.end()
    return tuple(steps)


def find_value(text: bytes, steps: tuple[Step, ...]) -> Found | None:
    """The token of the value that the steps lead to; None unless it is a single one."""
    at = 0
    for depth, step in enumerate(steps):
        found = _token(text, at)
        kind = b"[" if isinstance(step, int) else b"{"
        if found is None or found[_OPEN] != kind or depth >= _DEPTH:
            return None
        place = _into(text, found.end(), step, depth + 1)
        if place is None:
            return None
        at = place
    found = _token(text, at)
    return found if found is not None and found.lastindex in _SCALARS else None


def _into(text: bytes, at: int, step: Step, depth: int) -> int | None:
    """Where the value stands that `step` chooses in the container that was opened before `at`."""
    number = 0
    while True:
        if isinstance(step, int):
            if number == step:
                return at
        else:
            found = _token(text, at)
            if found is None or found.lastindex != _STRING:
                return None
            colon = _token(text, found.end())
            if colon is None or colon.lastindex != _COLON:
                return None
            at = colon.end()
            if found[_STRING] == step:
                return at
        place = _skip(text, at, depth)
        if place is None:
            return None
        comma = _token(text, place)
        if comma is None or comma.lastindex != _COMMA:
            return None
        number += 1
        at = comma.end()


def _skip(text: bytes, at: int, depth: int) -> int | None:
    """The place behind the value that stands at `at`; None if it is none."""
    closes: list[bytes] = []
    while True:
        found = _token(text, at)
        if found is None:
            return None
        at = found.end()
        kind = found.lastindex
        if kind == _OPEN:
            if depth + len(closes) >= _DEPTH:
                return None
            closes.append(_CLOSES[found[_OPEN]])
            if closes[-1] == b"]":
                continue
            place = _key(text, at, closes)
        elif kind == _CLOSE:
            # an empty container, or one that ends with a comma
            if not closes or closes.pop() != found[_CLOSE]:
                return None
            place = at
        elif kind in _SCALARS:
            place = at
        else:
            return None
        # behind a value: the next one, or ends of containers
        while place is not None and closes and text[place - 1 : place] != b":":
            found = _token(text, place)
            if found is None:
                return None
            place = found.end()
            if found.lastindex == _CLOSE:
                if closes.pop() != found[_CLOSE]:
                    return None
            elif found.lastindex == _COMMA:
                if closes[-1] == b"]":
                    break
                place = _key(text, place, closes)
            else:
                return None
        if place is None or not closes:
            return place
        at = place


def _key(text: bytes, at: int, closes: list[bytes]) -> int | None:
    """Behind the key of an object and its colon, or behind the object if it ends here."""
    found = _token(text, at)
    if found is None:
        return None
    if found[_CLOSE] == b"}":
        closes.pop()
        return found.end()
    colon = _token(text, found.end()) if found.lastindex == _STRING else None
    if colon is None or colon.lastindex != _COLON:
        return None
    return colon.end()


_UNESCAPED: Final = {
    0x62: 0x08, 0x66: 0x0C, 0x6E: 0x0A, 0x72: 0x0D, 0x74: 0x09, 0x5C: 0x5C, 0x22: 0x22,
}  # fmt: skip
_escape = re.compile(rb"\\(?:u00([0-9a-fA-F]{2})|(.)|\Z)", re.DOTALL)


def unescape(text: bytes) -> bytes | None:
    r"""A string of JSON as text; None where it has escapes other than \u00XX and the short ones."""
    if b"\\" not in text:
        return text
    try:
        return _escape.sub(_unescaped, text)
    except KeyError:
        return None


def _unescaped(found: re.Match[bytes]) -> bytes:
    if found[1] is not None:
        return bytes((int(found[1], 16),))
    return bytes((_UNESCAPED[found[2][0]],)) if found[2] is not None else b"\\"


def _integer(text: bytes, at: int) -> int | None:
    """A number as C reads integers: up to the point, octal and hexadecimal by their prefixes."""
    found = _c_integer(text, at)
    if found is None:
        return 0
    if found[1] is not None:
        number = int(found[1], 16)
    elif found[2] is not None:
        number = int(found[2] or b"0", 8)
    else:
        number = int(found[3][:20])
    if found[0].startswith(b"-"):
        number = -number
    return number if -_INTEGER_MAX <= number <= _INTEGER_MAX else None


def query(path: bytes, as_integer: bool, limit: int) -> Callable[[bytes], Value | None]:
    """The function that reads the value at `path` out of a document."""
    steps = parse_path(path)

    def read(text: bytes) -> Value | None:
        found = None if steps is None else find_value(text, steps)
        if found is None:
            return None
        match found.lastindex:
            case 1:
                string = unescape(found[_STRING])
                return string if string is not None and len(string) < limit else None
            case 2:
                if as_integer:
                    return _integer(text, found.start(_NUMBER))
                return b"%g" % _double(found[_NUMBER])
            case 3:
                return True
            case 4:
                return False
        return None

    return read


def _double(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        # "-", or an exponent without digits
        return float(re.match(rb"-?\d*\.?\d*", text)[0].rstrip(b"-") or b"0")  # type: ignore[index]


def _json_query(args: tuple[Any, ...], build: Build) -> Convert:
    read = query(args[0], bool(args[1]), buffer_size(build))
    return lambda value, _view: read(value)  # type: ignore[arg-type]


def check_query(args: tuple[Any, ...]) -> str | None:
    """What is wrong with the arguments of a query."""
    return None if args[1] in (None, b"", b"int") else 'output_type only supports "int"'


def _check_json_query(args: tuple[Any, ...]) -> str | None:
    return check_query(args) if args[0] else "json_path must not be empty"


CONVERTERS: tuple[Converter, ...] = (
    Converter("json", Type.STR, Type.STR, _json, required(ArgKind.STR), _check_json),
    Converter(
        "json_query",
        Type.STR,
        Type.ANY,
        _json_query,
        (*required(ArgKind.STR), *optional(ArgKind.STR)),
        _check_json_query,
    ),
)
