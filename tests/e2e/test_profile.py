"""`mtproxy profile` against real processes: a function that is known to burn a known share of a
thread comes out on top with that share, by the built-in sampler and by py-spy.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

import mtproxy
from mtproxy.cli.profile import pyspy
from mtproxy.testing.configs import http
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program, environment, find_tool
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import connect

ROOT = Path(mtproxy.__file__).parents[1]
#: of the second thread's time that the planted function has
SHARE = 0.8
#: by how much what is measured may differ
TOLERANCE = 0.05
#: samples that make chance deviate by a third of that: sqrt(0.8 * 0.2 / 700) = 1.5 %
ENOUGH = 700
SESSIONS = 10


class HotPool:
    """The program of mtproxy.testing.hotpool, on some interpreter."""

    def __init__(self, python: str, folder: Path) -> None:
        self.socket_path = str(folder / "hot.sock")
        packages = [path for path in sys.path if path.endswith("site-packages")]
        env = environment({"PYTHONPATH": os.pathsep.join([str(ROOT), *packages])})
        command = [python, "-m", "mtproxy.testing.hotpool", self.socket_path, str(SHARE)]
        self.process = subprocess.Popen(command, env=env)

    def __enter__(self) -> Self:
        try:
            wait_until(lambda: self.process.poll() is not None or self._answers(), "hotpool", 30)
            assert self.process.poll() is None
        except BaseException:
            self.process.kill()
            raise
        return self

    def _answers(self) -> bool:
        try:
            with connect(self.socket_path) as wire:
                wire.send(b"show version\n")
                return bool(wire.read_to_end())
        except (FileNotFoundError, ConnectionRefusedError):
            return False

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            assert self.process.wait(20) == 0
        finally:
            self.process.kill()


def profile(socket_path: str, *options: str, code: int = 0) -> tuple[str, str]:
    """Standard output and error of `mtproxy profile`."""
    done = subprocess.run(
        [sys.executable, "-m", "mtproxy", "profile", "-S", socket_path, *options],
        capture_output=True,
        text=True,
        timeout=90,
        env=environment({"PYTHONPATH": str(ROOT)}),
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


def collapsed(text: str) -> Counter[tuple[str, ...]]:
    """Stacks with their counts, from the form of `raw`."""
    counts: Counter[tuple[str, ...]] = Counter()
    for line in text.splitlines():
        stack, count = line.rsplit(" ", 1)
        counts[tuple(stack.split(";"))] += int(count)
    return counts


def share_of_the_planted(pool: HotPool, *options: str) -> Counter[str]:
    """Own samples by function of the thread with the planted function, until there are enough; a
    busy machine gives fewer per second.
    """
    own: Counter[str] = Counter()
    for _ in range(SESSIONS):
        out, _ = profile(pool.socket_path, "--format", "raw", "-o", "-", *options)
        for stack, count in collapsed(out).items():
            if stack[0] == "mtproxy/2":
                own[stack[-1].split(" ")[0]] += count
        if own.total() >= ENOUGH:
            break
    return own


def check_shares(own: Counter[str]) -> None:
    total = own.total()
    assert own.most_common(1)[0][0] == "planted_hot"
    assert own["planted_hot"] / total == pytest.approx(SHARE, abs=TOLERANCE), own
    assert own["planted_warm"] / total == pytest.approx(1 - SHARE, abs=TOLERANCE), own


def has_gil() -> bool:
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def gil_python() -> str:
    """A 3.13 with a GIL, on which the proxy can run; skips where there is none."""
    if has_gil():
        return sys.executable
    home = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    names = [
        os.environ.get("MTPROXY_GIL_PYTHON"),
        shutil.which("python3.13"),
        *sorted(glob.glob(f"{home}/versions/3.13*/bin/python3.13"), reverse=True),
    ]
    probe = "import sys; sys.exit(not sys._is_gil_enabled())"
    for name in names:
        if not name or not os.path.exists(name):
            continue
        if subprocess.run([name, "-c", probe], check=False, timeout=20).returncode == 0:
            return name
    pytest.skip("no CPython 3.13 with a GIL here; MTPROXY_GIL_PYTHON names one")


@pytest.fixture
def hot(tmp_path: Path) -> Iterator[HotPool]:
    with HotPool(sys.executable, tmp_path) as pool:
        yield pool


@pytest.fixture
def hot_with_gil(tmp_path: Path) -> Iterator[HotPool]:
    with HotPool(gil_python(), tmp_path) as pool:
        yield pool


@pytest.mark.slow
@pytest.mark.skipif(has_gil(), reason="with a GIL the built-in sampler is biased")
def test_the_built_in_sampler_finds_what_is_hot(hot: HotPool) -> None:
    check_shares(share_of_the_planted(hot, "--seconds", "4", "--rate", "300"))


@pytest.mark.slow
def test_py_spy_finds_what_is_hot(hot_with_gil: HotPool) -> None:
    program = pyspy.find()
    if program is None:
        pytest.skip("py-spy is not installed")
    try:
        pyspy.probe(program, hot_with_gil.process.pid)
    except pyspy.CannotAttach as error:
        pytest.skip(f"py-spy cannot trace here: {error}")
    _, said = profile(hot_with_gil.socket_path, "--seconds", "1", "--format", "top")
    assert "py-spy" in said  # chosen by itself
    check_shares(share_of_the_planted(hot_with_gil, "--seconds", "5", "--rate", "200"))


def test_every_format(hot: HotPool, tmp_path: Path) -> None:
    options = ("--seconds", "1", "--sampler", "builtin")
    out, said = profile(hot.socket_path, *options, "--format", "top")
    assert re.search(r"^# mtproxy/2: busy in [1-9]", out, re.MULTILINE)
    assert "planted_hot (mtproxy/testing/hotpool.py:" in out
    assert "the built-in sampler of process" in said
    page = tmp_path / "x.html"
    _, said = profile(hot.socket_path, *options, "-o", str(page))
    assert "planted_hot" in page.read_text()
    assert "written: " in said
    speedscope = tmp_path / "x.json"
    profile(hot.socket_path, *options, "--format", "speedscope", "-o", str(speedscope), "--idle")
    names = {one["name"] for one in json.loads(speedscope.read_text())["profiles"]}
    assert {"mtproxy/1", "mtproxy/2"} <= names
    out, _ = profile(hot.socket_path, *options, "--format", "raw", "-o", "-")
    in_loops = {stack[0] for stack in collapsed(out) if "run_loop" in " ".join(stack)}
    assert "mtproxy/2" in in_loops


def chromium() -> str | None:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = find_tool(name)
        if found:
            return found
    return os.environ.get("MTPROXY_CHROMIUM")


def test_the_flame_graph_opens_in_a_browser(hot: HotPool, tmp_path: Path) -> None:
    browser = chromium()
    if browser is None:
        pytest.skip("no chromium here")
    page = tmp_path / "x.html"
    profile(hot.socket_path, "--seconds", "1", "--sampler", "builtin", "-o", str(page))
    # a click on a function, as a user would zoom
    click = """<script>
      const boxes = [...document.querySelectorAll("#graph div")];
      boxes.find(box => box.textContent.startsWith("burn")).click();
      document.body.dataset.problem = window.problem || "none";
    </script></body>"""
    text = page.read_text().replace("</body>", click)
    page.write_text(
        text.replace("<head>", "<head><script>onerror = e => window.problem = e</script>")
    )

    def dom(fragment: str) -> str:
        done = subprocess.run(
            [
                browser, "--headless", "--no-sandbox", "--disable-gpu",
                f"--user-data-dir={tmp_path / 'browser'}", "--dump-dom", f"file://{page}{fragment}",
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )  # fmt: skip
        return done.stdout

    shown = dom("#s=planted_hot")
    assert 'data-problem="none"' in shown
    found = re.findall(r'<div tabindex="0"([^>]*)>(\w+)[^<]*</div>', shown)
    boxes = {name: attributes for attributes, name in found}
    assert 'class="hit"' in boxes["planted_hot"]
    assert "class=" not in boxes["burn"]
    assert 'class="above"' in boxes["run_loop"]  # zoomed: its callers stand above it
    assert re.search(r'id="found">matched: \d+\.\d\d %', shown)


def test_ctrl_c_ends_a_session_with_what_has_come(hot: HotPool) -> None:
    command = [sys.executable, "-m", "mtproxy", "profile", "-S", hot.socket_path, "--seconds", "90"]
    client = subprocess.Popen(
        [*command, "--sampler", "builtin", "--format", "top"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment({"PYTHONPATH": str(ROOT)}),
    )

    def samples() -> bool:
        with connect(hot.socket_path) as wire:
            wire.send(b"profile status\n")
            found = re.search(rb"^Samples: (\d+)", wire.read_to_end(), re.MULTILINE)
        return found is not None and int(found[1]) > 5

    try:
        wait_until(samples, "samples", 60)
        client.send_signal(signal.SIGINT)
        out, said = client.communicate(timeout=30)
    finally:
        client.kill()
        client.wait()
    assert client.returncode == 0, said
    assert "the session was cut short" in out
    assert "planted_hot" in out


def test_a_reader_that_has_seen_enough(hot: HotPool) -> None:
    command = f"{sys.executable} -m mtproxy profile -S {hot.socket_path} --seconds 1 --idle"
    command += " --sampler builtin --format raw -o - | head -c 1"
    done = subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment({"PYTHONPATH": str(ROOT)}),
        check=True,
    )
    assert done.stdout == "m"
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


# --- the runtime socket of a real proxy


@pytest.fixture
def running(origin: Origin, request: pytest.FixtureRequest) -> Iterator[Program]:
    with Program("mtproxy", http(origin.port)) as program:
        program.wait_ready()
        yield program


def begin(program: Program, command: bytes = b"profile run 60s 50 idle\n"):
    wire = connect(program.socket_path)
    wire.send(command)
    wait_until(lambda: "Sampler: running" in program.cli("profile status"), "a session")
    return wire


def idle(program: Program) -> bool:
    return "Sampler: idle" in program.cli("profile status")


def test_a_session_ends_when_its_client_goes(running: Program) -> None:
    before = running.fd_count()
    wire = begin(running)
    second = connect(running.socket_path)
    second.send(b"profile run 1\n")
    assert second.read_to_end().startswith(b"A profiling session is running already")
    second.close()
    wire.close()
    wait_until(lambda: idle(running), "the end of the session")
    # and there may be another
    answer = running.cli("profile run 200ms 100 idle", 20)
    assert answer.startswith("@profile ")
    assert "@end " in answer
    assert answer.endswith("\n\n")
    wait_until(lambda: running.fd_count() <= before, "descriptors given back")


def test_profile_stop(running: Program) -> None:
    wire = begin(running)
    assert running.cli("profile stop") == "\n"
    answer = wire.read_to_end()
    wire.close()
    assert b"\n@end " in answer
    wait_until(lambda: idle(running), "the end of the session")


def test_a_client_that_half_closes_gets_everything(running: Program) -> None:
    with connect(running.socket_path) as wire:
        wire.send(b"profile run 300ms 100 idle\n")
        wire.shutdown_write()
        answer = wire.read_to_end()
    assert answer.count(b"@sample ") >= 1
    assert answer.split(b"\n")[-3].startswith(b"@end ")


def test_the_proxy_stops_in_the_middle_of_a_session(running: Program) -> None:
    wire = begin(running)
    assert running.stop() == 0
    wire.close()
    assert "failed" not in running.output()


def test_a_level_below_admin(origin: Origin) -> None:
    config = http(origin.port)
    with Program("mtproxy", config) as program:
        path = program.directory / "op.sock"
        program.config = f'global\n    stats socket "{path}" level operator\n{config}'
        program.kill()
        program.start()
        program.wait_ready()
        _, said = profile(str(path), "--seconds", "1", code=1)
        assert "'level admin'" in said


# --- task profiling


def test_tasks_are_counted(origin: Origin) -> None:
    config = f"global\n    profiling.tasks on\n{http(origin.port)}"
    with Program("mtproxy", config) as program:
        program.wait_ready()
        with program.connect() as wire:
            for _ in range(5):
                wire.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                wire.read_until(b"\r\n\r\n")
        text = program.cli("show profiling")
        assert re.search(r"^Per-task CPU profiling +: on ", text)
        rows = dict(re.findall(r"^  (\S+) +(\d+)   \S", text, re.MULTILINE))
        assert int(rows["HttpStream.run"]) >= 5
        assert "CliConnection.run" in rows
        program.cli("set profiling tasks off")

        def at_rest() -> bool:
            """The turn that each thread was in at the switch is still counted."""
            first = program.cli("show profiling tasks")
            return program.cli("show profiling tasks") == first

        wait_until(at_rest, "the counters to stand still")
