"""Texts with expressions in rules, against what HAProxy 2.6.12 made of the same."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from mtproxy.base.errors import ConfigError
from mtproxy.base.location import Location
from mtproxy.base.settings import GlobalSettings, ProxySettings, Settings
from mtproxy.rules import lookup, points
from mtproxy.rules.build import Build, RuleShared
from mtproxy.rules.logformat import strings
from mtproxy.rules.logformat.grammar import expression_end
from mtproxy.rules.reader import RuleReader
from mtproxy.testing.logrecord import FakeRecord


def reader(mode: str = "http", warnings: list[str] | None = None) -> RuleReader:
    warn = (lambda _message: None) if warnings is None else warnings.append
    return RuleReader(
        (), Location("t.cfg", 1), points.HTTP_REQUEST, mode=mode, title="test", warn=warn
    )


def build() -> Build:
    settings = Settings(global_=GlobalSettings(), proxies=())
    proxy = ProxySettings(name="fe", id=1, kind="frontend", mode="http")
    return Build(RuleShared(settings), proxy, SimpleNamespace(tid=1), None)


def made(text: str, view: Any = None, **how: Any) -> bytes:
    fmt = strings.parse_format(reader(), text, points.HTTP_REQUEST, **how)
    if view is None:
        view = FakeRecord()
        view.room = SimpleNamespace(keeper=None)
    return strings.build_format(fmt, build())(view)


def test_text_alone_is_constant():
    fmt = strings.parse_format(reader(), "a  b%% é\udc80", points.HTTP_REQUEST)
    assert fmt.constant == b"a  b% \xc3\xa9\x80"
    assert made("a  b%% é\udc80") == fmt.constant


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%[str(a)]", b"a"),
        ("<%[str(a)]>", b"<a>"),
        ("%[str(a)]%%%[str(b)]", b"a%b"),
        ("%[str(a)],%[str(b)];%[int(3)]", b"a,b;3"),
        ("%[str(a]b)]", b"a]b"),
        ("%[str(']')]", b"]"),
        ('%[str("a]b)")]x', b"a]b)x"),
        (r"%[str('a)b')]", b"a)b"),
        ("  two  %[str(x)]  ", b"  two  x  "),
        ("%b/%s|%{+Q}f|%{+Q}r", b'be/s1|"fe"|"GET /slow?x=1 HTTP/1.1"'),
        ("%ID|%CC|%{+M}CC|%{+Q}CC", b'||-|""'),
        ("  %b  %[str(x)]", b"  be  x"),
        ('%"-%]', b'"-]'),
        ("%(name)b %(other:str)[str(v)]", b"be v"),
        ("é%b\udc80", b"\xc3\xa9be\x80"),
    ],
)
def test_texts(text: str, expected: bytes):
    assert made(text) == expected


ODD = "%[str('a\\x01')]"


@pytest.mark.parametrize(
    ("flags", "how", "expected"),
    [
        ("", strings.HEADER, b'x"]\\%0A\t%7F'),
        ("{+E}", strings.HEADER, b'x\\"\\]\\\\%0A\t%7F'),
        ("{+Q}", strings.HEADER, b'x"]\\%0A\t%7F'),
        ("", strings.PLAIN, b'x"]\\\n\t\x7f'),
        ("{+Q}", strings.PLAIN, b'"x"]\\\n\t\x7f"'),
        ("{+Q,+E}", strings.PLAIN, b'"x\\"\\]\\\\\n\t\x7f"'),
    ],
)
def test_flags_and_control_characters(flags: str, how: Any, expected: bytes):
    assert made(f"%{flags}[str('x\"]\\\n\t\x7f')]", flags=how) == expected


@pytest.mark.parametrize(
    ("flags", "how", "expected"),
    [
        ("", strings.HEADER, b""),
        ("{+Q}", strings.HEADER, b""),
        ("", strings.PLAIN, b""),
        ("{+Q}", strings.PLAIN, b'""'),
        ("", strings.LINE, b"-"),
        ("{+Q}", strings.LINE, b'""'),
        ("{-M}", strings.LINE, b""),
    ],
)
def test_a_missing_sample(flags: str, how: Any, expected: bytes):
    assert made(f"%{flags}[str()]", flags=how) == expected


def test_merged_spaces():
    assert made("a   %[str(b)]  %ID  c", merge=True) == b"a b  c"


@pytest.mark.parametrize(
    ("text", "message", "offset"),
    [
        ("ab %[nope]", "unknown fetch method 'nope'", 5),
        ("ab %[str(a),nope]", "unknown converter 'nope'", 12),
        ("ab %[str(a)", "missing ']' after 'str(a)'", 3),
        ("ab %[hdr(host]", "missing closing ')' after 'hdr(' in 'hdr(host]'", 3),
        ("ab %[str(a),concat('b)]", "missing closing quote after 'concat('", 3),
        ("ab %ss", "no such format variable 'ss'", 3),
        ("ab %[bytes_out]", "unknown fetch method", 5),
    ],
)
def test_errors_tell_their_place(text: str, message: str, offset: int):
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        strings.parse_format(reader(), text, points.HTTP_REQUEST)
    assert caught.value.word == text
    assert caught.value.offset == offset


def test_the_nearest_alias_is_suggested():
    with pytest.raises(ConfigError) as caught:
        strings.parse_format(reader(), "%ssslc", points.HTTP_REQUEST)
    assert caught.value.suggestion == "sslc"


def test_http_aliases_need_http():
    with pytest.raises(ConfigError, match="'HM' is reserved for HTTP mode"):
        strings.parse_format(reader("tcp"), "%HM", points.TCP_CONTENT)


def test_what_haproxy_takes_silently_is_warned_about():
    warnings: list[str] = []
    strings.parse_format(reader(warnings=warnings), '%{+Z}b %{Q}b %"x', points.HTTP_REQUEST)
    assert [w.split(":")[1].split(" is ")[0] for w in warnings[:2]] == [
        " unknown flag '+Z'",
        " unknown flag 'Q'",
    ]
    assert "begins no variable" in warnings[2]


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("src]", 3),
        ("src,lower]", 9),
        ("a(b]c),d]", 8),
        ("a(']'),d(\")\")]", 13),
        ("a b]", 1),
        ("base32+src]", 10),
        ("url32+src,x.y_z-w:1]", 19),
        ("", 0),
    ],
)
def test_the_end_of_an_expression(text: str, end: int):
    assert expression_end(text, 0) == end


def test_a_line_has_one_number():
    format_of = strings.build_format(
        strings.parse_format(reader(), "%lc %lc %{+X}lc log_number", points.HTTP_REQUEST),
        build(),
    )
    assert [format_of(FakeRecord()) for _ in range(2)] == [
        b"0 0 0000 log_number",
        b"1 1 0001 log_number",
    ]


@pytest.mark.parametrize("name", sorted({*lookup.fetches(), *lookup.converters()}))
def test_every_name_may_stand_between_brackets(name: str):
    assert expression_end(name + "]", 0) == len(name)
