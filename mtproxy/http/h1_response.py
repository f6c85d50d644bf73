"""Response heads: bytes of one head in, a `ResponseHead` out, or BadMessage.

The same way as h1_request: one dict look-up a line. Called by the thread that owns the HeadCache given.
"""

from __future__ import annotations

import re
from typing import Final

from mtproxy.http.errors import BadMessage
from mtproxy.http.framing import check_transfer_encoding, parse_content_length, single_length
from mtproxy.http.h1_request import MAX_HEADERS, _parse_fields
from mtproxy.http.headers import (
    CACHED_LINE_MAX,
    CONNECTION_CLOSE,
    CONNECTION_KEEP_ALIVE,
    CONNECTION_UPGRADE,
    K_CONNECTION,
    K_CONTENT_LENGTH,
    K_PASSIVE,
    K_TRANSFER_ENCODING,
    K_UPGRADE,
    K_WEBSOCKET_ACCEPT,
    HeadCache,
    Header,
)

#: body rules
BODY_NONE: Final = 0
BODY_LENGTH: Final = 1
BODY_CHUNKED: Final = 2
BODY_UNTIL_CLOSE: Final = 3

_START = re.compile(rb"HTTP/1\.([0-9]) ([1-9][0-9]{2})(?: ([\t\x20-\x7e\x80-\xff]*))?")


class ResponseHead:
    """A parsed response head. `headers` may be changed by its owner; everything is owned by one thread.

    `version` is 10 or 11. `content_length` is -1 when there is none or when the body is `chunked`.
    `keep_alive` is the server's wish after version and Connection (False also where the framing asks for a
    close). `upgrade` is the value of Upgrade if Connection lists it. `body` is the BODY_* rule for the method
    that the head was parsed for.
    """

    __slots__ = (
        "body",
        "chunked",
        "content_length",
        "headers",
        "keep_alive",
        "reason",
        "start_line",
        "status",
        "upgrade",
        "version",
    )

    status: int
    reason: bytes
    version: int
    headers: list[Header]
    content_length: int
    chunked: bool
    keep_alive: bool
    upgrade: bytes | None
    body: int
    start_line: bytes

    def body_mode(self, method: bytes) -> int:
        """The BODY_* rule of this response to a request with `method` (RFC 9112 section 6.3).

        A tunnel (101, or 2xx to CONNECT) has no body: what follows belongs to the tunnel.
        """
        status = self.status
        if method == b"HEAD" or status < 200 or status == 204 or status == 304:
            return BODY_NONE
        if method == b"CONNECT" and status < 300:
            return BODY_NONE
        if self.chunked:
            return BODY_CHUNKED
        if self.content_length >= 0:
            return BODY_LENGTH
        return BODY_UNTIL_CLOSE

    def __repr__(self) -> str:
        return f"<ResponseHead {self.start_line!r} {len(self.headers)} headers>"


def parse_response_head(
    data: bytes, request_method: bytes, cache: HeadCache, max_headers: int = MAX_HEADERS
) -> ResponseHead:
    """Parse one whole head, up to and with the final CRLFCRLF. Raises BadMessage with status 502."""
    lines = data.split(b"\r\n")
    start_line = lines[0]
    start = cache.statuses.get(start_line)
    if start is None:
        start = _parse_start_line(start_line, cache)
    headers: list[Header] = list(map(cache.get, lines[1:-2]))  # type: ignore[arg-type]
    if None in headers:
        _parse_fields(lines, headers, cache)
    if len(headers) > max_headers:
        raise BadMessage(502, "too many headers")
    head = ResponseHead()
    head.start_line = start_line
    head.status, head.reason, version = start
    head.version = version
    head.headers = headers
    head.content_length = -1
    head.chunked = False
    head.upgrade = None
    head.keep_alive = version == 11
    for header in headers:
        if header[3] and header[3] < K_PASSIVE:
            _apply_special(head, cache)
            break
    head.body = head.body_mode(request_method)
    return head


def _parse_start_line(line: bytes, cache: HeadCache) -> tuple[int, bytes, int]:
    match = _START.fullmatch(line)
    if match is None:
        raise BadMessage(502, "bad status line", 0)
    minor, status, reason = match.groups()
    start = (int(status), reason or b"", 10 if minor == b"0" else 11)
    if len(line) <= CACHED_LINE_MAX:
        if len(cache.statuses) >= cache.limit:
            cache.statuses.clear()
        cache.statuses[line] = start
    return start


def _apply_special(head: ResponseHead, cache: HeadCache) -> None:
    codings: list[bytes] = []
    lengths = 0
    length = -1
    connection = 0
    upgrade: bytes | None = None
    websocket_accept = False
    listed = False
    for _, value, _, kind in head.headers:
        if not kind:
            continue
        if kind == K_CONTENT_LENGTH:
            lengths += 1
            listed = listed or b"," in value
            length = parse_content_length(value, length, 502)
        elif kind == K_CONNECTION:
            connection |= cache.connection(value)
        elif kind == K_TRANSFER_ENCODING:
            codings.append(value)
        elif kind == K_UPGRADE:
            upgrade = value if upgrade is None else upgrade + b", " + value
        elif kind == K_WEBSOCKET_ACCEPT:
            websocket_accept = True
    if connection & CONNECTION_CLOSE:
        head.keep_alive = False
    elif connection & CONNECTION_KEEP_ALIVE:
        head.keep_alive = True
    if codings:
        check_transfer_encoding(codings, 502)
        head.chunked = True
        if lengths or head.version == 10:
            head.keep_alive = False
        if lengths:
            head.headers = [h for h in head.headers if h[3] != K_CONTENT_LENGTH]
    elif lengths:
        head.content_length = length
        if lengths > 1 or listed:
            head.headers = single_length(head.headers, K_CONTENT_LENGTH, length)
    if upgrade is not None and connection & CONNECTION_UPGRADE:
        if head.status == 101 and upgrade.lower() == b"websocket" and not websocket_accept:
            raise BadMessage(502, "WebSocket handshake without an accept key")
        head.upgrade = upgrade
