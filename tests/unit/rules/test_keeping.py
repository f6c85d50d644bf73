"""Captures and unique ids; expectations from HAProxy 2.6.12 with the same messages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mtproxy.base.ruleset import Capture, Captures, CookieCapture
from mtproxy.http.headers import make_header
from mtproxy.rules import registry
from mtproxy.rules.keeping import Keeper, fill, unique_id
from mtproxy.rules.transaction import Transaction


def view_of(*headers: tuple[str, str], keeper: Keeper | None = None, response: Any = None) -> Any:
    lines = [make_header(name.encode(), value.encode()) for name, value in headers]
    request = SimpleNamespace(headers=lines, version=11)
    request.copy = lambda: request
    return SimpleNamespace(
        request=request,
        response=response,
        txn=Transaction(),
        unique_id=None,
        sconn=None,
        room=SimpleNamespace(keeper=keeper),
        request_line=b"GET http://h/p?q HTTP/1.1",
    )


def keeper(*names: str, length: int = 10, response: tuple[str, ...] = (), **more: Any) -> Keeper:
    captures = Captures(
        tuple(Capture(name.encode(), length) for name in names),
        tuple(Capture(name.encode(), length) for name in response),
        more.get("cookie"),
    )
    return Keeper(captures, more.get("make_id"), more.get("id_header"))


def test_the_last_field_of_a_name_is_kept_and_cut():
    one = keeper("a", "b", "a", "", length=3)
    view = view_of(("a", "1"), ("b", "12345"), ("A".lower(), "2"), keeper=one)
    one.begin(view)
    assert view.captured_request_headers == [b"2", b"123", b"2", None]
    assert view.captured_response_headers == []


def test_responses():
    one = keeper(response=("x", "y"))
    view = view_of(keeper=one)
    one.begin(view)
    assert view.captured_response_headers == [None, None]
    view.response = SimpleNamespace(headers=[make_header(b"y", b"1")], version=11)
    one.response_comes(view)
    assert view.captured_response_headers == [None, b"1"]


def test_nothing_is_left_of_the_request_before():
    one = keeper("a", cookie=CookieCapture(b"s=", 9), make_id=lambda _view: b"id")
    view = view_of(("a", "1"), ("cookie", "s=1"), keeper=one)
    one.begin(view)
    one.request_leaves(view)
    assert (view.captured_request_headers, view.request_cookie, view.unique_id) == (
        [b"1"],
        b"s=1",
        "id",
    )
    view.request = None
    one.begin(view)
    assert (view.captured_request_headers, view.request_cookie) == ((), None)
    # what was no request has no id
    assert unique_id(view) == ""


@pytest.mark.parametrize(
    ("values", "name", "kept"),
    [
        (["s=1"], b"s=", b"s=1"),
        (["t=1; s=abc; u=2"], b"s=", b"s=abc"),
        (["sess=1; s=2"], b"s", b"sess=1"),
        (["session=1; s=2"], b"s=", b"s=2"),
        (["a=1", "s=2"], b"s=", b"s=2"),
        (["  s  =  x y  ; b=1"], b"s=", b"s=x y"),
        (['s="a;b"; t=1'], b"s=", b's="a;b"'),
        (["s; s=2"], b"s", b"s=2"),
        (["a=1,s=2"], b"s=", b"s=2"),
        (["$s=1; s=2"], b"$s", None),
        (["s="], b"s=", b"s="),
        (["a=1"], b"s=", None),
        (["s=123456789"], b"s=", b"s=12345"),
        ([""], b"s=", None),
    ],
)
def test_cookies_of_requests(values: list[str], name: bytes, kept: bytes | None):
    one = keeper(cookie=CookieCapture(name, 7))
    view = view_of(*(("cookie", value) for value in values), keeper=one)
    one.begin(view)
    one.request_leaves(view)
    assert view.request_cookie == kept


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        (["s=9; path=/"], b"s=9"),
        (["a=1; s=2", "s=3"], b"s=3"),
        (["a=1,s=2"], None),
        (["s = 4 ; x"], b"s=4"),
    ],
)
def test_cookies_of_responses(values: list[str], kept: bytes | None):
    one = keeper(cookie=CookieCapture(b"s=", 7))
    view = view_of(keeper=one)
    one.begin(view)
    headers = [make_header(b"set-cookie", value.encode()) for value in values]
    view.response = SimpleNamespace(headers=headers, version=11)
    one.response_leaves(view)
    assert view.response_cookie == kept


def test_the_unique_id_goes_to_the_server():
    made: list[int] = []

    def make_id(_view: object) -> bytes:
        made.append(1)
        return b"id%d" % len(made)

    one = keeper(make_id=make_id, id_header=b"x-id")
    view = view_of(("a", "1"), keeper=one)
    one.begin(view)
    assert unique_id(view) == "id1"
    one.request_leaves(view)
    assert [header[:2] for header in view.request.headers] == [(b"a", b"1"), (b"x-id", b"id1")]
    assert len(made) == 1


def test_slots_of_rules():
    one = keeper("a", "", length=3, response=("",))
    view = view_of(keeper=one)
    one.begin(view)
    assert fill(view, 1, b"12345", response=False)
    assert fill(view, 0, b"9", response=True)
    assert not fill(view, 2, b"x", response=False)
    assert not fill(view, -1, b"x", response=False)
    assert view.captured_request_headers == [None, b"123"]
    assert view.captured_response_headers == [b"9"]
    view.room.keeper = None
    assert not fill(view, 0, b"x", response=False)


def fetch(name: str, view: Any, *args: Any) -> Any:
    entry = registry.FETCHES[name]
    if entry.call is not None:
        return entry.call(view)
    assert entry.make is not None
    build: Any = None
    return entry.make(args, build)(view)


def test_fetches():
    one = keeper("a")
    view = view_of(("a", "1"), keeper=one)
    one.begin(view)
    assert fetch("capture.req.hdr", view, 0) == b"1"
    assert fetch("capture.req.hdr", view, 1) is None
    assert fetch("capture.res.hdr", view, 0) is None
    assert fetch("capture.req.method", view) == b"GET"
    assert fetch("capture.req.uri", view) == b"/p?q"
    assert fetch("capture.req.ver", view) == b"HTTP/1.1"
    assert fetch("capture.res.ver", view) is None
    assert fetch("unique-id", view) is None
    view.response, view.sconn = SimpleNamespace(version=10), object()
    assert fetch("capture.res.ver", view) == b"HTTP/1.0"
    view.request_line = None
    assert fetch("capture.req.method", view) is None
    assert fetch("capture.req.uri", view) is None


@pytest.mark.parametrize(
    ("line", "uri"),
    [
        (b"GET /a?b HTTP/1.1", b"/a?b"),
        (b"GET http://h/a?b HTTP/1.1", b"/a?b"),
        (b"OPTIONS * HTTP/1.1", None),
        (b"CONNECT h:1 HTTP/1.1", None),
    ],
)
def test_the_captured_uri(line: bytes, uri: bytes | None):
    view = view_of()
    view.request_line = line
    assert fetch("capture.req.uri", view) == uri


def test_converters():
    one = keeper("", length=3, response=("",))
    view = view_of(keeper=one)
    one.begin(view)
    build: Any = None
    for name, slots in (
        ("capture-req", view.captured_request_headers),
        ("capture-res", view.captured_response_headers),
    ):
        make = registry.CONVERTERS[name].make
        assert make is not None
        assert make((0,), build)(b"12345", view) == b"12345"
        assert slots[0] in (b"123", b"12345")
        assert make((1,), build)(b"x", view) is None


def test_an_id_that_asks_for_itself_finds_nothing():
    def make_id(view: Any) -> bytes:
        return b"<%b>" % (unique_id(view) or "").encode()

    one = keeper(make_id=make_id)
    view = view_of(keeper=one)
    one.begin(view)
    assert unique_id(view) == "<>"
    assert view.unique_id == "<>"
