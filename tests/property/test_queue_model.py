"""Queues against the obvious implementation: lists that are searched each time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mtproxy.proxy.queue import BackendQueue, Joined, Pendconn
from mtproxy.proxy.transitions import set_maint, set_ready
from mtproxy.sync import stats
from mtproxy.testing.proxies import FakeContext, make_backend
from mtproxy.testing.sequencer import Sequencer, explore

CTX = FakeContext()
stats.configure(4)


class FakeTask:
    """Notes that its stream was woken."""

    def __init__(self) -> None:
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


def request(priority: int = 0, due: int = 0, *, bound: bool = False, tid: int = 0) -> Pendconn:
    return Pendconn(FakeTask(), tid, priority, due, bound=bound)  # type: ignore[arg-type]


KEYS = (st.integers(-2, 2), st.integers(0, 3))
STEPS = st.one_of(
    st.tuples(st.just("ask"), *KEYS),
    st.tuples(st.just("ask"), *KEYS),
    st.tuples(st.just("bind"), *KEYS, st.integers(0, 1), st.booleans()),
    st.tuples(st.just("release"), st.integers(0, 1)),
    st.tuples(st.just("leave"), st.integers(0, 30)),
    st.tuples(st.just("down"), st.integers(0, 1)),
    st.tuples(st.just("up"), st.integers(0, 1)),
    st.tuples(st.just("maxconn"), st.integers(0, 1), st.integers(1, 4)),
)


class Model:
    """Who is served and who waits: (key, number in order of arrival, server or None, bound)."""

    def __init__(self, limits: list[int]) -> None:
        self.limits = limits
        self.served = [0] * len(limits)
        self.up = [True] * len(limits)
        self.waiting: list[tuple[tuple[int, int], int, int | None, bool]] = []

    def room(self, position: int) -> bool:
        mine = any(entry[2] == position for entry in self.waiting)
        return not mine and self.served[position] < self.limits[position]

    def settle(self, position: int) -> list[int]:
        given = []
        while self.served[position] < self.limits[position]:
            fit = [
                entry
                for entry in self.waiting
                if entry[2] == position or (entry[2] is None and self.up[position])
            ]
            if not fit:
                break
            # at the same key the server's own queue goes first
            best = min(fit, key=lambda entry: (entry[0], entry[2] is None, entry[1]))
            self.waiting.remove(best)
            self.served[position] += 1
            given.append(best[1])
        return given


@given(st.lists(st.integers(1, 3), min_size=2, max_size=2), st.lists(STEPS, max_size=60))
def test_queue_against_lists(limits: list[int], steps: list[tuple[object, ...]]) -> None:
    shared, (side,) = make_backend([1, 1], options=["redispatch"], maxconns=limits)
    queue = shared.queue
    assert queue is not None
    model = Model(list(limits))
    all_requests: list[Pendconn] = []

    def granted(numbers: list[int], position: int) -> None:
        for number in numbers:
            pend = all_requests[number]
            assert pend.target is shared.servers[position]
            assert pend.place is None
            assert pend.task.woken == 1  # type: ignore[attr-defined]
            side.servers[position].take()

    for name, *args in steps:
        if name == "ask":
            priority, due = args
            pend = request(priority, due)  # type: ignore[arg-type]
            seen = queue.freed
            server = side.pick(CTX)
            rooms = [model.up[i] and model.room(i) for i in range(2)]
            if server is not None:
                assert rooms[server.position]
                model.served[server.position] += 1
                continue
            assert not any(rooms)
            if not shared.up:
                continue
            assert side.pick_any(CTX) is None
            assert queue.join(pend, 0, seen) is Joined.WAITING
            model.waiting.append((pend.key, len(all_requests), None, False))
            all_requests.append(pend)
        elif name == "bind":
            priority, due, position, bound = args
            assert isinstance(position, int)
            pend = request(priority, due, bound=bool(bound))  # type: ignore[arg-type]
            limit = shared.servers[position].limit
            assert limit is not None
            room = model.room(position)
            joined = queue.join_server(limit, pend, 0)
            assert joined is (Joined.GRANTED if room else Joined.WAITING)
            if room:
                side.servers[position].take()
                model.served[position] += 1
            else:
                model.waiting.append((pend.key, len(all_requests), position, bool(bound)))
                all_requests.append(pend)
        elif name == "release":
            (position,) = args
            assert isinstance(position, int)
            if model.served[position]:
                model.served[position] -= 1
                side.servers[position].release()
                granted(model.settle(position), position)
        elif name == "leave":
            (number,) = args
            assert isinstance(number, int)
            if number < len(all_requests):
                waits = [entry for entry in model.waiting if entry[1] == number]
                assert queue.leave(all_requests[number], 0) is bool(waits)
                for entry in waits:
                    model.waiting.remove(entry)
        elif name == "down":
            (position,) = args
            assert isinstance(position, int)
            if not model.up[position]:
                continue
            model.up[position] = False
            set_maint(shared.servers[position], CTX)  # type: ignore[arg-type]
            for entry in list(model.waiting):
                if entry[2] == position and not entry[3]:
                    model.waiting.remove(entry)
                    assert all_requests[entry[1]].moved
        elif name == "up":
            (position,) = args
            assert isinstance(position, int)
            if model.up[position]:
                continue
            model.up[position] = True
            set_ready(shared.servers[position], CTX)  # type: ignore[arg-type]
            granted(model.settle(position), position)
        else:
            position, maxconn = args
            assert isinstance(position, int)
            assert isinstance(maxconn, int)
            limit = shared.servers[position].limit
            assert limit is not None
            model.limits[position] = maxconn
            queue.set_maxconn(limit, maxconn, 0)
            granted(model.settle(position), position)
        for position, server_state in enumerate(shared.servers):
            limit = server_state.limit
            assert limit is not None
            assert limit.served == model.served[position]
            assert limit.waiting.length == sum(e[2] == position for e in model.waiting)
        assert queue.waiting.length == sum(e[2] is None for e in model.waiting)
        queue._check()


def test_no_wake_up_is_lost_in_any_order_of_two_threads() -> None:
    """One finds the only server full and goes to wait while the other gives its slot back."""

    def scenario(seq: Sequencer):
        shared, sides = make_backend([1], maxconns=[1], threads=2)
        queue = shared.queue
        assert queue is not None
        seq.points(BackendQueue, "join")
        seq.points(BackendQueue, "give_back")
        seq.points(BackendQueue, "some_room")
        busy = sides[1].pick(CTX)
        assert busy is not None
        pend = request(tid=1)
        got: list[str] = []

        def ask() -> None:
            while True:
                seen = queue.freed
                if sides[0].pick(CTX) is not None:
                    got.append("at once")
                    return
                if queue.join(pend, 0, seen) is Joined.WAITING:
                    return

        seq.spawn("asks", ask)
        seq.spawn("leaves", busy.release)

        def check() -> None:
            limit = shared.servers[0].limit
            assert limit is not None
            assert limit.served == 1
            assert got or pend.target is shared.servers[0]
            queue._check()

        return check

    assert explore(scenario) >= 3


def test_who_gives_up_while_it_is_served_learns_of_it() -> None:
    def scenario(seq: Sequencer):
        shared, sides = make_backend([1], maxconns=[1], threads=2)
        queue = shared.queue
        assert queue is not None
        seq.points(BackendQueue, "leave")
        seq.points(BackendQueue, "give_back")
        busy = sides[1].pick(CTX)
        assert busy is not None
        pend = request(tid=1)
        assert queue.join(pend, 0, queue.freed) is Joined.WAITING
        left: list[bool] = []

        seq.spawn("gives up", lambda: left.append(queue.leave(pend, 0)))
        seq.spawn("leaves", busy.release)

        def check() -> None:
            limit = shared.servers[0].limit
            assert limit is not None
            assert left == [pend.target is None]
            assert limit.served == (0 if left[0] else 1)
            queue._check()

        return check

    assert explore(scenario) >= 2


def test_heaps_do_not_grow_with_those_who_left() -> None:
    shared, _ = make_backend([1], maxconns=[1])
    queue = shared.queue
    assert queue is not None
    stays = request(-1)
    assert queue.join(stays, 0, queue.freed) is Joined.WAITING
    for number in range(1000):
        pend = request(due=number)
        queue.join(pend, 0, queue.freed)
        assert queue.leave(pend, 0)
        queue.waiting._check()
    assert list(queue.waiting) == [stays]


def test_the_limit_follows_the_load() -> None:
    shared, (side,) = make_backend([1], maxconns=[10], minconn=2, fullconn=20)
    limit = shared.servers[0].limit
    assert limit is not None
    found = []
    for sessions in (0, 1, 4, 5, 10, 19, 20, 100):
        side.counters.conn_cur = sessions
        found.append(limit.most())
    assert found == [2, 2, 2, 2, 5, 9, 10, 10]
