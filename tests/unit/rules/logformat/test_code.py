"""Formats against lines that HAProxy 2.6.12 wrote for the same values."""

from __future__ import annotations

import itertools
import re
import time

import pytest

from mtproxy.rules.logformat import code
from mtproxy.rules.logformat.code import FormatContext, compile_format
from mtproxy.rules.logformat.dates import LineDates
from mtproxy.rules.logformat.grammar import FormatError
from mtproxy.rules.logformat.record import LogRecord
from mtproxy.testing.logrecord import BADREQ, FakeRecord

pytestmark = pytest.mark.usefixtures("utc")


def line(text: str, *, context: FormatContext | None = None, captures=False, http=True, **changes):
    formatter = compile_format(text, context=context, captures=captures, http=http)
    return formatter(FakeRecord(**changes))


# --- the three named formats


def test_httplog():
    assert line(code.HTTPLOG) == (
        "127.0.0.1:44768 [30/Nov/2026:13:57:10.424] fe be/s1 0/0/0/53/53 200 127 - - ---- "
        '1/1/0/0/0 0/0 "GET /slow?x=1 HTTP/1.1"'
    )


def test_httplog_of_a_bad_request():
    assert line(code.HTTPLOG, **BADREQ) == (
        "127.0.0.1:44768 [30/Nov/2026:13:57:10.424] fe fe/<NOSRV> -1/-1/-1/-1/0 400 0 - - PR-- "
        '1/1/0/0/0 0/0 "<BADREQ>"'
    )


def test_httplog_with_captures_and_redispatch():
    got = line(
        code.HTTPLOG,
        captures=True,
        captured_request_headers=(b"h", b'a"b{c|d}#e\\f]g\xc3\xa9\x80h', None),
        captured_response_headers=(b"12",),
        retries=3,
        redispatched=True,
        request_cookie=b'C=12"3',
    )
    assert got == (
        '127.0.0.1:44768 [30/Nov/2026:13:57:10.424] fe be/s1 0/0/0/53/53 200 127 C=12"3 - ---- '
        "1/1/0/0/+3 0/0 {h|a#22b#7Bc#7Cd#7D#23e\\f]g#C3#A9#80h|} {12} "
        '"GET /slow?x=1 HTTP/1.1"'
    )


def test_captures_that_came_out_empty_leave_one_space():
    got = line(code.HTTPLOG, captures=True, **BADREQ)
    assert '0/0 "<BADREQ>"' in got


def test_httplog_logasap_marks_what_will_grow():
    formatter = compile_format(code.HTTPLOG, logasap=True)
    assert " 0/0/0/53/+53 200 +127 " in formatter(FakeRecord())


def test_clf():
    assert line(code.CLFLOG) == (
        '127.0.0.1 - - [30/Nov/2026:13:57:10 +0000] "GET /slow?x=1 HTTP/1.1" 200 127 "" "" 44768 '
        '424 "fe" "be" "s1" 0 0 0 53 53 ---- 1 1 0 0 0 0 0 "" "" '
    )


def test_clf_with_captures():
    got = line(
        code.CLFLOG,
        captures=True,
        captured_request_headers=(b"127.0.0.1:8115",),
        captured_response_headers=(None,),
    )
    assert got.endswith(' 0 0 "" "" "127.0.0.1:8115" ""')


def test_tcplog():
    assert line(code.TCPLOG, http=False, term_state="--", t_w=1, t_t=1) == (
        "127.0.0.1:44768 [30/Nov/2026:13:57:10.424] fe be/s1 1/0/1 127 -- 1/1/0/0/0 0/0"
    )


def test_default_formats():
    assert line(code.DEFAULTLOG_HTTP) == (
        "Connect from 127.0.0.1:44768 to 127.0.0.1:8101 (fe/HTTP)"
    )
    assert line(code.DEFAULTLOG_TCP, http=False).endswith("(fe/TCP)")


# --- every variable (captured with a format of "name=%name" pairs)

ALL = {
    "B": "127",
    "CC": "-",
    "CS": "-",
    "H": "vm",
    "HM": "GET",
    "HP": "/slow",
    "HPO": "/slow",
    "HQ": "?x=1",
    "HU": "/slow?x=1",
    "HV": "HTTP/1.1",
    "ID": "-",
    "ST": "200",
    "T": "30/Nov/2026:13:57:10 +0000",
    "Ta": "53",
    "Tc": "0",
    "Td": "0",
    "Th": "0",
    "Ti": "0",
    "Tl": "30/Nov/2026:13:57:10 +0000",
    "Tq": "0",
    "TR": "0",
    "Tr": "53",
    "Ts": "1796047030",
    "Tt": "53",
    "Tu": "53",
    "Tw": "0",
    "U": "87",
    "ac": "1",
    "b": "be",
    "bc": "0",
    "bi": "127.0.0.1",
    "bp": "57848",
    "bq": "0",
    "ci": "127.0.0.1",
    "cp": "44768",
    "f": "fe",
    "fc": "1",
    "fi": "127.0.0.1",
    "fp": "8101",
    "ft": "fe",
    "hr": "",
    "hrl": "",
    "hs": "",
    "hsl": "",
    "lc": "0",
    "ms": "424",
    "pid": "15450",
    "r": "GET /slow?x=1 HTTP/1.1",
    "rc": "0",
    "rt": "5",
    "s": "s1",
    "sc": "0",
    "si": "127.0.0.1",
    "sp": "8191",
    "sq": "0",
    "sslc": "-",
    "sslv": "-",
    "t": "30/Nov/2026:13:57:10.424",
    "tr": "30/Nov/2026:13:57:10.424",
    "trg": "30/Nov/2026:13:57:10 +0000",
    "trl": "30/Nov/2026:13:57:10 +0000",
    "ts": "--",
    "tsc": "----",
}


def context() -> FormatContext:
    return FormatContext(LineDates(), pid=15450, hostname="vm")


def test_the_table_of_expectations_is_complete():
    assert ALL.keys() == code.ALIASES.keys()


@pytest.mark.parametrize("name", ALL)
def test_each_variable(name: str):
    assert line(f"<%{name}>", context=context()) == f"<{ALL[name]}>"


@pytest.mark.parametrize("name", ALL)
def test_each_variable_of_a_bad_request_is_written(name: str):
    assert line(f"<%{name}>", context=context(), captures=True, **BADREQ)


@pytest.mark.parametrize("name", ["HM", "HP", "HPO", "HQ", "HU", "HV", "r"])
def test_parts_of_a_bad_request(name: str):
    assert line(f"%{name}", **BADREQ) == "<BADREQ>"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bi", "-"),
        ("bp", "-"),
        ("si", "-"),
        ("sp", "-"),
        ("Td", "-1"),
        ("Tq", "-1"),
        ("ts", "PR"),
        ("tsc", "PR--"),
    ],
)
def test_what_was_never_reached(name: str, expected: str):
    assert line(f"%{name}", **BADREQ) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("B", "127"),
        ("CC", '""'),
        ("H", '"vm"'),
        ("HQ", '"?x=1"'),
        ("ID", '""'),
        ("T", "30/Nov/2026:13:57:10 +0000"),
        ("b", '"be"'),
        ("bi", '"127.0.0.1"'),
        ("bp", "57848"),
        ("ms", "424"),
        ("r", '"GET /slow?x=1 HTTP/1.1"'),
        ("sslv", '""'),
        ("ts", "--"),
    ],
)
def test_flag_q_quotes_strings_only(name: str, expected: str):
    assert line("%{+Q}" + name, context=context()) == expected


def test_flag_q_on_missing_addresses():
    assert line("%{+Q}o bi=%bi bp=%bp si=%si sp=%sp", **BADREQ) == 'bi="" bp="" si="" sp=""'


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ci", "7F000001"),
        ("cp", "AEE0"),
        ("fi", "7F000001"),
        ("fp", "1FA5"),
        ("ms", "1A8"),
        ("pid", "3C5A"),
        ("rt", "0005"),
        ("lc", "0000"),
        ("Ts", "6B0D80B6"),
        ("si", "7F000001"),
        ("sp", "1FFF"),
        ("ST", "200"),
        ("ac", "1"),
    ],
)
def test_flag_x(name: str, expected: str):
    assert line("%{+X}" + name, context=context()) == expected


def test_flag_x_with_ipv6_and_unix():
    assert line("%{+X}ci", client_ip="::1") == "00000000000000000000000000000001"
    assert line("%{+X}ci", client_ip="unix") == "unix"


def test_flag_e_and_the_encoding_of_the_request_line():
    request = b'GET /a"b#c{d}|e\\f]?q=1 HTTP/1.1'
    assert line("%r", request_line=request) == "GET /a#22b#23c{d}|e\\f]?q=1 HTTP/1.1"
    escaped = "GET /a#22b#23c{d}|e\\\\f\\]?q=1 HTTP/1.1"
    assert line("%{+E}r", request_line=request) == escaped
    assert line("%{+E,+Q}r", request_line=request) == f'"{escaped}"'


def test_header_lists():
    changes = {"captured_request_headers": (b"127.0.0.1:8114", b"curl/7.88.1", None)}
    assert line("%hrl", captures=True, **changes) == "127.0.0.1:8114 curl/7.88.1 -"
    assert line("%{+Q}hrl", captures=True, **changes) == '"127.0.0.1:8114" "curl/7.88.1" ""'
    assert line("%{+Q}hr", captures=True, **changes) == '"{127.0.0.1:8114|curl/7.88.1|}"'


def test_flags_of_o_hold_for_the_rest():
    assert line("%{+Q}o b=%b %{-Q}s %{+X}cp x=%b") == 'b="be" s1 AEE0 x="be"'


def test_flags_without_o_hold_for_one_variable():
    assert line("%{+Q}b %b") == '"be" be'


# --- spaces


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  a   b ", "a b "),
        ("two   %hs%hs sp", "two sp"),
        ("x%hr %hs y", "x y"),
        ("hr=%hr hrl=%hrl", "hr= hrl="),
        ("%hr %b", "be"),
        ("%b %hr", "be "),
        ("%hr", ""),
        ("a%%b", "a%b"),
        ('[%b] {%s} "', '[be] {s1} "'),
    ],
)
def test_spaces(text: str, expected: str):
    assert line(text) == expected
    assert line(text, captures=True) == expected


def test_spaces_with_captures():
    changes = {"captured_response_headers": (b"12",)}
    assert line("two   %hs%hs sp", captures=True, **changes) == "two {12}{12} sp"
    assert line("a %hr %hs %b", captures=True, **changes) == "a {12} be"


def test_an_empty_query_keeps_both_spaces():
    assert line("a %HQ %b", request_line=b"GET / HTTP/1.1") == "a  be"
    assert line("a %{+Q}HQ %b", request_line=b"GET / HTTP/1.1") == 'a "" be'


# --- the rest


def test_request_line_is_cut_at_the_uri_length():
    context = FormatContext(LineDates(), uri_length=40)
    request = b"GET /" + b"a" * 60 + b"?q=1 HTTP/1.1"
    assert line("%r|%HP", request_line=request, context=context) == (
        "GET /" + "a" * 34 + "|/" + "a" * 34
    )


def test_absolute_form():
    request = b"GET http://foo.bar/p/q?x=y HTTP/1.0"
    got = line("%HM %HP %HPO %HQ %HU %HV", request_line=request)
    assert got == "GET http://foo.bar/p/q /p/q ?x=y http://foo.bar/p/q?x=y HTTP/1.0"


def test_request_date_is_that_of_the_first_byte():
    got = line("%t %tr", t_h=1, t_i=2_000)
    assert got == "30/Nov/2026:13:57:10.424 30/Nov/2026:13:57:12.425"


def test_tls_marks_the_frontend():
    assert line("%ft %sslv", tls_version="TLSv1.3") == "fe~ TLSv1.3"


def test_local_time_zone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "IST-5:30")
    time.tzset()
    assert line("%t %T %Tl") == (
        "30/Nov/2026:19:27:10.424 30/Nov/2026:13:57:10 +0000 30/Nov/2026:19:27:10 +0530"
    )


def test_log_counter_may_be_shared():
    counter = itertools.count(7).__next__
    one = compile_format("%lc", context=FormatContext(LineDates(), next_log_number=counter))
    two = compile_format("%lc", context=FormatContext(LineDates(), next_log_number=counter))
    record = FakeRecord()
    assert [one(record), two(record), one(record)] == ["7", "8", "9"]


def test_literal_text_that_looks_like_python():
    text = "{r.status} \\n \\ \" ' {{}} é"
    assert line(text) == text


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("a %zz b", 2, "no such format variable 'zz'"),
        ("%", 0, "truncated line after '%'"),
        ("a %b2", 2, "no such format variable 'b2'"),
        ("a %[src]", 2, "not available"),
        ("a %[src", 2, "missing ']' after 'src'"),
        ("a %[src ]", 2, "expected ']' after 'src', but found ' '"),
        ("%{+Q}", 0, "without variable name"),
        ("%{+Q}-", 0, "without variable name"),
        ("a %{+Q", 2, "truncated line after '%{+Q', missing '}'"),
        ("%1", 0, "unexpected variable name near '1'"),
        ("% b", 0, "unexpected variable name near ' '"),
        ("%(a:list)b", 0, "unexpected type 'list' of 'a'"),
    ],
)
def test_errors_say_where(text: str, position: int, message: str):
    with pytest.raises(FormatError, match=re.escape(message)) as caught:
        compile_format(text)
    assert caught.value.position == position


def test_http_variables_are_refused_in_tcp_mode():
    with pytest.raises(FormatError, match="'r' is reserved for HTTP mode"):
        compile_format("%r", http=False)
    with pytest.raises(FormatError, match="HTTP mode"):
        compile_format(code.HTTPLOG, http=False)


def test_the_fake_record_has_exactly_the_protocol_s_attributes():
    assert vars(FakeRecord()).keys() == LogRecord.__annotations__.keys()


def test_old_seconds_do_not_pile_up():
    dates = LineDates()
    for second in range(1000):
        assert dates.clf[second]
    assert len(dates.clf) <= 64
