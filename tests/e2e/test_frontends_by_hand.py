"""Frontends paused, resumed and shut down, and limits changed, while the program runs."""

from __future__ import annotations

import random
import select

import pytest

from mtproxy.testing.configs import HTTP, http
from mtproxy.testing.origin import Origin
from mtproxy.testing.syslog_sink import SyslogSink
from mtproxy.testing.wire import Wire, connect

GET = "GET /len/34 HTTP/1.1\nhost: a"
RAW = GET.replace("\n", "\r\n").encode() + b"\r\n\r\n"
THREADS = "global\n    nbthread 2\n"
PORT = 8080


@pytest.fixture
def address() -> str:
    """A loopback address that nobody else uses."""
    return "127." + ".".join(str(random.randrange(1, 255)) for _ in range(3))


def config(address: str, port: int, more: str = "") -> str:
    return THREADS + http(port, fe=more).replace("fd@${fe}", f"{address}:{PORT}")


def refused(address: str) -> bool:
    try:
        connect((address, PORT)).close()
    except ConnectionRefusedError:
        return True
    return False


def test_disable_and_enable(proxy, origin: Origin, sink: SyslogSink, address: str) -> None:
    running = proxy(config(address, origin.port, f"log 127.0.0.1:{sink.port} local0"))
    with connect((address, PORT)) as kept:
        assert kept.request(GET).status == 200
        for _ in range(3):
            assert running.cli("disable frontend fe") == "\n"
            assert refused(address)
            assert running.stat("fe", "FRONTEND")["status"] == "PAUSED"
            assert running.cli("disable frontend fe") == "All sockets are already disabled.\n\n"
            assert kept.request(GET).status == 200  # what is there goes on
            assert running.cli("enable frontend fe") == "\n"
            assert running.stat("fe", "FRONTEND")["status"] == "OPEN"
            assert running.cli("enable frontend fe") == "All sockets are already enabled.\n\n"
            with connect((address, PORT)) as wire:
                assert wire.request(GET).status == 200
    sink.wait("Resumed frontend fe", count=3)
    told = [text for text in sink.texts() if text.endswith("frontend fe.")]
    assert told == ["Paused frontend fe.", "Resumed frontend fe."] * 3


def test_an_inherited_socket_goes_on_listening(proxy, origin: Origin) -> None:
    running = proxy(THREADS + http(origin.port))
    assert running.cli("disable frontend fe") == "\n"
    waiting = running.connect()
    waiting.send(RAW)
    assert quiet(waiting)
    assert running.cli("enable frontend fe") == "\n"
    assert waiting.read_response().status == 200


def test_shutdown(proxy, origin: Origin, address: str) -> None:
    other = "frontend other\n    bind fd@${other}\n    default_backend be\n"
    running = proxy(config(address, origin.port) + other)
    with connect((address, PORT)) as kept:
        assert kept.request(GET).status == 200
        assert running.cli("shutdown frontend fe") == "\n"
        assert refused(address)
        assert running.stat("fe", "FRONTEND")["status"] == "STOP"
        assert kept.request(GET).status == 200
    assert running.cli("shutdown frontend fe") == "Frontend was already shut down.\n\n"
    assert running.cli("enable frontend fe") == (
        "Frontend was previously shut down, cannot enable.\n\n"
    )
    assert running.cli("disable frontend fe") == (
        "Frontend was previously shut down, cannot disable.\n\n"
    )
    assert "Proxy fe stopped (cumulated conns: FE: " in running.output()


def quiet(wire: Wire) -> bool:
    """Whether nothing comes for a while."""
    return not select.select([wire.sock], [], [], 0.3)[0]


# HAProxy 2.6 hangs where a connection waits when the limit is raised
@pytest.mark.only("mtproxy")
@pytest.mark.parametrize("configured", ["", "maxconn 1000"])
def test_maxconn_of_a_frontend(proxy, origin: Origin, configured: str) -> None:
    running = proxy(THREADS + http(origin.port, fe=configured))
    kept = [running.connect() for _ in range(2)]
    for wire in kept:
        assert wire.request(GET).status == 200
    assert running.cli("set maxconn frontend fe 2") == "\n"
    assert running.stat("fe", "FRONTEND")["slim"] == "2"
    waiting = running.connect()
    waiting.send(RAW)
    assert quiet(waiting)
    assert running.stat("fe", "FRONTEND")["scur"] == "2"
    assert running.cli("set maxconn frontend fe 3") == "\n"
    assert waiting.read_response().status == 200


def test_maxconn_of_the_process(proxy, origin: Origin) -> None:
    running = proxy("global\n    maxconn 100\n" + http(origin.port))
    assert running.cli("set maxconn global 1000000000") == "Value out of range.\n\n"
    assert running.cli("set maxconn global 7") == "\n"
    assert "\nMaxconn: 7\n" in running.cli("show info")
    assert running.cli("set maxconn global 0") == "\n"
    assert "\nMaxconn: 100\n" in running.cli("show info")


def test_a_frontend_without_sockets_that_listen_is_told_apart(proxy, origin: Origin) -> None:
    running = proxy(
        f"{HTTP}\nlisten li\n    bind fd@${{fe}}\n    server s 127.0.0.1:{origin.port}\n"
    )
    assert running.cli("disable frontend nope") == "No such frontend.\n\n"
    assert running.cli("disable frontend") == "A frontend name is expected.\n\n"
    assert running.cli("disable frontend li") == "\n"
    assert "Paused proxy li." in running.output()
