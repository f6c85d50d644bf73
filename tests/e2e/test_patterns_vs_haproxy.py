"""Lists of every match method: any history of changes finds what it finds in a real HAProxy.

The same commands go to HAProxy's runtime socket and to a session of ours; answers are compared as
they are, but for the addresses that name entries.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from mtproxy.cli.commands import COMMANDS
from mtproxy.cli.runtime import CliSession, Level
from mtproxy.config.load import load
from mtproxy.testing.haproxy_judge import find_haproxy
from mtproxy.testing.program import Program
from mtproxy.testing.runtime import make_runtime

pytestmark = pytest.mark.skipif(find_haproxy() is None, reason="haproxy is not installed")

METHODS = ("str", "beg", "end", "sub", "dir", "dom", "reg", "len", "bin", "int", "ip")
LISTS = [(method, flag) for method in METHODS for flag in ("", "-i")]
SOURCES = {"int": "int(5)", "ip": "src"}
#: what HAProxy strips from a pattern of words; where nothing is left it reads behind the sample
DELIMITERS = {"dir": "/?", "dom": "/?.:"}
HISTORIES = 8
ID = re.compile(r"\b0x[0-9a-f]{7,}")


def _config(address: str) -> str:
    lines = [
        f"  acl a{number} {SOURCES.get(method, 'req.fhdr(x)')} -m {method} {flag} --"
        for number, (method, flag) in enumerate(LISTS)
    ]
    head = ["defaults", "  mode http", "  timeout client 5s", "frontend f", f"  bind {address}"]
    return "\n".join([*head, *lines, ""])


def _pattern(method: str, rng: random.Random) -> str:
    def one(least: int, most: int) -> int:
        return rng.randint(least, most)

    match method:
        case "int" | "len":
            fixed = [":5", "7:", "-3", ":-2", "x", "5:", "08", "1.5", "--4", ":", "9:-"]
            low, high = one(0, 9), one(0, 9)
            return rng.choice([str(low), f"{low}:{high}", f"{low}-{high}", *fixed])
        case "ip":
            fixed = [
                "10.0.0.0/8", "10.1.0.0/16", "::/0", "::1", "::ffff:10.1.0.0/112", "2002:a01::/32",
                "10.0.0.1/255.0.0.255", "0/0", "10.1", "1.2.3.4/", "::1/", "10.0.0.0/255.255.0.0",
                "::1/129", "10.0.0.0/8x", "10.1.1.1/-1", "2001:db8::/32",
            ]  # fmt: skip
            some = f"10.{one(0, 2)}.{one(0, 2)}"
            return rng.choice([*fixed, f"{some}.1", f"{some}.9/{one(0, 33)}"])
        case "bin":
            return "".join(rng.choices("0af4F", k=one(1, 4)))
        case "reg":
            return rng.choice(
                [
                    "a", "^a", "b$", "a.b", "^$", "(A|b)+", "[[:upper:]]", "a{2}", "\\\\.a", "(",
                    "^(a|b)*c", "a**", "\\\\d", "(?i)AB", "x?y?", "^/a/(.*)$", "[^/]+/b", "^[aA]+$",
                ]
            )  # fmt: skip
    while True:
        text = "".join(rng.choices("aAb./?:", k=one(1, 4)))
        if text.strip(DELIMITERS.get(method, "")):
            return text


def _value(method: str, rng: random.Random) -> str:
    match method:
        case "int":
            return rng.choice([str(rng.randint(-4, 10)), str(rng.randint(0, 10)), "zz"])
        case "ip":
            some = ".".join(str(rng.randint(0, 2)) for _ in range(3))
            fixed = [
                "10.1.7.9", "::1", "2002:a01:1::", "2002:a01:107:900::", "::ffff:10.1.1.1",
                "::10.1.1.1", "2001:db8::5", "zz", "10.1.7.9x", "1.2.3.4",
            ]  # fmt: skip
            return rng.choice([f"10.{some}", f"10.{some}", *fixed])
        case "bin":
            return "".join(rng.choices("aAO", k=rng.randint(1, 2)))
    return "".join(rng.choices("aAb./?:0", k=rng.randint(1, 7)))


def _history(number: int, method: str, rng: random.Random) -> list[str]:
    def add(count: int) -> list[str]:
        return [f"add acl #{number} {_pattern(method, rng)}" for _ in range(count)]

    commands = [f"clear acl #{number}", *add(rng.randint(1, 6))]
    if rng.random() < 0.5:
        commands.append(f"del acl #{number} {_pattern(method, rng)}")
    if rng.random() < 0.3:
        commands += add(20)
    commands.append(f"show acl #{number}")
    return commands + [f"get acl #{number} {_value(method, rng)}" for _ in range(8)]


def test_any_history_finds_what_haproxy_finds(tmp_path: Path) -> None:
    file = tmp_path / "t.cfg"
    file.write_text(_config("127.0.0.1:18931"))
    settings, _ = load([str(file)])
    assert settings is not None
    runtime = make_runtime(settings)
    session = CliSession(runtime, runtime.pool.contexts[0], COMMANDS, Level.ADMIN)

    def ours(command: str) -> str:
        session.feed(command.encode() + b"\n")
        line = session.next_command()
        assert line is not None
        return "".join(str(piece) for piece in session.answer(line))

    rng = random.Random(20)
    with Program("haproxy", _config("fd@${fe}")) as haproxy:
        for _ in range(HISTORIES):
            for number, (method, _flag) in enumerate(LISTS):
                history = _history(number, method, rng)
                theirs = haproxy.cli("; ".join(history))
                mine = "".join(ours(command) for command in history)
                assert ID.sub("0xID", mine) == ID.sub("0xID", theirs), history
