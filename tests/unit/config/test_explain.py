"""`-c -dC`: what the golden configurations do not show (tests/golden)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from mtproxy.base.settings import Settings
from mtproxy.config import load
from mtproxy.config.explain import explain


def understood(path: Path, text: str, environ: Mapping[str, str] | None = None) -> Settings:
    path.write_text(text)
    settings, diagnostics = load([str(path)], environ=environ or {})
    assert settings is not None, "\n".join([text, *(item.text() for item in diagnostics)])
    return settings


def explained(path: Path, text: str) -> list[str]:
    """The lines, which mean the same when they are read again."""
    first = explain(understood(path, text), {})
    assert explain(understood(path, first), {}) == first
    return [line.strip() for line in first.splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.cfg"


def test_slots_of_captures_keep_their_numbers(path: Path) -> None:
    lines = explained(
        path,
        "frontend f\n  bind :8080\n  mode http\n"
        "  declare capture request len 1\n"
        "  http-request capture path len 2\n"
        "  capture request header A len 3\n"
        "  declare capture request len 4\n"
        "  http-request capture path id 3\n"
        "  http-request capture url len 5\n",
    )
    assert [line for line in lines if "capture" in line] == [
        "declare capture request len 1",
        "http-request capture path len 2",
        "http-request capture path id 3",
        "capture request header a len 3",
        "declare capture request len 4",
        "http-request capture url len 5",
    ]


def test_acls_of_defaults_stay_those_of_its_rules(path: Path) -> None:
    lines = explained(
        path,
        "defaults d\n  mode http\n  acl a path /d\n  http-request deny if a TRUE\n"
        "frontend f from d\n  bind :8080\n  acl a path /f\n  http-request deny if !a\n"
        "frontend g from d\n  bind :8081\n"
        "defaults\nbackend b\n",
    )
    assert [line for line in lines if line.partition(" ")[0] in
            ("defaults", "frontend", "backend", "acl", "http-request")] == [
        "defaults d",
        "acl a path /d",
        "acl TRUE always_true",
        "http-request deny if a TRUE",
        "frontend f from d",
        "acl a path /f",
        "http-request deny if !a",
        "frontend g from d",
        "defaults",
        "backend b",
    ]  # fmt: skip


def test_rules_that_only_defaults_may_have_for_a_frontend(path: Path) -> None:
    """`set-timeout server` cannot stand in a frontend, but it may be inherited there."""
    lines = explained(
        path,
        "defaults d\n  mode http\n  http-request set-timeout server 5s\nfrontend f\n  bind :8080\n",
    )
    assert lines.index("http-request set-timeout server 5s") < lines.index("frontend f from d")


def test_replies_that_a_tcp_proxy_inherited(path: Path) -> None:
    lines = explained(
        path,
        "defaults\n  mode http\n  http-error status 500 content-type a/b lf-string %HM\n"
        "listen l\n  mode tcp\n  bind :8080\n",
    )
    at = lines.index("http-error status 500 content-type a/b lf-string %HM")
    assert lines[at - 1 : at + 2 : 2] == ["mode http", "mode tcp"]


def test_what_the_configuration_changes_in_the_environment(path: Path) -> None:
    before = {"KEPT": "a", "GONE": "b", "CHANGED": "c", "HAPROXY_LOCALPEER": "x"}
    text = "global\n  unsetenv GONE\n  setenv CHANGED 'd e'\n  presetenv KEPT z\nbackend b\n"
    lines = explain(understood(path, text, before), before).splitlines()
    assert [line for line in lines if "env" in line] == [
        "    unsetenv GONE",
        "    setenv CHANGED 'd e'",
    ]


def test_what_has_no_line_is_a_comment(path: Path) -> None:
    """Settings that were not read from a file may hold what no line can say."""
    (path.parent / "e.http").write_text("HTTP/1.0 503 No\r\n\r\n")
    settings = understood(
        path, f"http-errors h\n  errorfile 503 {path.parent}/e.http\n"
        f"backend b\n  mode http\n  errorfile 503 {path.parent}/e.http\n"
    )  # fmt: skip
    stored = replace(settings.http_errors["h"][503], path="")
    (proxy,) = settings.proxies
    errors = {503: replace(proxy.errors[503], words=())}
    changed = replace(
        settings,
        http_errors={"h": {503: stored}},
        proxies=(replace(proxy, errors=errors),),
        environment={"EMPTY": ""},
    )
    comments = [line for line in explain(changed, {}).splitlines() if line.startswith("    #")]
    assert "    # setenv EMPTY ''" in comments
    assert any(line.startswith("    # errorfile 503 = StoredMessage(") for line in comments)
    assert any(line.startswith("    # errors[503] = ReplySpec(") for line in comments)


def test_passwords_stand_as_they_were_written(path: Path) -> None:
    lines = explained(
        path,
        "userlist u\n  group g users a\n  user a password '$5$x$y'\n"
        "  user b insecure-password 'it''s' groups g\n  user c\nbackend b\n",
    )
    assert [line for line in lines if line.startswith(("group", "user "))] == [
        "group g",
        "user a password '$5$x$y' groups g",
        "user b insecure-password its groups g",
        "user c",
    ]
