"""Cut one line of haproxy.cfg into words (manual 2.1 to 2.3).

Strong quotes, weak quotes, backslash escapes, comments, and environment variables inside weak
quotes: `"$VAR"`, `"${VAR}"`, `"${VAR-default}"`, `"${VAR[*]}"` (one word per value) and the
pseudo-variables `.FILE`, `.LINE`, `.SECTION`. Pure functions without I/O.

The text is "byte text": every character stands for one byte (latin-1), so that `\\xNN` and columns
mean bytes, as in HAProxy. `to_text` turns a finished word into UTF-8 text; bytes that are not
UTF-8 survive as surrogate escapes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mtproxy.base.errors import ConfigError

#: more words than this on a line are an error, as in HAProxy
MAX_WORDS = 64

#: more bytes of variables than this in a line are an error: values that are made of each other
#: (`setenv B "$A$A"`) grow without an end
MAX_EXPANDED = 65536

_BLANKS = frozenset(" \t\v\f")
_LINE_END = frozenset("#\n\r")
_HEX = frozenset("0123456789abcdefABCDEF")
_NAME_START = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_NAME = _NAME_START | frozenset("0123456789")
#: characters that a backslash makes literal, inside and outside weak quotes
_LITERAL = frozenset(" \t\\#\"'")
_CONTROL = {"n": "\n", "r": "\r", "t": "\t"}
#: what isspace() splits at when `[*]` expands a variable
_VALUE_BLANKS = frozenset(" \t\n\v\f\r")

PSEUDO_VARIABLES = (".FILE", ".LINE", ".SECTION")

#: gives the value of a variable as byte text, or None when it is not set
Lookup = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Word:
    """A finished word as byte text; `column` counts from 1 where it starts in the line."""

    text: str
    column: int


def to_text(word: str) -> str:
    """Byte text to UTF-8 text; bytes that are not UTF-8 become surrogate escapes."""
    return word.encode("latin-1").decode("utf-8", "surrogateescape")


def from_text(text: str) -> str:
    """The opposite of `to_text`."""
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def tokenize(line: str, lookup: Lookup, *, whole: bool = False) -> list[Word]:
    """The words of `line` (byte text, with or without its line end).

    With `whole` blanks and hashes have no meaning and the line is one word (as for `-cc`). A NUL
    made by an escape cuts its word there, as it does for HAProxy. Raises ConfigError with the
    column for an unmatched quote or brace, a bad variable name, a bad `\\x` sequence, more than
    64 words, and values of variables of more than MAX_EXPANDED bytes together.
    """
    return _Tokenizer(line, lookup, whole=whole).run()


class _Tokenizer:
    """State of one pass over one line: position, open quote, the word being built."""

    def __init__(self, line: str, lookup: Lookup, *, whole: bool) -> None:
        self.line = line
        self.lookup = lookup
        self.whole = whole
        self.pos = 0
        self.words: list[Word] = []
        self.parts: list[str] = []
        #: column of the current word; 0 outside a word
        self.start = 0
        #: bytes of variables so far
        self.expanded = 0

    def run(self) -> list[Word]:
        line = self.line
        length = len(line)
        quote = ""
        quote_column = 0
        while self.pos < length:
            char = line[self.pos]
            if quote == "'":
                if char == "'":
                    quote = ""
                else:
                    self.parts.append(char)
                self.pos += 1
            elif char == "\\":
                self._open_word()
                self._escape(weak=bool(quote))
            elif char == '"':
                self._open_word()
                quote, quote_column = ("", 0) if quote else (char, self.pos + 1)
                self.pos += 1
            elif quote:
                if char == "$":
                    self._variable()
                else:
                    self._open_word()
                    self.parts.append(char)
                    self.pos += 1
            elif char == "'":
                self._open_word()
                quote, quote_column = char, self.pos + 1
                self.pos += 1
            elif char in _LINE_END and not self.whole:
                break
            elif char in _BLANKS and not self.whole:
                self._close_word()
                self.pos += 1
            else:
                self._open_word()
                self.parts.append(char)
                self.pos += 1
        if quote:
            raise ConfigError(f"unmatched quote at position {quote_column}:", column=quote_column)
        self._close_word()
        return self.words

    def _open_word(self) -> None:
        if not self.start:
            self.start = self.pos + 1

    def _close_word(self) -> None:
        if not self.start:
            return
        if len(self.words) == MAX_WORDS:
            raise ConfigError(
                f"too many words: a line has at most {MAX_WORDS}, position {self.start}",
                column=self.start,
            )
        text, _, _ = "".join(self.parts).partition("\0")
        self.words.append(Word(text, self.start))
        self.parts.clear()
        self.start = 0

    def _escape(self, *, weak: bool) -> None:
        """A backslash outside strong quotes; any other sequence than the known stays as it is."""
        line, pos = self.line, self.pos
        following = line[pos + 1 : pos + 2]
        if following in _CONTROL:
            self.parts.append(_CONTROL[following])
        elif following in _LITERAL or (weak and following == "$"):
            self.parts.append(following)
        elif following == "x":
            digits = line[pos + 2 : pos + 4]
            if len(digits) != 2 or not _HEX.issuperset(digits):
                raise ConfigError(
                    f"truncated or invalid hexadecimal sequence at position {pos + 1}:",
                    column=pos + 1,
                )
            self.parts.append(chr(int(digits, 16)))
            self.pos += 4
            return
        else:
            self.parts.append("\\")
            self.pos += 1
            return
        self.pos += 2

    def _variable(self) -> None:
        """`$NAME` or `${NAME...}` inside weak quotes."""
        line = self.line
        brace_column = 0
        pos = self.pos + 1
        if line[pos : pos + 1] == "{":
            pos += 1
            brace_column = pos
        name_column = pos + 1
        first = line[pos : pos + 1]
        name = ""
        if first == ".":
            for known in PSEUDO_VARIABLES:
                if line.startswith(known, pos):
                    name = known
                    pos += len(known)
        elif first in _NAME_START and first:
            end = pos + 1
            while end < len(line) and line[end] in _NAME:
                end += 1
            name = line[pos:end]
            pos = end
        if not name:
            raise ConfigError(
                f"forbidden first char in environment variable name at position {name_column}:",
                column=name_column,
            )
        value = self.lookup(name)
        split = False
        if brace_column:
            if line.startswith("[*]", pos):
                split = True
                pos += 3
            end = line.find("}", pos)
            if end < 0 or (line[pos] != "-" and end != pos):
                raise ConfigError(
                    f"unmatched brace in environment variable name at position {brace_column}:",
                    column=brace_column,
                )
            if value is None and end > pos:
                value = line[pos + 1 : end]
            pos = end + 1
        self.pos = pos
        if value is None:
            return
        self.expanded += len(value)
        if self.expanded > MAX_EXPANDED:
            raise ConfigError(
                f"line too long: more than {MAX_EXPANDED} bytes with the value of '{name}' at"
                f" position {name_column}:",
                column=name_column,
            )
        if not split:
            self.parts.append(value)
            return
        for char in value:
            if char in _VALUE_BLANKS and not self.whole:
                self._close_word()
            else:
                self._open_word()
                self.parts.append(char)
