"""Agents, watched traffic, tracking and what a change of state entails, with real servers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mtproxy.testing.configs import HTTP, TCP
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program
from mtproxy.testing.server import free_port
from mtproxy.testing.syslog_sink import SyslogSink
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import PeerClosed, Wire, as_wire

GET = "GET /len/5 HTTP/1.1\nhost: a"
#: a check that does not come again by itself
CHECK = "check inter 1h rise 1 fall 2"


def config(*servers: str, sink: SyslogSink, be: str = "", head: str = HTTP) -> str:
    lines = "\n    ".join(f"server s{n} {text}" for n, text in enumerate(servers, 1))
    return f"""
global
    nbthread 1
    max-spread-checks 10
    log 127.0.0.1:{sink.port} format rfc3164 local0
{head}
    log global
frontend fe
    bind "fd@${{fe}}"
    default_backend be
backend be
    {be}
    {lines}
"""


def status(running: Program, name: str = "s1") -> str:
    return running.server_status("be", name)


def first_checks(running: Program, *names: str) -> None:
    for name in names:
        wait_until(
            lambda name=name: running.stat("be", name)["check_status"] == "L4OK",
            f"the first check of {name}",
        )


class Agent:
    """A handler that tells everybody the same line, and what it was sent."""

    def __init__(self, line: bytes) -> None:
        self.line = line
        self.got: list[bytes] = []

    def __call__(self, wire: Wire) -> None:
        self.got.append(wire.read_until(b"\n"))
        wire.send(self.line)


def test_agent(proxy, serve: Callable[..., object], origin: Origin, sink: SyslogSink) -> None:
    agent = Agent(b"up 50%\n")
    port = serve(agent).port  # type: ignore[attr-defined]
    words = f'weight 100 agent-check agent-inter 50ms agent-port {port} agent-send "hi s1\\n"'
    running = proxy(config(f"127.0.0.1:{origin.port} {words}", sink=sink))
    wait_until(lambda: running.stat("be", "s1")["weight"] == "50", "the agent's weight")
    assert agent.got[0] == b"hi s1\n"
    row = running.stat("be", "s1")
    assert (row["agent_desc"], row["last_agt"]) == ("Layer7 check passed", "via agent : up")
    assert (row["agent_rise"], row["agent_fall"], row["agent_health"]) == ("1", "1", "1")
    agent.line = b"down # too hot\n"
    wait_until(lambda: status(running) == "DOWN (agent)", "the agent to take it down")
    sink.wait(
        r"Server be/s1 is DOWN, reason: Layer7 wrong status, code: 0, "
        r'info: "via agent : down \(too hot\)", check duration: \d+ms. 0 active'
    )
    agent.line = b"ready up 100%\n"
    wait_until(lambda: status(running) == "no check", "the agent to bring it up")
    sink.wait(r"Server be/s1 is UP, reason: Layer7 check passed, code: 0, info: ")
    agent.line = b"drain\n"
    wait_until(lambda: status(running) == "DRAIN (agent)", "the agent to drain it")
    agent.line = b"maint\n"
    wait_until(lambda: status(running) == "MAINT", "the agent to stop it")
    agent.line = b"ready\n"
    wait_until(lambda: status(running) == "no check", "the agent to end that")
    # nobody asks it now
    running.cli("disable agent be/s1")
    assert running.stat("be", "s1")["agent_status"] == ""
    running.cli("enable agent be/s1")
    assert running.cli("set server be/s1 agent-addr nonsense").startswith("invalid addr")
    running.cli(f"set server be/s1 agent-port {free_port()}")
    wait_until(lambda: "L4CON" in running.stat("be", "s1")["agent_status"], "no agent there")
    assert status(running) == "no check"


@pytest.mark.parametrize(
    ("action", "after"),
    [("fail-check", "UP 1/2"), ("sudden-death", "UP 1/2"), ("mark-down", "DOWN")],
)
def test_observe_answers(proxy, origin: Origin, sink: SyslogSink, action: str, after: str) -> None:
    watch = f"observe layer7 error-limit 3 on-error {action}"
    running = proxy(config(f"127.0.0.1:{origin.port} {CHECK} {watch}", sink=sink))
    first_checks(running, "s1")
    bad = "GET /status/500 HTTP/1.1\nhost: a"
    with running.connect() as wire:
        for request in (bad, bad, GET, bad, bad):
            wire.request(request)
        # never three in a row, and these are the client's doing
        for _ in range(3):
            wire.request("GET /status/501 HTTP/1.1\nhost: a")
        assert (status(running), running.stat("be", "s1")["hanafail"]) == ("UP", "0")
        for _ in range(3):
            wire.request(bad)
    row = running.stat("be", "s1")
    assert (row["status"], row["hanafail"], row["check_status"]) == (after, "1", "HANA")
    text = "Detected 3 consecutive errors, last one was: Wrong http response"
    assert row["last_chk"] == text
    if after == "DOWN":
        sink.wait(rf'Server be/s1 is DOWN, reason: Health analyze, info: "{text}"\. 0 active')


def test_observe_connections(proxy, sink: SyslogSink) -> None:
    """The check passes on a port of its own; the connections do not."""
    with Origin() as alive:
        watch = f"port {alive.port} observe layer4 error-limit 2 on-error mark-down"
        running = proxy(
            config(f"127.0.0.1:{free_port()} {CHECK} {watch}", sink=sink, be="retries 0")
        )
        first_checks(running, "s1")
        for _ in range(2):
            with running.connect() as wire:
                assert wire.request(GET).status == 503
        assert status(running) == "DOWN"
        sink.wait("last one was: L4 unsuccessful connection")


def test_observe_brings_the_next_check(proxy, origin: Origin, sink: SyslogSink) -> None:
    watch = "fastinter 20ms observe layer7 error-limit 1 on-error fastinter"
    running = proxy(config(f"127.0.0.1:{origin.port} {CHECK} {watch}", sink=sink))
    first_checks(running, "s1")
    with running.connect() as wire:
        assert wire.request(GET).status == 200
        # the connection to the server stays, a check gets none
        origin.stop_listening()
        wire.send(as_wire("GET /status/500 HTTP/1.1\nhost: a"))
        assert wire.read_response().status == 500
    wait_until(lambda: status(running) == "DOWN", "checks that come sooner")


def test_sessions_end_with_their_server(proxy, serve, sink: SyslogSink) -> None:
    held = serve(lambda wire: wire.read_until(b"never"))
    words = f"127.0.0.1:{held.port}"
    running = proxy(
        config(
            f"{words} on-marked-down shutdown-sessions", f"{words} backup", sink=sink,
            be="option tcplog", head=TCP,
        )
    )  # fmt: skip
    with running.connect() as wire:
        wire.send(b"hello")
        wait_until(lambda: running.stat("be", "s1")["scur"] == "1", "the session")
        running.cli("set server be/s1 state maint")
        with pytest.raises(PeerClosed):
            wire.read_until(b"\n")
    wait_until(lambda: running.stat("be", "s1")["scur"] == "0", "the session's end")


def test_backup_sessions_end_when_a_server_is_back(proxy, serve, sink: SyslogSink) -> None:
    held = serve(lambda wire: wire.read_until(b"never"))
    words = f"127.0.0.1:{held.port}"
    running = proxy(
        config(
            f"{words} disabled on-marked-up shutdown-backup-sessions", f"{words} backup",
            sink=sink, head=TCP,
        )
    )  # fmt: skip
    with running.connect() as wire:
        wire.send(b"hello")
        wait_until(lambda: running.stat("be", "s2")["scur"] == "1", "the session")
        running.cli("set server be/s1 state ready")
        with pytest.raises(PeerClosed):
            wire.read_until(b"\n")
    wait_until(lambda: running.stat("be", "s2")["scur"] == "0", "the session's end")


SCRIPT = """#!/bin/sh
echo "$*" > {directory}/arguments.$HAPROXY_SERVER_NAME
/usr/bin/env > {directory}/environment.$HAPROXY_SERVER_NAME
case $HAPROXY_SERVER_NAME in
    s1) exit 0;;
    s2) exit 3;;
    s3) kill -9 $$;;
    s4) echo $$ > {directory}/pid; exec /bin/sleep 60;;
esac
"""


def test_external_check(proxy, origin: Origin, sink: SyslogSink, tmp_path: Path) -> None:
    script = tmp_path / "check"
    script.write_text(SCRIPT.format(directory=tmp_path))
    script.chmod(0o755)
    be = f"option external-check\n    external-check command {script}"
    words = f"127.0.0.1:{origin.port} check inter 20s"
    short = f"127.0.0.1:{origin.port} check inter 500ms"
    text = config(words, words, words, short, sink=sink, be=be)
    running = proxy(text.replace("    nbthread 1", "    nbthread 1\n    external-check", 1))
    expected = {
        "s1": ("UP", "PROCOK", "0"),
        "s2": ("DOWN", "PROCERR", "3"),
        "s3": ("DOWN", "PROCERR", str(2**32 - 1)),
        "s4": ("DOWN", "PROCTOUT", "0"),
    }
    for name, wanted in expected.items():

        def found(name: str = name) -> tuple[str, str, str]:
            row = running.stat("be", name)
            return row["status"], row["check_status"].removeprefix("* "), row["check_code"]

        wait_until(lambda wanted=wanted, found=found: found() == wanted, f"the check of {name}")
    arguments = (tmp_path / "arguments.s1").read_text().split()
    assert arguments == ["NOT_USED", "NOT_USED", "127.0.0.1", str(origin.port)]
    lines = (tmp_path / "environment.s1").read_text().splitlines()
    environ = dict(line.partition("=")[::2] for line in lines)
    assert {name: environ[f"HAPROXY_{name}"] for name in ("PROXY_NAME", "SERVER_ID")} == {
        "PROXY_NAME": "be",
        "SERVER_ID": "1",
    }
    assert (environ["HAPROXY_SERVER_PORT"], environ["PATH"]) == (str(origin.port), "")
    # who takes too long is killed
    pid = int((tmp_path / "pid").read_text())
    sink.wait(r"Server be/s4 is DOWN, reason: External check timeout")
    wait_until(lambda: gone(pid), "the end of the slow command")


def gone(pid: int) -> bool:
    """A process that ended and was waited for, or another one of that number."""
    try:
        return b"sleep" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("exit 0\n", ("PROCOK", "0")),
        ("[ $3 = 127.0.0.1 ] && exit 4\n", ("PROCERR", "4")),
        ("", ("PROCOK", "0")),
        ("#!/none/such\n", ("PROCERR", "255")),
    ],
)
def test_an_external_check_that_is_no_program(
    proxy, origin: Origin, sink: SyslogSink, tmp_path: Path, content: str, expected: tuple[str, str]
) -> None:
    """A script without its first line is the shell's, as with execvp(3)."""
    script = tmp_path / "check"
    script.write_text(content)
    script.chmod(0o755)
    be = f"option external-check\n    external-check command {script}"
    text = config(f"127.0.0.1:{origin.port} check inter 20s", sink=sink, be=be)
    running = proxy(text.replace("    nbthread 1", "    nbthread 1\n    external-check", 1))

    def found() -> tuple[str, str]:
        row = running.stat("be", "s1")
        return row["check_status"].removeprefix("* "), row["check_code"]

    wait_until(lambda: found()[0].startswith("PROC"), "the check")
    assert found() == expected
