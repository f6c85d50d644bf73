"""rules.converters.http: parameters and the header Forwarded, which HAProxy 2.6 has not."""

from __future__ import annotations

import pytest

from mtproxy.rules.converters.http import forwarded
from mtproxy.testing.expressions import Evaluator


@pytest.fixture(scope="module")
def evaluator() -> Evaluator:
    return Evaluator()


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("str(a=b&c=d&a=r),param(a)", "str 'b'"),
        ("str(a&b=c),param(a)", "str ''"),
        ("str(a=&b&c=a),param(b)", "str ''"),
        ("str(a=1;b=2;c=4),param(b,;)", "str '2'"),
        ("str(a=1&ab=2),param(b)", "none"),
        ("str(a=1=2),param(a)", "str '1=2'"),
        ("str(),param(a)", "none"),
        ("str(a),param()", "error"),
        ("str(a),param(a,;;)", "error"),
    ],
)
def test_param(text: str, outcome: str, evaluator: Evaluator) -> None:
    assert evaluator.outcome(text) == outcome


GOOD = {
    "for=192.0.2.43": {"for": "192.0.2.43"},
    'for="[2001:db8::1]"': {"for": "[2001:db8::1]"},
    'for="[2001:db8::1]:4711"': {"for": "[2001:db8::1]:4711"},
    'for="192.0.2.43:80";by=_hidden': {"for": "192.0.2.43:80", "by": "_hidden"},
    'for="_a.b-c:_d"': {"for": "_a.b-c:_d"},
    "for=unknown;proto=https": {"for": "unknown", "proto": "https"},
    "proto=http;host=example.com;by=10.0.0.1;for=1.2.3.4": {
        "proto": "http",
        "host": "example.com",
        "by": "10.0.0.1",
        "for": "1.2.3.4",
    },
    'host="example.com:8080"': {"host": "example.com:8080"},
    'host="[::1]:80"': {"host": "[::1]:80"},
}
BAD = (
    "",
    "for=192.0.2.43:80",
    "for=[::1]",
    "for=1.2.3",
    'for="1.2.3.4:0"',
    'for="1.2.3.4:65536"',
    'for="[::1"',
    'for="1.2.3.4',
    "for=_",
    "for=unknow",
    "for=1.2.3.4;for=1.2.3.5",
    "for=1.2.3.4, for=1.2.3.5",
    "for=1.2.3.4 ;proto=http",
    "proto=ftp",
    "host=example.com:80",
    "secret=1",
    "for",
    "For=1.2.3.4",
)


@pytest.mark.parametrize("text", GOOD)
def test_a_good_value_of_forwarded(text: str) -> None:
    expected = {name.encode(): value.encode() for name, value in GOOD[text].items()}
    assert forwarded(text.encode()) == expected


@pytest.mark.parametrize("text", BAD)
def test_a_bad_value_of_forwarded(text: str) -> None:
    assert forwarded(text.encode()) is None


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("'for=\"[::1]:80\";proto=https'),rfc7239_is_valid", "bool 1"),
        ("'for=\"[::1]\"x'),rfc7239_is_valid", "bool 0"),
        ("'for=\"[::1]:80\";proto=https'),rfc7239_field(proto)", "str 'https'"),
        ("'for=\"[::1]:80\";proto=https'),rfc7239_field(for)", "str '[::1]:80'"),
        ("'for=\"[::1]:80\";proto=https'),rfc7239_field(by)", "none"),
        ("'for=1.2.3.4'),rfc7239_field(nosuch)", "error"),
        ("'[::1]:80'),rfc7239_n2nn", "ipv6 ::1"),
        ("'[::1]:80'),rfc7239_n2np", "sint 80"),
        ("'1.2.3.4'),rfc7239_n2nn", "ipv4 1.2.3.4"),
        ("'1.2.3.4'),rfc7239_n2np", "none"),
        ("'unknown:_port'),rfc7239_n2nn", "str 'unknown'"),
        ("'unknown:_port'),rfc7239_n2np", "str '_port'"),
        ("'_name'),rfc7239_n2nn", "str '_name'"),
        ("'1.2.3'),rfc7239_n2nn", "none"),
        ("''),rfc7239_n2nn", "none"),
    ],
)
def test_rfc7239(text: str, outcome: str, evaluator: Evaluator) -> None:
    assert evaluator.outcome(f"str({text}") == outcome
