"""Log sinks that are full, gone or closed: requests go on, and every line that is lost is counted.

What arrives and what `show info` (DroppedLogs) and `show events` count as lost make up all lines.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mtproxy.testing.configs import HTTP, http
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program, in_shell
from mtproxy.testing.server import free_port
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import Wire

#: HAProxy counts full sockets only, and not those that are gone
pytestmark = pytest.mark.only("mtproxy")
#: more lines than a datagram socket, or a pipe of one page, takes
MANY = 400
GET = "GET /len/3 HTTP/1.1\nhost: a"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: those of UNIX sockets may have 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="mts", dir="/tmp") as name:
        yield Path(name)


def config(origin: Origin, sink: str) -> str:
    return http(origin.port, fe=f"log {sink} format raw local0\n log-format 'line %HU'")


def ask(wire: Wire, count: int) -> None:
    for _ in range(count):
        assert wire.request(GET).status == 200


def dropped(running: Program) -> int:
    found = re.search(r"(?m)^DroppedLogs: (\d+)$", running.cli("show info"))
    assert found is not None
    return int(found[1])


def lost_by(running: Program, sink: str) -> int:
    """What `show events` says of a sink."""
    found = re.search(rf"(?m)^    {sink} +: type=\w+, (\d+) dropped", running.cli("show events"))
    assert found is not None
    return int(found[1])


def datagrams(sock: socket.socket) -> int:
    """How many wait there; they are taken."""
    count = 0
    sock.setblocking(False)
    while True:
        try:
            assert sock.recv(65536) == b"line /len/3\n"
        except BlockingIOError:
            return count
        count += 1


class Account:
    """Lines that were asked for, those that came, and those that the program says are lost."""

    def __init__(self, running: Program) -> None:
        self.running = running
        self.wire = running.connect()
        self.asked = 0
        self.got = 0

    def ask(self, count: int) -> None:
        ask(self.wire, count)
        self.asked += count

    def complete(self, sock: socket.socket | None = None) -> bool:
        """Whether they make up all; takes what has come to `sock` first."""
        if sock is not None:
            self.got += datagrams(sock)
        return self.got + dropped(self.running) == self.asked

    def one_comes(self, sock: socket.socket) -> bool:
        self.ask(1)
        before = self.got
        self.complete(sock)
        return self.got > before


def test_a_full_unix_socket(proxy, origin: Origin, folder: Path) -> None:
    path = str(folder / "log")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(path)
        account = Account(proxy(config(origin, path)))
        account.ask(MANY)
        wait_until(lambda: account.complete(sock), "all lines accounted for")
        assert 0 < account.got < MANY
        # it is read again: nothing more is lost
        before = dropped(account.running)
        account.ask(1)
        wait_until(lambda: account.complete(sock), "the next line")
        assert dropped(account.running) == before


@pytest.mark.parametrize("sink", ["stdout", "stderr", "fd"])
def test_a_full_pipe(proxy, origin: Origin, sink: str) -> None:
    reader, writer = os.pipe()
    try:
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        number = {"stdout": 1, "stderr": 2, "fd": writer}[sink]
        name = f"fd@{writer}" if sink == "fd" else sink
        running = proxy(
            # nothing else is written there
            f"global\n    quiet\n{config(origin, name)}",
            wrapper=in_shell(redirections=f"{number}>/proc/self/fd/{writer}")
            if sink != "fd"
            else (),
            pass_fds=(writer,),
        )
        wire = running.connect()
        ask(wire, 2 * MANY)
        os.set_blocking(reader, False)
        got = 0

        def all_there() -> bool:
            nonlocal got
            try:
                got += os.read(reader, 65536).count(b"line /len/3\n")
            except BlockingIOError:
                pass
            return got + dropped(running) == 2 * MANY

        wait_until(all_there, "all lines accounted for")
        assert 0 < got < 2 * MANY
        if sink != "fd":
            assert lost_by(running, sink) == dropped(running)
    finally:
        os.close(reader)
        os.close(writer)


def test_a_pipe_that_nobody_reads_any_more(proxy, origin: Origin) -> None:
    reader, writer = os.pipe()
    running = proxy(config(origin, f"fd@{writer}"), pass_fds=(writer,))
    os.close(writer)
    os.close(reader)
    ask(running.connect(), MANY)
    wait_until(lambda: dropped(running) == MANY, "every line is lost")
    assert running.alive()


def test_a_closed_udp_port(proxy, origin: Origin) -> None:
    """The refusal of a datagram is told when the next one is sent."""
    port = free_port()
    running = proxy(config(origin, f"127.0.0.1:{port}"))
    wire = running.connect()
    ask(wire, MANY)
    wait_until(lambda: dropped(running) == MANY - 1, "all but the last one are known to be lost")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", port))
        ask(wire, 1)
        wait_until(lambda: datagrams(sock) == 1, "the line after them")
        assert dropped(running) == MANY


def test_a_unix_socket_that_goes_and_comes_back(proxy, origin: Origin, folder: Path) -> None:
    path = folder / "log"
    account = Account(proxy(config(origin, str(path))))
    for _ in range(3):
        # nobody is there
        account.ask(5)
        wait_until(account.complete, "all lines accounted for")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.bind(str(path))
            wait_until(lambda sock=sock: account.one_comes(sock), "a line at the new socket")
            wait_until(lambda sock=sock: account.complete(sock), "all lines accounted for")
        path.unlink()
    assert account.got >= 3


def test_a_ring_whose_server_does_not_read(proxy, origin: Origin, serve) -> None:
    """Once it reads, it gets what was not overwritten; the ring says how much was."""
    reads = threading.Event()
    pieces: list[bytes] = []

    def handler(wire: Wire) -> None:
        reads.wait(120)
        while data := wire.sock.recv(65536):
            pieces.append(data)

    def got() -> bytes:
        return b"".join(pieces.copy())

    text = f'{HTTP}frontend fe\n    bind "fd@${{fe}}"\n    log ring@r local0\n'
    text += f"    log-format 'line %HU {'x' * 900}'\n    default_backend be\nbackend be\n"
    text += f"    server s1 127.0.0.1:{origin.port}\n"
    text += "ring r\n    size 16384\n    timeout connect 30s\n    timeout server 120s\n"
    server = serve(handler)
    text += f"    server l 127.0.0.1:{server.port}\n"
    running = proxy(text)
    wire = running.connect()
    asked = 0
    try:
        # more than the sockets in between take, whatever their size
        while asked < 9000:
            ask(wire, 1000)
            asked += 1000
    finally:
        reads.set()
    wait_until(
        lambda: got().count(b"\n") + lost_by(running, "r") == asked, "all lines accounted for"
    )
    assert lost_by(running, "r") > 0
    assert all(line.startswith(b"line /len/3 xxx") for line in got().splitlines())


def test_requests_are_as_fast_with_dead_sinks(proxy, origin: Origin, folder: Path) -> None:
    """Every kind at once; a sink that blocked, or waited, would hold up thousands of requests."""
    path = str(folder / "log")
    reader, writer = os.pipe()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.bind(path)
            sinks = (path, f"fd@{writer}", f"127.0.0.1:{free_port()}", str(folder / "none"))
            lines = "\n".join(f"log {sink} format raw local0" for sink in sinks)
            running = proxy(
                http(origin.port, fe=f"{lines}\nlog-format 'line %HU {'x' * 400}'"),
                pass_fds=(writer,),
            )
            # until each of them is stalled
            ask(running.connect(), MANY)
            wires = [running.connect() for _ in range(8)]
            for _ in range(100):
                for wire in wires:
                    ask(wire, 1)
            assert dropped(running) > 2 * (MANY + 800)
    finally:
        os.close(reader)
        os.close(writer)
