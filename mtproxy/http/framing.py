"""Where a head ends, and how the body after it is delimited (RFC 9112 sections 2.2, 6 and 6.3).

Functions over header lists that both directions share. They run only for heads that carry such fields.
Any thread may call them.
"""

from __future__ import annotations

import re
from typing import Final

from mtproxy.http.errors import BadMessage
from mtproxy.http.headers import Header, make_header

#: how many empty lines may stand before a request line (RFC 9112 section 2.2 asks for one)
LEADING_EMPTY_LINES: Final = 4
#: the largest Content-Length that is accepted: what fits a signed 64-bit integer
CONTENT_LENGTH_MAX: Final = (1 << 63) - 1

_LENGTH = re.compile(rb"[0-9]{1,19}")
_BARE_LF = re.compile(rb"(?<!\r)\n")


def find_head_end(buf: bytes | bytearray, start: int = 0) -> int:
    """Index after the empty line that ends the head which begins at `start`, or -1: more is needed.

    Empty lines before the start line belong to the head. Raises BadMessage (400) for a line that ends with a
    bare LF, so that such a head is refused at once and does not wait for an end that never comes.
    """
    end = buf.find(b"\r\n\r\n", start)
    if end > start and buf[start] != 13:
        return end + 4
    first = skip_empty_lines(buf, start)
    end = buf.find(b"\r\n\r\n", first)
    bare = _BARE_LF.search(buf, start, end if end >= 0 else len(buf))
    if bare is not None:
        raise BadMessage(400, "line ends with a bare LF", bare.start())
    return end + 4 if end >= 0 else -1


def skip_empty_lines(buf: bytes | bytearray, start: int = 0) -> int:
    """Index after the CRLFs that stand at `start`. Raises BadMessage when they are too many."""
    index = start
    while buf.startswith(b"\r\n", index):
        index += 2
        if index - start > 2 * LEADING_EMPTY_LINES:
            raise BadMessage(400, "too many empty lines before a message", index)
    return index


def parse_content_length(value: bytes, known: int, status: int = 400) -> int:
    """The number in a value of Content-Length, which may repeat itself as a list ("5, 5").

    `known` is the length that an earlier field gave, or -1. Raises BadMessage for anything that is not one
    and the same number (RFC 9112 section 6.3, rule 5).
    """
    length = known
    for part in value.split(b","):
        digits = part.strip(b" \t")
        if _LENGTH.fullmatch(digits) is None:
            raise BadMessage(status, "bad Content-Length")
        number = int(digits)
        if number > CONTENT_LENGTH_MAX:
            raise BadMessage(status, "Content-Length too large")
        if length >= 0 and number != length:
            raise BadMessage(status, "different Content-Length values")
        length = number
    return length


def check_transfer_encoding(values: list[bytes], status: int = 400) -> None:
    """Accept `chunked` alone. Raises BadMessage otherwise.

    Other codings before a final chunked are well-formed but not supported: 422. Anything else leaves the
    length of the message open to doubt: `status` (RFC 9112 section 6.3, rule 4).
    """
    codings = [part.strip(b" \t").lower() for value in values for part in value.split(b",")]
    if codings == [b"chunked"]:
        return
    if codings[-1] == b"chunked" and codings.count(b"chunked") == 1:
        raise BadMessage(422, "unsupported transfer coding")
    raise BadMessage(status, "bad Transfer-Encoding")


def single_length(headers: list[Header], kind: int, length: int) -> list[Header]:
    """The list with one Content-Length (`kind`) in place of several, or with its list form made plain."""
    out: list[Header] = []
    seen = False
    for header in headers:
        if header[3] == kind:
            if seen:
                continue
            seen = True
            if b"," in header[1]:
                header = make_header(header[0], str(length).encode())
        out.append(header)
    return out
