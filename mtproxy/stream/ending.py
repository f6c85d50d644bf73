"""Streams that are looked at and ended from outside, on their own thread.

A stream serves something while its coroutine is within a transaction (`mode http`) or the session
(`mode tcp`); a client connection between two requests is no stream yet, as in HAProxy. To end one,
`Stop` is raised where its coroutine waits: it is accounted for and logged as any other end.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

from mtproxy.stream.stream import Stop

if TYPE_CHECKING:
    from mtproxy.proxy.server import ServerState
    from mtproxy.sched.context import ThreadContext
    from mtproxy.stream.stream import Stream

#: who ended it, for the log: the operator; a server that was marked down; one that came back
KILLED, DOWN, BACKUP_LEFT = "K", "D", "U"

#: coroutines that are a stream's life, by name
_SERVING = frozenset({"_transaction", "_serve"})


def serving(stream: Stream) -> bool:
    """Whether the connection is in the middle of something."""
    waiting = stream.task.coro
    while inspect.iscoroutine(waiting):
        if waiting.__name__ in _SERVING:
            return True
        waiting = waiting.cr_await
    return False


def phase(stream: Stream) -> str:
    """How far it is, as the second letter of the termination state (manual 8.5).

    With a server both as HAProxy 2.6 has it: `-` in `mode tcp`, and while a request's body is not
    all there. HAProxy does not end what has no connection to a server yet.
    """
    if stream.be is None:
        return "R"
    if stream.srv is None:
        return "Q"
    if stream.sconn is None:
        return "C"
    if not stream.is_http or stream.uploading:
        return "-"
    return "H" if stream.t_r < 0 else "D"


def streams_of(ctx: ThreadContext) -> list[Stream]:
    """The streams of this thread, oldest first."""
    found = [
        stream
        for front in ctx.room.fronts.values()
        for stream in front.streams
        if stream.task is not ctx.running and serving(stream)
    ]
    found.sort(key=lambda stream: stream.accept_tick)
    return found


def end(stream: Stream, why: str) -> None:
    """End a stream that is `serving` and not running. Its thread only; it ends in its next run."""
    task = stream.task
    coro = task.coro
    if coro is None:
        return
    state = why + phase(stream)
    # who waits for an answer gets one
    stop = Stop(502 if state[1] == "H" else 0, state)

    def step(_value: None) -> object:
        task.step = coro.send
        return coro.throw(stop)

    task.step = step
    task.wake()


def end_those_on(server: ServerState, why: str) -> Callable[[ThreadContext], None]:
    """A message for each thread: end its streams that are on a server."""

    def message(ctx: ThreadContext) -> None:
        for stream in streams_of(ctx):
            if stream.srv is not None and stream.srv.shared is server:
                end(stream, why)

    return message
