"""How bytes from the network are written into a log line (HAProxy configuration manual, section
8.6).

Pure functions, callable from any thread. Characters outside 32..126 and a few that would confuse a
reader of the line become `#` and two hexadecimal digits. The usual case, nothing to encode, is one
call in C.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

BADREQ = "<BADREQ>"

_PRINTABLE = bytes(range(32, 127))
#: what may stand in a request line as it is
URI_SAFE = bytes(c for c in _PRINTABLE if c not in b'"#')
#: what may stand in a captured header as it is: `{`, `|` and `}` delimit there
HEADER_SAFE = bytes(c for c in _PRINTABLE if c not in b'"#{|}')
#: what may stand in a captured cookie
COOKIE_SAFE = _PRINTABLE

_STRUCTURED = re.compile(r'(["\\\]])')


def encode(value: bytes, safe: bytes) -> str:
    """`value` with every byte that is not in `safe` as #XX."""
    if not value.translate(None, safe):
        return value.decode("ascii")
    return "".join(chr(c) if c in safe else f"#{c:02X}" for c in value)


def uri(value: bytes | None) -> str:
    """The whole request line, or "<BADREQ>"."""
    return BADREQ if value is None else encode(value, URI_SAFE)


def structured(text: str) -> str:
    """Flag E: `"`, `\\` and `]` get a backslash (RFC 5424 section 6.3.3)."""
    return _STRUCTURED.sub(r"\\\1", text)


def header_block(values: Sequence[bytes | None], *, quoted: bool, escaped: bool) -> str:
    """Captured headers between braces: `{a|b|}`; empty when there are none."""
    if not values:
        return ""
    text = "{" + "|".join(encode(v, HEADER_SAFE) if v else "" for v in values) + "}"
    if escaped:
        text = structured(text)
    return f'"{text}"' if quoted else text


def header_list(values: Sequence[bytes | None], *, quoted: bool, escaped: bool) -> str:
    """Captured headers as separate fields (CLF style): `a b -`, quoted `"a" "b" ""`."""
    out = []
    for value in values:
        # an empty value was captured all the same: "-" is for none
        text = ("" if quoted else "-") if value is None else encode(value, HEADER_SAFE)
        if escaped:
            text = structured(text)
        out.append(f'"{text}"' if quoted else text)
    return " ".join(out)
