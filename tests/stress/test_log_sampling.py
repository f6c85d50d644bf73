"""Sampling by real threads through real loggers: no position lost, none served twice."""

from __future__ import annotations

import random
import re
from collections import Counter as Tally
from types import SimpleNamespace

import pytest

from mtproxy.base.log_settings import LogSettings, RingSettings
from mtproxy.config.keywords_log import parse_sample
from mtproxy.log.logger import ThreadLogs, make_logger, sampling_of
from mtproxy.log.ring import Ring
from mtproxy.log.sampling import STRATEGIES
from mtproxy.sync import stats
from mtproxy.testing.logrecord import FakeRecord
from mtproxy.testing.threads import run_threads

THREADS = 4
#: of each thread; a multiple of every size below in all
MESSAGES = 900
SPECS = ["1:4", "2:4", "3-4:4", "1,3-5:6", "2,4,6-8:9", "1-2000:3600", "3600:3600"]


def shares() -> list[int]:
    found = []
    for spec in SPECS:
        sample = parse_sample(spec)
        width = sum(last - first + 1 for first, last in sample.ranges)
        assert THREADS * MESSAGES % sample.size == 0
        found.append(THREADS * MESSAGES // sample.size * width)
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_line_gets_its_share(strategy: str) -> None:
    stats.configure(THREADS)
    rings = {f"r{n}": Ring(RingSettings(f"r{n}", size=1 << 20)) for n in range(len(SPECS))}
    logs = [
        LogSettings(None, ring=f"r{n}", sample=parse_sample(spec)) for n, spec in enumerate(SPECS)
    ]
    shared = sampling_of(logs, strategy)

    def work(tid: int) -> None:
        rng = random.Random(tid)
        ctx = SimpleNamespace(tid=tid)
        thread_logs = ThreadLogs(ctx, rings=rings)
        log = make_logger(
            logs,
            None,
            1,
            ctx,
            log_format="%ST",
            thread_logs=thread_logs,
            shared_samples=shared,
        )
        left = MESSAGES
        while left:
            turn = min(left, rng.randint(1, 40))
            for number in range(turn):
                log.log(FakeRecord(status=tid * MESSAGES + left - number))
            left -= turn
            thread_logs.flush()

    run_threads(THREADS, work)
    got = []
    for ring in rings.values():
        ring._check()
        messages = ring.read(0, 1 << 20)[0]
        got.append(len(messages))
        assert max(Tally(messages).values()) == 1, f"{ring.name} got a message twice"
        assert all(re.fullmatch(rb"\d+", message) for message in messages)
    assert got == shares()
    if strategy == "index":
        # the first three lines divide the messages: one index decides for all of them
        three = [m for n in range(3) for m in rings[f"r{n}"].read(0, 1 << 20)[0]]
        assert len(set(three)) == len(three) == THREADS * MESSAGES
