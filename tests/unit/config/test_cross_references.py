"""What rules name, and proxies of different modes: messages with their statement and place."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtproxy.base.errors import Diagnostic, Severity
from mtproxy.config.load import load

HEAD = "defaults\n mode http\n timeout client 1s\n timeout connect 1s\n timeout server 1s\n"


def said(tmp_path: Path, text: str, severity: Severity = Severity.ALERT) -> list[Diagnostic]:
    path = tmp_path / "t.cfg"
    path.write_text(HEAD + text)
    return [item for item in load([str(path)])[1] if item.severity is severity]


@pytest.mark.parametrize(
    ("line", "message", "suggestion"),
    [
        ("use_backend pol", "'use_backend' : unable to find the backend 'pol'", "pool"),
        (
            "acl a nbsrv(pol) gt 1",
            "'acl a' : unable to find the backend 'pol'",
            "pool",
        ),
        ("acl a fe_conn(shop) gt 1", "'acl a' : unable to find the frontend 'shop'", "shops"),
        (
            "acl a srv_is_up(pool/one)",
            "'acl a' : unable to find the server 'pool/one'",
            "pool/one1",
        ),
        (
            "http-request track-sc0 src table pol",
            "'http-request track-sc0' : unable to find the table 'pol'",
            "pool",
        ),
        (
            "http-request auth unless { http_auth(user) }",
            "'http-request auth' : unable to find the userlist 'user'",
            "users",
        ),
        (
            "http-request return errorfiles error",
            "'http-request return' : unable to find the http-errors section 'error'",
            "errors",
        ),
        (
            "http-request do-resolve(txn.a,names) src",
            "'http-request do-resolve' : unable to find the resolvers section 'names'",
            "name",
        ),
        ("acl a http_auth()", "'acl a' : missing userlist name in 'http_auth'", None),
        (
            "acl a nbsrv() gt 1",
            "'acl a' : missing backend name in 'nbsrv' (frontend 'shops' is none itself)",
            None,
        ),
        (
            "http-request track-sc0 src",
            "'http-request track-sc0' : missing table name (frontend 'shops' has none itself)",
            None,
        ),
    ],
)
def test_names_that_do_not_exist(
    tmp_path: Path, line: str, message: str, suggestion: str | None
) -> None:
    text = (
        f"frontend shops\n bind :1\n {line}\n default_backend pool\n"
        "backend pool\n stick-table type ip size 1k\n server one1 192.0.2.1:1\n"
        "userlist users\nhttp-errors errors\nresolvers name\n"
    )
    (found,) = said(tmp_path, text)
    assert (found.message, found.suggestion) == (message, suggestion)
    assert found.location is not None
    assert found.location.line == 8


def test_a_server_that_does_not_exist(tmp_path: Path) -> None:
    (found,) = said(tmp_path, "backend b\n server one 192.0.2.1:1\n use-server on if TRUE\n")
    assert found.message == "'use-server' : unable to find the server 'on' in backend 'b'"
    assert found.suggestion == "one"


@pytest.mark.parametrize("line", ["default_backend b", "use_backend b", "use_backend b if TRUE"])
def test_modes_differ(tmp_path: Path, line: str) -> None:
    text = f"frontend f\n mode http\n bind :1\n {line}\nbackend b\n mode tcp\n"
    (found,) = said(tmp_path, text)
    assert found.message.startswith("http frontend 'f' tries to use incompatible tcp backend 'b'")
    assert "t.cfg:10)" in found.message
    assert found.location is not None
    assert found.location.line == 9


@pytest.mark.parametrize("line", ["default_backend b", "use_backend b"])
def test_what_is_tcp_may_become_http(tmp_path: Path, line: str) -> None:
    text = f"frontend f\n mode tcp\n bind :1\n {line}\nbackend b\n mode http\n"
    assert said(tmp_path, text) == []


def test_a_frontend_of_the_same_name_is_not_meant(tmp_path: Path) -> None:
    text = "frontend f\n bind :1\n use_backend f\nbackend f\n"
    assert said(tmp_path, text) == []


@pytest.mark.parametrize("kind", ["http-request", "http-response", "http-after-response"])
def test_rules_of_http_are_ignored_in_tcp(tmp_path: Path, kind: str) -> None:
    text = (
        f"defaults d\n mode tcp\n timeout client 1s\n {kind} set-header a b\n"
        f"frontend own from d\n bind :1\n {kind} set-header a b\n"
        "frontend heir from d\n bind :2\n"
    )
    (found,) = said(tmp_path, text, Severity.WARNING)
    assert found.message == f"'{kind}' rules ignored for frontend 'own' as they require HTTP mode"


def test_redirect_and_cookie_are_ignored_in_tcp(tmp_path: Path) -> None:
    text = "backend b\n mode tcp\n redirect location /\n cookie c insert\n"
    first, second = said(tmp_path, text, Severity.WARNING)
    assert first.message == "'cookie' ignored for backend 'b' as it requires HTTP mode"
    assert second.message == "'redirect' rules ignored for backend 'b' as they require HTTP mode"
    settings, _ = load([str(tmp_path / "t.cfg")])
    assert settings is not None
    assert settings.proxies[0].cookie is None
