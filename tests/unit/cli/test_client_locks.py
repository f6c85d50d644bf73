"""`mtproxy locks` against a socket that answers what the test says."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mtproxy.cli import client_locks
from mtproxy.cli.client_locks import LockFigures, locks_table, parse_locks
from mtproxy.sync import reports
from mtproxy.sync.labels import LABELS

type Serve = Callable[..., str]


def figures(label: str, **changes: int) -> dict[str, object]:
    names = ("locks", "unlocks", "waits", "wait_ns")
    one: dict[str, object] = {f"{k}_{n}": 0 for k in ("read", "seek", "write") for n in names}
    return {"label": label, "failed_upgrades": 0, "longest_wait_ns": 0, **one, **changes}


def test_locks(serve: Serve):
    out = io.StringIO()
    assert client_locks.locks(["-S", serve(b"Stats about Lock X:\n\n")], out) == 0
    assert out.getvalue() == "Stats about Lock X:\n"
    assert serve.asked == [b"show locks\n"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "command"),
    [
        (["--json"], b"show locks json\n"),
        (["--prometheus"], b"show locks prometheus\n"),
        (["--reset"], b"show locks reset\n"),
        (["--reset", "task_wq"], b"show locks reset task_wq\n"),
        (["TASK_WQ"], b"show locks TASK_WQ\n"),
        (["--top"], b"show locks top\n"),
        (["--top", "3"], b"show locks top 3\n"),
    ],
)
def test_options_of_locks(serve: Serve, options: list[str], command: bytes):
    assert client_locks.locks(["-S", serve(b"[]\n\n"), *options], io.StringIO()) == 0
    assert serve.asked == [command]  # type: ignore[attr-defined]


@pytest.mark.parametrize("every", [False, True])
def test_watch_shows_what_was_added(serve: Serve, monkeypatch: pytest.MonkeyPatch, every: bool):
    def answer(locks: int, wait_ns: int) -> bytes:
        one = figures("TASK_WQ", write_locks=locks, write_wait_ns=wait_ns, write_waits=locks // 10)
        others = [figures("SERVER", read_locks=5), figures("OTHER")]
        return json.dumps([one, *others]).encode() + b"\n\n"

    path = serve(answer(1000, 0), answer(3000, 4_000_000))
    clock = iter([10.0, 12.0])
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(client_locks.time, "sleep", sleep)
    monkeypatch.setattr(client_locks.time, "monotonic", lambda: next(clock))
    out = io.StringIO()
    assert client_locks.locks(["-S", path, "--watch", "2", *(["--all"] if every else [])], out) == 0
    text = out.getvalue().splitlines()
    comment = "\n".join(line for line in text if line.startswith("#"))
    assert "# TASK_WQ: " in comment
    assert "docs/locking.md" in comment
    lines = [line for line in text if line and not line.startswith("#")]
    assert re.fullmatch(rf"\d\d:\d\d:\d\d  {path}", lines.pop(0))
    assert lines[0].split()[0] == "LOCK"
    assert lines[1].split() == ["TASK_WQ", "1000", "100.0", "2.000", "2000.0", "0.0", "0.000"]
    rest = [line.split()[:2] for line in lines[2:]]
    assert rest == [["OTHER", "0"]] * every + [["SERVER", "0"]]
    assert naps == [2.0, 2.0]


def test_the_legend_explains_every_label_and_column():
    text = client_locks.legend(label.name for label in LABELS)
    assert set(client_locks.GUARDS) == {label.name for label in LABELS}
    for name in ("locks/s", "waits/s", "wait ms/s", "ns/lock", "failed up/s", "longest ms"):
        assert f"{name}: " in text
        assert name in locks_table([], 1.0)
    assert max(map(len, text.splitlines())) < 100


def test_watch_of_something_else(serve: Serve, capsys: pytest.CaptureFixture[str]):
    assert client_locks.locks(["-S", serve(b"Permission denied\n\n"), "--watch"]) == 1
    assert "no lock statistics" in capsys.readouterr().err
    assert client_locks.locks(["-S", "x", "--watch", "0"]) == 1
    assert "above 0" in capsys.readouterr().err


def test_table_is_ordered_by_waiting():
    one = LockFigures("A", 10, 0, 0, 0, 0)
    two = LockFigures("B", 1, 1, 2, 9_000_000, 5_000_000)
    three = LockFigures("C", 0, 0, 0, 0, 0)
    lines = locks_table([one, three, two], 2.0).splitlines()
    assert [line.split()[0] for line in lines] == ["LOCK", "B", "A", "C"]
    assert lines[1].split() == ["B", "0", "0.5", "4.500", "9000000.0", "1.0", "5.000"]
    assert len({len(line) for line in lines}) == 1


def test_table_has_as_many_labels_as_are_asked_for():
    figures = [LockFigures(name, 1, 1, 0, wait, 0) for name, wait in (("A", 1), ("B", 3), ("C", 2))]
    lines = locks_table(figures, 1.0, 2).splitlines()
    assert [line.split()[0] for line in lines] == ["LOCK", "B", "C"]


def test_what_was_added():
    before = LockFigures("A", 10, 4, 1, 1000, 900, 10, 5000)
    after = LockFigures("A", 15, 5, 1, 1500, 900, 14, 5600)
    assert after.since(before) == LockFigures("A", 5, 1, 0, 500, 900, 4, 600)
    # counters that were reset meanwhile, or a profile that was begun anew
    assert before.since(after) == before
    fresh = LockFigures("A", 16, 5, 1, 1500, 900, 2, 70)
    assert fresh.since(before) == LockFigures("A", 6, 1, 0, 500, 900, 2, 70)


def profiled(waits: int) -> bytes:
    site = {"kind": "write", "function": "pick", "file": "a.py", "line": 7}
    times = {"count": waits, "total_ns": 3_000_000, "longest_ns": 2_000_000}
    holds = {"count": 100, "total_ns": 5_000_000, "longest_ns": 1}
    profile = {
        "on": True,
        "holds": {"read": holds, "seek": holds, "write": holds},
        "wait_sites": [site | times],
        "hold_sites": [],
    }
    used = figures("LBPRM", write_locks=10 * waits, write_wait_ns=1, write_waits=waits)
    return json.dumps([used | {"profile": profile}]).encode() + b"\n\n"


def test_watch_of_a_profile_on_a_terminal(serve: Serve, monkeypatch: pytest.MonkeyPatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    naps = iter([None, None])

    def sleep(_seconds: float) -> None:
        if next(naps, "end") == "end":
            raise KeyboardInterrupt

    monkeypatch.setattr(client_locks.time, "sleep", sleep)
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setenv("LINES", "40")
    out = Terminal()
    path = serve(*(profiled(waits) for waits in (1, 2, 3)))
    assert client_locks.locks(["-S", path, "--watch", "--top", "1", "lbprm"], out) == 0
    screens = out.getvalue().split("\x1b[H")
    assert screens[0] == "\x1b[2J"  # cleared once, then written over
    assert len(screens) == 3
    for screen in screens[1:]:
        assert screen.endswith("\x1b[K\n\x1b[J")
        lines = screen.split("\x1b[K\n")
        assert lines[1].endswith("hold ms/s   ns/hold")
        assert lines[2].startswith("LBPRM")
        assert "longest wait     2.000 ms" in lines[3]
        assert lines[3].endswith("write at pick:7 (a.py)")
        assert "# hold ms/s: " in screen
    assert serve.asked == [b"show locks json\n"] * 3  # type: ignore[attr-defined]


def test_a_small_terminal_shows_what_fits(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "5")
    monkeypatch.setenv("LINES", "3")
    shown = client_locks._screen("1234567\n12\nthird\n")
    assert shown == "\x1b[H12345\x1b[K\n12\x1b[K\n\x1b[J"


def test_the_real_answer_is_understood():
    answer = parse_locks(reports.render_json())
    assert list(answer.figures) == [label.name for label in LABELS]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--json", "TASK_WQ"], "a label goes with"),
        (["--top", "2", "--json"], "--top goes with"),
        (["--watch", "--", "NOPE"], "no such lock label 'NOPE'; there are X"),
    ],
)
def test_options_that_do_not_fit(
    serve: Serve, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
):
    path = serve(json.dumps([figures("X")]).encode() + b"\n\n")
    assert client_locks.locks(["-S", path, *options], io.StringIO()) == 1
    assert said in capsys.readouterr().err
    if "--watch" not in options:
        parse_locks(client_locks.ask(path, "x"))  # the socket still waits for its question


@pytest.mark.parametrize("number", ["0", "x", "1000"])
def test_top_wants_a_number(number: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        client_locks.locks(["--top", number])
    assert "not a number from 1 to 999" in capsys.readouterr().err


@pytest.mark.parametrize("answer", [b"No such lock label 'X'.\n\n", b"Permission denied\n\n"])
def test_a_refusal_is_an_exit_code(serve: Serve, answer: bytes):
    out = io.StringIO()
    assert client_locks.locks(["-S", serve(answer), "X"], out) == 1
    assert out.getvalue() == answer.decode()[:-1]


def test_a_reader_that_has_seen_enough(serve: Serve, tmp_path: Path):
    class Gone(io.StringIO):
        def __init__(self, file: Any) -> None:
            super().__init__()
            self.file = file

        def fileno(self) -> int:
            return self.file.fileno()

        def flush(self) -> None:
            raise BrokenPipeError

    with open(tmp_path / "out", "wb") as file:
        assert client_locks.locks(["-S", serve(b"x\n\n")], Gone(file)) == 0
