"""Warnings about rules that stand in the wrong place."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtproxy.config.load import load

HEAD = "defaults\n mode http\n timeout client 1s\n timeout connect 1s\n timeout server 1s\n"
FRONT = "frontend f\n bind :81\n"


def messages(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "a.cfg"
    path.write_text(HEAD + text)
    _, diagnostics = load([str(path)])
    return [item.message for item in diagnostics]


@pytest.mark.parametrize(
    ("first", "second", "warned"),
    [
        ("http-request allow", "tcp-request content accept", True),
        ("use_backend b if TRUE", "http-request allow if TRUE", True),
        ("tcp-request connection accept", "http-request allow", False),
        ("http-request allow if TRUE", "use_backend b if TRUE", False),
        ("monitor fail if TRUE", "tcp-request session accept", True),
    ],
)
def test_a_rule_behind_one_that_runs_later(
    tmp_path: Path, first: str, second: str, warned: bool
) -> None:
    text = f"{FRONT} {first}\n {second}\nbackend b\n server s 127.0.0.1:1\n"
    found = [m for m in messages(tmp_path, text) if "placed after" in m]
    assert bool(found) is warned


def test_nothing_is_reached_behind_a_final_rule(tmp_path: Path) -> None:
    found = messages(tmp_path, f"{FRONT} http-request deny\n http-request set-header A b\n")
    assert found == [
        "previous 'http-request' action 'deny' is final and has no condition attached, further"
        " entries are NOOP"
    ]
    found = messages(tmp_path, f"{FRONT} http-request deny if TRUE\n http-request deny\n")
    assert found == []


def test_anonymous_defaults_hold_no_rules(tmp_path: Path) -> None:
    found = messages(tmp_path, f" http-request deny\n{FRONT}")
    assert found == ["'http-request' not allowed in anonymous 'defaults' section"]


def test_rules_of_defaults_are_for_one_kind_of_proxy(tmp_path: Path) -> None:
    text = (
        "defaults d\n mode http\n timeout client 1s\n timeout connect 1s\n timeout server 1s\n"
        " http-request allow\n"
        "frontend f from d\n bind :81\n"
        "backend b from d\n server s 127.0.0.1:1\n"
    )
    found = messages(tmp_path, text)
    assert len(found) == 1
    assert found[0].startswith("frontends and backends cannot inherit from the same defaults")
    found = messages(tmp_path, text.replace("backend b from d\n server s 127.0.0.1:1\n", ""))
    assert found == []


@pytest.mark.parametrize(
    ("line", "warned"),
    [
        ("tcp-request content accept if { req.ssl_hello_type 1 }", True),
        ("tcp-request content accept if later", True),
        ("tcp-request content accept if REQ_CONTENT", True),
        ("use_backend b if RDP_COOKIE", True),
        ("http-request set-header a %[req.len]", True),
        ("unique-id-format %[req.len]", True),
        ("tcp-request content accept if WAIT_END", False),
        ("http-request allow if { req.body -m found }", False),
        ("http-request set-var(txn.a) req.len", False),
    ],
)
@pytest.mark.parametrize("mode", ["http", "tcp"])
def test_what_looks_for_bytes_is_told_that_http_has_none(
    tmp_path: Path, line: str, warned: bool, mode: str
) -> None:
    acl = "acl later always_false\n acl later req.len 3"
    text = f"{FRONT} mode {mode}\n {acl}\n {line}\nbackend b\n mode {mode}\n server s 127.0.0.1:1\n"
    found = [m for m in messages(tmp_path, text) if "L6 sample fetch" in m]
    assert bool(found) is (warned and mode == "http")
