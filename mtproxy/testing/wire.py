"""A blocking socket with a buffer and deadlines, and just enough HTTP/1 to test a proxy with.

`Wire` belongs to the one thread that uses it. It is strict on purpose and never repairs anything:
whatever it does not expect raises `WireError`, which fails the test. It shares no code with the
proxy's own codec, so that a mistake there cannot hide here.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

from mtproxy.testing.waiting import PATIENCE


class WireError(AssertionError):
    """The peer sent something else than HTTP/1 allows at this point."""


class PeerClosed(WireError):
    """The peer closed (or reset, see `reset`) the connection where bytes were still due.

    `got` is what came of these, `body` what came of the message's body, without chunk framing.
    """

    def __init__(self, message: str, *, got: bytes = b"", reset: bool = False) -> None:
        super().__init__(message)
        self.got = got
        self.body = b""
        self.reset = reset


@dataclass(slots=True)
class Head:
    """A request's or response's head as it came."""

    start: bytes
    headers: list[tuple[bytes, bytes]]
    raw: bytes

    def get(self, name: str) -> bytes | None:
        """The first value of header `name`, whatever its case; None if absent."""
        wanted = name.lower().encode()
        return next((v for n, v in self.headers if n.lower() == wanted), None)

    def all(self, name: str) -> list[bytes]:
        wanted = name.lower().encode()
        return [v for n, v in self.headers if n.lower() == wanted]

    def has_token(self, name: str, token: str) -> bool:
        """Whether the comma-separated lists of header `name` hold `token`."""
        words = b",".join(self.all(name)).lower().split(b",")
        return token.lower().encode() in [word.strip() for word in words]

    @property
    def status(self) -> int:
        return int(self.start.split(b" ", 2)[1])

    @property
    def version(self) -> bytes:
        return self.start.split(b" ", 1)[0]

    @property
    def method(self) -> bytes:
        return self.start.split(b" ", 1)[0]

    @property
    def target(self) -> bytes:
        return self.start.split(b" ", 2)[1]


@dataclass(slots=True)
class Message:
    """A whole message. `framing` is how the body's end was told: none, length, chunked, close."""

    head: Head
    body: bytes = b""
    trailers: list[tuple[bytes, bytes]] = field(default_factory=list)
    framing: str = "none"
    #: 1xx responses that came before a final one
    interim: list[Head] = field(default_factory=list)

    @property
    def status(self) -> int:
        return self.head.status

    def get(self, name: str) -> bytes | None:
        return self.head.get(name)


def parse_head(raw: bytes) -> Head:
    """`raw` ends with the empty line. Raises WireError for what is not `name: value`."""
    lines = raw.split(b"\r\n")
    headers = []
    for line in lines[1:-2]:
        name, colon, value = line.partition(b":")
        if not colon or not name or name.strip() != name:
            raise WireError(f"bad header line {line!r}")
        headers.append((name, value.strip(b" \t")))
    return Head(lines[0], headers, raw)


class Wire:
    """A connected socket; every wait ends within `seconds` (TimeoutError)."""

    def __init__(self, sock: socket.socket, seconds: float = PATIENCE) -> None:
        self.sock = sock
        self.seconds = seconds
        self.buffer = bytearray()
        sock.settimeout(seconds)
        if sock.family in (socket.AF_INET, socket.AF_INET6) and sock.type == socket.SOCK_STREAM:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- sending

    def send(self, data: bytes | bytearray | memoryview) -> None:
        self.sock.sendall(data)

    def send_chunk(self, data: bytes) -> None:
        """One HTTP chunk; an empty one would be the last, which `send_last_chunk` sends."""
        self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def send_last_chunk(self, trailers: bytes = b"") -> None:
        """`trailers`: whole lines, each with its CRLF."""
        self.send(b"0\r\n" + trailers + b"\r\n")

    def shutdown_write(self) -> None:
        self.sock.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Closes so that the peer gets a RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def close(self) -> None:
        self.sock.close()

    # -- receiving

    def fill(self, want: int = 65536) -> bool:
        """Waits for more bytes; False at the end of the stream. A reset raises PeerClosed."""
        try:
            data = self.sock.recv(want)
        except ConnectionResetError:
            raise PeerClosed("reset by peer", got=bytes(self.buffer), reset=True) from None
        self.buffer += data
        return bool(data)

    def take(self, count: int) -> bytes:
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        return data

    def read_exactly(self, count: int) -> bytes:
        while len(self.buffer) < count:
            if not self.fill(max(65536, min(count - len(self.buffer), 1 << 20))):
                got = bytes(self.buffer)
                raise PeerClosed(f"closed after {len(got)} of {count} bytes", got=got)
        return self.take(count)

    def _read_piece(self, count: int) -> bytes:
        """`count` bytes of a body."""
        try:
            return self.read_exactly(count)
        except PeerClosed as closed:
            closed.body = closed.got
            raise

    def read_until(self, mark: bytes, limit: int = 1 << 20) -> bytes:
        """Up to and including `mark`."""
        start = 0
        while (at := self.buffer.find(mark, start)) < 0:
            start = max(0, len(self.buffer) - len(mark) + 1)
            if len(self.buffer) > limit:
                raise WireError(f"no {mark!r} within {limit} bytes")
            if not self.fill():
                got = bytes(self.buffer)
                raise PeerClosed(f"closed before {mark!r}, after {got[:200]!r}", got=got)
        return self.take(at + len(mark))

    def read_to_end(self) -> bytes:
        """Everything up to the peer's end of stream."""
        while self.fill():
            pass
        return self.take(len(self.buffer))

    def read_available(self, quiet: float = 0.1) -> bytes:
        """What comes until `quiet` seconds pass without a byte (to assert that nothing comes)."""
        self.sock.settimeout(quiet)
        try:
            while self.fill():
                pass
        except TimeoutError:
            pass
        finally:
            self.sock.settimeout(self.seconds)
        return self.take(len(self.buffer))

    def at_end(self, seconds: float | None = None) -> bool:
        """Waits for the end of the stream; a byte instead raises WireError. A reset counts as an
        end: a proxy that closes with unread input makes the kernel send one.
        """
        self.sock.settimeout(self.seconds if seconds is None else seconds)
        try:
            if self.buffer or self.fill():
                raise WireError(f"expected the end of the stream, got {bytes(self.buffer[:200])!r}")
        except PeerClosed:
            return True
        finally:
            self.sock.settimeout(self.seconds)
        return True

    def still_open(self, quiet: float = 0.1) -> bool:
        """True when neither a byte nor an end of stream comes within `quiet` seconds."""
        self.sock.settimeout(quiet)
        try:
            self.fill()
        except TimeoutError:
            return True
        except PeerClosed:
            return False
        finally:
            self.sock.settimeout(self.seconds)
        return False

    def read_head(self) -> Head:
        return parse_head(self.read_until(b"\r\n\r\n"))

    def read_chunks(self) -> Iterator[bytes]:
        """Payload of each chunk up to the last, which it consumes; trailers are left unread."""
        while True:
            line = self.read_until(b"\r\n")
            size = int(line.split(b";")[0].strip(), 16)
            if size == 0:
                return
            yield self._read_piece(size)
            if self.read_exactly(2) != b"\r\n":
                raise WireError("no CRLF after a chunk")

    def read_trailers(self) -> list[tuple[bytes, bytes]]:
        trailers = []
        while (line := self.read_until(b"\r\n")) != b"\r\n":
            name, _, value = line[:-2].partition(b":")
            trailers.append((name, value.strip()))
        return trailers

    def _read_body(self, message: Message, *, until_close: bool) -> Message:
        head = message.head
        if head.has_token("transfer-encoding", "chunked"):
            message.framing = "chunked"
            pieces: list[bytes] = []
            try:
                pieces.extend(self.read_chunks())
                message.body = b"".join(pieces)
                message.trailers = self.read_trailers()
            except PeerClosed as closed:
                closed.body = b"".join([*pieces, closed.body])
                raise
        elif (length := head.get("content-length")) is not None:
            message.framing = "length"
            message.body = self._read_piece(int(length))
        elif until_close:
            message.framing = "close"
            message.body = self.read_to_end()
        return message

    def read_request(self) -> Message:
        return self._read_body(Message(self.read_head()), until_close=False)

    def read_response(self, method: str = "GET") -> Message:
        """The next final response; 1xx before it (101 is final) are collected in `interim`."""
        interim: list[Head] = []
        while True:
            head = self.read_head()
            if not head.start.startswith(b"HTTP/1."):
                raise WireError(f"not a status line: {head.start!r}")
            if 100 <= head.status < 200 and head.status != 101:
                interim.append(head)
                continue
            break
        message = Message(head, interim=interim)
        if method == "HEAD" or head.status in (101, 204, 304):
            return message
        if method == "CONNECT" and 200 <= head.status < 300:
            return message
        return self._read_body(message, until_close=True)

    def request(self, text: str | bytes, method: str | None = None) -> Message:
        """Sends `text` and reads the response. In a str, lines end with LF for legibility, and the
        empty line is added: `wire.request("GET / HTTP/1.1\\nhost: a")`.
        """
        data = text if isinstance(text, bytes) else as_wire(text)
        self.send(data)
        return self.read_response(method or data.split(b" ", 1)[0].decode())


def as_wire(text: str) -> bytes:
    """A head written with LF line ends becomes bytes with CRLF and the closing empty line."""
    return text.strip("\n").replace("\n", "\r\n").encode("latin-1") + b"\r\n\r\n"


def connect(address: tuple[str, int] | str, seconds: float = PATIENCE) -> Wire:
    """A `Wire` to host and port, or to a UNIX path ("@name": abstract)."""
    sock = open_socket(address, seconds)
    return Wire(sock, seconds)


def open_socket(address: tuple[str, int] | str, seconds: float = PATIENCE) -> socket.socket:
    """A connected socket; addresses as for `connect`. Raises OSError."""
    target = address
    if isinstance(target, str):
        family = socket.AF_UNIX
        if target.startswith("@"):
            target = "\0" + target[1:]
    else:
        family = socket.AF_INET6 if ":" in target[0] else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.settimeout(seconds)
    try:
        sock.connect(target)
    except OSError:
        sock.close()
        raise
    return sock


def refused(address: tuple[str, int], seconds: float = PATIENCE) -> bool:
    """Whether a connection to `address` is refused now. One that is reset while it is made, because
    the listener goes at this moment, is not.
    """
    deadline = time.monotonic() + seconds
    try:
        open_socket(address, max(0.01, deadline - time.monotonic())).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        return False
    return False
