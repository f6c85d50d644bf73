"""Match methods: what each compares, and what the text of a pattern means to it (manual 7.1).

`parse` turns a pattern's text into the key under which an index keeps it. Pure, but for names of
hosts, which are resolved while the configuration is read: any thread.
"""

from __future__ import annotations

import socket
from typing import Final

from mtproxy.rules import regex
from mtproxy.rules.types import INT_MAX, INT_MIN, Type

#: match method -> the type that samples are cast to before they are compared
_TAKES: Final = {
    "found": Type.ANY,
    "bool": Type.SINT,
    "int": Type.SINT,
    "ip": Type.ADDR,
    "bin": Type.BIN,
    "len": Type.STR,
    "str": Type.STR,
    "beg": Type.STR,
    "sub": Type.STR,
    "dir": Type.STR,
    "dom": Type.STR,
    "end": Type.STR,
    "reg": Type.STR,
    "regm": Type.STR,
    "meth": Type.METH,
    "ver": Type.SINT,
}
#: what `-m` may say; `meth` and `ver` belong to keywords
METHODS: Final = tuple(name for name in _TAKES if name not in ("meth", "ver"))
#: methods whose patterns are numbers, where `gt 5` and the like may be written
NUMBERS: Final = frozenset({"int", "len", "ver"})
_OPERATORS: Final = ("eq", "gt", "ge", "lt", "le")
#: characters that separate words for `dir` and `dom`
DELIMITERS: Final = {"dir": b"/?", "dom": b"/?.:"}
#: methods known to HAProxy by their number: GET is not matched by a pattern "get", even with -i
KNOWN_METHODS: Final = frozenset(
    {b"OPTIONS", b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"TRACE", b"CONNECT"}
)

_SIZES: Final = 1 << 64

#: (lowest, highest), None: no limit
type Range = tuple[int | None, int | None]
#: (4 or 6, network without its host bits, length of the prefix); (0, address, mask) where an IPv4
#: mask is not a prefix
type Network = tuple[int, int, int]
type Key = bytes | Range | Network


class PatternError(ValueError):
    """A text that is no pattern of its method. The message is HAProxy's.

    `offset` is the place in it, from 0, where one is known.
    """

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.offset = offset


def takes(method: str) -> Type:
    """The type of sample that a match method compares."""
    return _TAKES[method]


def parse(method: str, text: bytes, *, ignore_case: bool = False, dns: bool = False) -> Key:
    """The key of a pattern. Raises PatternError. `dns`: names of hosts may be looked up."""
    match method:
        case "int":
            return _range(text, _number, "number")
        case "len":
            # compared as sizes, which are unsigned: no length is above -1, each is below
            low, high = _range(text, _number, "number")
            return low and low % _SIZES, high and high % _SIZES
        case "ver":
            return _range(text, _version, "dotted number")
        case "ip":
            return _network(text, dns)
        case "bin":
            return _binary(text)
        case "reg" | "regm":
            try:
                regex.compile(text, ignore_case)
            except regex.RegexError as error:
                raise PatternError(
                    f"regex '{_show(text)}' is invalid (error={error}, erroffset={error.offset})",
                    error.offset,
                ) from None
            return text
        case "meth":
            return text if not ignore_case or text in KNOWN_METHODS else text.lower()
        case "dir" | "dom":
            text = text.strip(DELIMITERS[method])
    return text.lower() if ignore_case else text


def _show(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


def _number(text: bytes) -> int | None:
    digits = text[1:] if text[:1] == b"-" else text
    if not text or (digits and not digits.isdigit()):
        return None
    value = int(text) if digits else 0
    return value if INT_MIN <= value <= INT_MAX else None


def _version(text: bytes) -> int | None:
    """`major.minor` as one number of 16 bits each."""
    major, dot, minor = text.partition(b".")
    if not major.isdigit() or (dot and not minor.isdigit()):
        return None
    high, low = int(major), int(minor or b"0")
    return high << 16 | low if high < 65536 and low < 65536 else None


def _range(text: bytes, number: object, what: str) -> Range:
    """A number, `low:high`, `low:`, `:high`; `-` may stand for the colon, so `-5` is `:5`."""
    convert = _number if number is _number else _version
    at = min((place for place in (text.find(b":"), text.find(b"-")) if place >= 0), default=-1)
    if at < 0:
        value = convert(text)
        if value is None:
            if not text:
                raise PatternError(f"'' is not a valid {what} range")
            raise PatternError(f"'{_show(text)}' is not a {what}")
        return value, value
    low, high = text[:at], text[at + 1 :]
    lowest, highest = convert(low) if low else None, convert(high) if high else None
    wrong = (low and lowest is None) or (high and highest is None) or not (low or high)
    if wrong or (lowest is not None and highest is not None and lowest > highest):
        raise PatternError(f"'{_show(text)}' is not a valid {what} range")
    return lowest, highest


def operators(method: str, texts: tuple[str, ...]) -> list[str]:
    """The patterns of a line without the operators before them: `gt 5` is `6:` (manual 7.1.2).

    An operator holds for all that follow it up to the next. Raises PatternError.
    """
    if method not in NUMBERS:
        return list(texts)
    result: list[str] = []
    operator = "eq"
    for text in texts:
        if text in _OPERATORS:
            operator = text
        elif operator == "eq" or ":" in text or "-" in text:
            result.append(text)
        else:
            result.append(_compared(method, operator, text))
    return result


def _compared(method: str, operator: str, text: str) -> str:
    raw = text.encode("utf-8", "surrogateescape")
    value = _version(raw) if method == "ver" else _number(raw.partition(b".")[0])
    if value is None:
        raise PatternError(f"'{text}' is neither a number nor a supported operator")
    value += {"gt": 1, "lt": -1}.get(operator, 0)
    shown = f"{value >> 16}.{value & 0xFFFF}" if method == "ver" else str(value)
    return f"{shown}:" if operator in ("gt", "ge") else f":{shown}"


def _binary(text: bytes) -> bytes:
    if len(text) % 2:
        raise PatternError("an even number of hex digit is expected")
    for char in text:
        if char not in b"0123456789abcdefABCDEF":
            raise PatternError(f"an hex digit is expected (found '{_show(bytes((char,)))}')")
    return bytes.fromhex(text.decode())


def _network(text: bytes, dns: bool) -> Network:
    address, slash, length = _show(text).rpartition("/")
    if not slash:
        address, length = length, ""
    four = _network4(address, length if slash else "32", dns)
    if four is not None:
        return four
    bits = length if slash else "128"
    if bits.isascii() and bits.isdigit() and len(bits) < 5 and int(bits) <= 128:
        try:
            number = int.from_bytes(socket.inet_pton(socket.AF_INET6, address))
        except (OSError, ValueError):
            pass
        else:
            shift = 128 - int(bits)
            return 6, number >> shift << shift, int(bits)
    raise PatternError(f"'{_show(text)}' is not a valid IPv4 or IPv6 address")


def _network4(address: str, length: str, dns: bool) -> Network | None:
    mask = _mask4(length)
    if mask is None:
        return None
    try:
        number = int.from_bytes(socket.inet_pton(socket.AF_INET, address))
    except (OSError, ValueError):
        if not dns or not address or ":" in address:
            return None
        try:
            number = int.from_bytes(socket.inet_aton(socket.gethostbyname(address)))
        except (OSError, ValueError):
            return None
    inverse = mask ^ 0xFFFFFFFF
    if inverse & inverse + 1:
        return 0, number & mask, mask
    return 4, number & mask, mask.bit_count()


def _mask4(text: str) -> int | None:
    if "." in text:
        try:
            return int.from_bytes(socket.inet_pton(socket.AF_INET, text))
        except (OSError, ValueError):
            return None
    if text.isascii() and text.isdigit() and len(text) < 5 and int(text) <= 32:
        return (1 << 32) - (1 << 32 - int(text))
    return None
