"""Writes hash.json: which server Debian's HAProxy 2.6 chooses for which request.

    python tests/golden/proxy/capture_hash.py

Run by hand when cases are added; the tests read the file. One HAProxy with one thread has a backend
for each case; its servers are frontends of the same process which answer with their number. All
cases see the same requests, in the same order, once at first and once after each of their steps.
"""

from __future__ import annotations

import importlib.util
import json
import random
import socket
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from mtproxy.testing.server import free_port

FILE = Path(__file__).with_name("hash.json")

WEIGHTS = [
    [1, 1, 1, 1], [1, 2, 3], [10, 20, 30, 5], [256, 1, 7], [100, 100, 100, 100, 100], [3, 0, 2, 8],
    [6, 4],
]  # fmt: skip
FUNCTIONS = [
    "", "sdbm", "sdbm avalanche", "djb2", "djb2 avalanche", "wt6", "wt6 avalanche", "crc32",
    "crc32 avalanche",
]  # fmt: skip
#: what happens to servers, beside the start with all of them
STEPS: list[list[str]] = [
    [],
    ["maint 0", "maint 1", "ready 0", "ready 1"],
    ["drain 1", "ready 1", "maint 2"],
]
WEIGHT_STEPS = ["weight 0 4", "weight 1 17", "weight 0 1", "weight 1 0", "weight 1 2"]


def requests() -> list[dict[str, str]]:
    """What the clients ask. An empty value is not sent."""
    rng = random.Random(7)
    hosts = [
        "www.example.com",
        "example.com",
        "localhost",
        "a.b.c.example.co.uk",
        "x..y",
        "10.0.0.1",
    ]
    rows = []
    for number in range(36):
        depth = rng.randint(0, 4)
        path = "/" + "/".join(f"d{rng.randint(0, 30)}" for _ in range(depth))
        query = rng.choice(
            ["", "", f"?id=u{rng.randint(0, 500)}", f"?a=1&id={number}&z=/x", "?idx=3&id="]
        )
        target = path + query
        if number % 9 == 4:
            target = f"http://www.example.com{target}"
        src = (
            f"192.0.2.{rng.randint(1, 254)}"
            if number % 3
            else f"2001:db8::{rng.randint(1, 65535):x}:7"
        )
        row = {
            "target": target,
            "src": src,
            "key": ""
            if number % 7 == 3
            else rng.choice(["", "k, ", '"q,r", ']) + f"key{rng.randint(0, 999)}",
            "host": "www.example.com" if number % 9 == 4 else rng.choice(hosts),
        }
        if number % 5 == 2:
            row["body"] = rng.choice(["id=b12&x=1", f"x=2&id=p{number}", "id= 3", 'id="3"', "y"])
        rows.append(row)
    return rows


def cases() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def case(
        *lines: str, weights: list[int], steps: list[str], extra: list[str] | None = None
    ) -> None:
        extra = extra or [""] * len(weights)
        servers = [f"weight {w} {e}".strip() for w, e in zip(weights, extra, strict=True)]
        found.append({"lines": list(lines), "servers": servers, "steps": steps})

    for number, function in enumerate(FUNCTIONS):
        for method in ("map-based", "consistent"):
            for place, weights in enumerate(WEIGHTS):
                steps = STEPS[(number + place) % len(STEPS)]
                steps = [step for step in steps if int(step.split()[1]) < len(weights)]
                if method == "consistent" and place % 2:
                    steps = [*steps, *WEIGHT_STEPS]
                case(
                    "balance uri",
                    f"hash-type {method} {function}".strip(),
                    weights=weights,
                    steps=steps,
                )
    keys = [
        "source", "uri whole", "uri path-only", "uri depth 1", "uri depth 2 whole", "uri len 4",
        "uri path-only len 9 depth 1", "url_param id", "url_param id check_post", "hdr(x-key)",
        "hdr(Host) use_domain_only", "hash req.hdr(x-key),lower", "hash src", "hash url_param(id)",
    ]  # fmt: skip
    for key in keys:
        for method in ("map-based", "consistent", "map-based djb2 avalanche", "consistent wt6"):
            case(f"balance {key}", f"hash-type {method}", weights=[3, 1, 2], steps=STEPS[1])
    ids = ["id 700", "id 12", "", "id 3"]
    for balance in ("uri", "first", "static-rr", "leastconn"):
        case(
            f"balance {balance}",
            "hash-type consistent",
            weights=[1, 1, 2, 1],
            steps=STEPS[1],
            extra=ids,
        )
    for weights in WEIGHTS:
        case("balance static-rr", weights=weights, steps=STEPS[1])
        case("balance first", weights=weights, steps=STEPS[1])
    backup = ["", "", "backup", "backup"]
    for options in (["option allbackups"], []):
        for method in ("map-based", "consistent"):
            down = ["maint 0", "maint 1", "maint 2", "ready 2", "ready 0"]
            lines = ["balance uri", f"hash-type {method}", *options]
            case(*lines, weights=[1, 1, 1, 1], steps=down, extra=backup)
    for factor in (101, 150, 300):
        case(
            "balance uri", "hash-type consistent", f"hash-balance-factor {factor}",
            weights=[1, 2, 3, 1], steps=STEPS[1],
        )  # fmt: skip
    return found


def helpers() -> ModuleType:
    """The other script's way to run HAProxy; scripts here are no package."""
    spec = importlib.util.spec_from_file_location("capture", Path(__file__).with_name("capture.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def config(found: list[dict[str, Any]], front: int, ports: list[int], control: str) -> str:
    text = f"""
global
    nbthread 1
    stats socket {control} level admin
    stats timeout 1m
defaults
    mode http
    timeout client 30s
    timeout server 30s
    timeout connect 5s
frontend f
    bind 127.0.0.1:{front}
    http-request set-src hdr(x-src)
    use_backend %[hdr(x-be)]
"""
    for number, one in enumerate(found):
        text += f"backend b{number}\n    option http-buffer-request\n"
        text += "".join(f"    {line}\n" for line in one["lines"])
        for i, words in enumerate(one["servers"]):
            text += f"    server s{i} 127.0.0.1:{ports[i]} {words}\n"
    for i, port in enumerate(ports):
        text += f"frontend o{i}\n    bind 127.0.0.1:{port}\n"
        text += f"    http-request return status 200 content-type text/plain string {i}\n"
    return text


def ask(client: socket.socket, answers: Any, backend: int, row: dict[str, str]) -> str:
    lines = [
        f"{'POST' if 'body' in row else 'GET'} {row['target']} HTTP/1.1", f"host: {row['host']}",
        f"x-be: b{backend}", f"x-src: {row['src']}",
    ]  # fmt: skip
    if row["key"]:
        lines.append(f"x-key: {row['key']}")
    if "body" in row:
        lines.append(f"content-length: {len(row['body'])}")
    client.sendall(("\r\n".join(lines) + "\r\n\r\n" + row.get("body", "")).encode())
    status = answers.readline()
    length = 0
    while line := answers.readline().strip():
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    body = answers.read(length)
    return body.decode() if b" 200 " in status else "-"


def tell(control: str, command: str) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(control)
        sock.sendall(command.encode() + b"\n")
        answer = sock.recv(4096).strip()
    assert not answer, (command, answer)


def command(backend: int, step: str) -> str:
    what, number, *value = step.split()
    if what == "weight":
        return f"set weight b{backend}/s{number} {value[0]}"
    return f"set server b{backend}/s{number} state {what}"


def main() -> None:
    found, rows = cases(), requests()
    ports = [free_port() for _ in range(5)]
    front = free_port()
    capture = helpers()
    with tempfile.TemporaryDirectory() as directory:
        control = f"{directory}/control"
        text = config(found, front, ports, control)
        with (
            capture.running(text),
            capture.connect(front) as client,
            client.makefile("rb") as answers,
        ):
            for number, one in enumerate(found):
                one["orders"] = ["".join(ask(client, answers, number, row) for row in rows)]
                for step in one["steps"]:
                    tell(control, command(number, step))
                    order = "".join(ask(client, answers, number, row) for row in rows)
                    one["orders"].append(order)
    parts = [f' "{name}": [\n' + ",\n".join("  " + json.dumps(one) for one in entries) + "\n ]"
             for name, entries in (("requests", rows), ("cases", found))]  # fmt: skip
    FILE.write_text("{\n" + ",\n".join(parts) + "\n}\n")


if __name__ == "__main__":
    main()
