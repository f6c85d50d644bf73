"""Limits of listeners over all threads, and coming back from a pause."""

from __future__ import annotations

import socket
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from mtproxy.net.listener import Acceptor
from mtproxy.proxy.counters import FrontendCounters
from mtproxy.proxy.quota import Quota
from mtproxy.sched.context import ThreadContext
from mtproxy.stream.room import FrontGate, ListenerRoom
from mtproxy.sync import stats as lock_stats
from mtproxy.testing.streams import make_front
from mtproxy.testing.threads import run_threads


def other_thread(ctx: ThreadContext, conns: int, waiting: int = 0) -> Any:
    shared = SimpleNamespace(conns=conns, inbox=deque([None] * waiting))
    ctx.pool.shareds.append(shared)  # type: ignore[arg-type]
    ctx.pool.nbthread = len(ctx.pool.shareds)
    return shared


def gate_of(
    ctx: ThreadContext,
    *limits: int,
    side_counters: list[FrontendCounters] | None = None,
) -> FrontGate:
    """The gate of a listener with these limits."""
    quotas = tuple(Quota(limit) for limit in limits)
    return FrontGate(ctx.tid, ListenerRoom(make_front(ctx), 1, side_counters, quotas))


@pytest.mark.parametrize(
    ("limits", "room"), [((3,), 3), ((9, 2), 2), ((2, 9), 2), ((5, 4, 1), 1), ((1, 1, 1), 1)]
)
def test_the_narrowest_limit_counts(ctx: ThreadContext, limits: tuple[int, ...], room: int) -> None:
    gate = gate_of(ctx, *limits)
    for _ in range(room):
        assert not gate.full()
        assert gate.admit()
    assert gate.full()
    assert not gate.admit()
    for quota in gate.quotas:  # what the refused one had taken is free again
        quota._check(room)


def test_a_place_without_a_connection_is_given_back(ctx: ThreadContext) -> None:
    gate = gate_of(ctx, 1, 1)
    assert gate.admit()
    gate.cancel()
    assert gate.admit()


def test_listeners_share_their_frontends_limit(ctx: ThreadContext) -> None:
    shared = Quota(2)
    front = make_front(ctx)
    one, other = (FrontGate(ctx.tid, ListenerRoom(front, i, None, (shared,))) for i in (1, 2))
    assert one.admit()
    assert other.admit()
    assert one.full()
    assert not other.admit()


def test_who_was_refused_is_told_of(ctx: ThreadContext) -> None:
    gate = gate_of(ctx, 5, 1)
    listener = gate.listener
    assert gate.admit()
    assert not gate.admit()
    assert listener.leave(1), "another thread must look for what was left in the kernel's queue"
    assert gate.admit()
    assert not listener.leave(1)


def test_a_limit_under_threads() -> None:
    """Never more than allowed, and all places are free at the end."""
    quota = Quota(3)
    inside: list[None] = []

    def use(tid: int) -> None:
        for _ in range(2000):
            if quota.enter(tid):
                inside.append(None)
                assert len(inside) <= 3
                inside.pop()
                quota.leave(tid)

    lock_stats.configure(4)
    run_threads(4, use)
    quota._check(0)


def test_entering_is_counted_where_it_happens(ctx: ThreadContext) -> None:
    gate = gate_of(ctx, 5, side_counters=[])
    gate.enter()
    gate.enter()
    for counters in (gate.listener.front.frontend.counters, gate.listener.counters):
        assert counters is not None
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
    gate: Any = SimpleNamespace(full=lambda: gate_full)
    front = make_front(ctx)
    acceptor = Acceptor(ctx, listener, lambda *_args: None, gate)
    front.room.acceptors.append(acceptor)
    acceptor.pause()
    ctx.stopping = stopping
    front.room.after_session(ctx)
    assert acceptor.paused != resumed
    assert (listener.fileno() in ctx.fdtab) == resumed
    acceptor.pause()


@pytest.mark.parametrize("wanted", [True, False])
def test_a_thread_looks_for_what_another_was_refused(
    ctx: ThreadContext, listener: socket.socket, wanted: bool
) -> None:
    gate: Any = SimpleNamespace(full=lambda: False)
    room = make_front(ctx).room
    acceptor = Acceptor(ctx, listener, lambda *_args: None, gate)
    room.acceptors.append(acceptor)
    room.after_session(ctx, wanted=wanted)
    assert acceptor.tasklet.queued == wanted
    acceptor.pause()
    ctx.urgent.clear()
