"""What is logged when servers change: the same texts at the same levels from both programs."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import pytest

from mtproxy.testing.configs import TCP
from mtproxy.testing.program import Program
from mtproxy.testing.server import free_port, listen_on
from mtproxy.testing.syslog_sink import SyslogSink
from mtproxy.testing.waiting import wait_until

ALERT, NOTICE, EMERG = 1, 5, 0
LEFT = "0 sessions active, 0 requeued, 0 remaining in queue."
ONLINE = "0 sessions requeued, 0 total in queue."
REFUSED = 'reason: Layer4 connection problem, info: "Connection refused", check duration: Nms'
PASSED = "reason: Layer4 check passed, check duration: Nms"
CHECK = "check inter 60ms rise 2 fall 2"


def config(sink: SyslogSink, *lines: str) -> str:
    body = "\n    ".join(lines)
    return f"""
global
    nbthread 1
{TCP}
frontend fe
    bind "fd@${{fe}}"
    default_backend be
backend be
    log 127.0.0.1:{sink.port} local0
    {body}
"""


class Log:
    """The messages about servers that have come since the last look."""

    def __init__(self, sink: SyslogSink) -> None:
        self.sink = sink
        self.seen = 0

    def next(self, count: int) -> list[tuple[int, str]]:
        entries = self.sink.entries

        def enough() -> bool:
            nonlocal entries
            entries = [e for e in self.sink.entries if "erver" in e.text]
            return len(entries) >= self.seen + count

        wait_until(enough, f"{count} messages after {[e.text for e in entries]}")
        fresh = entries[self.seen :]
        self.seen = len(entries)
        return [
            (entry.priority & 7, re.sub(r"duration: \d+ms", "duration: Nms", entry.text))
            for entry in fresh
        ]


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A server that never accepts: checks need no more. The test may close it."""
    with listen_on(("127.0.0.1", 0)) as sock:
        yield sock


@pytest.fixture
def log(sink: SyslogSink) -> Log:
    return Log(sink)


def test_a_server_dies_and_comes_back(
    proxy, listener: socket.socket, sink: SyslogSink, log: Log
) -> None:
    port = listener.getsockname()[1]
    running: Program = proxy(
        config(sink, f"server s1 127.0.0.1:{port} {CHECK}", f"server b1 127.0.0.1:{port} backup")
    )
    wait_until(lambda: running.server_status("be", "s1") == "UP", "the first check")
    listener.close()
    left = "0 active and 1 backup servers left. Running on backup."
    assert log.next(1) == [(ALERT, f"Server be/s1 is DOWN, {REFUSED}. {left} {LEFT}")]
    with listen_on(("127.0.0.1", port)):
        online = "1 active and 1 backup servers online."
        assert log.next(1) == [(NOTICE, f"Server be/s1 is UP, {PASSED}. {online} {ONLINE}")]


def test_each_check_on_request(proxy, listener: socket.socket, sink: SyslogSink, log: Log) -> None:
    port = listener.getsockname()[1]
    proxy(config(sink, "option log-health-checks", f"server s1 127.0.0.1:{port} {CHECK}"))
    line = "Health check for server be/s1"
    assert log.next(1) == [(NOTICE, f"{line} succeeded, {PASSED}, status: 2/2 UP.")]
    listener.close()
    assert log.next(4) == [
        (NOTICE, f"{line} failed, {REFUSED}, status: 1/2 UP."),
        (NOTICE, f"{line} failed, {REFUSED}, status: 0/2 DOWN."),
        (ALERT, f"Server be/s1 is DOWN. 0 active and 0 backup servers left. {LEFT}"),
        (EMERG, "backend be has no server available!"),
    ]
    with listen_on(("127.0.0.1", port)):
        assert log.next(3) == [
            (NOTICE, f"{line} succeeded, {PASSED}, status: 1/2 DOWN."),
            (NOTICE, f"{line} succeeded, {PASSED}, status: 2/2 UP."),
            (NOTICE, f"Server be/s1 is UP. 1 active and 0 backup servers online. {ONLINE}"),
        ]


def test_by_hand(proxy, sink: SyslogSink, log: Log) -> None:
    port = free_port()
    running: Program = proxy(
        config(
            sink,
            *(f"server s{n} 127.0.0.1:{port}" for n in (1, 2)),
            f"server b 127.0.0.1:{port} backup",
        )
    )
    seen = []
    for command, count in (
        ("disable server be/s1", 1),
        ("enable server be/s1", 1),
        ("set server be/s1 state drain", 1),
        ("set server be/s1 state maint", 1),
        ("set server be/s1 state drain", 2),
        ("set server be/s1 state ready", 1),
        ("disable server be/s1", 1),
        ("disable server be/s2", 1),
        ("disable server be/b", 2),
        ("enable server be/b", 1),
        ("set server be/b weight 0", 1),
    ):
        assert running.cli(command).strip() == ""
        seen.append(log.next(count))
    maint = "is going DOWN for maintenance."
    ready = "is UP/READY (leaving forced maintenance)."
    one = "1 active and 1 backup servers"
    backup = "0 active and 1 backup servers left. Running on backup."
    assert seen == [
        [(ALERT, f"Server be/s1 {maint} {one} left. {LEFT}")],
        [(NOTICE, f"Server be/s1 {ready}")],
        [(NOTICE, f"Server be/s1 enters drain state. {one} online. {ONLINE}")],
        [(NOTICE, f"Server be/s1 {maint} {one} left. {LEFT}")],
        [
            (NOTICE, "Server be/s1 is UP/DRAIN (leaving forced maintenance)."),
            (NOTICE, "Server be/s1 remains in forced drain mode."),
        ],
        [(NOTICE, "Server be/s1 is UP (leaving forced drain).")],
        [(ALERT, f"Server be/s1 {maint} {one} left. {LEFT}")],
        [(ALERT, f"Server be/s2 {maint} {backup} {LEFT}")],
        [
            (ALERT, f"Backup Server be/b {maint} 0 active and 0 backup servers left. {LEFT}"),
            (EMERG, "backend be has no server available!"),
        ],
        [(NOTICE, f"Backup Server be/b {ready}")],
        [(EMERG, "backend be has no server available!")],
    ]
