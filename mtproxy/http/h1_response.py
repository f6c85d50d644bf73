"""Response heads: the bytes of one head in, a `ResponseHead` out, or BadMessage.

The same way as in h1_request: one look-up for the status line, one for the header block or one a
line. Called by the thread that owns the HeadCache given.
"""

from __future__ import annotations

import re
from typing import Any, Final, cast

from mtproxy.http.cache import (
    BLOCK_MAX,
    HeadCache,
    ResponseBlock,
    ResponseFields,
    ResponseStart,
    block_wire,
)
from mtproxy.http.errors import BadMessage
from mtproxy.http.fields import NO_INDEX
from mtproxy.http.framing import lists_websocket, parse_lines, scan_fields, without
from mtproxy.http.headers import (
    CONNECTION_CLOSE,
    CONNECTION_KEEP_ALIVE,
    CONNECTION_UPGRADE,
    K_CONTENT_LENGTH,
    K_TRANSFER_ENCODING,
    K_WEBSOCKET_ACCEPT,
    Header,
)

#: how the body after a response head is delimited
BODY_NONE: Final = 0
BODY_LENGTH: Final = 1
BODY_CHUNKED: Final = 2
BODY_UNTIL_CLOSE: Final = 3

# a status line may lack its reason, and even the space before it; spaces before the reason are
# dropped
_match_start = re.compile(
    rb"HTTP/1\.([0-9]) ([1-9][0-9]{2})(?: [ \t]*([\t\x20-\x7e\x80-\xff]*))?"
).fullmatch

# rules of a status line, in the order that the fast path tests them
#: HTTP/1.1 and a status that may have a body
_PLAIN: Final = 0
#: HTTP/1.0 and a status that may have a body
_OLD: Final = 1
#: 304: no body, whatever length it speaks of
_NOT_MODIFIED: Final = 2
#: 1xx and 204: neither a body nor fields that describe one
_EMPTY: Final = 3


#: methods whose responses have rules of their own for the body
_SPECIAL_METHODS: Final = frozenset({b"HEAD", b"CONNECT"})


class ResponseHead:
    """A parsed response head. It belongs to one thread, and may serve many responses: whoever wants
    to change anything does so in a `copy()`.

    `version` is 10 or 11. `content_length` is -1 when there is none or when the body is
    `chunked`. `keep_alive` is the server's wish after version and Connection, and False where the
    framing forbids a further message. `upgrade` is the value of Upgrade if Connection lists it.
    `body` is the BODY_* rule for the method that the head was parsed for. `start_line` is the
    normal form of the status line; `start_wire` the same with CRLF, to be sent as long as status
    and reason stay what they are. `wire` is the header block as it goes out, its empty line
    included, as long as `headers` stays what it is; `message` is both together.
    `usual`: HTTP/1.1, kept alive, with a body of known length.
    """

    status: int
    reason: bytes
    version: int
    headers: list[Header]
    #: see http.fields
    index: dict[bytes, list[Any]] | None
    content_length: int
    chunked: bool
    keep_alive: bool
    upgrade: bytes | None
    body: int
    start_line: bytes
    start_wire: bytes
    wire: bytes
    message: bytes
    usual: bool

    def copy(self) -> ResponseHead:
        """A head of one's own, to be changed. `seal` it before it is sent."""
        # a dictionary copied at once costs half of what its attributes cost one by one
        other = ResponseHead.__new__(ResponseHead)
        other.__dict__ = self.__dict__.copy()
        other.headers = self.headers.copy()
        other.index = NO_INDEX
        return other

    def seal(self) -> None:
        """Make the wire form anew after status, reason or headers were changed."""
        self.start_wire = b"HTTP/1.%d %d %b\r\n" % (self.version - 10, self.status, self.reason)
        self.wire = b"".join([header[2] for header in self.headers]) + b"\r\n"
        self.message = self.start_wire + self.wire

    def body_mode(self, method: bytes) -> int:
        """The BODY_* rule of this response to a request with `method` (RFC 9112 section 6.3).

        After 101 and after 2xx to CONNECT there is no body either: what follows belongs to the
        tunnel.
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


def make_response(
    status: int, reason: bytes, headers: list[Header], length: int, *, version: int = 11
) -> ResponseHead:
    """The head of a response that is made here. Its wire form is made by `seal`."""
    head = ResponseHead()
    head.status = status
    head.reason = reason
    head.version = version
    head.headers = headers
    head.index = NO_INDEX
    head.content_length = length
    head.chunked = False
    head.keep_alive = True
    head.upgrade = None
    head.body = BODY_LENGTH
    head.start_line = b"HTTP/1.%d %d %b" % (version - 10, status, reason)
    head.usual = False
    head.seal()
    return head


def status_line(version: int, status: int, reason: bytes) -> bytes:
    """A status line with its CRLF, for a head whose status or reason was changed."""
    return b"HTTP/1.%d %d %s\r\n" % (version - 10, status, reason)


def parse_response_head(data: bytes, request_method: bytes, cache: HeadCache) -> ResponseHead:
    """Parse one whole head, up to and with the final CRLFCRLF (see `framing.find_head_end`).

    Raises BadMessage (502, and 422 where the server used a transfer coding that is not supported;
    the client gets 502 either way). Raises ValueError if `data` does not end as a head does. A
    101 to a request that asked for no upgrade is for the caller to refuse.
    """
    usual = request_method not in _SPECIAL_METHODS
    if usual:
        known = cache.response_heads.get(data)
        if known is not None:
            return known
    line, _, block = data.partition(b"\r\n")
    start = cache.responses.get(line)
    seen = start is not None and usual
    if start is None:
        start = _parse_start_line(line, cache)
    head = ResponseHead()
    head.status, head.reason, version, head.start_line, head.start_wire, rule = start
    head.version = version
    found = None if rule else cache.response_blocks.get(block)
    if found is None:
        seen = False
        found = _parse_block(head, block, len(line) + 2, rule, cache)
    fields, head.wire = found
    headers, length, chunked, head.keep_alive, head.upgrade = fields
    # the list in the cache stays as it is
    head.headers = headers.copy()
    head.index = None
    head.content_length = length
    head.chunked = chunked
    if request_method == b"GET" and rule < _NOT_MODIFIED:
        # as body_mode says, without a call
        head.body = BODY_LENGTH if length >= 0 else BODY_CHUNKED if chunked else BODY_UNTIL_CLOSE
    else:
        head.body = head.body_mode(request_method)
    head.message = head.start_wire + head.wire
    head.usual = head.keep_alive and head.body == BODY_LENGTH and version == 11
    if seen:
        cache.keep(cache.response_heads, data, head, BLOCK_MAX)
    return head


def _parse_block(
    head: ResponseHead, block: bytes, position: int, rule: int, cache: HeadCache
) -> ResponseBlock:
    """The fields and the outgoing form of a header block, at `position`, which is not cached."""
    lines = block.split(b"\r\n")
    if len(lines) < 2 or lines.pop() or lines.pop():
        raise ValueError("not a whole head")
    looked_up = list(map(cache.get, lines))
    known = None not in looked_up
    if len(lines) > cache.max_headers:
        raise BadMessage(502, "too many headers")
    if not known:
        parse_lines(lines, looked_up, cache, position, 502)
    headers = cast("list[Header]", looked_up)
    active = [header for header in headers if header[3] > 0]
    if active:
        fields = _read_fields(head, headers, active, rule, cache)
    else:
        fields = (headers, -1, False, head.version == 11, None)
    if head.status == 101 and fields[4] is None:
        raise BadMessage(502, "101 without an upgrade")
    parsed = (fields, block_wire(fields[0]))
    if known and not rule:
        cache.keep(cache.response_blocks, block, parsed, BLOCK_MAX)
    return parsed


def _parse_start_line(line: bytes, cache: HeadCache) -> ResponseStart:
    match = _match_start(line)
    if match is None:
        raise BadMessage(502, "bad status line", 0)
    minor, code, reason = match.groups(b"")
    status = int(code)
    version = 10 if minor == b"0" else 11
    if status < 200 or status == 204:
        rule = _EMPTY
    elif status == 304:
        rule = _NOT_MODIFIED
    else:
        rule = _OLD if version == 10 else _PLAIN
    reason = reason.rstrip(b" \t")
    wire = status_line(version, status, reason)
    start = (status, reason, version, wire[:-2], wire, rule)
    cache.keep(cache.responses, line, start)
    return start


def _read_fields(
    head: ResponseHead, headers: list[Header], active: list[Header], rule: int, cache: HeadCache
) -> ResponseFields:
    """Act upon what the headers say of the message's length and its connection."""
    headers, connection, length, chunked, doubtful, upgrade, _, _ = scan_fields(
        headers, active, cache, 502
    )
    keep_alive = head.version == 11
    if connection:
        if connection & CONNECTION_CLOSE:
            keep_alive = False
        elif connection & CONNECTION_KEEP_ALIVE:
            keep_alive = True
    if chunked and (doubtful or head.version == 10):
        # RFC 9112 section 6.1: the framing is in doubt, nothing may follow
        keep_alive = False
    if rule == _EMPTY and (chunked or length >= 0):
        # RFC 9110 section 8.6, RFC 9112 section 6.1
        headers = without(without(headers, K_CONTENT_LENGTH), K_TRANSFER_ENCODING)
        length = -1
        chunked = False
    if not upgrade or not connection & CONNECTION_UPGRADE:
        upgrade = None
    elif (
        head.status == 101
        and lists_websocket(upgrade)
        and not any(header[3] == K_WEBSOCKET_ACCEPT and header[1] for header in active)
    ):
        raise BadMessage(502, "WebSocket handshake without an accept key")
    return headers, length, chunked, keep_alive, upgrade
