"""A UDP syslog server that collects messages, and HAProxy's log lines taken apart.

The sink's own thread appends; any thread may wait. Messages are guarded by the condition's lock.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from dataclasses import dataclass
from typing import Self

from mtproxy.testing.waiting import PATIENCE

_HEADER = re.compile(
    r"<(\d+)>\w{3} [ \d]\d \d\d:\d\d:\d\d (?:\S+ )?([^\[\s]+)\[(\d+)\]: (.*)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One syslog message. `priority` = facility * 8 + severity (RFC 3164 section 4.1.1)."""

    priority: int
    tag: str
    pid: int
    text: str


class SyslogSink:
    """Listens on 127.0.0.1 on a port of its own until closed."""

    def __init__(self) -> None:
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.bind(("127.0.0.1", 0))
        self._sock.settimeout(10)
        self.port: int = self._sock.getsockname()[1]
        self._arrived = threading.Condition()
        self._entries: list[Entry] = []
        self._malformed: list[bytes] = []
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="syslog sink", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._closing = True
        # An empty datagram to itself wakes the thread at once.
        self._sock.sendto(b"", self._sock.getsockname())
        self._thread.join(PATIENCE)
        self._sock.close()

    def _run(self) -> None:
        while not self._closing:
            try:
                data = self._sock.recv(65536)
            except TimeoutError:
                continue
            if not data:
                continue
            match = _HEADER.fullmatch(data.decode("utf-8", "replace").rstrip("\n"))
            with self._arrived:
                if match is None:
                    self._malformed.append(data)
                else:
                    entry = Entry(int(match[1]), match[2], int(match[3]), match[4])
                    self._entries.append(entry)
                self._arrived.notify_all()

    @property
    def entries(self) -> list[Entry]:
        """What came so far. A datagram without a proper syslog header fails the caller."""
        with self._arrived:
            assert not self._malformed, f"malformed syslog messages: {self._malformed!r}"
            return list(self._entries)

    def texts(self) -> list[str]:
        return [entry.text for entry in self.entries]

    def wait(self, pattern: str, seconds: float = PATIENCE, count: int = 1) -> list[re.Match[str]]:
        """The first `count` messages that `pattern` matches (re.search); TimeoutError otherwise."""
        deadline = time.monotonic() + seconds
        regex = re.compile(pattern)
        with self._arrived:
            while True:
                found = [m for e in self._entries if (m := regex.search(e.text))]
                if len(found) >= count:
                    return found[:count]
                left = deadline - time.monotonic()
                if left <= 0 or self._malformed:
                    texts = [e.text for e in self._entries]
                    raise TimeoutError(
                        f"no {count} x {pattern!r} in {texts!r}, malformed {self._malformed!r}"
                    )
                self._arrived.wait(left)


@dataclass(frozen=True, slots=True)
class HttpLine:
    """`option httplog` taken apart (manual 8.2.3). Times in ms, -1 where it never came to that."""

    client_ip: str
    client_port: int
    date: str
    frontend: str
    backend: str
    server: str
    request_time: int
    queue_time: int
    connect_time: int
    response_time: int
    active_time: int
    status: int
    bytes_read: int
    request_cookie: str
    response_cookie: str
    termination: str
    connections: tuple[int, int, int, int]
    retries: str
    queues: tuple[int, int]
    request: str


_HTTP_LINE = re.compile(
    r"(\S+):(\d+) \[([^\]]+)\] (\S+) ([^\s/]+)/(\S+) "
    r"(-?\d+)/(-?\d+)/(-?\d+)/(-?\d+)/(\+?-?\d+) (-?\d+) (\+?\d+) (\S+) (\S+) (\S{4}) "
    r"(\d+)/(\d+)/(\d+)/(\d+)/(\+?\d+) (\d+)/(\d+) \"(.*)\"",
    re.DOTALL,
)


def parse_http_line(text: str) -> HttpLine:
    """Raises AssertionError for anything else."""
    m = _HTTP_LINE.fullmatch(text)
    assert m is not None, f"not an httplog line: {text!r}"
    return HttpLine(
        m[1], int(m[2]), m[3], m[4], m[5], m[6],
        int(m[7]), int(m[8]), int(m[9]), int(m[10]), int(m[11]),
        int(m[12]), int(m[13]), m[14], m[15], m[16],
        (int(m[17]), int(m[18]), int(m[19]), int(m[20])), m[21],
        (int(m[22]), int(m[23])), m[24],
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class TcpLine:
    """`option tcplog` taken apart (manual 8.2.2)."""

    client_ip: str
    client_port: int
    date: str
    frontend: str
    backend: str
    server: str
    queue_time: int
    connect_time: int
    total_time: int
    bytes_read: int
    termination: str
    connections: tuple[int, int, int, int]
    retries: str
    queues: tuple[int, int]


_TCP_LINE = re.compile(
    r"(\S+):(\d+) \[([^\]]+)\] (\S+) ([^\s/]+)/(\S+) (-?\d+)/(-?\d+)/(\+?-?\d+) (\+?\d+) "
    r"(\S{2}) (\d+)/(\d+)/(\d+)/(\d+)/(\+?\d+) (\d+)/(\d+)"
)


def parse_tcp_line(text: str) -> TcpLine:
    """Raises AssertionError for anything else."""
    m = _TCP_LINE.fullmatch(text)
    assert m is not None, f"not a tcplog line: {text!r}"
    return TcpLine(
        m[1], int(m[2]), m[3], m[4], m[5], m[6], int(m[7]), int(m[8]), int(m[9]), int(m[10]),
        m[11], (int(m[12]), int(m[13]), int(m[14]), int(m[15])), m[16], (int(m[17]), int(m[18])),
    )  # fmt: skip
