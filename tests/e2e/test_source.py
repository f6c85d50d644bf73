"""`source`: addresses, ports and interfaces that connections to servers come from."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mtproxy.testing.configs import http, tcp
from mtproxy.testing.server import HostPort
from mtproxy.testing.syslog_sink import SyslogSink
from mtproxy.testing.waiting import PATIENCE, wait_until
from mtproxy.testing.wire import Wire

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
GET = b"GET / HTTP/1.1\r\nhost: a\r\nx-real: 127.0.0.8\r\n\r\n"


class Listener:
    """A server that tells where its connections come from. The test accepts them itself."""

    def __init__(self) -> None:
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.sock.settimeout(PATIENCE)
        self.port: int = self.sock.getsockname()[1]

    def accept(self) -> tuple[Wire, HostPort]:
        sock, peer = self.sock.accept()
        return Wire(sock, PATIENCE), peer

    def answer(self) -> HostPort:
        """Serve one request; where it came from."""
        wire, peer = self.accept()
        with wire:
            wire.read_head()
            wire.send(ANSWER)
        return (peer[0], peer[1])


@pytest.fixture
def listener() -> Iterator[Listener]:
    listener = Listener()
    with listener.sock:
        yield listener


@contextmanager
def free_ports(count: int) -> Iterator[int]:
    """The first of some ports in a row that nobody uses on 127.0.0.9."""
    for first in range(24_000, 32_000, 17):
        held = []
        try:
            for port in range(first, first + count):
                sock = socket.socket()
                held.append(sock)
                sock.bind(("127.0.0.9", port))
        except OSError:
            continue
        finally:
            for sock in held:
                sock.close()
        yield first
        return
    pytest.skip("no free ports in a row")


@pytest.mark.parametrize(
    ("back", "words", "host"),
    [
        ("source 127.0.0.5", "", "127.0.0.5"),
        ("", "source 127.0.0.6", "127.0.0.6"),
        ("source 127.0.0.5", "source 127.0.0.6", "127.0.0.6"),
        ("", "source 127.0.0.6 interface lo", "127.0.0.6"),
        ("source 127.0.0.5 interface lo", "", "127.0.0.5"),
        # an interface that is not there is passed over
        ("", "source 127.0.0.6 interface none9", "127.0.0.6"),
        ("", "source 0.0.0.0 usesrc 127.0.0.11", "127.0.0.11"),
        ("", "source 0.0.0.0 usesrc hdr_ip(x-real)", "127.0.0.8"),
        ("source 0.0.0.0 usesrc clientip", "", "127.0.0.1"),
    ],
)
def test_where_connections_come_from(
    proxy, listener: Listener, back: str, words: str, host: str
) -> None:
    wire = proxy(http(listener.port, be=back, server=words)).connect()
    wire.send(GET)
    assert listener.answer()[0] == host
    assert wire.read_response().status == 200


def test_a_request_without_the_header_is_not_sent(proxy, listener: Listener) -> None:
    with SyslogSink() as sink:
        log = f"log 127.0.0.1:{sink.port} local0\noption httplog"
        config = http(listener.port, fe=log, server="source 0.0.0.0 usesrc hdr_ip(x-none)")
        wire = proxy(config).connect()
        wire.send(GET)
        assert wire.read_response().status == 500
        sink.wait(r" 500 \d+ - - IC-- ")


def test_ports_of_a_range_are_used_in_turn(proxy, listener: Listener) -> None:
    with free_ports(3) as first:
        config = http(
            listener.port, be="http-reuse never", server=f"source 127.0.0.9:{first}-{first + 2}"
        )
        wire = proxy(config).connect()
        peers = []
        for _ in range(3):
            wire.send(GET)
            peers.append(listener.answer())
            assert wire.read_response().status == 200
    assert peers == [("127.0.0.9", first + n) for n in range(3)]


def test_a_range_that_is_used_up(proxy, listener: Listener) -> None:
    """The third connection finds no port; when one is given back, the next finds it."""
    with free_ports(2) as first, SyslogSink() as sink:
        log = f"log 127.0.0.1:{sink.port} local0\noption tcplog\nretries 1"
        words = f"source 127.0.0.9:{first}-{first + 1}"
        running = proxy(tcp(listener.port, fe=log, be=log, server=words))
        held = []
        for number in range(2):
            client = running.connect()
            server, peer = listener.accept()
            assert peer == ("127.0.0.9", first + number)
            held.append((client, server))
        assert running.connect().at_end()
        sink.wait(r" be/s1 \S+ 0 SC ")
        sink.wait(r"Cannot bind to source address before connect\(\) for backend be")
        client, server = held[0]
        server.reset()
        assert client.at_end()
        client.close()
        wait_until(lambda: int(running.stat("be", "s1")["scur"]) == 1, "the session to end")
        again = running.connect()
        server, peer = listener.accept()
        assert peer == ("127.0.0.9", first)
        server.send(b"hello")
        assert again.read_exactly(5) == b"hello"
        for wire in (*held[1], again, server):
            wire.close()


def test_checks_come_from_there_too(proxy, listener: Listener) -> None:
    running = proxy(
        http(listener.port, be="option httpchk", server="source 127.0.0.5 check inter 1h"),
        ready=False,
    )
    assert listener.answer()[0] == "127.0.0.5"
    wait_until(lambda: running.stat("be", "s1")["check_status"] == "L7OK", "the check")


def test_an_address_of_nobody(proxy, listener: Listener) -> None:
    with SyslogSink() as sink:
        log = f"log 127.0.0.1:{sink.port} local0\noption httplog\nretries 1"
        running = proxy(http(listener.port, fe=log, be=log, server="source 192.0.2.77"))
        wire = running.connect()
        wire.send(GET)
        assert wire.read_response().status == 503
        sink.wait(r"Cannot bind to source address before connect\(\) for backend be")
        sink.wait(r" 503 \d+ - - SC-- ")
