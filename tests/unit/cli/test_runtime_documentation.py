"""docs/runtime.md says what the table of commands says, and its examples are commands."""

from __future__ import annotations

import contextlib
import itertools
import re
from pathlib import Path

import pytest

from mtproxy.cli import commands_activity
from mtproxy.cli.client import DEFAULT_TIMEOUT, REFUSALS, USUAL_SOCKETS
from mtproxy.cli.commands import COMMANDS
from mtproxy.cli.known import HAPROXY_COMMANDS
from mtproxy.cli.runtime import (
    DEFAULT_TIMEOUT_MS,
    MAX_PENDING,
    MAX_WORDS,
    CliSession,
    Command,
    Level,
    split_words,
)
from mtproxy.testing.runtime import make_runtime

PAGE = (Path(__file__).parents[3] / "docs" / "runtime.md").read_text()
#: usage, level, what, example; `|` is written `\|` in a table
ROW = re.compile(r"^\| `(.+?)` \| (user|operator|admin) \| (.+?) \| `(.+?)` \|$", re.MULTILINE)
ROWS = [tuple(cell.replace("\\|", "|") for cell in row) for row in ROW.findall(PAGE)]


def test_every_command_has_its_row() -> None:
    def row(command: Command) -> tuple[str, str, str]:
        return command.usage, command.level.name.lower(), command.help

    assert sorted(row[:3] for row in ROWS) == sorted(map(row, COMMANDS.commands))


@pytest.mark.parametrize(("usage", "example"), [(row[0], row[3]) for row in ROWS])
def test_the_example_is_that_command(
    usage: str, example: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mtproxy.sched.sampler.Sampler.start", lambda _sampler: None)
    found = COMMANDS.find(split_words(example))
    assert found is not None
    assert found.usage == usage
    runtime = make_runtime()
    session = CliSession(runtime, runtime.pool.contexts[0], COMMANDS, Level.ADMIN)
    with contextlib.closing(session.answer(example)) as pieces:
        answer = "".join(itertools.takewhile(lambda piece: isinstance(piece, str), pieces))
    assert not answer.startswith((*REFUSALS, "No such", "Expected", "Require", "Can't"))


def test_figures_and_texts() -> None:
    sockets = re.search(r"<!-- sockets -->(.*?)<!-- end -->", PAGE, re.DOTALL)
    assert sockets is not None
    assert tuple(re.findall(r"`(.+?)`", sockets[1])) == USUAL_SOCKETS
    flat = " ".join(PAGE.split())
    for text in REFUSALS:
        assert f'"{text}"' in flat
    assert f"may have {MAX_PENDING} bytes; of a command, {MAX_WORDS} words" in flat
    assert f"`stats timeout` ({DEFAULT_TIMEOUT_MS // 1000} s)" in flat
    assert f"(`--timeout`, {DEFAULT_TIMEOUT:g} s)" in flat


def test_what_is_not_here() -> None:
    table = re.search(r"<!-- absent -->(.*?)<!-- end -->", PAGE, re.DOTALL)
    assert table is not None
    listed = {
        name
        for row in re.findall(r"^\| (`.+?) \|", table[1], re.MULTILINE)
        for name in re.findall(r"`(.+?)`", row)
    }
    assert listed == {" ".join(words) for words in HAPROXY_COMMANDS}


def test_figures_of_show_activity() -> None:
    table = re.search(r"<!-- activity -->(.*?)<!-- end -->", PAGE, re.DOTALL)
    assert table is not None
    names = re.findall(r"^\| `(\w+)` \| \S", table[1], re.MULTILINE)
    assert names == list(commands_activity.FIGURES)
