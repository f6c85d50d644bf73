"""`set profiling`, `show profiling` and `profile`: texts and layout as HAProxy 2.6.12's."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from mtproxy.cli.commands import COMMANDS
from mtproxy.cli.commands_profiling import short_time
from mtproxy.cli.runtime import CliSession, Level, Pause
from mtproxy.cli.server import serve
from mtproxy.sched import profiled
from mtproxy.testing.runtime import make_runtime


class Cli:
    """Runs commands in one session of an administrator's."""

    def __init__(self, level: Level = Level.ADMIN) -> None:
        self.runtime: Any = make_runtime()
        self.session = CliSession(self.runtime, self.runtime.pool.contexts[0], COMMANDS, level)

    def __call__(self, command: str) -> str:
        answer = "".join(self.session.answer(command))
        assert "Internal error:" not in answer, answer
        return answer.removesuffix("\n")


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Cli:
    # the contexts of this runtime are not real ones
    class Profile(profiled.TaskProfile):
        def __init__(self, _ctx: object) -> None:
            self.figures = {}
            self._queues = []

    monkeypatch.setattr(profiled, "TaskProfile", Profile)
    return Cli()


STATUS = """\
Per-task CPU profiling              : {:<14}# set profiling tasks {{on|auto|off}}
Memory usage profiling              : off           # not supported by mtproxy
Lock profiling                      : off           # set profiling locks {{on|off}}
"""
HEAD = """\
Tasks activity:
  function                      calls   cpu_tot   cpu_avg   lat_tot   lat_avg
"""


@pytest.mark.parametrize("level", [Level.USER, Level.OPERATOR])
@pytest.mark.parametrize(
    "command",
    ["show profiling", "set profiling tasks on", "profile status", "profile run", "profile stop"],
)
def test_only_for_administrators(level: Level, command: str) -> None:
    assert Cli(level)(command) == "Permission denied\n"


def test_modes(cli: Cli) -> None:
    assert cli("show profiling status") == STATUS.format("off")
    for mode, shown in (("on", "on"), ("auto", "auto-on"), ("off", "off"), ("auto", "auto-off")):
        assert cli(f"set profiling tasks {mode}") == ""
        assert cli("show profiling status") == STATUS.format(shown)


def test_refusals(cli: Cli) -> None:
    kinds = [
        command.words[2]
        for command in COMMANDS.commands
        if command.words[:2] == ("set", "profiling") and len(command.words) == 3
    ]
    for command in ("set profiling", "set profiling foo on"):
        answer = cli(command)
        assert answer.startswith("Expects either ")
        assert all(f"'{kind}'" in answer for kind in kinds)
    for command in ("set profiling tasks", "set profiling tasks foo"):
        assert cli(command) == "Expects 'on', 'auto', or 'off'.\n"
    assert cli("set profiling memory on").startswith("Memory profiling not compiled in")
    for command in ("show profiling bogus", "show profiling tasks -1"):
        assert cli(command) == (
            "Expects either 'all', 'status', 'tasks', 'memory', 'byaddr' or a max number of output "
            "lines.\n"
        )
    assert cli("show profiling memory") == ""


def enter(cli: Cli, tid: int, function: object, calls: int, cpu_ns: int, lat_ns: int) -> None:
    cli.runtime.pool.contexts[tid].task_profile.add(function, calls, cpu_ns, lat_ns)


def low() -> None:
    """A function with a name."""


def much_longer_than_the_column_is_wide() -> None:
    """Another one."""


def test_table(cli: Cli) -> None:
    cli("set profiling tasks on")
    assert cli("show profiling") == STATUS.format("on") + HEAD
    low_code, long_code = low.__code__, much_longer_than_the_column_is_wide.__code__
    enter(cli, 0, low_code, 60, 3_000_000, 90_000)
    enter(cli, 1, low_code, 5, 729_000, 3_350)
    enter(cli, 1, long_code, 1, 0, 4_016)
    rows = [
        "  low                              65   3.729ms   57.37us   93.35us   1.436us\n",
        "  much_longer_than_the_column_is_wide 1      -         -      4.016us   4.016us\n",
    ]
    assert cli("show profiling tasks") == HEAD + "".join(rows)
    assert cli("show profiling all 1") == STATUS.format("on") + HEAD + rows[0]
    assert cli("show profiling tasks 0") == HEAD
    in_order = [rows[0], rows[1]] if id(low_code) < id(long_code) else [rows[1], rows[0]]
    assert cli("show profiling byaddr tasks") == HEAD + "".join(in_order)
    cli("set profiling tasks off")
    assert cli("show profiling tasks") == HEAD + "".join(rows)  # stays to be looked at
    cli("set profiling tasks on")
    assert cli("show profiling tasks") == HEAD


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "   -   "),
        (1, "1.000ns"),
        (93, "93.00ns"),
        (591, "591.0ns"),
        (1436, "1.436us"),
        (57_368, "57.37us"),
        (738_400, "738.4us"),
        (999_960, "1.000ms"),
        (9_999_600, "10.00ms"),
        (3_729_000, "3.729ms"),
        (14_370_000_000, "14.37s "),
        (203_640_000_000, "3.394m "),
        (7200 * 10**9, "2.000h "),
        (90 * 86400 * 10**9, "90.00d "),
    ],
)
def test_short_time(ns: int, text: str) -> None:
    assert short_time(ns) == text


# --- profile


def test_profile_words(cli: Cli) -> None:
    for command in ("profile", "profile foo"):
        answer = cli(command)
        assert answer.startswith("Unknown command")
        assert "profile run [<time>" in answer
    assert cli("profile stop") == "No profiling session is running.\n"
    assert "a time up to 3600 s" in cli("profile run 3601")
    assert "a time up to 3600 s" in cli("profile run 0")
    assert "'profile run': " in cli("profile run x")
    for rate in ("0", "1001", "x", "-5"):
        assert "a rate from 1 to 1000" in cli(f"profile run 1s {rate}")
    assert cli("profile run 1s 100 foo").startswith("Expected: profile run")
    assert cli.session.follow is None


def test_profile_status(cli: Cli) -> None:
    answer = dict(line.split(": ", 1) for line in cli("profile status").splitlines())
    assert answer["Sampler"] == "idle"
    assert answer["Threads"] == "2"
    assert re.fullmatch(r"3\.\d+\.\d+\S*", answer["Python"])
    assert {"Pid", "Start", "Boot", "Free-threaded", "GIL", "Root"} <= answer.keys()


class Wire:
    """A transport in memory."""

    def __init__(self, sent: bytes) -> None:
        self.sent = [sent, b""]
        self.got = b""
        self.fail_after = 1 << 30

    async def read(self) -> bytes:
        return self.sent.pop(0)

    async def write(self, data: bytes) -> None:
        self.got += data
        if len(self.got) > self.fail_after:
            raise BrokenPipeError

    async def wait_for(self, pause: Pause) -> None:
        raise AssertionError(pause)


class FakeSampler:
    """Gives pieces, one for each pause."""

    made: list[FakeSampler]

    def __init__(self, _pool: object, wake: object, **options: Any) -> None:
        self.options = options
        self.pieces = [b"@profile {}\n", b"", b"@end {}\n"]
        self.running = False
        self.stopped = 0
        self.samples = self.dropped = 0
        FakeSampler.made.append(self)

    @property
    def ended(self) -> bool:
        return not self.pieces

    def start(self) -> None:
        self.running = True

    def stop(self) -> None:
        self.stopped += 1

    def take(self) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""


@pytest.fixture
def sampled(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    FakeSampler.made = []
    monkeypatch.setattr("mtproxy.sched.sampler.Sampler", FakeSampler)

    async def pause(_ms: int) -> None:
        assert cli.runtime.sampler is FakeSampler.made[0]

    cli.session.pause = pause
    return cli


def talk(cli: Cli, wire: Wire) -> None:
    asyncio.run(serve(cli.session, wire.read, wire.write, wire.wait_for))


def test_a_session_is_followed_to_its_end(sampled: Cli) -> None:
    wire = Wire(b"profile run 2s 50 idle;show version\n")
    talk(sampled, wire)
    assert wire.got.startswith(b"@profile {}\n@end {}\n\n")
    assert wire.got.endswith(f"{sampled.runtime.version}\n\n".encode())
    (one,) = FakeSampler.made
    assert one.options == {"seconds": 2.0, "rate": 50, "idle": True}
    assert one.running
    assert one.stopped == 1
    assert sampled.runtime.sampler is None


def test_a_client_that_goes_ends_its_session(sampled: Cli) -> None:
    wire = Wire(b"profile run\n")
    wire.fail_after = 3
    with pytest.raises(BrokenPipeError):
        talk(sampled, wire)
    assert FakeSampler.made[0].stopped == 1
    assert sampled.runtime.sampler is None
    assert sampled.session.follow is None


def test_one_session_at_a_time(sampled: Cli) -> None:
    sampled.runtime.sampler = other = FakeSampler(None, None)
    assert sampled("profile run") == (
        "A profiling session is running already; 'profile stop' ends it.\n"
    )
    assert "Sampler: running\n" in sampled("profile status")
    assert sampled("profile stop") == ""
    assert other.stopped == 1


def test_a_session_needs_a_transport_that_can_wait(sampled: Cli) -> None:
    fresh = CliSession(sampled.runtime, sampled.session.ctx, COMMANDS, Level.ADMIN)
    sampled.session = fresh
    wire = Wire(b"profile run\n")
    talk(sampled, wire)
    assert wire.got == b"@profile {}\nThis command needs a connection of its own.\n\n"
    assert FakeSampler.made[0].stopped == 1
    assert sampled.runtime.sampler is None
