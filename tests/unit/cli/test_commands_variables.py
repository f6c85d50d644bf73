"""get var and set var; answers as HAProxy 2.6.12 gave them to the same commands."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mtproxy.cli.commands import COMMANDS
from mtproxy.cli.runtime import CliSession, Level
from mtproxy.config.load import load
from mtproxy.rules.build import RuleShared
from mtproxy.rules.nowhere import set_variables
from mtproxy.testing.runtime import make_runtime

type Cli = Callable[[str], str]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    (tmp_path / "t.cfg").write_text(
        """
global
  set-var proc.n int(5)
  set-var proc.a str("a\\x01b")
  set-var proc.n,ifnotexists int(6)
  set-var-fmt proc.f "%[var(proc.n)]|%ci|%ST|%b|%s|%[var(proc.none)]|%ID"
  set-var proc.sum var(proc.none,60),div(proc.n)
defaults
  timeout client 5s
frontend f
  bind 127.0.0.1:18931
"""
    )
    settings, diagnostics = load([str(tmp_path / "t.cfg")])
    assert settings is not None, list(diagnostics)
    runtime = make_runtime(settings)
    runtime.rules = RuleShared(settings)
    set_variables(runtime.rules)
    session = CliSession(runtime, runtime.pool.contexts[0], COMMANDS, Level.ADMIN)

    def run(text: str) -> str:
        session.feed(text.encode() + b"\n")
        out = ""
        while (command := session.next_command()) is not None:
            out += "".join(str(piece) for piece in session.answer(command))
        return out

    return run


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("get var proc.n", "proc.n: type=sint value=<5>\n"),
        ("get var proc.a", "proc.a: type=str value=<a.b>\n"),
        ("get var proc.f", "proc.f: type=str value=<5||0|CFG|<NOSRV>||>\n"),
        ("get var proc.sum", "proc.sum: type=sint value=<12>\n"),
        ("get var", "Missing process-wide variable identifier.\n\n"),
        ("get var proc.zz", "Variable not found.\n\n"),
        ("get var txn.n", "Variable not found.\n\n"),
        ("get var n", "Variable not found.\n\n"),
        ("set var proc.n int(1)", "This command is restricted to experimental mode only.\n\n"),
    ],
)
def test_answers(cli: Cli, command: str, answer: str):
    assert cli(command) == answer


@pytest.mark.parametrize(
    ("command", "name", "value"),
    [
        ("set var proc.n int(1)", "proc.n", "sint value=<1>"),
        ("set var proc.new fmt %[var(proc.n)]-x", "proc.new", "str value=<5-x>"),
        ("set var proc.q expr str(a\\ b),upper", "proc.q", "str value=<A B>"),
        ("set var proc.n var(proc.n),add(1)", "proc.n", "sint value=<6>"),
        ("set var proc.n,ifgt int(9)", "proc.n", "sint value=<5>"),
    ],
)
def test_setting(cli: Cli, command: str, name: str, value: str):
    assert cli("experimental-mode on") == "\n"
    assert cli(command) == "\n"
    assert cli(f"get var {name}") == f"{name}: type={value}\n"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("set var", "Missing process-wide variable identifier."),
        ("set var proc.x", "Missing either 'expr', 'fmt' or expression."),
        (
            "set var proc.x foo y",
            "'set var': arg type must be either 'expr' or 'fmt' but got 'foo'.",
        ),
        (
            "set var txn.x int(1)",
            "'set var': cannot set variable 'txn.x', only scope 'proc' is permitted here.",
        ),
        ("set var proc.x nope", "unknown fetch method 'nope'"),
        ("set var proc.x fmt %zz", "no such format variable 'zz'"),
        ("set var proc.x src", "it needs 'client address' which is not available here"),
        ("set var x int(1)", "invalid variable name 'x'"),
    ],
)
def test_refusals(cli: Cli, command: str, message: str):
    cli("experimental-mode on")
    assert re.search(re.escape(message), cli(command))
    assert cli("get var proc.x") == "Variable not found.\n\n"


def test_the_mode(cli: Cli):
    assert cli("experimental-mode") == "experimental-mode is OFF\n\n"
    cli("experimental-mode on")
    assert cli("experimental-mode") == "experimental-mode is ON\n\n"
    cli("experimental-mode off")
    assert cli("experimental-mode") == "experimental-mode is OFF\n\n"
