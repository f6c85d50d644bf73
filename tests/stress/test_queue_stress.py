"""Queues by real threads at once: never more sessions than slots, and nobody waits for ever."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from types import SimpleNamespace

import pytest

from mtproxy.proxy.queue import Joined, Pendconn
from mtproxy.proxy.transitions import set_maint, set_ready
from mtproxy.sync import stats
from mtproxy.testing.proxies import FakeContext, make_backend
from mtproxy.testing.threads import run_threads

pytestmark = pytest.mark.stress
THREADS = 4
stats.configure(THREADS + 1)


class Inbox:
    """What other threads post, and the requests that are to run on this one."""

    def __init__(self) -> None:
        self.messages: deque[Pendconn] = deque()

    def post(self, message: Pendconn) -> None:
        self.messages.append(message)


class FakeTask:
    def __init__(self, inbox: Inbox) -> None:
        self.ctx = SimpleNamespace(shared=inbox)

    def wake(self) -> None:
        """The thread looks at all its requests anyway."""


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("balance", ["roundrobin", "leastconn"])
def test_slots_are_exact(balance: str, seed: int) -> None:
    limits = [1, 2, 3]
    shared, sides = make_backend(
        [1, 2, 1], balance=balance, options=["redispatch"], maxconns=limits, threads=THREADS
    )
    queue = shared.queue
    assert queue is not None
    inside = [0] * len(limits)
    guard = threading.Lock()
    inboxes = [Inbox() for _ in range(THREADS)]
    ends = time.monotonic() + 1.5
    done = [0] * THREADS

    def enter(position: int) -> None:
        with guard:
            inside[position] += 1
            assert inside[position] <= limits[position]

    def leave(position: int) -> None:
        with guard:
            inside[position] -= 1

    def work(tid: int) -> None:
        rng = random.Random(seed * 100 + tid)
        side, ctx = sides[tid], FakeContext(tid)
        waiting: list[Pendconn] = []
        serving: list[int] = []
        while time.monotonic() < ends or waiting or serving:
            inboxes[tid].messages.clear()
            for pend in waiting[:]:
                if pend.place is None:
                    waiting.remove(pend)
                    if pend.target is not None:
                        position = pend.target.position
                        side.servers[position].take()
                        enter(position)
                        serving.append(position)
                elif rng.random() < 0.02 and queue.leave(pend, tid):
                    waiting.remove(pend)
            if serving and rng.random() < 0.6:
                position = serving.pop(rng.randrange(len(serving)))
                leave(position)
                side.servers[position].release()
                done[tid] += 1
            if time.monotonic() >= ends or len(waiting) > 5:
                continue
            pend = Pendconn(FakeTask(inboxes[tid]), tid, rng.randrange(3), 0, bound=False)  # type: ignore[arg-type]
            if rng.random() < 0.3:
                position = rng.randrange(len(limits))
                limit = shared.servers[position].limit
                assert limit is not None
                if queue.join_server(limit, pend, tid) is Joined.GRANTED:
                    side.servers[position].take()
                    enter(position)
                    serving.append(position)
                else:
                    waiting.append(pend)
                continue
            while True:
                seen = queue.freed
                server = side.pick(ctx)
                if server is not None:
                    enter(server.position)
                    serving.append(server.position)
                    break
                if not shared.up:
                    break
                if queue.join(pend, tid, seen) is Joined.WAITING:
                    waiting.append(pend)
                    break
            if tid == 0 and rng.random() < 0.05:
                state = shared.servers[rng.randrange(2)]
                (set_maint if rng.random() < 0.5 else set_ready)(state, ctx)  # type: ignore[arg-type]
        if tid == 0:
            for state in shared.servers:
                set_ready(state, ctx)  # type: ignore[arg-type]

    run_threads(THREADS, work)
    assert inside == [0] * len(limits)
    assert [limit.served for limit in queue.limits] == [0] * len(limits)
    assert queue.waiting_in_all == 0
    assert all(done)
    queue._check()
