"""Where a head ends, how many bytes follow it, and whose connection it speaks of: both directions.

RFC 9112 sections 2.2, 6 and 9. Pure functions over bytes and header lists; `scan_fields` uses the
caller's HeadCache, the rest may be called by any thread.
"""

from __future__ import annotations

import re
from typing import Final

from mtproxy.http.cache import LINE_MAX, UNCACHED_KINDS, HeadCache
from mtproxy.http.errors import BadMessage
from mtproxy.http.headers import (
    K_BAD_HOST,
    K_CONNECTION,
    K_CONTENT_LENGTH,
    K_EXPECT,
    K_HOST,
    K_TRANSFER_ENCODING,
    K_UPGRADE,
    Header,
    make_header,
    parse_field_line,
    refuse_field_line,
)

#: how many empty lines may stand before a request line (RFC 9112 section 2.2 asks for one)
EMPTY_LINES_MAX: Final = 4
#: the largest Content-Length: what fits a signed 64-bit integer
CONTENT_LENGTH_MAX: Final = (1 << 63) - 1
#: "no limit" for find_head_end
NO_LIMIT: Final = 1 << 62

# up to 19 digits, so that int() has a bound too
_match_length = re.compile(rb"[0-9]{1,19}").fullmatch
# what no further byte can turn into a good head: a bare LF or CR, or another control character
_search_hopeless = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]").search


def find_head_end(
    buf: bytes | bytearray, start: int = 0, limit: int = NO_LIMIT, seen: int = 0
) -> int:
    """Index after the empty line that ends the head which begins at `start`; -1: needs more.

    Empty lines before the start line belong to the head (`parse_request_head` drops them).
    `limit` is the longest head in bytes. `seen` may give the length that `buf` had in the call
    before, so that a head that comes in many pieces is not looked at again and again. Raises
    BadMessage (400) as soon as the bytes cannot become a good head.
    """
    end = buf.find(b"\r\n\r\n", start)
    if end > start and buf[start] != 13:
        end += 4
        if end - start > limit:
            raise BadMessage(400, "head too long", start + limit)
        return end
    first = skip_empty_lines(buf, start)
    if end >= 0:
        end = buf.find(b"\r\n\r\n", first)
        if end >= 0:
            end += 4
    if (end if end >= 0 else len(buf)) - start > limit:
        raise BadMessage(400, "head too long", start + limit)
    if end < 0:
        # a CR that ended the earlier piece is looked at again
        hopeless = _search_hopeless(buf, max(start, seen - 1))
        if hopeless is not None:
            what = "bare LF" if hopeless[0] == b"\n" else "bare CR"
            if hopeless[0] not in b"\r\n":
                what = "control character in a head"
            raise BadMessage(400, what, hopeless.start())
    return end


def skip_empty_lines(buf: bytes | bytearray, start: int = 0) -> int:
    """Index after the empty lines (CRLF) that stand at `start`. Raises BadMessage for too many."""
    index = start
    while buf.startswith(b"\r\n", index):
        index += 2
        if index - start > 2 * EMPTY_LINES_MAX:
            raise BadMessage(400, "too many empty lines before a message", index - 2)
    return index


def parse_lines(
    lines: list[bytes], found: list[Header | None], cache: HeadCache, position: int, status: int
) -> None:
    """Parse the lines whose place in `found` holds None, and let the cache remember them.

    `position` is the offset of the first line within the head. Raises BadMessage with `status`.
    """
    known = cache.lines
    at = -1
    for _ in range(found.count(None)):
        at = found.index(None, at + 1)
        line = lines[at]
        header = parse_field_line(line)
        if header is None:
            position += sum(map(len, lines[:at])) + 2 * at
            raise refuse_field_line(line, position, status)
        found[at] = header
        if len(line) <= LINE_MAX and header[3] not in UNCACHED_KINDS:
            if len(known) >= cache.entries_max:
                known.clear()
            known[line] = header


def parse_length(value: bytes, status: int) -> tuple[int, bytes]:
    """The number in a value of Content-Length and its digits. A list must repeat one text ("5, 5").

    Raises BadMessage with `status` (RFC 9112 section 6.3, rule 5).
    """
    first, *others = [part.strip(b" \t") for part in value.split(b",")]
    if _match_length(first) is None:
        raise BadMessage(status, "bad Content-Length")
    for digits in others:
        if digits != first:
            raise BadMessage(status, "different Content-Length values")
    number = int(first)
    if number > CONTENT_LENGTH_MAX:
        raise BadMessage(status, "Content-Length too large")
    return number, first


def check_codings(values: list[bytes], status: int) -> None:
    """Accept the transfer coding `chunked` alone. Raises BadMessage otherwise.

    Other codings before one final chunked are well-formed but not supported: 422. Whatever else
    leaves the length of the message in doubt: `status` (RFC 9112 section 6.3, rule 4).
    """
    codings = [part.strip(b" \t").lower() for value in values for part in value.split(b",")]
    if codings == [b"chunked"]:
        return
    if codings[-1] == b"chunked" and codings.count(b"chunked") == 1:
        raise BadMessage(422, "unsupported transfer coding")
    raise BadMessage(status, "bad Transfer-Encoding")


_CONNECTION_NAME: Final = len(b"connection: ")


def scan_fields(
    headers: list[Header], active: list[Header], cache: HeadCache, status: int
) -> tuple[list[Header], int, int, bool, bool, bytes | None, bool, bytes | None]:
    """Read the fields that the codec acts upon: `active`, those with a kind above zero.

    Returns `(headers, connection, length, chunked, doubtful, upgrade, expect, host)`: the list
    with one plain Content-Length or, when chunked, none; the CONNECTION_* bits; the length (-1:
    none); whether the body is chunked; whether Content-Length stood beside Transfer-Encoding, so
    that the connection must not be used again; the value of Upgrade; whether 100-continue is
    expected; the value of Host. Raises BadMessage with `status`; 400 means that it is a request.
    """
    connection = 0
    length = -1
    digits: bytes | None = None
    plain = True
    codings: list[bytes] | None = None
    upgrade: bytes | None = None
    expect = False
    host: bytes | None = None
    several_hosts = False
    for _, value, _, kind in active:
        if kind == K_HOST:
            if host is not None and status == 400:
                if value != host:
                    raise BadMessage(400, "different Host headers")
                several_hosts = True
            host = value
        elif kind == K_CONNECTION:
            connection |= cache.connection(value)
        elif kind == K_CONTENT_LENGTH:
            before = digits
            length, digits = parse_length(value, status)
            if before is not None:
                plain = False
                if before != digits:
                    raise BadMessage(status, "different Content-Length headers")
            elif digits != value:
                plain = False
        elif kind == K_TRANSFER_ENCODING:
            codings = [value] if codings is None else [*codings, value]
        elif kind == K_UPGRADE:
            upgrade = value if upgrade is None else upgrade + b", " + value
        elif kind == K_EXPECT:
            expect = expect or value.lower() == b"100-continue"
        elif kind == K_BAD_HOST and status == 400:
            # in a response a field of this name means nothing
            raise BadMessage(400, "bad Host")
    if several_hosts:
        headers = _first_only(headers, K_HOST)
    if connection:
        headers = _as_it_goes_on(headers)
    if codings is not None:
        check_codings(codings, status)
        if digits is not None:
            headers = without(headers, K_CONTENT_LENGTH)
        return headers, connection, -1, True, digits is not None, upgrade, expect, host
    if not plain and digits is not None:
        one = make_header(b"content-length", digits)
        headers = [
            one if header[3] == K_CONTENT_LENGTH else header
            for header in _first_only(headers, K_CONTENT_LENGTH)
        ]
    return headers, connection, length, False, False, upgrade, expect, host


def _as_it_goes_on(headers: list[Header]) -> list[Header]:
    """A list whose Connection fields have the value with which they go on: `close` and
    `keep-alive` were for us, and nobody behind us sees them (RFC 9110 section 7.6.1).
    """
    kept: list[Header] = []
    for header in headers:
        if header[3] == K_CONNECTION:
            wire = header[2]
            if not wire:
                continue
            header = (header[0], wire[_CONNECTION_NAME:-2], wire, K_CONNECTION)
        kept.append(header)
    return kept


def without(headers: list[Header], kind: int) -> list[Header]:
    """A list without the fields of one kind."""
    return [header for header in headers if header[3] != kind]


def _first_only(headers: list[Header], kind: int) -> list[Header]:
    """A list with only the first of the fields of one kind."""
    first = next(header for header in headers if header[3] == kind)
    place = headers.index(first)
    return [header for at, header in enumerate(headers) if header[3] != kind or at == place]


def lists_websocket(upgrade: bytes) -> bool:
    """Does this value of Upgrade offer or choose the WebSocket protocol (RFC 6455)?"""
    return b"websocket" in [part.strip(b" \t") for part in upgrade.lower().split(b",")]
