"""`show events` without a connection: what it answers and when it waits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mtproxy.base.log_settings import RingSettings
from mtproxy.cli.commands import COMMANDS
from mtproxy.cli.runtime import CliSession, Level, Pause
from mtproxy.log.ring import Ring
from mtproxy.sync import stats
from mtproxy.testing.runtime import make_runtime


class Cli:
    def __init__(self, level: Level = Level.OPERATOR) -> None:
        stats.configure(2)
        self.runtime = make_runtime()
        self.ring = Ring(RingSettings("mine", "a ring of mine", size=16384))
        self.runtime.rings["mine"] = self.ring
        self.session = CliSession(self.runtime, self.runtime.pool.contexts[0], COMMANDS, level)

    def __call__(self, command: str) -> str:
        """The answer of a command that does not wait, without the empty line at its end."""
        pieces = list(self.session.answer(command))
        assert all(isinstance(piece, str) for piece in pieces)
        return "".join(str(piece) for piece in pieces).removesuffix("\n")


@pytest.fixture
def cli() -> Cli:
    return Cli()


def test_list(cli: Cli) -> None:
    cli.ring.note_lost(3)
    assert cli("show events").splitlines()[1:] == [
        "    stdout     : type=fd, 0 dropped, standard output (fd#1)",
        "    stderr     : type=fd, 0 dropped, standard error output (fd#2)",
        "    buf0       : type=buffer, 0 dropped, in-memory ring buffer",
        "    mine       : type=buffer, 3 dropped, a ring of mine",
    ]


def test_messages(cli: Cli) -> None:
    assert cli("show events mine") == ""
    cli.ring.append([b"one", b"t\xffo", "drei ä".encode()], 0)
    assert cli("show events mine") == "one\nt\udcffo\ndrei ä\n"
    assert cli("show events mine -n") == ""


def test_long_rings_come_in_pieces(cli: Cli) -> None:
    ring = Ring(RingSettings("long", size=1 << 20))
    cli.runtime.rings["long"] = ring
    ring.append([b"x" * 1000] * 100, 0)
    pieces = list(cli.session.answer("show events long"))
    assert len(pieces) > 5
    assert "".join(map(str, pieces)) == ("x" * 1000 + "\n") * 100 + "\n"


def test_what_comes_meanwhile_is_left_out(cli: Cli) -> None:
    """A busy ring would make an answer without end."""
    ring = Ring(RingSettings("busy", size=1 << 20))
    cli.runtime.rings["busy"] = ring
    ring.append([b"x" * 1000] * 40, 0)
    text = ""
    for piece in cli.session.answer("show events busy"):
        text += str(piece)
        ring.append([b"more"], 0)
    assert text == ("x" * 1000 + "\n") * 40 + "\n"


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("show events nope", "No such event sink\n"),
        ("show events -w", "No such event sink\n"),
        ("show events stderr", "Nothing to report for this sink\n"),
        ("show events mine -x", "unknown option\n"),
        ("show events mine extra", "unknown option\n"),
    ],
)
def test_refusals(cli: Cli, command: str, answer: str) -> None:
    assert cli(command) == answer


def test_levels() -> None:
    user = Cli(Level.USER)
    assert "type=buffer" in user("show events")
    assert user("show events mine") == "Permission denied\n"


@pytest.mark.parametrize(
    ("options", "first"), [("-w", ["old\n"]), ("-w -n", []), ("-nw", []), ("-wn", [])]
)
def test_waiting(cli: Cli, options: str, first: list[str]) -> None:
    cli.ring.append([b"old"], 0)
    pieces = cli.session.answer(f"show events mine {options}")
    assert [next(pieces) for _ in first] == first
    woken: list[bool] = []

    def wait() -> Callable[[], None]:
        pause = next(pieces)
        assert isinstance(pause, Pause)
        pause.begin(lambda: woken.append(True))
        return lambda: setattr(pause, "stopped", True)

    wait()
    assert woken == []
    cli.ring.append([b"new", b"newer"], 1)
    assert woken == [True]
    assert next(pieces) == "new\nnewer\n"
    stop = wait()
    stop()
    assert list(pieces) == ["\n"]
