"""What one thread remembers of the heads it has parsed, so that a repeated line costs a look-up.

Three steps, each taken only where it cannot go wrong: a start line, a header line, and a whole
header block. A block is remembered when all of its lines were known already, that is on its
second appearance; so a head with a line that never comes twice (a trace identifier, a cookie)
does not enter.

Never kept: long lines, cookies and credentials, request lines with a query. Each table is
bounded, and cleared whole when full.

A HeadCache belongs to one thread, which alone may use it. There is no lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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

if TYPE_CHECKING:
    from mtproxy.http.h1_request import RequestHead
    from mtproxy.http.h1_response import ResponseHead

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

#: method, target, version (10 or 11), line for logs, line with CRLF for the wire, form (see
#: h1_request)
type RequestStart = tuple[bytes, bytes, int, bytes, bytes, int]
#: status, reason, version, line for logs, line with CRLF for the wire, rule (see h1_response)
type ResponseStart = tuple[int, bytes, int, bytes, bytes, int]
#: headers, content_length, chunked, keep_alive, upgrade, expect_continue, host
type RequestFields = tuple[list[Header], int, bool, bool, bytes | None, bool, bytes | None]
#: headers, content_length, chunked, keep_alive, upgrade
type ResponseFields = tuple[list[Header], int, bool, bool, bytes | None]
#: the fields of a block and its outgoing form
type RequestBlock = tuple[RequestFields, bytes]
type ResponseBlock = tuple[ResponseFields, bytes]


def block_wire(headers: list[Header]) -> bytes:
    """A header block as it goes out, with the empty line that ends it."""
    return b"".join([header[2] for header in headers]) + b"\r\n"


class HeadCache:
    """The tables of one thread, and the rules that its parsers apply.

    `max_headers`: a head with more fields is refused. `payload_with_any_method`: accept a body on
    GET, HEAD and DELETE in HTTP/1.0 (HAProxy's global keyword h1-accept-payload-with-any-method).
    `entries_max`: entries of one table.
    """

    __slots__ = (
        "connections",
        "entries_max",
        "get",
        "lines",
        "max_headers",
        "payload_with_any_method",
        "request_blocks",
        "request_heads",
        "requests",
        "response_blocks",
        "response_heads",
        "responses",
    )

    def __init__(
        self,
        max_headers: int = MAX_HEADERS,
        *,
        payload_with_any_method: bool = False,
        entries_max: int = ENTRIES_MAX,
    ) -> None:
        self.max_headers = max_headers
        self.entries_max = entries_max
        self.payload_with_any_method = payload_with_any_method
        self.lines: dict[bytes, Header] = {}
        # bound once: the table is cleared in place, never replaced
        self.get = self.lines.get
        self.requests: dict[bytes, RequestStart] = {}
        self.responses: dict[bytes, ResponseStart] = {}
        self.request_blocks: dict[bytes, RequestBlock] = {}
        self.response_blocks: dict[bytes, ResponseBlock] = {}
        self.connections: dict[bytes, int] = {}
        # whole heads, once their parts have come before: see parse_request_head
        self.request_heads: dict[bytes, RequestHead] = {}
        self.response_heads: dict[bytes, ResponseHead] = {}

    def keep[T](self, table: dict[bytes, T], key: bytes, value: T, longest: int = LINE_MAX) -> None:
        """Put an entry into one of the tables, unless its key is longer than `longest` bytes."""
        if len(key) <= longest:
            if len(table) >= self.entries_max:
                table.clear()
            table[key] = value

    def connection(self, value: bytes) -> int:
        """The CONNECTION_* bits of a value of Connection."""
        flags = self.connections.get(value)
        if flags is None:
            flags = connection_flags(value)
            self.keep(self.connections, value, flags)
        return flags

    def _check(self) -> None:
        """Raise AssertionError if a bound, or a rule of what may be kept, is broken."""
        assert self.get == self.lines.get
        for table, longest in (
            (self.lines, LINE_MAX),
            (self.requests, LINE_MAX),
            (self.responses, LINE_MAX),
            (self.request_blocks, BLOCK_MAX),
            (self.response_blocks, BLOCK_MAX),
            (self.request_heads, BLOCK_MAX),
            (self.response_heads, BLOCK_MAX),
            (self.connections, LINE_MAX),
        ):
            assert len(table) <= self.entries_max
            assert all(len(key) <= longest for key in table)
        for line, header in self.lines.items():
            assert header == parse_field_line(line)
            assert header[3] not in UNCACHED_KINDS
        assert not any(b"?" in line for line in self.requests)
        for data, request in self.request_heads.items():
            assert b"?" not in data.partition(b"\r\n")[0]
            assert not any(header[3] in UNCACHED_KINDS for header in request.headers)
        for response in self.response_heads.values():
            assert not any(header[3] in UNCACHED_KINDS for header in response.headers)
        for value, flags in self.connections.items():
            assert flags == connection_flags(value)
        blocks = [fields[0] for fields, _ in self.request_blocks.values()]
        blocks += [fields[0] for fields, _ in self.response_blocks.values()]
        for headers in blocks:
            assert len(headers) <= self.max_headers
            assert not any(header[3] in UNCACHED_KINDS for header in headers)
