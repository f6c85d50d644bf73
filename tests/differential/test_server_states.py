"""Servers that are switched by hand, in any order: states, columns and log lines are HAProxy's.

A walk is a random sequence of commands about servers that are checked, tracked, disabled, backup or
none of that. Both programs do it; what `show stat`, `show servers state` and the log say is
compared after every step.
"""

from __future__ import annotations

import csv
import random
import re
import socket
from collections.abc import Iterator

import pytest

from mtproxy.testing.configs import HTTP
from mtproxy.testing.program import Program
from mtproxy.testing.syslog_sink import SyslogSink
from mtproxy.testing.waiting import wait_until

CHECK = "check inter 1h rise 2 fall 3"
#: backend -> its servers
SERVERS = {
    "app": {
        "a": CHECK,
        "t1": "track a",
        "t2": "track t1 weight 10",
        "c": "weight 3",
        "d": "disabled",
        "k": f"{CHECK} backup",
        "t3": "track k backup",
    },
    "far": {"o1": "track app/a", "o2": "track app/t2"},
    "end": {"z": ""},
    "log": {"l1": f"{CHECK} fall 1 rise 1", "l2": "track l1"},
}
COLUMNS = [
    "svname",
    "status",
    "weight",
    "act",
    "bck",
    "chkfail",
    "chkdown",
    "tracked",
    "check_status",
    "check_code",
    "last_chk",
    "check_desc",
    "check_rise",
    "check_fall",
    "check_health",
    "agent_status",
    "hanafail",
    "uweight",
]
STEPS = 100
COMMANDS = (
    "set server {} state ready",
    "set server {} state drain",
    "set server {} state maint",
    "set server {} health up",
    "set server {} health down",
    "set server {} health stopping",
    "set server {} weight 0",
    "set server {} weight 7",
    "set server {} weight 50%",
    "enable server {}",
    "disable server {}",
    "enable health {}",
    "disable health {}",
)


@pytest.fixture(scope="module")
def alive() -> Iterator[int]:
    """A port on which checks pass."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def configuration(alive: int, log: int) -> str:
    head = f"global\n nbthread 1\n max-spread-checks 10\n log 127.0.0.1:{log} format rfc3164 local0"
    lines = [head, HTTP, " log global"]
    for backend, servers in SERVERS.items():
        lines.append(f"backend {backend}")
        if backend == "log":
            lines.append(" option log-health-checks")
        lines += [f" server {name} 127.0.0.1:{alive} {words}" for name, words in servers.items()]
    return "\n".join(lines) + "\n"


def walk(seed: int) -> list[str]:
    """Each seed favours a few servers, so that changes of one meet those of another."""
    chance = random.Random(seed)
    paths = [
        f"{backend}/{name}"
        for backend, servers in SERVERS.items()
        for name in servers
        if name != "z"
    ]
    some = chance.sample(paths, 4) + ["app/a"] * 2
    return [chance.choice(COMMANDS).format(chance.choice(some)) for _ in range(STEPS)]


def columns(running: Program) -> list[str]:
    """What is seen of every server and backend."""
    rows = csv.DictReader(running.cli("show stat").lstrip("# ").splitlines())
    found = []
    for row in rows:
        if row["status"].startswith("MAINT"):
            row["weight"] = "-"  # HAProxy shows the one before, until maintenance ends
        found.append(" ".join(f"{name}={row[name]}" for name in COLUMNS if row[name]))
    for line in running.cli("show servers state").splitlines()[2:]:
        words = line.split()
        if words:
            # no addresses, no times
            found.append(" ".join(words[1:2] + words[3:4] + words[5:9] + words[10:16]))
    return found


def take_walk(program: str, commands: list[str], alive: int) -> tuple[list[list[str]], list[str]]:
    """What was seen after each command, and the log."""
    with SyslogSink() as sink, Program(program, configuration(alive, sink.port)) as running:
        for path in ("app/a", "app/k", "log/l1"):
            backend, name = path.split("/")
            wait_until(
                lambda backend=backend, name=name: (
                    running.stat(backend, name)["check_status"] == "L4OK"
                ),
                f"the first check of {path}",
            )
        seen = [columns(running)]
        for command in commands:
            answer = running.cli(command)
            seen.append([f"> {command}", answer.strip(), *columns(running)])
        # the log has an end that is told nowhere else
        running.cli("disable server end/z")
        sink.wait("backend end has no server available!")
        log = [f"{entry.priority} {entry.text}" for entry in sink.entries]
        return seen, [re.sub(r"duration: \d+ms", "duration: ~", line) for line in log]


@pytest.mark.usefixtures("haproxy")
@pytest.mark.parametrize("seed", range(4))
def test_servers_walk_as_in_haproxy(seed: int, alive: int) -> None:
    commands = walk(seed)
    mine, my_log = take_walk("mtproxy", commands, alive)
    theirs, their_log = take_walk("haproxy", commands, alive)
    for number, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        assert len(one) == len(other)
        pairs = zip(one, other, strict=True)
        wrong = [f"  mtproxy {a}\n  haproxy {b}" for a, b in pairs if a != b]
        assert not wrong, "\n".join([f"after {commands[:number]}", *wrong])
    assert "\n".join(my_log) == "\n".join(their_log)
