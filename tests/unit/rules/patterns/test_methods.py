"""What the text of a pattern means to each match method."""

from __future__ import annotations

import pytest

from mtproxy.rules.patterns.methods import Key, PatternError, operators, parse


@pytest.mark.parametrize(
    ("method", "text", "key"),
    [
        ("int", b"5", (5, 5)),
        ("int", b"2:4", (2, 4)),
        ("int", b"2-4", (2, 4)),
        ("int", b":4", (None, 4)),
        ("int", b"-4", (None, 4)),
        ("int", b"4:", (4, None)),
        ("int", b":-4", (None, -4)),
        ("int", b"0:9223372036854775807", (0, (1 << 63) - 1)),
        ("len", b"3:", (3, None)),
        ("len", b":-1", (None, (1 << 64) - 1)),
        ("ver", b"3.1", (3 << 16 | 1, 3 << 16 | 1)),
        ("ver", b"3", (3 << 16, 3 << 16)),
        ("ver", b"3.0-3.1", (3 << 16, 3 << 16 | 1)),
        ("ip", b"10.1.2.3", (4, 0x0A010203, 32)),
        ("ip", b"10.1.2.3/8", (4, 0x0A000000, 8)),
        ("ip", b"10.1.2.3/255.255.0.0", (4, 0x0A010000, 16)),
        ("ip", b"1.0.0.5/255.0.0.255", (0, 0x01000005, 0xFF0000FF)),
        ("ip", b"0.0.0.0/0", (4, 0, 0)),
        ("ip", b"::1", (6, 1, 128)),
        ("ip", b"2001:db8::1/32", (6, 0x20010DB8 << 96, 32)),
        ("bin", b"00fF", b"\x00\xff"),
        ("dir", b"/a/b/", b"a/b"),
        ("dom", b".example.com.", b"example.com"),
        ("str", b"Abc", b"Abc"),
        ("meth", b"GET", b"GET"),
    ],
)
def test_keys(method: str, text: bytes, key: Key) -> None:
    assert parse(method, text) == key


def test_case() -> None:
    assert parse("str", b"Abc", ignore_case=True) == b"abc"
    assert parse("meth", b"GET", ignore_case=True) == b"GET"
    assert parse("meth", b"Foo", ignore_case=True) == b"foo"


@pytest.mark.parametrize(
    ("method", "text", "message"),
    [
        ("int", b"", "'' is not a valid number range"),
        ("int", b"x", "'x' is not a number"),
        ("int", b"5:3", "'5:3' is not a valid number range"),
        ("int", b":", "':' is not a valid number range"),
        ("int", b"9223372036854775808", "'9223372036854775808' is not a number"),
        ("ver", b"3.x", "'3.x' is not a dotted number"),
        ("ip", b"999.1.1.1", "'999.1.1.1' is not a valid IPv4 or IPv6 address"),
        ("ip", b"10.0.0.0/33", "'10.0.0.0/33' is not a valid IPv4 or IPv6 address"),
        ("ip", b"::1/129", "'::1/129' is not a valid IPv4 or IPv6 address"),
        ("ip", b"localhost", "'localhost' is not a valid IPv4 or IPv6 address"),
        ("bin", b"abc", "an even number of hex digit is expected"),
        ("bin", b"abxx", "an hex digit is expected (found 'x')"),
        (
            "reg",
            b"a(b",
            "regex 'a(b' is invalid (error=missing closing parenthesis, erroffset=3)",
        ),
    ],
)
def test_refusals(method: str, text: bytes, message: str) -> None:
    with pytest.raises(PatternError) as raised:
        parse(method, text)
    assert str(raised.value) == message


def test_names_of_hosts() -> None:
    assert parse("ip", b"localhost", dns=True) == (4, 0x7F000001, 32)
    assert parse("ip", b"localhost/8", dns=True) == (4, 0x7F000000, 8)


def test_operators() -> None:
    words = ("5", "gt", "5", "le", "1.5", "ge", "7", "lt", "3", "1:2", "eq", "9")
    assert operators("int", words) == ["5", "6:", ":1", "7:", ":2", "1:2", "9"]
    assert operators("ver", ("gt", "3.1", "lt", "3")) == ["3.2:", ":2.65535"]
    assert operators("str", ("gt", "5")) == ["gt", "5"]
    with pytest.raises(PatternError, match="'x' is neither a number"):
        operators("int", ("gt", "x"))
