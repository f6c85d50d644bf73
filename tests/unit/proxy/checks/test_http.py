"""Requests of HTTP checks, and answers read by h11 in any pieces."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from mtproxy.base.checkscript import HttpSendStep
from mtproxy.base.ruleset import Format
from mtproxy.proxy.checks.http import KNOWN_BYTES, KNOWN_MOST, Answer, Asked, RequestMaker, told

LIMIT = 16384
GET = told(b"GET", ())
LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: b\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"
CLOSED = b"HTTP/1.0 200 OK\r\n\r\nok"
#: an answer whose end the server tells by closing
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n" + LENGTH


def fed(
    pieces: list[bytes], *, end: bool = False, request: Any = GET, limit: int = LIMIT
) -> Answer:
    answer = Answer(Asked(request, limit))
    for piece in pieces:
        answer.feed(piece)
    if end:
        answer.end()
    return answer


@pytest.mark.parametrize("data", [LENGTH, CHUNKED, CLOSED, INTERIM])
def test_an_answer_in_any_pieces(data: bytes) -> None:
    whole = fed([data], end=True)
    assert (whole.status, whole.complete, whole.failed) == (200, True, False)
    assert bytes(whole.body) == b"ok"
    bytewise = fed([data[i : i + 1] for i in range(len(data))], end=True)
    assert bytes(bytewise.body) == b"ok"
    for cut in range(1, len(data)):
        one = fed([data[:cut], data[cut:]], end=True)
        assert (one.status, one.reason, bytes(one.body)) == (200, whole.reason, b"ok")


def test_it_is_complete_as_soon_as_it_says() -> None:
    assert fed([LENGTH]).complete
    assert not fed([LENGTH[:-1]]).complete
    assert fed([LENGTH[:-1]]).started
    assert not fed([CLOSED]).complete
    assert fed([LENGTH[:-2]], request=told(b"HEAD", ())).complete


@pytest.mark.parametrize(
    "data", [b"garbage\r\n\r\n", b"h", b"HTTP/2 200\r\n\r\n", b"HTTP/1.1 x\r\n\r\n"]
)
def test_what_is_no_http_fails_at_once(data: bytes) -> None:
    assert fed([data]).failed


@pytest.mark.parametrize("cut", [1, 7, 12, 20])
def test_half_a_head_is_no_answer(cut: int) -> None:
    answer = fed([LENGTH[:cut]])
    assert not answer.failed
    answer.end()
    assert answer.failed
    assert not answer.started


def test_a_body_that_is_cut_short_has_its_head() -> None:
    answer = fed([LENGTH[:-1]], end=True)
    assert (answer.failed, answer.complete, answer.status) == (False, True, 200)
    assert bytes(answer.body) == b"o"


def test_a_bad_chunk_is_no_answer() -> None:
    assert fed([CHUNKED.replace(b"1\r\nk", b"z\r\nk")]).failed


def test_a_body_is_kept_up_to_the_limit() -> None:
    answer = fed([b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 500], limit=100)
    assert (len(answer.body), answer.complete) == (100, True)


def test_a_head_beyond_the_limit_is_no_answer() -> None:
    assert fed([b"HTTP/1.0 200 OK\r\nX: " + b"x" * 500], limit=100).failed


def test_an_upgrade_is_an_answer() -> None:
    headers = [(b"connection", b"upgrade"), (b"upgrade", b"raw")]
    data = b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: raw\r\n\r\n\1\2"
    answer = fed([data], request=told(b"GET", headers))
    assert (answer.status, answer.complete) == (101, True)
    assert fed([data]).failed, "nobody asked for it"


# --- requests


def fixed(text: str) -> Format:
    return Format(text, (), text.encode())


BUILD: Any = SimpleNamespace(format=lambda fmt: lambda view: view[fmt.text])
STEP = HttpSendStep()


@pytest.mark.parametrize(
    ("step", "wanted"),
    [
        (STEP, b"OPTIONS / HTTP/1.0\r\n\r\n"),
        (
            replace(STEP, version=b"HTTP/1.1"),
            b"OPTIONS / HTTP/1.1\r\nconnection: close\r\n\r\n",
        ),
        (
            replace(STEP, version=b"HTTP/1.9", headers=((b"connection", fixed("x")),)),
            b"OPTIONS / HTTP/1.1\r\nconnection: x\r\n\r\n",
        ),
        (replace(STEP, version=b"foo", uri=b"*"), b"OPTIONS * foo\r\n\r\n"),
        (replace(STEP, method=b"PUT"), b"PUT / HTTP/1.0\r\ncontent-length: 0\r\n\r\n"),
        (
            replace(STEP, method=b"GET", body=b"abc", headers=((b"a", fixed("b")),)),
            b"GET / HTTP/1.0\r\na: b\r\ncontent-length: 3\r\n\r\nabc",
        ),
        (replace(STEP, headers=((b"a", fixed("")),)), b"OPTIONS / HTTP/1.0\r\n\r\n"),
    ],
)
def test_a_request_that_never_changes(step: HttpSendStep, wanted: bytes) -> None:
    assert RequestMaker(step, BUILD, LIMIT, send_state=False, whole=True).fixed == wanted


def test_a_request_that_is_made_each_time() -> None:
    step = replace(STEP, uri=Format("uri"), headers=((b"a", Format("value")),))
    maker = RequestMaker(step, BUILD, LIMIT, send_state=True, whole=True)
    assert maker.fixed is None
    view: Any = {"uri": b"/x", "value": b""}
    assert maker.make(view, b"UP") == b"OPTIONS /x HTTP/1.0\r\nx-haproxy-server-state: UP\r\n\r\n"
    view = {"uri": b"", "value": b"v"}
    assert maker.make(view, b"UP").startswith(b"OPTIONS / HTTP/1.0\r\na: v\r\n")


def test_few_answers_are_remembered() -> None:
    maker = RequestMaker(STEP, BUILD, LIMIT, send_state=False, whole=True)
    for number in range(3 * KNOWN_MOST):
        data = LENGTH.replace(b"b\r\n", b"%d\r\n" % number)
        maker.keep(data, fed([data]))
        assert len(maker.known) <= KNOWN_MOST
        assert maker.known[data].complete
    size = len(maker.known)
    maker.keep(b"x" * (KNOWN_BYTES + 1), fed([LENGTH]))
    assert len(maker.known) == size


def test_copies_of_a_connection_do_not_disturb_each_other() -> None:
    """Answers to one request, side by side, byte by byte, good ones among bad ones."""
    asked = Asked(told(b"GET", [(b"connection", b"upgrade"), (b"upgrade", b"raw")]), LIMIT)
    switch = b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: raw\r\n\r\n"
    texts = [LENGTH, CHUNKED, CLOSED, INTERIM, switch, b"HTTP/1.1 oh no\r\n\r\n", LENGTH]
    for _ in range(2):
        answers = [Answer(asked) for _ in texts]
        for at in range(max(map(len, texts))):
            for text, answer in zip(texts, answers, strict=True):
                if at < len(text) and not answer.complete and not answer.failed:
                    answer.feed(text[at : at + 1])
        answers[2].end()
        assert [(one.status, bytes(one.body)) for one in answers if not one.failed] == [
            *([(200, b"ok")] * 4),
            (101, b""),
            (200, b"ok"),
        ]
        assert [one.failed for one in answers].index(True) == 5


def test_where_bodies_do_not_count_a_head_is_all() -> None:
    answer = Answer(Asked(GET, LIMIT, whole=False))
    answer.feed(LENGTH[:-2])
    assert (answer.status, answer.complete, bytes(answer.body)) == (200, True, b"")
