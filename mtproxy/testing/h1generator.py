"""Hostile and harmless HTTP/1 messages, made from a random source, for differential tests.

`request` and `response` write a message by the grammar, with odd but telling choices sprinkled
in; about one in three is then damaged byte by byte. The same functions serve hypothesis (with its
shrinkable Random) and the seeded fuzz loop. Pure but for the random source.
"""

from __future__ import annotations

from random import Random

_METHODS = [
    b"GET", b"GET", b"GET", b"GET", b"POST", b"POST", b"HEAD", b"PUT", b"DELETE", b"OPTIONS",
    b"CONNECT", b"TRACE", b"PATCH", b"get", b"M-SEARCH",
]  # fmt: skip
_BAD_METHODS = [b"G@T", b"", b"GE\tT", b"\x00", b"GET\xe9", b"G(T", b"GET/"]
_TARGETS = [
    b"/", b"/", b"/index.html", b"/a/b?x=1&y=%20", b"//a//", b'/"<>^`{|}\\', b"http://a/",
    b"http://a:80/x", b"https://a:443/?q", b"http://a", b"http://u:p@a/", b"http://a:/?",
]  # fmt: skip
_ODD_TARGETS = [
    b"*", b"http://b/", b"http://[::1]:80/", b"a:80", b"a:443", b"a", b"a:", b"[::1]:80", b"/#f",
    b"/\xff", b"/\x7f", b"/\x01", b"", b"http://", b"http://:", b"ftp://a:/", b"/a b", b"/\t",
    b"http://a:x/", b"1http://a/", b"?", b"http:/a", b"http://a:080/", b"http://a\\b/",
]  # fmt: skip
_AUTHORITIES = [b"a:80", b"a:443", b"a:8080", b"A:80"]
_VERSIONS = [
    b"HTTP/1.0", b"HTTP/1.0", b"HTTP/1.0", b"HTTP/1.2", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.10",
    b"HTTP/11", b"http/1.1", b"HTTP/1.", b"", b"RTSP/1.0", b"HTTP/1.x",
]  # fmt: skip
_HOSTS = [b"a", b"a", b"a", b"A", b"a:80", b"b", b"", b"a b", b"[::1]", b"a/", b"u@a", b"a:x"]
_LENGTHS = [
    b"0", b"3", b"3", b"3", b"03", b"+3", b"-1", b"3, 3", b"3,4", b"3,", b"", b"0x3", b"3 3",
    b"9223372036854775807", b"9223372036854775808", b"99999999999999999999999", b"3;", b"\xb23",
]  # fmt: skip
_CODINGS = [
    b"chunked", b"chunked", b"chunked", b"Chunked", b"gzip, chunked", b"chunked, gzip", b"gzip",
    b"identity", b"chunked, chunked", b"", b",chunked", b"chunked,", b"chunked;q=1", b'"chunked"',
    b"\x0bchunked", b"xchunked", b"chunked\t",
]  # fmt: skip
_CONNECTIONS = [
    b"close", b"keep-alive", b"Keep-Alive", b"upgrade", b"Upgrade, keep-alive", b"close, x", b"x",
    b"", b",", b"close;x", b"keep-alive, close", b"content-length", b"te",
]  # fmt: skip
_NAMES = [
    b"X", b"x-a", b"Cookie", b"Set-Cookie", b"Accept", b"Date", b"Server", b"Via", b"a_b", b"!#$",
    b"X-Forwarded-For", b"Authorization", b"Trailer", b"Keep-Alive", b"Content-Type", b"ETag",
]  # fmt: skip
_BAD_NAMES = [b"", b"x y", b"x\x00", b"x\xff", b"(x)", b"x ", b" x", b"\tx", b"x\x0b", b"x\r"]
_VALUES = [
    b"", b"a", b"a b", b"a\tb", b"\xe9t\xe9", b'"q"', b"a, b", b"x" * 300, b"0", b"a:b", b" ", b";",
]  # fmt: skip
_BAD_VALUES = [b"\x00", b"a\x00b", b"a\rb", b"a\nb", b"\x7f", b"\x1f", b"a\r\n b", b"\x0b", b"\x0c"]
_REASONS = [b"OK", b"OK", b"", b"Not Found", b"a  b", b" x ", b"\xe9", b"\x00", b"a\rb", b"\x7f"]
_STATUSES = [
    b"200", b"200", b"200", b"204", b"304", b"404", b"500", b"206", b"302", b"999", b"600", b"205",
    b"20", b"2000", b"099", b"2x0", b"+20", b"", b"101", b"401",
]  # fmt: skip
_INTERIM = [b"100", b"102", b"103", b"199"]
_SIZES = [b"%x", b"%X", b"0%x", b"%x;a=b", b"%x ", b"%x ;a", b'%x;a="b"', b"00000%x"]
_BAD_SIZES = [
    b"", b"g", b"-%x", b"+%x", b"0x%x", b" %x", b"%x\x00", b"%x;\x00", b"%x;\r", b"%x;a\nb", b"%x,",
    b"ffffffffffffffff", b"1ffffffffffffffff", b"%x\x0b", b"0000000000000000000000000%x", b";%x",
]  # fmt: skip
_BYTES = [bytes([b]) for b in b'\x00\t\n\r :;,/.0123aAxX\x7f\x80\xff"#*@[]{}=-_']
_SNIPPETS = [
    b"\r\n", b"\r\n\r\n", b"\n\n", b"\r\r\n", b"0\r\n\r\n", b" ", b"\t", b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Host: b\r\n", b"\r\n ", b": ", b"HTTP/1.1", b"\n", b"\r",
]  # fmt: skip


class Generator:
    """Writes messages from one random source."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def rarely(self, percent: int = 4) -> bool:
        """True in about `percent` of all calls; a source that gives the least gets False."""
        return self.rng.randrange(100) >= 100 - percent

    def _end(self) -> bytes:
        return self.rng.choice([b"\n", b"\r", b"\r\r\n", b""]) if self.rarely(1) else b"\r\n"

    def _gap(self) -> bytes:
        return self.rng.choice([b"  ", b"\t", b"", b" \t", b"   "]) if self.rarely() else b" "

    def _field(self, name: bytes, value: bytes) -> bytes:
        rng = self.rng
        if self.rarely(10):
            name = rng.choice([name.lower(), name.upper(), name.swapcase()])
        before = rng.choice([b"", b"  ", b"\t"]) if self.rarely(10) else b" "
        after = rng.choice([b" ", b"\t ", b"\r"]) if self.rarely(5) else b""
        colon = rng.choice([b" :", b"", b"::", b"\t:"]) if self.rarely(1) else b":"
        return name + colon + before + value + after + self._end()

    def _other_field(self) -> bytes:
        rng = self.rng
        name = rng.choice(_BAD_NAMES if self.rarely(2) else _NAMES)
        value = rng.choice(_BAD_VALUES if self.rarely(2) else _VALUES)
        return self._field(name, value)

    def _framing(self) -> tuple[list[bytes], bool, int]:
        """Fields that frame a body, and the body they announce: chunked, or a length."""
        rng = self.rng
        fields: list[bytes] = []
        kind = rng.randrange(10)
        chunked = False
        length = 0
        if kind in (5, 6, 9):
            values = [rng.choice(_LENGTHS) if self.rarely(15) else b"3"]
            if self.rarely(10):
                values.append(rng.choice(_LENGTHS))
            fields += [self._field(b"Content-Length", value) for value in values]
            length = 3
        if kind in (7, 8, 9):
            values = [rng.choice(_CODINGS) if self.rarely(15) else b"chunked"]
            if self.rarely(5):
                values.append(rng.choice(_CODINGS))
            fields += [self._field(b"Transfer-Encoding", value) for value in values]
            chunked = True
        return fields, chunked, length

    def _connection(self) -> list[bytes]:
        rng = self.rng
        fields: list[bytes] = []
        if self.rarely(30):
            fields.append(self._field(b"Connection", rng.choice(_CONNECTIONS)))
        if self.rarely(10):
            fields.append(self._field(b"Upgrade", rng.choice([b"x", b"websocket", b"h2c", b""])))
        if self.rarely(5):
            fields.append(self._field(b"Sec-WebSocket-Key", b"x" * rng.choice([24, 24, 23])))
        if self.rarely(5):
            fields.append(self._field(b"Sec-WebSocket-Accept", b"y" * rng.choice([28, 0])))
        if self.rarely(5):
            fields.append(self._field(b"TE", rng.choice([b"trailers", b"gzip", b"trailers;q=1"])))
        if self.rarely(5):
            fields.append(self._field(b"Expect", rng.choice([b"100-continue", b"x"])))
        return fields

    def _chunked_body(self) -> bytes:
        rng = self.rng
        out = b""
        for _ in range(rng.randrange(4)):
            data = bytes(rng.randrange(256) for _ in range(rng.choice([1, 2, 3, 17])))
            size = rng.choice(
                _BAD_SIZES if self.rarely(2) else _SIZES if self.rarely(20) else [b"%x"]
            )
            line = size % len(data) if b"%" in size else size
            if self.rarely(1):
                data = data[:-1] + b"\r\n"
            out += line + self._end() + data + self._end()
        out += (
            rng.choice([b"00", b"0;x", b"0 ", b"-0", b"000000"]) if self.rarely() else b"0"
        ) + self._end()
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            if self.rarely(20):
                name = rng.choice([b"Content-Length", b"Transfer-Encoding", b"Host", b"Connection"])
                out += self._field(name, rng.choice([b"3", b"chunked", b"x"]))
            else:
                out += self._other_field()
        return out + self._end()

    def _body(self, chunked: bool, length: int) -> bytes:
        if chunked:
            return self._chunked_body()
        return b"abcdefg"[:length]

    def _head(self, start: bytes, fields: list[bytes]) -> bytes:
        self.rng.shuffle(fields)
        return start + self._end() + b"".join(fields) + self._end()

    def request(self) -> bytes:
        """One request, perhaps with bytes around it."""
        rng = self.rng
        method = rng.choice(_BAD_METHODS if self.rarely(2) else _METHODS)
        targets = _AUTHORITIES if method == b"CONNECT" else _TARGETS
        target = rng.choice(_ODD_TARGETS if self.rarely(10) else targets)
        version = rng.choice(_VERSIONS) if self.rarely(15) else b"HTTP/1.1"
        start = method + self._gap() + target + self._gap() + version
        if self.rarely(2):
            start += rng.choice([b" ", b"\t", b" x"])
        fields, chunked, length = self._framing()
        if not self.rarely(5):
            fields.append(self._field(b"Host", rng.choice(_HOSTS) if self.rarely(15) else b"a"))
        if self.rarely(2):
            fields.append(self._field(b"Host", rng.choice(_HOSTS)))
        fields += self._connection()
        fields += [self._other_field() for _ in range(rng.randrange(4))]
        if self.rarely(1):
            fields += [self._other_field() for _ in range(rng.choice([97, 98, 99, 100]))]
        out = self._head(start, fields) + self._body(chunked, length)
        if self.rarely(5):
            out = rng.choice([b"\r\n", b"\r\n\r\n", b"\n", b" ", b"\r\n" * 5, b"\r"]) + out
        if self.rarely(10):
            out += rng.choice([b"GET / HTTP/1.1\r\n\r\n", b"\r\n", b"x"])
        return self.damage(out) if self.rarely(25) else out

    def response(self) -> bytes:
        """Perhaps interim responses, then one final response and perhaps bytes behind it."""
        rng = self.rng
        out = b""
        while self.rarely(10):
            status = rng.choice(_INTERIM)
            out += self._head(b"HTTP/1.1 " + status + b" x", [self._other_field()])
        version = rng.choice(_VERSIONS) if self.rarely(20) else b"HTTP/1.1"
        status = rng.choice(_STATUSES) if self.rarely(40) else b"200"
        start = version + self._gap() + status
        if not self.rarely():
            start += self._gap() + (rng.choice(_REASONS) if self.rarely(30) else b"OK")
        fields, chunked, length = self._framing()
        fields += self._connection()
        fields += [self._other_field() for _ in range(rng.randrange(4))]
        out += self._head(start, fields) + self._body(chunked, length)
        if self.rarely(10):
            out += rng.choice([b"HTTP/1.1 200 OK\r\n\r\n", b"\r\n", b"x"])
        return self.damage(out) if self.rarely(25) else out

    def damage(self, data: bytes) -> bytes:
        """The same bytes with a few random changes."""
        rng = self.rng
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            at = rng.randrange(len(data) + 1)
            kind = rng.randrange(6)
            if kind == 0:
                data = data[:at] + data[at + 1 :]
            elif kind == 1:
                data = data[:at] + rng.choice(_BYTES) + data[at:]
            elif kind == 2:
                data = data[:at] + rng.choice(_BYTES) + data[at + 1 :]
            elif kind == 3:
                data = data[:at] + rng.choice(_SNIPPETS) + data[at:]
            elif kind == 4:
                end = at + rng.randrange(1, 20)
                data = data[:end] + data[at:end] + data[end:]
            else:
                data = data[:at]
        return data

    def pieces(self, data: bytes) -> list[bytes]:
        """`data` cut up: whole, byte by byte, or anywhere."""
        rng = self.rng
        kind = rng.randrange(3)
        if kind == 0:
            return [data]
        if kind == 1:
            return [data[i : i + 1] for i in range(len(data))]
        cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(1, 6)))
        return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
