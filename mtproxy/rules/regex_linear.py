"""Which regular expressions Python's `re` may run: linear ones that mean the same to PCRE2.

`re` costs a fraction of a call into a C library, but backtracks without limit. `is_linear` accepts
a pattern only if a proof of linear time is simple, and if every construct in it is known to have
one meaning in both engines: literals, classes, `.`, groups, `|`, `?`, anchors at the two ends, and
`*` or `+` on a single character or class where what follows cannot begin with a character of it
(or where nothing follows). Everything else goes to PCRE2. Pure: any thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_ALL: Final = (1 << 256) - 1
_DIGITS: Final = sum(1 << c for c in b"0123456789")
_LETTERS: Final = sum(1 << c for c in b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_WORD: Final = _DIGITS | _LETTERS | 1 << 0x5F
_SPACE: Final = sum(1 << c for c in b" \t\n\r\f\v")
_ESCAPES: Final = {
    ord("d"): _DIGITS,
    ord("w"): _WORD,
    ord("s"): _SPACE,
    ord("D"): _ALL ^ _DIGITS,
    ord("W"): _ALL ^ _WORD,
    ord("S"): _ALL ^ _SPACE,
}
_QUANTIFIERS: Final = frozenset(b"*+?{")
#: ends of a range that `re` may read otherwise
_NOT_IN_RANGE: Final = frozenset((*b"[]&|~-\0", -1))
_NOT_NEWLINE: Final = _ALL ^ (1 << 0x0A)
#: ways through a pattern without loops that may be tried at each place
_MAX_WAYS: Final = 128
_MAX_LENGTH: Final = 1024


class _NotLinear(Exception):
    """The proof fails, or a construct is not one of the known."""


@dataclass(slots=True)
class _Atom:
    """One character of `chars` (a set of bytes as bits). `end`: the anchor `$`, no character."""

    chars: int
    loops: bool = False
    optional: bool = False
    end: bool = False
    #: stands in an alternative or in an optional group: what follows it is not known
    inside: bool = False


class _Scanner:
    """Reads a pattern into `atoms`, in their order."""

    def __init__(self, pattern: bytes, ignore_case: bool) -> None:
        self.text = pattern
        self.at = 0
        self.ignore_case = ignore_case
        self.atoms: list[_Atom] = []
        self.ways = 1
        self.anchored = False

    def run(self) -> None:
        if self.text.startswith(b"^"):
            self.anchored = True
            self.at = 1
        self._branches(depth=0)
        if self.at < len(self.text):
            raise _NotLinear

    def _branches(self, depth: int) -> None:
        start = len(self.atoms)
        branches = 1
        while True:
            self._sequence(depth)
            if self._peek() != 0x7C:  # |
                break
            self.at += 1
            branches += 1
        if branches > 1:
            if depth == 0 and self.anchored:
                raise _NotLinear  # "^a|b": the anchor belongs to the first only
            self.ways *= branches
            self._mark(start)

    def _mark(self, start: int) -> None:
        for atom in self.atoms[start:]:
            atom.inside = True

    def _sequence(self, depth: int) -> None:
        while (char := self._peek()) not in (-1, 0x7C, 0x29):
            if char == 0x28:  # (
                self._group(depth)
            elif char == 0x24:  # $
                self.at += 1
                if depth or self.at < len(self.text):
                    raise _NotLinear
                self.atoms.append(_Atom(0, end=True))
            else:
                atom = _Atom(self._set())
                self._quantifier(atom)
                self.atoms.append(atom)

    def _group(self, depth: int) -> None:
        self.at += 1
        if self._peek() == 0x3F:
            if self.text[self.at : self.at + 2] != b"?:":
                raise _NotLinear
            self.at += 2
        start = len(self.atoms)
        self._branches(depth + 1)
        if self._peek() != 0x29:
            raise _NotLinear
        self.at += 1
        if self._peek() == 0x3F:
            self.at += 1
            self.ways *= 2
            self._mark(start)
        if self._peek() in _QUANTIFIERS:
            raise _NotLinear

    def _quantifier(self, atom: _Atom) -> None:
        char = self._peek()
        if char == 0x3F:
            atom.optional = True
            self.ways *= 2
        elif char in (0x2A, 0x2B):
            atom.loops = True
            atom.optional = char == 0x2A
        else:
            if char == 0x7B:
                raise _NotLinear
            return
        self.at += 1
        if self._peek() in _QUANTIFIERS:
            raise _NotLinear

    def _peek(self) -> int:
        return self.text[self.at] if self.at < len(self.text) else -1

    def _set(self) -> int:
        """The characters that the next element stands for."""
        char = self.text[self.at]
        self.at += 1
        if char == 0x2E:
            return _NOT_NEWLINE
        if char == 0x5B:
            return self._class()
        if char == 0x5C:
            return self._fold(self._escape())
        if char in b"^*+?{" or char == 0:
            raise _NotLinear
        return self._fold(1 << char)

    def _escape(self) -> int:
        if self.at >= len(self.text):
            raise _NotLinear
        char = self.text[self.at]
        self.at += 1
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char >= 0x80 or char <= 0x20 or 1 << char & _WORD:
            raise _NotLinear
        return 1 << char

    def _class(self) -> int:
        negated = self._peek() == 0x5E
        self.at += negated
        chars = 0
        first = True
        while True:
            char = self._peek()
            if char == -1 or (first and char == 0x5D):
                raise _NotLinear
            first = False
            self.at += 1
            if char == 0x5D:
                break
            if char in b"[&|~\0":
                raise _NotLinear  # "[:alpha:]"; what `re` reserves for operations on sets
            low = self._escape() if char == 0x5C else 1 << char
            if self._peek() == 0x2D and self.text[self.at + 1 : self.at + 2] not in (b"]", b""):
                self.at += 1
                low = self._range(low)
            chars |= low
        chars = self._fold(chars)
        return _ALL ^ chars if negated else chars

    def _range(self, low: int) -> int:
        char = self._peek()
        self.at += 1
        if char in _NOT_IN_RANGE:
            raise _NotLinear
        high = self._escape() if char == 0x5C else 1 << char
        if low.bit_count() != 1 or high.bit_count() != 1 or low > high or low == 1 << 0x2D:
            raise _NotLinear
        return (high << 1) - low

    def _fold(self, chars: int) -> int:
        if self.ignore_case:
            upper, lower = chars >> 0x41 & 0x3FFFFFF, chars >> 0x61 & 0x3FFFFFF
            chars |= upper << 0x61 | lower << 0x41
        return chars


def is_linear(pattern: bytes, ignore_case: bool) -> bool:
    """Whether `re` gives PCRE2's answer for `pattern`, in time linear in the subject's length."""
    if len(pattern) > _MAX_LENGTH:
        return False
    scanner = _Scanner(pattern, ignore_case)
    try:
        scanner.run()
    except _NotLinear:
        return False
    if scanner.ways > _MAX_WAYS:
        return False
    atoms = scanner.atoms
    for position, atom in enumerate(atoms):
        if not atom.loops:
            continue
        last = position == len(atoms) - 1
        if atom.inside:
            return False
        if not scanner.anchored:
            # another start is tried only where the whole has failed; a last loop does not fail
            if not last:
                return False
        elif not last:
            after = atoms[position + 1]
            if after.end:
                continue
            if after.inside or after.optional or after.chars & atom.chars:
                return False
    return True
