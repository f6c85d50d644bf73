"""The grammar of log formats (manual 8.2.6): text in, pieces out.

One grammar serves log lines and the arguments of rules; they differ in what `parse_pieces` is told:
whether spaces are merged, whether a missing value is written as "-". Main thread, at load.

    piece  = %% | %[flags][name]alias | %[flags][name]"[" expression "]"
    flags  = "{" [+-]flag *("," [+-]flag) "}"      name = "(" text [":" type] ")"

What HAProxy 2.6 does with odd text is done here too: a "%" before a character that begins nothing
vanishes, flags that it does not know are skipped (here with a warning). Names are those of 3.0.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from mtproxy.base.ruleset import Expression
from mtproxy.rules.logformat.aliases import ALIASES, HTTP_ONLY, Flags

#: what a converter or a fetch may be called
_NAME = re.compile(r"[A-Za-z0-9_.+:-]*")
_ALIAS = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_FLAGS: Final = {"Q": "quote", "X": "hexa", "E": "escape", "M": "mandatory", "bin": "binary"}
_ENCODINGS: Final = ("json", "cbor")
_TYPES: Final = ("sint", "str", "bool")


class FormatError(ValueError):
    """A format that cannot be compiled; `position` is the offset of the offending `%`."""

    def __init__(self, message: str, position: int, word: str | None = None) -> None:
        super().__init__(message)
        self.position = position
        self.word = word


@dataclass(frozen=True, slots=True)
class Literal:
    """Text that stands in the line as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Space:
    """A blank; several in a row are one."""


@dataclass(frozen=True, slots=True)
class Field:
    """A variable with the flags in force where it stands. `name` is that of the alias.

    `label` and `kind` are what an encoding calls it and makes of it ("" for none).
    """

    name: str
    flags: Flags
    position: int
    label: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample expression with the flags in force where it stands."""

    expression: Expression
    flags: Flags
    position: int
    label: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Encoding:
    """First of all pieces: the whole is an object of everything that has a name."""

    name: str
    binary: bool = False


type Piece = Literal | Space | Field | Sample | Encoding

#: reads the text of an expression that stands at this offset. May raise ConfigError.
type ReadExpression = Callable[[str, int], Expression]


def _ignore(_message: str) -> None:
    pass


def parse_pieces(
    text: str,
    *,
    http: bool = True,
    merge: bool = True,
    defaults: Flags | None = None,
    expression: ReadExpression | None = None,
    warn: Callable[[str], None] = _ignore,
) -> list[Piece]:
    """Split a format into pieces. Raises FormatError for unknown variables and broken syntax.

    `http` False refuses the variables that exist in `mode http` only. `merge`: several spaces are
    one. `defaults` are the flags that hold from the beginning (None: those of log lines).
    """
    reader = _Reader(text, http, merge, defaults or Flags(), expression, warn)
    return reader.pieces()


class _Reader:
    def __init__(
        self,
        text: str,
        http: bool,
        merge: bool,
        defaults: Flags,
        expression: ReadExpression | None,
        warn: Callable[[str], None],
    ) -> None:
        self.text = text
        self.http = http
        self.stops = " %" if merge else "%"
        self.defaults = defaults
        self.expression = expression
        self.warn = warn
        self.out: list[Piece] = []

    def pieces(self) -> list[Piece]:
        text, at = self.text, 0
        while at < len(text):
            char = text[at]
            if char == "%":
                at = self._variable(at)
            elif char in self.stops:
                self.out.append(Space())
                at += 1
            else:
                end = at
                while end < len(text) and text[end] not in self.stops:
                    end += 1
                self._literal(text[at:end])
                at = end
        return self.out

    def _literal(self, text: str) -> None:
        """Neighbouring texts are one piece."""
        last = self.out[-1] if self.out else None
        if isinstance(last, Literal):
            self.out[-1] = Literal(last.text + text)
        else:
            self.out.append(Literal(text))

    def _variable(self, start: int) -> int:
        """What begins with the "%" at `start`; returns where it ends."""
        text, at = self.text, start + 1
        label = kind = ""
        flags: str | None = None
        if text[at : at + 1] == "%":
            self._literal("%")
            return at + 1
        if text[at : at + 1] == "(":
            end = self._closing(at, ")", start)
            label, _, kind = text[at + 1 : end].partition(":")
            if kind and kind not in _TYPES:
                raise FormatError(
                    f"unexpected type '{kind}' of '{label}': {', '.join(_TYPES)}", start, kind
                )
            at = end + 1
        if text[at : at + 1] == "{":
            end = self._closing(at, "}", start)
            flags = text[at + 1 : end]
            at = end + 1
        char = text[at : at + 1]
        if char == "[":
            return self._sample(start, at + 1, self._flags(flags), label, kind)
        found = _ALIAS.match(text, at)
        if found is not None:
            self._field(found[0], self._flags(flags), start, label, kind)
            return found.end()
        if flags is not None or label or kind:
            raise FormatError(
                f"parse argument modifier without variable name near '{text[start:at]}'", start
            )
        if not char:
            raise FormatError(
                "truncated line after '%'; to emit the character itself, use '%%'", start
            )
        if char.isdigit() or char in " \t":
            raise FormatError(
                f"unexpected variable name near '{char}'. To emit the '%' character itself,"
                " use '%%'",
                start,
            )
        self.warn(f"log format '{text}': the '%' before '{char}' begins no variable and is dropped")
        return at

    def _closing(self, at: int, bracket: str, start: int) -> int:
        end = self.text.find(bracket, at)
        if end < 0:
            raise FormatError(
                f"truncated line after '{self.text[start:]}', missing '{bracket}'", start
            )
        return end

    def _flags(self, text: str | None) -> Flags:
        flags = self.defaults
        for item in (text or "").split(","):
            if not item:
                continue
            sign, letter = item[:1], item[1:]
            on = sign == "+"
            changes: dict[str, Any]
            if sign in ("+", "-") and letter in _FLAGS:
                changes = {_FLAGS[letter]: on}
                flags = replace(flags, **changes)
            elif sign in ("+", "-") and letter in _ENCODINGS:
                # one encoding is not replaced by another
                if not on:
                    flags = replace(flags, encoding="" if flags.encoding == letter else letter)
                elif not flags.encoding:
                    flags = replace(flags, encoding=letter)
            else:
                self.warn(
                    f"log format: unknown flag '{item}' is ignored: +Q, +X, +E, +M, +bin, +json,"
                    " +cbor, or -"
                )
        return flags

    def _field(self, name: str, flags: Flags, start: int, label: str, kind: str) -> None:
        if name == "o":
            self.defaults = flags
            if flags.encoding and not isinstance(self.out[0] if self.out else None, Encoding):
                self.out.insert(0, Encoding(flags.encoding, flags.binary))
            return
        alias = ALIASES.get(name)
        if alias is None:
            raise FormatError(
                f"no such format variable '{name}'. To emit the '%' character itself, use '%%'",
                start,
                name,
            )
        if not self.http and (alias.http or name in HTTP_ONLY):
            raise FormatError(f"format variable '{name}' is reserved for HTTP mode", start, name)
        if name == "tsc" and not self.http:
            # there are no cookies outside of HTTP
            self.out.append(Field("ts", flags, start, label, kind))
            self._literal("--")
            return
        self.out.append(Field(name, flags, start, label, kind))

    def _sample(self, start: int, at: int, flags: Flags, label: str, kind: str) -> int:
        try:
            end = expression_end(self.text, at)
        except _UnclosedError as error:
            raise FormatError(str(error), start, self.text[at:]) from None
        word = self.text[at:end]
        if self.text[end : end + 1] != "]":
            rest = self.text[end : end + 1]
            found = f"expected ']' after '{word}', but found '{rest}'"
            raise FormatError(found if rest else f"missing ']' after '{word}'", start, word)
        if word.endswith(","):
            raise FormatError(f"unknown converter '' behind '{word}'", start, word)
        if self.expression is None:
            raise FormatError("sample expressions (%[...]) are not available here", start)
        expression = self.expression(word, at)
        self.out.append(Sample(expression, flags, start, label, kind))
        return end + 1


def expression_end(text: str, at: int) -> int:
    """Where the expression that begins at `at` ends: at the first character that is none of it.

    Names and commas; between parentheses anything, quotes and backslashes as in arguments.
    Raises _UnclosedError.
    """
    while at < len(text):
        found = _NAME.match(text, at)
        assert found is not None
        at = found.end()
        if text[at : at + 1] == "(":
            at = _arguments_end(text, at + 1, found[0])
        if text[at : at + 1] != ",":
            return at
        at += 1
    return at


class _UnclosedError(ValueError):
    """A parenthesis, or a quote in it, goes on to the end of the text."""


def _arguments_end(text: str, at: int, name: str) -> int:
    begin = at
    quote = ""
    while at < len(text):
        char = text[at]
        at += 1
        if char == "\\" and quote != "'":
            at += 1
        elif quote:
            if char == quote:
                quote = ""
        elif char in "\"'":
            quote = char
        elif char == ")":
            return at
    raise _UnclosedError(
        f"missing closing {'quote' if quote else "')'"} after '{name}(' in '{name}({text[begin:]}'"
    )
