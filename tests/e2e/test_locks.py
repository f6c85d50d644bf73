"""Locks of the running program: statistics at rest and under load, profiling switched meanwhile,
SIGQUIT, and the client.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mtproxy.sync.labels import LABELS
from mtproxy.testing.configs import HTTP, http
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program, command_of, environment, run_to_end
from mtproxy.testing.threads import run_threads
from mtproxy.testing.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.only("mtproxy")

GET = "GET /len/5 HTTP/1.1\nhost: a"
NAMES = [label.name for label in LABELS]

type Begin = Callable[..., Program]

#: HAProxy's lines, byte for byte
_WRITE = (
    r"\t write lock  : \d+\n"
    r"\t write unlock: \d+ \(-?\d+\)\n"
    r"\t wait time for write     : \d+\.\d{3} msec\n"
    r"\t wait time for write/lock: \d+\.\d{3} nsec\n"
)
_SEEK = (
    r"\t seek lock   : \d+\n"
    r"\t seek unlock : \d+ \(-?\d+\)\n"
    r"\t wait time for seek      : \d+\.\d{3} msec\n"
    r"\t wait time for seek/lock : \d+\.\d{3} nsec\n"
)
_KINDS = f"({_WRITE})?({_SEEK})?({_SEEK.replace('seek', 'read')})?"
_SITE = (
    r"[\w.<>]+:\d+ \(mtproxy/[\w/]+\.py\) (read|seek|write), "
    r"\d+\.\d{3} msec \(\d+ times, \d+\.\d{3} msec\)"
)
_PROFILE = (
    r"(\t hold time for \w+ +: \d+\.\d{3} msec\n"
    r"\t hold time for \w+/lock ?: \d+\.\d{3} nsec\n"
    r"\t longest hold for \w+ +: \d+\.\d{3} msec\n)*"
    rf"(\t longest wait at         : {_SITE}\n)*"
    rf"(\t longest hold at         : {_SITE}\n)*"
)
BLOCK = re.compile(
    r"Stats about Lock (\w+):(?: not used\n|\n" + _KINDS + r"\t failed upgrades         : \d+\n"
    r"\t longest wait            : \d+\.\d{3} msec\n)" + _PROFILE
)


def blocks(text: str) -> list[str]:
    """The labels of the blocks in `text`, which must consist of nothing else."""
    found = list(BLOCK.finditer(text))
    assert "".join(block[0] for block in found) == text
    return [block[1] for block in found]


@pytest.fixture
def begin(proxy: Any, origin: Origin) -> Begin:
    """Start the program with leastconn, a checked server and two threads."""

    def start(lines: str = "", **options: Any) -> Program:
        head = f"    nbthread 2\n    {lines}\n{HTTP}"
        server = f"check inter 20\n    server s2 127.0.0.1:{origin.port} check inter 20"
        running = proxy(
            http(origin.port, be="balance leastconn", server=server, head=head), **options
        )
        assert isinstance(running, Program)
        return running

    return start


def requests(running: Program, count: int = 50, clients: int = 4) -> None:
    """Requests by several clients at once, each on a connection of its own."""

    def client(_number: int) -> None:
        wire = running.connect()
        for _ in range(count):
            assert wire.request(GET).status == 200

    run_threads(clients, client)


def figures(running: Program) -> dict[str, dict[str, Any]]:
    return {one["label"]: one for one in json.loads(running.cli("show locks json"))}


def test_every_lock_is_counted(begin: Begin) -> None:
    running = begin()
    requests(running)
    wait_until(lambda: figures(running)["SERVER"]["write_locks"] > 4, "checks to be reported")
    assert blocks(running.cli("show locks").removesuffix("\n")) == NAMES
    found = figures(running)
    assert found["LBPRM"]["write_locks"] >= 200
    assert found["TASK_WQ"]["seek_locks"] > 0
    assert found["TASK_WQ"]["read_locks"] > 0
    # nobody holds LBPRM while no request is under way
    assert found["LBPRM"]["write_locks"] == found["LBPRM"]["write_unlocks"]
    top = running.cli("show locks top").splitlines()
    assert {line.split()[0] for line in top[1 : 1 + len(NAMES)]} == set(NAMES)
    assert "mtproxy_lock_acquisitions_total{" in running.cli("show locks prometheus")


def test_reset(begin: Begin) -> None:
    running = begin()
    requests(running)
    assert running.cli("show locks reset lbprm") == "\n"
    assert running.cli("show locks LBPRM") == "Stats about Lock LBPRM: not used\n\n"
    assert figures(running)["TASK_WQ"]["write_locks"] > 0
    requests(running, 3, 1)
    assert figures(running)["LBPRM"]["write_locks"] == 3
    running.cli("show locks reset")
    assert figures(running)["LBPRM"]["write_locks"] == 0


def test_profiling_is_switched_while_requests_run(begin: Begin) -> None:
    running = begin()
    before = figures(running)
    assert all(one["profile"] is None for one in before.values())

    def play(number: int) -> None:
        if number:
            requests(running, 150, 1)
            return
        for turn in range(10):
            assert running.cli(f"set profiling locks {'on' if turn % 2 else 'off'}") == "\n"
            blocks(running.cli("show locks").removesuffix("\n"))

    run_threads(4, play)
    requests(running)
    found = figures(running)
    profile = found["LBPRM"]["profile"]
    holds = profile["holds"]["write"]
    assert 200 <= holds["count"] <= found["LBPRM"]["write_locks"]
    assert 0 < holds["longest_ns"] <= holds["total_ns"]
    assert any(
        site["function"] == "pick" and site["file"] == "mtproxy/proxy/balance/leastconn.py"
        for site in profile["hold_sites"]
    )
    # the wait queue is there too, with its kinds apart
    wait_until(
        lambda: figures(running)["TASK_WQ"]["profile"]["holds"]["seek"]["count"] > 3, "checks"
    )
    assert "longest hold at         : WaitQueue." in running.cli("show locks TASK_WQ")
    running.cli("set profiling locks off")
    rest = figures(running)["LBPRM"]["profile"]
    requests(running)
    assert figures(running)["LBPRM"]["profile"] == rest
    assert rest["on"] is False
    assert figures(running)["LBPRM"]["write_locks"] >= found["LBPRM"]["write_locks"] + 200


def test_profiling_from_the_start_with_checked_locks(begin: Begin) -> None:
    running = begin("profiling.locks on", args=("-dL",))
    requests(running)
    found = figures(running)["LBPRM"]
    # all picks, and what was done before the threads ran
    assert found["profile"]["holds"]["write"]["count"] == found["write_unlocks"]
    running.cli("set profiling locks off")
    running.cli("set profiling locks on")
    requests(running)
    assert figures(running)["LBPRM"]["profile"]["holds"]["write"]["count"] >= 200
    running.process.send_signal(signal.SIGQUIT)
    wait_until(lambda: "Locks held now:" in running.output(), "the dump")


def test_without_statistics(begin: Begin) -> None:
    running = begin("tune.lock-stats off")
    requests(running)
    for command in ("show locks", "show locks json", "show locks top", "show locks reset"):
        assert running.cli(command).startswith("Lock statistics are built out"), command
    # as an error, whichever way it is asked for
    numbered = "set severity-output number; "
    for more in ("", " TASK_WQ", " json", " prometheus", " top", " top 2", " reset"):
        answer = running.cli(f"{numbered}show locks{more}")
        assert answer.lstrip("\n").startswith("[3]: Lock statistics are built out"), more
    assert "cannot be switched on" in running.cli("set profiling locks on")
    running.process.send_signal(signal.SIGQUIT)
    wait_until(lambda: "Lock statistics are built out" in running.output(), "the dump")
    requests(running)


# --- SIGQUIT


def held_signals(running: Program) -> int:
    """Which signals wait for the first thread of the program: bit n-1 stands for signal n."""
    with open(f"/proc/{running.pid}/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("SigBlk:"):
                return int(line.split()[1], 16)
    raise AssertionError("no SigBlk")


def test_a_signal_as_soon_as_the_pid_file_is_there(proxy: Any, tmp_path: Path) -> None:
    """It waits until the threads run. The pid file is a pipe, which holds the start up there."""
    pid_file = tmp_path / "pid"
    os.mkfifo(pid_file)
    running = proxy(http(1), args=("-p", str(pid_file)), ready=False)
    early = (signal.SIGHUP, signal.SIGUSR2, signal.SIGQUIT)
    bits = sum(1 << (signum - 1) for signum in early)
    wait_until(lambda: held_signals(running) & bits == bits, "signals to be held")
    for signum in early:
        running.process.send_signal(signum)
    assert pid_file.read_text() == f"{running.pid}\n"
    wait_until(lambda: "Stats about Lock OTHER" in running.output(), "the dump")
    running.wait_ready()
    assert held_signals(running) & bits == 0
    assert running.stop() == 0


def test_a_soft_stop_as_soon_as_the_pid_file_is_there(proxy: Any, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    os.mkfifo(pid_file)
    running = proxy(http(1), args=("-p", str(pid_file)), ready=False)
    bit = 1 << (signal.SIGUSR1 - 1)
    wait_until(lambda: held_signals(running) & bit, "signals to be held")
    running.process.send_signal(signal.SIGUSR1)
    assert pid_file.read_text() == f"{running.pid}\n"
    assert running.wait_exit() == 0
    assert "stopping softly" in running.output()


def test_sigquit_dumps_and_goes_on(begin: Begin) -> None:
    running = begin()
    requests(running)
    for times in (1, 2):
        running.process.send_signal(signal.SIGQUIT)
        wait_until(lambda: running.output().count("Stats about Lock OTHER") == times, "the dump")  # noqa: B023
    head, *dumps = re.split(
        rf"\[NOTICE\] +\({running.pid}\) : lock statistics of process {running.pid}:\n",
        running.output(),
    )
    assert "Stats about" not in head
    assert [blocks(dump) for dump in dumps] == [NAMES, NAMES]
    requests(running)
    assert running.stop() == 0


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGUSR1])
def test_signals_up_to_the_very_end(begin: Begin, how: int) -> None:
    """A dump or another soft stop that is asked for too late does not change the exit code."""
    running = begin()
    running.process.send_signal(how)

    def ended() -> bool:
        for signum in (signal.SIGQUIT, signal.SIGUSR1, signal.SIGHUP):
            running.process.send_signal(signum)
        return not running.alive()

    wait_until(ended, "the end")
    assert running.wait_exit() == 0


def test_sigquit_without_a_reader_holds_nobody_up(begin: Begin) -> None:
    """Standard error is a pipe that is full: the dump is lost, and no request waits for it. When
    there is room again, the blocks that come are whole.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        running = begin(stdio=writer)
        requests(running, 5)
        os.set_blocking(writer, False)
        while True:
            try:
                os.write(writer, b"." * 4096)
            except BlockingIOError:
                break
        os.set_blocking(writer, True)
        for _ in range(5):
            running.process.send_signal(signal.SIGQUIT)
        begun = time.monotonic()
        requests(running, 20)
        assert time.monotonic() - begun < PATIENCE
        # three blocks' room
        os.read(reader, 65536)
        text = ""
        os.set_blocking(reader, False)

        def dumped() -> bool:
            nonlocal text
            running.process.send_signal(signal.SIGQUIT)
            try:
                text += os.read(reader, 65536).decode()
            except BlockingIOError:
                return False
            return "Stats about Lock OTHER" in text

        wait_until(dumped, "a dump")
        # whatever came is made of whole lines
        assert re.search(r"^Stats about Lock OTHER: not used$", text, re.MULTILINE)
        requests(running, 5)
    finally:
        os.close(reader)
        os.close(writer)


# --- the client


def client(running: Program, *arguments: str) -> tuple[int, str, str]:
    """`mtproxy locks`: exit code, output, messages."""
    command = [*command_of("mtproxy"), "locks", "-S", running.socket_path, *arguments]
    done = run_to_end(command)
    return done.returncode, done.stdout, done.stderr


def test_the_client(begin: Begin) -> None:
    running = begin()
    requests(running)
    code, text, _ = client(running)
    assert (code, blocks(text)) == (0, NAMES)
    code, text, _ = client(running, "TASK_WQ")
    assert (code, blocks(text)) == (0, ["TASK_WQ"])
    code, text, _ = client(running, "TASK_QW")
    assert code == 1
    assert "Did you mean 'TASK_WQ'?" in text
    code, text, _ = client(running, "--top", "2")
    assert (code, len(text.splitlines())) == (0, 4)
    code, text, _ = client(running, "--prometheus")
    assert code == 0
    assert text.startswith("# HELP ")
    code, text, _ = client(running, "--reset", "LBPRM")
    assert (code, text) == (0, "")
    assert figures(running)["LBPRM"]["write_locks"] == 0
    code, text, _ = client(running, "--json")
    assert [one["label"] for one in json.loads(text)] == NAMES


def test_the_client_watches_until_the_proxy_ends(begin: Begin) -> None:
    running = begin()
    command = [*command_of("mtproxy"), "locks", "-S", running.socket_path]
    with subprocess.Popen(
        [*command, "--watch", "0.1", "--top", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        text=True,
    ) as watching:
        assert watching.stdout is not None
        assert watching.stderr is not None
        while not (line := watching.stdout.readline()).startswith("LBPRM"):
            assert line  # it goes on
            requests(running, 10, 2)
        running.stop()
        text = watching.stdout.read()
        assert "\x1b" not in text
        assert watching.wait(PATIENCE) == 1
        assert watching.stderr.read().startswith("mtproxy locks: ")


def test_a_watcher_whose_reader_goes_away(begin: Begin) -> None:
    running = begin()
    command = [*command_of("mtproxy"), "locks", "-S", running.socket_path, "--watch", "0.05"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), text=True
    ) as watching:
        assert watching.stdout is not None
        assert watching.stderr is not None
        assert watching.stdout.readline().startswith("# locks/s: ")
        watching.stdout.close()
        assert watching.wait(PATIENCE) == 0
        assert watching.stderr.read() == ""
