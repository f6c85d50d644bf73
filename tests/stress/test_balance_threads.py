"""Balancing by real threads at once, seeded and bounded."""

from __future__ import annotations

import random
import threading
from collections import Counter
from itertools import chain, islice, repeat

import pytest

from mtproxy.base.settings import BalanceSettings
from mtproxy.proxy.balance import SCALE, HashOf
from mtproxy.proxy.balance.order import WeightedOrder
from mtproxy.proxy.transitions import set_maint, set_ready, set_weight
from mtproxy.sync import stats
from mtproxy.testing.proxies import FakeContext, make_backend
from mtproxy.testing.threads import run_threads

pytestmark = pytest.mark.stress
THREADS = 4
stats.configure(THREADS + 1)


@pytest.mark.parametrize("weights", [[1, 1, 1], [5, 3, 1, 1], [256, 255, 7], [1] * 300])
def test_all_threads_together_follow_one_order(weights: list[int]) -> None:
    _, sides = make_backend(weights, threads=THREADS)
    each = 50_000
    counts = [Counter[int]() for _ in sides]

    def work(tid: int) -> None:
        ctx, pick, mine = FakeContext(tid), sides[tid].pick, counts[tid]
        for _ in range(each):
            server = pick(ctx)  # type: ignore[arg-type]
            assert server is not None
            mine[server.position] += 1
            server.release()

    run_threads(THREADS, work)
    total = each * THREADS
    order = WeightedOrder([SCALE * weight for weight in weights])
    expected = islice(chain.from_iterable(order.block() for _ in repeat(None)), total)
    assert sum(counts, Counter()) == Counter(expected)


def _some_keys(seed: int) -> HashOf:
    """A stream's hash: any, or none."""
    rng = random.Random(seed)
    return lambda _stream: rng.getrandbits(32) if rng.random() < 0.8 else None


KEYED = [("source", False), ("source", True)]
TURNS = [(name, False) for name in ("roundrobin", "leastconn", "static-rr", "first", "random")]


@pytest.mark.parametrize(("balance", "consistent"), [*TURNS, *KEYED, ("uri", True)])
@pytest.mark.parametrize("seed", [1, 2])
def test_servers_that_went_are_not_picked(balance: str, consistent: bool, seed: int) -> None:
    """One thread takes servers out and puts them back while the others pick."""
    params = BalanceSettings(consistent=consistent)
    shared, sides = make_backend([1, 2, 3, 4], balance=balance, threads=THREADS, params=params)
    if balance == "source":
        for side in sides:
            # without a function all streams are without a key
            side.set_hash(_some_keys(side.tid))
    #: counts changes of each server: odd from the moment it is out until just before it is back
    out = [0] * 4
    done = threading.Event()

    def change() -> None:
        rng, ctx = random.Random(seed), FakeContext(0)
        for _ in range(300):
            state = shared.servers[rng.randrange(3)]
            if state.maint:
                out[state.position] += 1
                set_ready(state, ctx)
            else:
                set_maint(state, ctx)
                out[state.position] += 1
            set_weight(shared.servers[3], ctx, rng.randint(1, 256))
        done.set()

    def work(tid: int) -> None:
        if tid == 0:
            change()
            return
        rng, ctx, pick = random.Random(seed * 100 + tid), FakeContext(tid), sides[tid].pick
        held = []
        picks = 0
        while not done.is_set() or picks < 1000:
            before = out.copy()
            avoid = sides[tid].servers[rng.randrange(4)] if rng.random() < 0.1 else None
            server = pick(ctx, avoid)  # type: ignore[arg-type]
            after = out.copy()
            picks += 1
            assert server is not None
            state = before[server.position]
            assert not (state % 2 and after[server.position] == state), "picked while out"
            held.append(server)
            if len(held) > 5:
                held.pop(rng.randrange(len(held))).release()
        for server in held:
            server.release()

    run_threads(THREADS, work)
    assert [state.sessions() for state in shared.servers] == [0] * 4
    shared._check()
    last = FakeContext(0)
    for state in shared.servers:
        set_ready(state, last)
        set_weight(state, last, 1)
    turns = 4 if balance == "leastconn" else 300
    picked = {sides[0].pick(last).position for _ in range(turns)}  # type: ignore[union-attr]
    assert picked == ({0} if balance == "first" else {0, 1, 2, 3})
    shared._check()


def test_leastconn_loses_no_session() -> None:
    """Picks and releases of all threads add up to nothing in the end."""
    shared, sides = make_backend([1] * 8, balance="leastconn", threads=THREADS)

    def work(tid: int) -> None:
        rng, ctx, pick = random.Random(tid), FakeContext(tid), sides[tid].pick
        held = []
        for _ in range(8000):
            if len(held) < 20 or rng.random() < 0.5:
                held.append(pick(ctx))  # type: ignore[arg-type]
            else:
                held.pop(0).release()  # type: ignore[union-attr]
        for server in held:
            server.release()  # type: ignore[union-attr]

    run_threads(THREADS, work)
    shared._check()
    assert [state.sessions() for state in shared.servers] == [0] * 8
    # all eight are idle again, hence each is chosen once
    ctx = FakeContext(0)
    chosen = [sides[0].pick(ctx).position for _ in range(8)]  # type: ignore[arg-type, union-attr]
    assert sorted(chosen) == list(range(8))
