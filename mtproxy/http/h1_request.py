"""Request heads: bytes of one head in, a `RequestHead` out, or BadMessage.

The way of most requests: split into lines, one dict look-up for the start line and one a header line, one
pass over the kinds of the headers. Only fields that the codec acts upon cost more. What is refused, and
why, stands in docs/http1.md. Called by the thread that owns the HeadCache given.
"""

from __future__ import annotations

import re
from typing import Final

from mtproxy.http.errors import BadMessage
from mtproxy.http.framing import (
    check_transfer_encoding,
    parse_content_length,
    single_length,
    skip_empty_lines,
)
from mtproxy.http.headers import (
    CACHED_LINE_MAX,
    CONNECTION_CLOSE,
    CONNECTION_KEEP_ALIVE,
    CONNECTION_UPGRADE,
    K_CONNECTION,
    K_CONTENT_LENGTH,
    K_EXPECT,
    K_HOST,
    K_PASSIVE,
    K_TRANSFER_ENCODING,
    K_UPGRADE,
    K_WEBSOCKET_KEY,
    HeadCache,
    Header,
    refuse_field_line,
)
from mtproxy.http.uri import ABSOLUTE, AUTHORITY, ORIGIN, check_authority, target_form

#: default for `max_headers`: HAProxy's tune.http.maxhdr (101) counts the end of the head as one
MAX_HEADERS: Final = 100

_START = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+) +([\x21\x22\x24-\x7e]+) +HTTP/1\.([0-9])")


class RequestHead:
    """A parsed request head. `headers` may be changed by its owner; everything is owned by one thread.

    `version` is 10 or 11 (1.2 to 1.9 count as 11). `content_length` is -1 when there is none or when the
    body is `chunked`. `keep_alive` is the client's wish after version and Connection, False also where the
    framing asks for a close after this message. `upgrade` is the value of Upgrade if Connection lists it.
    `start_line` is the request line as received, for logs.
    """

    __slots__ = (
        "chunked",
        "content_length",
        "expect_continue",
        "headers",
        "host",
        "keep_alive",
        "method",
        "start_line",
        "target",
        "upgrade",
        "version",
    )

    method: bytes
    target: bytes
    version: int
    headers: list[Header]
    content_length: int
    chunked: bool
    keep_alive: bool
    upgrade: bytes | None
    expect_continue: bool
    host: bytes | None
    start_line: bytes

    def __repr__(self) -> str:
        return f"<RequestHead {self.start_line!r} {len(self.headers)} headers>"


def parse_request_head(
    data: bytes, cache: HeadCache, max_headers: int = MAX_HEADERS
) -> RequestHead:
    """Parse one whole head, up to and with the final CRLFCRLF (see `framing.find_head_end`).

    Raises BadMessage with the status to answer: 400, or 422 for a transfer coding that is not supported.
    """
    lines = data.split(b"\r\n")
    start_line = lines[0]
    start = cache.requests.get(start_line)
    if start is None:
        if not start_line:
            return parse_request_head(data[skip_empty_lines(data) :], cache, max_headers)
        start = _parse_start_line(start_line, cache)
    # the head ends with an empty line: the last two pieces are empty
    headers: list[Header] = list(map(cache.get, lines[1:-2]))  # type: ignore[arg-type]
    if None in headers:
        _parse_fields(lines, headers, cache)
    if len(headers) > max_headers:
        raise BadMessage(400, "too many headers")

    head = RequestHead()
    head.start_line = start_line
    head.method, head.target, version, form = start
    head.version = version
    head.headers = headers
    head.content_length = -1
    head.chunked = False
    head.upgrade = None
    head.expect_continue = False
    head.host = None
    head.keep_alive = version == 11
    special = False
    for header in headers:
        kind = header[3]
        if kind:
            if kind == K_HOST and head.host is None:
                head.host = header[1]
            elif kind < K_PASSIVE:
                special = True
    if special or form:
        _apply_special(head, form, cache)
    return head


def _parse_start_line(line: bytes, cache: HeadCache) -> tuple[bytes, bytes, int, int]:
    match = _START.fullmatch(line)
    if match is None:
        raise _refuse_start_line(line)
    method, target, minor = match.groups()
    form = target_form(method, target)
    start = (method, target, 10 if minor == b"0" else 11, form)
    if len(line) <= CACHED_LINE_MAX and b"?" not in target:
        requests = cache.requests
        if len(requests) >= cache.limit:
            requests.clear()
        requests[line] = start
    return start


def _refuse_start_line(line: bytes) -> BadMessage:
    method, _, rest = line.partition(b" ")
    match = re.match(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]*", method)
    good = match.end() if match is not None else 0
    if good < len(method) or not method:
        return BadMessage(400, "bad character in the method", good)
    for index, byte in enumerate(rest, len(method) + 1):
        if byte <= 0x1F or byte >= 0x7F or byte == 0x23:
            return BadMessage(400, "bad character in the request target", index)
    words = line.split()
    if len(words) == 3 and re.fullmatch(rb"HTTP/[0-9]\.[0-9]", words[2]):
        return BadMessage(400, "unsupported HTTP version", line.rfind(words[2]))
    return BadMessage(400, "bad request line", 0)


def _parse_fields(lines: list[bytes], headers: list[Header], cache: HeadCache) -> None:
    """Parse the lines that were not in the cache; their places in `headers` hold None."""
    for index, header in enumerate(headers):
        if header is None:
            line = lines[index + 1]
            parsed = cache.field(line)
            if parsed is None:
                position = sum(map(len, lines[: index + 1])) + 2 * (index + 1)
                raise refuse_field_line(line, position)
            headers[index] = parsed


def _apply_special(head: RequestHead, form: int, cache: HeadCache) -> None:
    """Act upon the fields that say how the message is framed and what becomes of the connection."""
    codings: list[bytes] = []
    lengths = hosts = 0
    length = -1
    connection = 0
    upgrade: bytes | None = None
    websocket_key = False
    listed = False
    for _, value, _, kind in head.headers:
        if kind == K_HOST:
            hosts += 1
            if value != head.host:
                raise BadMessage(400, "different Host headers")
        elif kind == K_CONNECTION:
            connection |= cache.connection(value)
        elif kind == K_CONTENT_LENGTH:
            lengths += 1
            listed = listed or b"," in value
            length = parse_content_length(value, length)
        elif kind == K_TRANSFER_ENCODING:
            codings.append(value)
        elif kind == K_UPGRADE:
            upgrade = value if upgrade is None else upgrade + b", " + value
        elif kind == K_EXPECT:
            if value.lower() == b"100-continue" and head.version == 11:
                head.expect_continue = True
        elif kind == K_WEBSOCKET_KEY:
            websocket_key = True

    if connection & CONNECTION_CLOSE:
        head.keep_alive = False
    elif connection & CONNECTION_KEEP_ALIVE:
        head.keep_alive = True
    if codings:
        check_transfer_encoding(codings)
        head.chunked = True
        if lengths or head.version == 10:
            # RFC 9112 section 6.1: the framing is suspect, nothing may follow on this connection
            head.keep_alive = False
        if lengths:
            head.headers = [h for h in head.headers if h[3] != K_CONTENT_LENGTH]
    elif lengths:
        head.content_length = length
        if lengths > 1 or listed:
            head.headers = single_length(head.headers, K_CONTENT_LENGTH, length)
    if hosts > 1:
        first = next(h for h in head.headers if h[3] == K_HOST)
        head.headers = [h for h in head.headers if h[3] != K_HOST or h is first]
    if upgrade is not None and connection & CONNECTION_UPGRADE:
        if head.chunked or length > 0:
            # a request with a body is not upgraded: the offer is withdrawn
            head.headers = [h for h in head.headers if h[3] != K_UPGRADE]
        else:
            if upgrade.lower() == b"websocket" and not websocket_key:
                raise BadMessage(400, "WebSocket handshake without a key")
            head.upgrade = upgrade
    if form in (ABSOLUTE, AUTHORITY):
        check_authority(head, form)


assert ORIGIN == 0  # the fast path tests the form for truth
