"""The benchmarks of the wait queue: that each variant runs, and what is concluded."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from mtproxy.sync import stats
from perf import checks, waitqueue


@pytest.mark.parametrize("name", waitqueue.QUEUES)
def test_every_queue_runs_with_several_threads(name: str) -> None:
    stats.configure(3)
    run = waitqueue.Run(waitqueue.QUEUES[name](), threads=3, inter=2, spin=10)
    found = run.measure(0.05, timers=60)
    assert set(found) == set(waitqueue.UNITS)
    assert found["rate"] > 0
    assert 0 < found["scan"] < found["all"]
    assert found["all"] == pytest.approx(found["scan"] + found["queueing"])
    assert 0 < found["share"] < 100
    assert len(run.queue) == 60, "a timer was lost"


def test_a_spin_is_some_microseconds() -> None:
    assert 1 <= waitqueue.spin_count(1) < waitqueue.spin_count(50)


def test_all_servers_are_checked_on_their_listeners() -> None:
    config = checks.checks_config([7, 8], 5, "10ms", 2, "mutex")
    assert config.count(" check\n") == 5
    assert config.count("127.0.0.1:7 check") == 3
    assert "nbthread 2" in config
    assert "tune.wait-queue mutex" in config


def test_what_a_round_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 2.0])
    cpu = iter([1.0, 2.5])
    done = iter(["tasksw: 100 [ 60 40 ]\n", "tasksw: 3100 [ 1600 1500 ]\n"])
    lock = {f"{kind}_wait_ns": 10_000_000 for kind in ("read", "seek", "write")}
    lock |= {f"{kind}_locks": 100 for kind in ("read", "seek", "write")}
    answers = json.dumps([lock | {"label": "TASK_WQ", "longest_wait_ns": 3_000_000}])

    def cli(command: str) -> str:
        return next(done) if command == "show activity" else answers

    monkeypatch.setattr(checks.time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(checks.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(checks.procfs, "cpu_seconds", lambda _pid: next(cpu))
    proxy: Any = SimpleNamespace(cli=cli, pid=1)
    found = checks.measure_one(proxy, threads=2, seconds=2)
    assert found["rate"] == 1500
    assert found["per CPU second"] == 2000
    assert found["CPU"] == 75
    assert found["waiting"] == pytest.approx(0.75)  # 30 ms of 4 thread seconds
    assert found["per lock"] == 100_000
    assert found["locks"] == 0.1
    assert found["longest"] == 3
