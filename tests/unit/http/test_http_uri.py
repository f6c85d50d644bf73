import pytest

from mtproxy.http.errors import BadMessage
from mtproxy.http.uri import (
    ABSOLUTE,
    ASTERISK,
    AUTHORITY,
    ORIGIN,
    agree,
    split_port,
    target_form,
)


@pytest.mark.parametrize(
    ("method", "target", "form"),
    [
        (b"GET", b"/", ORIGIN),
        (b"GET", b"//x?y", ORIGIN),
        (b"OPTIONS", b"*", ASTERISK),
        (b"GET", b"http://a", ABSOLUTE),
        (b"GET", b"HTTP://a:80/x?y", ABSOLUTE),
        (b"GET", b"http://u:p@a:/", ABSOLUTE),
        (b"GET", b"http://[::1]:8080/", ABSOLUTE),
        (b"GET", b"http://:", ABSOLUTE),
        (b"GET", b"coap+tcp://a/", ABSOLUTE),
        (b"CONNECT", b"a:443", AUTHORITY),
        (b"CONNECT", b"[::1]:443", AUTHORITY),
    ],
)
def test_forms(method: bytes, target: bytes, form: int) -> None:
    assert target_form(method, target) == form


@pytest.mark.parametrize(
    ("method", "target"),
    [
        (b"GET", b"*"),
        (b"GET", b"a"),
        (b"GET", b"a/b"),
        (b"GET", b"?x"),
        (b"GET", b"a:80"),
        (b"GET", b"http:/a"),
        (b"GET", b"mailto:a"),
        (b"GET", b"1http://a/"),
        (b"GET", b"://a/"),
        (b"GET", b"http://a?x"),
        (b"GET", b"http://a:b/"),
        (b"GET", b'http://"/'),
        (b"GET", b"http://a@b@c/"),
        (b"GET", b"http://::1/"),
        (b"OPTIONS", b"**"),
        (b"CONNECT", b"a"),
        (b"CONNECT", b"a:"),
        (b"CONNECT", b"/"),
        (b"CONNECT", b"*"),
        (b"CONNECT", b"a:80/"),
        (b"CONNECT", b"u@a:80"),
        (b"CONNECT", b"::1:80"),
        (b"CONNECT", b"http://a:80/"),
    ],
)
def test_bad_targets(method: bytes, target: bytes) -> None:
    with pytest.raises(BadMessage) as caught:
        target_form(method, target)
    assert (caught.value.status, caught.value.position) == (400, len(method) + 1)


@pytest.mark.parametrize(
    ("host", "parts"),
    [
        (b"a", (b"a", b"")),
        (b"a:", (b"a", b":")),
        (b"a:80", (b"a", b":80")),
        (b"", (b"", b"")),
        (b":80", (b"", b":80")),
        (b"[::1]", (b"[::1]", b"")),
        (b"[::1]:80", (b"[::1]", b":80")),
    ],
)
def test_split_port(host: bytes, parts: tuple[bytes, bytes]) -> None:
    assert split_port(host) == parts


# target, Host, target and Host as they go on; the cases and results are HAProxy's
AGREEING = [
    (b"http://a/x", b"a", b"http://a/x", b"a"),
    (b"http://A/", b"a", b"http://A/", b"a"),
    (b"http://a/", b"a:80", b"http://a/", b"a:80"),
    (b"http://a/", b"a:", b"http://a/", b"a:"),
    (b"http://a:80/", b"a:80", b"http://a/", b"a"),
    (b"http://a:80/", b"a", b"http://a/", b"a"),
    (b"http://a:80/", b"a:", b"http://a/", b"a"),
    (b"http://a:/", b"a:80", b"http://a/", b"a"),
    (b"http://a:/", b"A", b"http://a/", b"a"),
    (b"https://a:443/", b"a", b"https://a/", b"a"),
    (b"https://a:80/", b"a:80", b"https://a:80/", b"a:80"),
    (b"http://a:8080/", b"a:8080", b"http://a:8080/", b"a:8080"),
    (b"ftp://a:/", b"a", b"ftp://a/", b"a"),
    (b"http://u:p@a:80/c", b"a:80", b"http://u:p@a/c", b"a"),
    (b"http://[::1]:80/", b"[::1]", b"http://[::1]/", b"[::1]"),
    (b"http://:", b":80", b"http://", b""),
    (b"https://:", b":", b"https://", b""),
    (b"http://a:80", None, b"http://a", None),
    (b"http://a/", None, b"http://a/", None),
]
DIFFERING = [
    (b"http://a/", b"b"),
    (b"http://a/", b""),
    (b"http://", b"a"),
    (b"http://a/", b"a:81"),
    (b"http://a:80/", b"a:81"),
    (b"http://a:8080/", b"a"),
    (b"http://a:080/", b"a"),
    (b"https://a:443/", b"a:80"),
    (b"ftp://a:21/", b"a"),
    (b"ws://a:80/", b"a"),
    (b"http://[::1]/", b"[::2]"),
]


@pytest.mark.parametrize(("target", "host", "new_target", "new_host"), AGREEING)
def test_absolute_form_agrees(
    target: bytes, host: bytes | None, new_target: bytes, new_host: bytes | None
) -> None:
    assert agree(target, ABSOLUTE, host) == (new_target, new_host)


@pytest.mark.parametrize(("target", "host"), DIFFERING)
def test_absolute_form_differs(target: bytes, host: bytes) -> None:
    with pytest.raises(BadMessage) as caught:
        agree(target, ABSOLUTE, host)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("target", "host", "new_host"),
    [
        (b"a:80", b"a:80", b"a"),
        (b"a:443", b"a:443", b"a"),
        (b"a:443", b"a", b"a"),
        (b"a:80", b"a:", b"a:"),
        (b"a:80", b"A:80", b"A"),
        (b"a:8080", b"a:8080", b"a:8080"),
        (b"a:8080", None, None),
    ],
)
def test_authority_form(target: bytes, host: bytes | None, new_host: bytes | None) -> None:
    assert agree(target, AUTHORITY, host) == (target, new_host)


@pytest.mark.parametrize(
    ("target", "host"),
    [(b"a:80", b"b:80"), (b"a:80", b"a:443"), (b"a:8080", b"a"), (b"a:443", b"a:80")],
)
def test_authority_form_differs(target: bytes, host: bytes) -> None:
    with pytest.raises(BadMessage):
        agree(target, AUTHORITY, host)
