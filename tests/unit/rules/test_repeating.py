"""Which rule sets hang on the request's head alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtproxy.config.load import load
from mtproxy.rules import lookup, repeating
from mtproxy.rules.points import Need
from mtproxy.rules.tables import ArgKind

#: kinds of arguments that may name a variable
_VARIABLES = {ArgKind.OPERAND, ArgKind.PLACE, ArgKind.VARIABLE}


def test_what_is_listed_reads_the_head_alone() -> None:
    fetches = lookup.fetches()
    for name in repeating.FETCHES | repeating._MATCHED:
        needs = fetches[name].needs
        # in rules for responses some read the response's
        others = needs & ~(Need.REQ_HEAD | Need.TXN)
        assert not others or needs == Need.REQ_HEAD | Need.RES_HEAD, name


def test_listed_converters_read_no_variable() -> None:
    converters = lookup.converters()
    for name in repeating.CONVERTERS:
        kinds = {arg.kind for arg in converters[name].args}
        assert not kinds & _VARIABLES, name


def test_listed_actions_exist() -> None:
    known = lookup.actions()
    named = repeating.CHANGES | repeating.ENDS | repeating.PATTERN_CHANGES
    assert not [name for name in named if name not in known]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("set-header A %[hdr(host),lower]", True),
        ("set-header A %[src]", False),
        ("set-header A %ci", False),
        ("set-header A %[hdr(host),concat(x,txn.a)]", False),
        ("set-header A %[var(txn.a)]", False),
        ("set-var(txn.a) path\nset-header A %[var(txn.a)]", True),
        ("set-var(txn.a) src\nset-header A %[var(txn.a)]", False),
        ("set-var(sess.a) path", False),
        ("set-var(proc.a) path", False),
        ("deny if { path /x }", True),
        ("deny if { src 127.0.0.1 }", False),
        ("deny if { hdr(host),map_str(MAP) -m found }", True),
        ("deny if { sc_http_req_rate(0) gt 1 }", False),
        ("redirect location %[src] if { path /x }", True),
        ("redirect location %[src] ignore-empty if { path /x }", False),
        ("return status 200 if { rand(2) 1 }", False),
        ("set-map(MAP) %[path] 1", False),
        ("set-log-level silent", False),
        ("capture hdr(host) len 5", False),
        ("strict-mode off", False),
        ("auth realm x unless { http_auth(u) }", False),
        ("named", True),
        ("not named", False),
    ],
)
def test_verdicts(tmp_path: Path, rules: str, expected: bool) -> None:
    (tmp_path / "m").write_text("a b\n")
    lines = {
        "named": "acl one path /x\nhttp-request deny if one",
        "not named": "acl one path /x\nacl one dst_port 80\nhttp-request deny if one",
    }.get(rules) or "\n".join(f"http-request {line}" for line in rules.splitlines())
    text = f"""
userlist u
    user a insecure-password b
defaults
    mode http
    timeout client 1s
frontend f
    bind 127.0.0.1:8080
    stick-table type ip size 100 store http_req_rate(10s)
    {lines.replace("MAP", str(tmp_path / "m"))}
"""
    path = tmp_path / "cfg"
    path.write_text(text)
    settings, messages = load([str(path)])
    assert settings is not None, list(messages)
    proxy = settings.proxies[0]
    every = proxy.rules.sets["http-request"]
    count = repeating.leading(every, proxy.rules.acls)
    assert (count == len(every)) is expected
    if not expected:
        assert count == 0
