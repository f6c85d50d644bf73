"""The bed itself: what it compares, what it leaves out, and that it notices a difference."""

from __future__ import annotations

import pytest

from tests.differential import bed, test_cases, wire
from tests.differential.case import Case, expr, request, rules


def test_chunks_are_compared_by_what_is_in_them() -> None:
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    cut = head + b"1\r\na\r\n2;x=y\r\nbc\r\n0\r\n\r\n"
    whole = head + b"3\r\nabc\r\n0\r\n\r\n"
    assert wire.merge_chunks(cut) == wire.merge_chunks(whole) == whole
    assert wire.merge_chunks(cut) != head + b"3\r\nabd\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "method", "complete"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\na", b"GET", False),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab", b"GET", True),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n", b"HEAD", True),
        (b"HTTP/1.1 103 E\r\n\r\n", b"GET", False),
        (b"HTTP/1.1 103 E\r\n\r\nHTTP/1.1 204 N\r\n\r\n", b"GET", True),
        (b"HTTP/1.1 200 OK\r\n\r\nabc", b"GET", False),
    ],
)
def test_the_end_of_an_answer(data: bytes, method: bytes, complete: bool) -> None:
    assert wire.answer_complete(data, method) is complete


def test_what_must_differ_gets_a_name() -> None:
    names = bed.Names({40123: "CLIENTPORT", 77: "PID"}, (r"(?<=t=)\d+",))
    assert names.bytes(b"p=40123 q=140123 t=5") == b"p=CLIENTPORT q=140123 t=~"
    line = (
        b"<134>Nov 30 21:00:00 c1[77]: 127.0.0.1:40123 [30/Nov/2026:21:00:00.123] c1 b1/s1"
        b' 0/0/1/2/3 200 44 - - ---- 3/1/0/0/0 0/0 "GET / HTTP/1.1"'
    )
    assert names.log(line) == (
        b"<134>127.0.0.1:CLIENTPORT DATE c1 b1/s1 T/T/T/T/T 200 B - - ---- A/1/0/0/0 0/0"
        b' "GET / HTTP/1.1"'
    )
    # what never came to pass stays visible
    assert b" T/-1/-1/-1/T 403 B " in names.log(line.replace(b"0/0/1/2/3 200", b"0/-1/-1/-1/3 403"))


def test_a_refusal_is_laid_at_the_right_case() -> None:
    cases = [
        rules("good", "http-request set-header a b"),
        rules("bad", "http-request no-such-action"),
        rules("bad behind", "", back="no-such-keyword"),
        expr("path"),
    ]
    found = bed.refusals("mtproxy", cases)
    assert set(found) == {"bad", "bad behind"}
    assert "no-such-action" in found["bad"]


def test_a_difference_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [Case("same"), Case("answer"), Case("refused")]
    mine = {"same": bed.Seen([b"a"]), "answer": bed.Seen([b"a"]), "refused": bed.Seen(refused="x")}
    theirs = {"same": bed.Seen([b"a"]), "answer": bed.Seen([b"b"]), "refused": bed.Seen()}
    monkeypatch.setattr(bed, "run_both", lambda _cases: (dict(mine), dict(theirs)))
    assert set(bed.differences(cases)) == {"answer", "refused"}
    # both refuse: the words are each one's own
    theirs["refused"] = bed.Seen(refused="y")
    assert set(bed.differences(cases)) == {"answer"}


def test_the_table_of_known_differences_is_held_to_the_truth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases = [Case("one"), Case("two")]
    monkeypatch.setattr(test_cases, "DIFFERENCES", {"f/one": "a reason for it"})
    test_cases.judge("f", cases, {"one": "differs"})
    with pytest.raises(AssertionError, match="1 cases differ"):
        test_cases.judge("f", cases, {"one": "differs", "two": "differs"})
    with pytest.raises(AssertionError, match="take them out of the table"):
        test_cases.judge("f", cases, {})
    monkeypatch.setattr(test_cases, "DIFFERENCES", {"f/three": "a reason for it"})
    with pytest.raises(AssertionError, match="no such cases"):
        test_cases.judge("f", cases, {})


@pytest.mark.usefixtures("haproxy")
def test_haproxy_answers_as_the_manual_says() -> None:
    case = expr("str(abc),upper", request("/"), name="upper")
    seen = bed.run("haproxy", [(0, case)])["upper"]
    assert seen.answers[0].endswith(b"[ABC]")
    assert len(seen.logs) == 1
