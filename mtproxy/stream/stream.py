"""Stream: one client connection, what is known of its current transaction, and its accounting.

The class is also the log record (see log.record): its fields are the last word on what happened.
`TcpStream` and `HttpStream` add the protocol. Owner thread only.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import MutableSequence
from typing import TYPE_CHECKING, Any

from mtproxy.net.connection import ENDED, Connection
from mtproxy.net.sockets import original_destination, peer_text
from mtproxy.rules.types import Ip4, Ip6, parse_ip
from mtproxy.stream.conf import FOREVER

if TYPE_CHECKING:
    from mtproxy.http.h1_request import RequestHead
    from mtproxy.http.h1_response import ResponseHead
    from mtproxy.proxy.backend import Backend
    from mtproxy.proxy.counters import BackendCounters, FrontendCounters, ServerCounters
    from mtproxy.proxy.frontend import Frontend
    from mtproxy.proxy.server import Server
    from mtproxy.rules.endpoints import Endpoints
    from mtproxy.rules.sticktables import Tracking
    from mtproxy.rules.transaction import Transaction
    from mtproxy.rules.verdict import Answer
    from mtproxy.sched.context import ThreadContext
    from mtproxy.sched.tasklet import Task
    from mtproxy.stream.conf import BackConf, FrontConf
    from mtproxy.stream.pump import Pump
    from mtproxy.stream.room import FrontRoom, ListenerRoom

#: numbers transactions of the whole process, for %rt; next() on it is atomic
_serial = itertools.count(1)
next_serial = _serial.__next__

NOSRV = "<NOSRV>"
#: see `Stream.srv_status`
QUIET = -2


class Stop(Exception):
    """The transaction ends here: `status` is what the client is told (0: nothing), `state` says who
    ended it and when (the two letters of manual 8.5). `answer` is what a rule wants to be said.
    `counted`: the counters of failures know of it. `partial`: something of a response had come.
    """

    def __init__(
        self,
        status: int,
        state: str,
        answer: Answer | None = None,
        *,
        counted: bool = False,
        partial: bool = False,
    ) -> None:
        super().__init__(status, state)
        self.status = status
        self.state = state
        self.answer = answer
        self.counted = counted
        self.partial = partial


class Stream:
    """State of one client connection.

    `client_expire` and `server_expire` are the ticks at which each side's silence is too long.
    """

    __slots__ = (
        "accept_ms",
        "accept_tick",
        "act_conn",
        "backend",
        "backend_queue",
        "bconf",
        "be",
        "be_conn",
        "bytes_read",
        "bytes_uploaded",
        "captured_request_headers",
        "captured_response_headers",
        "client_expire",
        "client_ip",
        "client_port",
        "conf",
        "conn",
        "counted",
        "ctx",
        "dst_text",
        "endpoints",
        "fe",
        "fe_conn",
        "frontend",
        "listener",
        "logged",
        "may_change",
        "null",
        "pumps",
        "redispatched",
        "request",
        "request_cookie",
        "request_line",
        "response",
        "response_cookie",
        "retries",
        "room",
        "sconn",
        "server",
        "server_expire",
        "sess_vars",
        "source",
        "srv",
        "srv_conn",
        "srv_queue",
        "srv_status",
        "started",
        "status",
        "stick_keys",
        "t_R",
        "t_a",
        "t_c",
        "t_h",
        "t_i",
        "t_q",
        "t_r",
        "t_t",
        "t_w",
        "task",
        "term_state",
        "tls_cipher",
        "tls_version",
        "tracking",
        "txn",
        "unique_id",
        "unusual",
        "used",
    )

    task: Task
    conn: Connection
    bconf: BackConf
    be: Backend | None
    conf: FrontConf
    fe: Frontend
    #: the transaction is the first one of its connection
    first = True
    is_http = False
    #: the request's body has not been sent whole
    uploading = False
    listener: ListenerRoom
    captured_request_headers: MutableSequence[bytes | None] | tuple[()]
    captured_response_headers: MutableSequence[bytes | None] | tuple[()]
    #: what rules know of the current transaction; set only where there are rules
    txn: Transaction
    #: the heads as rules see and change them; None where they are not there
    request: RequestHead | None
    response: ResponseHead | None

    def __init__(
        self, ctx: ThreadContext, room: FrontRoom, sock: socket.socket, peer: object
    ) -> None:
        self.ctx = ctx
        self.room = room
        self.fe = room.frontend
        self.conf = room.conf
        self.frontend = room.frontend.name
        self.client_ip, self.client_port = peer_text(peer)
        self.dst_text: tuple[str, int] | None = None
        self.endpoints: Endpoints | None = None
        self.accept_tick = ctx.now
        self.sconn: Connection | None = None
        self.srv: Server | None = None
        #: what the server answered where the client is told something else; 0: nothing, QUIET: and
        #: the client is told nothing
        self.srv_status: int | None = None
        self.captured_request_headers = ()
        self.captured_response_headers = ()
        self.request_cookie: bytes | None = None
        self.response_cookie: bytes | None = None
        self.unique_id: str | None = None
        self.tls_version: str | None = None
        self.tls_cipher: str | None = None
        self.srv_queue = 0
        self.backend_queue = 0
        self.t_h = self.t_i = 0
        self.t_R = -1
        self.t_a = self.t_t = self.t_q = 0
        self.status = -1
        self.null = False
        self.term_state = "--"
        self.retries = 0
        self.redispatched = False
        #: bytes from and to the client of this transaction that are counted already
        self.counted = (0, 0)
        #: both directions of a TCP session while it is on its server
        self.pumps: tuple[Pump, Pump] | None = None
        #: the transaction was queued or tried again or counted: `begin` has more to forget
        self.unusual = False
        self.request_line: bytes | None = None
        self.client_expire = FOREVER
        self.server_expire = FOREVER
        self.be = None
        self.act_conn = self.fe_conn = self.be_conn = self.srv_conn = 0
        #: the connection to the server that was used last; of this transaction if t_c says so
        self.used: Connection | None = None
        #: its own address, where that was noted while it lived
        self.source: tuple[str | None, int] = (None, 0)
        self.started = False
        self.request = self.response = None
        self.may_change = False
        self.sess_vars: dict[str, Any] | None = None
        self.tracking: Tracking | None = None
        self.stick_keys: list[Any] | None = None
        self.begin(ctx.now)

    # --- one transaction
    def begin(self, now: int) -> None:
        """Forget the last transaction. Only what its end does not set anyway is set here."""
        self.accept_ms = now + self.ctx.wall_offset
        self.backend = self.frontend
        self.server = NOSRV
        self.t_w = self.t_c = self.t_r = -1
        self.bytes_read = 0
        self.bytes_uploaded = 0
        self.logged = False
        if self.unusual:
            self.unusual = self.redispatched = False
            self.retries = self.srv_queue = self.backend_queue = 0
            self.counted = (0, 0)

    @property
    def dst_ip(self) -> str:
        return self._destination()[0]

    @property
    def dst_port(self) -> int:
        return self._destination()[1]

    def _destination(self) -> tuple[str, int]:
        """The address the client connected to; asked for only when a log line wants it."""
        if self.dst_text is None:
            try:
                self.dst_text = original_destination(self.conn.sock)
            except OSError:  # the socket is closed already
                self.dst_text = ("0.0.0.0", 0)
            if self.dst_text[0] == "unix":
                self.dst_text = ("unix", self.listener.id)
        return self.dst_text

    # --- bodies that rules wait for; `mode tcp` has none
    async def wait_for_request_body(self, until: int, at_least: int = 0) -> None:
        """See `rules.view`."""

    async def wait_for_response_body(self, until: int, at_least: int = 0) -> None:
        """See `rules.view`."""

    async def send_interim(self, message: bytes) -> None:
        """See `rules.view`."""

    # --- what only the log asks for
    def note_loads(self, now: int, staying: int = 0) -> None:
        """Store how many sessions there are for the log line, and the highest number so far: each
        peak ends with the end of one of its sessions, which is now.

        `staying` is 1 where the session goes on in its backend after the line (`logasap`).
        Written out, with plain look-ups only: it runs once per request.
        """
        room = self.room.room
        if room.others_tick != now:
            room.look_at_others(self.ctx)
        self.act_conn = room.others + self.ctx.shared.conns
        fe = self.fe
        load = fe.load
        if load.tick != now:
            load.look(now)
        counters: FrontendCounters | BackendCounters | ServerCounters = fe.counters
        self.fe_conn = total = load.others + counters.conn_cur
        if total > counters.conn_max:
            load.note_peak(counters, now)
        be = self.be
        if be is None:
            self.be_conn = self.srv_conn = 0
            return
        load = be.load
        if load.tick != now:
            load.look(now)
        counters = be.counters
        total = load.others + counters.conn_cur
        # without this one: HAProxy logs a stream when it has left its backend already
        self.be_conn = total - 1 + staying
        if total > counters.conn_max:
            load.note_peak(counters, now)
        srv = self.srv
        if srv is None:
            self.srv_conn = 0
            return
        load = srv.load
        if load.tick != now:
            load.look(now)
        counters = srv.counters
        total = load.others + counters.conn_cur
        self.srv_conn = total - 1 + staying
        if total > counters.conn_max:
            load.note_peak(counters, now)

    @property
    def request_count(self) -> int:
        """The number of this transaction in the life of the process (%rt).

        Those that nobody asks about have none.
        """
        if not self.room.ruled:
            return next_serial()
        txn = self.txn
        if not txn.serial:
            txn.serial = next_serial()
        return txn.serial

    # The server side's addresses, asked for only when a log line wants them. The connection may
    # wait for its next request by then.
    @property
    def backend_src_ip(self) -> str | None:
        return self._server_side(peer=False)[0]

    @property
    def backend_src_port(self) -> int:
        return self._server_side(peer=False)[1]

    @property
    def server_ip(self) -> str | None:
        return self._server_side(peer=True)[0]

    @property
    def server_port(self) -> int:
        return self._server_side(peer=True)[1]

    def _server_side(self, *, peer: bool) -> tuple[str | None, int]:
        conn = self.sconn
        if conn is None and self.t_c >= 0:
            conn = self.used
        if conn is None:
            # it did not come to a connection; where it should have led is known all the same
            srv = self.srv
            return (srv.address.host, srv.address.port) if peer and srv is not None else (None, 0)
        try:
            sock = conn.sock
            return peer_text(sock.getpeername() if peer else sock.getsockname())
        except OSError:  # it is closed already
            if not peer:
                return self.source
            address = conn.mark.server.address
            return address.host, address.port

    # --- the connection as a whole
    def open_session(self) -> None:
        """Account for a client connection that is served here; its listener has counted it."""
        self.fe.counters.cum_sess += 1
        if self.listener.counters is not None:
            self.listener.counters.cum_sess += 1
        self.ctx.shared.conns += 1
        self.room.streams.add(self)
        self.started = True

    def close_session(self) -> None:
        """The end of the client connection, however it came."""
        self.drop_server()
        self.leave_backend()
        self.conn.close()
        if self.started:
            self.started = False
            self.ctx.shared.conns -= 1
            self.room.streams.discard(self)
            self.leave_listener()

    def leave_listener(self) -> None:
        """The client connection counts no more; the end of one that could not be opened."""
        if self.tracking is not None:
            self.tracking.end_session()
        self.fe.counters.conn_cur -= 1
        if self.listener.counters is not None:
            self.listener.counters.conn_cur -= 1
        wanted = self.listener.leave(self.ctx.tid)
        self.room.room.after_session(self.ctx, wanted=wanted)

    # --- the backend and the server
    def enter_backend(self, be: Backend, bconf: BackConf) -> None:
        self.be = be
        self.bconf = bconf
        self.backend = be.name
        be.counters.conn_cur += 1

    async def look_up(self, resolvers: str, name: str, prefer: str) -> Ip4 | Ip6 | None:
        """An address of a host by a `resolvers` section; None if there is none."""
        literal = parse_ip(name)
        if literal is not None:
            return literal
        found = await self.room.room.resolvers[resolvers].lookup(name, self.task, prefer)
        return None if found is None else parse_ip(found)

    def response_body(self) -> bytes:
        """The content of the response as far as it has been read, without chunk framing."""
        return b""

    def set_limit(self, name: str, value: int) -> None:
        """A rule sets a timeout (ms) or the number of `retries` for the current transaction."""
        if name in ("client", "tarpit"):
            self.conf = self.conf.changed(name, value)
            if name == "tarpit" and self.be is not None:
                self.bconf = self.bconf.changed(name, value)
        elif self.be is not None:
            self.bconf = self.bconf.changed(name, value)
        else:
            self.txn.limits = {**(self.txn.limits or {}), name: value}

    def leave_backend(self) -> None:
        """Account for the end of the transaction's stay in its backend; keep the names for logs."""
        be = self.be
        if be is not None:
            self.be = None
            be.counters.conn_cur -= 1
        srv = self.srv
        if srv is not None:
            self.srv = None
            srv.release()

    def drop_server(self) -> None:
        """Close the server connection, if any."""
        sconn = self.sconn
        if sconn is not None:
            self.sconn = None
            sconn.close()

    def set_server(self, srv: Server) -> None:
        self.srv = srv
        self.server = srv.name
        srv.counters.cum_sess += 1

    @property
    def priority_class(self) -> int:
        """In which order requests leave a queue (`set-priority-class`), the lowest first."""
        return self.txn.priority_class if self.room.ruled else 0

    @property
    def priority_offset(self) -> int:
        """How much further back in its class a request stands, in ms (`set-priority-offset`)."""
        return self.txn.priority_offset if self.room.ruled else 0

    @property
    def sticks(self) -> bool:
        """The session was sent to its server although that is down (`option persist`)."""
        return False

    def note_redispatch(self) -> None:
        """The session has been moved to another server than the one first chosen."""

    def count_spliced(self, up: int, down: int) -> None:
        """Account for bytes that were spliced from (`up`) and to the client. Before `finish`."""
        counters: FrontendCounters | BackendCounters | ServerCounters = self.fe.counters
        counters.spliced_in += up
        counters.spliced_out += down
        side = self.srv or self.be
        if side is not None:
            # what the client sends goes out to the server
            counters = side.counters
            counters.spliced_in += down
            counters.spliced_out += up

    def finish(self) -> None:
        """The last act of a transaction: bytes and log line. The stream is still in its backend.

        Bytes are counted on the server, or on the backend when there was no server: readers add a
        backend's servers to what it counts itself (see stats.totals).
        """
        uploaded, read = self.bytes_uploaded, self.bytes_read
        if self.unusual:
            uploaded -= self.counted[0]
            read -= self.counted[1]
        self._count_bytes(uploaded, read)
        log = self.fe.log
        if log is not None and not self.logged:
            self.logged = True
            self.note_loads(self.ctx.now)
            log(self)
        if self.tracking is not None:
            self.tracking.end_transaction(uploaded, read)

    def moved(self) -> tuple[int, int]:
        """Bytes of this transaction so far, from and to the client."""
        return self.bytes_uploaded, self.bytes_read

    def count_so_far(self) -> None:
        """Count the bytes of a transaction that goes on (`option contstats`)."""
        uploaded, read = self.moved()
        before = self.counted
        if uploaded > before[0] or read > before[1]:
            self.counted = uploaded, read
            self.unusual = True
            uploaded -= before[0]
            read -= before[1]
            self._count_bytes(uploaded, read)
            if self.tracking is not None:
                self.tracking.add_bytes(uploaded, read)

    def _count_bytes(self, uploaded: int, read: int) -> None:
        counters: FrontendCounters | BackendCounters | ServerCounters = self.fe.counters
        counters.bytes_in += uploaded
        counters.bytes_out += read
        if self.listener.counters is not None:
            counters = self.listener.counters
            counters.bytes_in += uploaded
            counters.bytes_out += read
        side = self.srv or self.be
        if side is not None:
            counters = side.counters
            counters.bytes_in += uploaded
            counters.bytes_out += read

    # --- client state
    @property
    def client_gone(self) -> bool:
        """The client has closed its side, or the connection is broken."""
        return bool(self.conn.ready & ENDED)

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self.client_ip}:{self.client_port} {self.frontend} "
            f"{self.backend}/{self.server} {self.term_state}>"
        )
