"""`mode tcp`: choose a server when the client connects, then pass bytes both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.stream.connect import connect
from mtproxy.stream.pump import Pump
from mtproxy.stream.queueing import wait_for_server
from mtproxy.stream.stream import Stop
from mtproxy.stream.tcp_rules import TcpRules
from mtproxy.stream.tunnel import tunnel

if TYPE_CHECKING:
    from mtproxy.stream.rules import Route


class TcpStream(TcpRules):
    """One TCP session: the connection and its only transaction."""

    __slots__ = ()

    async def run(self) -> None:
        """The session's coroutine."""
        try:
            route = await self._serve()
            if route is not None:
                await self.switch(route)
        finally:
            self.close_session()

    async def switch(self, route: Route) -> None:
        """The connection becomes one of HTTP where it may, see `SwitchingTcp`; here it ends."""
        self.term_state = "IR"
        self._account()

    async def _serve(self) -> Route | None:
        """All of the session; or the way on where that is one of HTTP, before anything is sent."""
        ctx = self.ctx
        room = self.room
        route = room.route
        ruled = room.ruled
        up = down = None
        first = b""
        fresh = True
        switched = False
        try:
            if ruled:
                route = await self.run_request_rules()
                first = self.txn.payload
            if route.switches:
                switched = True
                return route
            be, bconf = route.backend, route.bconf
            if be is None or bconf is None:
                raise Stop(503, "SC")
            if not ruled:
                self.enter_backend(be, bconf)
            self.t_w = ctx.now - self.accept_tick if ruled else self.t_h
            srv = None if bconf.rdp is None else bconf.rdp.choose(self)
            if be.sticking is not None:
                srv = be.sticking.choose(self, srv)
            if srv is None:
                srv = be.pick(self)
                if srv is None:
                    srv = await wait_for_server(self, be)
            else:
                if srv.limit is None:
                    srv.take()
                else:
                    srv = await wait_for_server(self, be, srv)
                srv.counters.unbalanced += 1
            self.set_server(srv)
            self.sconn = sconn = await connect(self)
            if ruled:
                self.txn.begin_response()
            if self.conf.notes_source:
                self.source = self.backend_src_ip, self.backend_src_port
            self.conn.tasklet = sconn.tasklet = self.task
            if ruled:
                self.txn.begin_response()
            if be.sticking is not None:
                be.sticking.store(self)
            conf = self.conf
            if conf.log_at_connect:
                self._log_now()
            up = Pump(
                self.conn,
                sconn,
                conf.bufsize,
                first=first,
                eager=conf.splice_request or bconf.splice_request,
            )
            held = b""
            if ruled and (side := self.response_side(route)) is not None:
                fresh = False
                stays = await self.inspect_response(side, up)
                held = self.txn.res_payload
                if not stays:
                    up.abandon()
                    sconn.reset()
                    down = Pump(sconn, self.conn, conf.bufsize, first=held, remaining=len(held))
            if down is None:
                down = Pump(
                    sconn,
                    self.conn,
                    conf.bufsize,
                    first=held,
                    eager=conf.splice_response or bconf.splice_response,
                )
            self.pumps = up, down
            await tunnel(self, up, down, fresh=fresh)
            self.term_state = "--"
        except Stop as stop:
            self.term_state = stop.state
            if up is None:
                # unread input makes the kernel send a reset next: it comes behind an orderly end
                self.conn.shutdown_write()
        except GeneratorExit:
            self.term_state = "KD"
            raise
        finally:
            for pump in (up, down):
                if pump is not None:
                    pump.close()
            if up is not None:
                self.bytes_uploaded = up.received
            if down is not None:
                # as HAProxy counts: what the server sent, whether or not the client took it
                self.bytes_read = down.received
            if up is not None and down is not None and (up.spliced or down.spliced):
                self.count_spliced(up.spliced, down.spliced)
            if not switched:
                if ruled:
                    # what never came as far as a pump has been read all the same
                    self.bytes_uploaded = max(self.bytes_uploaded, len(self.txn.payload))
                    self.bytes_read = max(self.bytes_read, len(self.txn.res_payload))
                self._account()
        return None

    def moved(self) -> tuple[int, int]:
        """See Stream."""
        if self.pumps is None:
            return self.bytes_uploaded, self.bytes_read
        up, down = self.pumps
        return up.received, down.received

    def _log_now(self) -> None:
        """Log the session although it goes on."""
        now = self.ctx.now
        self.t_t = self.t_a = now - self.accept_tick
        log = self.fe.log
        if log is not None:
            self.logged = True
            self.note_loads(now, 1)
            log(self)

    def _account(self) -> None:
        now = self.ctx.now
        self.t_t = self.t_a = now - self.accept_tick
        side = self.srv or self.be
        if side is not None:
            if self.srv is None:
                side.counters.cum_sess += 1
                side.counters.unbalanced += 1
            if self.t_c >= 0:
                side.counters.add_times(self.t_w, self.t_c, 0, self.t_t)
            side.counters.last_tick = now
            state = self.term_state
            if state != "--":
                for one in (self.be, self.srv):
                    if one is None:
                        continue
                    if state[0] in "Cc" and state not in ("CC", "CQ"):
                        one.counters.cli_aborts += 1
                    elif state in ("SD", "sD"):
                        one.counters.srv_aborts += 1
                    if state == "SD":
                        one.counters.failed_resp += 1
        self.finish()
