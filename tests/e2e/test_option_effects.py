"""Options whose effect is seen on connections only: each with it and without it, both programs."""

from __future__ import annotations

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
    """What is sent to a client keeps a silent one alive, unless the directions are independent."""
    left = threading.Event()

    def handler(wire: Wire) -> None:
        for _ in range(50):
            wire.send(b"x")
            if left.wait(0.1):
                return

    option = "option independent-streams" if independent else ""
    text = tcp(serve(handler).port, fe=option, be=option)
    text = text.replace("timeout client 120s", "timeout client 2500ms")
    wire = proxy(text).connect()
    got = wire.read_to_end()
    left.set()
    if independent:
        assert 0 < len(got) < 50
    else:
        assert len(got) == 50


def test_contstats(proxy, serve) -> None:
    """Bytes are counted while a session lasts."""
    done = threading.Event()

    def handler(wire: Wire) -> None:
        wire.send(b"x" * 50_000)
        done.wait(PATIENCE)

    running = proxy(tcp(serve(handler).port, fe="option contstats"))
    wire = running.connect()
    assert len(wire.read_exactly(50_000)) == 50_000
    try:
        # HAProxy counts every five seconds
        wait_until(lambda: int(running.stat("fe", "FRONTEND")["bout"]) == 50_000, "its bytes")
        assert running.stat("fe", "FRONTEND")["scur"] == "1"
    finally:
        done.set()


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
