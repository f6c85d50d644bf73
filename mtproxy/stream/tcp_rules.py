"""Content rules of `mode tcp`: bytes are held back while rules look at them (manual 4.2).

`TcpRules` reads what the client, or the server, sends until the rules have decided, the delay for
inspection is over, the buffer is full or the input has ended: the last three make what is there
final. What was read goes on afterwards as it came. As in HAProxy the whole set runs again for
every new piece, the first time before anything is read. Nothing here runs for a session that meets
no rules. Owner thread only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.net.connection import ENDED, IN, OUT, READABLE, Connection
from mtproxy.rules.transaction import Transaction
from mtproxy.rules.verdict import CLOSE_SERVER, DROP, MISSING, SWITCH
from mtproxy.sched.tasklet import park
from mtproxy.stream.pump import Pump, SinkError, SourceError
from mtproxy.stream.rules import Route, SideRules, run_content
from mtproxy.stream.stream import Stop, Stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtproxy.rules.build import BuiltRule


class TcpRules(Stream):
    """What rules do to a TCP session."""

    __slots__ = ()

    # --- the request
    async def run_request_rules(self) -> Route:
        """The frontend's rules, the choice of the backend, and its rules. Raises Stop.

        The stream has entered its backend when this returns, unless there is none.
        """
        room = self.room
        front = room.rules
        route = room.route
        txn = self.txn = Transaction()
        if room.keeper is not None:
            room.keeper.begin_bytes(self)
        self.client_expire = self.ctx.now + self.conf.client
        if front is not None:
            if front.content and await self._inspect_request(front.content, front.inspect_delay):
                return room.to_http
            txn.payload_final = True
            route = room.choose(front, self)
            if route.switches:
                return route
        be, bconf = route.backend, route.bconf
        if be is None or bconf is None:
            return route
        self.enter_backend(be, bconf)
        back = route.rules
        if back is not None and back.content:
            await self._inspect_request(back.content, back.inspect_delay)
        txn.payload_final = True
        return route

    async def _inspect_request(self, rules: Sequence[BuiltRule], delay: int) -> bool:
        """Run a content rule set for requests until it has decided. Whether the connection becomes
        one of HTTP. Raises Stop.
        """
        ctx, txn, conn = self.ctx, self.txn, self.conn
        limit = self.conf.max_head
        deadline = 0
        ended = False
        while True:
            txn.payload_final = (
                not delay
                or ended
                or len(txn.payload) >= limit
                or (deadline > 0 and ctx.now >= deadline)
            )
            verdict = await run_content(rules, self)
            if verdict is not MISSING:
                break
            if not deadline:
                deadline = ctx.now + delay
            data: bytes | None = None
            while ctx.now < deadline:
                try:
                    data = _receive(conn, limit - len(txn.payload))
                except OSError:
                    raise self._aborted("CR") from None
                if data is not None:
                    break
                if ctx.now >= self.client_expire:
                    raise self._aborted("cR")
                self.task.set_expire(min(deadline, self.client_expire))
                await park()
            if data:
                txn.payload += data
                self.client_expire = ctx.now + self.conf.client
            elif data is not None:
                ended = True
        if verdict is None:
            return False
        if verdict is SWITCH:
            return True
        if verdict is DROP:
            self.conn.vanish()
            if self.be is not None:
                self.be.counters.denied_req += 1
        self._count_denied_request()
        raise Stop(0, "PR")

    def _count_denied_request(self) -> None:
        self.fe.counters.denied_req += 1
        if self.listener.counters is not None:
            self.listener.counters.denied_req += 1

    def _aborted(self, state: str) -> Stop:
        """The client went, or was silent for too long, while rules waited for it."""
        self.fe.counters.failed_req += 1
        if self.listener.counters is not None:
            self.listener.counters.failed_req += 1
        if self.be is None:
            # HAProxy accounts for it in the backend that would have been next
            be, bconf = self.room.route.backend, self.room.route.bconf
            if be is not None and bconf is not None:
                self.enter_backend(be, bconf)
        return Stop(0, state)

    # --- the response
    def response_side(self, route: Route) -> SideRules | None:
        """Whose rules look at what the server sends; None if nobody's do."""
        side = self.room.rules if route.own else route.rules
        return side if side is not None and side.res_content else None

    async def inspect_response(self, side: SideRules, up: Pump) -> bool:
        """Hold the server's first bytes back until the rules have decided; `up` goes on meanwhile.

        What was read is `txn.res_payload` then. False: the server's connection is to be closed.
        Raises Stop.
        """
        txn, ctx, bconf = self.txn, self.ctx, self.bconf
        sconn = self.sconn
        assert sconn is not None
        limit = self.conf.max_head
        delay = side.response_delay
        deadline = 0
        ended = False
        txn.looking_back = True
        txn.begin_response()
        server_ms = bconf.tunnel or bconf.server
        self.client_expire = ctx.now + (bconf.tunnel or self.conf.client)
        self.server_expire = ctx.now + server_ms
        while True:
            txn.payload_final = (
                not delay
                or ended
                or len(txn.res_payload) >= limit
                or (deadline > 0 and ctx.now >= deadline)
            )
            verdict = await run_content(side.res_content, self)
            if verdict is not MISSING:
                break
            if not deadline:
                deadline = ctx.now + delay
            data: bytes | None = None
            while ctx.now < deadline:
                more = self._move_up(up)
                try:
                    data = _receive(sconn, limit - len(txn.res_payload))
                except OSError:
                    raise Stop(0, "SD") from None
                if data is not None:
                    break
                await self._wait_for_response(deadline, more=more)
            if data:
                txn.res_payload += data
                self.server_expire = ctx.now + server_ms
            elif data is not None:
                ended = True
        txn.payload_final = True
        if verdict is None:
            return True
        if verdict is CLOSE_SERVER:
            return False
        if verdict is DROP:
            self.conn.vanish()
            self._count_denied_request()
            if self.be is not None:
                self.be.counters.denied_req += 1
            raise Stop(0, "PR")
        self.conn.shutdown_write()
        self.fe.counters.denied_resp += 1
        if self.listener.counters is not None:
            self.listener.counters.denied_resp += 1
        for one in (self.be, self.srv):
            if one is not None:
                one.counters.denied_resp += 1
        raise Stop(0, "PD")

    def _move_up(self, up: Pump) -> bool:
        """Let the client's bytes go on; whether there is more to do at once. Raises Stop."""
        if up.done:
            return False
        ctx = self.ctx
        received, sent = up.received, up.sent
        try:
            up.step()
        except SourceError:
            raise Stop(0, "CD") from None
        except SinkError:
            raise Stop(0, "SD") from None
        if up.received != received:
            self.client_expire = ctx.now + (self.bconf.tunnel or self.conf.client)
        if up.sent != sent:
            self.server_expire = ctx.now + (self.bconf.tunnel or self.bconf.server)
        if up.done:
            up.dst.shutdown_write()
        return up.more

    async def _wait_for_response(self, deadline: int, *, more: bool) -> None:
        """Until something happens on either side. Raises Stop when one was silent for too long."""
        ctx, task = self.ctx, self.task
        if more:
            task.queue = ctx.bulk
            task.wake()
            await park()
            task.queue = ctx.normal
            return
        if ctx.now >= self.client_expire:
            raise Stop(0, "cD")
        if ctx.now >= self.server_expire:
            raise Stop(0, "sD")
        task.set_expire(min(deadline, self.client_expire, self.server_expire))
        await park()


def _receive(conn: Connection, most: int) -> bytes | None:
    """What has come; empty at the end of the input, None where there is nothing yet."""
    if not conn.ready & READABLE:
        return None
    try:
        data = conn.recv(most)
    except BlockingIOError:
        conn.ready &= OUT
        return None
    if data and len(data) < most and not conn.ready & ENDED:
        conn.ready &= ~IN
    return data
