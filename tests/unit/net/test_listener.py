"""Accepting: on the least loaded thread, within the limits, and through every kind of trouble."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mtproxy.net.listener import Acceptor
from mtproxy.sched.context import ThreadContext, ThreadShared
from mtproxy.testing.pools import poll, run_with, running_pool
from mtproxy.testing.waiting import PATIENCE, wait_until


class Sessions:
    """Starts nothing: keeps what it is given, with the thread it was given on."""

    def __init__(self) -> None:
        self.started: list[tuple[int, socket.socket, object]] = []

    def __call__(self, ctx: ThreadContext, sock: socket.socket, peer: object) -> None:
        self.started.append((ctx.tid, sock, peer))

    def close(self) -> None:
        for _, sock, _ in self.started:
            sock.close()


class Limit:
    """A gate for so many connections."""

    def __init__(self, left: int) -> None:
        self.left = left
        #: places that were given back
        self.cancelled = 0
        #: what happens then; whether another thread was refused
        self.on_cancel: Callable[[], bool] = lambda: False

    def full(self) -> bool:
        return self.left == 0

    def admit(self) -> bool:
        return self.left != 0

    def cancel(self) -> bool:
        self.cancelled += 1
        return self.on_cancel()

    def enter(self) -> None:
        self.left -= 1


def open_gate() -> Limit:
    return Limit(-1)


class Scene:
    """A listener, clients that connect at once, and other threads that only have loads."""

    def __init__(self, ctx: ThreadContext) -> None:
        self.ctx = ctx
        self.sock = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.sock.setblocking(False)
        self.sessions = Sessions()
        self.clients: list[socket.socket] = []
        self.others: list[ThreadShared] = []

    def connect(self, count: int = 1) -> None:
        for _ in range(count):
            self.clients.append(socket.create_connection(self.sock.getsockname()))

    def thread(self, conns: int, waiting: int = 0) -> ThreadShared:
        """Another thread with so many connections, and so many in its inbox."""
        shared = ThreadShared(len(self.others) + 1)
        shared.conns = conns
        shared.inbox.extend([lambda _ctx: None] * waiting)
        self.others.append(shared)
        self.ctx.pool.shareds.append(shared)
        return shared

    def close(self) -> None:
        self.sock.close()
        self.sessions.close()
        for client in self.clients:
            client.close()
        for shared in self.others:
            os.close(shared.event_fd)


@pytest.fixture
def scene(ctx: ThreadContext) -> Iterator[Scene]:
    scene = Scene(ctx)
    yield scene
    scene.close()


def accept(scene: Scene, acceptor: Acceptor) -> int:
    """Let the acceptor run once; how many sessions were started in all."""
    acceptor.accept_some(None)
    return len(scene.sessions.started)


def test_a_lone_thread_serves_what_it_accepts(scene: Scene) -> None:
    acceptor = Acceptor(scene.ctx, scene.sock, scene.sessions, open_gate())
    scene.connect(3)
    assert poll(scene.ctx, PATIENCE) == [acceptor]
    assert accept(scene, acceptor) == 3
    assert scene.ctx.activity.accepted == 3
    for (tid, sock, peer), client in zip(scene.sessions.started, scene.clients, strict=True):
        assert tid == 0
        assert peer == client.getsockname()
        assert not sock.getblocking()


def test_it_runs_before_the_streams(scene: Scene) -> None:
    acceptor = Acceptor(scene.ctx, scene.sock, scene.sessions, open_gate())
    assert acceptor.tasklet.queue is scene.ctx.urgent


def test_no_more_than_max_accept_at_once(scene: Scene) -> None:
    acceptor = Acceptor(scene.ctx, scene.sock, scene.sessions, open_gate(), 2)
    scene.connect(5)
    assert [accept(scene, acceptor) for _ in range(4)] == [2, 4, 5, 5]
    # level-triggered: what is left over is reported again
    scene.connect()
    assert poll(scene.ctx, PATIENCE) == [acceptor]
    assert poll(scene.ctx, PATIENCE) == [acceptor]


@pytest.mark.parametrize(
    ("mine", "others", "expected"),
    [
        (0, [(0, 0), (0, 0)], 0),  # nobody has fewer: it stays here
        (2, [(3, 0), (2, 0)], 0),
        (2, [(1, 0), (1, 0)], 1),  # the first of equals
        (9, [(5, 0), (4, 0), (7, 0)], 2),
        (9, [(1, 8), (4, 0)], 2),  # what waits in an inbox counts
        (1, [(-1, 0), (0, 0)], 1),
    ],
)
def test_the_least_loaded_thread_gets_it(
    scene: Scene, mine: int, others: list[tuple[int, int]], expected: int
) -> None:
    acceptor = Acceptor(scene.ctx, scene.sock, scene.sessions, open_gate())
    scene.ctx.shared.conns = mine
    shareds = [scene.ctx.shared, *(scene.thread(*load) for load in others)]
    before = [len(shared.inbox) for shared in shareds]
    scene.connect()
    acceptor.accept_some(None)
    grown = [len(s.inbox) - n for s, n in zip(shareds, before, strict=True)]
    assert len(scene.sessions.started) == (expected == 0)
    assert grown == [int(tid == expected != 0) for tid in range(len(shareds))]
    assert scene.ctx.activity.accepted == 1
    if expected:
        handover = shareds[expected].inbox[-1]
        handover(scene.ctx)  # any context will do: it starts the session with what it gets
        assert scene.sessions.started[0][2] == scene.clients[0].getsockname()


def test_a_burst_is_spread(scene: Scene) -> None:
    """Each of them counts at once although nobody has served one yet."""
    acceptor = Acceptor(scene.ctx, scene.sock, scene.sessions, open_gate(), 100)
    others = [scene.thread(0), scene.thread(0)]
    scene.ctx.shared.conns = 1000
    scene.connect(20)
    acceptor.accept_some(None)
    assert [len(shared.inbox) for shared in others] == [10, 10]
    for shared in others:
        for handover in shared.inbox:
            handover(scene.ctx)


def test_without_spreading_all_stay_here(scene: Scene) -> None:
    acceptor = Acceptor(scene.ctx, scene.sock, scene.sessions, open_gate(), spread=False)
    scene.ctx.shared.conns = 9
    scene.thread(0)
    scene.connect(3)
    assert accept(scene, acceptor) == 3


def test_a_full_gate_leaves_clients_in_the_kernels_queue(scene: Scene) -> None:
    gate = Limit(2)
    acceptor = Acceptor(scene.ctx, scene.sock, scene.sessions, gate)
    scene.connect(4)
    assert accept(scene, acceptor) == 2
    assert acceptor.paused
    assert scene.ctx.fdtab == {}
    assert poll(scene.ctx) == [], "the poller is left alone"
    assert accept(scene, acceptor) == 2, "a late run of a paused acceptor"
    gate.left = 1
    acceptor.resume()
    assert poll(scene.ctx, PATIENCE) == [acceptor]
    assert accept(scene, acceptor) == 3
    acceptor.resume()
    acceptor.resume()  # twice does no harm
    gate.left = 10
    assert accept(scene, acceptor) == 4
    acceptor.pause()
    acceptor.pause()
    assert poll(scene.ctx) == []


def test_what_another_thread_was_refused_is_looked_for(scene: Scene) -> None:
    """It comes after this thread has looked, while this thread holds the last place."""
    gate = Limit(5)
    acceptor = Acceptor(scene.ctx, scene.sock, scene.sessions, gate)

    def another_comes() -> bool:
        if gate.cancelled > 1:
            return False
        scene.connect()
        return True

    gate.on_cancel = another_comes
    assert accept(scene, acceptor) == 1
    assert gate.cancelled == 2
    acceptor.pause()


class Trouble:
    """A listening socket whose accept() fails now and then."""

    def __init__(self, sock: socket.socket, *errors: int) -> None:
        self._sock = sock
        self._errors = list(errors)
        self.fileno = sock.fileno

    def accept(self) -> Any:
        if self._errors:
            number = self._errors.pop(0)
            raise OSError(number, os.strerror(number))
        return self._sock.accept()


@pytest.mark.parametrize(
    "number", [errno.ECONNABORTED, errno.EPROTO, errno.EPERM, errno.ENETUNREACH, errno.ETIMEDOUT]
)
def test_an_error_of_one_connection_concerns_that_one_only(scene: Scene, number: int) -> None:
    trouble: Any = Trouble(scene.sock, number, number)
    acceptor = Acceptor(scene.ctx, trouble, scene.sessions, open_gate())
    scene.connect(2)
    assert accept(scene, acceptor) == 2
    assert not acceptor.paused


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
def test_without_resources_it_pauses(
    scene: Scene, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    trouble: Any = Trouble(scene.sock, number)
    acceptor = Acceptor(scene.ctx, trouble, scene.sessions, open_gate())
    scene.connect()
    assert accept(scene, acceptor) == 0
    assert acceptor.paused
    acceptor.resume()
    assert accept(scene, acceptor) == 1
    assert capsys.readouterr().err == ""


def test_an_idle_connection_gives_way_to_a_client(scene: Scene) -> None:
    """Without a descriptor this thread closes what it can do without, and goes on."""
    shed: list[int] = []

    def make_room(ctx: ThreadContext) -> bool:
        shed.append(ctx.tid)
        return True

    scene.ctx.shed = make_room
    trouble: Any = Trouble(scene.sock, errno.EMFILE)
    acceptor = Acceptor(scene.ctx, trouble, scene.sessions, Limit(1 << 20))
    scene.connect()
    assert accept(scene, acceptor) == 1
    assert shed == [0]
    assert not acceptor.paused


def test_other_threads_are_asked_for_descriptors(scene: Scene) -> None:
    other = scene.thread(0)
    trouble: Any = Trouble(scene.sock, errno.EMFILE)
    acceptor = Acceptor(scene.ctx, trouble, scene.sessions, Limit(1 << 20))
    scene.connect()
    assert accept(scene, acceptor) == 0
    assert acceptor.paused
    shed: list[int] = []
    scene.ctx.shed = lambda ctx: bool(shed.append(ctx.tid))
    (message,) = other.inbox
    message(scene.ctx)
    assert shed == [0]


def test_what_nobody_expects_is_told_and_tried_again(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    trouble: Any = Trouble(scene.sock, errno.EIO)
    acceptor = Acceptor(scene.ctx, trouble, scene.sessions, open_gate())
    scene.connect()
    assert accept(scene, acceptor) == 0
    assert acceptor.paused
    assert "cannot accept connections, trying again" in capsys.readouterr().err
    acceptor.resume()
    assert accept(scene, acceptor) == 1


def test_a_pool_of_threads_shares_a_listener() -> None:
    """All threads accept from one socket, every client is served once, and the load is even."""
    clients: list[socket.socket] = []
    sessions = Sessions()
    with (
        socket.create_server(("127.0.0.1", 0), backlog=128) as sock,
        running_pool(3) as pool,
    ):
        sock.setblocking(False)

        def start(ctx: ThreadContext, accepted: socket.socket, peer: object) -> None:
            ctx.shared.conns += 1
            sessions(ctx, accepted, peer)

        def setup(ctx: ThreadContext) -> None:
            Acceptor(ctx, sock, start, open_gate(), 4)

        def play() -> None:
            clients.extend(socket.create_connection(sock.getsockname()) for _ in range(60))
            wait_until(lambda: len(sessions.started) == 60, "all sessions")

        run_with(pool, play, setup)
        for ctx in pool.contexts:
            ctx.fdtab.clear()  # the acceptors'
        served = [peer for _, _, peer in sessions.started]
        assert sorted(served) == sorted(c.getsockname() for c in clients)  # type: ignore[type-var]
        loads = [shared.conns for shared in pool.shareds]
        assert sum(loads) == 60
        assert min(loads) >= 5, loads
        assert sum(ctx.activity.accepted for ctx in pool.contexts) == 60
    sessions.close()
    for client in clients:
        client.close()
