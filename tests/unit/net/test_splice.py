"""Pipes for splice: what they hold, and where they go when they are not needed."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator

import pytest

from mtproxy.net.splice import MAX_IDLE_PIPES, Pipe, close_idle_pipes, give_pipe, take_pipe
from mtproxy.sched.context import ThreadContext


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


@pytest.fixture
def pairs() -> Iterator[tuple[socket.socket, socket.socket, socket.socket, socket.socket]]:
    """source peer, source, sink, sink peer; the inner two do not block."""
    source_peer, source = socket.socketpair()
    sink, sink_peer = socket.socketpair()
    source.setblocking(False)
    sink.setblocking(False)
    with source_peer, source, sink, sink_peer:
        yield source_peer, source, sink, sink_peer


type Pairs = tuple[socket.socket, socket.socket, socket.socket, socket.socket]


def test_bytes_pass_and_are_counted(pipe: Pipe, pairs: Pairs) -> None:
    source_peer, source, sink, sink_peer = pairs
    source_peer.send(b"0123456789")
    assert pipe.fill(source.fileno(), 4) == 4
    assert pipe.level == 4
    assert pipe.fill(source.fileno(), 100) == 6
    assert pipe.level == 10
    assert pipe.drain(sink.fileno()) == 10
    assert pipe.level == 0
    assert sink_peer.recv(100) == b"0123456789"


def test_nothing_there_and_the_end_are_told_apart(pipe: Pipe, pairs: Pairs) -> None:
    source_peer, source, _, _ = pairs
    with pytest.raises(BlockingIOError):
        pipe.fill(source.fileno(), 100)
    source_peer.close()
    assert pipe.fill(source.fileno(), 100) == 0
    assert pipe.level == 0


def test_a_sink_that_takes_no_more_leaves_the_rest_in_the_pipe(pipe: Pipe, pairs: Pairs) -> None:
    source_peer, source, sink, sink_peer = pairs
    for sock in (source_peer, source, sink, sink_peer):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    source_peer.setblocking(False)
    sent = drained = 0
    full = False
    while not full:
        sent += source_peer.send(bytes(1000))
        pipe.fill(source.fileno(), pipe.size)
        try:
            drained += pipe.drain(sink.fileno())
        except BlockingIOError:
            full = True
    assert pipe.level == sent - drained > 0
    received = 0
    while received < sent:
        received += len(sink_peer.recv(65536))
        if pipe.level:
            drained += pipe.drain(sink.fileno())
    assert (pipe.level, drained) == (0, sent)


def test_a_peer_that_has_gone_is_an_error(pipe: Pipe, pairs: Pairs) -> None:
    source_peer, source, sink, sink_peer = pairs
    source_peer.send(b"x")
    pipe.fill(source.fileno(), 100)
    sink_peer.close()
    with pytest.raises(BrokenPipeError):
        pipe.drain(sink.fileno())
    assert pipe.level == 1


def test_an_empty_pipe_is_used_again(ctx: ThreadContext) -> None:
    pipe = take_pipe(ctx)
    assert pipe is not None
    give_pipe(ctx, pipe)
    assert take_pipe(ctx) is pipe
    give_pipe(ctx, pipe)
    assert ctx.pipes == [pipe]


def test_what_a_dead_connection_left_is_never_seen_again(ctx: ThreadContext, pairs: Pairs) -> None:
    source_peer, source, _, _ = pairs
    pipe = take_pipe(ctx)
    assert pipe is not None
    source_peer.send(b"secret")
    pipe.fill(source.fileno(), 100)
    give_pipe(ctx, pipe)
    assert ctx.pipes == []
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(pipe.rd)


def test_no_more_than_a_few_are_kept(ctx: ThreadContext) -> None:
    pipes = [take_pipe(ctx) for _ in range(MAX_IDLE_PIPES + 3)]
    for pipe in pipes:
        assert pipe is not None
        give_pipe(ctx, pipe)
    assert len(ctx.pipes) == MAX_IDLE_PIPES


def test_without_descriptors_there_is_none(
    ctx: ThreadContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pipe2(_flags: int) -> tuple[int, int]:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "pipe2", pipe2)
    assert take_pipe(ctx) is None


def test_a_thread_makes_no_more_than_its_share(ctx: ThreadContext) -> None:
    ctx.pipes_left = 2
    first, second = take_pipe(ctx), take_pipe(ctx)
    assert first is not None
    assert second is not None
    assert take_pipe(ctx) is None
    give_pipe(ctx, first)
    assert take_pipe(ctx) is first
    give_pipe(ctx, first)
    give_pipe(ctx, second)
    assert close_idle_pipes(ctx)
    assert (ctx.pipes, ctx.pipes_left) == ([], 2)
    assert not close_idle_pipes(ctx)


def test_a_pipe_that_is_closed_may_be_made_anew(ctx: ThreadContext, pairs: Pairs) -> None:
    source_peer, source, _, _ = pairs
    ctx.pipes_left = 1
    pipe = take_pipe(ctx)
    assert pipe is not None
    source_peer.send(b"left over")
    pipe.fill(source.fileno(), 100)
    give_pipe(ctx, pipe)
    assert ctx.pipes_left == 1
