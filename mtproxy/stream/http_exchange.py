"""One HTTP exchange: the request towards the server, the response back, both bodies at once.

`HttpExchange` holds what the two halves of a transaction share and moves bytes; `HttpStream`
(stream.http) decides. Bodies that are not complete when their head is read go through `Pump`s,
stepped by one coroutine in both directions (`_forward`), so that a server may answer before it has
read the request, and a slow reader never blocks the other side.
Failures are `Stop`. Owner thread only.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from mtproxy.http import replies
from mtproxy.http.errors import BadMessage
from mtproxy.http.framing import find_head_end
from mtproxy.http.h1_request import RequestHead
from mtproxy.http.h1_response import ResponseHead, parse_response_head
from mtproxy.net.connection import ENDED, ERR, IN, OUT, READABLE, Connection
from mtproxy.proxy.capture import BadCapture, locate
from mtproxy.proxy.observe import (
    HTTP_BROKEN_PIPE,
    HTTP_READ_ERROR,
    HTTP_READ_TIMEOUT,
    HTTP_RSP,
    Event,
)
from mtproxy.proxy.transitions import notice
from mtproxy.sched.tasklet import park
from mtproxy.stream.conf import FOREVER
from mtproxy.stream.connect import follows_client, reuse_kept, take_from, take_idle, take_proven
from mtproxy.stream.pump import Pump, SinkError, SourceError
from mtproxy.stream.stream import QUIET, Stop, Stream
from mtproxy.stream.tunnel import tunnel

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from mtproxy.base.settings import ForwardFor
    from mtproxy.net.source import Outer
    from mtproxy.proxy.backend import Backend
    from mtproxy.proxy.server import Server
    from mtproxy.sched.context import ThreadContext
    from mtproxy.stream.room import FrontRoom

LAST_CHUNK = b"0\r\n\r\n"

CLOSE_LINE = replies.CONNECTION_CLOSE_LINE
KEEP_ALIVE_LINE = replies.CONNECTION_KEEP_ALIVE_LINE


#: interim responses in a row after which other streams get a turn
_FAIR = 16


class HttpExchange(Stream):
    """The mechanics of one HTTP/1 client connection's transactions.

    `up` and `down` are the pumps of the current transaction, None where none is needed.
    """

    __slots__ = (
        "answered",
        "down",
        "first",
        "forwardfor_line",
        "got_tick",
        "kept",
        "ready_tick",
        "up",
        "up_failed",
    )

    def __init__(
        self, ctx: ThreadContext, room: FrontRoom, sock: socket.socket, peer: object
    ) -> None:
        super().__init__(ctx, room, sock, peer)
        self.up: Pump | None = None
        self.down: Pump | None = None
        self.first = True
        #: ticks: ready for a request, and its first byte
        self.ready_tick = self.got_tick = ctx.now
        #: bytes of the response were sent to the client
        self.answered = False
        #: the server takes no more of the request's body
        self.up_failed = False
        #: the connection of this client alone, between two requests (`BackConf.reuse_private`)
        self.kept: Connection | None = None
        self.forwardfor_line: tuple[ForwardFor, str, bytes] | None = None

    # --- the server connection
    def _idle_connection(self, srv: Server, request: RequestHead) -> Connection | None:
        """An idle connection that `http-reuse` lets this request use. Raises Stop."""
        bconf = self.bconf
        outer = None
        if srv.outer is not None:
            self.request = request  # it may name the address
            outer = srv.outer(self)
        if bconf.reuse_private and (bconf.reuse_never or srv.private):
            return self._take_kept(srv, outer)
        if self.first and not bconf.reuse_first:
            return None
        proven = self.first and not bconf.reuse_unproven
        if srv.outer is not None:
            conn = take_from(self.task, srv, outer, proven=proven)
        elif proven:
            conn = take_proven(self.task, srv)
        else:
            conn = take_idle(self.task, srv)
        if conn is not None:
            conn.mark.reused += 1
        return conn

    def _last_server(self, be: Backend) -> Server | None:
        """`option prefer-last-server`: the one whose connection this client alone has; None
        where there is none, or where it may not be used now.
        """
        if self.kept is None:
            return None
        srv: Server = self.kept.mark.server
        if srv.backend is not be.shared or not srv.shared.usable:
            return None
        most, limit = self.bconf.kept_queue, srv.limit
        if most and limit is not None and not limit.has_room and limit.waiting.length + 1 >= most:
            return None
        return srv

    def _take_kept(self, srv: Server, outer: Outer | None) -> Connection | None:
        """The connection that this client alone used before, if it fits and lives."""
        kept, self.kept = self.kept, None
        if kept is None:
            return None
        same = kept.mark.outer == outer
        if srv.make_header is not None:
            same = same and kept.mark.header == srv.make_header(self)
        if follows_client(srv.address):
            same = same and kept.mark.target == (self.dst_ip, self.dst_port)
        if same and reuse_kept(kept, srv):
            return kept
        kept.close()
        return None

    # --- the request
    def _request_head(self, request: RequestHead) -> bytes:
        """The head as it goes to the server, with what options add to it."""
        extra = b""
        if self.bconf.forwardfor is not None or self.conf.forwardfor is not None:
            extra = self._forwardfor(request)
        if self.bconf.originalto is not None or self.conf.originalto is not None:
            extra += self._originalto()
        if request.upgrade is None:
            closes = self.bconf.close_server or self.conf.server_close
            if closes and not self.bconf.pretend_keepalive:
                # who hears 1.0 closes without being told
                if request.version == 11:
                    extra += CLOSE_LINE
            elif request.version == 10:
                extra += KEEP_ALIVE_LINE
        wire = request.wire[:-2]
        name = self.bconf.name_header
        if name is not None:
            wire = b"".join([header[2] for header in request.headers if header[0] != name])
            assert self.srv is not None
            extra += b"%b: %b\r\n" % (name, self.srv.name.encode())
        adjust = self.bconf.adjust
        if adjust is not None:
            wire, extra = adjust.block(wire), adjust.block(extra)
        return b"%b%b%b\r\n" % (request.start_wire, wire, extra)

    def _forwardfor(self, request: RequestHead) -> bytes:
        """`option forwardfor` of the backend, else of the frontend; what either side excepts gets
        no header (manual 4.2).
        """
        front = self.conf.forwardfor
        option = self.bconf.forwardfor or front
        assert option is not None
        # one side that adds it always is enough
        if option.if_none and (front is None or front.if_none):
            for header in request.headers:
                if header[0] == option.header:
                    return b""
        # Rules may change the address, and each backend has its option.
        known = self.forwardfor_line
        if known is None or known[0] is not option or known[1] != self.client_ip:
            line = _address_line(option, front, self.client_ip)
            known = self.forwardfor_line = (option, self.client_ip, line)
        return known[2]

    def _originalto(self) -> bytes:
        """`option originalto`, likewise."""
        front = self.conf.originalto
        option = self.bconf.originalto or front
        assert option is not None
        return _address_line(option, front, self.dst_ip)

    def _send_head(self, sconn: Connection, head: bytes) -> None:
        """Send a whole request; what the kernel does not take at once leaves through a pump."""
        try:
            sent = sconn.send(head)
        except BlockingIOError:
            sconn.ready &= ~OUT
            sent = 0
        except OSError:
            return  # closed by the server; reading will tell
        if sent < len(head):
            self.up = Pump(self.conn, sconn, 1, head=head[sent:], remaining=0)

    def _step_up(self) -> None:
        """Move the request's body on. Raises Stop when the client fails."""
        up = self.up
        assert up is not None
        received, sent = up.received, up.sent
        phase = "D" if self.answered else "H"
        try:
            if not up.step():
                return
        except SourceError:
            raise Stop(400 if self.answered else 0, "CD") from None
        except BadMessage:
            raise Stop(400, "P" + phase) from None
        except SinkError:
            # The server takes no more, but it may have answered: go on reading.
            self.up_failed = True
            return
        now = self.ctx.now
        if up.received != received:
            self.client_expire = now + self.conf.client
        if up.sent != sent:
            self.server_expire = now + self.bconf.server

    # --- the response head
    async def _response_head(
        self, request: RequestHead, reused: bool, since: int, buf: bytes
    ) -> tuple[ResponseHead, bytes]:
        """Wait for the final response head; also returns the bytes read behind it.

        The request's body flows meanwhile. `since` is when the request left, `buf` what has been
        read of the response. Interim responses (1xx) are passed on to clients that know them.
        Raises Stop.
        """
        ctx = self.ctx
        task = self.task
        conf = self.conf
        sconn = self.sconn
        assert sconn is not None
        self.server_expire = since + self.bconf.server
        self.client_expire = since + conf.client
        broken = HTTP_BROKEN_PIPE
        parsed = 0  # how much of buf was looked at without finding the end of a head
        while True:
            up = self.up
            uploading = up is not None and not up.done and not self.up_failed
            if uploading:
                self._step_up()
                assert up is not None
                uploading = not up.done and not self.up_failed
            if len(buf) > parsed:
                response, buf = await self._parse_response(request, buf, parsed)
                if response is not None:
                    return response, buf
                parsed = len(buf)
            if sconn.ready & READABLE:
                try:
                    data = sconn.recv(conf.bufsize)
                except BlockingIOError:
                    sconn.ready &= OUT
                    continue
                except OSError:
                    data, broken = b"", HTTP_READ_ERROR
                if not data:
                    if reused and not buf and not self.first:
                        # It was closed while our request was on its way. The client saw a kept
                        # connection work before and knows how to repeat: close without an answer,
                        # as any connection may between two requests (RFC 9112 section 9.3.1).
                        # Nobody is told of it, the log neither.
                        self.srv_status = QUIET
                        self.logged = True
                        raise Stop(0, "SH")
                    self._count_failed_response(broken)
                    raise Stop(502, "SH", partial=bool(buf))
                if len(data) < conf.bufsize and not sconn.ready & ENDED:
                    sconn.ready &= ~IN
                buf = buf + data if buf else data
                continue
            now = ctx.now
            expire = self.server_expire
            if uploading:
                assert up is not None
                if up.more:
                    await self._yield_as_bulk()
                    continue
                if not up.blocked_on_sink and self.client_expire < expire:
                    expire = self.client_expire
            if now >= expire:
                if expire == self.server_expire:
                    self._count_failed_response(HTTP_READ_TIMEOUT)
                    raise Stop(504, "sH")
                raise Stop(408, "cH")
            if self.conn.ready & ENDED and self._abort_on_close():
                # who still listens is told, a reset is none's end of a request
                raise Stop(0, "CD") if self.conn.ready & ERR else Stop(400, "CH")
            task.expire = expire
            if expire < task.timer:
                ctx.timers.arm(task, expire)
            await park()

    async def _parse_response(
        self, request: RequestHead, buf: bytes, seen: int
    ) -> tuple[ResponseHead | None, bytes]:
        """Parse the heads at the start of `buf`, passing interim ones on.

        Returns the final one, or None while it is incomplete, and the bytes behind what was parsed.
        Raises Stop.
        """
        conf = self.conf
        interims = 0
        try:
            while buf:
                end = find_head_end(buf, 0, conf.max_head, seen)
                if end < 0:
                    if not buf.startswith(b"HTTP/"[: len(buf)]):
                        raise BadMessage(502, "not HTTP")  # SSH, say, would let us wait for more
                    break
                response = parse_response_head(
                    buf if end == len(buf) else buf[:end], request.method, self.room.cache
                )
                buf = b"" if end == len(buf) else buf[end:]
                seen = 0
                status = response.status
                if status >= 200 or (status == 101 and request.upgrade is not None):
                    return response, buf
                if status == 101:
                    raise BadMessage(502, "an upgrade that nobody asked for")
                if request.version == 11:
                    interim = response.message
                    self.bytes_read += len(interim)
                    if not await self.send(interim):
                        raise Stop(0, "CD")
                    interims += 1
                    if not interims % _FAIR:
                        await self._yield_as_bulk()
        except BadMessage as error:
            self._refuse_response(buf, error)
            raise Stop(502, "PH") from None
        return None, buf

    def _refuse_response(self, data: bytes, error: BadMessage) -> None:
        """Count a response that is refused, and keep its beginning for `show errors`."""
        self._count_failed_response()
        assert self.be is not None
        self.be.last_error = self._captured(data, error)

    def _captured(self, data: bytes, error: BadMessage) -> BadCapture:
        """A message that is refused, as `show errors` shows it."""
        srv, be = self.srv, self.be
        return BadCapture(
            self.ctx.now + self.ctx.wall_offset,
            self.fe.settings,
            None if be is None else be.settings,
            None if srv is None else srv.settings,
            f"{self.client_ip}:{self.client_port}",
            data[: self.conf.bufsize],
            locate(data, error.position, error.reason),
            error.reason,
            self.conf.bufsize,
        )

    def _count_failed_response(self, event: Event = HTTP_RSP) -> None:
        srv, be = self.srv, self.be
        assert srv is not None and be is not None
        if srv.observer is not None:
            notice(srv.shared, self.ctx, event)
        srv.counters.failed_resp += 1
        be.counters.failed_resp += 1

    def _abort_on_close(self) -> bool:
        """Whether a client that has gone takes its request with it (`option abortonclose`)."""
        up = self.up
        if up is not None and not up.done:
            return False  # the pump will see it
        return self.conf.abortonclose or self.bconf.abortonclose

    # --- bodies
    async def _forward(self) -> None:
        """Run the response to its end, and what is left of the request's body beside it.

        Raises Stop when either side fails or is silent for too long.
        """
        ctx = self.ctx
        task = self.task
        conf, bconf = self.conf, self.bconf
        down = self.down
        assert down is not None
        up = self.up
        self.client_expire = ctx.now + conf.client
        self.server_expire = ctx.now + bconf.server
        before = self.bytes_read
        try:
            while True:
                uploading = up is not None and not up.done and not self.up_failed
                if uploading:
                    self._step_up()
                    assert up is not None
                    uploading = not up.done and not self.up_failed
                now = ctx.now
                if not down.done:
                    received, sent = down.received, down.sent
                    try:
                        down.step()
                    except SourceError:
                        raise Stop(0, "SD") from None
                    except BadMessage:
                        # HAProxy does not tell bad chunks from a connection that broke
                        self._count_failed_response()
                        raise Stop(0, "SD", counted=True) from None
                    except SinkError:
                        raise Stop(0, "CD") from None
                    if down.received != received:
                        self.server_expire = now + bconf.server
                    if down.sent != sent:
                        self.client_expire = now + conf.client
                if down.done and not uploading:
                    return
                if down.more or (uploading and up is not None and up.more):
                    await self._yield_as_bulk()
                    continue
                expire = FOREVER
                if down.blocked_on_sink or (uploading and up and not up.blocked_on_sink):
                    expire = self.client_expire
                if not down.done and not down.blocked_on_sink and self.server_expire < expire:
                    expire = self.server_expire
                if uploading and up and up.blocked_on_sink and self.server_expire < expire:
                    expire = self.server_expire
                if now >= expire:
                    raise Stop(0, "cD" if expire == self.client_expire else "sD")
                task.expire = expire
                if expire < task.timer:
                    ctx.timers.arm(task, expire)
                await park()
        finally:
            self.bytes_read = before + down.sent

    def switches(self, request: RequestHead, status: int) -> bool:
        """Whether a tunnel begins behind this response: the server must have said so, no rule."""
        connect = request.method == b"CONNECT"
        if status != 101 and not (connect and status < 300):
            return False
        served = self.txn.served_status if self.room.ruled else None
        return served is None or served == 101 or (connect and 200 <= served < 300)

    async def _tunnel(self, response: ResponseHead, received: bytes, rest: bytes) -> None:
        """After 101, or 2xx to CONNECT: bytes both ways, whatever they mean."""
        sconn = self.sconn
        assert sconn is not None
        self.answered = True
        head = response.message
        bufsize = self.conf.bufsize
        up = Pump(self.conn, sconn, bufsize, first=rest)
        down = Pump(sconn, self.conn, bufsize, first=received, head=head)
        self.up, self.down = up, down
        self.term_state = "----"
        before = self.bytes_read
        try:
            await tunnel(self, up, down)
        finally:
            self.bytes_read = before + down.sent

    # --- moving
    async def send(self, data: bytes) -> bool:
        """Send `data` to the client; whether it took all. One that has gone, or does not read, is
        given up after `timeout client`.
        """
        pump = Pump(self.conn, self.conn, 1, head=data, remaining=0)
        expire = self.ctx.now + self.conf.client
        self.task.set_expire(expire)
        while True:
            try:
                pump.step()
            except SinkError:
                return False
            if pump.done:
                return True
            if self.ctx.now >= expire:
                return False
            await park()

    async def send_pieces(self, pieces: Iterator[bytes], *, chunked: bool) -> bool:
        """Send a body as it is made; others have their turn between two pieces, see
        `rules.reply.Message`. Whether the client took all.
        """
        for piece in pieces:
            if piece:
                data = b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece
                self.bytes_read += len(data)
                if not await self.send(data):
                    return False
            await self._yield_as_bulk()
        if not chunked:
            return True
        self.bytes_read += len(LAST_CHUNK)
        return await self.send(LAST_CHUNK)

    async def send_interim(self, message: bytes) -> None:
        """Send an interim response that is made here. Raises Stop when the client has gone."""
        self.bytes_read += len(message)
        if not await self.send(message):
            raise Stop(0, "CR")

    async def _yield_as_bulk(self) -> None:
        """There is more to move at once: let the others run first, then go on."""
        task = self.task
        task.queue = self.ctx.bulk
        task.wake()
        await park()
        task.queue = self.ctx.normal


def _address_line(option: ForwardFor, front: ForwardFor | None, ip: str) -> bytes:
    """The header line that tells an address; empty where the option, or the frontend's, excepts
    it.
    """
    if ip == "unix" or _in_network(ip, option.except_net):
        return b""
    if front is not None and _in_network(ip, front.except_net):
        return b""
    return option.header + b": " + ip.encode() + b"\r\n"


def _in_network(ip: str, network: str | None) -> bool:
    if network is None:
        return False
    return ipaddress.ip_address(ip) in ipaddress.ip_network(network, strict=False)
