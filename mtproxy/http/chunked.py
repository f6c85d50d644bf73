"""The chunked coding (RFC 9112 section 7.1), incremental and strict.

`ChunkedReader` is fed bytes as they come, in any pieces, and gives back the payload. It holds no more than
one partial size line or the trailer section. One reader belongs to one stream (and so to one thread).
"""

from __future__ import annotations

import re
from typing import Final

from mtproxy.http.errors import BadMessage
from mtproxy.http.headers import Header, parse_field_line, refuse_field_line

#: a size line with its extensions may be this long, the trailer section too
SIZE_LINE_MAX: Final = 1024
TRAILERS_MAX: Final = 8192
TRAILER_FIELDS_MAX: Final = 100

#: up to 15 significant hexadecimal digits; leading zeros are allowed within the line's bound
_SIZE_LINE = re.compile(rb"0*([0-9A-Fa-f]{1,15})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?")

_SIZE: Final = 0
_DATA: Final = 1
_DATA_END: Final = 2
_TRAILERS: Final = 3
_DONE: Final = 4


class ChunkedReader:
    """Reads one chunked body.

    `done` turns True after the empty line that ends the trailer section; `trailers` then holds the trailer fields and
    `rest` the bytes that follow the message.
    """

    __slots__ = ("_held", "_left", "_state", "done", "rest", "trailers")

    def __init__(self) -> None:
        self._state = _SIZE
        self._left = 0
        self._held = b""
        self.done = False
        self.rest = b""
        self.trailers: list[Header] = []

    def feed(self, data: bytes) -> list[bytes]:
        """Payload slices that `data` brought, in order, none of them empty. Raises BadMessage (400)."""
        out: list[bytes] = []
        if self._held:
            data = self._held + data
            self._held = b""
        pos = 0
        size = len(data)
        while pos < size:
            state = self._state
            if state == _DATA:
                end = pos + self._left
                if end > size:
                    out.append(data[pos:])
                    self._left = end - size
                    return out
                out.append(data[pos:end])
                pos = end
                self._state = _DATA_END
            elif state == _DATA_END:
                if size - pos < 2:
                    if data[pos] != 13:
                        raise BadMessage(400, "chunk data not followed by CRLF")
                    self._held = data[pos:]
                    return out
                if data[pos : pos + 2] != b"\r\n":
                    raise BadMessage(400, "chunk data not followed by CRLF")
                pos += 2
                self._state = _SIZE
            elif state == _SIZE:
                end = data.find(b"\r\n", pos)
                if end < 0:
                    self._hold(data[pos:])
                    return out
                line = data[pos:end]
                match = _SIZE_LINE.fullmatch(line)
                if match is None or len(line) > SIZE_LINE_MAX:
                    raise BadMessage(400, "bad chunk size")
                pos = end + 2
                self._left = int(match.group(1), 16)
                self._state = _DATA if self._left else _TRAILERS
            elif state == _TRAILERS:
                if data.startswith(b"\r\n", pos):
                    end = pos + 2
                else:
                    end = data.find(b"\r\n\r\n", pos)
                    if end < 0:
                        self._hold_trailers(data[pos:])
                        return out
                    self._parse_trailers(data[pos:end])
                    end += 4
                self._state = _DONE
                self.done = True
                self.rest = data[end:]
                return out
            else:
                self.rest += data[pos:]
                return out
        return out

    def _hold(self, part: bytes) -> None:
        """Keep an incomplete size line, refusing at once what no more bytes can mend."""
        line = part[:-1] if part.endswith(b"\r") else part
        if len(part) > SIZE_LINE_MAX or (line and _SIZE_LINE.fullmatch(line) is None):
            raise BadMessage(400, "bad chunk size")
        self._held = part

    def _hold_trailers(self, part: bytes) -> None:
        if len(part) > TRAILERS_MAX:
            raise BadMessage(400, "trailer section too long")
        if re.search(rb"(?<!\r)\n", part):
            raise BadMessage(400, "line ends with a bare LF")
        self._held = part

    def _parse_trailers(self, part: bytes) -> None:
        if len(part) > TRAILERS_MAX:
            raise BadMessage(400, "trailer section too long")
        lines = part.split(b"\r\n")
        if len(lines) > TRAILER_FIELDS_MAX:
            raise BadMessage(400, "too many trailer fields")
        for line in lines:
            header = parse_field_line(line)
            if header is None:
                error = refuse_field_line(line, 0)
                raise BadMessage(400, error.reason + " in a trailer")
            self.trailers.append(header)
