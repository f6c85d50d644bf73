"""The load: wrk for HTTP, and a reader that throws bytes away for bulk TCP."""

from __future__ import annotations

import dataclasses
import re
import socket
import subprocess
import threading
import time
from pathlib import Path

from mtproxy.testing import procfs
from mtproxy.testing.program import Program, find_tool
from mtproxy.testing.wire import as_wire, connect


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """What wrk saw. `p99_us` is the latency that one request of a hundred exceeds, `mean_us` the
    mean one.
    """

    requests: int
    seconds: float
    p99_us: float
    mean_us: float = 0.0


_UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6, "m": 60e6}


class BadLoad(RuntimeError):
    """The client saw errors: such a round says nothing about speed."""


def wrk(
    port: int,
    path: str,
    *,
    seconds: float,
    connections: int,
    threads: int = 1,
    script: Path | None = None,
    close: bool = False,
) -> Load:
    """Keep-alive GETs, or with `close` each on a connection of its own. Raises BadLoad when an
    answer was not 2xx or a connection broke.

    `script` is a Lua file that makes the requests.
    """
    tool = find_tool("wrk")
    if tool is None:
        raise FileNotFoundError("wrk is not installed: run .ci/need wrk")
    url = f"http://127.0.0.1:{port}{path}"
    command = [tool, f"-t{threads}", f"-c{connections}", f"-d{max(1, round(seconds))}s"]
    if script is not None:
        command += ["-s", str(script)]
    if close:
        command += ["-H", "Connection: close"]
    done = subprocess.run([*command, "--latency", url], capture_output=True, text=True, check=False)
    text = done.stdout
    total = re.search(r"(\d+) requests in ([\d.]+)(us|ms|s|m)", text)
    if done.returncode or total is None:
        raise BadLoad(f"wrk failed: {text}{done.stderr}")
    if re.search(r"Non-2xx|Socket errors", text):
        raise BadLoad(f"wrk saw errors:\n{text}")
    p99 = re.search(r"99%\s+([\d.]+)(us|ms|s|m)", text)
    mean = re.search(r"Latency\s+([\d.]+)(us|ms|s|m)\s", text)
    return Load(
        int(total[1]),
        float(total[2]) * _UNITS[total[3]] / 1e6,
        float(p99[1]) * _UNITS[p99[2]] if p99 else 0.0,
        float(mean[1]) * _UNITS[mean[2]] if mean else 0.0,
    )


def _download(port: int, path: str, size: int) -> None:
    """One GET on a connection of its own; the body's bytes are dropped in the kernel
    (MSG_TRUNC, tcp(7)), so that the client costs as little as it can.
    """
    with connect(("127.0.0.1", port), 30) as wire:
        wire.send(as_wire(f"GET {path} HTTP/1.1\nhost: perf\nconnection: close"))
        head = wire.read_head()
        if head.status != 200 or head.get("content-length") != str(size).encode():
            raise BadLoad(f"not the file: {head.start!r}")
        left = size - len(wire.buffer)
        buffer = bytearray(1 << 20)
        receive = wire.sock.recv_into
        while left:
            got = receive(buffer, min(left, len(buffer)), socket.MSG_TRUNC)
            if not got:
                raise BadLoad(f"{left} of {size} bytes are missing")
            left -= got


def download(
    port: int, path: str, size: int, *, seconds: float, connections: int
) -> tuple[int, float]:
    """Whole downloads by `connections` clients at once, until `seconds` are over. Returns bytes and
    seconds. Raises BadLoad when a byte is missing.
    """
    end = time.monotonic() + seconds
    counts = [0] * connections
    errors: list[BaseException] = []

    def client(index: int) -> None:
        try:
            while time.monotonic() < end:
                _download(port, path, size)
                counts[index] += 1
        except (OSError, BadLoad, AssertionError) as error:
            errors.append(error)

    start = time.monotonic()
    threads = [threading.Thread(target=client, args=(n,)) for n in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise BadLoad(f"a download failed: {errors[0]!r}") from errors[0]
    return sum(counts) * size, time.monotonic() - start


def wrk_cost(
    proxy: Program,
    *,
    seconds: float,
    connections: int,
    script: Path | None = None,
    close: bool = False,
) -> tuple[Load, float]:
    """The load of wrk on /small through `proxy`, and the proxy's CPU time per request (us)."""
    before = procfs.cpu_seconds(proxy.pid)
    load = wrk(
        proxy.port(),
        "/small",
        seconds=seconds,
        connections=connections,
        script=script,
        close=close,
    )
    return load, (procfs.cpu_seconds(proxy.pid) - before) / load.requests * 1e6
