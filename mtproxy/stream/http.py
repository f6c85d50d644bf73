"""`mode http`: the client side of HTTP/1 and the way of one request.

`HttpStream.run` is the coroutine of one client connection: read a head, hand it to `_transaction`,
and again while the connection is kept. `_transaction` is HAProxy's process_stream for HTTP written
as a straight line: backend, server, connection, request out, response head in, bodies, log. It is
long because it is the hot path of the whole program; what is usual (a request without a body, a
response that is complete, both connections kept) is written out, everything else stands in methods.
"""

from __future__ import annotations

from mtproxy.http.chunked import ChunkedReader
from mtproxy.http.errors import BadMessage
from mtproxy.http.framing import find_head_end
from mtproxy.http.h1_request import RequestHead, parse_request_head
from mtproxy.http.h1_response import (
    BODY_CHUNKED,
    BODY_LENGTH,
    BODY_NONE,
    BODY_UNTIL_CLOSE,
    ResponseHead,
    parse_response_head,
)
from mtproxy.http.headers import make_header
from mtproxy.http.uri import path_and_query
from mtproxy.net.connection import ENDED, IN, OUT, READABLE
from mtproxy.proxy.observe import of_status
from mtproxy.proxy.transitions import notice
from mtproxy.rules.reply import Message
from mtproxy.sched.tasklet import park
from mtproxy.stream.connect import connect, give_idle
from mtproxy.stream.http_ending import HttpEnding
from mtproxy.stream.http_exchange import CLOSE_LINE, KEEP_ALIVE_LINE
from mtproxy.stream.linger import linger
from mtproxy.stream.pump import UNTIL_CLOSE, Pump
from mtproxy.stream.queueing import wait_for_server
from mtproxy.stream.request_body import Coming, RequestBody, split_body
from mtproxy.stream.retrying import final_response
from mtproxy.stream.rules import evaluate
from mtproxy.stream.stream import Stop

#: methods that a server's `redir` means
_SENT_AWAY = frozenset({b"GET", b"HEAD"})
#: pipelined requests after which other streams get a turn
_FAIR = 16


class HttpStream(HttpEnding):
    """One HTTP/1 client connection."""

    __slots__ = ()

    is_http = True

    @property
    def uploading(self) -> bool:  # type: ignore[override]
        """Whether the request's body has not been sent whole."""
        return self.up is not None and not self.up.done

    # --- the client connection
    async def run(self, buf: bytes = b"") -> None:
        """The session's coroutine: one request after the other. `buf` has been read already."""
        ctx = self.ctx
        conn = self.conn
        task = self.task
        conf = self.conf
        cache = self.room.cache
        recv = conn.recv
        known = cache.request_heads
        bufsize = conf.bufsize
        in_a_row = 0
        try:
            while True:
                now = ctx.now
                self.begin(now)
                self.ready_tick = self.got_tick = now
                expire = now + (conf.http_request if self.first or buf else conf.keep_alive)
                task.expire = expire
                if expire < task.timer:
                    ctx.timers.arm(task, expire)
                end = seen = 0
                try:
                    while True:
                        if buf:
                            if buf in known:
                                end = len(buf)  # a whole head that came before, nothing behind it
                                break
                            end = find_head_end(buf, 0, conf.max_head, seen)
                            if end > 0:
                                break
                            seen = len(buf)
                        if conn.ready & READABLE:
                            try:
                                data = recv(bufsize)
                            except BlockingIOError:
                                conn.ready &= OUT
                                continue
                            except OSError:
                                data = b""
                            if not data:
                                await self._closed_early(buf)
                                return
                            if len(data) < bufsize and not conn.ready & ENDED:
                                conn.ready &= ~IN
                            if buf:
                                buf += data
                            else:
                                buf = data
                                self.got_tick = now = ctx.now
                                if not self.first:
                                    task.expire = expire = now + conf.http_request
                                    if expire < task.timer:
                                        ctx.timers.arm(task, expire)
                            continue
                        if ctx.now >= task.expire:
                            await self._timed_out(buf)
                            return
                        if ctx.stopping and not (buf or self.first or conf.idle_close):
                            if task.expire > ctx.pool.close_spread_end:
                                task.set_expire(ctx.now + ctx.pool.lets_idle(ctx.now))
                            if ctx.now >= task.expire:
                                return
                        await park()
                    if end == len(buf):
                        request = parse_request_head(buf, cache)
                        rest = b""
                    else:
                        request = parse_request_head(buf[:end], cache)
                        rest = buf[end:]
                except BadMessage as e:
                    await self._refuse(e, buf)
                    return
                self.bytes_uploaded = end
                leftover = await self._transaction(request, rest)
                if leftover is None:
                    return
                buf = leftover
                self.first = False
                if buf:
                    # requests in a row that are answered here would keep the thread from all others
                    in_a_row += 1
                    if not in_a_row % _FAIR:
                        await self._yield_as_bulk()
        except Stop:
            pass  # the transaction was ended from outside when it was over already
        finally:
            if self.kept is not None:
                self.kept.close()
            self.close_session()

    # --- one request
    async def _transaction(self, request: RequestHead, rest: bytes) -> bytes | None:
        """Serve one request. Returns what the client sent behind it, or None to close."""
        ctx = self.ctx
        conf = self.conf
        room = self.room
        conn = self.conn
        self.request_line = request.start_line
        self.t_R = ctx.now - self.got_tick
        keep = failed = False
        usual = request.usual and room.plain
        ruled = room.ruled
        route = room.route
        head = request.message
        body: Coming | None = None
        here, leftover = b"", rest
        if not request.usual:
            try:
                here, leftover, body = split_body(self, request, rest)
            except BadMessage as e:
                # a chunk; its place in what has been read is not known
                e.position = len(head)
                await self._refuse(e, head + rest)
                return None
        self.fe.counters.cum_req += 1
        try:
            if conf.monitor_uri is not None and _is_monitor(request.target, conf.monitor_uri):
                return await self._monitor(request, leftover, body is None)
            if ruled:
                pending = None
                if not request.usual and (here or body is not None):
                    pending = RequestBody(request, here, leftover, body)
                self.begin_rules(request, pending)
                try:
                    route = await self.run_request_rules()
                finally:
                    if pending is not None:
                        here, leftover, body = pending.here, pending.rest, pending.coming
                be = route.backend
                if be is None:
                    raise Stop(503, "SC")
                # rules may have changed them all
                assert self.request is not None
                request, conf, bconf = self.request, self.conf, self.bconf
            else:
                be = route.backend
                if be is None or route.bconf is None:
                    raise Stop(503, "SC")
                bconf = route.bconf
                self.enter_backend(be, bconf)
            srv = None
            if ruled and bconf.persistence is not None:
                srv = bconf.persistence.choose(self)
                request = self.request or request  # a cookie may have been taken out
            if be.sticking is not None:
                srv = be.sticking.choose(self, srv)
            if srv is None and bconf.prefer_last:
                srv = self._last_server(be)
            if srv is None:
                srv = be.pick(self)
                if srv is None:
                    srv = await wait_for_server(self, be)
                else:
                    self.t_w = 0
            else:
                if srv.limit is None:
                    srv.take()
                    self.t_w = 0
                else:
                    srv = await wait_for_server(self, be, srv)
                srv.counters.unbalanced += 1
            self.set_server(srv)
            if bconf.redirects and srv.settings.redir and request.method in _SENT_AWAY:
                await self._send_away(request, srv.settings.redir)
            if not usual:
                if ruled and self.txn.own_req:
                    request.seal()
                if request.usual and route.plain:
                    head = request.message
                else:
                    head = self._request_head(request) + here

            # --- a connection, the head out
            sconn = self._idle_connection(srv, request)
            reused = sconn is not None
            if sconn is None:
                sconn = await connect(self)
                if bconf.name_header is not None and self.srv is not srv:
                    # another server than the one first chosen
                    head = self._request_head(request) + here
            else:
                self.t_c = 0
                srv.counters.reuse += 1
            self.sconn = self.used = sconn
            sent_at = ctx.now
            if body is None:
                self._send_head(sconn, head)
            else:
                first, remaining, chunks = body
                self.up = Pump(
                    conn, sconn, conf.bufsize,
                    head=head, first=first, remaining=remaining, chunks=chunks,
                    splice=conf.splice, eager=conf.splice_request or bconf.splice_request,
                )  # fmt: skip

            # --- the response head: nearly always one wait and one read; else the general way
            received = b""
            response = None
            end = 0
            if self.up is None:
                task = self.task
                task.expire = expire = sent_at + bconf.server
                if expire < task.timer:
                    ctx.timers.arm(task, expire)
                if not sconn.ready & READABLE:
                    await park()
                if sconn.ready & IN:
                    try:
                        received = sconn.recv(conf.bufsize)
                        if len(received) < conf.bufsize and not sconn.ready & ENDED:
                            sconn.ready &= ~IN
                        end = find_head_end(received, 0, conf.max_head) if received else -1
                        if end > 0:
                            response = parse_response_head(
                                received[:end], request.method, room.cache
                            )
                    except BlockingIOError:
                        sconn.ready &= OUT
                    except (OSError, BadMessage):
                        response = None  # comes again below, where it is dealt with
            if bconf.retry_on and body is None:
                response, received, sent_at = await final_response(
                    self,
                    request,
                    head,
                    response,
                    received if response is None or response.status < 200 else received[end:],
                    reused,
                    sent_at,
                )
                sconn = self.sconn
            elif response is None or response.status < 200:
                response, received = await self._response_head(request, reused, sent_at, received)
            else:
                received = received[end:]
            self.t_r = ctx.now - sent_at
            if srv.observer is not None:
                notice(srv.shared, ctx, of_status(response.status))
            if ruled:
                if self.tracking is not None:
                    self.tracking.count_status(response.status)
                if self.txn.own_req and not request.start_line.startswith(request.method + b" "):
                    response = self.method_changed(request, response)
                if be.sticking is not None:
                    self.response = response
                    be.sticking.store(self)
                changed = None if route.known is None else route.known.get(response)
                if changed is not None:
                    response = changed
                elif route.changes_responses:
                    self.begin_response_rules(response, received)
                    if route.res_content:
                        await self.inspect_response(route)
                    for rules in route.response:
                        verdict = evaluate(rules, self)
                        if verdict is not None:
                            await self.response_verdict(rules, verdict)
                    response = self.end_response_rules(route)
                    received = self.txn.res_received
                if self.txn.close:
                    request = self.txn.own_request(self)
                    request.keep_alive = request.usual = False
            self.status = response.status

            # --- the response: nearly always complete, and both connections stay
            if (
                response.usual
                and request.usual
                and route.usual
                and len(received) == response.content_length
                and not ctx.stopping
            ):
                out = response.message + received
                self.answered = True
                try:
                    sent = conn.send(out)
                except BlockingIOError:
                    sent = 0
                    conn.ready &= ~OUT
                except OSError:
                    raise Stop(0, "CD") from None
                self.bytes_read += sent
                if sent < len(out) or self.up is not None:
                    self.down = Pump(sconn, conn, 1, head=out[sent:], remaining=0)
                    await self._forward()
                self.sconn = None
                give_idle(sconn, ctx.now)
                keep = True
                self.term_state = "----"
            else:
                keep = await self._respond(request, response, received, rest)
                if self.up is not None and self.up.chunks is not None:
                    leftover = self.up.rest
        except Stop as stop:
            failed = True
            keep = await self._stopped(stop, request, body is None)
            if keep and self.up is not None and self.up.chunks is not None:
                leftover = self.up.rest
        finally:
            unread = self.up_failed
            if ruled:
                letters = self.txn.cookie_state
                if letters == "--":
                    letters = (self.conf if self.be is None else self.bconf).cookie_letters
                if letters != "--":
                    self.term_state = self.term_state[:2] + letters
            self._account()
        if keep:
            return leftover
        if failed or unread or leftover or conf.nolinger:
            await linger(self)
        return None

    async def _respond(
        self, request: RequestHead, response: ResponseHead, received: bytes, rest: bytes
    ) -> bool:
        """Pass any response on, `received` being what came behind its head, and what is left of the
        request's body. Whether the client connection goes on. Raises Stop.
        """
        ctx = self.ctx
        conf, bconf = self.conf, self.bconf
        conn, sconn = self.conn, self.sconn
        assert sconn is not None
        status = response.status
        if self.switches(request, status):
            await self._tunnel(response, received, rest)
            return False
        mode = response.body
        keep = (
            request.keep_alive
            and mode != BODY_UNTIL_CLOSE
            and not self.up_failed
            and (not ctx.stopping or ctx.pool.keeps_alive(ctx.now))
            and not conf.httpclose
            and not (request.version == 10 and response.chunked)
        )
        if keep and request.version == 11 == response.version:
            out = response.message
        else:
            # who speaks 1.0 closes without being told
            line = KEEP_ALIVE_LINE if keep else CLOSE_LINE if response.version == 11 else b""
            out = b"%b%b%b\r\n" % (response.start_wire, response.wire[:-2], line)
        if conf.adjust is not None:
            out = conf.adjust.head(out)
        extra = b""
        body: Coming | None = None
        if mode == BODY_LENGTH:
            length = response.content_length
            if len(received) >= length:
                out += received[:length]
                extra = received[length:]
            else:
                body = (received, length, None)
        elif mode == BODY_NONE:
            extra = received
        elif mode == BODY_CHUNKED:
            reader = ChunkedReader()
            try:
                out += b"".join(reader.relay(received))
            except BadMessage as e:
                head = response.message
                e.position = len(head)
                self._refuse_response(head + received, e)
                self.t_r = -1
                raise Stop(502, "PH") from None
            if reader.done:
                extra = reader.rest
            else:
                body = (b"", UNTIL_CLOSE, reader)
        else:
            body = (received, UNTIL_CLOSE, None)
        if conf.logasap:
            self._log_now()
        self.answered = True
        if body is None:
            await self._send_whole(out)
        else:
            first, remaining, chunks = body
            self.down = Pump(
                sconn, conn, conf.bufsize,
                head=out, first=first, remaining=remaining, chunks=chunks,
                splice=conf.splice, eager=conf.splice_response or bconf.splice_response,
            )  # fmt: skip
            await self._forward()
            if self.down.chunks is not None:
                extra = self.down.rest
        if self.up_failed:
            keep = False
        elif (
            response.keep_alive
            and not extra
            and mode != BODY_UNTIL_CLOSE
            and not bconf.close_server
            and not conf.server_close
        ):
            self.sconn = None
            if bconf.reuse_private and (bconf.reuse_never or sconn.mark.server.private):
                self.kept = sconn
            else:
                give_idle(sconn, ctx.now)
        self.term_state = "----"
        return keep

    async def _send_whole(self, out: bytes) -> None:
        """Send a response that is here to its end. Raises Stop as `_forward` does."""
        conn, sconn = self.conn, self.sconn
        assert sconn is not None
        sent = 0
        if self.up is None:
            try:
                sent = conn.send(out)
            except BlockingIOError:
                conn.ready &= ~OUT
            except OSError:
                raise Stop(0, "CD") from None
            self.bytes_read += sent
            if sent == len(out):
                return
        self.down = Pump(sconn, conn, 1, head=out[sent:], remaining=0)
        await self._forward()

    async def _send_away(self, request: RequestHead, prefix: bytes) -> None:
        """`redir` of a server: the client is told to go there itself (manual 5.2). Raises Stop."""
        path = path_and_query(request.target) or b""
        # a sole slash stands for no prefix
        where = path if prefix == b"/" else prefix + path
        headers = [
            make_header(b"cache-control", b"no-cache"),
            make_header(b"content-length", b"0"),
            make_header(b"location", where),
        ]
        await self._send_reply(Message(302, b"Found", headers, b""), request, keep=False)
        self.answered = True
        raise Stop(0, "LC")


def _is_monitor(target: bytes, monitor: bytes) -> bool:
    """Whether `monitor-uri` means this target: by path alone unless it was given as a whole URI."""
    if target == monitor:
        return True
    if not monitor.startswith(b"/") or target.startswith(b"/"):
        return False
    return b"/" + target.partition(b"://")[2].partition(b"/")[2] == monitor
