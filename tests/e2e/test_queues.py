"""Limits of servers and their queues: who waits, who is served next, who gives up."""

from __future__ import annotations

import re
import socket
import threading

import pytest

from mtproxy.testing.configs import HTTP
from mtproxy.testing.program import Program
from mtproxy.testing.syslog_sink import SyslogSink, parse_http_line
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import Wire, as_wire


class Gate:
    """A server that answers a request when it is told to; `inside` are those that wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self.arrived: list[str] = []
        self.inside: list[str] = []
        self.most = 0
        self._open: set[str] = set()
        self._all = False

    def __call__(self, wire: Wire) -> None:
        wire.sock.settimeout(None)
        while wire.buffer or wire.fill():
            path = wire.read_head().target.decode()
            with self._lock:
                self.arrived.append(path)
                self.inside.append(path)
                self.most = max(self.most, len(self.inside))
                self._lock.notify_all()
                self._lock.wait_for(lambda path=path: self._all or path in self._open)
                self.inside.remove(path)
            wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    def answer(self, *paths: str) -> None:
        with self._lock:
            self._open |= set(paths)
            self._all = not paths
            self._lock.notify_all()

    def wait(self, count: int) -> list[str]:
        """The first `count` requests that came."""
        with self._lock:
            assert self._lock.wait_for(lambda: len(self.arrived) >= count, 10), self.arrived
            return self.arrived[:count]


def config(sink: SyslogSink, servers: str, be: str = "", fe: str = "") -> str:
    return f"""{HTTP}
frontend fe
    bind "fd@${{fe}}"
    log 127.0.0.1:{sink.port} local0
    option httplog
    {fe}
    default_backend be
backend be
    timeout queue 5s
    {be}
    {servers}
"""


def ask(running: Program, path: str, *headers: str) -> Wire:
    wire = running.connect()
    wire.send(as_wire("\n".join([f"GET {path} HTTP/1.1", "host: a", *headers])))
    return wire


def queued(running: Program, count: int, server: str = "BACKEND") -> None:
    wait_until(lambda: running.stat("be", server)["qcur"] == str(count), f"{count} in the queue")


def in_turn(running: Program, *requests: tuple[str, ...]) -> list[Wire]:
    """The requests one after the other, each when the one before stands in the queue."""
    wires = []
    for number, request in enumerate(requests, 1):
        wires.append(ask(running, *request))
        queued(running, number)
    return wires


def lines(sink: SyslogSink, pattern: str, count: int = 1):
    return [parse_http_line(m.string) for m in sink.wait(pattern, count=count)]


def test_one_at_a_time_in_order(proxy, serve, sink: SyslogSink) -> None:
    gate = Gate()
    port = serve(gate).port
    running = proxy(config(sink, f"server s 127.0.0.1:{port} maxconn 1"))
    wires = [ask(running, "/0")]
    gate.wait(1)
    wires += in_turn(running, ("/1",), ("/2",), ("/3",))
    stat = running.stat("be", "BACKEND")
    assert (stat["qcur"], stat["qmax"]) == ("3", "3")
    gate.answer()
    assert [wire.read_response().status for wire in wires] == [200] * 4
    assert gate.arrived == ["/0", "/1", "/2", "/3"]
    assert gate.most == 1
    found = lines(sink, "GET /", count=4)
    assert [line.queues[1] for line in found] == [0, 1, 2, 3]
    assert [line.queues[0] for line in found] == [0] * 4
    assert [line.termination for line in found] == ["----"] * 4
    assert found[0].queue_time == 0 <= found[3].queue_time
    queued(running, 0)
    assert running.stat("be", "BACKEND")["qmax"] == "3"


def test_the_other_server_is_used_before_anybody_waits(proxy, serve, sink: SyslogSink) -> None:
    gates = [Gate(), Gate()]
    servers = "\n    ".join(
        f"server s{i} 127.0.0.1:{serve(gate).port} maxconn 2" for i, gate in enumerate(gates)
    )
    running = proxy(config(sink, servers))
    wires = [ask(running, f"/{i}") for i in range(4)]
    for gate in gates:
        gate.wait(2)
    wires += in_turn(running, ("/4",), ("/5",))
    for gate in gates:
        gate.answer()
    assert [wire.read_response().status for wire in wires] == [200] * 6
    assert [gate.most for gate in gates] == [2, 2]


def test_timeout_queue(proxy, serve, sink: SyslogSink) -> None:
    gate = Gate()
    server = f"server s 127.0.0.1:{serve(gate).port} maxconn 1 cookie s"
    running = proxy(config(sink, server, be="timeout queue 300ms\n cookie SID"))
    first = ask(running, "/0")
    gate.wait(1)
    assert ask(running, "/1").read_response().status == 503
    assert ask(running, "/2", "cookie: SID=s").read_response().status == 503
    one, two = lines(sink, "GET /[12]", count=2)
    assert (one.server, one.termination[:2], one.status) == ("<NOSRV>", "sQ", 503)
    assert (two.server, two.termination[:2], two.status) == ("s", "sQ", 503)
    assert one.queues == (0, 1)
    assert two.queues == (1, 0)
    assert 300 <= one.queue_time < 3000
    assert (one.connect_time, one.response_time) == (-1, -1)
    assert running.stat("be", "BACKEND")["econ"] == "2"
    assert running.stat("be", "s")["econ"] == "1"
    gate.answer()
    assert first.read_response().status == 200


def test_without_timeout_queue_that_of_connecting_holds(proxy, serve, sink: SyslogSink) -> None:
    gate = Gate()
    server = f"server s 127.0.0.1:{serve(gate).port} maxconn 1"
    running = proxy(
        config(sink, server, be="no timeout queue\n timeout connect 200ms")
        .replace("no timeout queue\n", "")
        .replace("timeout queue 5s", "")
    )
    ask(running, "/0")
    gate.wait(1)
    assert ask(running, "/1").read_response().status == 503
    (line,) = lines(sink, "GET /1")
    assert line.termination == "sQ--"
    assert 200 <= line.queue_time < 3000
    gate.answer()


def test_priorities(proxy, serve, sink: SyslogSink) -> None:
    gate = Gate()
    rules = """http-request set-priority-class req.hdr(x-class),add(0)
    http-request set-priority-offset req.hdr(x-offset),add(0)"""
    server = f"server s 127.0.0.1:{serve(gate).port} maxconn 1"
    running = proxy(config(sink, server, fe=rules))
    wires = [ask(running, "/0")]
    gate.wait(1)
    wires += in_turn(
        running,
        ("/low", "x-class: 10"),
        ("/late", "x-offset: 60000"),
        ("/middle",),
        ("/early", "x-offset: -60000"),
        ("/high", "x-class: -5"),
    )
    gate.answer()
    assert [wire.read_response().status for wire in wires] == [200] * 6
    assert gate.arrived == ["/0", "/high", "/early", "/middle", "/late", "/low"]


def test_maxqueue(proxy, serve, sink: SyslogSink) -> None:
    """The server's own queue is full: 503, or another server where that may be."""
    for redispatch in (False, True):
        gates = [Gate(), Gate()]
        one, two = (serve(gate).port for gate in gates)
        servers = f"""server s1 127.0.0.1:{one} maxconn 1 maxqueue 1 cookie s1
    server s2 127.0.0.1:{two} cookie s2"""
        option = "option redispatch" if redispatch else "no option redispatch"
        running = proxy(config(sink, servers, be=f"cookie SID\n {option}"))
        wires = [ask(running, f"/{redispatch}0", "cookie: SID=s1")]
        gates[0].wait(1)
        wires.append(ask(running, f"/{redispatch}1", "cookie: SID=s1"))
        queued(running, 1, "s1")
        wires.append(ask(running, f"/{redispatch}2", "cookie: SID=s1"))
        if redispatch:
            gates[1].wait(1)
            gates[1].answer()
        assert wires[-1].read_response().status == (200 if redispatch else 503)
        (line,) = lines(sink, f"GET /{redispatch}2")
        expected = ("s2", "--") if redispatch else ("s1", "SQ")
        assert (line.server, line.termination[:2]) == expected
        gates[0].answer()
        assert [wire.read_response().status for wire in wires[:2]] == [200, 200]
        assert gates[0].most == 1


def test_a_client_leaves_the_queue(proxy, serve, sink: SyslogSink) -> None:
    gate = Gate()
    server = f"server s 127.0.0.1:{serve(gate).port} maxconn 1"
    # HAProxy looks for clients that go where the option holds for the frontend as well
    text = config(sink, server).replace("defaults\n", "defaults\n    option abortonclose\n")
    running = proxy(text)
    first = ask(running, "/0")
    gate.wait(1)
    gone, stays = in_turn(running, ("/1",), ("/2",))
    gone.close()
    (line,) = lines(sink, "GET /1")
    assert (line.server, line.termination, line.status) == ("<NOSRV>", "CQ--", -1)
    assert line.queue_time >= 0
    queued(running, 1)
    gate.answer()
    assert [wire.read_response().status for wire in (first, stays)] == [200, 200]
    assert gate.arrived == ["/0", "/2"]


def closes_its_side(running: Program, gate: Gate, sink: SyslogSink) -> None:
    """A client that waits in the queue closes its sending side, and is let go without an answer."""
    first = ask(running, "/0")
    gate.wait(1)
    (gone,) = in_turn(running, ("/1",))
    gone.sock.shutdown(socket.SHUT_WR)
    assert gone.read_to_end() == b""
    (line,) = lines(sink, "GET /1")
    assert (line.server, line.termination, line.status) == ("<NOSRV>", "CQ--", -1)
    gate.answer()
    assert first.read_response().status == 200
    assert gate.arrived == ["/0"]


def test_half_closed_in_the_queue(proxy, serve, sink: SyslogSink) -> None:
    gate = Gate()
    text = config(sink, f"server s 127.0.0.1:{serve(gate).port} maxconn 1")
    text = text.replace("defaults\n", "defaults\n    option abortonclose\n")
    closes_its_side(proxy(text), gate, sink)


@pytest.mark.only("mtproxy")
def test_half_closed_in_the_queue_of_a_backend_with_the_option(
    proxy, serve, sink: SyslogSink
) -> None:
    """As the manual says of the option. HAProxy 2.6 does not look at clients whose frontend has not
    inherited it: the request stays in the queue, is sent when its turn comes, or gets the 503 of
    `timeout queue`.
    """
    gate = Gate()
    server = f"server s 127.0.0.1:{serve(gate).port} maxconn 1"
    closes_its_side(proxy(config(sink, server, be="option abortonclose")), gate, sink)


def test_without_abortonclose_it_stays(proxy, serve, sink: SyslogSink) -> None:
    gate = Gate()
    server = f"server s 127.0.0.1:{serve(gate).port} maxconn 1"
    running = proxy(config(sink, server))
    first = ask(running, "/0")
    gate.wait(1)
    (gone,) = in_turn(running, ("/1",))
    gone.sock.shutdown(socket.SHUT_WR)
    gate.answer()
    assert [wire.read_response().status for wire in (first, gone)] == [200, 200]
    assert gate.arrived == ["/0", "/1"]


def test_minconn_follows_the_load(proxy, serve, sink: SyslogSink) -> None:
    """One at a time until the backend holds a fair share of `fullconn`."""
    gate = Gate()
    server = f"server s 127.0.0.1:{serve(gate).port} minconn 1 maxconn 4"
    running = proxy(config(sink, server, be="fullconn 4"))
    wires = [ask(running, f"/{i}") for i in range(4)]
    gate.wait(4)
    assert gate.most == 4, "each makes room for itself"
    gate.answer()
    assert [wire.read_response().status for wire in wires] == [200] * 4
    gate = Gate()
    server = f"server s 127.0.0.1:{serve(gate).port} minconn 1 maxconn 4"
    running = proxy(config(sink, server, be="fullconn 40"))
    wires = [ask(running, "/0")]
    gate.wait(1)
    wires += in_turn(running, *((f"/{i}",) for i in range(1, 8)))
    assert gate.most == 1
    gate.answer()
    assert [wire.read_response().status for wire in wires] == [200] * 8
    assert gate.most == 1


def test_the_queue_of_a_server_that_goes_down(proxy, serve, sink: SyslogSink) -> None:
    """With `option redispatch` they are balanced anew, but for those of `force-persist`."""
    gates = [Gate(), Gate()]
    one, two = (serve(gate).port for gate in gates)
    servers = f"""server s1 127.0.0.1:{one} maxconn 1 cookie s1
    server s2 127.0.0.1:{two} cookie s2"""
    be = "cookie SID\n option redispatch\n force-persist if { path /forced }"
    running = proxy(config(sink, servers, be=be))
    first = ask(running, "/0", "cookie: SID=s1")
    gates[0].wait(1)
    moved = ask(running, "/1", "cookie: SID=s1")
    queued(running, 1, "s1")
    forced = ask(running, "/forced", "cookie: SID=s1")
    queued(running, 2, "s1")
    running.cli("disable server be/s1")
    gates[1].wait(1)
    gates[1].answer()
    assert moved.read_response().status == 200
    queued(running, 1, "s1")
    gates[0].answer()
    assert [wire.read_response().status for wire in (first, forced)] == [200, 200]
    assert gates[1].arrived == ["/1"]
    (line,) = lines(sink, "GET /1")
    assert (line.server, line.termination[:2]) == ("s2", "--")


def test_a_server_that_comes_up_takes_from_the_queue(proxy, serve, sink: SyslogSink) -> None:
    gates = [Gate(), Gate()]
    one, two = (serve(gate).port for gate in gates)
    servers = f"""server s1 127.0.0.1:{one} maxconn 1
    server s2 127.0.0.1:{two} maxconn 2 disabled"""
    running = proxy(config(sink, servers))
    wires = [ask(running, "/0")]
    gates[0].wait(1)
    wires += in_turn(running, ("/1",), ("/2",), ("/3",))
    running.cli("enable server be/s2")
    assert sorted(gates[1].wait(2)) == ["/1", "/2"]
    queued(running, 1)
    for gate in gates:
        gate.answer()
    assert [wire.read_response().status for wire in wires] == [200] * 4


def test_mode_tcp(proxy, serve, sink: SyslogSink) -> None:
    """Who has sent nothing and goes leaves the queue; who has sent something waits on."""
    gate = Gate()
    text = f"""
defaults
    mode tcp
    timeout client 5s
    timeout server 5s
    timeout connect 5s
    timeout queue 5s
frontend fe
    bind "fd@${{fe}}"
    log 127.0.0.1:{sink.port} local0
    option tcplog
    default_backend be
backend be
    server s 127.0.0.1:{serve(gate).port} maxconn 1
"""
    running = proxy(text)
    first = ask(running, "/0")
    gate.wait(1)
    silent = running.connect()
    queued(running, 1)
    silent.sock.shutdown(socket.SHUT_WR)
    (line,) = sink.wait(r"be/<NOSRV> ")
    assert re.search(r"be/<NOSRV> \d+/-1/\d+ 0 CQ ", line.string), line.string
    queued(running, 0)
    speaks = ask(running, "/1")
    queued(running, 1)
    speaks.sock.shutdown(socket.SHUT_WR)
    gate.answer()
    assert first.read_response().status == 200
    first.close()
    assert speaks.read_response().status == 200
