"""Limits of sessions per second, and sessions that end with their server's state."""

from __future__ import annotations

import time

import pytest

from mtproxy.testing.configs import http
from mtproxy.testing.origin import Origin
from mtproxy.testing.syslog_sink import SyslogSink, parse_http_line
from mtproxy.testing.wire import as_wire

GET = "GET /len/5 HTTP/1.1\nhost: a\nconnection: close"


@pytest.mark.parametrize("where", ["frontend", "maxsessrate", "maxconnrate", "by hand"])
def test_sessions_per_second(proxy, origin: Origin, where: str) -> None:
    fe = "rate-limit sessions 10" if where == "frontend" else ""
    text = http(origin.port, fe=fe)
    if where.startswith("max"):
        text = f"    {where} 10\n{text}"
    running = proxy(text)
    if where == "by hand":
        running.cli("set rate-limit sessions global 10")
    started = time.monotonic()
    wires = [running.connect() for _ in range(25)]
    for wire in wires:
        wire.send(as_wire(GET))
    assert [wire.read_response().status for wire in wires] == [200] * 25
    assert 1.2 <= time.monotonic() - started < 20
    if where == "frontend":
        assert running.stat("fe", "FRONTEND")["rate_lim"] == "10"
    elif where == "maxconnrate":
        assert "ConnRateLimit: 10" in running.cli("show info")
    else:
        assert "SessRateLimit: 10" in running.cli("show info")


def test_on_marked_down(proxy, origin: Origin, sink: SyslogSink) -> None:
    fe = f"log 127.0.0.1:{sink.port} local0\n option httplog"
    running = proxy(http(origin.port, fe=fe, server="on-marked-down shutdown-sessions"))
    wire = running.connect()
    wire.send(as_wire("GET /stall/10 HTTP/1.1\nhost: a"))
    wire.read_head()
    running.cli("disable server be/s1")
    line = parse_http_line(sink.wait("GET /stall")[0].string)
    assert line.termination[0] == "D"


def test_on_marked_up(proxy, origin: Origin, sink: SyslogSink) -> None:
    fe = f"log 127.0.0.1:{sink.port} local0\n option httplog"
    text = http(origin.port, fe=fe, server="disabled on-marked-up shutdown-backup-sessions")
    running = proxy(f"{text}    server s2 127.0.0.1:{origin.port} backup\n")
    wire = running.connect()
    wire.send(as_wire("GET /stall/10 HTTP/1.1\nhost: a"))
    wire.read_head()
    running.cli("enable server be/s1")
    line = parse_http_line(sink.wait("GET /stall")[0].string)
    assert (line.server, line.termination[0]) == ("s2", "U")
