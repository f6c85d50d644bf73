"""Expressions of `.if` and `-cc` (manual 2.4)."""

from __future__ import annotations

import pytest

from mtproxy.base.errors import ConfigError
from mtproxy.config.conditions import MAX_DEPTH, PREDICATES, evaluate

ENVIRON = {"HOME": "/root", "EMPTY": ""}


@pytest.mark.parametrize(
    "expression",
    [
        "1",
        "-1",
        "+1",
        " 7 ",
        "18446744073709551616",
        "!0",
        "!!1",
        "! 0",
        "(1)",
        "( 1 )",
        "!(0)",
        "1 && 1",
        "1&&!0",
        "0 || 1",
        "1 || 0 && 0",
        "(1 || 0) && 1",
        "defined(HOME)",
        "defined(EMPTY)",
        "!defined(NONE)",
        "feature(THREAD)",
        "!feature(OPENSSL)",
        "!feature()",
        "streq(a,a)",
        "streq(,)",
        "streq(a b,'a b')",
        r"streq(a\"b,'a" + '"b' + "')",
        'streq("a b",a b)',
        'streq("a,b","a,b")',
        r"streq(a\\b,'a\b')",
        r"strneq(a\nb,'a\nb')",
        "strneq(a,b)",
        "strstr(abc,b)",
        "version_atleast(2.4)",
        "version_atleast(2.6-dev3)",
        "version_before(3.5-dev4)",
        "version_before(v3.5-dev3)",
        "enabled(SPLICE)",
        "!enabled(FAST-FORWARD)",
        "!ssllib_name_startswith(AWS-LC)",
        "!openssl_version_atleast(1.1.1) && !openssl_version_before(3)",
        "!fips_mode() && !fips_mode",
    ],
)
def test_true(expression: str) -> None:
    assert evaluate(expression, ENVIRON)


@pytest.mark.parametrize(
    "expression", ["", "  ", "0", "00", "!1", "1 && 0", "0 || 0", "defined()", "streq(a,b)"]
)
def test_false(expression: str) -> None:
    assert not evaluate(expression, ENVIRON)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("foo", "unknown predicate 'foo' at position 1"),
        ("1 2", "unexpected character '2' at position 3"),
        ("1a", "unexpected character 'a' at position 2"),
        ("1 &&", "an integer or a predicate is expected at position 5"),
        ("|| 1", "an integer or a predicate is expected"),
        ("!", "an integer or a predicate is expected"),
        ("((1)", "missing closing parenthesis"),
        ("defined(HOME", "missing closing parenthesis"),
        ("defined('HOME)", "unmatched quote"),
        ("defined (HOME)", "'defined' expects 1 argument "),
        ("streq(a)", "'streq' expects 2 arguments"),
        ("streq(a,b,c)", "'streq' expects 2 arguments"),
        ("streq", "'streq' expects 2 arguments"),
        ("version_atleast(abc)", "'abc' is not a version"),
        ("1 && foo", "unknown predicate"),
        ("0 && foo", "unknown predicate"),
    ],
)
def test_faults(expression: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        evaluate(expression, ENVIRON)


def test_the_nearest_predicate_is_suggested() -> None:
    with pytest.raises(ConfigError) as caught:
        evaluate("version_atlest(2.4)", ENVIRON)
    assert caught.value.suggestion == "version_atleast"


def test_deep_nesting_is_refused_not_followed() -> None:
    depth = MAX_DEPTH
    assert evaluate("(" * depth + "1" + ")" * depth, ENVIRON)
    with pytest.raises(ConfigError, match="too many nested parentheses"):
        evaluate("(" * 100_000, ENVIRON)


def test_many_negations_are_counted_not_recursed() -> None:
    assert evaluate("!" * 100_000 + "1", ENVIRON)


def test_every_predicate_takes_its_arguments() -> None:
    for name, (count, _) in PREDICATES.items():
        evaluate(f"{name}({','.join(['2.6'] * count)})", ENVIRON)
