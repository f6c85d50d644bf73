"""Golden files: a configuration in, its normal form and messages out.

`config/NAME.cfg` (or the directory `config/NAME.d`) is loaded with the command line of its first
lines `# args: ...` and the variables of `# env: NAME=VALUE`; `config/NAME.expected` holds the
messages and what was understood. MTPROXY_UPDATE_GOLDEN=1 writes the expected files anew.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import pytest

from mtproxy.base.addresses import Address
from mtproxy.base.commandline import CommandLine
from mtproxy.base.errors import Diagnostics
from mtproxy.base.location import Location
from mtproxy.base.ruleset import Condition, Inherited, ProxyRules, Term
from mtproxy.base.settings import Settings
from mtproxy.cli.args import parse_args
from mtproxy.config import has_listener, load
from mtproxy.config.dump import address_text, dump
from mtproxy.config.explain import explain
from mtproxy.rules.patterns.reference import PatternExpr

FOLDER = Path(__file__).parent / "config"
NAMES = sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".cfg", ".d"))
HOSTS = {"app.example": ["192.0.2.10"], "six.example": ["2001:db8::6"], "localhost": ["127.0.0.1"]}


def head(path: Path) -> list[str]:
    file = path if path.is_file() else min(path.glob("*.cfg"))
    return [line[2:] for line in file.read_text("latin-1").splitlines() if line.startswith("# ")]


def variables(name: str) -> dict[str, str]:
    lines = head(FOLDER / name)
    return dict(line[5:].split("=", 1) for line in lines if line.startswith("env: "))


def loaded(name: str) -> tuple[Settings | None, Diagnostics, CommandLine]:
    lines = head(FOLDER / name)
    args = [word for line in lines if line.startswith("args: ") for word in shlex.split(line[6:])]
    env = variables(name)
    cmdline = parse_args(["-f", name, "-L", "peer", *args])
    settings, diagnostics = load(
        cmdline.paths, cmdline, environ=env, resolver=lambda host, family: HOSTS.get(host, [])
    )
    return settings, diagnostics, cmdline


def outcome(name: str) -> str:
    settings, diagnostics, cmdline = loaded(name)
    parts = [f"{item.render(pid=1)}\n" for item in diagnostics.shown(diag=cmdline.diag)]
    if settings is None:
        return "exit 1\n" + "".join(parts)
    code = 0 if has_listener(settings) else 2
    return f"exit {code}\n" + "".join(parts) + dump(settings)


@pytest.mark.parametrize("name", NAMES)
def test_golden(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    found = outcome(name)
    path = FOLDER / re.sub(r"\.(cfg|d)$", ".expected", name)
    if os.environ.get("MTPROXY_UPDATE_GOLDEN"):
        path.write_text(found, "utf-8", "surrogateescape")
    assert found == path.read_text("utf-8", "surrogateescape")


@pytest.mark.parametrize("name", NAMES)
def test_what_was_understood_is_understood_again(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`-dC` writes a configuration with everything worked in: it means the same."""
    monkeypatch.chdir(FOLDER)
    settings = loaded(name)[0]
    if settings is None:
        return
    text = explain(settings, variables(name))
    again = tmp_path / "again.cfg"
    again.write_text(text, "utf-8", "surrogateescape")
    cmdline = parse_args(["-f", str(again), "-L", "peer"])
    repeated, diagnostics = load(cmdline.paths, cmdline, environ={})
    assert repeated is not None, "\n".join([text, *(item.text() for item in diagnostics)])
    assert explain(repeated, {}) == text
    assert meaning(repeated) == meaning(settings)


def meaning(settings: Settings) -> object:
    """What rules, replies, servers and addresses come to, whatever names and places they have."""
    # a backend may inherit what only a frontend makes use of
    unused = {"formats": {}, "unique_id_header": None}
    return {
        "proxies": [
            (
                proxy.name,
                plain(proxy.rules if proxy.is_frontend else replace(proxy.rules, **unused)),
                plain(proxy.errors),
                *([plain(proxy.cookie), proxy.dynamic_cookie_key] if proxy.is_backend else []),
                plain(proxy.stick_table),
                # names of hosts and services are worked in
                plain([replace(one, hostname=None, unresolved=False) for one in proxy.servers]),
                plain(proxy.binds),
            )
            for proxy in settings.proxies
        ],
        "variables": plain(settings.global_.variables),
        "resolvers": plain(settings.resolvers),
        "userlists": plain(settings.userlists),
        "http-errors": plain(settings.http_errors),
    }


def plain(value: object) -> object:
    """Records as values that can be compared: without places, ACLs of `defaults` all alike."""
    if isinstance(value, Address):
        return address_text(value)
    if isinstance(value, Inherited):
        return value.mode, value.counts
    if isinstance(value, Term) and isinstance(value.acl, str):
        scope, slash, name = value.acl.rpartition("/")
        return f"{slash}{name}", value.negated, value.dead
    if isinstance(value, ProxyRules):
        scope = "" if value.inherited is None else f"{value.inherited.name}/"
        acls = {
            key.removeprefix(scope[:-1]): lines
            for key, lines in value.acls.items()
            if "/" not in key or (scope and key.startswith(scope))
        }
        members = {item.name: getattr(value, item.name) for item in fields(value)}
        return plain(members | {"acls": acls})
    if isinstance(value, PatternExpr):
        return value.ref.name, value.ref.number, value.method, value.ignore_case, value.dns
    if is_dataclass(value):
        members = {
            item.name: getattr(value, item.name)
            for item in fields(value)
            if item.name == "exprs" or item.compare
        }
        members = {name: one for name, one in members.items() if not isinstance(one, Location)}
        if isinstance(value, Condition):
            del members["text"]
        return type(value).__name__, plain(members)
    if isinstance(value, Mapping):
        return {key: plain(element) for key, element in value.items()}
    if isinstance(value, tuple | list):
        return [plain(element) for element in value]
    return value


def test_every_expected_file_has_its_input() -> None:
    expected = {path.stem for path in FOLDER.glob("*.expected")}
    assert expected == {re.sub(r"\.(cfg|d)$", "", name) for name in NAMES}
