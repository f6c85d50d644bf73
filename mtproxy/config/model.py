"""The vocabulary of the configuration parser: statements, keywords, and what is known of each.

A keyword table is a tuple of `Keyword`s exported by the module that parses them; `registry.py`
names the tables. Nothing registers itself on import. A keyword that HAProxy knows and mtproxy does
not support yet is in a table too, without a parser, so that the message can say so.
Main thread only, before the others start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from mtproxy.base.errors import ConfigError
from mtproxy.base.location import Location
from mtproxy.base.nearest import nearest
from mtproxy.base.units import UnitError, parse_integer, parse_size, parse_time

if TYPE_CHECKING:
    from mtproxy.config.context import Context

GLOBAL = "global"
DEFAULTS = "defaults"
FRONTEND = "frontend"
LISTEN = "listen"
BACKEND = "backend"
RING = "ring"
LOG_FORWARD = "log-forward"
RESOLVERS = "resolvers"
HTTP_ERRORS = "http-errors"
USERLIST = "userlist"

IN_GLOBAL = frozenset({GLOBAL})
IN_RING = frozenset({RING})
IN_LOG_FORWARD = frozenset({LOG_FORWARD})
IN_RESOLVERS = frozenset({RESOLVERS})
IN_HTTP_ERRORS = frozenset({HTTP_ERRORS})
IN_USERLIST = frozenset({USERLIST})
#: proxies that listen, proxies that have servers, and both, each with `defaults`
FRONT = frozenset({DEFAULTS, FRONTEND, LISTEN})
BACK = frozenset({DEFAULTS, LISTEN, BACKEND})
PROXY = FRONT | BACK
FRONT_ONLY = FRONT - {DEFAULTS}
BACK_ONLY = BACK - {DEFAULTS}
PROXY_ONLY = PROXY - {DEFAULTS}


#: what the numbers of HAProxy's configuration can be
INT_MAX = 2**31 - 1

_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:")


def check_name(name: str, what: str) -> None:
    """Names of proxies, defaults and servers: letters, digits, `-`, `_`, `.` and `:`."""
    for char in name:
        if char not in _NAME_CHARACTERS:
            raise ConfigError(
                f"character '{char}' is not permitted in the {what} name '{name}'", word=name
            )


class Support(StrEnum):
    """What mtproxy does with a keyword; docs/configuration.md lists every one of them."""

    YES = "supported"
    #: accepted, has no effect, and the keyword's note says why
    NO_EFFECT = "no effect"
    #: known to HAProxy, an error here until it is built
    LATER = "not yet"
    #: refused, and the note names today's way
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Statement:
    """One line cut into words. `prefix` is "no", "default" or empty and not among the words."""

    words: tuple[str, ...]
    location: Location
    prefix: str = ""
    #: where each word starts in its line, from 1
    columns: tuple[int, ...] = ()

    def arg(self, index: int) -> str:
        """The word at `index`, or an empty string beyond the end."""
        return self.words[index] if index < len(self.words) else ""

    def column_of(self, word: str | None) -> int:
        """Where `word` stands in the line, from 1; 0 when it is no word of the statement."""
        if word is None or word not in self.words or not self.columns:
            return 0
        return self.columns[self.words.index(word)]

    def at_most(self, arguments: int, taken: int = 1) -> None:
        """Refuse more than `arguments` words after the keyword's own `taken` words."""
        if len(self.words) > arguments + taken:
            extra = self.words[arguments + taken]
            name = " ".join(self.words[:taken])
            raise ConfigError(f"'{name}' cannot handle unexpected argument '{extra}'", word=extra)

    def required(self, index: int, what: str, taken: int = 1) -> str:
        """The word at `index`; an error that names `what` when it is missing or empty."""
        value = self.arg(index)
        if not value:
            raise ConfigError(f"'{' '.join(self.words[:taken])}' expects {what} as argument")
        return value


Parser = Callable[["Context", Statement], None]


@dataclass(frozen=True, slots=True)
class Keyword:
    """A keyword of a section. `name` may have two words ("option httplog")."""

    name: str
    sections: frozenset[str]
    parse: Parser | None = None
    support: Support = Support.YES
    #: why there is no effect, what takes its place, or which feature it waits for
    note: str = ""
    #: may stand behind "no" (and, for an option, "default")
    negatable: bool = False
    #: in a proxy that lacks the capability: True is an error, False a warning and no effect
    strict: bool = False
    #: in such a proxy HAProxy says nothing, and so do we (but for -dD)
    quiet: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self.name.split(" "))


@dataclass(slots=True)
class Args:
    """The words of one `bind`, `server` or `log` option while it is read."""

    words: tuple[str, ...]
    position: int = 0
    name: str = field(default="", init=False)

    def more(self) -> bool:
        return self.position < len(self.words)

    def next(self) -> str:
        word = self.words[self.position]
        self.position += 1
        return word

    def value(self, what: str = "a value") -> str:
        """The argument of the option being read."""
        if not self.more() or not self.words[self.position]:
            raise ConfigError(f"'{self.name}' expects {what} as argument")
        return self.next()

    def integer(self, minimum: int | None = None, maximum: int | None = None) -> int:
        text = self.value("an integer")
        value = integer(self.name, text, minimum, maximum)
        if maximum is None and value > INT_MAX:
            raise ConfigError(f"'{self.name}' : must be at most {INT_MAX} (got {text})", word=text)
        return value

    def time(self, default_unit: str = "ms") -> int:
        return time(self.name, self.value("a time"), default_unit)

    def choice(self, *allowed: str) -> str:
        text = self.value("one of " + ", ".join(f"'{word}'" for word in allowed))
        return choice(self.name, text, allowed)


def integer(name: str, text: str, minimum: int | None = None, maximum: int | None = None) -> int:
    """An integer argument of keyword `name`; errors become ConfigError.

    What has to be positive is of 32 bits unless `maximum` says otherwise: HAProxy takes more for
    negative numbers.
    """
    try:
        value = parse_integer(text, minimum, maximum)
        if maximum is None and minimum and minimum > 0 and value > INT_MAX:
            raise UnitError(f"must be at most {INT_MAX} (got {text})")
        return value
    except UnitError as error:
        raise ConfigError(f"'{name}' : {error}", word=text) from None


def time(name: str, text: str, default_unit: str = "ms") -> int:
    """A time argument in ms."""
    try:
        return parse_time(text, default_unit)
    except UnitError as error:
        raise ConfigError(f"'{name}' : {error}", word=text) from None


def seconds(name: str, text: str) -> int:
    """A time argument in whole seconds, which is also its default unit."""
    try:
        return parse_time(text, "s", result_unit="s")
    except UnitError as error:
        raise ConfigError(f"'{name}' : {error}", word=text) from None


def size(name: str, text: str) -> int:
    """A size argument in bytes."""
    try:
        return parse_size(text)
    except UnitError as error:
        raise ConfigError(f"'{name}' : {error}", word=text) from None


def choice(name: str, text: str, allowed: tuple[str, ...]) -> str:
    """One word of `allowed`."""

    if text in allowed:
        return text
    words = ", ".join(f"'{word}'" for word in allowed)
    raise ConfigError(
        f"'{name}' only supports {words} (got '{text}')",
        word=text,
        suggestion=nearest(text, allowed),
    )
