"""Runtime commands about locks, against a runtime without threads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from mtproxy.cli.commands import COMMANDS
from mtproxy.cli.runtime import CliSession, Level
from mtproxy.sync import bare, profile, reports, stats
from mtproxy.sync.labels import LABELS, LockLabel
from mtproxy.sync.locks import Lock
from mtproxy.testing.counts import zero_counts
from mtproxy.testing.runtime import make_runtime


class Cli:
    """Runs commands in one session; each thread's room has that thread's backends."""

    def __init__(self, level: Level = Level.ADMIN) -> None:
        self.runtime: Any = make_runtime()
        contexts = self.runtime.pool.contexts
        for ctx in contexts:
            sides = [p.backends[ctx.tid] for p in self.runtime.proxies if p.backends]
            ctx.room = SimpleNamespace(backends={side.name: side for side in sides})
        self.session = CliSession(self.runtime, contexts[0], COMMANDS, level)

    def __call__(self, command: str) -> str:
        """The answer without the empty line at its end."""
        answer = "".join(self.session.answer(command))
        assert "Internal error:" not in answer, answer
        return answer[:-1]


@pytest.fixture
def cli() -> Iterator[Cli]:
    for label in LABELS:
        zero_counts(label, 2)
    yield Cli()
    profile.switch_off()
    profile.reset()


def use(label: LockLabel = LockLabel.OTHER) -> None:
    lock = Lock(label)
    lock.take(0)
    lock.drop(0)


def test_blocks(cli: Cli) -> None:
    use()
    text = cli("show locks")
    assert text == reports.render_text()
    assert "Stats about Lock OTHER:\n\t write lock  : 1\n\t write unlock: 1 (0)\n" in text
    assert cli("show locks other") == text[text.index("Stats about Lock OTHER") :]
    assert cli("show locks TASK_WQ") == "Stats about Lock TASK_WQ: not used\n"


def test_other_forms(cli: Cli) -> None:
    use()
    figures = {one["label"]: one for one in json.loads(cli("show locks json"))}
    assert figures["OTHER"]["write_locks"] == 1
    assert cli("show locks prometheus").startswith("# HELP mtproxy_lock_")
    assert cli("show locks top").splitlines()[1].startswith("OTHER ")
    assert len(cli("show locks top 1").splitlines()) == 3


def test_reset(cli: Cli) -> None:
    use()
    use(LockLabel.SERVER)
    assert cli("show locks reset other") == ""
    assert cli("show locks OTHER") == "Stats about Lock OTHER: not used\n"
    assert "write lock  : 1" in cli("show locks SERVER")
    assert cli("show locks reset") == ""
    assert "write lock" not in cli("show locks")


def test_levels(cli: Cli) -> None:
    user, operator = Cli(Level.USER), Cli(Level.OPERATOR)
    assert user("show locks") == cli("show locks")
    assert user("show locks reset") == "Permission denied\n"
    assert user("show locks reset SERVER") == "Permission denied\n"
    assert operator("show locks reset") == ""
    assert operator("set profiling locks on") == "Permission denied\n"


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("show locks nope", "No such lock label 'nope'. There are SERVER, "),
        ("show locks taskwq", "No such lock label 'taskwq'. Did you mean 'TASK_WQ'? There are"),
        ("show locks SERVR", "No such lock label 'SERVR'. Did you mean 'SERVER'?"),
        ("show locks jsn", "No such lock label 'jsn'. Did you mean 'json'?"),
        ("show locks reset LBRPM", "No such lock label 'LBRPM'. Did you mean 'LBPRM'?"),
        ("show locks a b", "Expected: show locks ["),
        ("show locks json x", "Expected: show locks ["),
        ("show locks reset a b", "Expected: show locks reset"),
        ("show locks top 0", "Expected: show locks top"),
        ("show locks top x", "Expected: show locks top"),
        ("show locks top 1 2", "Expected: show locks ["),
        ("set profiling locks", "Expected: set profiling locks { on | off }"),
        ("set profiling locks auto", "Expected: set profiling locks { on | off }"),
        ("set profiling locks on off", "Expected: set profiling locks { on | off }"),
    ],
)
def test_mistakes(cli: Cli, command: str, answer: str) -> None:
    assert cli(command).startswith(answer)


def test_profiling_is_switched_and_pickers_are_made_anew(cli: Cli) -> None:
    side = cli.runtime.pool.contexts[1].room.backends["empty"]  # leastconn
    plain = side.pick
    assert cli("set profiling locks on") == ""
    assert profile.is_on()
    profiling = side.pick
    assert profiling is not plain
    assert cli("set profiling locks on") == ""
    assert side.pick is profiling
    side.pick(cli.runtime.pool.contexts[1])
    assert "hold time for write     : " in cli("show locks LBPRM")
    assert "pick:" in cli("show locks LBPRM")
    assert cli("set profiling locks off") == ""
    assert not profile.is_on()
    assert side.pick is not profiling
    assert "hold time for write     : " in cli("show locks LBPRM")
    assert cli("show locks reset LBPRM") == ""
    assert "hold time" not in cli("show locks LBPRM")


def test_without_statistics(cli: Cli) -> None:
    bare.strip()
    try:
        for command in ("show locks json", "show locks prometheus", "show locks reset"):
            assert cli(command) == reports.BUILT_OUT
        for command in ("show locks", "show locks top", "show locks SERVER"):
            assert cli(command) == reports.BUILT_OUT
        assert cli("set profiling locks on").startswith("Lock profiling cannot be switched on: ")
    finally:
        bare.restore()


def test_the_status_line() -> None:
    off = "Lock profiling                      : off           # set profiling locks {on|off}\n"
    assert profile.status_line() == off
    profile.switch_on()
    try:
        assert profile.status_line() == off.replace(": off", ": on ")
    finally:
        profile.switch_off()
        profile.reset()
    assert stats.thread_count() >= 1
