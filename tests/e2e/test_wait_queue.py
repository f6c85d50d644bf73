"""The wait queue's variants in the whole program: hundreds of checks, each result right, each on
time, and the lock's statistics tell which variant it is.
"""

from __future__ import annotations

import contextlib
import json
import socket
from typing import Any

import pytest

from mtproxy.testing.program import Program
from mtproxy.testing.waiting import wait_until
from perf.checks import checks_config
from perf.runqueue import activity

pytestmark = pytest.mark.only("mtproxy")

SERVERS = 300


def states(running: Program) -> dict[str, set[str]]:
    """The servers' status, by the port's place: even and odd numbers."""
    lines = running.cli("show stat").strip().splitlines()
    names = lines[0].lstrip("# ").split(",")
    found: dict[str, set[str]] = {"even": set(), "odd": set()}
    for line in lines[1:]:
        row = dict(zip(names, line.split(","), strict=True))
        if row["pxname"] == "be" and row["svname"] != "BACKEND":
            found["odd" if int(row["svname"][1:]) % 2 else "even"].add(row["status"])
    return found


def task_wq(running: Program) -> dict[str, Any]:
    found: list[dict[str, Any]] = json.loads(running.cli("show locks json"))
    return next(one for one in found if one["label"] == "TASK_WQ")


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("variant", ["seek", "write", "mutex"])
def test_all_checks_run_with_each_variant(proxy, variant: str, threads: int) -> None:
    with contextlib.ExitStack() as stack:
        listeners = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1024))
            for _ in range(2)
        ]
        ports = [listener.getsockname()[1] for listener in listeners]
        running = proxy(checks_config(ports, SERVERS, "50ms", threads, variant))
        wait_until(lambda: activity(running)["tasksw"] > 4 * SERVERS, "four checks of each")
        assert states(running) == {"even": {"UP"}, "odd": {"UP"}}
        listeners[1].close()
        wait_until(
            lambda: states(running) == {"even": {"UP"}, "odd": {"DOWN"}}, "half of them are down"
        )
        lock = task_wq(running)
        # looks before sleeping, and passes
        assert (lock["seek_locks"] > 0) is (variant == "seek")
        assert (lock["read_locks"] > 0) is (variant != "mutex")
        assert lock["write_locks"] > 0
        if variant != "seek":
            # one for taking a task out, or for a pass, and one for queueing it
            assert lock["write_locks"] >= activity(running)["tasksw"] / 64
        assert running.alive()
        assert activity(running)["errors"] == 0


def test_one_check_at_a_time_and_on_time(proxy) -> None:
    """Few checks and many threads: whoever watches, no interval is left out."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        port = listener.getsockname()[1]
        running = proxy(checks_config([port], 1, "20ms", 4, "seek"))
        before = activity(running)["tasksw"]
        begin = running.cli("show info").partition("Uptime_sec:")[2].split()[0]
        wait_until(lambda: activity(running)["tasksw"] >= before + 50, "fifty checks")
        took = int(running.cli("show info").partition("Uptime_sec:")[2].split()[0]) - int(begin)
        # a second if nothing else runs here; a thread that slept until its own second each time
        # would need fifty
        assert took < 25
