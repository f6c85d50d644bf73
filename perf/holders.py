"""Many client connections in a process of their own: idle ones, or ones that send slowly.

    python -m perf.holders --port 8080 --count 20000 [--slow 5]

Prints `ready` when all are open (idle ones have had one answer), and holds them until its input
ends. With `--slow S` half of them send a head and half a body, a byte each S seconds, and
`dead N` at the end says how many were closed by the proxy. Addresses 127.0.0.2 and on are the
sources, 10,000 connections each.
"""

from __future__ import annotations

import argparse
import resource
import select
import socket
import sys
import time

_PER_SOURCE = 10_000
#: linux/in.h
_IP_BIND_ADDRESS_NO_PORT = 24
_IDLE = b"GET /small HTTP/1.1\r\nhost: h\r\n\r\n"
_HEAD = b"GET /small HTTP/1.1\r\nhost: h\r\nx: "
_BODY = b"POST /small HTTP/1.1\r\nhost: h\r\ncontent-length: 1000000\r\n\r\n"


def raise_limit(wanted: int) -> int:
    """Allow this process `wanted` descriptors, or as many as it may have; how many it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(wanted, hard), max(wanted, hard)))
    except (OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _open(port: int, number: int) -> socket.socket:
    sock = socket.socket()
    sock.settimeout(60)
    # the port is chosen when the destination is known: connections to others do not count
    sock.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
    sock.bind((f"127.0.0.{2 + number // _PER_SOURCE}", 0))
    sock.connect(("127.0.0.1", port))
    return sock


def _drip(socks: list[socket.socket], interval: float) -> int:
    """A byte on each connection in every interval until the input ends; how many have died."""
    dead = 0
    alive = list(socks)
    part = max(1, len(alive) // 50)
    while True:
        for start in range(0, len(alive), part):
            begin = time.monotonic()
            for sock in alive[start : start + part]:
                try:
                    sock.send(b"x")
                except OSError:
                    dead += 1
            left = interval / 50 - (time.monotonic() - begin)
            if select.select([sys.stdin], [], [], max(0.0, left))[0]:
                return dead


def main() -> None:
    """The process: see the module's text."""
    parser = argparse.ArgumentParser(prog="python -m perf.holders")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--slow", type=float, default=0)
    options = parser.parse_args()
    if raise_limit(options.count + 100) < options.count + 50:
        print("limit", flush=True)
        return
    socks = []
    for number in range(options.count):
        sock = _open(options.port, number)
        if options.slow:
            sock.sendall(_BODY if number % 2 else _HEAD)
        else:
            sock.sendall(_IDLE)
            while not sock.recv(4096):
                raise ConnectionError("closed instead of an answer")
        socks.append(sock)
    print("ready", flush=True)
    if options.slow:
        print(f"dead {_drip(socks, options.slow)}", flush=True)
    else:
        sys.stdin.read()


if __name__ == "__main__":
    main()
