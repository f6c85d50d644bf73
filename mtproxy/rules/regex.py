"""Regular expressions: PCRE2, as HAProxy uses it, with limits on what a match may cost.

The system's libpcre2 is called through ctypes. A match that exceeds its limit of steps ends as "no
match", as it does in HAProxy; our limits are lower and shrink with the subject's length, so that a
hostile pattern and a hostile input together cost well under a second. Patterns that are proven
linear and have the same meaning there go to Python's `re`, which costs less per call
(`rules.regex_linear`). Without libpcre2 everything goes to `re`, and only the first `RE_MAX` bytes
of a subject are looked at; such patterns can still take long.

Compiled patterns are shared and never freed: `_programs` is only added to, by an atomic step. A
`Regex` has match data of its own and belongs to one thread: make one per thread by `compile`.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from ctypes import c_char_p, c_int, c_size_t, c_uint32, c_void_p
from typing import Any, Final

from mtproxy.rules.regex_linear import is_linear

#: groups that a replacement can name: \0 to \9
MAX_GROUPS: Final = 10
#: bytes of a subject that are looked at when libpcre2 is missing
RE_MAX: Final = 1024
#: (bytes of subject, steps allowed at each place of it); the last is for all that is longer
_LIMITS: Final = ((256, 1_000_000), (2048, 200_000), (1 << 62, 50_000))
#: KiB that the interpreter may take where there is no JIT
_HEAP_LIMIT: Final = 1024

_CASELESS: Final = 0x00000008
_NOTBOL: Final = 0x00000001
_JIT_COMPLETE: Final = 0x00000001
_UNSET: Final = (1 << 64) - 1

#: start and end of each group; (-1, -1) for one that took no part
type Groups = list[tuple[int, int]]


class RegexError(ValueError):
    """A pattern that is none. `offset` is where in it, in bytes."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class _Pcre2:
    """The functions of libpcre2-8. Immutable after its making; any thread."""

    def __init__(self, library: ctypes.CDLL) -> None:
        def function(name: str, result: Any, *arguments: Any) -> Any:
            found = library[f"pcre2_{name}_8"]
            found.restype = result
            found.argtypes = arguments
            return found

        self.library = library
        self.compile = function(
            "compile",
            c_void_p,
            c_char_p,
            c_size_t,
            c_uint32,
            ctypes.POINTER(c_int),
            ctypes.POINTER(c_size_t),
            c_void_p,
        )
        self.jit_compile = function("jit_compile", c_int, c_void_p, c_uint32)
        self.message = function("get_error_message", c_int, c_int, c_char_p, c_size_t)
        self.match_data = function("match_data_create", c_void_p, c_uint32, c_void_p)
        self.free_match_data = function("match_data_free", None, c_void_p)
        self.ovector = function("get_ovector_pointer", c_void_p, c_void_p)
        context = function("match_context_create", c_void_p, c_void_p)
        match_limit = function("set_match_limit", c_int, c_void_p, c_uint32)
        heap_limit = function("set_heap_limit", c_int, c_void_p, c_uint32)
        self.contexts: list[tuple[int, c_void_p]] = []
        for length, limit in _LIMITS:
            one = context(None)
            match_limit(one, limit)
            heap_limit(one, _HEAP_LIMIT)
            self.contexts.append((length, c_void_p(one)))


def _load() -> _Pcre2 | None:
    try:
        return _Pcre2(ctypes.CDLL("libpcre2-8.so.0"))
    except (OSError, AttributeError):
        return None


_pcre2: Final = _load()


class _Program:
    """A compiled pattern: PCRE2's code, or None where `plain` runs it. Immutable; shared."""

    __slots__ = ("code", "plain")

    def __init__(self, pattern: bytes, ignore_case: bool) -> None:
        self.plain: re.Pattern[bytes] | None = None
        self.code: c_void_p | None = None
        if _pcre2 is not None:
            self.code = _compile_pcre2(_pcre2, pattern, ignore_case)
        if _pcre2 is None or is_linear(pattern, ignore_case):
            try:
                self.plain = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
            except re.PatternError as error:
                raise RegexError(error.msg, error.pos or 0) from None


def _compile_pcre2(pcre2: _Pcre2, pattern: bytes, ignore_case: bool) -> c_void_p:
    number, offset = c_int(), c_size_t()
    code = pcre2.compile(
        pattern,
        len(pattern),
        _CASELESS if ignore_case else 0,
        ctypes.byref(number),
        ctypes.byref(offset),
        None,
    )
    if not code:
        buffer = ctypes.create_string_buffer(256)
        pcre2.message(number.value, buffer, len(buffer))
        raise RegexError(buffer.value.decode("ascii", "replace"), offset.value)
    # without JIT (not built in, or no memory may be made executable) matches are interpreted
    pcre2.jit_compile(code, _JIT_COMPLETE)
    return c_void_p(code)


_programs: Final[dict[tuple[bytes, bool], _Program]] = {}


def compile(pattern: str | bytes, ignore_case: bool = False) -> Regex:  # noqa: A001
    """`pattern` for the calling thread. Raises RegexError."""
    text = pattern.encode("utf-8", "surrogateescape") if isinstance(pattern, str) else pattern
    key = (text, ignore_case)
    if key not in _programs:
        _programs.setdefault(key, _Program(text, ignore_case))
    program = _programs[key]
    return Regex(text, program)


class _MatchData(c_void_p):
    """Where PCRE2 notes a match. Freed with the last function that uses it."""

    def __del__(self) -> None:
        if self.value is not None and _pcre2 is not None:
            _pcre2.free_match_data(self.value)


class Regex:
    """A pattern at work. One thread.

    `search(data)` tells whether the pattern matches somewhere in `data`; the function may be kept
    without the object.
    """

    __slots__ = ("_groups", "pattern", "search")

    search: Callable[[bytes], bool]

    def __init__(self, pattern: bytes, program: _Program) -> None:
        self.pattern = pattern
        self._groups: Callable[[bytes, bool], Groups | None]
        plain = program.plain
        if plain is not None and (_pcre2 is None or program.code is not None):
            if _pcre2 is None:
                self.search = lambda data: plain.search(data, 0, RE_MAX) is not None
            else:
                self.search = lambda data: plain.search(data) is not None
            self._groups = _plain_groups(plain)
        else:
            assert _pcre2 is not None
            assert program.code is not None
            data = _MatchData(_pcre2.match_data(MAX_GROUPS, None))
            match, self.search = _bind(_pcre2, program.code, data)
            self._groups = _pcre2_groups(_pcre2, match, data)

    def groups(self, data: bytes) -> Groups | None:
        """Where the match and its first nine groups stand, always ten; None: no match."""
        return self._groups(data, False)

    def substitute(self, data: bytes, template: bytes, everywhere: bool = False) -> bytes:
        """`data` with the first match replaced, or every one (`regsub`, flag "g").

        Each match is looked for in what stands behind the one before: `^` matches only once, and
        nothing looks back. An empty match replaces nothing and stands before a character.
        """
        out: list[bytes] = []
        rest = data
        notbol = False
        while True:
            found = self._groups(rest, notbol) if everywhere or not notbol else None
            if found is None:
                out.append(rest)
                return b"".join(out)
            start, end = found[0]
            out.append(rest[:start])
            out.append(expand(template, rest, found))
            if not rest:
                return b"".join(out)
            if end == 0:
                out.append(rest[:1])
                end = 1
            rest = rest[end:]
            notbol = True


def _bind(
    pcre2: _Pcre2, code: c_void_p, data: _MatchData
) -> tuple[Callable[[bytes, bool], int], Callable[[bytes], bool]]:
    """A function whose result is negative where there is no match, and one that tells no more.

    The function object is the caller's own and has no argument types: ctypes then converts three
    times as fast. All pointers are objects made here, and a length fits a C int.
    """
    function: Any = pcre2.library["pcre2_match_8"]
    function.restype = c_int
    zero, none, notbol = c_size_t(0), c_uint32(0), c_uint32(_NOTBOL)
    (short, first), (medium, second), (_, third) = pcre2.contexts

    def match(subject: bytes, behind: bool) -> int:
        length = len(subject)
        context = first if length <= short else second if length <= medium else third
        flags = notbol if behind else none
        result: int = function(code, subject, length, zero, flags, data, context)
        return result

    def search(subject: bytes) -> bool:
        length = len(subject)
        if length <= short:
            found: int = function(code, subject, length, zero, none, data, first)
            return found >= 0
        return match(subject, False) >= 0

    return match, search


def _pcre2_groups(
    pcre2: _Pcre2, match: Callable[[bytes, bool], int], data: _MatchData
) -> Callable[[bytes, bool], Groups | None]:
    vector = (c_size_t * (2 * MAX_GROUPS)).from_address(pcre2.ovector(data))

    def groups(subject: bytes, behind: bool) -> Groups | None:
        count = match(subject, behind)
        if count < 0:
            return None
        if count == 0:
            count = MAX_GROUPS
        places = vector[: 2 * count]
        found = [
            (-1, -1) if start == _UNSET else (start, end)
            for start, end in zip(places[::2], places[1::2], strict=True)
        ]
        return found + [(-1, -1)] * (MAX_GROUPS - count)

    return groups


def _plain_groups(plain: re.Pattern[bytes]) -> Callable[[bytes, bool], Groups | None]:
    end = (1 << 62) if _pcre2 is not None else RE_MAX
    highest = min(plain.groups, MAX_GROUPS - 1)
    missing = [(-1, -1)] * (MAX_GROUPS - 1 - highest)
    anchored = plain.pattern.startswith(b"^")

    def groups(subject: bytes, behind: bool) -> Groups | None:
        if behind and anchored:
            return None
        found = plain.search(subject, 0, end)
        if found is None:
            return None
        return [found.span(number) for number in range(highest + 1)] + missing

    return groups


def expand(template: bytes, data: bytes, groups: Groups) -> bytes:
    r"""`template` with `\0` to `\9` replaced by the groups; `\xHH` is a byte, `\c` is `c`.

    A group that took no part is empty.
    """
    if b"\\" not in template:
        return template
    out = bytearray()
    at = 0
    while at < len(template):
        char = template[at]
        at += 1
        if char != 0x5C:
            out.append(char)
            continue
        if at >= len(template):
            return bytes(out)
        char = template[at]
        at += 1
        if 0x30 <= char <= 0x39:
            start, end = groups[char - 0x30]
            if start >= 0:
                out += data[start:end]
        elif char == 0x78:
            out.append(int(template[at : at + 2], 16))
            at += 2
        else:
            out.append(char)
    return bytes(out)


def template_error(template: bytes) -> str | None:
    r"""What is wrong with a replacement; None if `expand` takes it."""
    at = template.find(b"\\")
    while at >= 0:
        after = template[at + 1 : at + 2]
        if not after:
            return "a backslash at the end of the replacement stands before nothing"
        if after == b"x":
            digits = template[at + 2 : at + 4]
            if len(digits) != 2 or not all(c in b"0123456789abcdefABCDEF" for c in digits):
                return "'\\x' in the replacement needs two hexadecimal digits"
        at = template.find(b"\\", at + 2)
    return None


def engine() -> str:
    """What runs patterns here, for `-vv`."""
    if _pcre2 is None:
        return "Python's re (libpcre2 is missing): subjects are cut"
    version = ctypes.create_string_buffer(64)
    config = _pcre2.library["pcre2_config_8"]
    config.restype = c_int
    config.argtypes = (c_uint32, c_char_p)
    config(11, version)
    return f"PCRE2 {version.value.decode()}"
