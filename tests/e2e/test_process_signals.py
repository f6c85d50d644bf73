"""Signals, taking over from another process, and the keywords that go with them."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
from pathlib import Path

import pytest

from mtproxy.testing.configs import HTTP, http
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program, run_to_end
from mtproxy.testing.program import command_of as command
from mtproxy.testing.server import free_port
from mtproxy.testing.syslog_sink import SyslogSink
from mtproxy.testing.waiting import PATIENCE, wait_until
from mtproxy.testing.wire import Wire, connect, refused

GET = "GET /len/5 HTTP/1.1\nhost: a"


def at(port: int, origin: Origin, more: str = "", fe: str = "") -> str:
    """A configuration that binds `port` itself."""
    return f"global\n    {more}\n" + http(origin.port, fe=fe).replace(
        '"fd@${fe}"', f"127.0.0.1:{port}"
    )


def ask(port: int) -> int:
    with connect(("127.0.0.1", port)) as wire:
        return wire.request(GET).status


# -- SIGHUP


def test_dump_of_servers(proxy, origin: Origin, sink: SyslogSink) -> None:
    text = (
        http(
            origin.port,
            head=f"global\n    log 127.0.0.1:{sink.port} local0\n{HTTP}\n    log global",
        )
        + "    server s2 127.0.0.1:9 disabled\n"
        + "backend spare\n    server s1 127.0.0.1:9 disabled\n    server s2 127.0.0.1:9 backup\n"
        + "backend none\n    server s1 127.0.0.1:9 disabled\n"
    )
    running = proxy(text)
    assert running.connect().request(GET).status == 200
    wait_until(lambda: running.stat("be", "BACKEND")["scur"] == "0", "the request's end")
    running.process.send_signal(signal.SIGHUP)
    last = "SIGHUP: Proxy none has no server available ! Conn:"
    wait_until(lambda: last in running.output(), "the dump")
    said = re.findall(r"SIGHUP.*", running.output())
    said = [line for line in said if "HTTPCLIENT" not in line and "GLOBAL" not in line]
    act = "Conn: act(FE+BE): {}, 0 pend (0 unass), tot(FE+BE): {}."
    wanted = [
        "SIGHUP received, dumping servers states.",
        "SIGHUP: Proxy fe has no servers. " + act.format("1+0", "1+0"),
        "SIGHUP: Server be/s1 is UP. Conn: 0 act, 0 pend, 1 tot.",
        "SIGHUP: Server be/s2 is DOWN. Conn: 0 act, 0 pend, 0 tot.",
        "SIGHUP: Proxy be has 1 active servers and 0 backup servers available. "
        + act.format("0+0", "0+1"),
        "SIGHUP: Server spare/s1 is DOWN. Conn: 0 act, 0 pend, 0 tot.",
        "SIGHUP: Server spare/s2 is UP. Conn: 0 act, 0 pend, 0 tot.",
        "SIGHUP: Proxy spare is running on backup servers ! " + act.format("0+0", "0+0"),
        "SIGHUP: Server none/s1 is DOWN. Conn: 0 act, 0 pend, 0 tot.",
        "SIGHUP: Proxy none has no server available ! " + act.format("0+0", "0+0"),
    ]
    assert said == wanted
    sink.wait(r"SIGHUP: Proxy none has no server available !")
    logged = [text for text in sink.texts() if "HTTPCLIENT" not in text]
    for line in wanted[1:]:
        assert any(line in text for text in logged), line
    begun = "SIGHUP received, dumping servers states for proxy "
    assert sum(begun in text for text in logged) == 4


# -- SIGTTOU, SIGTTIN


def test_the_ports_are_given_away_and_taken_back(proxy, origin: Origin) -> None:
    port = free_port()
    running = proxy(at(port, origin))
    with connect(("127.0.0.1", port)) as open_before:
        assert open_before.request(GET).status == 200
        running.process.send_signal(signal.SIGTTOU)
        wait_until(lambda: refused(("127.0.0.1", port)), "nobody to listen")
        # another program may have the port meanwhile
        other = socket.socket()
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.close()
        assert open_before.request(GET).status == 200
    running.process.send_signal(signal.SIGTTIN)
    wait_until(lambda: not refused(("127.0.0.1", port)), "it to listen again")
    assert ask(port) == 200
    wait_until(lambda: "Resumed frontend fe." in running.output(), "a message")
    assert "Paused frontend fe." in running.output()


# -- -sf, -st


@pytest.mark.parametrize("way", ["", "noreuseport"])
def test_a_new_process_takes_over(program: str, proxy, origin: Origin, way: str) -> None:
    port = free_port()
    old = proxy(at(port, origin, way))
    assert ask(port) == 200
    with Program(program, at(port, origin, way), args=("-sf", str(old.pid))) as new:
        new.wait_ready()
        assert old.wait_exit() == 0
        assert ask(port) == 200
        with Program(program, at(port, origin, way), args=("-st", str(new.pid))) as newest:
            newest.wait_ready()
            assert new.wait_exit() in (0, -signal.SIGTERM, 143)
            assert ask(port) == 200


def test_a_new_process_that_cannot_start_leaves_the_old_one(
    program: str, proxy, origin: Origin, tmp_path: Path
) -> None:
    port = free_port()
    old = proxy(at(port, origin, "noreuseport"))
    with socket.socket() as foreign:
        foreign.bind(("127.0.0.1", 0))
        foreign.listen()
        taken = foreign.getsockname()[1]
        config = tmp_path / "cfg"
        more = f"bind 127.0.0.1:{taken}"
        config.write_text(at(port, origin, "noreuseport", fe=more))
        done = run_to_end([*command(program), "-db", "-f", str(config), "-sf", str(old.pid)])
    assert done.returncode == 1
    assert "cannot bind socket" in done.stderr + done.stdout
    wait_until(lambda: not refused(("127.0.0.1", port)), "the old one to listen again")
    assert ask(port) == 200
    assert old.alive()


@pytest.mark.only("mtproxy")
def test_nobody_is_refused_while_processes_take_turns(proxy, origin: Origin) -> None:
    port = free_port()
    running = proxy(at(port, origin))
    stop = threading.Event()
    refusals: list[OSError] = []
    resets: list[Exception] = []
    served = 0

    def client() -> None:
        nonlocal served
        while not stop.is_set():
            try:
                assert ask(port) == 200
            except ConnectionRefusedError as e:
                refusals.append(e)
            except Exception as e:  # noqa: BLE001 (counted)
                resets.append(e)
            else:
                served += 1

    thread = threading.Thread(target=client)
    thread.start()
    try:
        for _ in range(3):
            new = proxy(at(port, origin), args=("-sf", str(running.pid)))
            assert running.wait_exit() == 0
            running = new
            before = served
            wait_until(lambda before=before: served > before + 20, "requests on the new one")
    finally:
        stop.set()
        thread.join()
    assert not refusals
    # a handshake may end in the very moment between the last accept and the close
    assert len(resets) <= 1, resets


# -- grace, close-spread-time


def test_grace(proxy, origin: Origin) -> None:
    fe = "monitor-uri /alive\n    monitor fail if { stopping }"
    running = proxy("global\n    grace 1500ms\n" + http(origin.port, fe=fe))

    def alive() -> int:
        with running.connect() as wire:
            return wire.request("GET /alive HTTP/1.1\nhost: a").status

    assert alive() == 200
    running.process.send_signal(signal.SIGUSR1)
    wait_until(lambda: alive() == 503, "that it says it stops")
    with running.connect() as wire:
        assert wire.request(GET).status == 200
    assert "Scheduling a soft-stop in 1500 ms." in running.output()
    assert running.wait_exit() == 0


def test_connections_are_not_asked_to_end(proxy, origin: Origin) -> None:
    running = proxy(
        "global\n    close-spread-time infinite\n"
        + http(origin.port, fe="timeout http-keep-alive 500ms")
    )
    wire = running.connect()
    assert wire.request(GET).status == 200
    running.process.send_signal(signal.SIGUSR1)
    wait_until(lambda: refused(running.address()), "the listener to close")
    answer = wire.request(GET)
    assert answer.status == 200
    assert not answer.head.has_token("connection", "close")
    assert wire.at_end()  # its own timeout
    assert running.wait_exit() == 0


@pytest.mark.only("mtproxy")
def test_the_end_of_idle_connections_is_spread(proxy, origin: Origin) -> None:
    """HAProxy's window begins with the next full second of its housekeeping."""
    running = proxy("global\n    close-spread-time 1s\n" + http(origin.port))
    wires: list[Wire] = [running.connect() for _ in range(30)]
    for wire in wires:
        assert wire.request(GET).status == 200
    running.process.send_signal(signal.SIGUSR1)
    wait_until(lambda: refused(running.address()), "the listener to close")
    ends: list[int] = []

    def clock() -> bool:
        for number, wire in enumerate(wires):
            if number not in ends and not wire.still_open(0.001):
                ends.append(number)
        return len(ends) == len(wires)

    wait_until(clock, "all to end")
    assert running.wait_exit() == 0
    # by chance, not one after the other
    assert ends != sorted(ends)


# -- a service manager


@pytest.mark.only("mtproxy")
@pytest.mark.parametrize("abstract", [False, True])
def test_a_service_manager_is_told(proxy, origin: Origin, tmp_path: Path, abstract: bool) -> None:
    name = f"@mtproxy-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + name[1:] if abstract else name)
        manager.settimeout(PATIENCE)
        running = proxy(http(origin.port), env={"NOTIFY_SOCKET": name})
        ready = manager.recv(4096).decode().splitlines()
        assert ready[:2] == ["READY=1", f"MAINPID={running.pid}"]
        assert running.stop(signal.SIGUSR1) == 0
        assert manager.recv(4096).decode().startswith("STOPPING=1\n")


@pytest.mark.only("mtproxy")
def test_no_service_manager_where_one_was_named(proxy, origin: Origin, tmp_path: Path) -> None:
    running = proxy(http(origin.port), env={"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    assert running.connect().request(GET).status == 200
    assert "cannot notify the service manager" in running.output()


# -- default-path


@pytest.mark.parametrize(
    ("mode", "folder"),
    [("config", "conf"), ("parent", ""), ("origin {}/other", "other"), ("current", None)],
)
def test_default_path(program: str, tmp_path: Path, mode: str, folder: str | None) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    (tmp_path / "other").mkdir()
    if folder is not None:
        (tmp_path / folder / "map.txt").write_text("a b\n")
    config = conf / "cfg"
    config.write_text(
        f"global\n    default-path {mode.format(tmp_path)}\n{HTTP}\nfrontend f\n"
        "    bind 127.0.0.1:1\n    http-request set-header x %[path,map(map.txt)]\n"
    )
    done = run_to_end([*command(program), "-c", "-f", str(config)])
    assert (done.returncode == 0) is (folder is not None), done.stderr + done.stdout


def test_default_path_that_is_wrong(program: str, tmp_path: Path) -> None:
    config = tmp_path / "cfg"
    for words, what in (("confg", "confg"), ("origin", "directory"), ("origin /no/where", "where")):
        config.write_text(f"global\n    default-path {words}\nlisten l\n    bind 127.0.0.1:1\n")
        done = run_to_end([*command(program), "-c", "-f", str(config)])
        assert done.returncode == 1
        assert what in done.stderr + done.stdout
