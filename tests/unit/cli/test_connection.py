"""A runtime connection on the loop: a long answer does not hold the others up."""

from __future__ import annotations

import contextlib
import itertools
import socket

from mtproxy.cli.connection import CliConnection, CliGate
from mtproxy.cli.server import BATCH
from mtproxy.net.connection import Connection
from mtproxy.sched.loop import run_loop
from mtproxy.sched.tasklet import park
from mtproxy.testing.pools import clean_context


class Session:
    """What the transport needs of a session."""

    timeout_ms = 1000


def test_others_run_between_the_pieces_of_a_long_answer() -> None:
    events: list[str] = []
    with clean_context() as ctx, contextlib.ExitStack() as stack:
        ours, theirs = socket.socketpair()
        stack.enter_context(theirs)
        ours.setblocking(False)
        connection = CliConnection(Session(), CliGate(None))  # type: ignore[arg-type]

        async def answer() -> None:
            for size in (BATCH, BATCH, 10, 10, BATCH):
                await connection.write_all(b"x" * size)
                events.append(f"{size}")
            connection.conn.close()
            ctx.pool.stopping_now = True

        async def other() -> None:
            while not ctx.pool.stopping_now:
                events.append("other")
                task.wake()
                await park()

        connection.attach(main := ctx.spawn(answer(), "answer"), Connection(ctx, ours, main))
        task = ctx.spawn(other(), "other")
        run_loop(ctx)
        assert ctx.activity.bulk == 3
        for a, b in itertools.pairwise(events):
            if b == str(BATCH):
                assert a == "other"
        assert "10 10" in " ".join(events)
        ctx.finish(task)
        ctx.normal.clear()
