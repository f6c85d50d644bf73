"""The command line of `mtproxy profile`: options, who samples, where the result goes."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import Any

import pytest

from mtproxy.cli.client import ClientError
from mtproxy.cli.profile import main, pyspy
from mtproxy.cli.profile.stacks import Frame, Profile, Sample, Thread
from mtproxy.sched import profiled, sampler

STATUS = {
    "Pid": str(os.getpid()),
    "Start": "1",
    "Boot": "b",
    "Python": "3.13.0",
    "Free-threaded": "0",
    "Root": "/srv",
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Run:
    """Runs the command against a proxy that is not there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.status = dict(STATUS)
        self.answer = ""
        self.calls: list[tuple[str, Any]] = []
        self.err: io.StringIO = io.StringIO()
        self.out = io.StringIO()
        self.attaches = True
        self.notes: list[str] = []
        self.threads = [
            Thread("mtproxy/1", [Sample(0, (Frame("hot", "a.py", 1),))]),
            Thread("mtproxy/2", [Sample(0, (Frame("run_loop", "l.py", 1),), idle=True)]),
        ]
        monkeypatch.setattr(main, "choose_socket", lambda named: named or "usual")
        monkeypatch.setattr(main, "ask", self._ask)
        monkeypatch.setattr(main.builtin, "record", self._builtin)
        monkeypatch.setattr(main.pyspy, "record", self._pyspy)
        monkeypatch.setattr(main.pyspy, "find", lambda: "/x/py-spy")
        monkeypatch.setattr(main.pyspy, "version", lambda _: "9.9")
        monkeypatch.setattr(main.pyspy, "probe", self._probe)
        monkeypatch.setattr(main.Target, "is_here", lambda _: True)

    def __call__(self, *argv: str) -> int:
        self.out, self.calls = io.StringIO(), []
        if not self.err.isatty():
            self.err = io.StringIO()
        return main.profile(argv, self.out, self.err)

    def _ask(self, address: str, command: str, _timeout: float) -> str:
        assert command == "profile status"
        self.calls.append(("ask", address))
        return self.answer or "".join(f"{k}: {v}\n" for k, v in self.status.items())

    def _probe(self, _program: str, pid: int) -> None:
        self.calls.append(("probe", pid))
        if not self.attaches:
            raise pyspy.CannotAttach("Permission Denied")

    def _found(self, sampler: str, seconds: float) -> Profile:
        return Profile(sampler, 7, "3.13.0", seconds, 100, list(self.threads), list(self.notes))

    def _builtin(
        self, address: str, seconds: float, rate: int, _sources: Any, progress: Any, *, idle: bool
    ) -> Profile:
        self.calls.append(("builtin", (address, seconds, rate, idle)))
        progress(0.5, 50)
        return self._found("built-in sampler", seconds)

    def _pyspy(self, program: str, pid: int, _python: str, *rest: Any, idle: bool) -> Profile:
        self.calls.append(("py-spy", (program, pid, *rest[:2], idle)))
        return self._found("py-spy", rest[0])


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(monkeypatch)


def who(run: Run) -> list[str]:
    return [name for name, _ in run.calls]


def test_py_spy_where_it_can(run: Run) -> None:
    assert run("--format", "top", "-S", "sock", "--seconds", "2", "--rate", "50") == 0
    assert run.calls == [
        ("ask", "sock"),
        ("probe", os.getpid()),
        ("py-spy", ("/x/py-spy", os.getpid(), 2.0, 50, False)),
    ]
    assert "py-spy 9.9 samples process" in run.err.getvalue()
    assert run.out.getvalue().startswith("# py-spy, pid 7")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("free-threaded", "it cannot read a free-threaded interpreter"),
        ("elsewhere", "the process is not on this machine"),
        ("absent", "it is not installed (pip install py-spy)"),
        ("refused", "Permission Denied"),
    ],
)
def test_the_built_in_one_where_it_cannot(
    run: Run, monkeypatch: pytest.MonkeyPatch, change: str, why: str
) -> None:
    if change == "free-threaded":
        run.status["Free-threaded"] = "1"
    elif change == "elsewhere":
        monkeypatch.setattr(main.Target, "is_here", lambda _: False)
    elif change == "absent":
        monkeypatch.setattr(main.pyspy, "find", lambda: None)
    else:
        run.attaches = False
    assert run("--format", "top", "--idle") == 0
    assert who(run)[-1] == "builtin"
    assert run.calls[-1] == ("builtin", ("usual", 10.0, 100, True))
    said = run.err.getvalue()
    assert f"not py-spy: {why}" in said
    assert "the built-in sampler of process" in said
    assert ("with a GIL it sees" in said) is (change != "free-threaded")


def test_the_sampler_that_is_asked_for(run: Run) -> None:
    assert run("--format", "top", "--sampler", "builtin") == 0
    assert who(run) == ["ask", "builtin"]
    run.attaches = False
    assert run("--sampler", "py-spy") == 1
    assert "py-spy cannot be used: Permission Denied" in run.err.getvalue()


def test_idle_threads_are_left_out(run: Run) -> None:
    assert run("--format", "raw", "-o", "-") == 0
    assert run.out.getvalue() == "mtproxy/1;hot (a.py:1) 1\n"
    assert run("--format", "raw", "-o", "-", "--idle") == 0
    assert run.out.getvalue().count("\n") == 2
    run.threads = run.threads[1:]
    assert run("--format", "raw", "-o", "-") == 0
    assert run.out.getvalue() == ""
    assert "no thread did anything" in run.err.getvalue()


@pytest.mark.parametrize(
    ("form", "end"),
    [(None, "html"), ("flamegraph", "html"), ("speedscope", "speedscope.json"), ("raw", "txt")],
)
def test_default_names(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str | None, end: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*(["--format", form] if form else [])) == 0
    (written,) = tmp_path.iterdir()
    assert re.fullmatch(rf"mtproxy-profile-7-\d{{8}}-\d{{6}}\.{re.escape(end)}", written.name)
    assert written.stat().st_size
    assert f"written: {written.name}" in run.err.getvalue()
    assert "hot (a.py:1)" in run.err.getvalue()  # a summary
    assert run.out.getvalue() == ""


def test_output_that_cannot_be_written(run: Run, tmp_path: Path) -> None:
    """That is said before time is spent."""
    for name, problem in (
        (f"{tmp_path}/no/x.html", f"there is no folder {tmp_path}/no"),
        (f"{tmp_path}", "Is a directory"),
        ("", "its name is empty"),
    ):
        assert run("-o", name) == 1
        assert f"cannot write {name}: {problem}\n" in run.err.getvalue()
        assert run.calls == []


@pytest.mark.parametrize("form", ["flamegraph", "speedscope", "raw", "top"])
def test_remarks_are_said_beside_standard_output(run: Run, form: str) -> None:
    run.notes.append("the session was cut short")
    assert run("--format", form, "-o", "-") == 0
    said = run.err.getvalue().count("the session was cut short\n")
    assert said == (form != "top")
    if form == "top":
        assert "# the session was cut short\n" in run.out.getvalue()


def test_a_disk_without_room(run: Run) -> None:
    assert run("--format", "speedscope", "-o", "/dev/full") == 1
    assert "cannot write /dev/full: No space left on device\n" in run.err.getvalue()


@pytest.mark.parametrize(
    ("option", "wrong", "said"),
    [("--seconds", wrong, "from above 0 to 3600 are possible") for wrong in ("x", "", "nan", "0")]
    + [("--rate", wrong, "1 to 1000 are possible") for wrong in ("x", "", "1.5", "0", "1001")],
)
def test_wrong_figures(
    run: Run, capsys: pytest.CaptureFixture[str], option: str, wrong: str, said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(option, wrong)
    assert ended.value.code == 2
    assert f"argument {option}: {said}\n" in capsys.readouterr().err


def test_refusals(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.answer = "Permission denied\n\n"
    assert run() == 1
    assert "needs a runtime socket of 'level admin'" in run.err.getvalue()
    run.answer = "Unknown command, but maybe one of the following ones is a better match:\n"
    assert run() == 1
    assert "cannot be profiled" in run.err.getvalue()
    run.answer = "Pid: x\n"
    assert run() == 1
    assert "unexpected answer" in run.err.getvalue()

    def nobody(_named: str | None) -> str:
        raise ClientError("no socket x: is the proxy running?")

    monkeypatch.setattr(main, "choose_socket", nobody)
    assert run() == 1
    assert "is the proxy running?" in run.err.getvalue()


@pytest.mark.parametrize(
    "argv",
    [
        ("--seconds", "0"),
        ("--seconds", "4000"),
        ("--seconds", "x"),
        ("--rate", "0"),
        ("--rate", "1001"),
        ("--format", "svg"),
        ("--sampler", "perf"),
        ("extra",),
    ],
)
def test_wrong_options(run: Run, argv: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(*argv)
    assert stopped.value.code == 2


def test_progress_is_for_terminals(run: Run) -> None:
    assert run("--format", "top", "--sampler", "builtin") == 0
    assert "\r" not in run.err.getvalue()
    run.err = Terminal()
    assert run("--format", "top", "--sampler", "builtin") == 0
    assert "\r  0.5 of 10 s, 50 samples" in run.err.getvalue()


def test_interrupted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> Profile:
        raise KeyboardInterrupt

    monkeypatch.setattr(main.builtin, "record", interrupt)
    assert run("--sampler", "builtin") == 1
    assert "interrupted" in run.err.getvalue()


def test_is_here_knows_this_process() -> None:
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()

    def target(pid: int, start: str, boot: str) -> main.Target:
        return main.Target(pid, start, boot, "3.13.0", False, "/srv")

    assert target(os.getpid(), stat, boot).is_here()
    assert not target(os.getpid(), stat + "0", boot).is_here()
    assert not target(os.getpid(), stat, "other").is_here()
    assert not target(2**22 + 1, stat, boot).is_here()


PAGE = (Path(__file__).parents[4] / "docs" / "profiling.md").read_text()


def test_the_page_knows_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.profile(["--help"])
    options = set(re.findall(r"(?<!\w)--?[a-z][a-z-]*", capsys.readouterr().out))
    documented = set(re.findall(r"^\| `(--?[a-zA-Z-]+)", PAGE, re.MULTILINE))
    assert options >= documented - {"-S"}
    # those of all clients are explained in runtime.md
    assert options - {"-h", "--help", "--socket", "--timeout", "-o", "--output"} <= documented
    for form in main.FORMATS:
        assert f"`--format {form}`" in PAGE
    assert "|".join(main.SAMPLERS) in PAGE.replace("\\|", "|")


def test_the_page_s_figures() -> None:
    flat = " ".join(PAGE.split())
    assert f"10, at most {main.MAX_SECONDS:g}" in flat
    assert f"100, at most {main.MAX_RATE}" in flat
    assert main.MAX_SECONDS == sampler.MAX_SECONDS
    assert main.MAX_RATE == sampler.MAX_RATE
    assert sampler.DEFAULT_RATE == 100
    assert f"at most {100 * sampler.CPU_SHARE:g} % of the CPU time" in flat
    assert sampler.STOPPED_SHARE == 0.25
    assert "at most a quarter of the time" in flat
    assert f"{sampler.MAX_PENDING >> 20} MiB wait" in flat
    assert f"{profiled.AUTO_ON_US} us at which `auto` switches on" in flat
