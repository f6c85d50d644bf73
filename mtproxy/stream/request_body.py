"""The body of a request before it is forwarded: what rules see of it, and waiting for it.

`RequestBody` holds what has been read of a body that rules may look at: `here` is what leaves with
the head, in wire form; `rest` what stands behind the body once all of it is here; `coming` what a
pump has to read, None when nothing is left. A client that leaves meanwhile sets `cut`: rules go on
with what is here, and no server hears of the request (`HttpRules.run_request_rules`). Owner thread
only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.http import replies
from mtproxy.http.chunked import ChunkedReader
from mtproxy.http.errors import BadMessage
from mtproxy.http.headers import K_EXPECT
from mtproxy.net.connection import ENDED, IN, OUT, READABLE
from mtproxy.sched.tasklet import park
from mtproxy.stream.pump import UNTIL_CLOSE
from mtproxy.stream.stream import Stop

if TYPE_CHECKING:
    from mtproxy.http.h1_request import RequestHead
    from mtproxy.stream.http_rules import HttpRules

#: a body that is still to come: bytes that are here, bytes in all, its reader if it is chunked
type Coming = tuple[bytes, int, ChunkedReader | None]


class RequestBody:
    """See the module. `payload` is the content so far, without chunk framing."""

    __slots__ = ("_decoder", "_payload", "coming", "cut", "here", "rest")

    def __init__(
        self, request: RequestHead, here: bytes, rest: bytes, coming: Coming | None
    ) -> None:
        self.here = here
        self.rest = rest
        self.coming = coming
        #: the client has gone before its body was complete
        self.cut = False
        self._decoder = ChunkedReader() if request.chunked else None
        self._payload = b"".join(self._decoder.feed(here)) if self._decoder is not None else b""

    @property
    def complete(self) -> bool:
        return self.coming is None

    @property
    def payload(self) -> bytes:
        """The content that has been read, as far as it is known."""
        if self._decoder is not None:
            return self._payload
        return self.here if self.coming is None else self.coming[0]

    def add(self, data: bytes, stream: HttpRules) -> None:
        """Take more bytes of the client. Raises BadMessage."""
        assert self.coming is not None
        first, length, reader = self.coming
        if reader is None:
            first += data
            if len(first) < length:
                self.coming = (first, length, None)
                return
            self.here, self.rest, self.coming = first[:length], first[length:], None
            stream.bytes_uploaded += length
            return
        assert self._decoder is not None
        relayed = b"".join(reader.relay(data))
        stream.bytes_uploaded += len(data) - len(reader.rest)
        self.here += relayed
        self._payload += b"".join(self._decoder.feed(relayed))
        if reader.done:
            self.rest = reader.rest
            self.coming = None


def split_body(
    stream: HttpRules, request: RequestHead, rest: bytes
) -> tuple[bytes, bytes, Coming | None]:
    """(what is here of the body and leaves with the head, what is behind the body, what a pump
    has to read). Raises BadMessage for bad chunks, so that no server hears of such a request.
    """
    length = request.content_length
    if request.chunked:
        reader = ChunkedReader()
        here = b"".join(reader.relay(rest))
        stream.bytes_uploaded += len(rest) - len(reader.rest)
        if reader.done:
            return here, reader.rest, None
        return here, b"", (b"", UNTIL_CLOSE, reader)
    if length <= 0:
        return b"", rest, None
    if len(rest) >= length:
        stream.bytes_uploaded += length
        return rest[:length], rest[length:], None
    return b"", b"", (rest, length, None)


async def wait_for_body(
    stream: HttpRules, request: RequestHead, body: RequestBody, until: int, at_least: int
) -> None:
    """Read until the body is complete, the buffer is full, or `at_least` bytes are here (0: all).

    Manual 4.2, `http-request wait-for-body`. Raises Stop: 408 at the tick `until`, 400 for what is
    no body. A client that leaves ends the wait.
    """
    if body.complete or body.cut:
        return
    ctx = stream.ctx
    while not body.complete and not 0 < at_least <= len(body.payload):
        if ctx.now >= until:
            stream.t_R = -1
            raise Stop(408, "cR")
        if not await wait_for_more(stream, request, body, until):
            break
    stream.t_R = ctx.now - stream.got_tick


async def wait_for_more(
    stream: HttpRules, request: RequestHead, body: RequestBody, until: int
) -> bool:
    """Read a piece of the body, or wait for one up to the tick `until`; it may be called again.

    False where nothing more will come, or the buffer is full. Raises Stop for what is no body.
    """
    conn = stream.conn
    request = stream.request or request
    if request.expect_continue and not body.payload:
        await greet(stream, request)
    room = stream.conf.max_head - len(request.message) - len(body.payload)
    if room <= 0 or body.cut:
        return False
    if conn.ready & READABLE:
        most = min(stream.conf.bufsize, room)
        try:
            data = conn.recv(most)
        except BlockingIOError:
            conn.ready &= OUT
            return True
        except OSError:
            data = b""
        if not data:
            body.cut = True
            return False
        if not conn.ready & ENDED and len(data) < most:
            conn.ready &= ~IN
        try:
            body.add(data, stream)
        except BadMessage:
            stream.t_R = -1
            raise Stop(400, "PR") from None
        return True
    stream.task.set_expire(until)
    if stream.ctx.now < until:
        await park()
    return True


async def greet(stream: HttpRules, request: RequestHead) -> None:
    """Ask for the body that the client holds back, in place of the server (RFC 9110 10.1.1)."""
    if not await stream.send(replies.CONTINUE):
        raise Stop(400, "CR")
    head = stream.txn.own_request(stream)
    head.headers = [header for header in head.headers if header[3] != K_EXPECT]
    head.expect_continue = False
