"""Arguments of fetches and converters: `name(arg,"arg",'arg')` (manual 7.3.1, 2.2).

`split_call` cuts one call off a text; `typed` turns the texts into the Python values that
`tables.ArgKind` lists. Errors are ConfigError, with the column inside the word as `offset`.
Main thread, at load.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mtproxy.base.errors import ConfigError
from mtproxy.base.units import UnitError, parse_integer, parse_size, parse_time
from mtproxy.rules.tables import Arg, ArgKind
from mtproxy.rules.types import INT_MAX, INT_MIN, Ip4, Ip6, parse_ip

if TYPE_CHECKING:
    from mtproxy.rules.reader import RuleReader

_STOPS = "(),"
_NAMES = {
    ArgKind.FRONTEND: "frontend",
    ArgKind.BACKEND: "backend",
    ArgKind.PROXY: "proxy",
    ArgKind.TABLE: "table",
    ArgKind.USERLIST: "userlist",
}
SCOPES = ("proc", "sess", "txn", "req", "res", "check")


def split_call(text: str, at: int) -> tuple[str, list[str] | None, int]:
    """The call that begins at `at`: its name, its arguments (None: no parenthesis), its end."""
    end = at
    while end < len(text) and text[end] not in _STOPS:
        end += 1
    name = text[at:end]
    if end >= len(text) or text[end] != "(":
        return name, None, end
    args: list[str] = []
    current: list[str] = []
    position = end + 1
    quote = ""
    while True:
        if position >= len(text):
            what = "quote" if quote else "')'"
            raise ConfigError(
                f"missing closing {what} after '{name}(' in '{text}'",
                word=text,
                offset=position,
            )
        char = text[position]
        position += 1
        if quote:
            if char == quote:
                quote = ""
            elif char == "\\" and quote == '"' and position < len(text):
                current.append(_unescape(text[position]))
                position += 1
            else:
                current.append(char)
        elif char in "\"'":
            quote = char
        elif char == "\\" and position < len(text):
            current.append(_unescape(text[position]))
            position += 1
        elif char in ",)":
            args.append("".join(current))
            current.clear()
            if char == ")":
                return name, args, position
        else:
            current.append(char)


def _unescape(char: str) -> str:
    """What a backslash makes of a letter; everything else stands for itself."""
    return {"n": "\n", "r": "\r", "t": "\t"}.get(char, char)


def typed(
    name: str, texts: Sequence[str] | None, specs: tuple[Arg, ...], reader: RuleReader
) -> tuple[object, ...]:
    """The arguments of `name` as values, one for each of `specs` (None for missing ones).

    An optional string that is empty but was given, as in `hdr()`, is an empty one.
    """
    given = list(texts or ())
    if given == [""] and (not specs or (specs[0].optional and specs[0].kind is not ArgKind.STR)):
        given = []
    needed = sum(not spec.optional for spec in specs)
    if not given and needed and specs[0].kind in _NAMES:
        given = [""]  # the current one
    if len(given) < needed:
        raise ConfigError(
            f"missing arguments (got {len(given)}/{needed}), type '{specs[len(given)].kind}'"
            f" expected for '{name}'",
            word=name,
        )
    if len(given) > len(specs):
        if not specs:
            raise ConfigError(f"'{name}' takes no argument", word=name)
        raise ConfigError(
            f"too many arguments for '{name}': '{given[len(specs)]}' unexpected after {len(specs)}",
            word=given[len(specs)],
        )
    values: list[object] = []
    for position, spec in enumerate(specs):
        if position >= len(given) or (given[position] == "" and spec.optional):
            values.append(None)
            if position < len(given) and spec.kind is ArgKind.STR:
                values[-1] = b""
            elif position < len(given) and spec.kind in _NAMES:
                values[-1] = _value(spec.kind, "", name, reader)
        else:
            try:
                values.append(_value(spec.kind, given[position], name, reader))
            except (ConfigError, UnitError) as error:
                message = error.message if isinstance(error, ConfigError) else str(error)
                raise ConfigError(
                    f"invalid argument {position + 1} of '{name}' : {message}",
                    word=given[position],
                    suggestion=error.suggestion if isinstance(error, ConfigError) else None,
                ) from None
    return tuple(values)


def _value(kind: ArgKind, text: str, name: str, reader: RuleReader) -> object:
    match kind:
        case ArgKind.STR:
            return text.encode("utf-8", "surrogateescape")
        case ArgKind.SINT:
            return parse_integer(text)
        case ArgKind.TIME:
            return parse_time(text, "ms")
        case ArgKind.SIZE:
            return parse_size(text)
        case ArgKind.IPV4 | ArgKind.IPV6:
            address = parse_ip(text)
            if type(address) is not (Ip4 if kind is ArgKind.IPV4 else Ip6):
                raise ConfigError(f"'{text}' is no {kind}", word=text)
            return address
        case ArgKind.MASK4 | ArgKind.MASK6:
            return _mask(text, 32 if kind is ArgKind.MASK4 else 128)
        case ArgKind.VARIABLE:
            return check_variable(text)
        case ArgKind.OPERAND:
            return _operand(text)
        case ArgKind.SERVER:
            backend, slash, server = text.rpartition("/")
            reader.refer("server", text, text)
            return (backend if slash else "", server)
        case ArgKind.REGEX | ArgKind.MAP:
            return text
    reader.refer(_NAMES[kind], text, text or name)
    return text


def _operand(text: str) -> int | str:
    if text.partition(".")[0] in SCOPES:
        return check_variable(text)
    number = parse_integer(text) if text.lstrip("+-").isdigit() else None
    if number is None or not INT_MIN <= number <= INT_MAX:
        raise ConfigError(f"expects an integer or a variable name, not '{text}'", word=text)
    return number


def _mask(text: str, bits: int) -> int:
    if text.isascii() and text.isdigit():
        length = int(text)
        if length <= bits:
            return (1 << bits) - (1 << bits - length)
    else:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            pass
        else:
            if address.max_prefixlen == bits:
                return int(address)
    raise ConfigError(f"'{text}' is no mask of {bits} bits", word=text)


def check_variable(text: str) -> str:
    """`scope.name` if it is one. The scopes: proc, sess, txn, req, res, check (manual 2.8)."""
    scope, dot, name = text.partition(".")
    if scope not in SCOPES or not dot:
        raise ConfigError(
            f"invalid variable name '{text}'. A variable name must be start by its scope."
            f" The scope can be {', '.join(repr(one) for one in SCOPES)}",
            word=text,
        )
    if not name:
        raise ConfigError(f"variable name '{text}' has no name behind its scope", word=text)
    for char in name:
        if not (char.isascii() and (char.isalnum() or char in "._")):
            raise ConfigError(
                f"invalid variable name '{text}': character '{char}' is not permitted", word=text
            )
    return text
