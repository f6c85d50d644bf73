"""Servers added and removed over the runtime socket."""

from __future__ import annotations

import random
import re
import threading
from collections import Counter

import pytest

from mtproxy.testing.configs import HTTP
from mtproxy.testing.program import Program
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import Wire

GET = "GET / HTTP/1.1\nhost: a"


def named(name: bytes):
    """A server's side of a connection: every answer says who gives it."""

    def handler(wire: Wire) -> None:
        while wire.read_head():
            wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(name), name))

    return handler


def config(balance: str = "roundrobin", servers: str = "", more: str = "") -> str:
    return (
        f"global\n    nbthread 2\n{HTTP}\nfrontend fe\n    bind fd@${{fe}}\n"
        f"    default_backend be\n{more}\nbackend be\n    balance {balance}\n{servers}\n"
    )


def who(program: Program) -> str:
    with program.connect() as wire:
        answer = wire.request(GET)
        return answer.body.decode() if answer.status == 200 else str(answer.status)


@pytest.mark.parametrize("balance", ["roundrobin", "leastconn", "random"])
def test_add_and_delete(proxy, serve, balance: str) -> None:
    one, two = serve(named(b"one")), serve(named(b"two"))
    running = proxy(config(balance))
    assert who(running) == "503"
    assert running.cli(f"add server be/a 127.0.0.1:{one.port}") == "New server registered.\n\n"
    assert running.server_status("be", "a") == "MAINT"
    assert who(running) == "503"
    assert running.cli("enable server be/a") == "\n"
    assert who(running) == "one"
    assert running.cli(f"add server be/b 127.0.0.1:{two.port} weight 7 id 20").startswith("New")
    assert [who(running) for _ in range(4)] == ["one"] * 4
    assert running.cli("enable server be/b") == "\n"
    wait_until(lambda: who(running) == "two", "the second server's turn")
    assert running.cli("get weight be/b") == "7 (initial 7)\n\n"
    lines = running.cli("show servers state be").splitlines()[2:]
    assert [line.split()[2:4] for line in lines if line] == [["1", "a"], ["20", "b"]]

    assert running.cli(
        "del server be/a"
    ) == "Only servers in maintenance mode can be deleted.\n\n" or (
        # HAProxy 2.6 forgets the empty line
        running.program == "haproxy"
    )
    running.cli("disable server be/a")
    wait_until(lambda: running.cli("del server be/a").startswith("Server deleted"), "the removal")
    assert {who(running) for _ in range(6)} == {"two"}
    assert "a" not in [row.split(",")[1] for row in running.cli("show stat").splitlines() if row]
    assert running.cli(f"add server be/c 127.0.0.1:{one.port}").startswith("New")
    assert running.cli("show servers state be").splitlines()[-1].split()[2:4] == ["1", "c"] or (
        running.cli("show servers state be").splitlines()[-2].split()[2:4] == ["1", "c"]
    )


def test_checked(proxy, serve) -> None:
    """Checks of a new server are off until they are enabled."""
    server = serve(named(b"x"))
    running = proxy(config())
    line = f"add server be/a 127.0.0.1:{server.port} check inter 200ms"
    assert running.cli(line).startswith("New")
    dead = f"add server be/dead 127.0.0.1:{server.port} check port 1 inter 200ms fall 1"
    assert running.cli(dead).startswith("New")
    for name in ("a", "dead"):
        assert running.cli(f"enable health be/{name}") == "\n"
        assert running.cli(f"enable server be/{name}") == "\n"
    wait_until(lambda: running.server_status("be", "dead") == "DOWN", "its check")
    wait_until(lambda: running.server_status("be", "a") == "UP", "its check")
    assert who(running) == "x"
    running.cli("disable server be/dead")
    wait_until(lambda: running.cli("del server be/dead").startswith("Server deleted"), "removal")
    assert who(running) == "x"


def test_totals_do_not_shrink(proxy, serve) -> None:
    server = serve(named(b"x"))
    running = proxy(config())
    running.cli(f"add server be/a 127.0.0.1:{server.port}")
    running.cli("enable server be/a")
    for _ in range(5):
        assert who(running) == "x"
    wait_until(lambda: running.stat("be", "BACKEND")["hrsp_2xx"] == "5", "the counters")
    running.cli("disable server be/a")
    wait_until(lambda: running.cli("del server be/a").startswith("Server deleted"), "removal")
    row = running.stat("be", "BACKEND")
    assert (row["hrsp_2xx"], row["stot"], row["status"]) == ("5", "5", row["status"])


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("be", "Require 'backend/server'."),
        ("nope/s 127.0.0.1:1", "No such backend."),
        ("static/s 127.0.0.1:1", "Backend must use a dynamic load balancing to support dynamic"),
        ("be/s", "'server' expects <name> and <addr>[:<port>] as arguments."),
        ("be/s1 127.0.0.1:1", "Already exists a server with the same name in backend."),
        ("be/s 127.0.0.1:1 cookie x", "'cookie' option is not accepted for dynamic server"),
        ("be/s 127.0.0.1:1 max-reuse 3", "'max-reuse' option is not accepted for dynamic server"),
        ("be/s 127.0.0.1:1 weigh 3", "unknown keyword 'weigh'; did you mean 'weight' maybe ?"),
        ("be/s 127.0.0.1:1 id 1", "'id' : custom id 1 already used"),
        ("be/s$ 127.0.0.1:1", "character '$' is not permitted in server name 's$'."),
    ],
)
def test_refused(proxy, line: str, answer: str) -> None:
    static = "backend static\n    balance static-rr"
    running = proxy(config(servers="    server s1 127.0.0.1:9", more=static))
    assert running.cli(f"add server {line}").startswith(answer)
    assert "s1" in running.cli("show servers state be")


def test_what_is_pointed_at_stays(proxy) -> None:
    servers = """
    use-server s3 if { path /never }
    server checked 127.0.0.1:9 check
    server follows 127.0.0.1:9 track checked
    server s1 127.0.0.1:9
    server s3 127.0.0.1:9
    server s4 127.0.0.1:9
"""
    running = proxy(
        config(servers=servers, more="").replace(
            "    default_backend", "    acl full srv_sess_rate(be/s1) gt 50\n    default_backend"
        )
    )
    for name in ("s1", "s3", "checked"):
        running.cli(f"disable server be/{name}")
        assert running.cli(f"del server be/{name}").startswith("This server cannot be removed at")
    assert running.cli("del server be/s4").startswith("Only servers in maintenance mode can be")
    running.cli("disable server be/follows")
    assert running.cli("del server be/follows") == "Server deleted.\n"
    running.cli("disable server be/s4")
    assert running.cli("del server be/s4") == "Server deleted.\n"
    assert running.cli("del server be/s4").startswith("No such server.")


@pytest.mark.only("mtproxy")
@pytest.mark.parametrize("balance", ["roundrobin", "leastconn", "random", "first", "source"])
def test_coming_and_going_under_traffic(proxy, serve, balance: str) -> None:
    """One server stays; others come, serve and go while clients ask. Nobody gets an error."""
    backends = [serve(named(b"%d" % number)) for number in range(4)]
    # `source` chooses by the ring only if it is consistent
    more = "    hash-type consistent" if balance == "source" else ""
    stays = f"{more}\n    server stays 127.0.0.1:{backends[0].port}"
    running = proxy(config(balance, stays))
    done = threading.Event()
    counted: list[Counter[bytes | int]] = []
    asked: list[None] = []
    failures: list[object] = []

    def ask() -> None:
        counts: Counter[bytes | int] = Counter()
        counted.append(counts)
        try:
            while not done.is_set():
                with running.connect() as wire:
                    for _ in range(5):
                        answer = wire.request(GET)
                        asked.append(None)
                        counts[answer.body if answer.status == 200 else answer.status] += 1
        except Exception as error:  # noqa: BLE001 - told below
            failures.append(error)

    clients = [threading.Thread(target=ask, daemon=True) for _ in range(3)]
    for client in clients:
        client.start()
    rng = random.Random(balance)
    present: dict[str, bool] = {}
    deleted = 0
    step = 0
    while step < 100 or len(asked) < 300:
        step += 1
        name = f"d{rng.randrange(6)}"
        if name not in present:
            port = backends[rng.randrange(1, 4)].port
            assert running.cli(f"add server be/{name} 127.0.0.1:{port}").startswith("New")
            present[name] = False
        elif rng.random() < 0.5:
            command = "disable" if present[name] else "enable"
            assert running.cli(f"{command} server be/{name}") == "\n"
            present[name] = not present[name]
        else:
            running.cli(f"disable server be/{name}")
            present[name] = False
            if running.cli(f"del server be/{name}").startswith("Server deleted"):
                del present[name]
                deleted += 1
        if not step % 10:
            running.cli("show stat;show servers state;show servers conn")
    done.set()
    for client in clients:
        client.join(60)
    assert not failures
    seen = sum(counted, Counter())
    assert set(seen) <= {b"0", b"1", b"2", b"3"}, seen
    assert deleted > 10
    total = sum(seen.values())
    wait_until(lambda: running.stat("be", "BACKEND")["hrsp_2xx"] == str(total), "the counters")
    assert running.stat("be", "BACKEND")["scur"] == "0"
    assert re.search(r"^errors: 0", running.cli("show activity"), re.MULTILINE)


def test_tracking(proxy, serve) -> None:
    server = serve(named(b"x"))
    servers = (
        f"    server checked 127.0.0.1:{server.port} check inter 200ms\n    server s2 127.0.0.1:9"
    )
    running = proxy(config(servers=servers))
    line = f"add server be/t 127.0.0.1:{server.port} track"
    assert running.cli(f"{line} nope").startswith("unable to find required server 'nope' for")
    assert running.cli(f"{line} s2").startswith("unable to use be/s2 for tracking as it does not")
    assert running.cli(f"{line} checked check").startswith("unable to enable checks and tracking")
    assert running.cli(f"{line} be/checked").startswith("New server registered.")
    assert running.cli("add server be/u 127.0.0.1:9 track t").startswith("unable to use be/t for")
    assert running.server_status("be", "t") == "MAINT"
    running.cli("enable server be/t")
    wait_until(lambda: running.server_status("be", "t") == "UP", "following")
    running.cli("disable server be/checked")
    wait_until(lambda: running.server_status("be", "t") == "MAINT (via be/checked)", "following")
    running.cli("disable server be/t")
    assert running.cli("del server be/t").startswith("Server deleted")
    running.cli("enable server be/checked")
    assert "be,t," not in running.cli("show stat")


def test_a_limited_server_comes_and_goes(proxy, serve) -> None:
    """The first server of the backend with a limit, so that requests begin to queue."""
    got, go = threading.Event(), threading.Event()

    def slow(wire: Wire) -> None:
        while wire.read_head():
            got.set()
            go.wait(60)
            wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    running = proxy(config())
    running.cli(f"add server be/a 127.0.0.1:{serve(slow).port} maxconn 1")
    running.cli("enable server be/a")
    wires = [running.connect() for _ in range(3)]
    for wire in wires:
        wire.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    assert got.wait(60)
    wait_until(lambda: running.stat("be", "BACKEND")["qcur"] == "2", "two that wait")
    assert running.stat("be", "a")["scur"] == "1"
    running.cli("disable server be/a")
    assert running.cli("del server be/a").startswith("Server still has connections attached to it")
    running.cli("enable server be/a")
    go.set()
    for wire in wires:
        assert wire.read_response().body == b"ok"
    running.cli("disable server be/a")
    wait_until(lambda: running.cli("del server be/a").startswith("Server deleted"), "removal")
    assert who(running) == "503"


@pytest.mark.only("mtproxy")
def test_waiting_for_a_server_to_be_removable(proxy) -> None:
    """HAProxy has it from 3.0 on."""
    running = proxy(config(servers="    server s1 127.0.0.1:9"))
    assert running.cli("wait 10ms") == "\n"
    assert running.cli("wait 200ms srv-removable be/s1") == (
        "Wait delay expired.\nOnly servers in maintenance mode can be deleted.\n\n"
    )
    chain = "disable server be/s1;wait 60s srv-removable be/s1;del server be/s1"
    assert running.cli(chain) == "\nDone.\n\nServer deleted.\n"
