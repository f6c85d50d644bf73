"""Header fields as immutable tuples, and the per-thread cache that makes parsing one a dict look-up.

A `Header` is `(name, value, wire, kind)`: the lower-cased name, the value without surrounding white
space, the line as it goes out on the next connection, and a small integer that says whether the
codec itself cares about the field. `kind` 0 means that it does not; a head made of such fields costs one dict
look-up a line and nothing else.

`wire` is `b"name: value\\r\\n"` except for the fields that belong to one connection only, whose outgoing
form is already right (RFC 9110 section 7.6.1): `Connection` loses `close` and `keep-alive`, `TE` keeps only
`trailers`; nothing left means `b""`. So a head is written with
`b"".join([header[2] for header in headers])`, while rules and logs see the value that came.

A `HeadCache` belongs to one thread. Everything else here is immutable and may be used from any thread.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from mtproxy.http.errors import BadMessage

Header: TypeAlias = tuple[bytes, bytes, bytes, int]

K_NONE: Final = 0
K_HOST: Final = 1
K_CONNECTION: Final = 2
K_CONTENT_LENGTH: Final = 3
K_TRANSFER_ENCODING: Final = 4
K_UPGRADE: Final = 5
K_EXPECT: Final = 6
K_TE: Final = 7
K_WEBSOCKET_KEY: Final = 8
K_WEBSOCKET_ACCEPT: Final = 9
#: kinds from here on need no work in the codec; they are told apart for the layers above
K_PASSIVE: Final = 16
K_KEEP_ALIVE: Final = 16
K_PROXY_CONNECTION: Final = 17
K_TRAILER: Final = 18
K_COOKIE: Final = 19
K_SET_COOKIE: Final = 20
K_AUTHORIZATION: Final = 21
K_PROXY_AUTHORIZATION: Final = 22

KINDS: Final[dict[bytes, int]] = {
    b"host": K_HOST,
    b"connection": K_CONNECTION,
    b"content-length": K_CONTENT_LENGTH,
    b"transfer-encoding": K_TRANSFER_ENCODING,
    b"upgrade": K_UPGRADE,
    b"expect": K_EXPECT,
    b"te": K_TE,
    b"sec-websocket-key": K_WEBSOCKET_KEY,
    b"sec-websocket-accept": K_WEBSOCKET_ACCEPT,
    b"keep-alive": K_KEEP_ALIVE,
    b"proxy-connection": K_PROXY_CONNECTION,
    b"trailer": K_TRAILER,
    b"cookie": K_COOKIE,
    b"set-cookie": K_SET_COOKIE,
    b"authorization": K_AUTHORIZATION,
    b"proxy-authorization": K_PROXY_AUTHORIZATION,
}

#: fields that are never kept in a cache: secrets, and values that do not come twice
_UNCACHED_KINDS: Final = frozenset(
    {K_COOKIE, K_SET_COOKIE, K_AUTHORIZATION, K_PROXY_AUTHORIZATION, K_WEBSOCKET_KEY, K_WEBSOCKET_ACCEPT}
)
#: longer lines are parsed each time
CACHED_LINE_MAX: Final = 256

#: tokens of Connection that the codec acts upon, as bits
CONNECTION_CLOSE: Final = 1
CONNECTION_KEEP_ALIVE: Final = 2
CONNECTION_UPGRADE: Final = 4

# RFC 9110 section 5.1: field-name = token; section 5.5: no control characters but HTAB in a value.
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([\t\x20-\x7e\x80-\xff]*)")
_match_field = _FIELD.fullmatch
_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


def is_token(data: bytes) -> bool:
    """Is this a token of RFC 9110 section 5.6.2 (a method or a field name)?"""
    return _TOKEN.fullmatch(data) is not None


def connection_flags(value: bytes) -> int:
    """The CONNECTION_* bits of a value of Connection (names of tokens in any case)."""
    flags = 0
    for token in value.lower().split(b","):
        token = token.strip(b" \t")
        if token == b"close":
            flags |= CONNECTION_CLOSE
        elif token == b"keep-alive":
            flags |= CONNECTION_KEEP_ALIVE
        elif token == b"upgrade":
            flags |= CONNECTION_UPGRADE
    return flags


def _connection_wire(value: bytes) -> bytes:
    kept = [
        token
        for token in (part.strip(b" \t") for part in value.split(b","))
        if token and token.lower() not in (b"close", b"keep-alive")
    ]
    return b"connection: " + b", ".join(kept) + b"\r\n" if kept else b""


def _te_wire(value: bytes) -> bytes:
    for token in value.lower().split(b","):
        if token.strip(b" \t") == b"trailers":
            return b"te: trailers\r\n"
    return b""


def make_header(name: bytes, value: bytes) -> Header:
    """A Header from a lower-cased name and a trimmed value that are known to be valid."""
    kind = KINDS.get(name, 0)
    if kind == K_CONNECTION:
        wire = _connection_wire(value)
    elif kind == K_TE:
        wire = _te_wire(value)
    else:
        wire = name + b": " + value + b"\r\n"
    return (name, value, wire, kind)


def parse_field_line(line: bytes) -> Header | None:
    """One header line without its line end; None when it is malformed (or a folded line)."""
    match = _match_field(line)
    if match is None:
        return None
    name, value = match.groups()
    return make_header(name.lower(), value.strip(b" \t"))


def refuse_field_line(line: bytes, position: int) -> BadMessage:
    """The error for a line that `parse_field_line` refused; `position` is the line's offset."""
    if line[:1] in (b" ", b"\t"):
        return BadMessage(400, "folded header line", position)
    name, colon, value = line.partition(b":")
    if not colon:
        return BadMessage(400, "header line without a colon", position)
    match = _TOKEN.match(name)
    good = match.end() if match is not None else 0
    if good < len(name) or not name:
        return BadMessage(400, "bad character in a header name", position + good)
    for index, byte in enumerate(value):
        if byte == 0x7F or (byte < 0x20 and byte != 0x09):
            return BadMessage(
                400, "control character in a header value", position + len(name) + 1 + index
            )
    return BadMessage(400, "bad header line", position)


class HeadCache:
    """What one thread remembers of the lines it has parsed; bounded, cleared whole when full.

    `lines` maps a raw header line to its Header; `requests` and `statuses` map start lines to what the
    request and response parsers made of them; `connections` maps values of Connection to their
    bits. Long lines, cookies, credentials and targets with a query are never kept.
    """

    __slots__ = ("connections", "get", "limit", "lines", "requests", "statuses")

    def __init__(self, limit: int = 2048) -> None:
        self.limit = limit
        self.lines: dict[bytes, Header] = {}
        # bound once: the dict is cleared in place and never replaced
        self.get = self.lines.get
        self.requests: dict[bytes, tuple[bytes, bytes, int, int]] = {}
        self.statuses: dict[bytes, tuple[int, bytes, int]] = {}
        self.connections: dict[bytes, int] = {}

    def field(self, line: bytes) -> Header | None:
        """Parse one header line that is not in `lines`, and keep it if it may be kept."""
        header = parse_field_line(line)
        if (
            header is not None
            and len(line) <= CACHED_LINE_MAX
            and header[3] not in _UNCACHED_KINDS
        ):
            lines = self.lines
            if len(lines) >= self.limit:
                lines.clear()
            lines[line] = header
        return header

    def connection(self, value: bytes) -> int:
        """The CONNECTION_* bits of a value of Connection."""
        flags = self.connections.get(value)
        if flags is None:
            flags = connection_flags(value)
            if len(value) <= CACHED_LINE_MAX:
                if len(self.connections) >= 64:
                    self.connections.clear()
                self.connections[value] = flags
        return flags

    def _check(self) -> None:
        """Raise AssertionError if a bound or a rule of what may be kept is broken."""
        assert self.get == self.lines.get
        for table in (self.lines, self.requests, self.statuses, self.connections):
            assert len(table) <= self.limit
        for line, header in self.lines.items():
            assert len(line) <= CACHED_LINE_MAX
            assert header == parse_field_line(line)
            assert header[3] not in _UNCACHED_KINDS
        for value, flags in self.connections.items():
            assert flags == connection_flags(value)
