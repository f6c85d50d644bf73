"""`bind`: threads, shards, transparent."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from mtproxy.testing.configs import HTTP, section
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program, command_of, run_to_end
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import connect


@pytest.fixture
def address() -> Iterator[str]:
    """A loopback address of this test alone: any port of it is free."""
    with ExitStack() as stack:
        number = os.getpid() % 60000
        host = f"127.{100 + number // 256 % 100}.{number % 256}.7"
        guard = stack.enter_context(socket.socket())
        guard.bind((host, 0))
        yield f"{host}:8080"


def config(origin: Origin, *binds: str, threads: int = 4) -> str:
    return (
        f"    nbthread {threads}\n{HTTP}\nfrontend fe{section(chr(10).join(binds))}\n"
        f"    default_backend be\nbackend be\n    server s 127.0.0.1:{origin.port}\n"
    )


def listening(program: Program, address: str) -> int:
    """How many sockets of the process listen there."""
    host, _, port = address.partition(":")
    packed = "".join(f"{byte:02X}" for byte in reversed(socket.inet_aton(host)))
    wanted = f"{packed}:{int(port):04X}"
    fds = Path(f"/proc/{program.pid}/fd")
    owned = set()
    for one in fds.iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            owned.add(os.readlink(one))
    count = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[1] == wanted and words[3] == "0A":
            count += f"socket:[{words[9]}]" in owned
    return count


def get(address: str) -> int:
    host, _, port = address.partition(":")
    wire = connect((host, int(port)))
    try:
        return wire.request("GET /head HTTP/1.1\nhost: a\nconnection: close").status
    finally:
        wire.close()


@pytest.mark.parametrize(
    ("words", "sockets"),
    [
        ("", 1),
        ("shards 2", 2),
        ("shards by-thread", 4),
        ("shards 64", 4),
        ("shards by-thread thread 1-3", 3),
        ("thread odd", 1),
        ("process 1/even", 1),
    ],
)
def test_shards(proxy, origin: Origin, address: str, words: str, sockets: int) -> None:
    running = proxy(config(origin, f"bind {address} {words}"))
    assert listening(running, address) == sockets
    assert [get(address) for _ in range(12)] == [200] * 12


@pytest.mark.only("mtproxy")
@pytest.mark.parametrize(
    ("words", "threads"),
    [("thread 2", {2}), ("thread even", {2, 4}), ("thread 3-", {3, 4}), ("process 1/1", {1})],
)
def test_only_these_threads_serve(
    proxy, origin: Origin, address: str, words: str, threads: set[int]
) -> None:
    running = proxy(config(origin, f"bind {address} {words}"))
    host, _, port = address.partition(":")
    wires = [connect((host, int(port))) for _ in range(16)]
    for wire in wires:
        assert wire.request("GET /head HTTP/1.1\nhost: a").status == 200
    used = set()
    for line in running.cli("show activity").splitlines():
        name, _, rest = line.partition(":")
        if name == "accepted":
            each = rest.partition("[")[2].rstrip(" ]").split()
            used = {number for number, count in enumerate(each, 1) if int(count)}
    assert used
    # the first one serves the runtime socket
    assert used <= threads | {1}
    for wire in wires:
        wire.close()


@pytest.mark.parametrize(
    ("words", "valid"),
    [
        ("thread all", True),
        ("thread 1/2-3", True),
        ("thread 3-2", True),
        ("thread 0", False),
        ("thread 65", False),
        ("thread x", False),
        ("thread 2/1", False),
        ("process 2", False),
        ("process all", True),
        ("shards 0", False),
        ("shards 65", False),
        ("shards x", False),
        ("transparent", True),
        ("nice -5", True),
        ("nice 5000", False),
        ("namespace nowhere", False),
    ],
)
def test_words(program: str, tmp_path: Path, words: str, valid: bool) -> None:
    file = tmp_path / "cfg"
    file.write_text(
        f"{HTTP}\nfrontend f\n    bind 127.0.0.1:8080 {words}\n    default_backend b\nbackend b\n"
    )
    done = run_to_end([*command_of(program), "-c", "-f", str(file)])
    assert (done.returncode == 0) == valid, done.stderr


def test_threads_that_do_not_exist(program: str, tmp_path: Path) -> None:
    file = tmp_path / "cfg"
    file.write_text(
        f"global\n    nbthread 2\n{HTTP}\nfrontend f\n    bind 127.0.0.1:8080 thread 5\n"
        "    default_backend b\nbackend b\n"
    )
    done = run_to_end([*command_of(program), "-c", "-f", str(file)])
    assert done.returncode == 1
    assert "'thread' directive" in done.stderr


def test_foreign_addresses(proxy, origin: Origin, address: str) -> None:
    """`transparent` is set before the socket is bound: an address of nobody here will do."""
    if not _may_be_transparent():
        pytest.skip("no right to IP_TRANSPARENT")
    running = proxy(
        config(origin, f"bind {address} transparent", "bind 192.0.2.77:8080 transparent")
    )
    assert get(address) == 200
    wait_until(lambda: listening(running, "192.0.2.77:8080") == 1, "a foreign address")


def _may_be_transparent() -> bool:
    with socket.socket() as sock:
        try:
            sock.setsockopt(socket.IPPROTO_IP, 19, 1)
        except PermissionError:
            return False
    return True
