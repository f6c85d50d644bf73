"""Sessions listed and ended over the runtime socket."""

from __future__ import annotations

import contextlib
import re
import threading

import pytest

from mtproxy.testing.configs import HTTP, TCP, http, tcp
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program
from mtproxy.testing.syslog_sink import SyslogSink
from mtproxy.testing.waiting import PATIENCE, wait_until
from mtproxy.testing.wire import Wire, WireError

THREADS = "global\n    nbthread 2\n"
RAW = b"GET /wait HTTP/1.1\r\nhost: a\r\n\r\n"
#: a line of the list, as HAProxy 2.6 prints it
LINE = re.compile(
    r"0x[0-9a-f]+: proto=(\S+) src=(\S+):(\d+) fe=(\S+) be=(\S+) srv=(\S+) ts=[0-9a-f]{2} "
    r"epoch=\S+ age=(\S+) calls=\d+ rate=\d+ cpu=\d+ lat=\d+ "
    r"rq\[f=[0-9a-f]+h,i=\d+,an=[0-9a-f]+h,rx=\S*,wx=\S*,ax=\S*\] "
    r"rp\[f=[0-9a-f]+h,i=\d+,an=[0-9a-f]+h,rx=\S*,wx=\S*,ax=\S*\] "
    r"scf=\[\d+,[0-9a-f]+h,fd=-?\d+\] scb=\[\d+,[0-9a-f]+h,fd=-?\d+\] "
    r"exp=\S* rc=\d+ c_exp=\S*( run\(nice=-?\d+\))?"
)


def listed(program: Program) -> list[str]:
    """The lines of sessions, without the one that asks."""
    lines = [line for line in program.cli("show sess").splitlines() if line]
    for line in lines:
        assert LINE.fullmatch(line), line
    return [line for line in lines if " fe=GLOBAL " not in line]


def hang(server_gets: threading.Event, stop: threading.Event):
    """A server that reads a request and says nothing."""

    def handler(wire: Wire) -> None:
        wire.read_head()
        server_gets.set()
        stop.wait(PATIENCE)

    return handler


def test_list(proxy, serve) -> None:
    got, stop = threading.Event(), threading.Event()
    server = serve(hang(got, stop))
    running = proxy(THREADS + http(server.port))
    idle = running.connect()
    wire = running.connect()
    wire.send(RAW)
    assert got.wait(PATIENCE)
    wait_until(lambda: len(listed(running)) == 1, "the session")
    (line,) = listed(running)
    match = LINE.fullmatch(line)
    assert match is not None
    host, port = wire.sock.getsockname()
    assert match.groups()[:6] == ("tcpv4", host, str(port), "fe", "be", "s1")
    number = line.partition(":")[0]
    one = running.cli(f"show sess {number}")
    assert f" proto=tcpv4 source={host}:{port}\n" in one
    assert re.search(
        r"^  frontend=fe \(id=2 mode=http\), listener=\S+ \(id=1\) addr=", one, re.MULTILINE
    )
    assert re.search(r"^  backend=be \(id=3 mode=http\) addr=127.0.0.1:\d+$", one, re.MULTILINE)
    assert re.search(rf"^  server=s1 \(id=1\) addr=127.0.0.1:{server.port}$", one, re.MULTILINE)
    assert number in running.cli("show sess all")
    assert running.cli("show sess 0x12") == "Session not found.\n\n"
    stop.set()
    wait_until(lambda: not listed(running), "its end")
    idle.close()


@pytest.mark.only("mtproxy")
def test_older(proxy, serve) -> None:
    got, stop = threading.Event(), threading.Event()
    running = proxy(THREADS + http(serve(hang(got, stop)).port))
    running.connect().send(RAW)
    assert got.wait(PATIENCE)
    assert running.cli("show sess older 1h") == "\n"
    assert "srv=s1" in running.cli("show sess older 1ms")
    assert running.cli("show sess older x").startswith("'older' expects an age")
    stop.set()


def test_shutdown_session(proxy, serve, sink: SyslogSink) -> None:
    got, stop = threading.Event(), threading.Event()
    server = serve(hang(got, stop))
    fe = f"log 127.0.0.1:{sink.port} local0\n option httplog"
    running = proxy(THREADS + http(server.port, fe=fe))
    wire = running.connect()
    wire.send(RAW)
    assert got.wait(PATIENCE)
    wait_until(lambda: len(listed(running)) == 1, "the session")
    number = listed(running)[0].partition(":")[0]
    assert running.cli(f"shutdown session {number}") == "\n"
    assert wire.read_response().status == 502
    (match,) = sink.wait(r" be/s1 \S+ (-?\d+) \d+ - - (\S+) ")
    assert match.groups() == ("502", "KH--")
    wait_until(lambda: not listed(running), "its end")
    assert running.stat("be", "s1")["scur"] == "0"
    answer = running.cli("shutdown session 0x12")
    assert answer == "No such session (use 'show sess').\n\n"
    assert running.cli("shutdown session") == "Session pointer expected (use 'show sess').\n\n"
    stop.set()


def test_shutdown_sessions_of_a_server(proxy, serve, sink: SyslogSink) -> None:
    """Of one server of two, in mode tcp, while bytes go both ways."""

    def echo(wire: Wire) -> None:
        while data := wire.sock.recv(1000):
            wire.send(data)

    one, two = serve(echo), serve(echo)
    running = proxy(
        THREADS
        + tcp(one.port, fe=f"log 127.0.0.1:{sink.port} local0\n option tcplog")
        + f"    server s2 127.0.0.1:{two.port}\n"
    )
    wires = [running.connect() for _ in range(4)]
    for wire in wires:
        wire.send(b"hello")
        assert wire.read_exactly(5) == b"hello"
    assert len(listed(running)) == 4
    assert running.cli("shutdown sessions server be/s1") == "\n"
    wait_until(lambda: len(listed(running)) == 2, "their end")
    states = [m[1] for m in sink.wait(r" be/s1 \S+ 5 (\S+) ", count=2)]
    assert states == ["K-", "K-"]
    left = [line for line in listed(running) if " srv=s2 " in line]
    assert len(left) == 2
    alive = 0
    for wire in wires:
        try:
            wire.send(b"again")
            alive += wire.read_exactly(5) == b"again"
        except (OSError, EOFError, AssertionError):
            continue
    assert alive == 2
    assert running.cli("shutdown sessions server be/nope") == "No such server.\n\n"
    assert running.cli("shutdown sessions server") == "Require 'backend/server'.\n\n"


@pytest.mark.only("mtproxy")
@pytest.mark.parametrize("head", [HTTP, TCP], ids=["http", "tcp"])
def test_ending_sessions_under_traffic(proxy, origin: Origin, head: str) -> None:
    """Whatever a session is doing when it is ended: nothing hangs, nothing leaks, no exception."""
    running = proxy(THREADS + http(origin.port, head=head))
    done = threading.Event()
    answers: list[int] = []

    def ask() -> None:
        while not done.is_set():
            # most are ended in the middle
            with running.connect() as wire, contextlib.suppress(WireError, OSError):
                for path in ("/len/34", "/len/300000", "/chunked/5000"):
                    answer = wire.request(f"GET {path} HTTP/1.1\nhost: a")
                    answers.append(answer.status)

    clients = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
    for client in clients:
        client.start()
    for round_ in range(150):
        if round_ % 2:
            running.cli("shutdown sessions server be/s1")
        else:
            for line in listed(running)[:2]:
                running.cli(f"shutdown session {line.partition(':')[0]}")
    done.set()
    for client in clients:
        client.join(PATIENCE)
    assert answers
    wait_until(lambda: running.stat("fe", "FRONTEND")["scur"] == "0", "the end of all")
    for names in (("be", "BACKEND"), ("be", "s1")):
        assert running.stat(*names)["scur"] == "0"
    assert re.search(r"^errors: 0", running.cli("show activity"), re.MULTILINE)
    assert "failed unexpectedly" not in running.output()
