"""The runtime socket over its real socket: the same bytes in, the same form out as HAProxy."""

from __future__ import annotations

import csv
import json
import re
import threading

import pytest

from mtproxy.testing.configs import http
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program
from mtproxy.testing.syslog_sink import SyslogSink
from mtproxy.testing.waiting import PATIENCE, wait_until
from mtproxy.testing.wire import Wire, connect

VERSION = rb"[0-9][^\n]*\n\n"


@pytest.fixture
def running(proxy, origin: Origin) -> Program:
    started = proxy(http(origin.port, be="option log-health-checks"))
    started.wait_ready()
    return started


def talk(program: Program, sent: bytes, *, half_close: bool = True) -> bytes:
    with connect(program.socket_path) as wire:
        wire.send(sent)
        if half_close:
            wire.shutdown_write()
        return wire.read_to_end()


@pytest.mark.parametrize("half_close", [True, False])
@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"show version\n", VERSION),
        (b"show version;show version\n", VERSION * 2),
        (b"show version\nshow version\n", VERSION * 2),
        (b"  show \t version \r\n", VERSION),
        (b"show version extra words\n", VERSION),
        (b"quit\n", b""),
        (b"show version;quit;show version\n", VERSION),
        (b"prompt;quit\n", b"\n> "),
        (
            b"show cli level; operator; show cli level; user; show cli level\n",
            b"admin\n\n\noperator\n\n\nuser\n\n",
        ),
        (b"user;clear counters\n", b"\nPermission denied\n\n"),
        (b"operator;clear counters all\n", b"\nPermission denied\n\n"),
        (b"foo bar\n", rb"Unknown command[^$]*\n\n"),
        (b"\n", rb"Unknown command[^$]*\n\n"),
        (b"show\n", rb"Unknown command[^$]*  show info [^$]*\n\n"),
        (b"help\n", rb"The following commands are valid[^$]*  show stat [^$]*  quit [^$]*\n\n"),
        (b"set timeout\n", b"'set timeout' only supports 'cli'.\n\n"),
        (b"show backend\n", b"# name\nbe\n\n"),
        (b"get weight be/s1\n", rb"1 \(initial 1\)\n\n"),
        (b"set weight be/s1 300%;get weight be/s1\n", rb"\n3 \(initial 1\)\n\n"),
        (
            b"set weight be/s1 257\n",
            b"Absolute weight can only be between 0 and 256 inclusive.\n\n",
        ),
        (b"get weight nope/s1\n", b"No such backend.\n\n"),
        (b"get weight be/nope\n", b"No such server.\n\n"),
        (b"get weight be\n", b"Require 'backend/server'.\n\n"),
        (b"show stat nope 1 1\n", b"No such proxy.\n\n"),
        (b"show env MTPROXY_NOPE\n", b"Variable not found\n\n"),
        (b"show servers state nope\n", b"Can't find backend.\n\n"),
        (b"set severity-output number;get weight be\n", rb"\n\[3\]: Require [^\n]*\n\n"),
        (b"show errors\n", rb"Total events captured on \[[^]]*\] : 0\n\n"),
        (b"show version <<\nx\ny\n\n", VERSION),
    ],
)
def test_answers(running: Program, sent: bytes, expected: bytes, half_close: bool):
    got = talk(running, sent, half_close=half_close)
    assert re.fullmatch(expected, got), got


def test_half_a_line_is_not_run(running: Program):
    assert talk(running, b"show version") == b""


def test_session_with_prompt(running: Program):
    with connect(running.socket_path) as wire:
        for sent, expected in [
            (b"prompt\n", b"\n> "),
            (b"show version\n", VERSION + b"> "),
            (b"show ver", b""),
            (b"sion\n", VERSION + b"> "),
            (b"set timeout cli 5\n", b"\n> "),
        ]:
            wire.send(sent)
            if expected:
                got = wire.read_until(b"> ")
                assert re.fullmatch(expected, got), got
        wire.send(b"prompt\n")
        assert wire.read_to_end() == b"\n"


def test_time_out(running: Program):
    with connect(running.socket_path) as wire:
        wire.send(b"prompt;set timeout cli 1\n")
        wire.read_until(b"> \n> ")
        assert wire.at_end()


def test_many_sessions_at_once(running: Program):
    wires = [connect(running.socket_path) for _ in range(5)]
    for wire in wires:
        wire.send(b"prompt\n")
    for wire in wires:
        assert wire.read_until(b"> ") == b"\n> "
    for wire in wires:
        wire.send(b"show info\n")
    for wire in wires:
        assert b"\nPid: " in wire.read_until(b"\n\n> ")
        wire.close()


def test_client_that_leaves_early(running: Program):
    for _ in range(5):
        wire = connect(running.socket_path)
        wire.send(b"show stat;show info;show stat\n")
        wire.close()
    assert talk(running, b"show version\n")


# --- what programs parse


def info(program: Program) -> dict[str, str]:
    lines = program.cli("show info").strip().splitlines()
    return dict(line.split(": ", 1) for line in lines)


def test_show_info_fields(running: Program):
    got = info(running)
    assert len(got) == 69
    assert list(got)[:8] == [
        "Name", "Version", "Release_date", "Nbthread", "Nbproc", "Process_num", "Pid", "Uptime",
    ]  # fmt: skip
    assert got["Pid"] == str(running.pid)
    assert int(got["Maxconn"]) > 0


def shape(typed: str) -> list[str]:
    """Typed lines without their values."""
    return [line.rsplit(":", 1)[0] for line in typed.strip().splitlines()]


def test_typed_forms_are_the_same(proxy, running: Program, origin: Origin, program: str):
    """Names, positions, tags and types, compared with a HAProxy that runs beside."""
    if program == "haproxy":
        pytest.skip("is the one that is compared with")
    from mtproxy.testing.program import find_tool

    if find_tool("haproxy") is None:
        pytest.skip("haproxy is not installed: .ci/need haproxy")
    with Program("haproxy", running.config) as judge:
        judge.wait_ready()
        assert shape(running.cli("show info typed")) == shape(judge.cli("show info typed"))
        for what in ("fe 1 -1", "be 2 -1", "be 4 -1"):
            ours = {
                line.split(":")[0].split(".", 3)[3] + ":" + line.split(":", 1)[1]
                for line in shape(running.cli(f"show stat {what} typed"))
            }
            theirs = {
                line.split(":")[0].split(".", 3)[3] + ":" + line.split(":", 1)[1]
                for line in shape(judge.cli(f"show stat {what} typed"))
            }
            assert ours == theirs
        header = running.cli("show stat").splitlines()[0]
        assert header == judge.cli("show stat").splitlines()[0]


def test_json(running: Program):
    first = json.loads(running.cli("show info json"))[0]
    assert first["tags"] == {"origin": "Product", "nature": "Output", "scope": "Service"}
    rows = json.loads(running.cli("show stat json"))
    names = [[f["value"]["value"] for f in row if f["field"]["name"] == "svname"] for row in rows]
    assert names == [["FRONTEND"], ["s1"], ["BACKEND"]]


def stat(program: Program, proxy_name: str, name: str) -> dict[str, str]:
    lines = program.cli("show stat").removeprefix("# ").strip().splitlines()
    for row in csv.DictReader(lines):
        if (row["pxname"], row["svname"]) == (proxy_name, name):
            return row
    raise KeyError((proxy_name, name))


def test_counters_of_requests(running: Program):
    wire = running.connect()
    for path in ("/len/34", "/len/1000", "/status/404"):
        wire.request(f"GET {path} HTTP/1.1\nhost: a")

    def counted() -> bool:
        # the last thing that is counted
        row = stat(running, "be", "s1")
        return (row["hrsp_4xx"], row["scur"]) == ("1", "0")

    wait_until(counted, "the third request in the counters")
    front, server, back = (
        stat(running, *names) for names in (("fe", "FRONTEND"), ("be", "s1"), ("be", "BACKEND"))
    )
    for row in (front, server, back):
        assert (row["hrsp_2xx"], row["hrsp_4xx"], row["hrsp_5xx"]) == ("2", "1", "0")
        assert row["req_tot"] == "3"
        assert 1000 < int(row["bout"]) < 2000
        assert 60 < int(row["bin"]) < 400
    assert (front["scur"], front["smax"], front["stot"], front["conn_tot"]) == ("1", "1", "1", "1")
    assert (server["connect"], server["reuse"]) == ("1", "2")
    assert (server["lbtot"], back["lbtot"]) == ("3", "3")
    assert (server["scur"], back["scur"]) == ("0", "0")
    assert server["smax"] == back["smax"] == "1"
    assert 0 <= int(server["lastsess"]) < 60
    assert int(info(running)["CurrConns"]) == 1
    assert int(info(running)["CumReq"]) >= 3


@pytest.mark.parametrize("threads", [1, 2])
def test_highest_numbers_of_sessions(proxy, serve, sink: SyslogSink, threads: int) -> None:
    """A burst that is over before anybody looks."""
    together = 12
    go = threading.Event()

    def handler(wire: Wire) -> None:
        wire.read_head()
        assert go.wait(PATIENCE)
        wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")

    server = serve(handler)
    fe = f"log 127.0.0.1:{sink.port} local0\n option httplog"
    running = proxy(f"global\n    nbthread {threads}\n" + http(server.port, fe=fe))
    wires = [running.connect() for _ in range(together)]
    for wire in wires:
        wire.send(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
    wait_until(lambda: server.accepted == together, "all requests at the server")
    go.set()
    for wire in wires:
        assert wire.read_response().body == b"ok"
    wait_until(lambda: running.stat("fe", "FRONTEND")["scur"] == "0", "the sessions' end")
    for names in (("fe", "FRONTEND"), ("be", "BACKEND"), ("be", "s1")):
        assert running.stat(*names)["smax"] == str(together), names


def test_clear_counters(running: Program):
    running.connect().request("GET /len/34 HTTP/1.1\nhost: a")

    def counted() -> bool:
        row = stat(running, "be", "s1")
        return (row["hrsp_2xx"], row["scur"]) == ("1", "0")

    wait_until(counted, "the request in the counters")
    assert running.cli("clear counters all") == "\n"
    row = stat(running, "be", "s1")
    assert (row["hrsp_2xx"], row["stot"], row["bout"]) == ("0", "0", "0")


def test_rates(running: Program):
    for _ in range(40):  # more than three in some second, even if they take ten
        with running.connect() as wire:
            wire.request("GET /len/34 HTTP/1.1\nhost: a")
    assert int(stat(running, "fe", "FRONTEND")["rate_max"]) >= 3
    assert int(info(running)["MaxSessRate"]) >= 3


def test_maintenance(running: Program):
    assert running.cli("disable server be/s1") == "\n"
    assert running.server_status("be", "s1") == "MAINT"
    assert running.server_status("be", "BACKEND") == "DOWN"
    assert running.connect().request("GET / HTTP/1.1\nhost: a").status == 503
    assert running.cli("enable server be/s1") == "\n"
    wait_until(lambda: running.server_status("be", "BACKEND") == "UP", "backend up again")
    assert running.connect().request("GET /len/34 HTTP/1.1\nhost: a").status == 200


def test_drain_and_ready(running: Program):
    assert running.cli("set server be/s1 state drain") == "\n"
    assert running.server_status("be", "s1") == "DRAIN"
    assert running.cli("set server be/s1 state ready") == "\n"
    assert running.server_status("be", "s1") == "no check"


def test_servers_state(running: Program, origin: Origin):
    lines = running.cli("show servers state be").splitlines()
    assert lines[0] == "1"
    assert re.fullmatch(
        rf"\d+ be 1 s1 127\.0\.0\.1 2 0 1 1 \d+ 1 0 2 0 0 0 0 - {origin.port} - 0 0 - - 0", lines[2]
    )


@pytest.mark.only("mtproxy")
def test_reports_of_our_own(running: Program):
    wire: Wire = running.connect()
    wire.request("GET /len/34 HTTP/1.1\nhost: a")
    assert "Thread 1 : " in running.cli("show threads")
    assert re.search(r"^loops: [1-9]", running.cli("show activity"), re.MULTILINE)
    assert re.search(
        r"^ +\d+ : ready=\S+ tmask=0x\w+ .* fam=ipv4 lport=\d+ rport=",
        running.cli("show fd"),
        re.MULTILINE,
    )
    assert running.cli("show locks").startswith("Stats about Lock ")
    assert json.loads(running.cli("show locks json"))
