"""The chunked coding (RFC 9112 section 7.1), incremental and strict, with its encoder.

A `ChunkedReader` is fed the bytes of one body as they come, in any pieces. `feed` gives back the
payload; `relay` gives back the same chunks for the next connection, which for well-formed input
are the very bytes that came: no payload is copied. A reader serves one of the two for its whole
life. It holds no more than one partial size line or the trailer section, and belongs to one
stream (and so to one thread).

Refused with BadMessage, where HAProxy 2.6 or h11 take it: line ends without CR, extensions with
control characters, sizes of more than 15 significant digits, trailer fields that frame or route a
message. Extensions are dropped, and so are trailer fields that a message may have in its head
only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from mtproxy.http.errors import BadMessage
from mtproxy.http.headers import Header, parse_field_line, refuse_field_line

#: bytes of a size line with its extensions
SIZE_LINE_MAX: Final = 1024
#: default bytes of the trailer section
TRAILERS_MAX: Final = 15360
#: default number of trailer fields
TRAILER_FIELDS_MAX: Final = 100

#: fields that frame or route a message: a trailer section with one is refused, like an attack
REFUSED_TRAILERS: Final = frozenset({b"content-length", b"host", b"transfer-encoding"})
#: fields that a trailer section must not carry on (RFC 9110 section 6.5.1): they are dropped
FORBIDDEN_TRAILERS: Final = frozenset(
    {
        b"authorization",
        b"cache-control",
        b"connection",
        b"content-encoding",
        b"content-range",
        b"content-type",
        b"cookie",
        b"expect",
        b"keep-alive",
        b"max-forwards",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"range",
        b"set-cookie",
        b"te",
        b"trailer",
        b"upgrade",
        b"www-authenticate",
    }
)

# a size line in the form in which it may go on as it is
_match_plain_size = re.compile(rb"([0-9A-Fa-f]{1,15})\r\n").match
# any good size line: up to 20 digits of which 15 count, white space, extensions
_match_size = re.compile(rb"0{0,5}([0-9A-Fa-f]{1,15})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?\r\n").match
# what the beginning of a good size line looks like
_match_size_part = re.compile(
    rb"0{0,5}[0-9A-Fa-f]{1,15}(?:[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?\r?)?"
).fullmatch
# what no further byte can turn into a good trailer section
_search_hopeless = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)").search

# states
_SIZE: Final = 0
_DATA: Final = 1
_DATA_END: Final = 2
_TRAILERS: Final = 3
_DONE: Final = 4

#: ends a chunked body that has no trailers
LAST_CHUNK: Final = b"0\r\n\r\n"


def encode_chunk(data: bytes) -> bytes:
    """One chunk. `data` must not be empty: that would end the body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def encode_last(trailers: Iterable[Header]) -> bytes:
    """The last chunk with its trailer section."""
    return b"0\r\n" + b"".join([header[2] for header in trailers]) + b"\r\n"


class ChunkedReader:
    """Reads one chunked body.

    `done` turns True after the empty line that ends the trailer section; then `trailers` holds
    the trailer fields that may go on, and `rest` the bytes after the message. `payload` counts
    the payload's bytes so far.
    """

    __slots__ = (
        "_fields_max",
        "_held",
        "_left",
        "_state",
        "_trailers_max",
        "done",
        "payload",
        "rest",
        "trailers",
    )

    def __init__(
        self, trailers_max: int = TRAILERS_MAX, fields_max: int = TRAILER_FIELDS_MAX
    ) -> None:
        self._trailers_max = trailers_max
        self._fields_max = fields_max
        self._state = _SIZE
        # bytes of the current chunk that have not come yet
        self._left = 0
        # bytes that wait for the rest of their line
        self._held = b""
        self.done = False
        self.rest = b""
        self.trailers: list[Header] = []
        self.payload = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The payload that `data` brought: slices in order, none empty.

        Raises BadMessage (400). Bytes fed after the end are added to `rest`.
        """
        out: list[bytes] = []
        self._read(data, out, relay=False)
        return out

    def relay(self, data: bytes) -> list[bytes]:
        """The chunks that `data` brought, to be sent on: pieces in order, none empty.

        Size lines come out without extensions, trailers in their wire form. Raises BadMessage
        (400) without giving back anything of `data`. Bytes fed after the end are added to `rest`.
        """
        out: list[bytes] = []
        self._read(data, out, relay=True)
        return out

    def _read(self, data: bytes, out: list[bytes], *, relay: bool) -> None:
        """The state machine, in one piece because every chunk passes it.

        `pos` is what has been read; of that, the bytes from `run` on are still to be relayed.
        """
        if self._held:
            data = self._held + data
            self._held = b""
        pos = run = 0
        size = len(data)
        while pos < size:
            state = self._state
            if state == _DATA:
                end = pos + self._left
                if end > size:
                    self._left = end - size
                    end = size
                else:
                    self._state = _DATA_END
                self.payload += end - pos
                if not relay:
                    out.append(data[pos:end])
                pos = end
            elif state == _DATA_END:
                if data.startswith(b"\r\n", pos):
                    pos += 2
                    self._state = _SIZE
                elif size - pos == 1 and data[pos] == 13:
                    self._held = b"\r"
                    break
                else:
                    raise BadMessage(400, "chunk data without CRLF after it")
            elif state == _SIZE:
                match = _match_plain_size(data, pos)
                plain = match is not None
                if match is None:
                    match = _match_size(data, pos, pos + SIZE_LINE_MAX)
                    if match is None:
                        self._hold_size(data[pos:])
                        break
                self._left = int(match[1], 16)
                if self._left:
                    if relay and not plain:
                        if run < pos:
                            out.append(data[run:pos])
                        out.append(b"%x\r\n" % self._left)
                        run = match.end()
                    pos = match.end()
                    self._state = _DATA
                    continue
                self._state = _TRAILERS
                if data.startswith(LAST_CHUNK, pos):
                    # nearly every body ends so: it goes on as it came
                    pos += len(LAST_CHUNK)
                    self._finish(data[pos:])
                    break
                if relay and run < pos:
                    out.append(data[run:pos])
                pos = run = match.end()
            elif state == _TRAILERS:
                end = self._read_trailers(data, pos)
                if end >= 0:
                    if relay:
                        out.append(encode_last(self.trailers))
                    self._finish(data[end:])
                pos = run
                break
            else:
                self.rest += data[pos:]
                pos = run
                break
        if relay and run < pos:
            out.append(data[run:pos])

    def _finish(self, rest: bytes) -> None:
        self._state = _DONE
        self.done = True
        self.rest = rest

    def _hold_size(self, part: bytes) -> None:
        """Keep an incomplete size line. Refuses at once what no further byte can mend."""
        if len(part) >= SIZE_LINE_MAX or _match_size_part(part) is None:
            raise BadMessage(400, "bad chunk size")
        self._held = part

    def _read_trailers(self, data: bytes, pos: int) -> int:
        """Index after the trailer section that begins at `pos`, or -1: kept until more comes."""
        if data.startswith(b"\r\n", pos):
            return pos + 2
        end = data.find(b"\r\n\r\n", pos)
        if (end if end >= 0 else len(data)) - pos > self._trailers_max:
            raise BadMessage(400, "trailer section too long")
        if end < 0:
            if _search_hopeless(data, pos) is not None:
                raise BadMessage(400, "bad line end in a trailer section")
            self._held = data[pos:]
            return -1
        lines = data[pos:end].split(b"\r\n")
        if len(lines) > self._fields_max:
            raise BadMessage(400, "too many trailer fields")
        for line in lines:
            header = parse_field_line(line)
            if header is None:
                error = refuse_field_line(line, -1)
                raise BadMessage(400, f"{error.reason} (trailer)")
            if header[0] in REFUSED_TRAILERS:
                raise BadMessage(400, "a trailer field that frames or routes a message")
            if header[0] not in FORBIDDEN_TRAILERS:
                self.trailers.append(header)
        return end + 4
