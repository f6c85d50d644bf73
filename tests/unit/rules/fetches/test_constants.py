"""Fetches that need no stream, and those of the process."""

from __future__ import annotations

import os
import time
import uuid
from types import SimpleNamespace

import pytest

from mtproxy.base.errors import ConfigError
from mtproxy.base.location import Location
from mtproxy.base.ruleset import Rule
from mtproxy.rules.types import Binary, Ip4, Ip6, Type
from mtproxy.testing.samples import Samples


@pytest.fixture
def samples() -> Samples:
    samples = Samples()
    samples.build.ctx = SimpleNamespace(tid=3, pool=SimpleNamespace(nbthread=4))
    samples.view.ctx = SimpleNamespace(pool=SimpleNamespace(leaving=False))
    samples.view.room = SimpleNamespace(mode="http")
    samples.view.task = SimpleNamespace(calls=5)
    samples.view.fe = SimpleNamespace(settings=SimpleNamespace(mode="http"))
    return samples


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("always_true", True),
        ("always_false", False),
        ("bool(TRUE)", True),
        ("bool(0)", False),
        ("int(-5)", -5),
        ("str(a b)", b"a b"),
        ("str()", b""),
        ("bin(00fF)", Binary(b"\0\xff")),
        ("ipv4(1.2.3.4)", Ip4(0x01020304)),
        ("ipv6(::1)", Ip6(1)),
        ("meth(GET)", b"GET"),
        ("proc", 1),
        ("nbproc", 1),
        ("rand(1)", 0),
        ("rand(0)", 0),
        ("thread", 3),
        ("nbthread", 4),
        ("stopping", False),
        ("cpu_calls", 5),
        ("lat_ns_avg", 0),
        ("prio_class", 0),
        ("internal.strm.is_htx", True),
        ("last_rule_file", None),
        ("last_rule_line", None),
        ("env(NOT_SET_ANYWHERE)", None),
    ],
)
def test_values(text: str, value: object, samples: Samples) -> None:
    reader = samples.reader(text)
    reader.words = (text,)
    samples.reader = lambda _text: reader  # type: ignore[method-assign]
    got = samples.value(text)
    assert (got, type(got)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bool(maybe)", "Expects 'true', 'false', '0' or '1'."),
        ("bin(616)", "even number of hex digit"),
        ("bin(xy)", "even number of hex digit"),
        ("bin()", "even number of hex digit"),
        ("date(1,d)", "expects 's', 'ms' or 'us', got 'd'."),
        ("uuid(3)", "Unsupported UUID version: '3'"),
        ("int(x)", "int"),
        ("ipv4(1.2.3)", "IPv4 address"),
        ("ipv6(1.2.3.4)", "IPv6 address"),
        ("internal.htx.data", "not supported by mtproxy"),
    ],
)
def test_arguments_are_checked_at_load(text: str, message: str, samples: Samples) -> None:
    with pytest.raises(ConfigError) as error:
        samples.value(text)
    assert message in str(error.value)


def test_the_date(samples: Samples) -> None:
    before = time.time_ns() // 1000
    values = [samples.value(f"date{args}") for args in ("(0,us)", "(0,ms)", "(0,s)", "")]
    part = samples.value("date_us")
    after = time.time_ns() // 1000
    for value, unit in zip(values, (1, 1000, 1_000_000, 1_000_000), strict=True):
        assert before // unit <= value <= after // unit  # type: ignore[operator]
    assert 0 <= part < 1_000_000  # type: ignore[operator]
    assert samples.value("date(-3600)") <= after // 1_000_000 - 3600  # type: ignore[operator]


def test_chance(samples: Samples) -> None:
    values = {samples.value("rand(3)") for _ in range(200)}
    assert values == {0, 1, 2}
    assert all(0 <= samples.value("rand") < 1 << 32 for _ in range(50))  # type: ignore[operator]
    assert samples.value("rand(-5)") in range(2**32 - 5, 2**32)
    assert len({samples.value("rand") for _ in range(50)}) > 40


def test_a_uuid_is_a_random_one_and_new_each_time(samples: Samples) -> None:
    texts = {samples.value("uuid(4)") for _ in range(10)}
    assert len(texts) == 10
    assert {uuid.UUID(text.decode()).version for text in texts} == {4}  # type: ignore[union-attr]


def test_the_environment(samples: Samples, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_NAME", "h\u00e9")
    assert samples.value("env(SOME_NAME)") == "h\u00e9".encode()


def test_the_last_rule(samples: Samples) -> None:
    rule = Rule("deny", location=Location("a.cfg", 12))
    samples.view.txn.rule = SimpleNamespace(rule=rule)
    assert samples.value("last_rule_file") == b"a.cfg"
    assert samples.value("last_rule_line") == 12


def test_types_of_constants_are_known_at_load(samples: Samples) -> None:
    from mtproxy.rules.expression import parse_expression

    for text, kind in (("bool(1)", Type.BOOL), ("bin(00)", Type.BIN), ("meth(GET)", Type.METH)):
        assert parse_expression(samples.reader(text)).type == kind


def test_the_process_and_its_machine(samples: Samples) -> None:
    assert samples.value("pid") == os.getpid()
    assert samples.value("hostname") == os.uname().nodename.encode()
