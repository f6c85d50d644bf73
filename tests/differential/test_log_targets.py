"""Log lines as they arrive: every format at every kind of sink, both programs, byte for byte.

A frontend stands for one way to write a `log` line and logs to all sinks; every request to it then
comes out of all of them. Dates, pids and the programs' own names are replaced by words.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path

import pytest

from mtproxy.testing.program import Program, in_shell
from mtproxy.testing.waiting import wait_until

FORMATS = ("", "local", "rfc3164", "rfc5424", "priority", "short", "timed", "iso", "raw")
SINKS = ("udp", "unix", "fd", "stdout", "stderr", "ring")

#: options of a `log` line by their frontend; `format` is what rings get as theirs
LINES = {
    **{
        f"format-{name or 'none'}": f"format {name} local3" if name else "local3"
        for name in FORMATS
    },
    **{
        f"len-{length}-{name}": f"len {length} format {name} local7"
        for length in (80, 100, 300, 900, 1024, 4000)
        for name in ("raw", "rfc3164", "rfc5424", "short")
    },
    **{f"facility-{name}": f"format short {name}" for name in ("kern", "ftp", "audit", "local0")},
    **{f"facility-p-{name}": f"{name}" for name in ("kern", "cron2", "alert", "local0")},
    **{f"level-{name}": f"local1 {name}" for name in ("emerg", "err", "notice", "info", "debug")},
    **{f"minlevel-{name}": f"format priority local1 debug {name}" for name in ("err", "info")},
    "minlevel-short": "format short local1 info warning",
    "minlevel-above-level": "format short local1 err info",
}
#: more lines of some frontends
MORE = {
    "format-rfc3164": "log-tag my.tag",
    "format-rfc5424": 'log-tag sd\n    log-format-sd [one@1\\ a=\\"%HM\\"\\ b=\\"%ST\\"]',
    "len-300-rfc5424": 'log-format-sd [long@1\\ u=\\"%HU\\"]',
    "format-short": "log-format-sd [ignored@1]",
}
PATHS = (
    "/a",
    "/long-" + "0123456789" * 15,
    "/longer-" + "0123456789" * 95,
    "/huge-" + "0123456789" * 300,
    "/odd-%c3%a4\"'[]\\",
    "/error",
    *(f"/level-{name}" for name in ("emerg", "alert", "warning", "debug", "silent")),
)
RULES = "\n".join(
    f"    http-request set-log-level {name} if {{ path /level-{name} }}"
    for name in ("emerg", "alert", "warning", "debug", "silent")
)


def configuration(port: int, path: str, fd: int, head: str, folder: str) -> str:
    rings: dict[str, str] = {}
    sections = []
    for name, options in {**LINES, "end": "local0"}.items():
        found = re.search(r"format (\w+)", options)
        form = found[1] if found else ""
        rings[f"r{form}"] = f"ring r{form}\n    size 1000000\n" + (
            f"    format {form}\n    maxlen 2000\n" if form else ""
        )
        sinks = (f"127.0.0.1:{port}", path, f"fd@{fd}", "stdout", "stderr", f"ring@r{form}")
        lines = "".join(f"    log {sink} {options}\n" for sink in sinks)
        sections.append(
            f"frontend {name}\n    bind {folder}/{name}.sock\n{lines}"
            f"    log-format 'at %f: %HM %HU %ST'\n"
            f"    option log-separate-errors\n    {MORE.get(name, '')}\n"
            f"{RULES}\n    http-request return status 503 if {{ path /error }}\n"
            "    http-request return status 200\n"
        )
    return (
        f"    nbthread 1\n    tune.bufsize 16384\n    tune.http.logurilen 4000\n{head}"
        "defaults\n    mode http\n    timeout client 10s\n    timeout connect 5s\n"
        "    timeout server 10s\n" + "".join(rings.values()) + "".join(sections)
    )


class Collector:
    """What came out of one descriptor; `drain` is called often enough that it is never full."""

    def __init__(self, fd: int) -> None:
        self.messages: list[bytes] = []
        self._fd = fd
        os.set_blocking(fd, False)

    def drain(self) -> bytes:
        """All of it so far."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._fd, 65536):
                self.messages.append(data)
        return b"".join(self.messages)


def ask(path: str, target: str) -> bytes:
    """The answer to one request on a connection of its own."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        sock.connect(path)
        sock.sendall(f"GET {target} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n".encode())
        found = b""
        while data := sock.recv(65536):
            found += data
        return found


def collected(program: str, head: str, folder: Path) -> tuple[dict[str, list[bytes]], int]:
    """The messages of each sink in order, and the program's pid."""
    with ExitStack() as stack:
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        unix = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        unix.bind(str(folder / "log.sock"))
        reader, writer = os.pipe()
        out, err = folder / "out", folder / "err"
        text = configuration(
            udp.getsockname()[1], str(folder / "log.sock"), writer, head, str(folder)
        )
        running = Program(
            program,
            text,
            env={"TZ": "XST3:30"},
            wrapper=in_shell(redirections=f"1>{out} 2>{err}"),
            pass_fds=(writer,),
        )
        for fd in (reader, writer):
            stack.callback(os.close, fd)
        collectors = {
            "udp": Collector(udp.fileno()),
            "unix": Collector(unix.fileno()),
            "fd": Collector(reader),
        }
        stack.enter_context(running)
        running.wait_ready()
        for name in LINES:
            for path in PATHS:
                assert ask(f"{folder}/{name}.sock", path).startswith(b"HTTP/1.1 ")
                for collector in collectors.values():
                    collector.drain()
        ask(f"{folder}/end.sock", "/end")
        last = b"at end: GET /end"
        for name, one in collectors.items():
            wait_until(lambda one=one: last in one.drain(), f"the end of {name}")
        for file in (out, err):
            wait_until(lambda file=file: last in file.read_bytes(), f"the end of {file.name}")
        wait_until(lambda: last.decode() in running.cli("show events r"), "the ring's end")
        rings = [
            running.cli(f"show events r{form}").removesuffix("\n\n").encode() for form in FORMATS
        ]
        pid = running.pid
        found = {name: collectors[name].messages for name in ("udp", "unix")}
        found["fd"] = collectors["fd"].drain().splitlines(keepends=True)
        found["stdout"] = out.read_bytes().splitlines(keepends=True)
        found["stderr"] = err.read_bytes().splitlines(keepends=True)
        found["ring"] = b"\n".join(rings).split(b"\n")
        return found, pid


_DATES = (
    (re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}[+-]\d\d:\d\d"), b"ISODATE"),
    (re.compile(rb"\w{3} [ \d]\d \d\d:\d\d:\d\d "), b"SHORTDATE "),
)
_NAMES = re.compile(rb"\b(?:mtproxy|haproxy)\b")


def normal(message: bytes, pid: int) -> bytes:
    for pattern, name in _DATES:
        message = pattern.sub(name, message, count=1)
    return _NAMES.sub(b"PROGRAM", message).replace(b"%d" % pid, b"PID", 1)


def alike(mine: bytes, theirs: bytes, digits: int) -> bool:
    """Whether they are the same; a message that was cut at its maximum may have more text where the
    pid of its head has `digits` less.
    """
    if mine == theirs or not digits:
        return mine == theirs
    short, long = sorted((mine.rstrip(b"\n"), theirs.rstrip(b"\n")), key=len)
    return len(long) - len(short) == digits and long.startswith(short)


@pytest.mark.parametrize(
    "head",
    ["", "    log-send-hostname some.where\n    log-tag everywhere\n"],
    ids=["plain", "hostname and tag"],
)
def test_every_format_at_every_sink(haproxy: str, head: str) -> None:
    with ExitStack() as stack:
        # not pytest's: a path to a UNIX socket may have 107 bytes
        folders = [
            Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mtl", dir="/tmp")))
            for _ in range(2)
        ]
        pool = stack.enter_context(ThreadPoolExecutor(2))
        (mine, pid), (theirs, other) = pool.map(
            collected, ("mtproxy", "haproxy"), (head, head), folders
        )
    digits = abs(len(str(pid)) - len(str(other)))
    wrong = []
    for sink in SINKS:
        left = [line for message in mine[sink] if b"at " in (line := normal(message, pid))]
        right = [line for message in theirs[sink] if b"at " in (line := normal(message, other))]
        assert len(right) > 300, sink
        wrong += [
            f"{sink}\n  mtproxy {a!r}\n  haproxy {b!r}"
            for a, b in zip_longest(left, right, fillvalue=b"")
            if not alike(a, b, digits)
        ]
    assert not wrong, f"{len(wrong)} differ\n" + "\n".join(wrong[:20])
