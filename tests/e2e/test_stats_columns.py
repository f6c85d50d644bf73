"""Every column of `show stat` and line of `show info` beside HAProxy's, after the same traffic.

A column is empty where HAProxy's is, and has the same value; where values are times, rates or
bytes on the wire, it is only looked at whether there is one.
"""

from __future__ import annotations

import csv
import io
import json
import socket

import pytest

from mtproxy.testing.configs import HTTP
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import connect

#: different from run to run, or counted in another way for a reason (docs/statistics.md)
VALUES_DIFFER = {
    # times and rates
    "lastchg", "downtime", "lastsess", "rate", "rate_max", "req_rate", "req_rate_max", "conn_rate",
    "conn_rate_max", "qtime", "ctime", "rtime", "ttime", "qtime_max", "ctime_max", "rtime_max",
    "ttime_max", "check_duration", "agent_duration", "throttle",
    # how many checks there were, and whether one is under way
    "check_status", "agent_status", "need_conn_est",
    # a connection that has ended may be seen a moment later
    "scur", "smax",
    # bytes as they are on the wire; HAProxy counts its own representation of HTTP
    "bin", "bout", "h1_bytes_in", "h1_bytes_out",
    # idle connections are each thread's own
    "srv_icur", "idle_conn_cur", "safe_conn_cur", "connect", "reuse", "h1_open_connections",
    "h1_open_streams", "h1_total_connections", "h1_total_streams",
    # ports of this run
    "addr",
}  # fmt: skip

CONFIG = """
global
    maxconn 500
    maxconnrate 7000
    maxsessrate 6000
{HTTP}
    retries 1
frontend fe
    bind "fd@${{fe}}" name one
    option socket-stats
    maxconn 77
    rate-limit sessions 5000
    http-request deny if {{ path /deny }}
    http-request return status 204 if {{ path /ret }}
    http-request redirect location /x if {{ path /redir }}
    http-response deny if {{ path /refused }}
    stats enable
    stats uri /stats
    use_backend dead if {{ path /dead }}
    use_backend none if {{ path /none }}
    use_backend cook if {{ path_beg /cook }}
    use_backend own if {{ path_beg /own }}
    default_backend be
listen li
    bind "fd@${{li}}"
    server s1 127.0.0.1:{origin}
frontend tcpf
    mode tcp
    bind "fd@${{tcpf}}"
    default_backend tcpb
backend tcpb
    mode tcp
    server t1 127.0.0.1:{origin}
backend be
    server s1 127.0.0.1:{origin} weight 5 pool-max-conn 12 maxconn 20 maxqueue 3
    server s2 127.0.0.1:{dead} weight 9 check inter 100ms
    server s3 127.0.0.1:{origin} backup
    server s4 127.0.0.1:{origin} disabled
    server s5 127.0.0.1:{origin} check inter 100ms backup slowstart 1s
    server s6 127.0.0.1:{origin} track s5 backup
    server s7 127.0.0.1:{origin} agent-check agent-port 1 agent-inter 100ms backup
    server s8 127.0.0.1:{origin} check inter 100ms observe layer7 backup
backend dead
    server d1 127.0.0.1:{dead}
backend none
backend own
    stats uri /own
    http-request deny if {{ path /owndeny }}
    http-request return status 200 if {{ path /ownret }}
    server s1 127.0.0.1:{origin}
backend cook
    cookie SRV insert
    balance leastconn
    server c1 127.0.0.1:{origin} cookie abc
"""

type Rows = dict[tuple[str, str], dict[str, str]]


def traffic(running: Program) -> None:
    """A bit of everything, one connection after the other."""

    def send(raw: bytes, name: str = "fe") -> bytes:
        with connect(running.address(name)) as wire:
            wire.send(raw)
            return wire.read_to_end()

    def get(path: str, name: str = "fe", more: str = "") -> bytes:
        head = f"GET {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n{more}\r\n"
        return send(head.encode(), name)

    for path in (
        "/a", "/a", "/deny", "/deny", "/ret", "/redir", "/refused", "/dead", "/none", "/cook",
        "/stats;csv", "/own", "/owndeny", "/ownret",
    ):  # fmt: skip
        get(path)
    get("/cook", more="cookie: SRV=abc\r\n")
    send(b"BAD\r\n\r\n")
    get("/a", "li")
    get("/b", "li")
    get("/c", "tcpf")
    with connect(running.address("fe")) as wire:
        for _ in range(3):
            wire.send(b"GET /a HTTP/1.1\r\nhost: h\r\n\r\n")
            head = wire.read_head()
            wire.read_exactly(int(head.get("content-length") or 0))


def rows(text: str) -> Rows:
    reader = csv.DictReader(io.StringIO(text.removeprefix("# ")))
    return {(row["pxname"], row["svname"]): row for row in reader}


def figures(text: str) -> dict[str, str]:
    pairs = (line.partition(": ") for line in text.splitlines())
    return {name: value for name, colon, value in pairs if colon}


def at_rest(found: Rows) -> bool:
    """The last session has been accounted for, and every check has come to its end."""
    busy = any(row["scur"] not in ("", "0") for row in found.values())
    return (
        not busy
        and found["be", "s2"]["status"] == "DOWN"
        and found["be", "s5"]["status"] == found["be", "s6"]["status"] == "UP"
        and found["be", "s8"]["status"] == "UP"
        and found["be", "s7"]["agent_status"].endswith("L4CON")
    )


@pytest.fixture(scope="module")
def told() -> dict[str, dict[str, str]]:
    """What both programs say after the same traffic, by command."""
    answers: dict[str, dict[str, str]] = {}
    with Origin() as origin, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        text = CONFIG.format(HTTP=HTTP, origin=origin.port, dead=closed.getsockname()[1])
        for program in ("haproxy", "mtproxy"):
            with Program(program, text) as running:
                running.wait_ready()
                wait_until(
                    lambda running=running: at_rest(rows(running.cli("show stat"))), "checks"
                )
                traffic(running)
                wait_until(
                    lambda running=running: at_rest(rows(running.cli("show stat"))), "the end"
                )
                answers[program] = {
                    command: running.cli(command)
                    for command in (
                        "show stat", "show stat typed", "show stat be -1 -1", "show stat -1 4 2",
                        "show stat -1 8 -1", "show stat up", "show stat no-maint", "show info",
                        "show info typed", "show stat be 4 -1 typed",
                    )
                }  # fmt: skip
    return answers


def test_all_columns(told: dict[str, dict[str, str]]) -> None:
    theirs = rows(told["haproxy"]["show stat"])
    ours = rows(told["mtproxy"]["show stat"])
    assert list(theirs) == list(ours)
    differences = []
    for key, row in theirs.items():
        for column, value in row.items():
            own = ours[key][column]
            same = bool(own) == bool(value) if column in VALUES_DIFFER else own == value
            if not same:
                differences.append((key, column, value, own))
    assert not differences


def test_the_header(told: dict[str, dict[str, str]]) -> None:
    theirs, ours = (told[one]["show stat"].partition("\n")[0] for one in ("haproxy", "mtproxy"))
    assert theirs == ours


@pytest.mark.parametrize(
    "command",
    ["show stat be -1 -1", "show stat -1 4 2", "show stat -1 8 -1", "show stat up",
     "show stat no-maint"],
)  # fmt: skip
def test_filters(told: dict[str, dict[str, str]], command: str) -> None:
    theirs, ours = rows(told["haproxy"][command]), rows(told["mtproxy"][command])
    assert list(theirs) == list(ours)
    assert [row["status"] for row in theirs.values()] == [row["status"] for row in ours.values()]


@pytest.mark.parametrize("command", ["show stat typed", "show stat be 4 -1 typed"])
def test_typed_lines(told: dict[str, dict[str, str]], command: str) -> None:
    """Kind, numbers, positions, names, tags and types; values were compared above."""

    def places(text: str) -> list[str]:
        lines = [line.split(":", 3) for line in text.splitlines() if line]
        # only there while the last check's result has one
        return [":".join(words[:3]) for words in lines if ".check_code." not in words[0]]

    assert places(told["haproxy"][command]) == places(told["mtproxy"][command])


@pytest.mark.parametrize("form", ["", " typed", " json"])
def test_name_servers(form: str) -> None:
    config = f"""{HTTP}
resolvers dns
    nameserver one 127.0.0.1:1
    nameserver two 127.0.0.1:2
frontend fe
    bind "fd@${{fe}}"
"""
    answers = []
    for program in ("haproxy", "mtproxy"):
        with Program(program, config) as running:
            running.wait_ready()
            answers.append(running.cli(f"show stat domain resolvers{form}"))
    if form == " json":
        # HAProxy 2.6 forgets commas between the name servers
        assert len(json.loads(answers[1])) >= 2
        assert answers[0].startswith(answers[1].partition("],[")[0])
        return
    # those of the system follow
    assert answers[0] == answers[1]


def test_show_info(told: dict[str, dict[str, str]]) -> None:
    theirs, ours = figures(told["haproxy"]["show info"]), figures(told["mtproxy"]["show info"])
    assert list(theirs) == list(ours)
    for name in ("Nbthread", "Nbproc", "Process_num", "Maxconn", "Hard_maxconn", "CurrConns",
                 "Maxpipes", "Stopping", "Listeners", "node", "MaxSslConns", "Unstoppable Jobs",
                 "BusyPolling", "DroppedLogs", "Tainted", "ConnRateLimit",
                 "SessRateLimit"):  # fmt: skip
        assert theirs[name] == ours[name], name

    def places(text: str) -> list[str]:
        return [":".join(line.split(":", 3)[:3]) for line in text.splitlines() if line]

    typed = [told[one]["show info typed"] for one in ("haproxy", "mtproxy")]
    assert places(typed[0]) == places(typed[1])
