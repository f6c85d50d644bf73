"""Steps that show life, failures that help, locks that wait."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from toolchain import main, paths, say
from toolchain.say import Failure, run


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "step.log"


def test_run_writes_the_command_and_its_output_to_the_log(log: Path) -> None:
    run(["sh", "-c", "echo out; echo err >&2"], log=log, doing="trying", hint="")
    assert log.read_text() == "$ sh -c echo out; echo err >&2\nout\nerr\n"


def test_a_failing_command_is_told_with_its_last_words(log: Path) -> None:
    with pytest.raises(Failure) as caught:
        run(["sh", "-c", "echo no such thing; exit 7"], log=log, doing="trying", hint="do this")
    assert caught.value.render().splitlines() == [
        "error: trying: sh exited with code 7",
        "  | $ sh -c echo no such thing; exit 7",
        "  | no such thing",
        "  what to do: do this",
        f"  log: {log}",
    ]


def test_a_command_that_is_not_there(log: Path) -> None:
    with pytest.raises(Failure, match="trying: cannot start /nonexistent/x"):
        run(["/nonexistent/x"], log=log, doing="trying", hint="")


def test_a_command_that_takes_too_long_is_ended(log: Path) -> None:
    with pytest.raises(Failure, match="not done after 0 s, given up"):
        run(["sleep", "60"], log=log, doing="waiting", hint="", timeout=0.1)


@pytest.mark.parametrize("answer", ["", "trap '' TERM; "])
def test_a_command_is_ended_with_its_children(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(say, "PATIENCE", 0.2)
    process = subprocess.Popen(
        ["sh", "-c", f"{answer}sh -c '{answer}echo here; sleep 60; :'; :"],
        stdout=subprocess.PIPE,
        process_group=0,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        say._end(process)
        # The pipe ends only when the last of them is gone.
        assert process.stdout.read() == b""


def test_a_long_command_shows_that_it_is_alive(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(say, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(say, "LOG_INTERVAL", 0.0)
    run(["sleep", "0.6"], log=log, doing="compiling", hint="", detail=lambda: "12 files")
    assert "    compiling: 0 s, 12 files\n" in capsys.readouterr().err


def test_a_short_command_says_nothing(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["true"], log=log, doing="trying", hint="")
    assert capsys.readouterr().err == ""


def test_a_log_keeps_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MTPROXY_CACHE", str(tmp_path))
    paths.log_file("x").write_text("first")
    path = paths.log_file("x")
    assert path.read_text() == ""
    assert path.with_suffix(".log.old").read_text() == "first"


def test_a_lock_waits_for_its_holder_and_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a" / "lock"
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from toolchain import paths\n"
        "with paths.locked(Path(sys.argv[2]), 'testing'):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.readline()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(paths.CI), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        # The first wait of the lock is the moment to let the holder go.
        stdin = holder.stdin
        monkeypatch.setattr(paths, "_pause", lambda: stdin.close() if not stdin.closed else None)
        with paths.locked(path, "testing"):
            assert holder.wait(30) == 0
    assert f"waiting for process {holder.pid} that holds {path}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing-like-it"], "no command 'nothing-like-it'"),
        (["python", "fast"], "no flavour 'fast'"),
        (["venv", "now"], "unexpected 'now'"),
        (["need"], "no package named"),
        (["source", "haproxy"], "too few words"),
    ],
)
def test_wrong_words_are_told(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(words) == 1
    err = capsys.readouterr().err
    assert said in err
    assert "what to do: " in err


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([]) == 0
    out = capsys.readouterr().out
    for name in main.COMMANDS:
        assert f"\n  {name}" in out
