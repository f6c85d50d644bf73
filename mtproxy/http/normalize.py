"""Normal forms of request targets (RFC 3986 section 6.2.2), one transformation at a time.

Each takes and gives bytes; those that speak of a path get one that begins with a slash, without the
query. `None`: the input is not valid, where a transformation is strict. Pure functions; any thread.
"""

from __future__ import annotations

import re
from typing import Final

_UNRESERVED: Final = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
)
_sub_encoded = re.compile(rb"%([0-9A-Fa-f]{2})").sub
_search_bad_percent = re.compile(rb"%(?![0-9A-Fa-f]{2})").search
_sub_slashes = re.compile(rb"/{2,}").sub


def merge_slashes(path: bytes) -> bytes:
    """Adjacent slashes become one."""
    return _sub_slashes(b"/", path)


def strip_dot(path: bytes) -> bytes:
    """Segments "." are removed."""
    *segments, last = path.split(b"/")
    kept = [segment + b"/" for segment in segments if segment != b"."]
    return b"".join(kept) + (b"" if last == b"." else last)


def strip_dotdot(path: bytes, *, full: bool) -> bytes:
    """Segments ".." are removed with the segment before them. Empty segments count as segments.

    Those at the beginning, which have none before them, stay unless `full`.
    """
    kept: list[bytes] = []
    excess = 0
    segments = path.split(b"/")[1:]
    for segment in segments:
        if segment != b"..":
            kept.append(segment)
        elif kept:
            kept.pop()
        else:
            excess += 1
    if segments and segments[-1] == b"..":
        # what is left is the directory
        kept.append(b"")
    return b"/.." * (0 if full else excess) + b"/" + b"/".join(kept)


def decode_unreserved(target: bytes, *, strict: bool) -> bytes | None:
    """Encoded characters that need no encoding are decoded."""
    if strict and _search_bad_percent(target) is not None:
        return None
    return _sub_encoded(_decode, target)


def _decode(found: re.Match[bytes]) -> bytes:
    code = int(found[1], 16)
    return bytes((code,)) if code in _UNRESERVED else found[0]


def encoded_to_upper(target: bytes, *, strict: bool) -> bytes | None:
    """The digits of encoded characters become upper case."""
    if strict and _search_bad_percent(target) is not None:
        return None
    return _sub_encoded(lambda found: found[0].upper(), target)


def strip_fragment(target: bytes) -> bytes:
    """What follows the first "#" is removed, with it."""
    return target.partition(b"#")[0]


def encode_fragment(target: bytes) -> bytes:
    """Each "#" becomes "%23"."""
    return target.replace(b"#", b"%23")


def sort_query(query: bytes) -> bytes:
    """Parameters in the order of their names; those of one name keep theirs. `query` has no "?".

    An empty parameter at the end is dropped, as HAProxy does.
    """
    parameters = query.split(b"&")
    if not parameters[-1]:
        parameters.pop()
    parameters.sort(key=lambda one: one.partition(b"=")[0])
    return b"&".join(parameters)
