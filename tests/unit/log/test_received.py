"""Heads of received syslog: what they say, and what each format makes of them, as HAProxy does."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mtproxy.log.intake import MOST, BadFrame, Frames
from mtproxy.log.received import head, natural_format, parse

NOW = datetime(2026, 11, 30, 4, 5, 6, 789, tzinfo=UTC)


def forwarded(message: bytes, log_format: str | None = None, facility: int = 19) -> bytes:
    """What is sent with a target of facility local3 and the level `debug`."""
    parsed = parse(message)
    known = facility if parsed.facility < 0 else parsed.facility
    chosen = log_format or natural_format(parsed)
    return head(parsed, chosen, max(parsed.level, 0), known, NOW) + parsed.text


KEPT = [
    b"<134>Nov  3 01:02:03 host tag[12]: hello world",
    b"<134>Nov 13 01:02:03 host tag: hello",
    b"<11>Nov 13 01:02:03 host hello there",
    b"<11>Nov 13 01:02:03 host",
    b'<134>1 2020-03-04T05:06:07.123456Z host app 77 ID1 [a b="c"][d e="f"] the text',
    b"<134>1 - h - - - - text",
    b"<134>1 bad format here",
    b"<134>plain text",
    b"no priority",
    b"<13>",
    b"<1",
    b"<x>a",
    b'<134>1 2020-03-04T05:06:07Z h a p i [x y="\\]"] z',
    b"<134>1 2020-12-14T05:06:07.5-02:30 h a p i - ",
    b"<7>Jan  1 00:00:00 127.0.0.1:99 [x] y",
]


@pytest.mark.parametrize("message", KEPT)
def test_without_a_format_a_message_stays_what_it_is(message: bytes) -> None:
    assert forwarded(message) == message


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"<>x", b"<0>x"),
        # nothing but a date: no head that says who sent it
        (b"<134>1 2020-03-04T05:06:07+02:00 - - - - - text", b"<134>text"),
        (b"<13>Dec 31 01:02:03 h : x", b"<13>Dec 31 01:02:03 h x"),
    ],
)
def test_what_says_nothing_is_left_out(message: bytes, expected: bytes) -> None:
    assert forwarded(message) == expected


@pytest.mark.parametrize(
    ("log_format", "expected"),
    [
        ("rfc3164", b"<134>Nov  3 01:02:03 host tag[12]: hello"),
        ("local", b"<134>Nov  3 01:02:03 tag[12]: hello"),
        ("rfc5424", b"<134>1 2026-11-03T01:02:03-00:00 host tag 12 - - hello"),
        ("timed", b"<6>2026-11-03T01:02:03-00:00 hello"),
        ("iso", b"2026-11-03T01:02:03-00:00 hello"),
        ("short", b"<6>hello"),
        ("priority", b"<134>hello"),
        ("raw", b"hello"),
    ],
)
def test_formats_of_an_old_head(log_format: str, expected: bytes) -> None:
    assert forwarded(b"<134>Nov  3 01:02:03 host tag[12]: hello", log_format) == expected


@pytest.mark.parametrize(
    ("log_format", "expected"),
    [
        ("rfc3164", b"<134>Mar  4 05:06:07 host app[77]: text"),
        ("local", b"<134>Mar  4 05:06:07 app[77]: text"),
        ("rfc5424", b"<134>1 2020-03-04T05:06:07.5Z host app 77 ID1 [a] text"),
        ("iso", b"2020-03-04T05:06:07.5Z text"),
        ("priority", b"<134>text"),
    ],
)
def test_formats_of_a_new_head(log_format: str, expected: bytes) -> None:
    message = b"<134>1 2020-03-04T05:06:07.5Z host app 77 ID1 [a] text"
    assert forwarded(message, log_format) == expected


def test_what_a_format_lacks_is_made_up() -> None:
    assert forwarded(b"text", "rfc3164") == b"<152>Nov 30 04:05:06 localhost text"
    expected = b"<152>1 2026-11-30T04:05:06.000789+00:00 - - - - - text"
    assert forwarded(b"text", "rfc5424") == expected


def test_a_date_to_come_was_last_year() -> None:
    message = b"<134>Dec 31 23:59:59 h t: x"
    assert forwarded(message, "iso") == b"2025-12-31T23:59:59-00:00 x"


def cut(data: bytes, step: int) -> list[bytes]:
    frames = Frames()
    found: list[bytes] = []
    for start in range(0, len(data), step):
        found += frames.feed(data[start : start + step])
    return found


@pytest.mark.parametrize("step", [1, 2, 7, 1000])
def test_both_framings_in_any_pieces(step: int) -> None:
    data = b"<1>one\n5 two\nx<2>three\r\n12 <3>a b\nc \xffd\n<4>\n1 5<6"
    first, second = [b"<1>one", b"two\nx", b"<2>three"], [b"<3>a b\nc \xffd\n", b"<4>", b"5"]
    assert cut(data, step) == first + second


@pytest.mark.parametrize("data", [b"x", b"0 a", b"12a ", b"1234567890", b"99999999 ", b" <1>a\n"])
@pytest.mark.parametrize("step", [1, 1000])
def test_nonsense_is_told_after_what_came_before(data: bytes, step: int) -> None:
    frames = Frames()
    found: list[bytes] = []
    stream = b"<1>ok\n" + data

    def feed() -> None:
        for start in range(0, len(stream), step):
            piece = frames.feed(stream[start : start + step])
            while (message := next(piece, None)) is not None:
                found.append(message)

    with pytest.raises(BadFrame):
        feed()
    assert found == [b"<1>ok"]


def test_a_line_without_an_end_is_not_kept_for_ever() -> None:
    frames = Frames()
    for _ in range(MOST // 1000):
        assert not list(frames.feed(b"<" + b"x" * 999))
    with pytest.raises(BadFrame):
        list(frames.feed(b"x" * 2000))
