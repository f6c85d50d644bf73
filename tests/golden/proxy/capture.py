"""Writes balance.json: the order in which Debian's HAProxy 2.6 serves servers.

    python tests/golden/proxy/capture.py

Run by hand when cases are added; the tests read the file. One HAProxy per case, with one thread;
its servers are frontends of the same process which answer with their number.
"""

from __future__ import annotations

import json
import random
import select
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mtproxy.testing.program import find_tool
from mtproxy.testing.server import free_port
from mtproxy.testing.waiting import wait_until

FILE = Path(__file__).with_name("balance.json")
#: picks recorded per case: two cycles of most
PICKS = 400

WEIGHTS = [
    [1], [1, 1], [1, 1, 1], [1, 2], [2, 1], [3, 1], [1, 2, 3], [3, 2, 1], [5, 1, 1], [1, 4, 2],
    [10, 20], [10, 20, 30], [100, 50, 25], [256, 1], [7, 3, 3, 2], [1, 1, 1, 5], [2, 3, 5, 7],
    [13, 11, 7], [0, 1, 2], [6, 4, 2], [256, 255, 254], [1, 10, 100], [9, 9, 1, 1], [3, 3, 2],
    [128, 64, 32, 16, 8, 4, 2, 1], [1] * 10, [200] * 3, [17, 4, 4, 4, 1],
]  # fmt: skip


@contextmanager
def running(config: str) -> Iterator[None]:
    program = find_tool("haproxy")
    assert program is not None, "haproxy is not installed"
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "haproxy.cfg")
        path.write_text(config)
        with subprocess.Popen([program, "-q", "-f", str(path)]) as haproxy:
            try:
                yield
            finally:
                haproxy.terminate()


def connect(port: int) -> socket.socket:
    def attempt() -> socket.socket | None:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            return None

    sock = wait_until(attempt, "HAProxy")
    assert sock is not None
    return sock


def round_robin(weights: list[int]) -> list[int]:
    """Which server answers each of the first requests on one keep-alive connection."""
    ports = [free_port() for _ in weights]
    front = free_port()
    config = f"""
global
    nbthread 1
defaults
    mode http
    timeout client 10s
    timeout server 10s
    timeout connect 2s
frontend f
    bind 127.0.0.1:{front}
    default_backend b
backend b
    balance roundrobin
"""
    for i, (port, weight) in enumerate(zip(ports, weights, strict=True)):
        config += f"    server s{i} 127.0.0.1:{port} weight {weight}\n"
    for i, port in enumerate(ports):
        config += f"frontend o{i}\n    bind 127.0.0.1:{port}\n"
        config += f"    http-request return status 200 content-type text/plain string {i}\n"
    order = []
    with running(config), connect(front) as client, client.makefile("rb") as answers:
        for _ in range(PICKS):
            client.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            length = 0
            while line := answers.readline().strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            order.append(int(answers.read(length)))
    return order


def least_connections(weights: list[int], script: list[int | None]) -> list[int]:
    """Which server gets each new connection. `script`: None opens one, N closes the Nth opened."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in weights]
    front = free_port()
    config = f"""
global
    nbthread 1
defaults
    mode tcp
    timeout client 10s
    timeout server 10s
    timeout connect 2s
frontend f
    bind 127.0.0.1:{front}
    default_backend b
backend b
    balance leastconn
"""
    for i, (listener, weight) in enumerate(zip(listeners, weights, strict=True)):
        config += f"    server s{i} 127.0.0.1:{listener.getsockname()[1]} weight {weight}\n"
    order: list[int] = []
    pairs: list[tuple[socket.socket, socket.socket]] = []
    with running(config):
        for step in script:
            if step is None:
                client = connect(front)
                (ready, *_), _, _ = select.select(listeners, [], [], 5)
                order.append(listeners.index(ready))
                pairs.append((client, ready.accept()[0]))
            else:
                client, server = pairs[step]
                client.close()
                server.settimeout(5)
                with suppress(ConnectionResetError):
                    assert server.recv(1) == b""
                server.close()
                # HAProxy has released the server when it has seen this end too
                select.select([], [], [], 0.02)
    for client, server in pairs:
        client.close()
        server.close()
    for listener in listeners:
        listener.close()
    return order


def scripts(rng: random.Random) -> list[tuple[list[int], list[int | None]]]:
    cases: list[tuple[list[int], list[int | None]]] = [
        ([1, 1], [None] * 6),
        ([1, 2], [None] * 9),
        ([1, 2, 3], [None] * 12),
        ([1, 1, 1], [None, 0, None, 1, None, 2, None, 3, None]),
        ([1, 1, 1], [None, None, None, 1, 0, 2, None, None, None]),
        ([10, 5, 1], [None] * 20),
        ([256, 1, 100], [None] * 30),
    ]
    for _ in range(8):
        weights = [rng.choice([0, 1, 1, 2, 3, 5, 10, 100, 256]) for _ in range(rng.randint(1, 4))]
        script: list[int | None] = []
        alive: list[int] = []
        opened = 0
        while len(script) < 50:
            if alive and rng.random() < 0.42:
                script.append(alive.pop(rng.randrange(len(alive))))
            else:
                script.append(None)
                alive.append(opened)
                opened += 1
        cases.append(([*weights, 2], script))
    return cases


def main() -> None:
    rng = random.Random(26)
    weights = list(WEIGHTS)
    weights += [
        [rng.choice((0, *range(1, 10), *range(10, 257))) for _ in range(size)]
        for size in (2, 2, 3, 3, 4, 4, 5, 6, 8, 12, 20, 40)
    ]
    cases = {
        "roundrobin": [
            {"weights": w, "order": " ".join(map(str, round_robin(w)))} for w in weights if any(w)
        ],
        "leastconn": [
            {"weights": w, "script": s, "order": least_connections(w, s)} for w, s in scripts(rng)
        ],
    }
    lines = []
    for name, entries in cases.items():
        body = ",\n".join("  " + json.dumps(entry) for entry in entries)
        lines.append(f' "{name}": [\n{body}\n ]')
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
