"""Limits of listeners over all threads, and coming back from a pause."""

from __future__ import annotations

import socket
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from mtproxy.net.listener import Acceptor
from mtproxy.proxy.counters import FrontendCounters
from mtproxy.sched.context import ThreadContext
from mtproxy.stream.room import FrontGate, FrontRoom, ListenerRoom
from mtproxy.testing.streams import make_front


def other_thread(ctx: ThreadContext, conns: int, waiting: int = 0) -> Any:
    shared = SimpleNamespace(conns=conns, inbox=deque([None] * waiting))
    ctx.pool.shareds.append(shared)  # type: ignore[arg-type]
    ctx.pool.nbthread = len(ctx.pool.shareds)
    return shared


def others(*sessions: int) -> list[FrontendCounters]:
    """Frontend counters of other threads. One thread's may be negative."""
    sides = []
    for count in sessions:
        counters = FrontendCounters()
        counters.conn_cur = count
        sides.append(counters)
    return sides


def gate_of(
    ctx: ThreadContext,
    front: FrontRoom,
    *,
    process: int = 1000,
    maxconn: int | None = None,
    listener: int | None = None,
    side_counters: list[FrontendCounters] | None = None,
) -> FrontGate:
    """The gate of a listener of `front`."""
    return FrontGate(ctx, ListenerRoom(front, 1, side_counters), process, maxconn, listener)


@pytest.mark.parametrize(
    ("mine", "theirs", "maxconn", "full"),
    [
        (0, [], 1, False),
        (1, [], 1, True),
        (2, [3, 4], 10, False),
        (3, [3, 4], 10, True),
        (12, [-4, 1], 10, False),  # accepted here, ended there
        (0, [], None, False),
        (99, [99], None, False),
    ],
)
def test_a_frontends_own_limit(
    ctx: ThreadContext, mine: int, theirs: list[int], maxconn: int | None, full: bool
) -> None:
    front = make_front(ctx, side_counters=others(*theirs))
    front.frontend.counters.conn_cur = mine
    assert gate_of(ctx, front, maxconn=maxconn).full() == full


def test_a_frontends_limit_is_looked_up_anew_each_time(ctx: ThreadContext) -> None:
    """Within one tick too: a burst of connections must not pass the limit."""
    sides = others(0)
    gate = gate_of(ctx, make_front(ctx, side_counters=sides), maxconn=2)
    assert not gate.full()
    sides[0].conn_cur = 2
    assert gate.full()


@pytest.mark.parametrize(
    ("mine", "theirs", "full"),
    [
        (0, [], False),
        (4, [], False),
        (5, [], True),
        (2, [(2, 0)], False),
        (2, [(2, 1)], True),  # one is on its way to that thread
        (0, [(3, 0), (2, 0)], True),
    ],
)
def test_the_limit_of_the_process(
    ctx: ThreadContext, mine: int, theirs: list[tuple[int, int]], full: bool
) -> None:
    ctx.shared.conns = mine
    for load in theirs:
        other_thread(ctx, *load)
    assert gate_of(ctx, make_front(ctx), process=5).full() == full


@pytest.mark.parametrize(
    ("mine", "theirs", "limit", "full"),
    [(1, 1, 3, False), (1, 2, 3, True), (5, -3, 3, False), (9, 9, None, False)],
)
def test_a_listeners_own_limit(
    ctx: ThreadContext, mine: int, theirs: int, limit: int | None, full: bool
) -> None:
    gate = gate_of(ctx, make_front(ctx), listener=limit, side_counters=others(theirs))
    counters = gate.listener.counters
    assert counters is not None
    counters.conn_cur = mine
    assert gate.full() == full
    gate.enter()
    assert (counters.conn_cur, counters.cum_conn) == (mine + 1, 1)


def test_entering_is_counted_where_it_happens(ctx: ThreadContext) -> None:
    front = make_front(ctx)
    gate = gate_of(ctx, front, maxconn=2)
    gate.enter()
    assert not gate.full()
    gate.enter()
    assert gate.full()
    counters = front.frontend.counters
    assert (counters.conn_cur, counters.cum_conn) == (2, 2)


def test_connections_of_other_threads_are_read_once_a_tick(ctx: ThreadContext) -> None:
    room = make_front(ctx).room
    shared = other_thread(ctx, 3)
    ctx.shared.conns = 2
    assert room.connections(ctx) == 5
    shared.conns = 7
    ctx.shared.conns = 1
    assert room.connections(ctx) == 4, "exact in what this thread did"
    ctx.now += 1
    assert room.connections(ctx) == 8


@pytest.mark.parametrize(
    ("gate_full", "stopping", "resumed"),
    [(False, False, True), (True, False, False), (False, True, False)],
)
def test_a_paused_listener_comes_back_when_a_session_ends(
    ctx: ThreadContext,
    listener: socket.socket,
    gate_full: bool,
    stopping: bool,
    resumed: bool,
) -> None:
    gate = SimpleNamespace(full=lambda: gate_full, enter=lambda: None)
    front = make_front(ctx)
    acceptor = Acceptor(ctx, listener, lambda *_args: None, gate)
    front.room.acceptors.append(acceptor)
    acceptor.pause()
    ctx.pool.stopping = stopping
    front.after_session(ctx)
    assert acceptor.paused != resumed
    assert (listener.fileno() in ctx.fdtab) == resumed
    acceptor.pause()
