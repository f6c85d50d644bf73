"""Weighted round robin: exact shares per cycle, even spread, and whatever changes in between."""

from __future__ import annotations

from collections import Counter
from math import gcd

from hypothesis import given
from hypothesis import strategies as st

from mtproxy.proxy.balance import SCALE
from mtproxy.proxy.balance.order import WeightedOrder
from mtproxy.proxy.transitions import set_drain, set_maint, set_ready, set_weight
from mtproxy.sync import stats
from mtproxy.testing.proxies import FakeContext, make_backend

WEIGHTS = st.lists(st.integers(0, 12) | st.integers(0, 256), min_size=1, max_size=8).filter(any)
CTX = FakeContext()
stats.configure(4)


@given(WEIGHTS)
def test_each_cycle_has_exact_shares(weights: list[int]) -> None:
    _, (backend,) = make_backend(weights)
    divisor = gcd(*weights)
    cycle = sum(weights) // divisor
    share = Counter({i: weight // divisor for i, weight in enumerate(weights) if weight})
    done: Counter[int] = Counter()
    for number in range(4):
        seen = Counter(backend.pick(CTX).position for _ in range(cycle))
        done += seen
        # the first cycle may lend one turn to the second, see WeightedOrder
        if number:
            assert seen == share
        for position, weight in enumerate(weights):
            assert abs(done[position] - (number + 1) * weight // divisor) <= 1


@given(WEIGHTS, st.integers(1, 1000))
def test_turns_are_spread_evenly(weights: list[int], count: int) -> None:
    """A server among n is never further from its share than about n turns, as in HAProxy.

    The worst are a very heavy server and many light ones: it goes first whenever it is due.
    """
    order = WeightedOrder([SCALE * weight for weight in weights])
    done = [0] * len(weights)
    total = sum(weights)
    made = 0
    while made < count:
        for position in order.block():
            done[position] += 1
            made += 1
            ahead = done[position] - made * weights[position] / total
            assert abs(ahead) < 2 + len(weights)


CHANGES = st.one_of(
    st.tuples(st.just("picks"), st.integers(1, 40)),
    st.tuples(st.just("avoid"), st.integers(0, 4)),
    st.tuples(st.sampled_from([set_maint, set_drain, set_ready]), st.integers(0, 4)),
    st.tuples(st.just("weight"), st.integers(0, 4), st.integers(0, 5) | st.integers(0, 256)),
)


@given(
    st.lists(st.integers(0, 5), min_size=5, max_size=5),
    st.sets(st.integers(0, 4)),
    st.booleans(),
    st.lists(CHANGES, max_size=30),
)
def test_only_usable_servers_whatever_changes(weights, backups, every, changes) -> None:
    options = ("allbackups",) if every else ()
    shared, (backend,) = make_backend(weights, backups=backups, options=options)
    since: list[int] = []

    def usable() -> dict[int, int]:
        servers = [s for s in shared.servers if s.usable]
        active = [s for s in servers if not s.settings.backup]
        chosen = active or (servers if every else servers[:1])
        return {s.position: s.weight for s in chosen}

    for kind, *args in changes:
        expected = usable()
        if kind == "picks":
            for _ in range(args[0]):
                server = backend.pick(CTX)
                assert (server is None) == (not expected)
                if server is not None:
                    assert server.position in expected
                    since.append(server.position)
            # each got what its weight is worth since the last change
            for position, weight in expected.items():
                fair = len(since) * weight / sum(expected.values())
                assert abs(since.count(position) - fair) < 2 + len(expected) / 2
        elif kind == "avoid":
            server = backend.pick(CTX, backend.servers[args[0]])
            if not expected:
                assert server is None
            else:
                assert server.position in expected
                assert server.position != args[0] or len(expected) == 1
                since.clear()
        elif kind == "weight":
            set_weight(shared.servers[args[0]], CTX, args[1])
            since.clear()
        else:
            kind(shared.servers[args[0]], CTX)
            since.clear()
        shared._check()
