"""Pump: when it splices, what it counts, and that the bytes stay the same either way."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from mtproxy.http.chunked import ChunkedReader
from mtproxy.net.connection import IN, OUT, Connection
from mtproxy.sched.context import ThreadContext, ThreadShared
from mtproxy.stream.pump import UNTIL_CLOSE, Pump

BUFFER = 16384


class Line:
    """A pump between two socket pairs: `feed` writes at one end, `take` reads at the other."""

    def __init__(self, stack: ExitStack, **options: Any) -> None:
        self.ctx = ThreadContext(ThreadShared(0), SimpleNamespace())  # type: ignore[arg-type]
        self.feeder, source = _pair(stack)
        sink, self.reader = _pair(stack)
        tasklet: Any = None
        self.src = Connection(self.ctx, source, tasklet)
        self.dst = Connection(self.ctx, sink, tasklet)
        if "pipe_size" in options:
            self.ctx.pipe_size = options.pop("pipe_size")
        self.pump = Pump(self.src, self.dst, BUFFER, **options)
        stack.callback(self._close)
        self.got = b""

    def feed(self, data: bytes) -> None:
        self.feeder.sendall(data)

    def end(self) -> None:
        self.feeder.shutdown(socket.SHUT_WR)

    def run(self) -> None:
        """Step until nothing moves, as after events on both sides."""
        for _ in range(10_000):
            self.src.ready |= IN
            self.dst.ready |= OUT
            moved = self.pump.step()
            took = self.take()
            if not moved and not took:
                return
        raise AssertionError("it moves for ever")

    def take(self) -> int:
        try:
            data = self.reader.recv(1 << 20)
        except BlockingIOError:
            return 0
        self.got += data
        return len(data)

    def _close(self) -> None:
        self.pump.close()
        while self.ctx.pipes:
            self.ctx.pipes.pop().close()
        self.src.close()
        self.dst.close()
        self.ctx.epoll.close()


def _pair(stack: ExitStack) -> tuple[socket.socket, socket.socket]:
    """Two ends of a TCP connection: splice(2) does not read from every kind of UNIX socket."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    for sock in (one, other):
        sock.setblocking(False)
        stack.callback(sock.close)
    return one, other


@pytest.fixture
def line() -> Iterator[Callable[..., Line]]:
    with ExitStack() as stack:
        yield lambda **options: Line(stack, **options)


def test_a_short_body_is_copied(line: Callable[..., Line]) -> None:
    one = line(remaining=1000, eager=True)
    one.feed(b"a" * 1000)
    one.run()
    assert (one.got, one.pump.done, one.pump.spliced) == (b"a" * 1000, True, 0)
    assert one.pump.received == one.pump.sent == 1000


def test_eager_splices_from_the_first_byte(line: Callable[..., Line]) -> None:
    one = line(remaining=20_000, eager=True)
    one.feed(b"a" * 20_000)
    one.run()
    assert (one.got, one.pump.done) == (b"a" * 20_000, True)
    assert one.pump.spliced == one.pump.received == one.pump.sent == 20_000


def test_what_was_read_before_is_not_spliced(line: Callable[..., Line]) -> None:
    """The head and the beginning of the body leave first, in their order."""
    one = line(remaining=30_000, eager=True, head=b"head", first=b"f" * 500)
    one.feed(b"a" * 29_500)
    one.run()
    assert one.got == b"head" + b"f" * 500 + b"a" * 29_500
    assert one.pump.done
    assert (one.pump.spliced, one.pump.received, one.pump.sent) == (29_500, 30_000, 30_004)


def test_the_rest_below_the_minimum_is_copied(line: Callable[..., Line]) -> None:
    one = line(remaining=17_000, eager=True, first=b"f" * 1000)
    one.feed(b"a" * 16_000)
    one.run()
    assert one.got == b"f" * 1000 + b"a" * 16_000
    assert one.pump.spliced == 0


@pytest.mark.parametrize("eager", [False, True])
def test_until_close(line: Callable[..., Line], *, eager: bool) -> None:
    one = line(remaining=UNTIL_CLOSE, eager=eager)
    for _ in range(3):
        one.feed(b"x" * 5000)
        one.run()
    one.end()
    one.run()
    assert (one.got, one.pump.done, one.pump.eof) == (b"x" * 15_000, True, True)
    assert one.pump.spliced == (15_000 if eager else 0)


def test_bulk_is_spliced_without_being_asked(line: Callable[..., Line]) -> None:
    one = line(remaining=10 * BUFFER * 8)
    sent = b""
    for number in range(10):
        block = bytes([number]) * (BUFFER * 8)
        one.feed(block)
        one.run()
        sent += block
    assert one.got == sent
    assert one.pump.done
    assert 0 < one.pump.spliced < one.pump.received


@pytest.mark.parametrize("options", [{"splice": False}, {"pipe_size": 0}])
def test_splicing_turned_off(line: Callable[..., Line], options: dict[str, Any]) -> None:
    one = line(remaining=8 * BUFFER, eager=True, **options)
    one.feed(b"y" * (8 * BUFFER))
    one.run()
    assert (one.got, one.pump.done, one.pump.spliced) == (b"y" * (8 * BUFFER), True, 0)


def test_chunks_are_never_spliced(line: Callable[..., Line]) -> None:
    one = line(chunks=ChunkedReader(), eager=True)
    one.feed(b"8000\r\n" + b"z" * 0x8000 + b"\r\n0\r\n\r\n")
    one.run()
    assert (one.pump.done, one.pump.spliced) == (True, 0)
    assert one.got.count(b"z") == 0x8000


def test_the_pipe_has_the_size_asked_for(line: Callable[..., Line]) -> None:
    one = line(remaining=1 << 20, eager=True, pipe_size=8192)
    one.feed(b"a" * 5000)
    one.run()
    assert one.pump.pipe is not None
    assert one.pump.pipe.size == 8192
    assert one.pump.spliced == 5000


def test_no_pipe_is_taken_before_anything_comes(line: Callable[..., Line]) -> None:
    one = line(remaining=1 << 20, eager=True)
    one.src.ready = OUT
    assert not one.pump.step()
    assert one.pump.pipe is None
