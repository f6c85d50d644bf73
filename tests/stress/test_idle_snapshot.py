"""Reports look at a thread's idle connections while it uses them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from mtproxy.testing.proxies import make_backend
from mtproxy.testing.threads import run_threads

pytestmark = pytest.mark.stress


def test_idle_connections_are_seen_whole_at_some_moment() -> None:
    _, sides = make_backend([1])
    server = sides[0].servers[0]
    idle: Any = server.idle
    idle.extend(range(500))
    done = threading.Event()

    def work(tid: int) -> None:
        if tid:
            for _ in range(3_000):
                seen: Any = server.look_at_idle()
                # one is taken and given back at a time, at the same end
                assert len(seen) in (499, 500)
                assert seen[:499] == list(range(499))
            done.set()
        else:
            while not done.is_set():
                idle.append(idle.pop())

    run_threads(2, work)
