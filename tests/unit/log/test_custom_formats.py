"""Loggers with formats of the configuration: expressions, structured data, levels set by rules."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mtproxy.base.location import Location
from mtproxy.base.log_settings import LogSettings
from mtproxy.base.ruleset import Format
from mtproxy.base.settings import GlobalSettings, ProxySettings, Settings
from mtproxy.log import targets
from mtproxy.log.logger import make_logger
from mtproxy.rules import points
from mtproxy.rules.build import Build, RuleShared
from mtproxy.rules.logformat import strings
from mtproxy.rules.reader import RuleReader
from mtproxy.rules.transaction import Transaction
from mtproxy.testing.logrecord import FakeRecord


class Memory(targets.LogTarget):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.messages: list[str] = []

    def send(self, message: bytes) -> None:
        self.messages.append(message.decode("utf-8", "surrogateescape"))

    def close(self) -> None:
        pass


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> dict[str, Memory]:
    made: dict[str, Memory] = {}

    def open_target(log: LogSettings) -> Memory:
        assert log.stdio is not None
        return made.setdefault(log.stdio, Memory(log.stdio))

    monkeypatch.setattr(targets, "open_target", open_target)
    return made


def a_log(name: str, **changes: Any) -> LogSettings:
    return LogSettings(None, stdio=name, facility="local0", **changes)


def fmt(text: str) -> Format:
    reader = RuleReader((), Location("t.cfg", 1), points.LOG, title="log-format")
    return strings.parse_format(reader, text, points.LOG, flags=strings.LINE, merge=True)


def logger_of(*logs: LogSettings, levels: bool = False, options: Any = (), **formats: str):
    settings = Settings(GlobalSettings(), ())
    proxy = ProxySettings("fe", 1, "frontend", "http")
    texts = {name.replace("_", "-"): fmt(text) for name, text in formats.items()}
    return make_logger(
        logs,
        "tag",
        7,
        None,
        log_format="custom",
        formats=texts,
        build=Build(RuleShared(settings), proxy, None, None),
        levels=levels,
        options=frozenset(options),
    )


def record(level: int | None = None, **changes: Any) -> Any:
    found = FakeRecord(**changes)
    found.txn = Transaction()
    found.txn.log_level = level
    found.txn.txn_vars = {"a": b'x"]\n'}
    return found


def test_expressions(opened):
    log = logger_of(
        a_log("a", format="raw"),
        log_format="%ST  %[var(txn.a)]  %{+Q,+E}[var(txn.a)]"
        '|%[var(txn.no)]|%{+Q}[var(txn.no)] {"%b"}',
    )
    log.log(record())
    # control characters of expressions are not encoded in lines, as in HAProxy 2.6
    assert opened["a"].messages == ['200 x"]\n "x\\"\\]\n"|-|"" {"be"}\n']


def test_structured_data_stand_in_heads_of_rfc5424_alone(opened):
    log = logger_of(
        a_log("a", format="rfc5424"),
        a_log("b", format="raw"),
        log_format="%ST",
        log_format_sd='[x@1 a="%{+E}[var(txn.a)]"  b="%b"]',
    )
    log.log(record())
    head, _, rest = opened["a"].messages[0].partition(" - tag 7 - ")
    assert head.startswith("<134>1 ")
    assert rest == '[x@1 a="x\\"\\]\n" b="be"] 200\n'
    assert opened["b"].messages == ["200\n"]


def test_without_a_format_there_are_no_structured_data(opened):
    log = logger_of(a_log("a", format="rfc5424"), log_format="%ST")
    log.log(record())
    assert opened["a"].messages[0].endswith(" tag 7 - - 200\n")


@pytest.mark.parametrize("form", ["local", "rfc5424"])
def test_a_level_that_a_rule_has_set(opened, form: str):
    log = logger_of(
        a_log("a", format=form),
        a_log("b", format=form, level="notice"),
        log_format="%ST",
        log_format_sd="[x]",
        levels=True,
    )
    for level in (None, 3, 7, -1):
        log.log(record(level))
    priorities = [message[: message.index(">") + 1] for message in opened["a"].messages]
    assert priorities == ["<134>", "<131>", "<135>"]
    assert [m[: m.index(">") + 1] for m in opened["b"].messages] == ["<131>"]
    if form == "rfc5424":
        assert all(m.endswith(" tag 7 - [x] 200\n") for m in opened["a"].messages)


def test_a_level_of_errors_is_replaced_too(opened):
    log = logger_of(
        a_log("a", format="local"),
        log_format="%ST",
        levels=True,
        options=("log-separate-errors", "dontlog-normal"),
    )
    log.log(record(6))
    log.log(record(None, status=503))
    log.log(record(6, status=503))
    assert [m[:5] for m in opened["a"].messages] == ["<131>", "<134>"]


def test_only_levels_can_make_a_line_wanted(opened):
    log = logger_of(a_log("a", level="err"), log_format="%ST", levels=True)
    log.log(record())
    log.log(record(3))
    assert len(opened["a"].messages) == 1


def test_a_unique_id_is_made_for_the_line_and_once(opened):
    made: list[int] = []

    def make_id(_view: object) -> bytes:
        made.append(1)
        return b"id%d" % len(made)

    log = logger_of(a_log("a", format="raw"), log_format="%ID %ID", unique_id_format="x")
    one = record()
    one.room = SimpleNamespace(keeper=SimpleNamespace(make_id=make_id))
    log.log(one)
    assert opened["a"].messages == ["id1 id1\n"]
