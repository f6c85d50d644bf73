"""Sample expressions and what they give, in mtproxy and in a real HAProxy.

A file of cases has one `EXPRESSION ==> OUTCOME` per line, "#" comments and empty lines. An outcome
is `error` (refused at load), `none` (no sample), or a type and a value: `sint 5`, `bool 1`,
`str 'text'` (bytes as latin-1), `bin 00ff`, `ipv4 1.2.3.4`, `ipv6 ::1`. Outcomes are HAProxy's:

    python -m mtproxy.testing.expressions FILE...    # evaluates and rewrites the outcomes

`evaluate` gives mtproxy's. Both know the variables of `VARIABLES`. One thread: the caller's.
"""

from __future__ import annotations

import ast
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from mtproxy.base.errors import ConfigError
from mtproxy.base.ruleset import NOWHERE, ProxyRules
from mtproxy.base.settings import GlobalSettings, Settings
from mtproxy.rules import points
from mtproxy.rules.build import Build, RuleShared
from mtproxy.rules.casts import to_text
from mtproxy.rules.expression import build_expression, parse_expression
from mtproxy.rules.reader import RuleReader
from mtproxy.rules.transaction import Transaction
from mtproxy.rules.types import Binary, Type, Value, parse_ip, type_of
from mtproxy.rules.variables import writer
from mtproxy.testing.haproxy_judge import find_haproxy

#: variables that the expressions may read, and what is stored in them before
VARIABLES = {
    "txn.int": "int(7)",
    "txn.neg": "int(-3)",
    "txn.zero": "int(0)",
    "txn.min": "int(-9223372036854775808)",
    "txn.max": "int(9223372036854775807)",
    "txn.str": "str(foo)",
    "txn.num": "str(12x)",
    "txn.empty": "str()",
    "txn.bin": "bin(610062)",
    "txn.bool": "bool(true)",
    "txn.ip": "ipv4(127.0.0.1)",
    "sess.str": "str(of the session)",
    "req.str": "str(of the request)",
    "txn.key": "str(c2VjcmV0)",
    "txn.nonce": "str(MTIzNDU2Nzg5MDEy)",
    "txn.aeskey": "str(MTIzNDU2Nzg5MDEyMzQ1Ng==)",
    "txn.hs256": "str(HS256)",
    "txn.none": "str(none)",
    "txn.secret": "str(hmac key hmac key hmac key hmac key)",
}
#: the time zone of the cases
ZONE = "CET-1CEST,M3.5.0,M10.5.0/3"
_SEPARATOR = " ==> "


def read_cases(path: Path) -> list[tuple[str, str]]:
    """Expressions of a file with their outcomes."""
    cases = []
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            expression, _, outcome = line.partition(_SEPARATOR)
            cases.append((expression, outcome))
    return cases


def outcome_of(value: Value | None) -> str:
    """A sample as files of cases write it."""
    if value is None:
        return "none"
    kind = type_of(value)
    if kind is Type.STR:
        assert isinstance(value, bytes)
        return f"str {value.decode('latin-1')!a}"
    if isinstance(value, Binary):
        return f"bin {value.hex()}"
    if kind is Type.BOOL:
        return f"bool {int(value)}"
    return f"{kind} {to_text(value).decode()}"


def value_of(outcome: str) -> Value | None:
    """The sample that an outcome stands for; None for "none"."""
    kind, _, text = outcome.partition(" ")
    match kind:
        case "none":
            return None
        case "str":
            return cast(str, ast.literal_eval(text)).encode("latin-1")
        case "bin":
            return Binary.fromhex(text)
        case "sint":
            return int(text)
        case "bool":
            return text == "1"
    return parse_ip(text)


class Evaluator:
    """Reads and runs expressions without a proxy around them."""

    def __init__(self) -> None:
        settings = Settings(GlobalSettings(), ())
        proxy: Any = SimpleNamespace(rules=ProxyRules(), name="f")
        self.build = Build(RuleShared(settings), proxy, None, None)
        self.view: Any = SimpleNamespace(
            txn=Transaction(),
            sess_vars=None,
            may_change=False,
            request=None,
            response=None,
            response_body=lambda: b"",
        )
        for name, text in VARIABLES.items():
            writer(name, self.build)(self.view, self.value(text))

    def value(self, text: str) -> Value | None:
        """What the expression gives. Raises ConfigError."""
        reader = RuleReader((text,), NOWHERE, points.HTTP_REQUEST, title="test")
        expression = parse_expression(reader)
        reader.end()
        return build_expression(expression, self.build)(self.view)

    def outcome(self, text: str) -> str:
        try:
            return outcome_of(self.value(text))
        except ConfigError:
            return "error"


# --- HAProxy

_RETURN = '    http-request return status 200 hdr x-value "%[var(txn.r),hex]"'


def _config(expressions: list[str | None]) -> str:
    lines = [
        "global",
        "    nbthread 1",
        "defaults",
        "    mode http",
        "    timeout client 5s",
        "    timeout connect 5s",
        "    timeout server 5s",
        "frontend f",
        "    bind unix@SOCKET",
    ]
    lines += [
        f"    http-request set-var({name}) {_quoted(text)}" for name, text in VARIABLES.items()
    ]
    for number, text in enumerate(expressions):
        if text is not None:
            probe = _quoted(f"{text},debug({number},stdout)")
            lines.append(f"    http-request set-var(txn.r) {probe} if {{ path /{number} }}")
        else:
            lines.append("    # an error")
    lines += [_RETURN, ""]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def judge(expressions: list[str]) -> list[str]:
    """HAProxy's outcomes. Raises RuntimeError where it cannot be asked."""
    program = find_haproxy()
    if program is None:
        raise RuntimeError("no haproxy")
    wanted: list[str | None] = list(expressions)
    first = _config([]).splitlines().index(_RETURN)
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory, "haproxy.cfg")
        front = f"{directory}/front.sock"
        while True:
            config.write_text(_config(wanted).replace("SOCKET", front))
            check = subprocess.run(
                [program, "-c", "-f", str(config)], capture_output=True, text=True, check=False
            )
            if check.returncode == 0:
                break
            found = {int(line) - 1 - first for line in re.findall(r"cfg:(\d+)\]", check.stderr)}
            bad = {number for number in found if 0 <= number < len(wanted)}
            bad = {number for number in bad if wanted[number] is not None}
            if not bad:
                raise RuntimeError(check.stderr)
            for number in bad:
                wanted[number] = None
        with Path(directory, "out").open("w+b") as out:
            process = subprocess.Popen(
                [program, "-db", "-f", str(config)], stdout=out, stderr=subprocess.DEVNULL
            )
            try:
                replies = _ask(front, [n for n, text in enumerate(wanted) if text is not None])
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(10)
            out.seek(0)
            types = dict(re.findall(rb"\[debug\] (\d+): type=(\w+)", out.read()))
    outcomes = []
    for number, text in enumerate(wanted):
        if text is None:
            outcomes.append("error")
        else:
            kind = types.get(b"%d" % number, b"none").decode()
            outcomes.append(_outcome(kind, bytes.fromhex(replies[number])))
    return outcomes


def _outcome(kind: str, data: bytes) -> str:
    match kind:
        case "sint":
            return outcome_of(int.from_bytes(data, signed=True))
        case "bool":
            return outcome_of(data[-1:] == b"\1")
        case "ipv4" | "ipv6":
            family = socket.AF_INET if kind == "ipv4" else socket.AF_INET6
            return f"{kind} {socket.inet_ntop(family, data)}"
        case "bin":
            return outcome_of(Binary(data))
        case "str" | "meth":
            return outcome_of(data)
    return kind


def _ask(front: str, numbers: list[int]) -> dict[int, str]:
    deadline = time.monotonic() + 10
    while True:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(front)
            break
        except OSError:
            sock.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    replies = {}
    with sock, sock.makefile("rb") as lines:
        for number in numbers:
            sock.sendall(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % number)
            value = ""
            while (line := lines.readline().rstrip()) != b"":
                if line.lower().startswith(b"x-value: "):
                    value = line[9:].decode()
            replies[number] = value
    return replies


def main(paths: list[str]) -> None:
    """Rewrite the outcomes of files of cases with HAProxy's."""
    os.environ["TZ"] = ZONE
    for path in map(Path, paths):
        outcomes = iter(judge([text for text, _ in read_cases(path)]))
        lines = []
        for line in path.read_text().splitlines():
            if line.strip() and not line.startswith("#"):
                line = f"{line.partition(_SEPARATOR)[0]}{_SEPARATOR}{next(outcomes)}"
            lines.append(line)
        path.write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main(sys.argv[1:])
