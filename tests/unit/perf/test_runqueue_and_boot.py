"""The verdicts of the benchmarks of the run queue and of the start, on figures made up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mtproxy.sched.runqueue import DEFAULT_RUNQUEUE_DEPTH
from perf import boot, runqueue
from perf.results import Series


def test_activity_of_both_programs() -> None:
    answers = "thread_id: 1 (1..2)\ndate_now: 12.5\nloops: 30 [ 10 20 ]\nlong_rq: 7\n\n"
    proxy: Any = SimpleNamespace(cli=lambda _command: answers)
    found = runqueue.activity(proxy)
    assert (found["loops"], found["long_rq"]) == (30, 7)


def depth_series(values: dict[tuple[int, int], list[float]]) -> list[Series]:
    return [
        Series(runqueue.name_of(threads, depth), metric, unit, figures)
        for (threads, depth), figures in values.items()
        for metric, unit in runqueue.UNITS.items()
    ]


def test_depths_against_the_default_and_the_best() -> None:
    base = DEFAULT_RUNQUEUE_DEPTH
    series = depth_series(
        {
            (1, 8): [40.0, 41.0],
            (1, base): [30.0, 31.0],
            (1, 200): [29.0, 32.0],
            (4, 8): [50.0, 50.0],
            (4, base): [45.0, 45.0],
            (4, 200): [45.0, 46.0],
        }
    )
    depths = sorted({8, base, 200})
    ratios = {one.name: one for one in runqueue.compared(series, 1, depths, over=False)}
    assert ratios[f"CPU, 1 thread: depth 8 / {base}"].told_apart
    assert not ratios[f"CPU, 1 thread: depth 200 / {base}"].told_apart
    assert len(ratios) == 6
    text = runqueue.best(series, 1, depths)
    assert text == (
        f"1 thread: depth 200 takes the least CPU (30.5 us/request); not told from it: {base}"
    ) or text == (
        f"1 thread: depth {base} takes the least CPU (30.5 us/request); not told from it: 200"
    )
    over = runqueue.compared(series, 4, depths, over=True)
    assert all("(over-subscribed)" in one.name for one in over)
    lost = runqueue.oversubscribed(series, [1, 4], 2)
    assert lost[0].name == "over-subscribed: CPU, 4 threads / 1"
    assert lost[0].values == (1.5, 45 / 31)
    assert set(runqueue.plots(series, [1, 4], depths, 2)) == {"CPU", "rate", "mean", "p99"}


def test_growth_by_maxconn() -> None:
    def one(maxconn: int, scan: str, start: float, memory: float) -> list[Series]:
        name = boot.name_of(64, maxconn, scan)
        figures = {"start": start, "CPU": start, "memory": memory}
        return [Series(name, m, boot.UNITS[m], [v, v + 1]) for m, v in figures.items()]

    series = [
        *one(boot.FEW, boot.HIGHEST, 200.0, 30.0),
        *one(boot.MANY, boot.HIGHEST, 204.0, 90.0),
        *one(boot.MANY, boot.FULL, 4000.0, 90.0),
    ]
    found = {one.name: one for one in boot.compared(series, 64, boot.MANY, over=True)}
    start = found["start, 64 threads (over-subscribed): growth by maxconn / 10 ms"]
    memory = found["memory, 64 threads (over-subscribed): growth by maxconn / 40 MB"]
    assert "CPU, 64 threads (over-subscribed): growth by maxconn / 10 ms" in found
    assert (start.values, start.met) == ((0.4, 0.4), True)
    assert (memory.values, memory.met) == ((1.5, 1.5), False)
    assert found["CPU, 64 threads (over-subscribed): scan full / highest"].median > 19
