"""A real HAProxy as the judge of our HTTP/1 parser: raw bytes in, verdict out.

`HAProxyJudge` starts Debian's haproxy on loopback between a raw client and a scripted origin
server, and says for one message what it did: what it answered to the client, and what it
forwarded to the origin (or from the origin to the client). Used by the differential tests and by
`python -m mtproxy.testing.h1_vs_haproxy`; nothing of it runs in the proxy.

One thread: the caller's. The origin is served from the same thread, by `poll`, so that a verdict
is complete when the call returns.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

_search_end = re.compile(rb"(?:\A|\r\n)0\r\n(?:[^\r\n]+\r\n)*\r\n\Z").search

_CONFIG = """\
global
    nbthread 1
    maxconn 500
defaults
    mode http
    timeout client {wait}ms
    timeout http-request {wait}ms
    timeout connect 1s
    timeout server {wait}ms
    retries 0
frontend f
    bind unix@{dir}/front.sock
    default_backend b
backend b
    option http-server-close
    server s unix@{dir}/origin.sock
"""


def find_haproxy() -> str | None:
    """Path of the haproxy program (environment HAPROXY_PROGRAM, then PATH), or None."""
    return os.environ.get("HAPROXY_PROGRAM") or shutil.which("haproxy")


@dataclass(slots=True)
class Verdict:
    """What happened to one message."""

    #: all bytes that the client got
    reply: bytes = b""
    #: all bytes that the origin got, one item per connection
    forwarded: list[bytes] = field(default_factory=list)
    #: the client's connection was closed by the proxy (False: still open when the time was over)
    closed: bool = False

    @property
    def status(self) -> int | None:
        """Status code of the first answer, None when there was none."""
        if not self.reply.startswith(b"HTTP/1.") or not self.reply[9:12].isdigit():
            return None
        return int(self.reply[9:12])


class HAProxyJudge:
    """A running haproxy with its origin; a context manager.

    Raises RuntimeError when haproxy does not start. `wait_ms` is how long haproxy waits for the
    rest of an incomplete message.
    """

    def __init__(self, program: str, wait_ms: int = 300) -> None:
        self.program = program
        self.wait_ms = wait_ms
        self._dir = tempfile.TemporaryDirectory(prefix="h1judge-")
        root = Path(self._dir.name)
        (root / "haproxy.cfg").write_text(_CONFIG.format(wait=wait_ms, dir=root))
        self._origin = socket.socket(socket.AF_UNIX)
        self._origin.bind(str(root / "origin.sock"))
        self._origin.listen(64)
        self._origin.setblocking(False)
        os.chmod(root / "origin.sock", 0o777)
        os.chmod(root, 0o755)
        self._process = subprocess.Popen(
            [program, "-db", "-f", str(root / "haproxy.cfg")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self._front = str(root / "front.sock")
        deadline = time.monotonic() + 5
        while True:
            try:
                self._connect().close()
                break
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    errors = b""
                    if self._process.poll() is not None and self._process.stderr is not None:
                        errors = self._process.stderr.read()
                    self.close()
                    raise RuntimeError(f"haproxy does not start: {errors!r}") from None
                select.select([], [], [], 0.01)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop haproxy and remove its files. May be called twice."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()
        self._origin.close()
        self._dir.cleanup()

    def _connect(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(self._front)
        except OSError:
            sock.close()
            raise
        return sock

    def ask(
        self,
        raw: bytes | list[bytes],
        response: bytes = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        *,
        half_close: bool = False,
        origin_closes: bool = True,
        quiet_ms: int = 0,
    ) -> Verdict:
        """Send `raw` (a list: one send per item) and serve `response` to each forwarded request.

        The origin answers once it has the head and, as far as it can tell, the body; it closes
        then if `origin_closes`. Returns when haproxy closed the client's connection, after
        `quiet_ms` without a byte anywhere (0: not before haproxy's own time-outs), or when those
        are over.
        """
        verdict = Verdict()
        client = self._connect()
        poller = select.poll()
        pieces = [raw] if isinstance(raw, bytes) else raw
        origins: dict[int, tuple[socket.socket, int]] = {}
        answered: set[int] = set()
        deadline = time.monotonic() + 3 * self.wait_ms / 1000 + 1
        try:
            for piece in pieces:
                client.sendall(piece)
            if half_close:
                client.shutdown(socket.SHUT_WR)
            client.setblocking(False)
            poller.register(client, select.POLLIN)
            poller.register(self._origin, select.POLLIN)
            while time.monotonic() < deadline:
                events = poller.poll(quiet_ms or 100)
                if not events and quiet_ms:
                    break
                for fd, _ in events:
                    if fd == client.fileno():
                        data = _receive(client)
                        if not data:
                            verdict.closed = True
                            return verdict
                        verdict.reply += data
                    elif fd == self._origin.fileno():
                        sock, _ = self._origin.accept()
                        sock.setblocking(False)
                        poller.register(sock, select.POLLIN)
                        origins[sock.fileno()] = (sock, len(verdict.forwarded))
                        verdict.forwarded.append(b"")
                    else:
                        sock, index = origins[fd]
                        data = _receive(sock)
                        if not data:
                            poller.unregister(sock)
                            continue
                        verdict.forwarded[index] += data
                        if fd not in answered and _complete(verdict.forwarded[index]):
                            answered.add(fd)
                            sock.sendall(response)
                            if origin_closes:
                                sock.shutdown(socket.SHUT_WR)
            return verdict
        finally:
            client.close()
            for sock, _ in origins.values():
                sock.close()


def _receive(sock: socket.socket) -> bytes:
    try:
        return sock.recv(65536)
    except OSError:  # a reset is a close for our purpose
        return b""


def _complete(data: bytes) -> bool:
    """Is this forwarded request complete, as haproxy (which normalises what it sends) writes it?"""
    head, gap, body = data.partition(b"\r\n\r\n")
    if not gap:
        return False
    length = 0
    for line in head.lower().split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name == b"content-length":
            length = int(value)
        elif name == b"transfer-encoding" and b"chunked" in value:
            # the last chunk with its whole trailer section
            return _search_end(body) is not None
    return len(body) >= length
