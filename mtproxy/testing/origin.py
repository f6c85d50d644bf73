"""An HTTP/1.1 origin whose behaviour is told by the request's path.

    /len/N            N bytes with Content-Length          /status/CODE   an answer without a body
    /chunked/N[/C]    N bytes in chunks of C (8192)        /trailers/N    chunked with two trailers
    /close/N          N bytes until the connection closes  /head          the request's head as body
    /slow/N/MS        N bytes, 10 pieces MS apart          /echo          the request's body
    /early/CODE       answers before it reads the body     /stall[/N]     says nothing after N bytes
    /reset[/N]        RST, after N bytes of an answer      /bye/N         /len/N, then closes
    /half/N           N bytes of 2N, then half-closes     /cut/N         N bytes of a chunk of 2N
    /begun/HOW        half a head, then reset, close or stall
    /1xx/N            100 (only if expected) and 103 first /upgrade       101, then echoes bytes

CONNECT is answered 200, and bytes are echoed. HEAD gets the heads of the same answers. Bodies are
`payload(key, N)`, the key being the request's `x-id` or, without one, its path. Each answer carries
`x-origin` (name), `x-conn` and `x-seq` (the connection's number and the request's in it), and the
request's `x-id`. A request with `x-digest` has its body checked: 520 says that it is not what was
sent.

In a test: `Origin()` in the test's process. For stress runs: `python -m mtproxy.testing.origin
--port N`, which SIGUSR1 makes reset all its connections. `requests` is appended by the connections'
threads (list.append is atomic) and read when they are quiet.
"""

from __future__ import annotations

import argparse
import itertools
import signal
import socket
import sys
import threading
from collections.abc import Callable

from mtproxy.testing.payload import digest, payload
from mtproxy.testing.server import HostPort, Server
from mtproxy.testing.waiting import PATIENCE
from mtproxy.testing.wire import Head, Message, Wire

_PIECE = 65536


class Origin(Server):
    """See the module's text. `record=False` keeps no requests (for long runs)."""

    def __init__(
        self,
        address: HostPort | str = ("127.0.0.1", 0),
        *,
        name: str = "o1",
        record: bool = True,
        seconds: float = PATIENCE,
        backlog: int = 128,
    ) -> None:
        self.name = name
        self.requests: list[Message] = []
        self.corrupt_uploads = 0
        self._record = record
        self._numbers = itertools.count(1)
        self._hurry = threading.Event()
        super().__init__(self._connection, address, backlog=backlog, seconds=seconds)

    def close(self, *, quiet: bool = False) -> None:
        self._hurry.set()  # ends /stall and /slow at once
        super().close(quiet=quiet)

    def _connection(self, wire: Wire) -> None:
        number = next(self._numbers)
        for sequence in itertools.count(1):
            # Between two requests the peer may stay silent or leave as it likes.
            wire.sock.settimeout(None)
            if not wire.buffer and not wire.fill():
                return
            wire.sock.settimeout(wire.seconds)
            exchange = _Exchange(self, wire, wire.read_head(), number, sequence)
            if not exchange.run():
                return

    def pause(self, seconds: float) -> bool:
        """Waits; True when the origin is closing."""
        return self._hurry.wait(seconds)

    def keep(self, message: Message) -> None:
        if self._record:
            self.requests.append(message)


class _Exchange:
    """One request and its answer."""

    def __init__(self, origin: Origin, wire: Wire, head: Head, number: int, sequence: int) -> None:
        self.origin = origin
        self.wire = wire
        self.head = head
        self.message = Message(head)
        path = head.target.split(b"?")[0].decode("latin-1")
        if "://" in path:
            path = "/" + path.split("://", 1)[1].partition("/")[2]
        self.words = path.strip("/").split("/")
        identity = head.get("x-id")
        self.key = identity.decode("latin-1") if identity else path
        lines = [f"x-origin: {origin.name}", f"x-conn: {number}", f"x-seq: {sequence}"]
        if identity:
            lines.append(f"x-id: {self.key}")
        self.common = "".join(line + "\r\n" for line in lines)
        self.persistent = not head.has_token("connection", "close") and (
            head.start.endswith(b"HTTP/1.1") or head.has_token("connection", "keep-alive")
        )

    def number(self, position: int, default: int = 0) -> int:
        return int(self.words[position]) if len(self.words) > position else default

    def run(self) -> bool:
        """Answers; False when the connection is to be closed."""
        if self.head.method == b"CONNECT":
            self.origin.keep(self.message)
            self._send_head("200 OK")
            return self._echo_bytes()
        name = self.words[0]
        if name == "early":
            self._answer(f"{self.number(1)} Early", payload(self.key, 10))
        if name == "1xx":
            self._interim()
        self._read_body()
        self.origin.keep(self.message)
        if name == "early":
            return self.persistent
        wanted = self.head.get("x-digest")
        if wanted is not None and wanted.decode() != digest(self.message.body):
            self.origin.corrupt_uploads += 1
            self._answer("520 Corrupt", b"")
            return False
        behaviour = _BEHAVIOURS.get(name)
        if behaviour is None:
            self._answer("404 Not Found", b"")
            return self.persistent
        return behaviour(self)

    def _read_body(self) -> None:
        if self.head.has_token("transfer-encoding", "chunked"):
            self.message.framing = "chunked"
            self.message.body = b"".join(self.wire.read_chunks())
            self.message.trailers = self.wire.read_trailers()
        elif (length := self.head.get("content-length")) is not None:
            self.message.framing = "length"
            self.message.body = self.wire.read_exactly(int(length))

    # -- answers

    def _send_head(self, status: str, *lines: str) -> None:
        close = "" if self.persistent else "connection: close\r\n"
        text = "".join(line + "\r\n" for line in lines)
        self.wire.send(f"HTTP/1.1 {status}\r\n{self.common}{close}{text}\r\n".encode("latin-1"))

    def _send_body(self, body: bytes) -> None:
        if self.head.method != b"HEAD":
            for start in range(0, len(body), _PIECE):
                self.wire.send(memoryview(body)[start : start + _PIECE])

    def _answer(self, status: str, body: bytes, *lines: str) -> None:
        self._send_head(status, f"content-length: {len(body)}", *lines)
        self._send_body(body)

    def _send_chunks(self, body: bytes, size: int) -> None:
        for start in range(0, len(body), size):
            self.wire.send_chunk(body[start : start + size])

    def length(self) -> bool:
        self._answer("200 OK", payload(self.key, self.number(1)))
        return self.persistent

    def bye(self) -> bool:
        self.length()
        return False

    def chunked(self) -> bool:
        self._send_head("200 OK", "transfer-encoding: chunked")
        if self.head.method != b"HEAD":
            self._send_chunks(payload(self.key, self.number(1)), self.number(2, 8192))
            self.wire.send_last_chunk()
        return self.persistent

    def trailers(self) -> bool:
        self._send_head("200 OK", "transfer-encoding: chunked", "trailer: x-first, x-second")
        if self.head.method != b"HEAD":
            self._send_chunks(payload(self.key, self.number(1)), 1000)
            self.wire.send_last_chunk(b"x-first: 1\r\nx-second: two\r\n")
        return self.persistent

    def until_close(self) -> bool:
        self.persistent = False
        self._send_head("200 OK")
        self._send_body(payload(self.key, self.number(1)))
        return False

    def slow(self) -> bool:
        body = payload(self.key, self.number(1))
        self._send_head("200 OK", f"content-length: {len(body)}")
        step = max(1, len(body) // 10)
        for start in range(0, len(body), step):
            if self.origin.pause(self.number(2, 10) / 1000):
                return False
            self.wire.send(body[start : start + step])
        return self.persistent

    def status(self) -> bool:
        code = self.number(1, 200)
        bodyless = code in (204, 304)
        self._send_head(f"{code} Status", *([] if bodyless else ["content-length: 0"]))
        return self.persistent

    def request_head(self) -> bool:
        self._answer("200 OK", self.head.raw)
        return self.persistent

    def echo(self) -> bool:
        if self.message.framing == "chunked":
            self._send_head("200 OK", "transfer-encoding: chunked")
            self._send_chunks(self.message.body, 4096)
            self.wire.send_last_chunk(
                b"".join(b"%b: %b\r\n" % trailer for trailer in self.message.trailers)
            )
        else:
            self._answer("200 OK", self.message.body)
        return self.persistent

    def stall(self) -> bool:
        count = self.number(1)
        if count:
            self._send_head("200 OK", f"content-length: {count * 2}")
            self._send_body(payload(self.key, count))
        # The peer's leaving ends it too: a stalled server's connection is not a leak.
        self.wire.sock.settimeout(None)
        while self.wire.fill():
            pass
        return False

    def reset(self) -> bool:
        count = self.number(1)
        if count:
            self._send_head("200 OK", f"content-length: {count * 2}")
            self._send_body(payload(self.key, count))
            # A RST drops what the peer has not read yet: let it read first.
            self.origin.pause(0.05)
        self.wire.reset()
        return False

    def half(self) -> bool:
        count = self.number(1)
        self._send_head("200 OK", f"content-length: {count * 2}")
        self._send_body(payload(self.key, count))
        self.wire.sock.shutdown(socket.SHUT_WR)
        self.wire.sock.settimeout(None)
        while self.wire.fill():
            pass
        return False

    def cut(self) -> bool:
        count = self.number(1)
        self._send_head("200 OK", "transfer-encoding: chunked")
        self.wire.send(b"%x\r\n" % (count * 2) + payload(self.key, count))
        return False

    def begun(self) -> bool:
        how = self.words[1:]
        self.wire.send(b"HTTP/1.1 200 OK\r\ncontent-len")
        if how == ["reset"]:
            # as in `reset`
            self.origin.pause(0.05)
            self.wire.reset()
        elif how == ["stall"]:
            self.wire.sock.settimeout(None)
            while self.wire.fill():
                pass
        return False

    def _interim(self) -> None:
        if self.head.has_token("expect", "100-continue"):
            self.wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.wire.send(b"HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n")

    def upgrade(self) -> bool:
        protocol = (self.head.get("upgrade") or b"").decode("latin-1")
        if not protocol or not self.head.has_token("connection", "upgrade"):
            self._answer("400 Bad Request", b"not an upgrade")
            return self.persistent
        self.persistent = True
        self._send_head("101 Switching Protocols", "connection: upgrade", f"upgrade: {protocol}")
        return self._echo_bytes()

    def _echo_bytes(self) -> bool:
        self.wire.sock.settimeout(None)
        while self.wire.buffer or self.wire.fill():
            self.wire.send(self.wire.take(len(self.wire.buffer)))
        return False


_BEHAVIOURS: dict[str, Callable[[_Exchange], bool]] = {
    "len": _Exchange.length,
    "1xx": _Exchange.length,
    "bye": _Exchange.bye,
    "chunked": _Exchange.chunked,
    "trailers": _Exchange.trailers,
    "close": _Exchange.until_close,
    "slow": _Exchange.slow,
    "status": _Exchange.status,
    "head": _Exchange.request_head,
    "echo": _Exchange.echo,
    "stall": _Exchange.stall,
    "reset": _Exchange.reset,
    "half": _Exchange.half,
    "cut": _Exchange.cut,
    "begun": _Exchange.begun,
    "upgrade": _Exchange.upgrade,
}


def main() -> None:
    """The origin as a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m mtproxy.testing.origin")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--name", default="o1")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds to wait for bytes")
    options = parser.parse_args()
    # Blocked before any thread starts, so that only sigwait below gets them.
    signals = {signal.SIGTERM, signal.SIGINT, signal.SIGUSR1}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    origin = Origin(
        ("127.0.0.1", options.port),
        name=options.name,
        record=options.record,
        seconds=options.patience,
        backlog=socket.SOMAXCONN,
    )
    sys.stdout.write(f"listening on 127.0.0.1:{origin.port}\n")
    sys.stdout.flush()
    while signal.sigwait(signals) == signal.SIGUSR1:
        origin.reset_all()
    origin.close()
    if origin.corrupt_uploads:
        raise SystemExit(f"{origin.corrupt_uploads} corrupt uploads")


if __name__ == "__main__":
    main()
