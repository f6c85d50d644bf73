"""Which server is chosen, one after another: the order is HAProxy's.

A walk is a random sequence for one backend: connections come and stay, or go; servers get other
weights and limits, are taken out and put back, fail and recover by command. Both programs do it
with one thread; after every step who was chosen is the same.
"""

from __future__ import annotations

import random

import pytest

from mtproxy.testing.configs import TCP
from mtproxy.testing.program import Program
from mtproxy.testing.server import Server
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import PeerClosed, Wire

ALGORITHMS = {
    "rr": "balance roundrobin",
    "lc": "balance leastconn",
    "srr": "balance static-rr",
    "first": "balance first",
    "all": "balance roundrobin\n    option allbackups",
    "lcall": "balance leastconn\n    option allbackups",
    "src": "balance source\n    hash-type consistent",
    "map": "balance source",
}
#: the words of each server; its address tells which one it is
SERVERS = ("weight 10", "weight 20", "weight 5 maxconn 4", "", "weight 7", "backup", "backup")
STEPS = 90
#: what a connection may be told: nobody is there, or nobody has room
NOBODY = "nobody"


def greet(wire: Wire) -> None:
    """Says which address it was called at, and stays until the other side goes."""
    wire.send(wire.sock.getsockname()[0].rpartition(".")[2].encode())
    wire.read_to_end()


def configuration(port: int) -> str:
    lines = ["global\n    nbthread 1\n    max-spread-checks 10", TCP]
    for name, words in ALGORITHMS.items():
        lines.append(
            f'listen {name}\n    bind "fd@${{{name}}}"\n    timeout queue 30ms\n    {words}'
        )
        lines += [
            f"    server s{number} 127.0.0.{number}:{port} check inter 1h {more}"
            for number, more in enumerate(SERVERS, 1)
        ]
    return "\n".join(lines) + "\n"


def _change(chance: random.Random, backend: str) -> str:
    # the last ones are backup servers, which matter when the others are gone
    server = f"{backend}/s{chance.choices(range(1, len(SERVERS) + 1), (4, 4, 4, 4, 4, 1, 1))[0]}"
    # of static algorithms weights are on or off
    weights = (
        ("0", "100%") if backend in ("srr", "first", "map") else ("0", "3", "12", "50%", "100%")
    )
    return chance.choice(
        (
            f"set server {server} weight {chance.choice(weights)}",
            f"set server {server} state maint",
            f"set server {server} state ready",
            f"set server {server} state ready",
            f"set server {server} state drain",
            f"set server {server} health down",
            f"set server {server} health up",
            f"set server {server} health up",
            f"set maxconn server {server} {chance.choice((0, 1, 2, 5))}",
        )
    )


def walk(seed: int, backend: str) -> list[str]:
    """`open`, `close N`, or a command for the runtime socket."""
    chance = random.Random(f"{seed} {backend}")
    steps = ["open"] * len(SERVERS)
    held = len(steps)
    for _ in range(STEPS):
        kind = chance.choices(("open", "close", "change"), (5, 3, 2))[0]
        if kind == "open":
            steps.append("open")
            held += 1
        elif kind == "close" and held:
            held -= 1
            steps.append(f"close {chance.random()}")
        elif kind == "change":
            steps.append(_change(chance, backend))
    return steps


def take_walk(running: Program, backend: str, steps: list[str]) -> list[str]:
    """What each step showed."""
    held: list[Wire] = []
    seen = []
    for step in steps:
        if step == "open":
            wire = running.connect(backend)
            try:
                seen.append(wire.read_exactly(1).decode())
                held.append(wire)
            except PeerClosed:
                wire.close()
                seen.append(NOBODY)
        elif step.startswith("close"):
            if not held:
                continue
            held.pop(int(float(step.split()[1]) * len(held))).close()
        else:
            seen.append(f"{step}: {running.cli(step).strip()}")
        expected = str(len(held))
        wait_until(
            lambda expected=expected: running.stat(backend, "BACKEND")["scur"] == expected,
            f"{expected} connections of {backend}",
        )
    for wire in held:
        wire.close()
    return seen


@pytest.mark.usefixtures("haproxy")
@pytest.mark.parametrize("seed", range(2))
def test_servers_are_chosen_as_in_haproxy(seed: int) -> None:
    walks = {backend: walk(seed, backend) for backend in ALGORITHMS}
    found = {}
    for program in ("mtproxy", "haproxy"):
        with (
            Server(greet, ("0.0.0.0", 0)) as server,
            Program(program, configuration(server.port)) as running,
        ):
            for backend in ALGORITHMS:
                for number in range(1, len(SERVERS) + 1):
                    wait_until(
                        lambda running=running, backend=backend, number=number: (
                            running.stat(backend, f"s{number}")["check_status"] == "L4OK"
                        ),
                        "the first check",
                    )
            found[program] = {
                backend: take_walk(running, backend, steps) for backend, steps in walks.items()
            }
    wrong = []
    for backend in ALGORITHMS:
        mine, theirs = found["mtproxy"][backend], found["haproxy"][backend]
        for number, (one, other) in enumerate(zip(mine, theirs, strict=True)):
            if one != other:
                wrong.append(f"{backend}: {one} and not {other} after {theirs[:number]}")
                break
    assert not wrong, "\n".join(wrong)
