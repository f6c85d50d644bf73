"""Changing the fields of a head that is one's own (see `RequestHead.copy`, `ResponseHead.copy`).

What rules do to a head must not change how long its message is, nor split it. So the lines of
Content-Length and Transfer-Encoding on the wire stay those of the message that was received: such a
field that is added is there for later look-ups only (its `wire` is empty), and one that is removed
leaves a field without a name that still writes its line. Values with a line end, or a NUL, are for
the caller to refuse (`fits_a_line`). Pure functions; any thread.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mtproxy.http.headers import (
    CONNECTION_UPGRADE,
    K_CONNECTION,
    K_CONTENT_LENGTH,
    K_TRANSFER_ENCODING,
    K_UPGRADE,
    KINDS,
    TCHAR,
    Header,
    connection_flags,
    make_header,
)

if TYPE_CHECKING:
    from mtproxy.http.h1_request import RequestHead

#: fields that say how long the body is
FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})
_FRAMING_KINDS: Final = frozenset({K_CONTENT_LENGTH, K_TRANSFER_ENCODING})

_match_name = re.compile(rb"[" + TCHAR + rb"]+").fullmatch
_search_unfit = re.compile(rb"[\r\n\0]").search

# RFC 9110 section 5.6.4: a comma in a quoted string does not separate; a string that is never
# closed goes to the end of the line
_find_parts = re.compile(rb'(?:[^",]|"(?:[^"\\]|\\.)*+(?:"|\\?\Z))*+', re.DOTALL)


def is_name(name: bytes) -> bool:
    """Can this be the name of a field (RFC 9110 section 5.1)?"""
    return _match_name(name) is not None


def fits_a_line(value: bytes) -> bool:
    """Can this be a value without ending its line?"""
    return _search_unfit(value) is None


def rule_header(name: bytes, value: bytes, *, request: bool) -> Header:
    """The field that a rule makes. `name` is lower-cased; `value` must fit a line.

    In a request, Connection goes out as the rule has it; in a response its `close` and
    `keep-alive` are the stream's to write.
    """
    kind = KINDS.get(name)
    if kind is None:
        return (name, value.strip(b" \t"), b"%b: %b\r\n" % (name, value), 0)
    if kind in _FRAMING_KINDS:
        return (name, value.strip(b" \t"), b"", kind)
    if kind == K_CONNECTION and request:
        wire = b"connection: " + value + b"\r\n" if value.strip(b" \t") else b""
        return (name, value.strip(b" \t"), wire, kind)
    return make_header(name, value.strip(b" \t"))


def remains(header: Header) -> Header | None:
    """What stays of a field that a rule removes; see the module's text."""
    if header[3] in _FRAMING_KINDS and header[2]:
        return (b"", header[1], header[2], header[3])
    return None


def remove(headers: list[Header], name: bytes) -> list[Header]:
    """The fields without those called `name`."""
    kept = [one for one in headers if one[0] != name]
    if name in FRAMING and len(kept) < len(headers):
        kept += [rest for one in headers if one[0] == name and (rest := remains(one))]
    return kept


def size(headers: list[Header]) -> int:
    """What the fields take of a buffer as HAProxy counts it: 8 bytes each, name and value."""
    return sum([8 + len(one[0]) + len(one[1]) for one in headers])


def parts(value: bytes) -> list[tuple[int, int]]:
    """Where the parts of a comma-separated value begin and end, with the blanks around them."""
    if b'"' not in value:
        found = []
        start = 0
        for part in value.split(b","):
            found.append((start, start + len(part)))
            start += len(part) + 1
        return found
    found = []
    start = 0
    while start <= len(value):
        match = _find_parts.match(value, start)
        assert match is not None
        found.append((start, match.end()))
        start = match.end() + 1
    return found


def note_upgrade(head: RequestHead) -> None:
    """Work `upgrade` out anew after Connection or Upgrade of a request were changed."""
    flags = 0
    upgrade: bytes | None = None
    for _, value, _, kind in head.headers:
        if kind == K_CONNECTION:
            flags |= connection_flags(value)
        elif kind == K_UPGRADE:
            upgrade = value if upgrade is None else upgrade + b", " + value
    head.upgrade = (upgrade or None) if flags & CONNECTION_UPGRADE else None
