"""Words back into lines of haproxy.cfg: the opposite of `lexer` (manual 2.2). Pure."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[A-Za-z0-9_@:./,+%=*\[\]{}()<>|&!?;~^-]+")
#: what no line may hold as it is, line ends above all
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_WEAK = re.compile(r'[\\"$\x00-\x1f\x7f]')
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000))


def quote(word: str) -> str:
    """`word` as one word of a line. There is no way to write a NUL, which no word can hold."""
    if _PLAIN.fullmatch(word):
        return word
    if _CONTROL.search(word):
        return '"' + _WEAK.sub(_escaped, word) + '"'
    return "'" + word.replace("'", "'\\''") + "'"


def _escaped(found: re.Match[str]) -> str:
    char = found[0]
    if char in '\\"$':
        return "\\" + char
    return _NAMED.get(char) or f"\\x{ord(char):02x}"


def line(*words: object) -> str:
    """A statement inside a section, which begins with a blank."""
    return " " + " ".join(quote(str(word)) for word in words)


def text(value: bytes) -> str:
    """Bytes of the settings as the word that they were."""
    return value.decode("utf-8", "surrogateescape")


def duration(ms: int) -> str:
    """`30s`, `1500ms`."""
    for unit, size in _UNITS:
        if ms and ms % size == 0:
            return f"{ms // size}{unit}"
    return f"{ms}ms"
