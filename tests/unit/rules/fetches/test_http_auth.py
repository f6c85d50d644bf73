"""Credentials, and the user lists that know them."""

from __future__ import annotations

import base64
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mtproxy.base import crypt
from mtproxy.base.settings import UserSettings
from mtproxy.config.load import load
from mtproxy.http.cache import HeadCache
from mtproxy.http.h1_request import parse_request_head
from mtproxy.rules.fetches import http_auth
from mtproxy.rules.fetches.http_auth import FETCHES, Checker

CALLS: dict[str, Any] = {entry.name: entry.call for entry in FETCHES if entry.call is not None}


def view_of(*lines: bytes, options: frozenset[str] = frozenset(), target: bytes = b"/") -> Any:
    head = b"\r\n".join([b"GET " + target + b" HTTP/1.1", b"host: x", *lines])
    request = parse_request_head(head + b"\r\n\r\n", HeadCache())
    settings = SimpleNamespace(options=options)
    return SimpleNamespace(request=request, fe=SimpleNamespace(settings=settings))


def basic(text: bytes, scheme: bytes = b"Basic", name: bytes = b"authorization") -> bytes:
    return name + b": " + scheme + b" " + base64.b64encode(text)


@pytest.mark.parametrize(
    ("line", "user", "password", "kind"),
    [
        (basic(b"joe:secret"), b"joe", b"secret", b"Basic"),
        (basic(b"joe:a:b", b"bAsIc  "), b"joe", b"a:b", b"Basic"),
        (basic(b":"), b"", b"", b"Basic"),
        (basic(b"nocolon"), None, None, None),
        (b"authorization: Basic !!!!", None, None, None),
        (b"authorization: Basic am9lOmE", None, None, None),
        (b"authorization: Basic", None, None, None),
        (b"authorization: Bearer abc", None, None, b"Bearer"),
        (b"authorization: Digest abc", None, None, None),
        (b"x: y", None, None, None),
    ],
)
def test_credentials(
    line: bytes, user: bytes | None, password: bytes | None, kind: bytes | None
) -> None:
    view = view_of(line)
    assert CALLS["http_auth_user"](view) == user
    assert CALLS["http_auth_pass"](view) == password
    assert CALLS["http_auth_type"](view) == kind


def test_a_proxy_is_spoken_to_in_another_field() -> None:
    options = frozenset({"http-use-proxy-header"})
    line = basic(b"joe:secret", name=b"proxy-authorization")
    assert CALLS["http_auth_user"](view_of(line, options=options, target=b"http://x/")) == b"joe"
    assert CALLS["http_auth_user"](view_of(line, options=options)) is None


def test_a_plain_password() -> None:
    checker = Checker({"joe": UserSettings(b"secret", insecure=True), "ann": UserSettings(None)})
    assert checker.check(b"joe", b"secret")
    assert not checker.check(b"joe", b"Secret")
    assert not checker.check(b"joe", b"")
    assert not checker.check(b"ann", b"")
    assert not checker.check(b"bob", b"secret")


@pytest.mark.parametrize("setting", [b"$1$abcdefgh", b"$5$abcdefgh", b"$6$abcdefgh"])
def test_hashes(setting: bytes) -> None:
    if not crypt.available():
        pytest.skip("no libcrypt")
    hashed = crypt.hash_password(b"secret", setting)
    assert hashed is not None
    assert hashed.startswith(setting)
    checker = Checker({"joe": UserSettings(hashed)})
    assert checker.check(b"joe", b"secret")
    assert not checker.check(b"joe", b"secret ")
    assert not checker.check(b"joe", b"sec\0ret")
    assert not checker.check(b"joe", hashed)


def test_what_crypt_does_not_know_matches_nothing() -> None:
    assert crypt.hash_password(b"x", b"$nonsense$") is None
    assert not Checker({"joe": UserSettings(b"*0")}).check(b"joe", b"")


def test_right_credentials_are_computed_once_and_wrong_ones_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bytes] = []

    def matches(password: bytes, _hashed: bytes) -> bool:
        asked.append(password)
        return password.startswith(b"good")

    monkeypatch.setattr(http_auth.crypt, "matches", matches)
    checker = Checker({"joe": UserSettings(b"hash"), "jo": UserSettings(b"hash")})
    assert [checker.check(b"joe", b"good") for _ in range(3)] == [True] * 3
    assert asked == [b"good"]
    assert not checker.check(b"joe", b"bad") and not checker.check(b"joe", b"bad")
    assert asked == [b"good", b"bad", b"bad"]
    # another user whose name and password join to the same text
    assert not checker.check(b"jo", b"egood")
    for number in range(3000):
        assert checker.check(b"joe", b"good%d" % number)
    assert len(checker._right) <= 1024


def test_groups_are_put_together_from_both_sides(tmp_path: Path) -> None:
    path = tmp_path / "case.cfg"
    lines = """
userlist u
 group g1 users joe
 group g2
 user joe insecure-password x groups g2
 user ann insecure-password y
frontend f
 mode http
 bind 127.0.0.1:1
 timeout client 1s
 http-request deny unless { http_auth_group(u) g1 }
"""
    path.write_text(lines.lstrip())
    settings, diagnostics = load([str(path)], environ={})
    assert settings is not None, list(diagnostics)
    assert settings.userlists["u"]["joe"].groups == ("g1", "g2")
    assert settings.userlists["u"]["ann"].groups == ()
    path.write_text(lines.lstrip().replace("users joe", "users jo").replace("(u)", "(v)"))
    settings, diagnostics = load([str(path)], environ={})
    assert settings is None
    said = "\n".join(item.message for item in diagnostics)
    assert "no such user 'jo' specified in group 'g1'" in said
    assert "userlist 'v'" in said
