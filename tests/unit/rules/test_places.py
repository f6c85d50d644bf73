"""Fetches where there is nothing to read: errors in expressions, warnings in conditions."""

from __future__ import annotations

import pytest

from mtproxy.base.errors import ConfigError
from mtproxy.base.ruleset import AclLine, Condition
from mtproxy.rules import points
from mtproxy.rules.acl import build_condition, parse_acl
from mtproxy.rules.points import Point
from mtproxy.testing.samples import Samples

REQUEST = b"GET /a HTTP/1.1\r\nhost: h\r\nx: 1\r\n\r\n"
RESPONSE = b"HTTP/1.1 200 OK\r\nx: 2\r\ncontent-length: 0\r\n\r\n"


@pytest.mark.parametrize(
    ("text", "point", "kind", "missing"),
    [
        ("req.hdr(x)", points.HTTP_RESPONSE, "listen", "HTTP request headers"),
        ("res.hdr(x)", points.HTTP_REQUEST, "listen", "HTTP response headers"),
        ("path", points.LOG, "frontend", "HTTP request headers"),
        ("path", points.TCP_CONNECTION, "frontend", "HTTP request headers"),
        ("status", points.USE_BACKEND, "frontend", "HTTP response"),
        ("be_name", points.HTTP_REQUEST, "frontend", "backend"),
        ("srv_name", points.HTTP_REQUEST, "backend", "server"),
        ("nbsrv", points.GLOBAL, "frontend", "internal state"),
        ("src", points.GLOBAL, "frontend", "client address"),
    ],
)
def test_an_expression_is_refused(text: str, point: Point, kind: str, missing: str) -> None:
    samples = Samples(point, kind)
    with pytest.raises(ConfigError) as error:
        samples.reader(text).expression()
    assert f"because it needs '{missing}' which is not available here" in str(error.value)


@pytest.mark.parametrize(
    ("text", "point", "kind"),
    [
        ("hdr(x)", points.HTTP_RESPONSE, "frontend"),
        ("method", points.HTTP_RESPONSE, "frontend"),
        ("be_name", points.HTTP_REQUEST, "listen"),
        ("be_name", points.HTTP_REQUEST, "backend"),
        ("fe_name", points.HTTP_REQUEST, "backend"),
        ("status", points.LOG, "frontend"),
        ("res.hdr(x)", points.HTTP_ERROR, "frontend"),
        ("date", points.GLOBAL, "frontend"),
        ("nbsrv(be)", points.RUNTIME, "frontend"),
    ],
)
def test_an_expression_is_taken(text: str, point: Point, kind: str) -> None:
    assert Samples(point, kind).reader(text).expression().fetch.name == text.partition("(")[0]


def condition(samples: Samples, text: str) -> Condition:
    found = samples.reader(text).condition()
    assert found is not None
    return found


def test_an_anonymous_acl_that_cannot_match_is_warned_of_and_does_not() -> None:
    samples = Samples(points.HTTP_RESPONSE, "frontend")
    samples.receive(REQUEST, RESPONSE)
    test = build_condition(condition(samples, "if { path /a }"), samples.build)
    assert samples.warnings == [
        "anonymous acl will never match because it uses keyword 'path' which is incompatible with"
        " 'frontend http-response header rule'"
    ]
    assert not test(samples.view)
    test = build_condition(condition(samples, "if !{ path /a }"), samples.build)
    assert test(samples.view)


def named(samples: Samples, *lines: str) -> dict[str, list[AclLine]]:
    """An ACL "foo" of these lines, for all rules."""
    anywhere = Samples(Point("acl", ~points.Need.NOTHING))
    acls = {"foo": [parse_acl(anywhere.reader(line)) for line in lines]}
    samples.build.acls = acls
    return acls


@pytest.mark.parametrize(
    ("lines", "warning", "matches"),
    [
        (
            ("path /a",),
            "acl 'foo' will never match because it only involves keywords that are incompatible"
            " with 'backend http-response header rule'",
            False,
        ),
        (
            ("path /a", "res.hdr(x) 2"),
            "acl 'foo' involves keywords 'path' which is incompatible with 'backend http-response"
            " header rule'",
            True,
        ),
        (("res.hdr(x) 2",), None, True),
        # in ACLs, it is the header of requests
        (("hdr(x) 2",), "acl 'foo' will never match", False),
    ],
)
def test_a_named_acl(lines: tuple[str, ...], warning: str | None, matches: bool) -> None:
    samples = Samples(points.HTTP_RESPONSE, "backend")
    samples.receive(REQUEST, RESPONSE)
    acls = named(samples, *lines)
    reader = samples.reader("if foo")
    reader.acls = acls
    found = reader.condition()
    assert found is not None
    if warning is None:
        assert samples.warnings == []
    else:
        assert len(samples.warnings) == 1
        assert samples.warnings[0].startswith(warning)
    assert build_condition(found, samples.build)(samples.view) is matches
