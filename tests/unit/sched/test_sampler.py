"""The built-in sampler: sessions, bounds, and which lines are idle."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mtproxy.sched import sampler
from mtproxy.sched.loop import run_loop
from mtproxy.sched.polllines import function_in, poll_lines
from mtproxy.sched.pool import Pool
from mtproxy.sched.sampler import Sampler
from mtproxy.testing.pools import run_with
from mtproxy.testing.waiting import wait_until


def polls_in(text: str) -> list[int]:
    space: dict[str, Any] = {}
    exec(text, space)
    return poll_lines(space["f"].__code__)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("def f(poll):\n poll(0, 7)\n poll(1, 7)\n poll(0)", [3]),
        ("def f(poll, t):\n x = poll(t, 7)\n return x", [2]),
        ("def f(poll, t):\n poll(t / 1000 if t > 0 else 0, 7)", [2]),
        ("def f(poll, t):\n poll(\n  t,\n  7)", [2]),
        ("def f(poll, n):\n poll(0, n)\n g = poll\n g(n)", []),
        ("def f(n):\n poll(n)", []),  # not the local variable
    ],
)
def test_lines_that_may_wait(text: str, lines: list[int]) -> None:
    assert polls_in(text) == lines


def test_the_loop_waits_in_one_line() -> None:
    code = run_loop.__code__
    lines = poll_lines(code)
    assert len(lines) == 1
    source = Path(code.co_filename).read_text().splitlines()
    assert "poll(" in source[lines[0] - 1]
    assert "poll(0" not in source[lines[0] - 1]
    # what a client reads from the source is the same
    read = function_in(code.co_filename, "run_loop")
    assert read is not None
    assert poll_lines(read) == lines


def test_function_in_tells_absence(tmp_path) -> None:
    (tmp_path / "a.py").write_text("def g(): pass\n")
    (tmp_path / "b.py").write_text("def (\n")
    assert function_in(str(tmp_path / "a.py"), "g") is not None
    assert function_in(str(tmp_path / "a.py"), "f") is None
    assert function_in(str(tmp_path / "b.py"), "f") is None
    assert function_in(str(tmp_path / "c.py"), "f") is None


def session(
    play: Callable[[Pool, Sampler], None] = lambda pool, one: None, **options: Any
) -> tuple[str, Sampler]:
    """A session of a pool of two idle threads: what it gave, to its end."""
    pool = Pool(2, watchdog_ms=0)
    news = threading.Event()
    one = Sampler(pool, news.set, **options)
    pieces: list[bytes] = []

    def conduct() -> None:
        one.start()
        play(pool, one)
        while True:
            ended = one.ended
            pieces.append(one.take())
            if ended:
                return
            assert news.wait(20)
            news.clear()

    run_with(pool, conduct)
    return b"".join(pieces).decode(), one


def control(text: str, kind: str) -> list[Any]:
    return [
        json.loads(line.split(" ", 1)[1])
        for line in text.splitlines()
        if line.startswith(f"@{kind} ")
    ]


def test_a_session() -> None:
    text, one = session(seconds=0.5, rate=100, idle=True)
    assert "\n\n" not in text  # an empty line ends an answer
    (header,), (end,) = control(text, "profile"), control(text, "end")
    assert header["pid"] == os.getpid()
    assert header["idle"] == [[run_loop.__code__.co_filename, poll_lines(run_loop.__code__)[0]]]
    assert text.startswith("@profile ")
    assert text.splitlines()[-1].startswith("@end ")
    assert end["samples"] == one.samples == text.count("@sample ")
    assert end["dumps"] == one.samples
    assert end["dropped"] == 0
    assert one.samples >= 2
    assert 0.4 < end["seconds"] < 15
    names = set(control(text, "threads")[0].values())
    assert {"mtproxy/1", "mtproxy/2"} <= names
    assert " in run_loop\n" in text


def test_nothing_is_dumped_while_all_threads_wait() -> None:
    text, one = session(seconds=0.3, rate=100)
    assert one.samples > one.dumps
    assert text.count("@sample ") == one.samples


def test_stop_ends_it_early() -> None:
    def play(_pool: Pool, one: Sampler) -> None:
        wait_until(lambda: one.samples, "a sample")
        one.stop()

    text, _ = session(play, seconds=3600, rate=50)
    assert control(text, "end")[0]["seconds"] < 60


def test_the_end_of_the_pool_ends_it() -> None:
    def play(pool: Pool, one: Sampler) -> None:
        wait_until(lambda: one.samples, "a sample")
        pool.stopping_now = True
        wait_until(lambda: one.ended, "the end")

    session(play, seconds=3600, rate=50)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "MAX_PENDING", 2000)

    def play(_pool: Pool, one: Sampler) -> None:
        wait_until(lambda: one.dropped >= 2, "samples that are dropped", 20)
        one.take()  # now there is room again
        kept = one.samples - one.dropped
        wait_until(lambda: one.samples - one.dropped > kept, "samples that are kept", 20)
        one.stop()

    text, one = session(play, seconds=3600, rate=1000, idle=True)
    assert control(text, "end")[0]["dropped"] == one.dropped


def test_failure_is_told(monkeypatch: pytest.MonkeyPatch, capfd) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no dump")

    monkeypatch.setattr(sampler.faulthandler, "dump_traceback", fail)
    text, _ = session(seconds=1, idle=True)
    assert control(text, "end") == [{"error": "OSError: no dump"}]
    assert "no dump" in capfd.readouterr().err


def test_bounds_of_what_may_be_asked() -> None:
    one = Sampler(Pool(1, watchdog_ms=0), lambda: None, seconds=10**9, rate=10**9)
    assert one.seconds == sampler.MAX_SECONDS
    assert one.rate == sampler.MAX_RATE


def test_pace_keeps_to_its_shares() -> None:
    pace = sampler._Pace(100)
    pace._cpus = 1.0
    for _ in range(100):
        pace.learn(100_000, 100_000)  # 0.1 ms: 1 % of a CPU at 100 Hz
    assert pace.interval_ns() == 10_000_000
    for _ in range(100):
        pace.learn(400_000, 400_000)  # 0.4 ms: too dear
    assert pace.interval_ns() == pytest.approx(400_000 / sampler.CPU_SHARE, rel=0.05)
    pace._cpus = 4.0
    assert pace.interval_ns() == 10_000_000
    for _ in range(100):
        pace.learn(100_000, 10_000_000)  # stopped for 10 ms each
    assert pace.interval_ns() == pytest.approx(10_000_000 / sampler.STOPPED_SHARE, rel=0.05)


def test_refused_where_it_is_unsafe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "free_threaded", lambda: True)
    monkeypatch.setattr(sampler.sys, "version_info", (3, 13, 1))
    assert "3.13.2" in (sampler.why_not() or "")
    monkeypatch.setattr(sampler.sys, "version_info", (3, 13, 2))
    assert sampler.why_not() is None
    monkeypatch.setattr(sampler, "free_threaded", lambda: False)
    monkeypatch.setattr(sampler.sys, "version_info", (3, 13, 0))
    assert sampler.why_not() is None
