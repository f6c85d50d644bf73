"""`set server addr`, `set maxconn server`: a running server gets another address, port, limit."""

from __future__ import annotations

import threading

import pytest

from mtproxy.testing.configs import http
from mtproxy.testing.program import Program
from mtproxy.testing.waiting import PATIENCE, wait_until
from mtproxy.testing.wire import Wire

GET = "GET / HTTP/1.1\nhost: a"
SAME = "no need to change the addr"
BY = " by 'stats socket command'\n\n"


def named(name: bytes):
    def handler(wire: Wire) -> None:
        while wire.read_head():
            wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(name), name))

    return handler


def who(program: Program) -> bytes:
    with program.connect() as wire:
        return wire.request(GET).body


def test_another_place(proxy, serve) -> None:
    one = serve(named(b"one"))
    two = serve(named(b"two"), ("127.0.0.1", 0))
    running = proxy(f"global\n    nbthread 2\n{http(one.port)}")
    kept = running.connect()
    assert kept.request(GET).body == b"one"
    answer = running.cli(f"set server be/s1 addr 127.0.0.1 port {two.port}")
    assert (
        answer == f"no need to change the addr, port changed from '{one.port}' to '{two.port}'{BY}"
    )
    assert who(running) == b"two"
    assert kept.request(GET).body == b"two"  # the idle connection to the old one is gone
    assert running.stat("be", "s1")["addr"] == f"127.0.0.1:{two.port}"
    again = running.cli(f"set server be/s1 addr 127.0.0.1 port {two.port}")
    assert again == f"no need to change the addr, no need to change the port{BY}"
    assert running.cli("set server be/s1 addr 127.0.0.9") == (
        f"IP changed from '127.0.0.1' to '127.0.0.9'{BY}"
    )
    fields = running.cli("show servers state be").splitlines()[2].split()
    assert (fields[4], fields[18]) == ("127.0.0.9", str(two.port))


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("addr", "set server <b>/<s> addr requires an address and optionally a port.\n\n"),
        ("addr foo", f"Invalid addr 'foo'{BY}"),
        ("addr /tmp/x", f"Invalid addr '/tmp/x'{BY}"),
        ("addr 127.0.0.1 port", f"{SAME}, problem converting port '' to an int{BY}"),
        ("addr 127.0.0.1 port x", f"{SAME}, problem converting port 'x' to an int{BY}"),
        ("addr 127.0.0.1 foo", f"{SAME}{BY}"),
        (
            "addr ::1 port 99",
            f"IP changed from '127.0.0.1' to '::1', port changed from '9' to '99'{BY}",
        ),
        ("addr 127.0.0.1 port 99999", f"{SAME}, port changed from '9' to '34463'{BY}"),
        ("check-port 12", "health checks are not enabled on this server\n"),
        ("check-addr", "set server <b>/<s> check-addr requires an address and optionally a port."),
        ("agent-addr 127.0.0.1", "agent checks are not enabled on this server\n"),
        ("agent-send x", "agent checks are not enabled on this server.\n\n"),
        ("agent-port", "set server <b>/<s> agent-port requires a port.\n\n"),
        (
            "",
            "usage: set server <backend>/<server> addr | agent | agent-addr | agent-port | "
            "agent-send | check-addr | check-port | fqdn | health | ssl | state | weight\n\n",
        ),
        ("state", "'set server <srv> state' expects 'ready', 'drain' and 'maint'.\n\n"),
    ],
)
def test_answers(proxy, words: str, answer: str) -> None:
    running = proxy(http(9))
    got = running.cli(f"set server be/s1 {words}".strip())
    assert got.rstrip("\n") == answer.rstrip("\n")


@pytest.mark.parametrize(
    ("words", "answer", "place"),
    [
        ("check-port 12", "", "12 -"),
        ("check-addr 127.0.0.2", "", "9 127.0.0.2"),
        ("check-addr ::1 port 77", "", "77 ::1"),
        ("check-addr 127.0.0.2 port", "provided port is not an integer", "9 -"),
        ("check-port x", "provided port is not an integer", "9 -"),
        ("check-port 65536", "provided port is invalid", "9 -"),
        ("check-port -1", "provided port is invalid", "9 -"),
        ("check-addr nowhere", "invalid addr 'nowhere'", "9 -"),
        ("check-addr 127.0.0.2 port x", "provided port is not an integer", "9 -"),
    ],
)
def test_where_checks_go(proxy, words: str, answer: str, place: str) -> None:
    running = proxy(http(9, server="check port 9"))
    assert running.cli(f"set server be/s1 {words}").rstrip("\n") == answer
    line = running.cli("show servers state be").splitlines()[2].split()
    assert " ".join(line[21:23]) == place


def test_an_offset(proxy) -> None:
    running = proxy(http(9, server="check port 9"))
    assert running.cli("set server be/s1 addr 127.0.0.1 port +10") == (
        f"{SAME}, port changed from '9' to '+10'{BY}"
    )
    assert running.cli("set server be/s1 addr 127.0.0.1 port -7") == (
        f"no need to change the addr, port changed from '+10' to '-7'{BY}"
    )


@pytest.mark.parametrize("configured", ["", "maxconn 50"])
def test_maxconn(proxy, serve, configured: str) -> None:
    got, go = threading.Event(), threading.Event()

    def slow(wire: Wire) -> None:
        while wire.read_head():
            got.set()
            go.wait(PATIENCE)
            wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    running = proxy("global\n    nbthread 2\n" + http(serve(slow).port, server=configured))
    assert running.cli("set maxconn server be/s1 1") == "\n"
    wires = [running.connect() for _ in range(3)]
    for wire in wires:
        wire.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    assert got.wait(PATIENCE)
    wait_until(lambda: running.stat("be", "BACKEND")["qcur"] == "2", "two that wait")
    assert running.stat("be", "s1")["scur"] == "1"
    assert running.cli("set maxconn server be/s1 2") == "\n"
    go.set()
    for wire in wires:
        assert wire.read_response().body == b"ok"
    assert running.cli("set maxconn server be/s1") == "Require <maxconn>.\n\n"
    assert running.cli("set maxconn server be/nope 3") == "No such server.\n\n"
