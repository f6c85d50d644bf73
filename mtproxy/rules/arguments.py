"""Arguments of fetches and converters: `name(arg,"arg",'arg')` (manual 7.3.1, 2.2).

`split_call` cuts one call off a text; `typed` turns the texts into the Python values that
`tables.ArgKind` lists. Errors are ConfigError, with the column inside the word as `offset`.
Main thread, at load.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mtproxy.base.errors import ConfigError
from mtproxy.base.nearest import nearest
from mtproxy.base.units import UnitError, parse_size, parse_time
from mtproxy.rules.tables import Arg, ArgKind
from mtproxy.rules.types import Ip4, Ip6, clamp, parse_ip

if TYPE_CHECKING:
    from mtproxy.rules.reader import RuleReader

_STOPS = "(),"
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", " ": " ", '"': '"', "'": "'"}
_NAMES = {
    ArgKind.FRONTEND: "frontend",
    ArgKind.BACKEND: "backend",
    ArgKind.PROXY: "proxy",
    ArgKind.TABLE: "table",
    ArgKind.USERLIST: "userlist",
    ArgKind.SINK: "event sink",
}
_MAY_BE_EMPTY = (ArgKind.STR, *_NAMES)
_integer = re.compile(r"[+-]?[0-9]*").fullmatch
SCOPES = ("proc", "sess", "txn", "req", "res", "check")


@dataclass(frozen=True, slots=True)
class CallText:
    """One call in a text: `args` is None without a parenthesis; `places` says where each begins."""

    name: str
    args: tuple[str, ...] | None
    places: tuple[int, ...]
    start: int
    end: int


def split_call(text: str, at: int) -> CallText:
    """The call that begins at `at`. Raises ConfigError where a parenthesis is not closed.

    Quotes of both kinds join what is between them to the argument. Outside of single quotes a
    backslash makes \\n, \\r and \\t what they are in C and takes the meaning from quotes, blanks
    and backslashes; before everything else it stands for itself.
    """
    end = at
    while end < len(text) and text[end] not in _STOPS:
        end += 1
    name = text[at:end]
    if end >= len(text) or text[end] != "(":
        return CallText(name, None, (), at, end)
    args: list[str] = []
    current: list[str] = []
    places = [end + 1]
    position = end + 1
    quote = ""
    while position < len(text):
        char = text[position]
        position += 1
        if char == quote:
            quote = ""
        elif char in "\"'" and not quote:
            quote = char
        elif char == "\\" and quote != "'" and text[position : position + 1] in _ESCAPES:
            current.append(_ESCAPES[text[position]])
            position += 1
        elif char in ",)" and not quote:
            args.append("".join(current))
            current.clear()
            if char == ")":
                return CallText(name, tuple(args), tuple(places), at, position)
            places.append(position)
        else:
            current.append(char)
    raise ConfigError(
        f"missing closing {'quote' if quote else "')'"} after '{name}(' in '{text}'",
        word=text,
        offset=end,
    )


def typed(
    call: CallText, specs: tuple[Arg, ...], reader: RuleReader, word: str
) -> tuple[object, ...]:
    """The arguments of a call in `word` as values, one for each of `specs`.

    None stands for optional ones that are missing. Strings and names may be empty, and so may
    optional variables (None); nothing else but the last one: as for HAProxy, a number that is
    missing behind a comma is 0 then.
    """
    given = call.args
    needed = sum(not spec.optional for spec in specs)
    if given is None:
        # no parenthesis: one empty argument where there has to be one
        given = ("",) if needed else ()
    elif given == ("",) and not specs:
        given = ()
    if len(given) < needed:
        raise ConfigError(
            f"missing arguments (got {len(given)}/{needed}), type '{specs[len(given)].kind}'"
            f" expected for '{call.name}'",
            word=word,
            offset=max(call.start, call.end - 1),
        )
    if len(given) > len(specs):
        message = f"too many arguments for '{call.name}': '{given[len(specs)]}' is one too many"
        if not specs:
            message = f"'{call.name}' takes no argument"
        raise ConfigError(message, word=word, offset=call.places[len(specs)])
    values: list[object] = []
    for number, spec in enumerate(specs):
        if number >= len(given):
            values.append(None)
            continue
        try:
            values.append(_argument(spec, given, number, call.name, reader))
        except (ConfigError, UnitError) as error:
            message = error.message if isinstance(error, ConfigError) else str(error)
            raise ConfigError(
                f"invalid argument {number + 1} of '{call.name}' : {message}",
                word=word,
                suggestion=error.suggestion if isinstance(error, ConfigError) else None,
                offset=call.places[number] if number < len(call.places) else call.start,
            ) from None
    return tuple(values)


def _argument(
    spec: Arg, given: tuple[str, ...], number: int, name: str, reader: RuleReader
) -> object:
    text = given[number]
    if text or not spec.optional or spec.kind in _MAY_BE_EMPTY:
        return _value(spec.kind, text, name, reader)
    if spec.kind is ArgKind.VARIABLE:
        return None
    if number < len(given) - 1:
        raise ConfigError(f"'{spec.kind}' expected, but got nothing")
    return 0 if spec.kind in (ArgKind.SINT, ArgKind.PLACE) and number else None


def _value(kind: ArgKind, text: str, name: str, reader: RuleReader) -> object:
    match kind:
        case ArgKind.STR:
            return text.encode("utf-8", "surrogateescape")
        case ArgKind.SINT:
            number = _number(text)
            if number is None or not text:
                raise ConfigError(f"'{text}' is not an integer" if text else "expects an integer")
            return number
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
        case ArgKind.PLACE:
            if not text:
                raise ConfigError("expects an integer or a variable name")
            return _operand(text)
        case ArgKind.SERVER:
            backend, slash, server = text.rpartition("/")
            reader.refer("server", text, text)
            return (backend if slash else "", server)
        case ArgKind.REGEX if not text:
            raise ConfigError("expects a regular expression")
        case ArgKind.REGEX | ArgKind.MAP:
            return text
    reader.refer(_NAMES[kind], text, text or name)
    return text


def _number(text: str) -> int | None:
    """A number, the nearest one of 64 bits; a sign without digits is 0."""
    if _integer(text) is None:
        return None
    # int() refuses thousands of digits
    number = int(text[:30]) if text.strip("+-") else 0
    return clamp(number)


def _operand(text: str) -> int | str:
    if text.partition(".")[0] in SCOPES:
        return check_variable(text)
    number = _number(text)
    if number is None:
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
            suggestion=f"{near}.{name}" if dot and (near := nearest(scope, SCOPES)) else None,
        )
    if not name:
        raise ConfigError(f"variable name '{text}' has no name behind its scope", word=text)
    for char in name:
        if not (char.isascii() and (char.isalnum() or char in "._")):
            raise ConfigError(
                f"invalid variable name '{text}': character '{char}' is not permitted", word=text
            )
    return text


def action_variable(reader: RuleReader, text: str) -> str:
    """`check_variable` for a name in the parentheses of the action's own word: errors name the
    statement.
    """
    try:
        return check_variable(text)
    except ConfigError as error:
        whole = next((word for word in reader.words if f"({text}" in word), text)
        raise ConfigError(
            f"'{reader.title}' : {error.message}",
            word=whole,
            suggestion=error.suggestion,
            offset=whole.find(text),
        ) from None
