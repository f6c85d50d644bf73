"""Expressions of `.if`, `.elif` and `-cc` (manual 2.4): numbers, predicates, `!`, `&&`, `||`, `()`.

Pure but for the environment handed in. A fault raises ConfigError with its column in the
expression (from 1).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from mtproxy.base.errors import ConfigError
from mtproxy.base.features import FEATURES, HAPROXY_LEVEL, parse_version
from mtproxy.base.nearest import nearest
from mtproxy.base.units import decimal

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONTROL = {"n": "\n", "r": "\r", "t": "\t"}
#: what a backslash changes inside parentheses; before anything else it stays (manual 2.2)
_ESCAPED = frozenset(" \\'\"nrt")

#: deeper parentheses are refused rather than followed
MAX_DEPTH = 64


def _version(text: str) -> tuple[int, int, int, int]:
    try:
        return parse_version(text)
    except ValueError as error:
        raise ConfigError(str(error), word=text) from None


def _atleast(args: list[str], environ: Mapping[str, str]) -> bool:
    return _version(HAPROXY_LEVEL) >= _version(args[0])


def _before(args: list[str], environ: Mapping[str, str]) -> bool:
    return _version(HAPROXY_LEVEL) < _version(args[0])


def _never(args: list[str], environ: Mapping[str, str]) -> bool:
    """Questions about a TLS library, which is not there."""
    return False


Predicate = Callable[[list[str], Mapping[str, str]], bool]

#: name -> (number of arguments, evaluation)
PREDICATES: dict[str, tuple[int, Predicate]] = {
    "defined": (1, lambda args, environ: args[0] in environ),
    "feature": (1, lambda args, environ: FEATURES.get(args[0], False)),
    "streq": (2, lambda args, environ: args[0] == args[1]),
    "strneq": (2, lambda args, environ: args[0] != args[1]),
    "strstr": (2, lambda args, environ: args[1] in args[0]),
    "version_atleast": (1, _atleast),
    "version_before": (1, _before),
    "enabled": (1, lambda args, environ: args[0] in ("SPLICE", "GETADDRINFO", "REUSEPORT")),
    "openssl_version_atleast": (1, _never),
    "openssl_version_before": (1, _never),
    "ssllib_name_startswith": (1, _never),
    "awslc_api_atleast": (1, _never),
    "awslc_api_before": (1, _never),
    "fips_mode": (0, _never),
}


def evaluate(expression: str, environ: Mapping[str, str]) -> bool:
    """The truth of `expression`; an empty one is false."""
    if not expression.strip(" \t"):
        return False
    parser = _Parser(expression, environ)
    value = parser.alternatives(0)
    parser.blanks()
    if parser.pos < len(expression):
        raise parser.error(f"unexpected character '{expression[parser.pos]}'")
    return value


class _Parser:
    """Recursive descent. Everything is parsed, so that every fault is found whatever is true."""

    def __init__(self, text: str, environ: Mapping[str, str]) -> None:
        self.text = text
        self.environ = environ
        self.pos = 0

    def error(
        self, what: str, word: str | None = None, known: list[str] | None = None
    ) -> ConfigError:
        return ConfigError(
            f"unparsable conditional expression '{self.text}' : {what} at position {self.pos + 1}",
            word=word,
            suggestion=nearest(word, known) if word and known else None,
        )

    def blanks(self) -> None:
        while self.text.startswith((" ", "\t"), self.pos):
            self.pos += 1

    def operator(self, name: str) -> bool:
        self.blanks()
        if not self.text.startswith(name, self.pos):
            return False
        self.pos += len(name)
        return True

    def alternatives(self, depth: int) -> bool:
        value = self.conjunction(depth)
        while self.operator("||"):
            other = self.conjunction(depth)
            value = value or other
        return value

    def conjunction(self, depth: int) -> bool:
        value = self.term(depth)
        while self.operator("&&"):
            other = self.term(depth)
            value = value and other
        return value

    def term(self, depth: int) -> bool:
        negated = False
        while self.operator("!"):
            negated = not negated
        self.blanks()
        if depth > MAX_DEPTH:
            raise self.error("too many nested parentheses")
        if self.operator("("):
            value = self.alternatives(depth + 1)
            if not self.operator(")"):
                raise self.error("missing closing parenthesis")
        else:
            value = self.simple()
        return value != negated

    def simple(self) -> bool:
        found = _INTEGER.match(self.text, self.pos)
        if found is not None:
            self.pos = found.end()
            return decimal(found[0]) != 0
        found = _NAME.match(self.text, self.pos)
        if found is None:
            raise self.error("an integer or a predicate is expected")
        name = found[0]
        known = PREDICATES.get(name)
        if known is None:
            raise self.error(f"unknown predicate '{name}'", name, list(PREDICATES))
        self.pos = found.end()
        count, predicate = known
        args = self.arguments() if self.text.startswith("(", self.pos) else []
        if len(args) != count and not (count == 0 and args == [""]):
            raise self.error(f"'{name}' expects {count} argument{'s' if count != 1 else ''}", name)
        return predicate(args, self.environ)

    def arguments(self) -> list[str]:
        """What stands in parentheses, cut at commas; quotes and escapes as in a line."""
        self.pos += 1
        args: list[str] = []
        current: list[str] = []
        quote = ""
        text = self.text
        while self.pos < len(text):
            char = text[self.pos]
            following = text[self.pos + 1 : self.pos + 2]
            self.pos += 1
            if char == "\\" and quote != "'" and following in _ESCAPED:
                self.pos += 1
                current.append(_CONTROL.get(following, following))
            elif quote:
                if char == quote:
                    quote = ""
                else:
                    current.append(char)
            elif char in "\"'":
                quote = char
            elif char == ",":
                args.append("".join(current))
                current.clear()
            elif char == ")":
                args.append("".join(current))
                return args
            else:
                current.append(char)
        raise self.error("unmatched quote" if quote else "missing closing parenthesis")
