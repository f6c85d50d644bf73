"""Actions that change the request line, and the normal forms of targets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtproxy.http import normalize
from mtproxy.rules.verdict import Answer

ORIGIN = b"/a/b?c=d"
ABSOLUTE = b"http://h:81/a/b?c=d"


@pytest.mark.parametrize(
    ("action", "target", "expected"),
    [
        ("set-path /x", ORIGIN, b"/x?c=d"),
        ("set-path /x", ABSOLUTE, b"http://h:81/x?c=d"),
        ("set-path /x%[path]", ORIGIN, b"/x/a/b?c=d"),
        ("set-pathq /x?y", ABSOLUTE, b"http://h:81/x?y"),
        ("set-query y", ORIGIN, b"/a/b?y"),
        ("set-query y", b"/a", b"/a?y"),
        ("set-query %[str()]", b"/a", b"/a"),
        ("set-query %[str()]", b"/a?b", b"/a?"),
        ("set-uri /x", ABSOLUTE, b"/x"),
        ("replace-path /(.) /\\\\1\\\\1", ORIGIN, b"/aa?c=d"),
        ("replace-pathq ([^?]*)\\\\?(.*) /\\\\2\\\\1", ORIGIN, b"/c=d/a/b"),
        ("replace-uri ^http://[^/]*(.*) \\\\1", ABSOLUTE, b"/a/b?c=d"),
        ("replace-path nothing /x", ORIGIN, ORIGIN),
        ("normalize-uri path-merge-slashes", b"/a//b?c=//", b"/a/b?c=//"),
        ("normalize-uri query-sort-by-name", b"/?b=2&a=1&b=1&aa", b"/?a=1&aa&b=2&b=1"),
        ("normalize-uri percent-to-uppercase", b"/%c3%zz?%ab", b"/%C3%zz?%AB"),
        ("normalize-uri path-strip-dot", b"*", b"*"),
    ],
)
def test_targets(rules: Any, action: str, target: bytes, expected: bytes) -> None:
    method = b"OPTIONS" if target == b"*" else b"GET"
    view, verdict = rules(f"http-request {action}").request(
        method + b" " + target + b" HTTP/1.1\nhost: h:81"
    )
    assert verdict is None
    assert view.request.target == expected


def test_host_follows_an_absolute_uri(rules: Any) -> None:
    view, _ = rules("http-request set-uri http://new/x").request(b"GET / HTTP/1.1\nhost: old")
    assert view.sent() == b"GET http://new/x HTTP/1.1\nhost: new"


@pytest.mark.parametrize(
    "action",
    [
        "set-path /a\\ b",
        "set-uri %[str()]",
        "set-method %[str()]",
        "set-method A\\ B",
        "set-method CONNECT",
    ],
)
def test_what_no_request_line_can_hold_is_a_failed_rewrite(rules: Any, action: str) -> None:
    view, verdict = rules(f"http-request {action}").request(b"GET / HTTP/1.1\nhost: x")
    assert isinstance(verdict, Answer)
    assert verdict.error
    assert view.request.start_wire == b"GET / HTTP/1.1\r\n"


def test_a_strict_normalizer_refuses_the_request(rules: Any) -> None:
    built = rules("http-request normalize-uri percent-decode-unreserved strict")
    view, verdict = built.request(b"GET /%7e HTTP/1.1\nhost: x")
    assert (verdict, view.request.target) == (None, b"/~")
    _, verdict = built.request(b"GET /%zz HTTP/1.1\nhost: x")
    assert isinstance(verdict, Answer)
    assert verdict.bad


def test_normalizers_have_to_be_allowed(loaded: Any) -> None:
    found, said = loaded("http-request normalize-uri path-strip-dots")
    assert found is None
    assert "path-strip-dot" in said


@pytest.mark.parametrize(
    ("path", "stays", "full"),
    [
        (b"/a/../b", b"/b", b"/b"),
        (b"/a/b/..", b"/a/", b"/a/"),
        (b"/..", b"/../", b"/"),
        (b"/../a", b"/../a", b"/a"),
        (b"/a/../../b/c", b"/../b/c", b"/b/c"),
        (b"/a//../b", b"/a/b", b"/a/b"),
        (b"/a/..b/..", b"/a/", b"/a/"),
        (b"/", b"/", b"/"),
    ],
)
def test_dot_dot(path: bytes, stays: bytes, full: bytes) -> None:
    assert normalize.strip_dotdot(path, full=False) == stays
    assert normalize.strip_dotdot(path, full=True) == full


@pytest.mark.parametrize(
    ("path", "expected"),
    [(b"/./a/./b/.", b"/a/b/"), (b"/a/.b/", b"/a/.b/"), (b"/.", b"/"), (b"/a", b"/a")],
)
def test_dot(path: bytes, expected: bytes) -> None:
    assert normalize.strip_dot(path) == expected


paths = st.lists(st.sampled_from([b"", b".", b"..", b"a", b"%7e", b"%2F", b"%"])).map(
    lambda segments: b"/" + b"/".join(segments)
)


@given(paths)
def test_normal_forms_stay_what_they_are(path: bytes) -> None:
    for form in (
        normalize.merge_slashes,
        normalize.strip_dot,
        lambda one: normalize.strip_dotdot(one, full=True),
        lambda one: normalize.encoded_to_upper(one, strict=False),
        normalize.sort_query,
    ):
        once = form(path)
        assert once is not None
        assert form(once) == once
        assert len(once) <= len(path) + 1
    assert b".." not in normalize.strip_dotdot(path, full=True).split(b"/")
