"""Options whose effect is seen on connections only: each with it and without it, both programs."""

from __future__ import annotations

import select
import signal
import threading

import pytest

from mtproxy.testing.configs import http, tcp
from mtproxy.testing.origin import Origin
from mtproxy.testing.waiting import PATIENCE, wait_until
from mtproxy.testing.wire import Wire

GET = "GET /len/3 HTTP/1.1\nhost: a"


@pytest.mark.parametrize("stays", [True, False])
def test_idle_close_on_response(proxy, origin: Origin, stays: bool) -> None:
    """While the program stops, an idle client is let go at once, or with its next answer."""
    option = "option idle-close-on-response" if stays else ""
    running = proxy(http(origin.port, fe=option))
    wire = running.connect()
    assert wire.request(GET).status == 200
    running.process.send_signal(signal.SIGUSR1)
    if not stays:
        assert wire.at_end()
        return
    wait_until(
        lambda: "\nStopping: 1\n" in running.cli("show info"), "a program that is being stopped"
    )
    answer = wire.request(GET)
    assert answer.status == 200
    assert wire.at_end()


@pytest.mark.parametrize("independent", [True, False])
def test_independent_streams(proxy, serve, independent: bool) -> None:
    """What is sent to a client keeps a silent one alive, unless the directions are independent:
    then its own ends, which the server sees while it sends.
    """
    seen: list[bool] = []

    def handler(wire: Wire) -> None:
        for _ in range(50):
            wire.send(b"x")
            if select.select([wire.sock], [], [], 0.1)[0]:
                seen.append(True)
                return
        seen.append(False)

    option = "option independent-streams" if independent else ""
    text = tcp(serve(handler).port, fe=option, be=option)
    text = text.replace("timeout client 120s", "timeout client 2500ms")
    proxy(text).connect().read_to_end()
    wait_until(lambda: bool(seen), "the server's end")
    assert seen == [independent]


@pytest.mark.parametrize("mode", ["tcp", "http"])
def test_contstats(proxy, serve, mode: str) -> None:
    """Bytes are counted while a session lasts, and none of them again at its end."""
    done = threading.Event()
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 60000\r\n\r\n"
    first = 50_000 + len(head)

    def handler(wire: Wire) -> None:
        wire.read_until(b"\r\n\r\n")
        wire.send(head + b"x" * 50_000)
        done.wait(PATIENCE)
        wire.send(b"x" * 10_000)

    config = http if mode == "http" else tcp
    running = proxy(config(serve(handler).port, fe="option contstats"))
    wire = running.connect()
    wire.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    assert len(wire.read_exactly(first)) == first

    def counted(read: int) -> bool:
        # how long a head is for HAProxy depends on its own form of it
        rows = [running.stat("fe", "FRONTEND"), running.stat("be", "BACKEND")]
        return all(read <= int(row["bout"]) < read + 1000 and int(row["bin"]) for row in rows)

    try:
        # HAProxy counts every five seconds
        wait_until(lambda: counted(50_000), "bytes that are counted meanwhile")
        assert running.stat("fe", "FRONTEND")["scur"] == "1"
    finally:
        done.set()
    wire.read_exactly(10_000)
    wire.close()
    wait_until(lambda: running.stat("fe", "FRONTEND")["scur"] == "0", "the end of the session")
    wait_until(lambda: counted(60_000), "each byte counted once")


@pytest.mark.parametrize("option", ["", "option http-no-delay"])
def test_no_delay(proxy, serve, option: str) -> None:
    """A small chunk is passed on though the next one is yet to come."""
    seen = threading.Event()

    def handler(wire: Wire) -> None:
        wire.read_until(b"\r\n\r\n")
        wire.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n")
        assert seen.wait(PATIENCE)
        wire.send(b"2\r\ncd\r\n0\r\n\r\n")

    wire = proxy(http(serve(handler).port, fe=option, be=option)).connect()
    wire.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    wire.read_until(b"ab\r\n")
    seen.set()
    wire.read_until(b"cd\r\n")
