"""What one thread remembers of the heads it has parsed, so that a repeated line costs one look-up.

Three steps, each kept only where it cannot go wrong: a start line, a header line, and a whole header block. A
block is remembered when all of its lines were already known, which means on its second appearance: a head
with a line that is never the same twice (a trace identifier, a date, a cookie) does not enter.

Never kept: long lines, cookies and credentials, and start lines whose target has a query. Every table is
bounded and cleared whole when full.

A HeadCache belongs to one thread, which alone may use it. There is no lock.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from mtproxy.http.headers import (
    K_AUTHORIZATION,
    K_COOKIE,
    K_PROXY_AUTHORIZATION,
    K_SET_COOKIE,
    K_WEBSOCKET_ACCEPT,
    K_WEBSOCKET_KEY,
    Header,
    connection_flags,
    parse_field_line,
)

#: secrets, and values that do not come twice
UNCACHED_KINDS: Final = frozenset(
    {
        K_COOKIE,
        K_SET_COOKIE,
        K_AUTHORIZATION,
        K_PROXY_AUTHORIZATION,
        K_WEBSOCKET_KEY,
        K_WEBSOCKET_ACCEPT,
    }
)
#: longer lines (bytes) are parsed each time
LINE_MAX: Final = 256
#: longer header blocks (bytes) are looked up line by line
BLOCK_MAX: Final = 1024
#: default number of entries of a table
ENTRIES_MAX: Final = 1024
#: default for `max_headers`. HAProxy's tune.http.maxhdr (101) counts the end of the head as one.
MAX_HEADERS: Final = 100

#: method, target, version (10 or 11), line for logs, line with CRLF for the wire, form (see h1_request)
RequestStart: TypeAlias = tuple[bytes, bytes, int, bytes, bytes, int]
#: status, reason, version, line for logs, line with CRLF for the wire, rule (see h1_response)
ResponseStart: TypeAlias = tuple[int, bytes, int, bytes, bytes, int]
#: headers, content_length, chunked, keep_alive, upgrade, expect_continue, host
RequestFields: TypeAlias = tuple[list[Header], int, bool, bool, bytes | None, bool, bytes | None]
#: headers, content_length, chunked, keep_alive, upgrade
ResponseFields: TypeAlias = tuple[list[Header], int, bool, bool, bytes | None]


class HeadCache:
    """The tables of one thread, and the limits that its parsers apply.

    `max_headers`: more header fields than this are refused. `payload_with_any_method`: accept a body on GET,
    HEAD and DELETE in HTTP/1.0 (HAProxy's global keyword h1-accept-payload-with-any-method).
    """

    __slots__ = (
        "connections",
        "entries_max",
        "get",
        "lines",
        "max_headers",
        "payload_with_any_method",
        "request_blocks",
        "requests",
        "response_blocks",
        "responses",
    )

    def __init__(
        self,
        max_headers: int = MAX_HEADERS,
        payload_with_any_method: bool = False,
        entries_max: int = ENTRIES_MAX,
    ) -> None:
        self.max_headers = max_headers
        self.payload_with_any_method = payload_with_any_method
        self.entries_max = entries_max
        self.lines: dict[bytes, Header] = {}
        # bound once: the table is cleared in place, never replaced
        self.get = self.lines.get
        self.requests: dict[bytes, RequestStart] = {}
        self.responses: dict[bytes, ResponseStart] = {}
        self.request_blocks: dict[bytes, RequestFields] = {}
        self.response_blocks: dict[bytes, ResponseFields] = {}
        self.connections: dict[bytes, int] = {}

    def keep_line(self, line: bytes, header: Header) -> None:
        """Remember what a header line was parsed to, if it may be kept."""
        if len(line) <= LINE_MAX and header[3] not in UNCACHED_KINDS:
            lines = self.lines
            if len(lines) >= self.entries_max:
                lines.clear()
            lines[line] = header

    def keep_request(self, line: bytes, start: RequestStart) -> None:
        """Remember a parsed request line, if it may be kept."""
        if len(line) <= LINE_MAX and b"?" not in line:
            if len(self.requests) >= self.entries_max:
                self.requests.clear()
            self.requests[line] = start

    def keep_response(self, line: bytes, start: ResponseStart) -> None:
        """Remember a parsed status line, if it may be kept."""
        if len(line) <= LINE_MAX:
            if len(self.responses) >= self.entries_max:
                self.responses.clear()
            self.responses[line] = start

    def keep_request_block(self, block: bytes, fields: RequestFields) -> None:
        """Remember the fields of a header block whose lines are all in `lines`."""
        if len(block) <= BLOCK_MAX:
            if len(self.request_blocks) >= self.entries_max:
                self.request_blocks.clear()
            self.request_blocks[block] = fields

    def keep_response_block(self, block: bytes, fields: ResponseFields) -> None:
        """Remember the fields of a header block whose lines are all in `lines`."""
        if len(block) <= BLOCK_MAX:
            if len(self.response_blocks) >= self.entries_max:
                self.response_blocks.clear()
            self.response_blocks[block] = fields

    def connection(self, value: bytes) -> int:
        """The CONNECTION_* bits of a value of Connection."""
        flags = self.connections.get(value)
        if flags is None:
            flags = connection_flags(value)
            if len(value) <= LINE_MAX:
                if len(self.connections) >= self.entries_max:
                    self.connections.clear()
                self.connections[value] = flags
        return flags

    def clear(self) -> None:
        """Forget everything."""
        for table in self._tables():
            table.clear()

    def _tables(self) -> tuple[dict[bytes, object], ...]:
        return (  # type: ignore[return-value]
            self.lines,
            self.requests,
            self.responses,
            self.request_blocks,
            self.response_blocks,
            self.connections,
        )

    def _check(self) -> None:
        """Raise AssertionError if a bound, or a rule of what may be kept, is broken."""
        assert self.get == self.lines.get
        for table in self._tables():
            assert len(table) <= self.entries_max
            longest = (
                BLOCK_MAX if table in (self.request_blocks, self.response_blocks) else LINE_MAX
            )
            assert all(len(key) <= longest for key in table)
        for line, header in self.lines.items():
            assert header == parse_field_line(line)
            assert header[3] not in UNCACHED_KINDS
        assert not any(b"?" in line for line in self.requests)
        for value, flags in self.connections.items():
            assert flags == connection_flags(value)
        for headers in [f[0] for f in self.request_blocks.values()] + [
            f[0] for f in self.response_blocks.values()
        ]:
            assert len(headers) <= self.max_headers
            assert not any(header[3] in UNCACHED_KINDS for header in headers)
