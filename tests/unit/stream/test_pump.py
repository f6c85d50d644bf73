"""One direction of a stream, step by step: framing, ends, errors, fairness, splicing."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from mtproxy.http.chunked import ChunkedReader
from mtproxy.http.errors import BadMessage
from mtproxy.net.connection import IN, OUT, Connection
from mtproxy.sched.context import ThreadContext
from mtproxy.sched.tasklet import Tasklet
from mtproxy.stream import pump as pump_module
from mtproxy.stream.pump import UNTIL_CLOSE, Pump, SinkError, SourceError
from mtproxy.testing.payload import payload
from mtproxy.testing.pools import poll

SIZE = 1000
#: the default buffer, less what is kept free for rewriting
FULL = 16380


class Line:
    """writer -> src, dst -> reader: two socket pairs with a pump's connections in the middle."""

    def __init__(self, ctx: ThreadContext) -> None:
        self.ctx = ctx
        self.writer, src = socket.socketpair()
        dst, self.reader = socket.socketpair()
        for sock in (src, dst, self.writer, self.reader):
            sock.setblocking(False)
        tasklet = Tasklet(ctx, lambda _value: None, "t")
        self.src = Connection(ctx, src, tasklet)
        self.dst = Connection(ctx, dst, tasklet)

    def narrow(self) -> None:
        """Let the sink hold little."""
        self.dst.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4608)

    def read(self) -> bytes:
        """Everything that has arrived."""
        data = b""
        while True:
            try:
                piece = self.reader.recv(1 << 20)
            except BlockingIOError:
                return data
            if not piece:
                return data
            data += piece

    def close(self) -> None:
        for end in (self.writer, self.reader, self.src, self.dst):
            end.close()


@pytest.fixture
def line(ctx: ThreadContext) -> Iterator[Line]:
    line = Line(ctx)
    yield line
    line.close()


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every full buffer makes a direction bulk, and any rest is worth splicing."""
    monkeypatch.setattr(pump_module, "_BULK_AFTER", 1)
    monkeypatch.setattr(pump_module, "_SPLICE_MIN", 1)


def settle(line: Line, pump: Pump) -> bytes:
    """Step until nothing moves any more; what the reader got."""
    received = b""
    while not pump.done:
        moved = pump.step()
        arrived = line.read()
        received += arrived
        if not moved and not arrived and not poll(line.ctx, 0.02):
            break
    return received + line.read()


# --- framing


def test_nothing_to_do_is_done_at_once(line: Line) -> None:
    pump = Pump(line.src, line.dst, SIZE, remaining=0)
    assert pump.done
    assert not pump.step()


def test_a_head_without_a_body(line: Line) -> None:
    pump = Pump(line.src, line.dst, SIZE, remaining=0, head=b"head")
    assert not pump.done
    assert pump.blocked_on_sink
    assert settle(line, pump) == b"head"
    assert (pump.done, pump.received, pump.sent) == (True, 0, 4)
    assert not pump.blocked_on_sink


@pytest.mark.parametrize("spliced", [False, True])
def test_a_body_of_known_length_ends_where_it_ends(line: Line, spliced: bool, eager: None) -> None:
    """What follows stays in the socket for whoever reads the next message."""
    body = payload("known", 20_000)
    line.writer.send(body[100:] + b"next message")
    pump = Pump(
        line.src,
        line.dst,
        SIZE,
        first=body[:100],
        head=b"head",
        remaining=20_000,
        splice=spliced,
    )
    assert settle(line, pump) == b"head" + body
    assert (pump.done, pump.eof) == (True, False)
    assert (pump.received, pump.sent) == (20_000, 20_004)
    assert line.src.recv(100) == b"next message"


@pytest.mark.parametrize("spliced", [False, True])
def test_until_the_end_of_the_input(line: Line, spliced: bool, eager: None) -> None:
    body = payload("until close", 20_000)
    line.writer.send(body)
    pump = Pump(line.src, line.dst, SIZE, splice=spliced)
    assert settle(line, pump) == body
    assert not pump.done, "it may go on"
    line.writer.send(b"more")
    line.writer.shutdown(socket.SHUT_WR)
    poll(line.ctx, 5)
    assert settle(line, pump) == b"more"
    assert (pump.done, pump.eof) == (True, True)
    assert pump.received == pump.sent == 20_004


def test_chunks_are_validated_and_written_anew(line: Line) -> None:
    line.writer.send(b"5;name=value\r\nhello\r\n1\r\n \r\n5 \r\nworld\r\n0\r\nx: y\r\n\r\nGET")
    pump = Pump(line.src, line.dst, SIZE, chunks=ChunkedReader())
    sent = settle(line, pump)
    assert sent == b"5\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n0\r\nx: y\r\n\r\n"
    assert pump.done
    assert pump.rest == b"GET"
    assert pump.sent == len(sent)
    assert pump.received == pump.sent + len(b";name=value ")


def test_bad_chunks_are_refused_and_not_passed_on(line: Line) -> None:
    line.writer.send(b"5\r\nhello\r\n")
    pump = Pump(line.src, line.dst, SIZE, chunks=ChunkedReader())
    assert settle(line, pump) == b"5\r\nhello\r\n"
    line.writer.send(b"nonsense\r\n")
    poll(line.ctx, 5)
    with pytest.raises(BadMessage):
        pump.step()
    assert line.read() == b""


# --- readiness


def test_nothing_is_read_before_the_sink_took_what_there_is(line: Line) -> None:
    line.narrow()
    line.writer.send(payload("a", 100_000))
    pump = Pump(line.src, line.dst, SIZE, splice=False)
    while pump.step():
        poll(line.ctx)
    assert pump.blocked_on_sink
    assert pump.received - pump.sent <= SIZE, "one buffer at most"
    assert not pump.step(), "without an event it does not even try"
    line.read()
    poll(line.ctx, 5)
    assert pump.step()


def test_the_sources_silence_is_remembered(line: Line) -> None:
    pump = Pump(line.src, line.dst, SIZE)
    assert not pump.step()
    line.writer.send(b"x")
    assert not pump.step(), "readiness comes from the poller only"
    poll(line.ctx, 5)
    assert pump.step()
    assert line.read() == b"x"


@pytest.mark.parametrize("spliced", [False, True])
def test_others_get_their_turn(line: Line, spliced: bool, eager: None) -> None:
    """A step moves a bounded amount; `more` asks for another one without an event."""
    line.writer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    line.dst.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    body = payload("fair", 60_000)
    assert line.writer.send(body) == len(body)
    pump = Pump(line.src, line.dst, SIZE, remaining=len(body), splice=False)
    assert pump.step()
    assert pump.more
    assert not pump.done
    assert pump.received == 8 * SIZE
    steps = 1
    received = line.read()
    while not pump.done:
        assert pump.step()
        received += line.read()
        steps += 1
    assert received == body
    assert not pump.more
    assert steps == 8


# --- splicing


def test_a_bulky_direction_is_spliced(line: Line) -> None:
    body = payload("bulk", 200_000)
    pump = Pump(line.src, line.dst, SIZE, remaining=len(body))
    sent = 0
    received = b""
    while not pump.done:
        if sent < len(body):
            try:
                sent += line.writer.send(body[sent:])
            except BlockingIOError:
                pass
        moved = pump.step()
        arrived = line.read()
        received += arrived
        assert moved or arrived or poll(line.ctx, 5)
        poll(line.ctx)
    assert received + line.read() == body
    assert pump.pipe is None
    assert len(line.ctx.pipes) == 1, "a pipe was used and given back"


@pytest.mark.parametrize("why", ["told so", "small rest", "chunked", "no descriptors"])
def test_what_is_not_spliced(line: Line, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = payload("bulk", 30_000)
    chunks, wire = None, body
    remaining = len(body)  # less than _SPLICE_MIN
    if why == "chunked":
        chunks, wire = ChunkedReader(), b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    elif why != "small rest":
        remaining = UNTIL_CLOSE
    if why == "no descriptors":
        monkeypatch.setattr(pump_module, "take_pipe", lambda _ctx: None)
    line.writer.send(wire)
    line.writer.shutdown(socket.SHUT_WR)
    pump = Pump(
        line.src,
        line.dst,
        SIZE,
        remaining=remaining,
        chunks=chunks,
        splice=why != "told so",
    )
    received = b""
    while not pump.done:
        moved = pump.step()
        assert pump.pipe is None
        arrived = line.read()
        received += arrived
        assert moved or arrived or poll(line.ctx, 5)
    assert received + line.read() == wire
    assert line.ctx.pipes == []


def test_a_pipe_with_bytes_in_it_dies_with_its_stream(line: Line, eager: None) -> None:
    line.narrow()
    line.writer.send(payload("x", 100_000))
    pump = Pump(line.src, line.dst, SIZE)
    while pump.step() or poll(line.ctx):
        pass
    assert pump.pipe is not None
    assert pump.pipe.level > 0
    assert pump.blocked_on_sink
    pump.close()
    pump.close()  # twice does no harm
    assert line.ctx.pipes == []


# --- errors


def cut(line: Line) -> None:
    line.writer.shutdown(socket.SHUT_WR)


def reset_by_writer(line: Line) -> None:
    """A UNIX socket that is closed with unread input resets its peer."""
    line.src.send(b"unread")
    line.writer.close()


@pytest.mark.parametrize("spliced", [False, True])
@pytest.mark.parametrize("how", [cut, reset_by_writer])
def test_a_body_that_does_not_end_is_the_sources_fault(
    line: Line, spliced: bool, how: Callable[[Line], None], eager: None
) -> None:
    line.writer.send(bytes(5 * SIZE))
    pump = Pump(line.src, line.dst, SIZE, remaining=1 << 20, splice=spliced)
    assert settle(line, pump) == bytes(5 * SIZE)
    assert (pump.pipe is not None) == spliced
    how(line)
    poll(line.ctx, 5)
    with pytest.raises(SourceError):
        pump.step()
    pump.close()


def test_chunks_that_do_not_end_are_the_sources_fault(line: Line) -> None:
    line.writer.send(b"5\r\nhel")
    line.writer.shutdown(socket.SHUT_WR)
    pump = Pump(line.src, line.dst, SIZE, chunks=ChunkedReader())
    with pytest.raises(SourceError, match="cut short"):
        settle(line, pump)


def test_a_reset_until_close_is_no_end(line: Line) -> None:
    """Cut by the network, it must not look like a whole body."""
    pump = Pump(line.src, line.dst, SIZE)
    reset_by_writer(line)
    poll(line.ctx, 5)
    with pytest.raises(SourceError):
        pump.step()
    assert not pump.eof


@pytest.mark.parametrize("spliced", [False, True])
def test_a_reader_that_has_gone_is_the_sinks_fault(line: Line, spliced: bool, eager: None) -> None:
    line.writer.send(bytes(5 * SIZE))
    pump = Pump(line.src, line.dst, SIZE, splice=spliced)
    settle(line, pump)
    line.reader.close()
    line.writer.send(b"x")
    poll(line.ctx, 5)
    with pytest.raises(SinkError):
        pump.step()
    pump.close()
    assert line.ctx.pipes == []


def test_a_sink_that_ended_its_own_side_may_still_be_written_to(line: Line) -> None:
    """Half-closed: its hang-up bit is set for good."""
    line.reader.shutdown(socket.SHUT_WR)
    poll(line.ctx, 5)
    line.narrow()
    line.writer.send(bytes(50_000))
    pump = Pump(line.src, line.dst, SIZE, remaining=50_000, splice=False)
    assert settle(line, pump) == bytes(50_000)
    assert pump.done


# --- work that does not go by bytes


def source(data: bytes) -> Any:
    """A connection that always has `data` to read, and counts how often it was asked."""
    conn = SimpleNamespace(ready=IN | OUT, reads=0)

    def recv(want: int) -> bytes:
        conn.reads += 1
        return data[:want]

    conn.recv = recv
    return conn


def sink() -> Any:
    """A connection that takes everything."""
    return SimpleNamespace(ready=OUT, send=len)


def test_a_buffer_of_tiny_chunks_ends_the_turn() -> None:
    src = source(b"1\r\nx\r\n" * (FULL // 6))
    pump = Pump(src, sink(), FULL, chunks=ChunkedReader())
    assert pump.step()
    assert src.reads == 1
    assert pump.more
    assert pump.step()
    assert src.reads == 2
    assert pump.sent > 0


def test_large_chunks_go_on() -> None:
    size = FULL - len(b"3ff4\r\n\r\n")
    chunk = b"%x\r\n%b\r\n" % (size, b"x" * size)
    assert len(chunk) == FULL
    src = source(chunk)
    pump = Pump(src, sink(), FULL, chunks=ChunkedReader())
    assert pump.step()
    assert src.reads > 1
