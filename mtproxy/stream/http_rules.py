"""The rules of an HTTP transaction: when each rule set runs, and what becomes of its verdicts.

`HttpRules` stands between the mechanics (`HttpExchange`) and the decisions (`HttpStream`). Nothing
here runs for a frontend whose transactions meet no rules. The order is HAProxy's: content rules,
http-request rules, choice of the backend, the backend's content and http-request rules; for
responses the backend's sets first, then the frontend's. Failures and answers are `Stop`. Owner
thread only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.http.chunked import ChunkedReader
from mtproxy.http.errors import BadMessage
from mtproxy.http.h1_request import RequestHead
from mtproxy.http.h1_response import (
    BODY_CHUNKED,
    BODY_LENGTH,
    BODY_NONE,
    ResponseHead,
    make_response,
)
from mtproxy.http.headers import K_SET_COOKIE, make_header
from mtproxy.net.connection import ENDED, IN, OUT, READABLE
from mtproxy.rules.endpoints import forget_changes
from mtproxy.rules.reply import ErrorReply, Message, built_in
from mtproxy.rules.rewrite import FAILED
from mtproxy.rules.transaction import Transaction
from mtproxy.rules.verdict import CLOSE_SERVER, DROP, MISSING, Answer, Verdict
from mtproxy.sched.tasklet import park
from mtproxy.stream.cookies import cacheable
from mtproxy.stream.headadjust import odd_names, without_odd_names
from mtproxy.stream.http_exchange import CLOSE_LINE, KEEP_ALIVE_LINE, HttpExchange
from mtproxy.stream.persistence import note_refused
from mtproxy.stream.request_body import RequestBody, wait_for_body, wait_for_more
from mtproxy.stream.rules import Route, evaluate, run, run_content
from mtproxy.stream.stream import Stop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtproxy.rules.build import BuiltRule
    from mtproxy.stream.rules import Intercept


#: changed heads that are remembered per route and thread
_KNOWN_HEADS = 512


class HttpRules(HttpExchange):
    """What rules do to a transaction."""

    __slots__ = ()

    # --- the request
    def begin_rules(self, request: RequestHead | None, body: RequestBody | None = None) -> None:
        """A transaction that rules will look at begins. `body`: where the request has one.

        `request` is None for what was none: there are no rules for it, but its log line.
        """
        self.txn = Transaction()
        if self.endpoints is not None:
            forget_changes(self)
        self.conf = self.room.conf
        self.request = request
        self.response = None
        if request is not None:
            self.status = -1  # that of the transaction before
        if body is not None:
            self._note_body(body)
        keeper = self.room.keeper
        if keeper is not None:
            keeper.begin(self)

    def _note_body(self, body: RequestBody) -> None:
        txn = self.txn
        txn.pending = body
        txn.body = body.payload
        txn.body_complete = body.complete

    async def wait_for_request_body(self, until: int, at_least: int = 0) -> None:
        """Read the request's body up to the tick `until` (see `request_body`). Raises Stop."""
        body, request = self.txn.pending, self.request
        if body is None or request is None or body.complete:
            return
        await wait_for_body(self, request, body, until, at_least)
        self._note_body(body)

    async def run_request_rules(self) -> Route:
        """The frontend's rules, the choice of the backend, and its rules. Raises Stop.

        The stream has entered its backend when this returns, unless there is none.
        """
        room = self.room
        front = room.rules
        route = room.route
        if self.txn.pending is not None and self.conf.buffer_request:
            await self.wait_for_request_body(self.got_tick + self.conf.http_request)
        if front is not None:
            if front.content:
                await self._content_set(front.content, front.inspect_delay)
            if self.tracking is not None:
                self.tracking.count_request()
            if front.request:
                memory = front.memory
                if memory is None:
                    await self._request_set(front.request)
                else:
                    if not memory.recall(self):
                        begun = memory.begin(self)
                        await self._request_set(memory.rules)
                        if begun is not None:
                            memory.keep(self, begun)
                    # a rule that is noted has let the request pass by all others
                    if memory.rest and self.txn.rule is None:
                        await self._request_set(memory.rest)
            if front.stats is not None and front.stats.wants(self):
                await self._intercepted(front.stats)
            if self.conf.restrict:
                self._restrict_names(self.conf.restrict)
            if front.redirect:
                await self._request_set(front.redirect)
            if front.use_backend:
                route = room.choose(front, self)
        elif self.conf.restrict:
            self._restrict_names(self.conf.restrict)
        be, bconf = route.backend, route.bconf
        if be is None or bconf is None:
            self._leave_request()
            if route.incompatible:
                # HAProxy has no words for what has become HTTP by a rule
                raise Stop(500 if room.mode == self.fe.settings.mode else 0, "IR")
            return route
        self.enter_backend(be, bconf)
        if self.txn.limits is not None:
            for name, value in self.txn.limits.items():
                self.set_limit(name, value)
        if self.txn.pending is not None and bconf.buffer_request:
            await self.wait_for_request_body(self.got_tick + bconf.http_request)
        back = route.rules
        if back is None:
            if bconf.restrict:
                self._restrict_names(bconf.restrict)
        else:
            if back.content:
                await self._inspect(back.content, back.inspect_delay)
            if self.tracking is not None:
                self.tracking.count_backend_request()
            if back.request:
                await self._request_set(back.request)
            if back.stats is not None and back.stats.wants(self):
                await self._intercepted(back.stats)
            if bconf.restrict:
                self._restrict_names(bconf.restrict)
            if back.redirect:
                await self._request_set(back.redirect)
        if self.txn.pending is not None and self.txn.pending.cut:
            raise Stop(0, "CR")
        self._leave_request()
        return route

    def _restrict_names(self, how: str) -> None:
        """`option http-restrict-req-hdr-names`. Raises Stop."""
        request = self.request
        assert request is not None
        if not odd_names(request.headers):
            return
        if how == "reject":
            self._count_denied()
            raise Stop(403, "PR")
        head = self.txn.own_request(self)
        head.headers = without_odd_names(head.headers)

    def _leave_request(self) -> None:
        """The rules for the request are through."""
        keeper = self.room.keeper
        if keeper is not None:
            keeper.request_leaves(self)
        self.txn.begin_response()

    async def _inspect(self, rules: Sequence[BuiltRule], delay: int) -> None:
        """Content rules: what is not decided yet waits for the body, or for the delay.

        Raises Stop.
        """
        ctx, txn, task = self.ctx, self.txn, self.task
        until = ctx.now + delay
        while True:
            body, request = txn.pending, self.request
            # nothing is waited for behind a whole request, not even by `wait_end`
            txn.payload_final = body is None or body.complete or ctx.now >= until
            verdict = await run_content(rules, self)
            if verdict is not MISSING:
                break
            if body is not None and request is not None and not body.complete:
                if not await wait_for_more(self, request, body, until):
                    until = ctx.now
                self._note_body(body)
                continue
            task.set_expire(until)
            if ctx.now < until:
                await park()
        txn.payload_final = True
        if verdict is not None:
            await self._request_verdict(rules, verdict)

    async def _content_set(self, rules: Sequence[BuiltRule], delay: int) -> None:
        """The frontend's content rules: who is refused has not sent a request yet."""
        try:
            await self._inspect(rules, delay)
        except Stop:
            self.request_line = None
            self.t_R = -1
            self.fe.counters.cum_req -= 1
            raise

    async def _request_set(self, rules: Sequence[BuiltRule]) -> None:
        verdict = evaluate(rules, self)
        if verdict is not None:
            await self._request_verdict(rules, verdict)

    async def _intercepted(self, service: Intercept) -> None:
        """A service answers in place of a server. Raises Stop."""
        self.server = service.name
        self.t_w = self.t_c = 0
        if service.access:
            await self._request_set(service.access)
        self.t_r = 0
        await self._request_verdict((), service.answer(self))

    async def _request_verdict(self, rules: Sequence[BuiltRule], verdict: Verdict) -> None:
        """Act upon the first verdict of a rule set. Raises Stop where it is final."""
        final = await run(rules, self, verdict)
        if final is None:
            return
        if self.be is not None:
            self.be.counters.last_tick = self.ctx.now
        keeper = self.room.keeper
        if keeper is not None and not (isinstance(final, Answer) and not final.denied):
            keeper.request_refused(self)
        if not isinstance(final, Answer):
            self._count_denied()
            self.t_R = -1
            if final is DROP:
                self.conn.vanish()
            raise Stop(0, "PR")
        if self.tracking is not None and (final.delayed or final.denied or final.reply.blames):
            self.tracking.count_error()
        if final.delayed or final.denied:
            note_refused(self)
        if final.delayed:
            self._count_denied()
            await self._tarpit(final)
        if final.denied:
            self._count_denied()
            raise Stop(0, "PR", final)
        if final.error:
            self._count_internal_error()
            self.t_R = -1
            raise Stop(0, "PR", final)
        if final.bad:
            self.fe.counters.failed_req += 1
            if self.listener.counters is not None:
                self.listener.counters.failed_req += 1
            self.t_R = -1
            raise Stop(0, "PR", final)
        if self.be is None:
            self.fe.counters.intercepted_req += 1
        raise Stop(0, "LR", final)

    def _count_denied(self) -> None:
        """A rule refused the request: counted where the rule stands."""
        self.fe.counters.denied_req += 1
        if self.be is not None:
            self.be.counters.denied_req += 1
        if self.listener.counters is not None:
            self.listener.counters.denied_req += 1

    def _count_internal_error(self) -> None:
        """A rule could not do its work."""
        for owner in (self.fe, self.be, self.srv, self.listener):
            counters = None if owner is None else owner.counters
            if counters is not None:
                counters.internal_errors += 1

    async def _tarpit(self, answer: Answer) -> None:
        """Let the client wait for `timeout tarpit`, or until it goes. Raises Stop."""
        ctx, task = self.ctx, self.task
        started = ctx.now
        until = started + (self.conf.tarpit if self.be is None else self.bconf.tarpit)
        task.set_expire(until)
        while ctx.now < until and not self.client_gone:
            await park()
        # the log takes the time for a wait in a queue
        self.t_R, self.t_w = -1, ctx.now - started
        raise Stop(0, "PT", answer)

    # --- the response
    def begin_response_rules(self, response: ResponseHead, received: bytes) -> None:
        """Rules will look at a server's response. `received` is what has been read behind its head;
        afterwards it is `txn.res_received`.
        """
        self.response = self.txn.received_head = response
        self.status = response.status  # for formats of rules
        keeper = self.room.keeper
        if keeper is not None:
            keeper.response_comes(self)
        self.txn.res_received = received

    async def response_verdict(self, rules: Sequence[BuiltRule], verdict: Verdict) -> None:
        """Act upon the first verdict of a rule set for responses. Raises Stop where it is final."""
        final = await run(rules, self, verdict)
        if final is None or final is CLOSE_SERVER:
            return
        self._refuse_by_rule(final)

    async def inspect_response(self, route: Route) -> None:
        """The backend's content rules for responses. Raises Stop."""
        ctx, txn, response = self.ctx, self.txn, self.response
        assert response is not None
        until = ctx.now + route.response_delay
        while True:
            txn.payload_final = ctx.now >= until or self._response_complete(response)
            verdict = await run_content(route.res_content, self)
            if verdict is not MISSING:
                break
            await self._more_response(until)
        txn.payload_final = True
        if verdict is not None and verdict is not CLOSE_SERVER:
            self._count_denied_response()
            self.t_r = -1
            raise Stop(0, "PD")

    def end_response_rules(self, route: Route) -> ResponseHead:
        """The response as the rules leave it. Raises Stop."""
        keeper = self.room.keeper
        if keeper is not None:
            keeper.response_leaves(self)
        response = self.response
        assert response is not None
        # `option checkcache`: caches must not give the cookie that a server sets to others
        cookies = self.bconf.checkcache and any(h[3] == K_SET_COOKIE for h in response.headers)
        persistence = self.bconf.persistence
        if persistence is not None and persistence.cookie is not None:
            persistence.cookie.write(self)
        if (
            cookies
            and self.request is not None
            and all(cacheable(self.request, self.response or response))
        ):
            self._count_denied_response()
            self.t_r = -1
            raise Stop(502, "PH")
        if route.after and not self.run_after_rules(route.after):
            self._refuse_by_rule(FAILED)
        response = self.response
        assert response is not None
        if self.txn.own_res:
            response.seal()
            if route.known is not None:
                self._remember(route.known, response)
        return response

    def _remember(self, known: dict[ResponseHead, ResponseHead], changed: ResponseHead) -> None:
        """What fixed rules made of a head serves for all responses with this head from now on."""
        original = self.txn.received_head
        if original is None:
            return
        if len(known) >= _KNOWN_HEADS:
            known.clear()
        known[original] = changed
        # it is not the stream's own any more
        self.txn.own_res = False

    def method_changed(self, request: RequestHead, response: ResponseHead) -> ResponseHead:
        """The response, where rules may have made another method of HEAD, or HEAD of another.

        A client that asked with HEAD gets no body. Where the server sent none, because it was asked
        with HEAD, the client cannot be told so but by the end of its connection.
        """
        asked_head = request.start_line.startswith(b"HEAD ")
        if asked_head is not (request.method == b"HEAD"):
            response = response.copy()
            response.usual = False
            if asked_head:
                response.body = BODY_NONE
                response.keep_alive = False
            else:
                self.txn.close = True
        return response

    def response_body(self) -> bytes:
        """The content of the response as far as it has been read, without chunk framing."""
        response, received = self.response, self.txn.res_received
        if response is None or response.body == BODY_NONE:
            return b""
        if response.body == BODY_LENGTH:
            return received[: response.content_length]
        if response.body == BODY_CHUNKED:
            try:
                return b"".join(ChunkedReader().feed(received))
            except BadMessage:
                return b""  # it is refused when it is forwarded
        return received

    def _response_complete(self, response: ResponseHead) -> bool:
        """Whether all of the response's body has been read."""
        received = self.txn.res_received
        if response.body == BODY_LENGTH:
            return len(received) >= response.content_length
        if response.body == BODY_CHUNKED:
            reader = ChunkedReader()
            try:
                reader.feed(received)
            except BadMessage:
                return True
            return reader.done
        return response.body == BODY_NONE

    async def wait_for_response_body(self, until: int, at_least: int = 0) -> None:
        """Read the response's body until it is complete, the buffer is full, or `at_least` bytes
        are here (0: all). Raises Stop: 504 at the tick `until`.
        """
        response = self.response
        if self.sconn is None or response is None:
            return
        while not self._response_complete(response):
            if 0 < at_least <= len(self.response_body()):
                return
            if not await self._more_response(until):
                return
            if self.ctx.now >= until:
                self._count_failed_response()
                raise Stop(504, "sD")

    async def _more_response(self, until: int) -> bool:
        """Read more of the response into `txn.res_received`, or wait for it up to the tick `until`.
        False where nothing more will fit or come.
        """
        sconn, response, txn = self.sconn, self.response, self.txn
        assert response is not None
        room = self.conf.max_head - len(response.message) - len(txn.res_received)
        if self.up is not None and not self.up.done and not self.up_failed:
            self._step_up()
        if sconn is not None and room > 0 and sconn.ready & READABLE:
            try:
                data = sconn.recv(room)
            except BlockingIOError:
                sconn.ready &= OUT
                return True
            except OSError:
                data = b""
            if data:
                if len(data) < room and not sconn.ready & ENDED:
                    sconn.ready &= ~IN
                txn.res_received += data
                return True
            if txn.payload_final:
                return False  # its end, in order or not; whoever forwards it will see
        elif room <= 0 and txn.payload_final:
            return False
        self.task.set_expire(until)
        if self.ctx.now < until:
            await park()
        return True

    def _count_denied_response(self) -> None:
        be, srv = self.be, self.srv
        self.fe.counters.denied_resp += 1
        if be is not None:
            be.counters.denied_resp += 1
        if srv is not None:
            srv.counters.denied_resp += 1

    def _refuse_by_rule(self, final: Verdict) -> None:
        """A rule for responses does not let this one pass. Raises Stop."""
        self.t_r = -1  # for the log no response has come
        if final is DROP:
            self._count_denied()
            self.conn.vanish()
            raise Stop(0, "PR")
        self.t_r = -1
        if isinstance(final, Answer):
            if final.error:
                self._count_internal_error()
                raise Stop(0, "PH", final)
            if not final.denied:
                raise Stop(0, "LH", final)
        self._count_denied_response()
        if isinstance(final, Answer):
            raise Stop(0, "PH", final)
        # closed by a content rule for responses
        raise Stop(0, "PD")

    def run_after_rules(self, sets: Sequence[Sequence[BuiltRule]]) -> bool:
        """The http-after-response rules, on `self.response`; whether they could do their work."""
        return not any(isinstance(evaluate(rules, self), Answer) for rules in sets)

    @property
    def sticks(self) -> bool:
        """See Stream."""
        return self.room.ruled and self.txn.sticks

    def note_redispatch(self) -> None:
        """The server that the client came back to did not answer."""
        if self.room.ruled and self.txn.direct:
            self.txn.direct = False
            state = self.txn.cookie_state
            if state[0] == "V":
                self.txn.cookie_state = "D" + state[1]

    # --- what is said here
    async def _send_reply(self, message: Message, request: RequestHead, keep: bool) -> bool:
        """Send a response that is made here; whether the connection goes on."""
        pieces = message.pieces
        chunked = pieces is not None and request.version != 10
        asks = not request.start_line.startswith(b"HEAD ")
        if chunked and asks:
            message.headers.append(make_header(b"transfer-encoding", b"chunked"))
        data, keep = self.reply_bytes(message, request, keep=keep)
        self.bytes_read += len(data)
        sent = await self.send(data)
        # errors of rules may have taken its place
        if message.pieces is not None and asks:
            return sent and await self.send_pieces(message.pieces, chunked=chunked) and keep
        return keep

    def reply_bytes(
        self, message: Message, request: RequestHead, *, keep: bool
    ) -> tuple[bytes, bool]:
        """A response that is made here as it leaves, after the rules for such; and whether the
        connection goes on. What rules make of it may be an error in its place.
        """
        self.status = message.logged
        if message.silent:
            return b"", False
        if self.room.ruled:
            self.txn.begin_response()
        after = self._after() if self.room.ruled else ()
        head = self._head_of(message)
        if after:
            if not self.run_after_rules(after):
                message.pieces = None
                message = ErrorReply(500).message(self) or built_in(500)
                self.status = message.logged
                head = self._head_of(message)
                if not self.run_after_rules(after):
                    # nothing is left to be tried: the 500 as it is
                    head = self._head_of(ErrorReply(500).message(self) or built_in(500))
            assert self.response is not None
            head = self.response
            head.seal()
        keep = keep and not message.close and not (after and self.txn.close)
        if message.pieces is not None and request.version == 10:
            keep = False  # its end is that of the connection
        connection = b""
        if not keep:
            connection = CLOSE_LINE if message.version == 11 else b""
        elif request.version == 10 or message.version == 10:
            connection = KEEP_ALIVE_LINE
        out = b"%b%b%b\r\n" % (head.start_wire, head.wire[:-2], connection)
        if self.conf.adjust is not None:
            out = self.conf.adjust.head(out)
        if request.start_line.startswith(b"HEAD ") or head.body == BODY_NONE:
            return out, keep
        return out + message.body, keep

    def _after(self) -> Sequence[Sequence[BuiltRule]]:
        """The rules for what is sent now: those of a backend count once it has been entered."""
        if self.be is not None:
            return self.room.route_to(self.be.name).after
        front = self.room.rules
        return () if front is None or not front.after else (front.after,)

    def _head_of(self, message: Message) -> ResponseHead:
        """The head of a message, as `self.response` where rules look at it."""
        head = make_response(
            message.status,
            message.reason,
            message.headers,
            len(message.body),
            version=message.version,
        )
        if self.room.ruled:
            self.response = head
            self.txn.own_res = True
            self.txn.res_added = 0
        return head

    def message_of(self, stop: Stop, request: RequestHead) -> Message | None:
        """What the client is told at the end of a transaction that failed or was answered here."""
        if stop.answer is None and not stop.status:
            return None
        if not self.room.ruled:
            if not (self.fe.errors or (self.be is not None and self.be.errors)):
                return built_in(stop.status)
            # what is said in place of the built-in replies may look at the request
            self.begin_rules(request)
        reply = ErrorReply(stop.status) if stop.answer is None else stop.answer.reply
        return reply.message(self) or ErrorReply(500).message(self) or built_in(500)
