"""A pump between any writer and any reader: the same bytes, no more, no less, and no standstill.

The writer writes in any pieces, the reader reads at any pace, buffers are small; what the pump
knows of readiness comes from the poller alone. When nobody can move any more although the pump is
not done, an event was lost.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from unittest import mock

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mtproxy.http.chunked import ChunkedReader, encode_chunk
from mtproxy.net.connection import Connection
from mtproxy.sched.tasklet import Tasklet
from mtproxy.stream import pump as pump_module
from mtproxy.stream.pump import UNTIL_CLOSE, Pump
from mtproxy.testing.payload import payload
from mtproxy.testing.pools import lone_context, poll

#: how often in a row nothing may move, about 20 ms each time
PATIENCE = 100
#: buffers that one body fills at the most, so that an example stays short
MOST_BUFFERS = 300
#: calls of the writer and of the reader, likewise
MOST_CALLS = 500


@dataclass(frozen=True)
class Case:
    """How one body travels. The lists are gone through again and again."""

    framing: str
    size: int
    bufsize: int
    writes: list[int]
    reads: list[int]
    #: how much of the body was read before the pump begins
    first: int
    head: bytes
    #: bytes behind the body, of the next message
    behind: bytes
    splice: bool
    sndbuf: int
    tcp: bool


@st.composite
def cases(draw: st.DrawFn) -> Case:
    bufsize = draw(st.sampled_from([16, 100, 1024, 16384]))
    framing = draw(st.sampled_from(["length", "chunked", "close"]))
    # beside the buffer's size: a few bytes, or many buffers at once
    pieces = st.sampled_from([1, bufsize - 1, bufsize, bufsize + 1]) | st.integers(1, bufsize * 20)
    writes = draw(st.lists(pieces, min_size=1, max_size=8))
    # 0: the reader takes a break
    reads = draw(st.lists(pieces | st.just(0), min_size=1, max_size=8).filter(any))
    most = min(
        400_000,
        bufsize * MOST_BUFFERS,
        MOST_CALLS * sum(writes) // len(writes),
        MOST_CALLS * sum(reads) // len(reads),
    )
    size = draw(st.integers(0, most) | st.integers(most // 2, most))
    return Case(
        framing=framing,
        size=size,
        bufsize=bufsize,
        writes=writes,
        reads=reads,
        first=draw(st.integers(0, size)) if draw(st.booleans()) else 0,
        head=b"head" * draw(st.integers(0, 300)),
        behind=b"" if framing == "close" else draw(st.binary(max_size=40)),
        splice=draw(st.booleans()),
        sndbuf=draw(st.sampled_from([4608, 20_000, 200_000])),
        tcp=draw(st.booleans()),
    )


def pairs(tcp: bool) -> tuple[socket.socket, socket.socket]:
    if not tcp:
        return socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        return one, listener.accept()[0]


def chunked(body: bytes, sizes: Iterable[int]) -> bytes:
    out = []
    sizes = iter(sizes)
    while body:
        size = next(sizes)
        out.append(encode_chunk(body[:size]))
        body = body[size:]
    return b"".join(out) + b"0\r\nx-trailer: yes\r\n\r\n"


def travel(case: Case) -> tuple[bytes, Pump, bytes]:
    """(what the reader got, the pump, what was left behind the body)."""
    body = payload(repr(case.size), case.size)
    chunks = None
    remaining = UNTIL_CLOSE
    wire = body
    if case.framing == "length":
        remaining = len(body)
    elif case.framing == "chunked":
        wire = chunked(body, itertools.cycle([*case.writes, 1, 7]))
        chunks = ChunkedReader()
    first, to_write = wire[: case.first], wire[case.first :] + case.behind
    writer, src_sock = pairs(case.tcp)
    dst_sock, reader = pairs(case.tcp)
    received = bytearray()
    with lone_context() as ctx, writer, reader:
        for sock in (writer, src_sock, dst_sock, reader):
            sock.setblocking(False)
        writer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, case.sndbuf)
        dst_sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, case.sndbuf)
        tasklet = Tasklet(ctx, lambda _value: None, "t")
        src, dst = Connection(ctx, src_sock, tasklet), Connection(ctx, dst_sock, tasklet)
        pump = Pump(
            src,
            dst,
            case.bufsize,
            first=first,
            remaining=remaining,
            chunks=chunks,
            head=case.head,
            splice=case.splice,
        )
        writes, reads = itertools.cycle(case.writes), itertools.cycle(case.reads)
        ended = False
        standstill = 0
        while not pump.done:
            moved = False
            if to_write:
                try:
                    n = writer.send(to_write[: next(writes)])
                except BlockingIOError:
                    pass
                else:
                    to_write = to_write[n:]
                    moved = True
            elif not ended and case.framing == "close":
                writer.shutdown(socket.SHUT_WR)
                ended = moved = True
            # where nothing moves the kernel may need a moment, such as TCP with a window of nothing
            events = poll(ctx, 0.02 if standstill else 0)
            moved = pump.step() or bool(events) or moved
            most = next(reads)
            try:
                data = reader.recv(most) if most else b""
                received += data
                moved = moved or bool(data) or not most
            except BlockingIOError:
                pass
            standstill = 0 if moved else standstill + 1
            assert standstill < PATIENCE, "nobody can move"
        reader.setblocking(True)
        dst.shutdown_write()
        reader.settimeout(10)
        while data := reader.recv(1 << 20):
            received += data
        rest = pump.rest
        src.sock.settimeout(10)
        while len(rest) < len(case.behind) - len(to_write):
            rest += src.recv(100)
        pump.close()
        src.close()
        dst.close()
        assert all(pipe.level == 0 for pipe in ctx.pipes)
    return bytes(received), pump, rest + to_write


@pytest.mark.parametrize("bulk", [False, True], ids=["as it is", "spliced at once"])
# without shrinking: each example that stands still costs seconds
@settings(max_examples=150, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(case=cases())
def test_any_writer_any_reader(case: Case, bulk: bool) -> None:
    with (
        mock.patch.object(pump_module, "_BULK_AFTER", 1 if bulk else 4),
        mock.patch.object(pump_module, "_SPLICE_MIN", 1 if bulk else 1 << 16),
    ):
        received, pump, rest = travel(case)
    body = payload(repr(case.size), case.size)
    assert received.startswith(case.head)
    received = received[len(case.head) :]
    assert pump.sent == len(case.head) + len(received)
    if case.framing == "chunked":
        reader = ChunkedReader()
        assert b"".join(reader.feed(received)) == body
        assert reader.done
        assert reader.rest == b""
        assert [header[0] for header in reader.trailers] == [b"x-trailer"]
    else:
        assert received == body
        assert pump.received == len(body)
    assert rest == case.behind
    assert pump.eof == (case.framing == "close")
