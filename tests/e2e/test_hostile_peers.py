"""Clients and servers that mean no good, and limits that are reached: as HAProxy answers them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mtproxy.testing import procfs
from mtproxy.testing.configs import HTTP, TCP, http, tcp
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program, in_shell
from mtproxy.testing.waiting import PATIENCE
from mtproxy.testing.wire import Wire

#: `ulimit -n 100` leaves room for about 30 connections
FEW_DESCRIPTORS = in_shell("ulimit -n 100")
MAXCONN = "    nbthread {threads}\n    maxconn 30\n    no strict-limits\n"


# --- descriptors


@pytest.mark.parametrize("threads", [1, 2])
def test_idle_server_connections_give_their_descriptors(proxy, serve, threads: int) -> None:
    """Every client is served again and again at the limit, whatever is kept open for later."""

    def answer(wire: Wire) -> None:
        while True:
            wire.read_request()
            wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    running = proxy(
        http(serve(answer).port, head=MAXCONN.format(threads=threads) + HTTP),
        wrapper=FEW_DESCRIPTORS,
    )
    clients = 30 if running.program == "haproxy" else int(_info(running, "Maxconn"))
    for _ in range(5):
        wires = [running.connect() for _ in range(clients)]
        for wire in wires:
            wire.send(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        assert [wire.read_response().status for wire in wires] == [200] * clients
        for wire in wires:
            wire.close()


@pytest.mark.only("mtproxy")
def test_pipes_leave_descriptors_for_connections(proxy, serve) -> None:
    """HAProxy counts its pipes too, but does not lower a `maxconn` that was asked for."""
    go = threading.Event()

    def send_much(wire: Wire) -> None:
        wire.read_exactly(1)
        block = b"x" * (1 << 20)
        for number in range(8):
            wire.send(block)
            if number == 3:
                assert go.wait(PATIENCE)

    running = proxy(
        tcp(serve(send_much).port, head=MAXCONN.format(threads=1) + TCP), wrapper=FEW_DESCRIPTORS
    )
    clients = int(_info(running, "Maxconn"))

    def download(_: int) -> int:
        wire = running.connect()
        wire.send(b"x")
        first = len(wire.read_exactly(3 << 20))
        ready.wait(PATIENCE)
        go.set()
        return first + len(wire.read_to_end())

    ready = threading.Barrier(clients)
    with ThreadPoolExecutor(clients) as threads:
        assert set(threads.map(download, range(clients))) == {8 << 20}


def _info(running: Program, field: str) -> str:
    lines = dict(line.split(": ", 1) for line in running.cli("show info").splitlines() if line)
    return lines[field]


# --- clients


def test_pipelined_requests_without_a_server(proxy) -> None:
    """Three requests in one segment, no server: three answers."""
    head = HTTP + "\nfrontend fe\n    bind fd@${fe}\n    default_backend be\nbackend be\n"
    wire = proxy(head).connect()
    wire.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n" * 3)
    assert [wire.read_response().status for _ in range(3)] == [503] * 3


def test_a_bad_chunk_that_came_with_the_head(proxy, serve) -> None:
    """Nothing of a refused request is forwarded when all of it was there to be looked at."""
    running = proxy(http(serve(lambda wire: None).port))
    wire = running.connect()
    wire.send(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n")
    assert wire.read_response("POST").status == 400
    assert wire.at_end()
    assert running.stat("be", "s1")["stot"] == "0"


def test_a_head_byte_by_byte_costs_little(proxy, origin: Origin) -> None:
    """A slow loris at 14 kB: looking at the whole head again for every byte costs 0.4 ms each."""
    running = proxy(http(origin.port, fe="timeout http-request 60s"))
    head = b"GET /len/1 HTTP/1.1\r\nhost: a\r\n" + b"".join(
        b"x%d: %b\r\n" % (number, b"a" * 140) for number in range(95)
    )
    pause = threading.Event()

    def cost(start: int) -> float:
        """CPU seconds of 800 single bytes behind the first `start` ones."""
        wire = running.connect()
        wire.send(head[:start])
        before = procfs.cpu_seconds(running.pid)
        for at in range(start, start + 800):
            wire.send(head[at : at + 1])
            pause.wait(0.0015)  # so that each byte arrives alone: that is what is tested
        wire.send(head[start + 800 :] + b"\r\n")
        assert wire.read_response().status == 200
        return procfs.cpu_seconds(running.pid) - before

    assert cost(13_000) < 2 * cost(30) + 0.1


# --- servers


def test_a_bad_chunk_that_came_with_the_response_head(proxy, serve) -> None:

    def answer(wire: Wire) -> None:
        wire.read_request()
        wire.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n")

    wire = proxy(http(serve(answer).port)).connect()
    assert wire.request("GET / HTTP/1.1\nhost: a").status == 502


def test_a_server_that_speaks_something_else(proxy, serve) -> None:
    """A 502 at once, not a 504 when its time is over."""

    def banner(wire: Wire) -> None:
        wire.send(b"SSH-2.0-OpenSSH_9.2\r\n")
        wire.read_to_end()

    wire = proxy(http(serve(banner).port)).connect()
    assert wire.request("GET / HTTP/1.1\nhost: a").status == 502


@pytest.mark.parametrize("extra", [b"x", b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nEVIL"])
def test_bytes_behind_a_response_reach_nobody(proxy, serve, extra: bytes) -> None:
    """Neither this client nor the next one gets what a server sends unasked."""

    def answer(wire: Wire) -> None:
        while True:
            wire.read_request()
            wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ngood" + extra)

    running = proxy(http(serve(answer).port, be="http-reuse always"))
    wire = running.connect()
    for _ in range(10):
        assert wire.request("GET / HTTP/1.1\nhost: a").body == b"good"
        other = running.connect()
        assert other.request("GET / HTTP/1.1\nhost: a\nconnection: close").body == b"good"
        assert other.at_end()


def test_an_early_answer_then_the_body_then_a_next_request(proxy, serve) -> None:
    size = 3_000_000

    def answer(wire: Wire) -> None:
        wire.read_until(b"\r\n\r\n")
        wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nearly")
        wire.read_exactly(size)
        wire.read_request()
        wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnext")

    wire = proxy(http(serve(answer).port)).connect()
    wire.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % size)
    assert wire.read_response("POST").body == b"early"
    wire.send(b"x" * size + b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    assert wire.read_response().body == b"next"


def test_reuse_never_keeps_the_clients_own_connection(proxy, serve, request, program) -> None:
    """Also when the body came behind its head: the read that takes just the rest of it leaves the
    connection marked as readable.
    """
    pause = threading.Event()

    def answer(wire: Wire) -> None:
        while True:
            wire.read_request()
            wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n")
            pause.wait(0.05)
            wire.send(b"body")

    server = serve(answer)
    wire = proxy(http(server.port, be="http-reuse never")).connect()
    for _ in range(3):
        assert wire.request("GET / HTTP/1.1\nhost: a").body == b"body"
    assert server.accepted == 1
