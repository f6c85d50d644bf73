"""Raw bytes of HTTP/1 messages: when one is complete, and the two ends that speak them.

Nothing is parsed beyond what tells where a message ends. `Origin` serves each connection in a
thread of its own; what it heard is read when the case is over.
"""

from __future__ import annotations

import contextlib
import re
import select
import socket
import threading
import time
from dataclasses import dataclass, field

from mtproxy.testing.server import Server
from mtproxy.testing.wire import Wire

#: the longest wait for log lines, in seconds
PATIENCE = 15.0

_last_chunk = re.compile(rb"(?:\A|\r\n)0+(?:;[^\r\n]*)?\r\n(?:[^\r\n]+\r\n)*\r\n\Z").search
_length = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE).search
_chunked = re.compile(rb"\r\ntransfer-encoding:[^\r\n]*chunked", re.IGNORECASE).search
_close = re.compile(rb"\r\nconnection:[^\r\n]*close", re.IGNORECASE).search


def body_complete(head: bytes, body: bytes) -> bool | None:
    """Whether `body` is all; None where only the connection's end tells."""
    if _chunked(head):
        return _last_chunk(body) is not None
    found = _length(head)
    if found is None:
        return None
    return len(body) >= int(found[1])


def request_complete(data: bytes) -> bool:
    """`data` is one request and no more."""
    head, gap, body = data.partition(b"\r\n\r\n")
    return bool(gap) and body_complete(head, body) is not False


def answer_complete(data: bytes, method: bytes) -> bool:
    """`data` holds a final response with all its body."""
    while True:
        head, gap, body = data.partition(b"\r\n\r\n")
        if not gap:
            return False
        status = head[9:12]
        if status[:1] == b"1" and status != b"101":
            data = body
            continue
        if method == b"HEAD" or status in (b"101", b"204", b"304"):
            return True
        return body_complete(head, body) is True


def says_close(data: bytes) -> bool:
    """The last response in `data` ends the connection."""
    at = data.rfind(b"HTTP/1.")
    head = data[max(at, 0) :].partition(b"\r\n\r\n")[0]
    return _close(head) is not None or (head.startswith(b"HTTP/1.0") and b"keep-alive" not in head)


def merge_chunks(data: bytes) -> bytes:
    """The same bytes, each chunked body in one chunk: where the cuts are is not compared."""
    out = b""
    while (found := _chunked(data)) is not None:
        head, gap, rest = data[found.start() :].partition(b"\r\n\r\n")
        out += data[: found.start()] + head + gap
        body = b""
        while (match := re.match(rb"([0-9a-fA-F]+)[^\r\n]*\r\n", rest)) is not None:
            size = int(match[1], 16)
            rest = rest[match.end() :]
            if size == 0:
                break
            body += rest[:size]
            rest = rest[size + 2 :]
        out += b"%x\r\n%b\r\n0\r\n" % (len(body), body)
        data = rest
    return out + data


def _receive(sock: socket.socket) -> bytes | None:
    """None at the end, however it came."""
    try:
        return sock.recv(65536) or None
    except ConnectionError:
        return None


class Client:
    """The case's client: one connection at a time. `heard` has one item per connection."""

    def __init__(self, address: tuple[str, int], patience: float) -> None:
        self.address = address
        self.patience = patience
        self.heard: list[bytes] = []
        self.ports: list[int] = []
        self._sock: socket.socket | None = None

    def close(self) -> None:
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def _open(self) -> socket.socket:
        if self._sock is None:
            # First, because a proxy that rejects the connection may reset it at once.
            self.heard.append(b"")
            self._sock = socket.create_connection(self.address, self.patience)
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.ports.append(self._sock.getsockname()[1])
        return self._sock

    def ask(self, data: bytes) -> None:
        """Sends a request and takes its answer."""
        got = b""
        try:
            sock = self._open()
            sock.settimeout(self.patience)
            sock.sendall(data)
            method = data.partition(b" ")[0]
            while not answer_complete(got, method):
                piece = _receive(sock)
                if piece is None:
                    got += b"<END>"
                    self.close()
                    break
                got += piece
            else:
                if says_close(got):
                    while (piece := _receive(sock)) is not None:
                        got += b"<MORE>" + piece
                    got += b"<END>"
                    self.close()
        except TimeoutError:
            got += b"<NOTHING MORE>"
            self.close()
        except ConnectionError:
            got += b"<END>"
            self.close()
        self.heard[-1] += got

    def leave(self, data: bytes) -> None:
        """Sends, and waits no longer than it takes to be read."""
        with contextlib.suppress(ConnectionError):
            sock = self._open()
            sock.settimeout(self.patience)
            sock.sendall(data)
            # Gone before the proxy has accepted is another case, and one of chance.
            select.select([sock], [], [], 0.05)
        self.close()

    def exchange(self, data: bytes) -> None:
        """TCP: sends, half-closes, reads to the end."""
        got = b""
        try:
            sock = self._open()
            sock.settimeout(self.patience)
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while (piece := _receive(sock)) is not None:
                got += piece
            got += b"<END>"
        except TimeoutError:
            got += b"<NOTHING MORE>"
        except OSError:
            got += b"<END>"
        self.close()
        self.heard[-1] += got


@dataclass(slots=True)
class Script:
    """What the origin does for the case that runs, and what it heard (`lock` guards all)."""

    answers: tuple[bytes, ...] = ()
    tcp: bool = False
    served: int = 0
    heard: list[bytes] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next_answer(self) -> bytes:
        with self.lock:
            answer = self.answers[min(self.served, len(self.answers) - 1)]
            self.served += 1
            return answer


class Origin(Server):
    """Answers by the script of the case that runs. A connection keeps the script it began with."""

    def __init__(self) -> None:
        self.script = Script()
        super().__init__(self._connection)

    def _connection(self, wire: Wire) -> None:
        script = self.script
        sock = wire.sock
        with script.lock:
            number = len(script.heard)
            script.heard.append(b"")
            script.ports.append(sock.getpeername()[1])
        sock.settimeout(None)
        current = b""
        answered = False
        while (piece := _receive(sock)) is not None:
            current += piece
            with script.lock:
                script.heard[number] += piece
            if script.tcp:
                if not answered:
                    answered = True
                    sock.sendall(script.next_answer())
            elif request_complete(current):
                answer = script.next_answer()
                if answer:
                    sock.sendall(answer)
                method = current.partition(b" ")[0]
                current = b""
                if not answer or says_close(answer) or not answer_complete(answer, method):
                    return


def quiet_datagrams(sock: socket.socket, seconds: float) -> list[bytes]:
    """All datagrams until none came for `seconds`."""
    found = []
    sock.settimeout(seconds)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            found.append(sock.recv(65536))
        except TimeoutError:
            break
    return found
