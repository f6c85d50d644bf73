"""How HTTP transactions end: what is said, counted and logged, and what was no request at all.

`HttpEnding` stands between the rules (`HttpRules`) and the way of one request (`HttpStream`). Every
transaction ends in `_account`, whatever became of it; one that failed comes by `_stopped` first.
Owner thread only.
"""

from __future__ import annotations

from mtproxy.http import replies
from mtproxy.http.errors import BadMessage
from mtproxy.http.h1_request import RequestHead
from mtproxy.rules.reply import is_silent
from mtproxy.stream.http_rules import HttpRules
from mtproxy.stream.linger import linger
from mtproxy.stream.stream import QUIET, Stop


class HttpEnding(HttpRules):
    """The ends of transactions."""

    __slots__ = ()

    # --- no request
    async def _closed_early(self, buf: bytes) -> None:
        """The client closed its side before a whole request had come."""
        if buf or (self.first and not self.conf.ignore_probes):
            self.null = not buf
            self.status = 400
            self.term_state = "CR--"
            self._log_unparsed()
            if not (self.null and "dontlognull" in self.fe.settings.options):
                await self._last_words(400)

    async def _timed_out(self, buf: bytes) -> None:
        """A whole request did not come in time. An idle connection is closed without a word."""
        if buf or (self.first and not self.conf.ignore_probes):
            self.null = not buf
            self.status = 408
            self.term_state = "cR--"
            self._log_unparsed()
            await self._last_words(408)

    async def _refuse(self, error: BadMessage, data: bytes) -> None:
        """Answer a bad request; `data` is what has been read of it."""
        self.fe.last_error = self._captured(data, error)
        self.status = error.status
        self.term_state = "PR--"
        self._log_unparsed()
        await self._last_words(error.status)

    def _log_unparsed(self) -> None:
        """Account for and log something that was no request."""
        if self.room.ruled:
            self.begin_rules(None)
        self.request_line = None
        now = self.ctx.now
        counters = self.fe.counters
        counters.cum_req += 1
        counters.failed_req += 1
        listener = self.listener.counters
        if listener is not None:
            listener.failed_req += 1
        counters.http_rsp[self.status // 100] += 1
        if self.tracking is not None:
            self.tracking.count_unparsed(error=self.status != 408)
        self.t_i = 0 if self.null else self.got_tick - self.ready_tick
        self.t_R = -1
        self.t_a = self.t_t = now - self.got_tick
        self.t_q = -1
        log = self.fe.log_unparsed
        if log is not None:
            self.logged = True
            self.note_loads(now)
            log(self)
        self.finish()

    async def _last_words(self, status: int) -> None:
        """Send the fixed text of a status, then close so that the client can read it though it may
        still be sending. Of the frontend's error files an empty one counts: nothing is sent then.
        """
        own = self.fe.errors.get(status)
        if own is None or not is_silent(own):
            await self.send(replies.early_reply(status))
        await linger(self)

    # --- ends
    async def _monitor(self, request: RequestHead, rest: bytes, complete: bool) -> bytes | None:
        """`monitor-uri`: answered here, neither logged nor forwarded (manual 4.2)."""
        self.logged = True
        self.fe.counters.intercepted_req += 1
        self.status = 200
        self.term_state = "LR--"
        keep = request.keep_alive and complete
        if self.room.ruled:
            self.begin_rules(request)
        status = 200
        rules = self.room.rules
        if rules is not None and any(fails(self) for fails in rules.monitor_fail):
            status = 503
        message = self.message_of(Stop(status, "LR"), request)
        assert message is not None
        keep = await self._send_reply(message, request, keep)
        if keep:
            return rest
        await linger(self)
        return None

    async def _stopped(self, stop: Stop, request: RequestHead, complete: bool) -> bool:
        """The transaction failed: tell the client if it has heard nothing yet. Whether to go on.

        `complete`: the whole request had been read before anything else happened.
        """
        self.drop_server()
        self.term_state = stop.state + "--"
        if self.tracking is not None and stop.status in (502, 504):
            self.tracking.count_fail()
        self._count_stop(stop)
        answer = stop.answer
        if answer is not None and not answer.denied:
            # the rule that serves a request counts as the last one when it has served it
            txn = self.txn
            served, txn.rule = txn.rule, txn.rule_before
            keep = await self._say(stop, request, complete)
            txn.rule = served
            return keep
        return await self._say(stop, request, complete)

    def _count_stop(self, stop: Stop) -> None:
        """Who is to blame, in the counters."""
        be, srv, state = self.be, self.srv, stop.state
        counters = [c.counters for c in (be, srv) if c is not None]
        if state[0] in "Cc" and state not in ("CC", "CQ", "cR"):
            for one in counters:
                one.cli_aborts += 1
        elif state in ("SD", "sD") and not stop.counted:
            for one in counters:
                one.srv_aborts += 1
            if state == "SD":
                self._count_failed_response()
        elif state in ("KH", "DH", "UH"):
            self._count_failed_response()
        elif state in ("KD", "DD", "UD"):
            for one in counters:
                one.srv_aborts += 1
        if state in ("CR", "cR") or (
            stop.answer is None and stop.status == 400 and state[0] == "P"
        ):
            self.fe.counters.failed_req += 1
            if self.listener.counters is not None:
                self.listener.counters.failed_req += 1
        if srv is None or self.answered:
            if srv is None and be is not None:
                be.counters.cum_sess += 1
                be.counters.unbalanced += 1
        elif self.srv_status is None:
            head = self.txn.received_head if self.room.ruled else None
            self.srv_status = 0 if head is None else head.status

    async def _say(self, stop: Stop, request: RequestHead, complete: bool) -> bool:
        """Send what a transaction that has ended is answered with, if that can be. Whether to go on
        with the connection.
        """
        message = None if self.answered else self.message_of(stop, request)
        if message is None:
            if not self.answered:
                self.status = -1
            return False
        up = self.up
        if up is not None and not complete:
            complete = up.done and not self.up_failed
        keep = request.keep_alive and complete and not self.conf.httpclose
        return await self._send_reply(message, request, keep)

    def _log_now(self) -> None:
        """`option logasap`: log when the response head is known."""
        now = self.ctx.now
        self.t_i = self.got_tick - self.ready_tick
        self.t_a = now - self.got_tick
        self.t_t = self.t_h + self.t_i + self.t_a
        self.t_q = self.t_h + self.t_i + self.t_R
        self.term_state = "----"
        log = self.fe.log
        if log is not None:
            self.logged = True
            self.note_loads(now, 1)
            log(self)

    def moved(self) -> tuple[int, int]:
        """See Stream."""
        up, down = self.up, self.down
        uploaded, read = self.bytes_uploaded, self.bytes_read
        if up is not None:
            uploaded += up.received
        if down is not None:
            read += down.sent
        return uploaded, read

    def _account(self) -> None:
        """Counters, the log line, and the end of the stay in the backend."""
        ctx = self.ctx
        now = ctx.now
        up, down = self.up, self.down
        if up is not None or down is not None:
            self.count_spliced(up.spliced if up else 0, down.spliced if down else 0)
        if up is not None:
            self.bytes_uploaded += up.received
            up.close()
            self.up = None
        if down is not None:
            down.close()
            self.down = None
        self.answered = self.up_failed = False
        idle = self.t_i = self.got_tick - self.ready_tick
        active = self.t_a = now - self.got_tick
        total = self.t_t = idle + active
        self.t_q = idle + self.t_R
        index = self.status // 100
        if not 1 <= index <= 5:
            index = 0
        if self.srv_status is not None:
            self._count_apart(index)
        else:
            self.fe.counters.http_rsp[index] += 1
            side = self.srv or self.be
            if side is not None:
                side.counters.http_rsp[index] += 1
        srv = self.srv
        if srv is not None:
            counters = srv.counters
            counters.last_tick = now
            if self.t_r >= 0:
                counters.add_times(self.t_w, self.t_c, self.t_r, total)
        self.finish()
        if self.sconn is not None:
            self.drop_server()
        self.leave_backend()

    def _count_apart(self, index: int) -> None:
        """Count a transaction whose client is told something else than its server answered: the
        server has what it answered, the proxies what they said (manual 9.1, hrsp_*).

        A backend's totals are its own plus its servers': its own part may fall below zero.
        """
        be, srv, answered = self.be, self.srv, self.srv_status
        self.srv_status = None
        assert be is not None and srv is not None
        if answered == QUIET:
            return
        self.fe.counters.http_rsp[index] += 1
        be.counters.http_rsp[index] += 1
        if answered:
            index = answered // 100
            srv.counters.http_rsp[index] += 1
            be.counters.http_rsp[index] -= 1
