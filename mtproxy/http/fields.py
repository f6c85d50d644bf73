"""Looking header fields up by name, in whole lines and in the parts of comma-separated lists.

A head that was parsed is never changed, so it keeps an index of its fields: made at the first
look-up, and as often used as the head is (many requests share one). A `copy()` of a head is there
to be changed and has none: it is searched each time.

Names are lower-cased; the empty name stands for all fields. Owner thread of the head only.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from mtproxy.http.headers import Header

#: what `index` of a head is that may be changed: stays empty
NO_INDEX: Final[dict[bytes, list[Any]]] = {}

# RFC 9110 section 5.6.4: within quotes a comma does not separate, nor does a quote behind a
# backslash end the string; what is never closed goes to the end of the line
_match_part = re.compile(rb'((?:[^",]+|"(?:[^"\\]+|\\.)*+(?:"|\\?\Z))*)(?:,|\Z)', re.DOTALL).match


class Head(Protocol):
    """A head, as far as its fields go."""

    headers: list[Header]
    index: dict[bytes, list[Any]] | None


def split_list(value: bytes) -> list[bytes]:
    """The parts of a comma-separated value without the blanks around them.

    Empty parts count, and so does the empty value: one part. Commas in quoted strings do not
    separate.
    """
    if b"," not in value:
        return [value]
    if b'"' not in value:
        return [part.strip(b" \t") for part in value.split(b",")]
    parts: list[bytes] = []
    end = -1
    while end < len(value):
        found = _match_part(value, end + 1)
        assert found is not None
        parts.append(found[1].strip(b" \t"))
        end = found.end(1)
    return parts


def lines_of(head: Head, name: bytes) -> list[bytes]:
    """The values of all lines of a field, in their order."""
    index = head.index
    if index is None:
        index = _make_index(head)
    if index is not NO_INDEX:
        return index.get(name) or _no_lines
    if name:
        return [header[1] for header in head.headers if header[0] == name]
    return [header[1] for header in head.headers]


_no_lines: Final[list[bytes]] = []


def parts_of(head: Head, name: bytes) -> list[bytes]:
    """All parts of all lines of a field that is a comma-separated list, in their order."""
    index = head.index
    if index is not None:
        known = index.get(b"," + name)
        if known is not None:
            return known
    parts: list[bytes] = []
    for line in lines_of(head, name):
        if b"," in line:
            parts += split_list(line)
        else:
            parts.append(line)
    if head.index:
        # not the empty NO_INDEX; a head without fields is not worth an entry
        head.index[b"," + name] = parts
    return parts


def _make_index(head: Head) -> dict[bytes, list[Any]]:
    """All lines by name. A comma cannot be in a name: such keys are for lists of parts."""
    index: dict[bytes, list[Any]] = {b"": [header[1] for header in head.headers]}
    for name, value, _wire, _kind in head.headers:
        lines = index.get(name)
        if lines is None:
            index[name] = [value]
        else:
            lines.append(value)
    head.index = index
    return index
