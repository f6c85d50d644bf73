"""Clients made for HAProxy, as Debian ships them, against the runtime socket."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mtproxy.testing.configs import http
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program, find_tool
from mtproxy.testing.waiting import PATIENCE, wait_until

_ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()][AB0]|\x1b[=>]")


class Screen:
    """What a terminal program has written so far, without its escapes."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.raw = b""

    def shows(self, *words: str) -> bool:
        """Whether all of `words` have been written, once what is there was read."""
        while select.select([self.fd], [], [], 0)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                break
            if not data:
                break
            self.raw += data
        text = _ESCAPES.sub(b" ", self.raw).decode("utf-8", "replace")
        return all(word in text for word in words)


@contextmanager
def hatop(running: Program) -> Iterator[Screen]:
    path = find_tool("hatop")
    if path is None:
        pytest.skip("hatop is not installed: .ci/need hatop")
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 140, 0, 0))
    process = subprocess.Popen(
        [path, "-s", running.socket_path],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=os.environ | {"TERM": "xterm", "LINES": "40", "COLUMNS": "140"},
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield Screen(master)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)
        os.close(master)


def test_hatop(proxy, origin: Origin) -> None:
    """It shows the process and the proxies."""
    running = proxy(http(origin.port))
    for _ in range(3):
        assert running.connect().request("GET /len/34 HTTP/1.1\nhost: a").status == 200
    with hatop(running) as screen:
        wait_until(
            lambda: screen.shows("HAProxy Version:", "FRONTEND", "BACKEND", "s1"), "its screen"
        )
        assert screen.shows(f"PID: {running.pid}")
