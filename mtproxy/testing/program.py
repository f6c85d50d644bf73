"""Starts a proxy, mtproxy or Debian's HAProxy, on a configuration text, and stops it again.

The same text runs on both, which is how a test proves that what it expects is what HAProxy does.
Listeners are `bind "fd@${name}"` lines: the socket is made here on 127.0.0.1 and inherited, so a
client may connect at once (the kernel queues it) and no port is ever guessed.

A `Program` belongs to the thread that made it.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from mtproxy.testing import procfs
from mtproxy.testing.waiting import PATIENCE, wait_until
from mtproxy.testing.wire import Wire, connect

#: where Debian installs it, for users whose PATH lacks sbin
_SBIN = "/usr/sbin:/usr/local/sbin:/sbin"


def find_tool(name: str) -> str | None:
    """Path of an installed program, looking into sbin too."""
    return shutil.which(name, path=os.environ.get("PATH", os.defpath) + ":" + _SBIN)


def command_of(program: str) -> list[str]:
    """The command that runs `program`: "mtproxy", "haproxy", or a path.

    mtproxy runs from this interpreter and this checkout, as the tests do. Raises FileNotFoundError
    with what to do when HAProxy is not installed.
    """
    if program == "mtproxy":
        return [sys.executable, "-m", "mtproxy"]
    path = find_tool(program)
    if path is None:
        raise FileNotFoundError(f"{program} is not installed: run .ci/need {program}")
    return [path]


def in_shell(before: str = "", redirections: str = "") -> tuple[str, ...]:
    """A `wrapper` for Program: shell commands first, redirections (`2>&-`) for the program."""
    return ("sh", "-c", f'{before or ":"}; exec "$@" {redirections}', "sh")


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Our environment and `more`, for a program that starts as an installed one does.

    An installed one has its bytecode. Compiling everything anew at each start would double the time
    to the first answer.
    """
    env = os.environ | (more or {})
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return env


def run_to_end(
    command: Sequence[str], seconds: float = PATIENCE, *, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command that ends by itself; whatever its exit code is. `env` is added to ours."""
    return subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=seconds,
        env=environment(env),
    )


class Program:
    """One running proxy. Use as a context manager; leaving it kills what is still there."""

    def __init__(
        self,
        program: str,
        config: str,
        *,
        args: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        debug: bool = True,
        wrapper: tuple[str, ...] = (),
        stdio: int | None = None,
        pass_fds: tuple[int, ...] = (),
    ) -> None:
        """`config` gets a `global` section with an admin socket in front. `debug` adds -db, which
        keeps HAProxy in the foreground without a master. `wrapper` is a command that runs the
        program, e.g. `in_shell("ulimit -n 100")`. `stdio` is a descriptor that becomes its
        stdout and stderr, which `output()` then does not see. `pass_fds` it inherits, too.
        """
        self.program = program
        self.config = config
        self._args = args
        self._env = env or {}
        self._debug = debug
        self._wrapper = wrapper
        self._stdio = stdio
        self._pass_fds = pass_fds
        self._process: subprocess.Popen[bytes] | None = None
        self._listeners: dict[str, tuple[str, int]] = {}
        self._dir = tempfile.TemporaryDirectory(prefix="mtp", dir="/tmp")
        self.directory = Path(self._dir.name)
        self.socket_path = str(self.directory / "s.sock")
        self._output = self.directory / "output"
        self._wires: list[Wire] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        for wire in self._wires:
            wire.close()
        self.kill()
        self._dir.cleanup()

    # -- life

    def start(self) -> None:
        sockets = self._make_listeners()
        env = environment(self._env | {name: str(s.fileno()) for name, s in sockets.items()})
        path = self.directory / "cfg"
        path.write_text(
            f'global\n    stats socket "{self.socket_path}" level admin mode 600\n{self.config}\n',
            errors="surrogateescape",
        )
        command = [*command_of(self.program), *(["-db"] if self._debug else []), *self._args]
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [*self._wrapper, *command, "-f", str(path)],
                stdin=subprocess.DEVNULL,
                stdout=output if self._stdio is None else self._stdio,
                stderr=subprocess.STDOUT,
                env=env,
                pass_fds=[*self._pass_fds, *(s.fileno() for s in sockets.values())],
            )
        for sock in sockets.values():
            sock.close()

    def _make_listeners(self) -> dict[str, socket.socket]:
        sockets = {}
        for name in sorted(set(re.findall(r"fd@\$\{(\w+)\}", self.config))):
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1", 0))
            sock.listen(128)
            self._listeners[name] = sock.getsockname()
            sockets[name] = sock
        return sockets

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "not started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    def alive(self) -> bool:
        return self.process.poll() is None

    def wait_ready(self, seconds: float = PATIENCE) -> None:
        """Until the runtime socket answers, that is, until the worker threads run."""

        self.cli("show version", seconds)

    def wait_exit(self, seconds: float = PATIENCE) -> int:
        """The exit code (negative: the signal that ended it)."""
        return self.process.wait(seconds)

    def stop(self, how: int = signal.SIGTERM, seconds: float = PATIENCE) -> int:
        self.process.send_signal(how)
        return self.wait_exit(seconds)

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(PATIENCE)

    # -- talking to it

    def address(self, name: str = "fe") -> tuple[str, int]:
        """Where the inherited listener `name` listens."""
        return self._listeners[name]

    def port(self, name: str = "fe") -> int:
        return self._listeners[name][1]

    def connect(self, name: str = "fe", seconds: float = PATIENCE) -> Wire:
        """A connection to listener `name`; closed at the latest together with the program."""
        wire = connect(self.address(name), seconds)
        self._wires.append(wire)
        return wire

    def cli(self, command: str, seconds: float = PATIENCE) -> str:
        """The runtime socket's answer to `command`; waits for the socket while it starts."""
        with wait_until(
            lambda: self._runtime(seconds), f"runtime socket of {self.program}", seconds
        ) as wire:
            wire.send(command.encode() + b"\n")
            return wire.read_to_end().decode()

    def _runtime(self, seconds: float) -> Wire | None:
        try:
            return connect(self.socket_path, seconds)
        except (FileNotFoundError, ConnectionRefusedError):
            if not self.alive():
                raise RuntimeError(
                    f"{self.program} ended {self.process.returncode}:\n{self.output()}"
                ) from None
            return None

    def server_status(self, backend: str, server: str) -> str:
        """A server's (or BACKEND's, FRONTEND's) status field of `show stat`: "UP", "DOWN", ..."""
        return self.stat(backend, server)["status"]

    def stat(self, proxy: str, server: str) -> dict[str, str]:
        """One line of `show stat` by field name."""
        lines = self.cli("show stat").strip().splitlines()
        names = lines[0].lstrip("# ").split(",")
        for values in csv.reader(lines[1:]):
            if values[:2] == [proxy, server]:
                return dict(zip(names, values, strict=True))
        raise KeyError(f"{proxy}/{server} is not in show stat")

    def output(self) -> str:
        """Stdout and stderr so far."""
        return self._output.read_text(errors="replace") if self._output.exists() else ""

    # -- what it uses

    def fd_count(self) -> int:
        return procfs.fd_count(self.pid)

    def rss(self) -> int:
        return procfs.rss_bytes(self.pid)
