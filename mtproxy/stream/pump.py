"""Pump: moves one direction of a stream from one connection to another, without ever waiting.

`step` moves what can be moved now and returns; the stream's coroutine calls it again when one of
the two connections became ready. At most one buffer (`tune.bufsize`) or one pipe is held: nothing
more is read before the other side has taken what was read. A direction that proves to be bulk is
spliced inside the kernel; with `option splice-request` or `splice-response` it is from the start.

Framing: a body of known length or until the end of the input is passed as it is; a chunked body is
read by a `ChunkedReader` and written in chunks of our own, so that what the peer sees was
validated. Owner thread only.
"""

from __future__ import annotations

from mtproxy.http.chunked import ChunkedReader
from mtproxy.net.connection import ENDED, IN, OUT, READABLE, Connection
from mtproxy.net.splice import Pipe, give_pipe, take_pipe

#: `remaining` of a body that ends with the connection
UNTIL_CLOSE = 1 << 62
#: steps of one call before other streams get their turn
_ROUNDS = 8
#: full buffers in a row after which a direction counts as bulk
_BULK_AFTER = 4
#: input of a chunked body that may hold so many chunks that their work counts, bytes
_MANY_CHUNKS = 1024
#: do not start splicing for less than this many remaining bytes
_SPLICE_MIN = 1 << 16
#: the same where the configuration asks for it: below, a copy costs no more than a pipe
_EAGER_MIN = 1 << 14


class SourceError(Exception):
    """Reading failed (reset by the peer), or the input ended before the body did."""


class SinkError(Exception):
    """Writing failed: the reader of this direction has gone."""


class Pump:
    """One direction.

    `received` and `sent` count bytes of this direction since the pump began, framing included;
    `spliced` those of `received` that never entered the process.
    `done`: everything was read and written. `eof`: the source ended (until-close only).
    `more`: the last step stopped for fairness only; call again.
    `rest`: bytes that were read from the source behind the end of a chunked body.
    """

    __slots__ = (
        "bulk",
        "chunks",
        "done",
        "dst",
        "eager",
        "eof",
        "input",
        "more",
        "out",
        "pipe",
        "read_done",
        "received",
        "remaining",
        "rest",
        "sent",
        "size",
        "splice",
        "spliced",
        "src",
    )

    def __init__(
        self,
        src: Connection,
        dst: Connection,
        size: int,
        *,
        first: bytes = b"",
        remaining: int = UNTIL_CLOSE,
        chunks: ChunkedReader | None = None,
        head: bytes = b"",
        splice: bool = True,
        eager: bool = False,
    ) -> None:
        """`head` is written first, as it is; `first` is input that was read already. `eager`:
        splice from the start rather than when the direction has proven to be bulk.
        """
        self.src = src
        self.dst = dst
        self.size = size
        self.input = first
        self.remaining = remaining
        self.chunks = chunks
        self.out: bytes | memoryview = head
        self.splice = splice and chunks is None
        self.eager = eager and self.splice
        self.pipe: Pipe | None = None
        self.bulk = 0
        self.received = 0
        self.sent = 0
        self.spliced = 0
        self.read_done = remaining == 0 and chunks is None
        self.done = self.read_done and not head
        self.eof = False
        self.more = False
        self.rest = b""

    # --- moving
    def step(self) -> bool:
        """Move what can be moved; whether any was. Raises SourceError, SinkError, BadMessage."""
        if self.done:
            return False
        if self.pipe is not None:
            return self._step_spliced()
        moved = False
        self.more = False
        src = self.src
        for _ in range(_ROUNDS):
            if self.out:
                if not self._write():
                    return moved
                moved = True
            if self.read_done:
                self.done = True
                return True
            data = self.input
            if data:
                self.input = b""
            else:
                if not src.ready & READABLE:
                    return moved
                if self.eager and self.remaining >= _EAGER_MIN and self._start_splicing():
                    return self._step_spliced() or moved
                want = min(self.remaining, self.size)
                if self.chunks is not None:
                    want = self.size
                try:
                    data = src.recv(want)
                except BlockingIOError:
                    src.ready &= OUT
                    return moved
                except OSError as e:
                    raise SourceError(str(e)) from e
                if len(data) < want:
                    self.bulk = 0
                    if not src.ready & ENDED:
                        src.ready &= ~IN
                elif self.splice:
                    self.bulk += 1
            moved = True
            if not data:
                if self.remaining != UNTIL_CLOSE or self.chunks is not None:
                    raise SourceError("the message was cut short")
                self.eof = self.read_done = True
                continue
            self.received += len(data)
            if self.chunks is not None:
                if self._take_chunks(data):
                    break
            elif self.remaining == UNTIL_CLOSE:
                self.out = data
            else:
                self.out = data
                self.remaining -= len(data)
                if self.remaining == 0:
                    self.read_done = True
            if (
                self.bulk >= _BULK_AFTER
                and not self.read_done
                and self.remaining >= _SPLICE_MIN
                and self._start_splicing()
            ):
                return self._step_spliced()
        self.more = True
        return True

    def _take_chunks(self, data: bytes) -> bool:
        """Relay what `data` holds; whether it was so much work that others must run now.

        Work goes by the number of chunks, not by bytes: a buffer full of tiny ones takes as long as
        many full buffers. They show in how little of the input is payload.
        """
        chunks = self.chunks
        assert chunks is not None
        before = chunks.payload
        pieces = chunks.relay(data)
        if pieces:
            self.out = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if chunks.done:
            self.read_done = True
            self.rest = chunks.rest
            self.received -= len(self.rest)
            return False
        return len(data) >= _MANY_CHUNKS and (chunks.payload - before) * 8 < len(data) * 7

    def _write(self) -> bool:
        """Send `out`; whether all of it went."""
        dst = self.dst
        out = self.out
        if not dst.ready & (OUT | ENDED):
            return False
        try:
            n = dst.send(out)
        except BlockingIOError:
            dst.ready &= ~OUT
            return False
        except OSError as e:
            raise SinkError(str(e)) from e
        self.sent += n
        if n < len(out):
            self.out = memoryview(out)[n:]
            dst.ready &= ~OUT
            return False
        self.out = b""
        return True

    # --- in the kernel
    def _start_splicing(self) -> bool:
        if self.out and not self._write():
            self.bulk = 0  # the reader is slow: try again later
            return False
        self.pipe = take_pipe(self.src.ctx)
        if self.pipe is None:
            self.splice = self.eager = False
            self.bulk = 0
            return False
        return True

    def _step_spliced(self) -> bool:
        moved = False
        self.more = False
        src, dst, pipe = self.src, self.dst, self.pipe
        assert pipe is not None
        for _ in range(_ROUNDS):
            if pipe.level:
                if not dst.ready & (OUT | ENDED):
                    return moved
                try:
                    n = pipe.drain(dst.fd)
                except BlockingIOError:
                    dst.ready &= ~OUT
                    return moved
                except OSError as e:
                    raise SinkError(str(e)) from e
                self.sent += n
                moved = True
                if pipe.level:
                    continue  # EAGAIN will tell when the peer's window is full
            if self.read_done:
                self.done = True
                self.close()
                return True
            if not src.ready & READABLE:
                return moved
            try:
                n = pipe.fill(src.fd, min(pipe.size, self.remaining))
            except BlockingIOError:
                src.ready &= OUT
                return moved
            except OSError as e:
                raise SourceError(str(e)) from e
            moved = True
            if n == 0:
                if self.remaining != UNTIL_CLOSE:
                    raise SourceError("the message was cut short")
                self.eof = self.read_done = True
                continue
            self.received += n
            self.spliced += n
            if self.remaining != UNTIL_CLOSE:
                self.remaining -= n
                if self.remaining == 0:
                    self.read_done = True
        self.more = True
        return True

    # --- state
    def abandon(self) -> None:
        """Move nothing any more; what is held is lost."""
        self.input = self.out = b""
        self.read_done = self.done = True
        self.more = False
        self.close()

    @property
    def blocked_on_sink(self) -> bool:
        """There is something to write that the reader does not take."""
        return bool(self.out) or (self.pipe is not None and self.pipe.level > 0)

    def close(self) -> None:
        """Give the pipe back. To be called at the end of the stream, whatever the reason."""
        if self.pipe is not None:
            pipe, self.pipe = self.pipe, None
            give_pipe(self.src.ctx, pipe)
