"""Request heads: the bytes of one head in, a `RequestHead` out, or BadMessage.

The way of most requests: one dict look-up for the start line and one for the header block; a
block that is not known costs one look-up a line and a pass over the kinds. Only fields that the
codec acts upon cost more. What is refused, and why, stands in docs/http1.md. Called by the thread
that owns the HeadCache given.
"""

from __future__ import annotations

import re
from typing import Any, Final, cast

from mtproxy.http.cache import (
    BLOCK_MAX,
    HeadCache,
    RequestBlock,
    RequestFields,
    RequestStart,
    block_wire,
)
from mtproxy.http.errors import BadMessage
from mtproxy.http.fields import NO_INDEX
from mtproxy.http.framing import (
    lists_websocket,
    parse_lines,
    scan_fields,
    skip_empty_lines,
    without,
)
from mtproxy.http.headers import (
    CONNECTION_CLOSE,
    CONNECTION_KEEP_ALIVE,
    CONNECTION_UPGRADE,
    K_HOST,
    K_UPGRADE,
    K_WEBSOCKET_KEY,
    TCHAR,
    Header,
    make_header,
)
from mtproxy.http.uri import ASTERISK, ORIGIN, agree, target_form

# HAProxy takes several spaces between the parts, and so do its users' scripts; the line goes on
# with single ones. A fragment is not part of a target (RFC 9112 section 3.2).
_match_start = re.compile(
    rb"([" + TCHAR + rb"]+) +([\x21\x22\x24-\x7e]+) +HTTP/1\.([0-9])"
).fullmatch
_match_method = re.compile(rb"[" + TCHAR + rb"]*").match
_search_bad_target = re.compile(rb"[^\x20-\x22\x24-\x7e]").search

#: form of a start line that needs no look at the headers: origin form in HTTP/1.1
_PLAIN: Final = ORIGIN
#: form of everything else that has no authority to compare with Host
_OTHER: Final = ASTERISK
#: a WebSocket key is 16 bytes in base64 (RFC 6455 section 4.1)
_WEBSOCKET_KEY_LENGTH: Final = 24


#: methods whose responses have rules of their own
_UNUSUAL_METHODS: Final = frozenset({b"HEAD", b"CONNECT"})


class RequestHead:
    """A parsed request head. It belongs to one thread, and may serve many requests: whoever wants
    to change anything does so in a `copy()`.

    `version` is 10 or 11 (1.2 to 1.9 count as 11). `content_length` is -1 when there is none or
    when the body is `chunked`. `keep_alive` is the client's wish after version and Connection,
    and False where the framing forbids a further message. `upgrade` is the value of Upgrade if
    Connection lists it. `host` is the value of Host. `start_line` is the normal form of the
    request line, for logs; `start_wire` the same with CRLF, to be sent as long as method and
    target stay what they are. `wire` is the header block as it goes out, its empty line included,
    as long as `headers` stays what it is; `message` is both together.
    `usual`: HTTP/1.1, kept alive, without a body, and answered by the usual rules.
    """

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
    #: see http.fields
    index: dict[bytes, list[Any]] | None
    start_line: bytes
    start_wire: bytes
    wire: bytes
    message: bytes
    usual: bool
    #: what rules made of it, see stream.repeats
    outcome: Any = None

    def copy(self) -> RequestHead:
        """A head of one's own, to be changed. `seal` it before it is sent."""
        # a dictionary copied at once costs half of what its attributes cost one by one
        other = RequestHead.__new__(RequestHead)
        other.__dict__ = self.__dict__.copy()
        other.headers = self.headers.copy()
        other.index = NO_INDEX
        other.outcome = None
        return other

    def seal(self) -> None:
        """Make the wire form anew after method, target or headers were changed.

        `start_line` stays what was received: logs speak of that.
        """
        self.start_wire = b"%b %b HTTP/1.%d\r\n" % (self.method, self.target, self.version - 10)
        self.wire = b"".join([header[2] for header in self.headers]) + b"\r\n"
        self.message = self.start_wire + self.wire

    def __repr__(self) -> str:
        return f"<RequestHead {self.start_line!r} {len(self.headers)} headers>"


def request_line(method: bytes, target: bytes, version: int) -> bytes:
    """A request line with its CRLF, for a head whose method or target was changed."""
    return b"%s %s HTTP/1.%d\r\n" % (method, target, version - 10)


def parse_request_head(data: bytes, cache: HeadCache) -> RequestHead:
    """Parse one whole head, up to and with the final CRLFCRLF (see `framing.find_head_end`).

    Raises BadMessage with the status to answer: 400; 413 for a body that its method may not have
    in HTTP/1.0; 422 for a transfer coding that is not supported. Raises ValueError if `data` does
    not end as a head does.
    """
    known = cache.request_heads.get(data)
    if known is not None:
        return known
    line, _, block = data.partition(b"\r\n")
    start = cache.requests.get(line)
    seen = start is not None
    if start is None:
        if not line:
            return _parse_after_empty_lines(data, cache)
        start = _parse_start_line(line, cache)
    head = RequestHead()
    head.method, head.target, version, head.start_line, head.start_wire, form = start
    head.version = version
    found = None if form else cache.request_blocks.get(block)
    if found is None:
        seen = False
        found = _parse_block(head, block, len(line) + 2, form, cache)
    fields, head.wire = found
    (
        headers,
        head.content_length,
        head.chunked,
        head.keep_alive,
        head.upgrade,
        head.expect_continue,
        head.host,
    ) = fields
    # the list in the cache stays as it is
    head.headers = headers.copy()
    head.index = None
    head.message = head.start_wire + head.wire
    head.usual = (
        head.keep_alive
        and head.content_length <= 0
        and not head.chunked
        and version == 11
        and head.method not in _UNUSUAL_METHODS
    )
    if seen:
        cache.keep(cache.request_heads, data, head, BLOCK_MAX)
    return head


def _parse_after_empty_lines(data: bytes, cache: HeadCache) -> RequestHead:
    skipped = skip_empty_lines(data)
    if skipped in (0, len(data)):
        raise ValueError("not a whole head")
    try:
        return parse_request_head(data[skipped:], cache)
    except BadMessage as error:
        if error.position < 0:
            raise
        raise BadMessage(error.status, error.reason, error.position + skipped) from None


def _parse_block(
    head: RequestHead, block: bytes, position: int, form: int, cache: HeadCache
) -> RequestBlock:
    """The fields and the outgoing form of a header block, at `position`, which is not cached."""
    lines = block.split(b"\r\n")
    if len(lines) < 2 or lines.pop() or lines.pop():
        raise ValueError("not a whole head")
    looked_up = list(map(cache.get, lines))
    known = None not in looked_up
    if len(lines) > cache.max_headers:
        raise BadMessage(400, "too many headers")
    if not known:
        parse_lines(lines, looked_up, cache, position, 400)
    headers = cast("list[Header]", looked_up)
    active = [header for header in headers if header[3] > 0]
    if form or len(active) > 1 or (active and active[0][3] != K_HOST):
        fields = _read_fields(head, headers, active, form, cache)
    else:
        fields = (headers, -1, False, True, None, False, active[0][1] if active else None)
    parsed = (fields, block_wire(fields[0]))
    if known and not form:
        cache.keep(cache.request_blocks, block, parsed, BLOCK_MAX)
    return parsed


def _parse_start_line(line: bytes, cache: HeadCache) -> RequestStart:
    match = _match_start(line)
    if match is None:
        raise _refuse_start_line(line)
    method, target, minor = match.groups()
    form = target_form(method, target)
    version = 11
    if minor == b"0":
        version = 10
        form = form or _OTHER
    wire = request_line(method, target, version)
    start = (method, target, version, wire[:-2], wire, form)
    if b"?" not in target:
        cache.keep(cache.requests, line, start)
    return start


def _refuse_start_line(line: bytes) -> BadMessage:
    """The error for a request line that the pattern does not match."""
    match = _match_method(line)
    good = match.end() if match is not None else 0
    if not good or line[good : good + 1] not in (b" ", b""):
        return BadMessage(400, "bad character in the method", good)
    bad = _search_bad_target(line, good)
    if bad is not None:
        return BadMessage(400, "bad character in the request target", bad.start())
    words = line.split()
    if len(words) == 3 and words[2].startswith(b"HTTP/") and line.endswith(words[2]):
        return BadMessage(400, "unsupported HTTP version", len(line) - len(words[2]))
    return BadMessage(400, "bad request line", 0)


def _read_fields(
    head: RequestHead, headers: list[Header], active: list[Header], form: int, cache: HeadCache
) -> RequestFields:
    """Act upon what the headers say of the message's length, its connection and its authority."""
    headers, connection, length, chunked, doubtful, upgrade, expect, host = scan_fields(
        headers, active, cache, 400
    )
    method = head.method
    keep_alive = head.version == 11
    if connection:
        if connection & CONNECTION_CLOSE:
            keep_alive = False
        elif connection & CONNECTION_KEEP_ALIVE:
            keep_alive = True
    if chunked or length > 0:
        if method == b"CONNECT":
            # its content has no meaning, and peers differ in what they take for the tunnel's
            # first byte (RFC 9110 section 9.3.6)
            raise BadMessage(400, "CONNECT with a body")
        if head.version == 10:
            if method in (b"GET", b"HEAD", b"DELETE") and not cache.payload_with_any_method:
                raise BadMessage(413, "body on a method that has none in HTTP/1.0")
            # RFC 9112 section 6.1: chunked is not of HTTP/1.0, nothing may follow
            doubtful = doubtful or chunked
        if upgrade is not None and connection & CONNECTION_UPGRADE:
            # a request with a body is not upgraded: the offer is withdrawn
            headers = without(headers, K_UPGRADE)
            upgrade = None
        if doubtful:
            keep_alive = False
    if not upgrade or not connection & CONNECTION_UPGRADE:
        upgrade = None
    elif lists_websocket(upgrade):
        keys = [header[1] for header in active if header[3] == K_WEBSOCKET_KEY]
        if len(keys) != 1 or len(keys[0]) != _WEBSOCKET_KEY_LENGTH:
            raise BadMessage(400, "WebSocket handshake without a good key")
    if form not in (ORIGIN, _OTHER):
        target, agreed = agree(head.target, form, host)
        if target != head.target:
            head.target = target
            head.start_wire = request_line(method, target, head.version)
            head.start_line = head.start_wire[:-2]
        if agreed is not None and agreed != host:
            plain = make_header(b"host", agreed)
            headers = [plain if header[3] == K_HOST else header for header in headers]
            host = agreed
    return headers, length, chunked, keep_alive, upgrade, expect and head.version == 11, host
