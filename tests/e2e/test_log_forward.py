"""Sections `log-forward`: syslog in by UDP and over TCP, out to `log` targets (manual 3.10)."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from mtproxy.testing.server import free_port
from mtproxy.testing.waiting import wait_until

MESSAGE = b"<134>Nov  3 01:02:03 host tag[12]: hello"


@pytest.fixture
def collector() -> Iterator[socket.socket]:
    """Where messages go."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(20)
        yield sock


def target(collector: socket.socket) -> str:
    return f"127.0.0.1:{collector.getsockname()[1]}"


def test_datagrams(proxy, collector: socket.socket) -> None:
    port = free_port()
    running = proxy(
        f"log-forward in\n    dgram-bind 127.0.0.1:{port}\n"
        f"    log {target(collector)} format rfc5424 local0 notice\n"
        f"    log {target(collector)} local0\n"
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(("127.0.0.1", port))
        sender.send(MESSAGE + b"\n")
        assert collector.recv(1000) == MESSAGE + b"\n"
        # notice is more important than info: this one goes to both
        sender.send(MESSAGE.replace(b"134", b"133"))
        first, second = collector.recv(1000), collector.recv(1000)
    assert first.startswith(b"<133>1 20")
    assert first.endswith(b"-11-03T01:02:03-00:00 host tag 12 - - hello\n")
    assert second == MESSAGE.replace(b"134", b"133") + b"\n"
    assert "\nCumRecvLogs: 2\n" in running.cli("show info")


def test_connections(proxy, collector: socket.socket) -> None:
    port = free_port()
    proxy(
        f"log-forward in\n    bind 127.0.0.1:{port}\n    maxconn 1\n    timeout client 20s\n"
        f"    log {target(collector)} local0\n"
    )
    address = ("127.0.0.1", port)
    with socket.create_connection(address, 20) as one, socket.create_connection(address, 20) as two:
        one.sendall(b"<13>a b\r\n%d %b<14>c" % (len(MESSAGE), MESSAGE))
        assert collector.recv(1000) == b"<13>a b\n"
        assert collector.recv(1000) == MESSAGE + b"\n"
        two.sendall(b"<13>later\n")
        one.sendall(b"d\nnonsense")
        assert collector.recv(1000) == b"<14>cd\n"
        # the end of the first lets the second in
        assert one.recv(1) == b""
        assert collector.recv(1000) == b"<13>later\n"


def test_into_a_ring(proxy) -> None:
    port = free_port()
    running = proxy(
        f"ring r\n    format priority\n"
        f"log-forward in\n    dgram-bind 127.0.0.1:{port}\n    log ring@r local0\n"
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(MESSAGE, ("127.0.0.1", port))
    wait_until(lambda: "<134>hello" in running.cli("show events r"), "the message in the ring")
