"""`mtproxy demo`: starts, serves through the proxy, tells what to try, stops cleanly."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mtproxy.testing.server import free_port
from mtproxy.testing.waiting import PATIENCE, wait_until
from mtproxy.testing.wire import connect, refused

ROOT = Path(__file__).resolve().parents[2]


class Demo:
    """A running demonstration; its output is collected by a thread."""

    def __init__(self, *options: str, made: bool = False) -> None:
        env = os.environ | {"PYTHONPATH": str(ROOT)}
        env.pop("MAKELEVEL", None)
        if made:
            env["MAKELEVEL"] = "1"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mtproxy", "demo", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=env,
        )
        self.output = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output += line

    def wait_for(self, text: str, seconds: float = PATIENCE) -> None:
        def there() -> bool:
            assert text in self.output or self.process.poll() is None, self.output
            return text in self.output

        wait_until(there, f"{text!r} in the output of the demonstration", seconds)

    def stop(self, how: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def demo(port: int) -> Iterator[Demo]:
    running = Demo("--port", str(port), "--threads", "1")
    yield running
    running.stop()


def get(port: int, path: str = "/", count: int = 1) -> list[bytes]:
    """Bodies of `count` answers over one connection."""
    bodies = []
    with connect(("127.0.0.1", port)) as wire:
        for _ in range(count):
            response = wire.request(f"GET {path} HTTP/1.1\nhost: a")
            assert response.status == 200
            bodies.append(response.body)
    return bodies


def runtime_socket(output: str) -> str:
    found = re.search(r"ctl -S (\S+) ", output)
    assert found is not None
    return found[1]


def proxy_pid(demo: Demo) -> int:
    """The process that serves, asked over its runtime socket."""
    with connect(runtime_socket(demo.output)) as wire:
        wire.send(b"show info\n")
        return int(re.search(rb"\nPid: (\d+)\n", wire.read_to_end())[1])  # type: ignore[index]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_demo(demo: Demo, port: int, how: int):
    demo.wait_for("Ctrl-C stops it.")
    assert f"curl -i http://127.0.0.1:{port}/hello" in demo.output
    assert "mtproxy ctl -S" in demo.output.replace("-m mtproxy", "mtproxy")
    bodies = get(port, "/hello?x=1", 4)
    assert sorted(re.findall(rb"origin (\w+),", b"".join(bodies))) == [
        b"one",
        b"one",
        b"two",
        b"two",
    ]
    assert all(b"You asked for /hello?x=1" in body for body in bodies)
    path = runtime_socket(demo.output)
    answer = subprocess.run(
        [sys.executable, "-m", "mtproxy", "ctl", "-S", path, "show info; show stat"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    ).stdout
    assert "\nBuild info: mtproxy " in answer
    assert "\norigins,one,0," in answer
    demo.wait_for('"GET /hello?x=1 HTTP/1.1"')
    assert demo.stop(how) == 0
    assert "stopping" in demo.output
    assert "Traceback" not in demo.output
    assert not Path(path).exists()
    assert not Path(path).parent.exists()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_bodies_reach_the_origin(demo: Demo, port: int):
    demo.wait_for("Ctrl-C stops it.")
    with connect(("127.0.0.1", port)) as wire:
        response = wire.request("POST /up HTTP/1.1\nhost: a\ncontent-length: 5\n\nhello")
        assert b"sent 5 bytes" in response.body


@pytest.mark.parametrize("made", [False, True])
def test_port_is_taken(made: bool):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        taken = other.getsockname()[1]
        running = Demo("--port", str(taken), made=made)
        assert running.process.wait(PATIENCE) == 1
        running.stop()
    assert f"port {taken} of 127.0.0.1 is taken by another program" in running.output
    hint = r'make run ARGS="--port (\d+)"' if made else r"-m mtproxy demo --port (\d+)"
    found = re.search(hint, running.output)
    assert found is not None
    assert found[1] != str(taken)


def test_no_such_port():
    running = Demo("--port", "70000")
    assert running.process.wait(PATIENCE) == 1
    running.stop()
    assert "choose one from 1 to 65535" in running.output


def test_proxy_that_dies_ends_the_demonstration(demo: Demo):
    demo.wait_for("Ctrl-C stops it.")
    os.kill(proxy_pid(demo), signal.SIGKILL)
    assert demo.process.wait(PATIENCE) == 1
    demo.wait_for("the proxy ended with exit code -9")


def test_the_proxy_does_not_survive_a_killed_demonstration(demo: Demo, port: int):
    demo.wait_for("Ctrl-C stops it.")
    directory = Path(runtime_socket(demo.output)).parent
    demo.process.kill()
    demo.process.wait(PATIENCE)
    wait_until(lambda: refused(("127.0.0.1", port)), "the proxy to end")
    shutil.rmtree(directory)  # nobody else is left to do it


@pytest.mark.parametrize("number", ["0", "65", "500", "-1", "two"])
def test_number_of_threads(number: str):
    running = Demo(f"--threads={number}")
    assert running.process.wait(PATIENCE) == 2
    running.stop()
    assert f"'{number}' is no number from 1 to 64" in running.output


def test_quiet(port: int):
    running = Demo("--port", str(port), "--threads", "1", "--quiet")
    try:
        running.wait_for("Ctrl-C stops it.")
        get(port, "/silence")
    finally:
        assert running.stop() == 0
    assert "/silence" not in running.output


@pytest.mark.parametrize("lines", [0, 3])
def test_output_that_nobody_reads(port: int, lines: int):
    """As in `mtproxy demo | head -3`: no traceback, and the proxy ends too."""
    running = subprocess.Popen(
        [sys.executable, "-m", "mtproxy", "demo", "--port", str(port), "--threads", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert running.stdout is not None
    assert running.stderr is not None
    for _ in range(lines):
        assert running.stdout.readline()
    running.stdout.close()
    with running.stderr:
        try:
            assert running.wait(PATIENCE) == 0
        finally:
            running.kill()
            running.wait()
        messages = running.stderr.read()
    assert "Traceback" not in messages
    assert "Error" not in messages
    assert refused(("127.0.0.1", port))


#: takes the terminal that is its input as its own, then becomes the demonstration
ON_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "mtproxy", "demo", *sys.argv[1:]])
"""


def test_a_terminal_that_is_closed(port: int):
    """The kernel's own SIGHUP: nothing stays."""
    master, terminal = os.openpty()
    running = subprocess.Popen(
        [sys.executable, "-c", ON_TERMINAL, "--port", str(port), "--threads", "1"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    os.close(terminal)
    try:
        try:
            wait_until(lambda: not refused(("127.0.0.1", port)), "the proxy to listen")
        finally:
            os.close(master)
        assert running.wait(PATIENCE) == 0
    finally:
        running.kill()
        running.wait()
    assert refused(("127.0.0.1", port))
