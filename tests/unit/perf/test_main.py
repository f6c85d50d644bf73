"""The benchmarks' command line, and what it says when a tool is absent."""

from __future__ import annotations

import subprocess

import pytest

from perf import __main__ as perf_main
from perf import cells


def test_a_missing_tool_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        asked.append(command)
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(perf_main, "find_tool", lambda _: None)
    monkeypatch.setattr(subprocess, "run", run)
    assert perf_main.main(["http", "--rounds", "1"]) == 2
    assert asked[0][0].endswith("/.ci/need")
    assert asked[0][1:] == ["nginx", "wrk", "haproxy"]
    assert "apt-get install nginx wrk haproxy" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [[], ["udp"], ["http", "--rounds", "0"], ["tcp", "--seconds", "0"]]
)
def test_wrong_words_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        perf_main.main(words)
    assert stopped.value.code == 2


def test_help_describes_every_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        perf_main.parse(["--help"])
    described = capsys.readouterr().out.partition("benchmarks:")[2]
    for benchmark in perf_main.BENCHMARKS:
        assert f" {benchmark.name} " in described


@pytest.mark.parametrize(
    ("words", "rounds"),
    [
        (["http"], 5),
        (["start"], 10),
        (["start", "--rounds", "2"], 2),
        (["tcp", "--rounds", "2"], 2),
    ],
)
def test_rounds(words: list[str], rounds: int) -> None:
    assert perf_main.parse(words).rounds == rounds


def test_sampling_says_what_was_found(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sampling", "--rounds", "1", "--messages", "2560", "--threads", "1", "2", "--no-save"]
    assert perf_main.main(words) == 0
    said = capsys.readouterr().out
    assert "2 thr index sent" in said
    assert "rate, 2 thr: index / unsampled" in said
    assert "the goal, at least 0.95" in said
    assert "share of the log function" in said


def test_cells_are_counted_right(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["cells", "--rounds", "1", "--exchanges", "2000", "--threads", "2", "--no-save"]
    assert perf_main.main([*words, "--no-native"]) == 0
    assert "CPU, 2 thr: ChainCell / LockedCell" in capsys.readouterr().out


def test_a_missing_yardstick_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def install(_folder: str) -> None:
        raise RuntimeError("no such package")

    monkeypatch.setattr(cells, "install", install)
    words = ["cells", "--rounds", "1", "--exchanges", "1000", "--threads", "1", "--no-save"]
    assert perf_main.main(words) == 0
    assert "without cereggii AtomicInt64: no such package" in capsys.readouterr().out
