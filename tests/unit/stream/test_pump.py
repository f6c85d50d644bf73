"""Pumps: fairness where work does not go by bytes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mtproxy.http.chunked import ChunkedReader
from mtproxy.net.connection import IN, OUT
from mtproxy.stream.pump import Pump

SIZE = 16380


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
    src = source(b"1\r\nx\r\n" * (SIZE // 6))
    pump = Pump(src, sink(), SIZE, chunks=ChunkedReader())
    assert pump.step()
    assert src.reads == 1
    assert pump.more
    assert pump.step()
    assert src.reads == 2
    assert pump.sent > 0


def test_large_chunks_go_on() -> None:
    size = SIZE - len(b"3ff4\r\n\r\n")
    chunk = b"%x\r\n%b\r\n" % (size, b"x" * size)
    assert len(chunk) == SIZE
    src = source(chunk)
    pump = Pump(src, sink(), SIZE, chunks=ChunkedReader())
    assert pump.step()
    assert src.reads > 1
