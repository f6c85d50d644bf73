"""Rules of `defaults` sections: who may begin with them, and what they must name."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtproxy.config.load import load


def said(tmp_path: Path, text: str) -> str:
    path = tmp_path / "t.cfg"
    path.write_text(text)
    return "\n".join(item.message for item in load([str(path)])[1])


@pytest.mark.parametrize(
    ("rule", "heir", "what"),
    [
        ("http-request allow", "defaults e from d", "defining TCP/HTTP rules"),
        ("http-request allow", "listen l from d\n bind :1", "defining TCP/HTTP rules"),
        ("tcp-request content accept", "listen l from d\n bind :1", "defining TCP/HTTP rules"),
        ("tcp-request connection accept", "backend b from d", "'tcp-request connection' or"),
        ("tcp-request session accept", "backend b from d", "'tcp-request session' rules"),
        ("tcp-response content accept", "frontend f from d\n bind :1", "'tcp-response content'"),
    ],
)
def test_not_every_section_may_begin_with_rules(
    tmp_path: Path, rule: str, heir: str, what: str
) -> None:
    text = said(tmp_path, f"defaults d\n {rule}\n{heir}\n")
    kind = heir.partition(" ")[0]
    assert f"a {kind} section cannot inherit from a defaults section" in text
    assert what in text
    assert "t.cfg:1)" in text
    assert "frontends and backends cannot inherit" not in text


@pytest.mark.parametrize(
    ("rule", "heir"),
    [
        ("tcp-response content accept", "backend b from d"),
        ("tcp-request session accept", "frontend f from d\n bind :1"),
        ("tcp-request content accept", "backend b from d"),
    ],
)
def test_others_may(tmp_path: Path, rule: str, heir: str) -> None:
    assert "cannot inherit" not in said(tmp_path, f"defaults d\n {rule}\n{heir}\n")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("http-request track-sc0 src", "table"),
        ("http-request deny if { src_http_req_rate gt 20 }", "table"),
        ("http-request set-header a %[srv_conn(www)]", "backend"),
    ],
)
def test_what_is_meant_must_not_depend_on_the_heir(tmp_path: Path, line: str, what: str) -> None:
    text = f"defaults d\n mode http\n {line}\nbackend b\n stick-table type ip size 1k\n"
    assert f"the name of a {what} must be set in a 'defaults' section ('d')" in said(tmp_path, text)
