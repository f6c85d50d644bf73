"""Cookies in header values: `name=value` pairs as HAProxy finds them (see RFC 6265 section 4).

Pairs end at semicolons, and at commas outside of quoted strings in the value. Blanks around names
and values are dropped; quotes stay part of the value. Pairs whose name begins with "$" (attributes
of RFC 2965) and parts without "=" are no cookies. Pure: any thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

#: a pair: name, value, and how many bytes of the line there are from the pair's begin on
type Pair = tuple[bytes, bytes, int]

_VALUE = rb'=[ \t]*((?:[^",;]+|"(?:[^"\\]+|\\.)*+(?:"|\\?\Z))*)'
_find_pair = re.compile(rb"[ \t]*([^=;,]*)(?:" + _VALUE + rb")?", re.DOTALL).match
_find_set_pair = re.compile(rb"[ \t]*([^=;]*)(?:" + _VALUE + rb")?", re.DOTALL).match


def pairs_of(line: bytes, *, response: bool = False) -> list[Pair]:
    """All pairs of a value of Cookie, or (`response`) of Set-Cookie, its attributes included."""
    pairs: list[Pair] = []
    find = _find_set_pair if response else _find_pair
    at, size = 0, len(line)
    while at < size:
        match = find(line, at)
        assert match is not None
        name, value = match.groups()
        if value is not None and not name.startswith(b"$"):
            pairs.append((name.rstrip(b" \t"), value.rstrip(b" \t"), size - at))
        at = match.end() + 1
    return pairs


def named(pairs: list[Pair], name: bytes, *, response: bool = False) -> Iterator[bytes]:
    """The values of the pairs with that name; of all, if it is empty.

    The first pair of a Set-Cookie line alone has the name of a cookie. A pair at the end of a line
    that has but a name and a "=" is not found by its name: HAProxy asks for one byte more.
    """
    shortest = len(name) + 1
    for found, value, left in pairs:
        if left <= shortest:
            return
        if found == name or not name:
            yield value
        elif response:
            return
