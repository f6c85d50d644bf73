"""Connections that begin with a PROXY header (`accept-proxy`, `expect-proxy layer4`).

`ProxiedHttp` and `ProxiedTcp` are the streams of listeners that ask for headers; no other listener
pays for them. The header is looked at in the kernel's buffer and taken from there when it is whole,
so that what follows it stays for the stream. It may come in any number of pieces, until `timeout
client` is over. As in HAProxy the addresses of the header are those of the session: rules about
connections saw, and fc_src still sees, those of the connection; what fails is a connection without
a session, logged as such. Owner thread only.
"""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

from mtproxy.log.syslog import ERR, INFO
from mtproxy.net.connection import ENDED, IN, OUT, READABLE
from mtproxy.net.proxyproto import Fault, Header, HeaderError, parse
from mtproxy.rules.endpoints import expect_header, note_header
from mtproxy.sched.tasklet import park
from mtproxy.stream.admission import passes_session
from mtproxy.stream.http import HttpStream
from mtproxy.stream.stream import Stream
from mtproxy.stream.tcp import TcpStream

if TYPE_CHECKING:
    from mtproxy.base.ruleset import ProxyRules

#: faults that `option dontlognull` does not log; HAProxy looks before it knows of a timeout
_NULL = frozenset({Fault.EMPTY, Fault.ABORT, Fault.TIMEOUT})


def rules_expect_header(rules: ProxyRules) -> bool:
    """Whether a rule of a proxy may ask for a header."""
    return any(
        rule.action == "expect-proxy" for rule in rules.sets.get("tcp-request connection", ())
    )


class Proxied(Stream):
    """What both kinds of streams do before they serve."""

    __slots__ = ()

    def expect(self) -> None:
        """The connection has to begin with a header. Before rules about connections run."""
        expect_header(self)

    def open_session(self) -> None:
        """It is a connection only: the session begins behind the header."""
        self.ctx.shared.conns += 1
        self.room.streams.add(self)
        self.started = True

    async def begin_session(self) -> bool:
        """Receive the header, run the rules about sessions. False: the connection is closed."""
        began = False
        try:
            began = await self._begin_session()
        finally:
            if not began:
                self.close_session()
        return began

    async def _begin_session(self) -> bool:
        kept = self.endpoints
        if kept is not None and kept.header_due:
            try:
                header = await self._receive()
            except HeaderError as error:
                fault = error.fault
                kept.failure = (fault.number, fault.text)
                if error.source is not None:
                    self.client_ip, self.client_port = error.source
                self._log_failure(fault.text, null=fault in _NULL)
                return False
            note_header(self, header.source, header.destination, header.tlvs)
            self.t_h = self.ctx.now - self.accept_tick
        rules = self.room.rules
        ruled = self.tracking is not None or (rules is not None and rules.session)
        if ruled and not passes_session(self, self.conn.sock):
            if kept is not None and kept.tlvs is not None:
                # HAProxy logs its end, which is no error, where it had to wait for it
                self._log_failure("Success", null=True)
            return False
        self.fe.counters.cum_sess += 1
        if self.listener.counters is not None:
            self.listener.counters.cum_sess += 1
        return True

    async def _receive(self) -> Header:
        """The header, which is no longer in the kernel's buffer then. Raises HeaderError."""
        ctx, conn, conf = self.ctx, self.conn, self.conf
        limit = conf.bufsize
        deadline = self.accept_tick + conf.client
        self.task.set_expire(deadline)
        seen = 0
        while True:
            if conn.ready & READABLE:
                try:
                    data = conn.recv(limit, socket.MSG_PEEK)
                except BlockingIOError:
                    conn.ready &= OUT
                    continue
                except OSError:
                    raise HeaderError(Fault.ABORT) from None
                if not data:
                    raise HeaderError(Fault.EMPTY)
                header = parse(data, limit)
                if header is not None:
                    self._take(header.size)
                    return header
                if conn.ready & ENDED and len(data) == seen:
                    raise HeaderError(Fault.TRUNCATED)
                seen = len(data)
                if conn.ready & ENDED:
                    continue  # once more: all that came before the end is there
                conn.ready &= ~IN
            if ctx.now >= deadline:
                raise HeaderError(Fault.TIMEOUT)
            await park()

    def _take(self, size: int) -> None:
        """Take from the kernel what was looked at. Raises HeaderError."""
        try:
            if len(self.conn.recv(size)) == size:
                return
        except OSError as error:
            if error.errno not in (errno.ECONNRESET, errno.EAGAIN, errno.ETIMEDOUT):
                raise
        raise HeaderError(Fault.ABORT)

    def _log_failure(self, text: str, *, null: bool) -> None:
        """`null`: `option dontlognull` does not log it."""
        log = self.fe.log_text
        options = self.fe.settings.options
        if log is None or (null and "dontlognull" in options):
            return
        listener = self.listener
        name = (
            str(listener.id)
            if listener.name is None
            else listener.name.decode("utf-8", "surrogateescape")
        )
        dates = self.room.room.thread_logs.dates
        second, millis = divmod(self.accept_ms, 1000)
        when = dates.clf[second] + dates.millis[millis]
        text = f"{self.client_ip}:{self.client_port} [{when}] {self.frontend}/{name}: {text}"
        log(ERR if "log-separate-errors" in options else INFO, text)


class ProxiedHttp(Proxied, HttpStream):
    """An HTTP/1 client connection behind a header."""

    __slots__ = ()

    async def run(self, buf: bytes = b"") -> None:
        if await self.begin_session():
            await HttpStream.run(self, buf)

    def begin(self, now: int) -> None:
        super().begin(now)
        self.accept_ms -= self.t_h

    def finish(self) -> None:
        """Times are counted from the end of the handshake up to here."""
        self.t_t += self.t_h
        if self.t_q >= 0:
            self.t_q += self.t_h
        super().finish()
        self.t_h = 0  # the next request has none


class ProxiedTcp(Proxied, TcpStream):
    """A TCP session behind a header."""

    __slots__ = ()

    async def run(self) -> None:
        if await self.begin_session():
            await TcpStream.run(self)

    def finish(self) -> None:
        self.t_a -= self.t_h
        super().finish()
