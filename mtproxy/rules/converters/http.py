"""Converters of what HTTP messages carry (manual 7.3.1: language;
2.7's param; 2.8's rfc7239_* of the header Forwarded).

Functions belong to the thread that made them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from mtproxy.rules.tables import ArgKind, Converter, optional, required
from mtproxy.rules.types import Ip4, Ip6, Type, Value, parse_ip

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Convert
    from mtproxy.rules.view import View

# --- language

#: a value of Accept-Language up to its comma: its range, and its quality where one is given
_accepted = re.compile(
    rb"[ \t\n\v\f\r]*+([^;, \t\n\v\f\r]++)[ \t\n\v\f\r]*+(?:(;)(?:\s*+q\s*+=\s*+([^,]*))?|(?=,|\Z))"
).match
_quality = re.compile(rb"([0-9])(?:\.([0-9])?([0-9])?([0-9])?)?").match


def _thousandths(text: bytes | None) -> int:
    """A quality as HAProxy reads it: 1000 for what is none, and at most."""
    found = None if text is None else _quality(text)
    if found is None:
        return 1000
    digits = [int(digit or 0) for digit in found.groups()]
    return min(1000, digits[0] * 1000 + digits[1] * 100 + digits[2] * 10 + digits[3])


def _in_range(wanted: bytes, tag: bytes) -> bool:
    """A range stands for a language that is the same, or the same up to a dash of the range."""
    return wanted == tag or (wanted.startswith(tag) and wanted[len(tag) : len(tag) + 1] == b"-")


def _language(args: tuple[Any, ...], _build: Build) -> Convert:
    tags, default = args[0].split(b";"), args[1] or None

    def choose(value: Any, _view: View) -> bytes | None:
        best, chosen = 0, None
        for part in value.split(b","):
            found = _accepted(part)
            if found is None:
                continue
            tag = next((one for one in tags if _in_range(found[1], one)), None)
            quality = 0 if tag is None else _thousandths(found[3])
            if quality > best:
                best, chosen = quality, tag
                if quality == 1000:
                    break
        return chosen or default

    return choose


# --- parameters


def _param(args: tuple[Any, ...], _build: Build) -> Convert:
    """The value of the first parameter of that name; empty where it has none."""
    name, delimiter = args[0], args[1] or b"&"

    def find(value: Any, _view: View) -> bytes | None:
        for part in value.split(delimiter):
            key, _, found = part.partition(b"=")
            if key == name:
                text: bytes = found
                return text
        return None

    return find


def _check_param(args: tuple[Any, ...]) -> str | None:
    if not args[0]:
        return "expects the name of a parameter"
    if args[1] is not None and len(args[1]) > 1:
        return "the delimiter is a single character"
    return None


# --- Forwarded (RFC 7239)

_OBFUSCATED: Final = r"_[A-Za-z0-9._-]+"
_PORT: Final = rf"(?:{_OBFUSCATED}|[0-9]+)"
_IPV4: Final = r"[0-9.]+"
_IPV6: Final = r"\[[0-9A-Za-z:]+\]"
_node = re.compile(rf"({_OBFUSCATED}|unknown|{_IPV6}|{_IPV4})(?::({_PORT}))?".encode()).match
_forwarded = re.compile(
    (
        rf'(?:(for|by)=(?:"((?:{_OBFUSCATED}|unknown|{_IPV6}|{_IPV4})(?::{_PORT})?)"'
        rf"|({_OBFUSCATED}|unknown|{_IPV4}))"
        rf'|(host)=(?:"((?:{_IPV6}|[A-Za-z0-9.]*)(?::[0-9]+)?)"|([A-Za-z0-9.]+))'
        r"|(proto)=(https?))(;|\Z)"
    ).encode()
).match


def _good_port(text: bytes | None) -> bool:
    return text is None or text[:1] == b"_" or 0 < int(text[-20:]) < 65536


def _good_node(text: bytes) -> bool:
    found = _node(text)
    if found is None or not _good_port(found[2]):
        return False
    return found[1][:1] in b"_u" or _address(found[1]) is not None


def _address(name: bytes) -> Ip4 | Ip6 | None:
    return parse_ip(name.strip(b"[]").decode())


def _good_host(text: bytes) -> bool:
    name, colon, port = text.rpartition(b":")
    if text[:1] == b"[":
        name, _, rest = text.partition(b"]")
        return _address(name) is not None and (not rest or _good_port(rest[1:]))
    return not colon or _good_port(port)


def forwarded(text: bytes) -> dict[bytes, bytes] | None:
    """The parameters of one value of Forwarded; None if it is not well formed, or empty."""
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(text) and len(found) < 4:
        one = _forwarded(text, at)
        if one is None:
            return None
        name = one[1] or one[4] or one[7]
        value = next(part for part in (one[2], one[3], one[5], one[6], one[8]) if part is not None)
        good = _good_host(value) if name == b"host" else name == b"proto" or _good_node(value)
        if not good or name in found:
            return None
        found[name] = value
        at = one.end()
    return found or None


def _forwarded_field(args: tuple[Any, ...], _build: Build) -> Convert:
    name = args[0]

    def find(value: Any, _view: View) -> bytes | None:
        fields = forwarded(value)
        return None if fields is None else fields.get(name)

    return find


def _check_forwarded(args: tuple[Any, ...]) -> str | None:
    if args[0] in (b"for", b"by", b"host", b"proto"):
        return None
    return "expects 'for', 'by', 'host' or 'proto'"


def _node_name(value: Any, _view: View) -> Value | None:
    found = _node(value)
    if found is None or not _good_node(value):
        return None
    name: bytes = found[1]
    return name if name[:1] in b"_u" else _address(name)


def _node_port(value: Any, _view: View) -> Value | None:
    found = _node(value)
    if found is None or found[2] is None or not _good_node(value):
        return None
    port: bytes = found[2]
    return port if port[:1] == b"_" else int(port)


def _plain(name: str, gives: Type, convert: Convert) -> Converter:
    return Converter(name, Type.STR, gives, lambda _args, _build: convert)


_STRINGS = (*required(ArgKind.STR), *optional(ArgKind.STR))

CONVERTERS: tuple[Converter, ...] = (
    Converter("language", Type.STR, Type.STR, _language, _STRINGS),
    Converter("param", Type.STR, Type.STR, _param, _STRINGS, _check_param),
    _plain("rfc7239_is_valid", Type.BOOL, lambda value, _view: forwarded(value) is not None),  # type: ignore[arg-type]
    Converter(
        "rfc7239_field",
        Type.STR,
        Type.STR,
        _forwarded_field,
        required(ArgKind.STR),
        _check_forwarded,
    ),
    _plain("rfc7239_n2nn", Type.ANY, _node_name),
    _plain("rfc7239_n2np", Type.ANY, _node_port),
)
