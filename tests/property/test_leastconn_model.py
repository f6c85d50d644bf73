"""LeastConn against the obvious implementation: look at every server, each time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mtproxy.proxy.transitions import set_weight
from mtproxy.sync import stats
from mtproxy.testing.proxies import FakeContext, make_backend

CTX = FakeContext()
SIZE = 4
stats.configure(4)

STEPS = st.one_of(
    st.tuples(st.just("pick"), st.none() | st.integers(0, SIZE - 1)),
    st.tuples(st.just("pick"), st.none()),
    st.tuples(st.just("release"), st.integers(0, 100)),
    st.tuples(st.just("take"), st.integers(0, SIZE - 1)),
    st.tuples(st.just("weight"), st.integers(0, SIZE - 1), st.integers(0, 3) | st.just(256)),
)


class Model:
    """Values and since when each server has its value."""

    def __init__(self, weights: list[int]) -> None:
        self.weights = list(weights)
        self.sessions = [0] * len(weights)
        self.values: list[int | None] = [None] * len(weights)
        self.since = [0] * len(weights)
        self.moves = 0
        for position in range(len(weights)):
            self.place(position)

    def place(self, position: int) -> None:
        weight, sessions = self.weights[position], self.sessions[position]
        if not weight:
            value = None
        else:
            value = (sessions + 1) * 256 // weight if sessions else 0
        if value is not None and value != self.values[position]:
            self.moves += 1
            self.since[position] = self.moves
        self.values[position] = value

    def choose(self, avoid: int | None) -> int | None:
        usable = [i for i, value in enumerate(self.values) if value is not None]
        chosen = [i for i in usable if i != avoid] or usable
        if not chosen:
            return None
        best = min(chosen, key=lambda i: (self.values[i], self.since[i]))
        self.add(best, 1)
        return best

    def add(self, position: int, change: int) -> None:
        self.sessions[position] += change
        self.place(position)


@given(
    st.lists(st.integers(0, 4), min_size=SIZE, max_size=SIZE),
    st.lists(STEPS, max_size=80),
    st.integers(1, 3),
)
def test_leastconn_chooses_like_the_model(weights, steps, threads) -> None:
    shared, sides = make_backend(weights, balance="leastconn", threads=threads)
    model = Model(weights)
    held = []
    for number, (kind, *args) in enumerate(steps):
        backend = sides[number % threads]
        if kind == "pick":
            avoid = None if args[0] is None else backend.servers[args[0]]
            server = backend.pick(CTX, avoid)
            expected = model.choose(args[0])
            assert (None if server is None else server.position) == expected
            if server is not None:
                assert server is backend.servers[server.position]
                held.append(server)
        elif kind == "release":
            if held:
                server = held.pop(args[0] % len(held))
                server.release()
                model.add(server.position, -1)
        elif kind == "take":
            backend.servers[args[0]].take()
            held.append(backend.servers[args[0]])
            model.add(args[0], 1)
        else:
            position, weight = args
            set_weight(shared.servers[position], CTX, weight)
            model.weights[position] = weight
            model.place(position)
        shared._check()
        sessions = [state.sessions() for state in shared.servers]
        assert sessions == model.sessions
