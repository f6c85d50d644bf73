"""Getting a server connection for a stream: an idle one of this thread, or a new one, with retries.

Idle server connections wait in `Server.idle`, still registered with the poller and owned by a
watch tasklet of their server: any event on an idle connection (bytes nobody asked for, a hang-up)
closes it. Each thread keeps its own; nothing here is shared.

Retries follow HAProxy (manual 4.2 `retries`, `option redispatch`): a refused connection is tried
again on the same server after a second's pause at most. Where redispatching is allowed, a retry
goes to another server at once while several active ones are usable; otherwise, as with backup
servers, the retries that the option names do, after the pause.
"""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

from mtproxy.base.addresses import AddressKind
from mtproxy.net.connection import ENDED, OUT, READABLE, Connection, open_connection
from mtproxy.net.sockets import FAST_OPEN, sockaddr, user_timeout_option
from mtproxy.net.splice import close_idle_pipes
from mtproxy.proxy.observe import L4_ERR, L4_OK
from mtproxy.proxy.sourcing import is_trouble, note_trouble
from mtproxy.proxy.transitions import notice
from mtproxy.sched.context import shed_here
from mtproxy.sched.tasklet import Task, Tasklet, park
from mtproxy.stream.conf import FOREVER
from mtproxy.stream.outer import for_one_client, outer_maker
from mtproxy.stream.queueing import wait_for_server
from mtproxy.stream.sendproxy import header_maker, send_header
from mtproxy.stream.socks import ask_proxy
from mtproxy.stream.stream import Stop, Stream

if TYPE_CHECKING:
    from mtproxy.base.addresses import Address
    from mtproxy.net.sockets import SockAddr
    from mtproxy.net.source import Outer
    from mtproxy.proxy.server import Server
    from mtproxy.sched.context import ThreadContext
    from mtproxy.stream.conf import BackConf

#: pause before the same server is tried again, ms
TURN_AROUND = 1000
#: idle connections kept per server and thread, whatever `pool-max-conn` allows
IDLE_PER_SERVER = 512
#: how long other threads get to close idle connections, ms
_SHED_PAUSE = 20
_NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
_LOCAL_TROUBLE = frozenset(
    {
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOBUFS,
        errno.ENOMEM,
        errno.ENOSPC,  # epoll watches no more sockets
        errno.EDESTADDRREQ,  # the server's name has no address
        errno.EADDRNOTAVAIL,
        errno.EADDRINUSE,
        errno.EAFNOSUPPORT,
        errno.EAGAIN,
    }
)


class ServerMark:
    """What `Connection.mark` holds for a server connection."""

    __slots__ = ("epoch", "header", "outer", "reused", "server", "since", "target")

    def __init__(self, server: Server, header: bytes = b"", outer: Outer | None = None) -> None:
        self.server = server
        #: the PROXY header that it began with
        self.header = header
        #: the foreign address that it comes from
        self.outer = outer
        #: the server's epoch when it was opened
        self.epoch = server.epoch
        #: where the client wanted to go, if that is where it leads
        self.target: tuple[str, int] | None = None
        #: how many later requests it carried
        self.reused = 0
        #: tick at which it became idle
        self.since = 0


def prepare(ctx: ThreadContext, srv: Server, conf: BackConf, *, http: bool) -> None:
    """Work out how connections to `srv` are made and kept. Once per thread, before it serves.

    `http`: the backend's mode; TCP fast open needs data to send, which only HTTP surely has.
    """
    settings = srv.settings
    # any event on an idle connection wakes this
    srv.watch = Tasklet(ctx, lambda _value: close_ended(srv), "idle-watch")
    srv.socket_options = conf.socket_options + user_timeout_option(settings.tcp_ut)
    if settings.tfo and http:
        srv.socket_options += FAST_OPEN
    source = settings.source or srv.backend.settings.source
    srv.source = srv.shared.source
    srv.outer = outer_maker(source)
    srv.socks4 = settings.socks4
    if settings.send_proxy is not None:
        srv.make_header = header_maker(settings.send_proxy)
    srv.private = srv.make_header is not None or for_one_client(source)
    if srv.private:
        conf.reuse_private = True
    srv.purge_delay = settings.pool_purge_delay
    srv.max_idle = IDLE_PER_SERVER
    # -1: no limit; a delay of 0 keeps nothing (manual 5.2)
    if settings.pool_max_conn >= 0:
        srv.max_idle = min(srv.max_idle, settings.pool_max_conn)
    if srv.purge_delay == 0 or (settings.resolve is None and follows_client(srv.address)):
        srv.max_idle = 0
    if settings.max_reuse >= 0:
        srv.max_reuse = settings.max_reuse


def close_ended(srv: Server) -> None:
    """Close the idle connections that ended, or brought bytes nobody asked for."""
    alive = []
    for conn in srv.idle:
        if is_quiet(conn):
            alive.append(conn)
        else:
            conn.close()
    srv.return_permits(len(srv.idle) - len(alive))
    srv.idle.clear()
    srv.idle.extend(alive)


def is_quiet(conn: Connection) -> bool:
    """Whether a connection between two requests is still open and has nothing to read.

    A readiness bit alone does not tell: what arrives in two pieces may be read as one, and the
    event for the second piece comes afterwards.
    """
    if not conn.ready & READABLE:
        return True
    if conn.ready & ENDED:
        return False
    try:
        conn.recv(1)
    except BlockingIOError:
        conn.ready &= OUT
        return True
    except OSError:
        return False
    return False


def take_idle(task: Task, srv: Server) -> Connection | None:
    """The most recently used idle connection to `srv`, from now on woken with `task`, or None."""
    idle = srv.idle
    while idle:
        conn = idle.pop()
        if srv.permits is not None:
            srv.return_permits(1)
        if is_quiet(conn):
            conn.tasklet = task
            return conn
        conn.close()
    return None


def take_proven(task: Task, srv: Server) -> Connection | None:
    """As `take_idle`, of those that carried more than one request: the server keeps them open."""
    idle = srv.idle
    for at in range(len(idle) - 1, -1, -1):
        conn = idle[at]
        if not conn.mark.reused:
            continue
        del idle[at]  # the rest stays in the order of age, for `purge_idle`
        if srv.permits is not None:
            srv.return_permits(1)
        if is_quiet(conn):
            conn.tasklet = task
            return conn
        conn.close()
    return None


def take_from(task: Task, srv: Server, outer: Outer | None, *, proven: bool) -> Connection | None:
    """As `take_idle` or `take_proven`, of those that come from `outer`."""
    idle = srv.idle
    for at in range(len(idle) - 1, -1, -1):
        conn = idle[at]
        if conn.mark.outer != outer or (proven and not conn.mark.reused):
            continue
        del idle[at]
        srv.return_permits(1)
        if is_quiet(conn):
            conn.tasklet = task
            return conn
        conn.close()
    return None


def give_idle(conn: Connection, now: int) -> None:
    """Keep a server connection that is between two requests. Closes it if it cannot be kept."""
    mark = conn.mark
    srv = mark.server
    if conn.ready & READABLE and not is_quiet(conn):
        conn.close()
        return
    idle = srv.idle
    if (
        mark.epoch != srv.epoch
        or len(idle) >= srv.max_idle
        or mark.reused >= srv.max_reuse
        or (srv.permits is not None and not srv.take_permit())
    ):
        conn.close()
        return
    mark.since = now
    conn.tasklet = srv.watch
    idle.append(conn)


def reuse_kept(conn: Connection, srv: Server) -> bool:
    """Whether a connection that one client alone uses (see `BackConf.reuse_private`) carries its
    next request to `srv` too; counts it. Otherwise the caller closes it.
    """
    mark = conn.mark
    if (
        mark.server is not srv
        or mark.epoch != srv.epoch
        or mark.reused >= srv.max_reuse
        or not is_quiet(conn)
    ):
        return False
    mark.reused += 1
    return True


def purge_idle(srv: Server, now: int) -> None:
    """Close idle connections that nobody has used for `pool-purge-delay`, or whose server went down
    meanwhile.

    Called about once a second. A look at the shared state of a server for each request would cost
    more than such a connection does harm: no session is given to a server that is down.
    """
    idle = srv.idle
    if srv.epoch != srv.shared.epoch:
        for stale in srv.refresh():
            stale.close()
        return
    while idle:
        if now - idle[0].mark.since < srv.purge_delay:
            return
        idle.popleft().close()
        srv.return_permits(1)


def shed_idle(ctx: ThreadContext) -> bool:
    """`ThreadContext.shed`: close the older half of this thread's idle server connections, and its
    idle pipes. Whether there were any.
    """
    found = close_idle_pipes(ctx)
    for backend in ctx.room.backends.values():
        for srv in backend.servers:
            idle = srv.idle
            for _ in range((len(idle) + 1) // 2):
                idle.popleft().close()
                srv.return_permits(1)
                found = True
    return found


async def connect(stream: Stream) -> Connection:
    """A new connection to `stream.srv` (or to another server, see above).

    Raises Stop: 503 with SC (refused), sC (no answer in time) or RC (no local resources).
    """
    ctx = stream.ctx
    task = stream.task
    conf = stream.bconf
    be = stream.be
    assert be is not None
    started = ctx.now
    waited = stream.t_w
    left = conf.retries - stream.retries if conf.retries_connections else 0
    asked_others = False
    while True:
        srv = stream.srv
        assert srv is not None
        attempt = ctx.now
        error = 0
        trouble = False
        family = 0
        outer = None if srv.outer is None else srv.outer(stream)
        try:
            family, where = _where(stream, srv)
            conn = _open(stream, srv, family, where, outer)
        except OSError as e:
            error = e.errno or errno.EIO
            trouble = is_trouble(e)
            if trouble:
                note_trouble(be.shared, ctx, e, family)
            if error in _NO_DESCRIPTOR:
                # Idle connections hold them: those of this thread, or else those of the others.
                if ctx.shed(ctx):
                    continue
                if not asked_others:
                    asked_others = True
                    ctx.pool.run_everywhere(shed_here)
                    await _pause(stream, _SHED_PAUSE)
                    continue
        else:
            if not conn.ready & OUT:
                task.set_expire(attempt + conf.connect)
                while (error := conn.connect_error()) == errno.EINPROGRESS:
                    if ctx.now >= task.expire:
                        error = errno.ETIMEDOUT
                        break
                    if stream.client_gone and (conf.abortonclose or stream.conf.abortonclose):
                        conn.close()
                        raise Stop(0, "CC")
                    await park()
            if not error and srv.socks4 is not None:
                try:
                    await ask_proxy(stream, conn, where, attempt + conf.connect)
                except OSError as e:
                    error = e.errno or errno.ETIMEDOUT
            header = b""
            if not error and srv.make_header is not None:
                header = srv.make_header(stream)
                try:
                    await send_header(stream, conn, header, attempt + conf.connect)
                except OSError as e:
                    error = e.errno or errno.ETIMEDOUT
            if not error:
                if srv.observer is not None:
                    notice(srv.shared, ctx, L4_OK)
                srv.counters.connect += 1
                be.counters.connect += 1
                stream.t_c = ctx.now - started
                conn.mark = mark = ServerMark(srv, header, outer)
                if follows_client(srv.address):
                    mark.target = (stream.dst_ip, stream.dst_port)
                return conn
            conn.close()
        if srv.observer is not None and error not in _LOCAL_TROUBLE:
            notice(srv.shared, ctx, L4_ERR)
        srv.counters.connect += 1
        be.counters.connect += 1
        if left <= 0:
            srv.counters.failed_conns += 1
            be.counters.failed_conns += 1
            if error in _LOCAL_TROUBLE and not trouble:
                raise Stop(503, "RC")
            raise Stop(503, "sC" if error == errno.ETIMEDOUT else "SC")
        left -= 1
        stream.retries += 1
        stream.unusual = True
        moved = False
        if conf.redispatch and be.shared.active > 1:
            moved = await _redispatch(stream)
        if not moved:
            if not trouble:
                await _pause(stream, min(TURN_AROUND, conf.connect) - (ctx.now - attempt))
            left_behind = not srv.shared.running and not stream.sticks
            if left_behind or _may_redispatch(conf, conf.retries - left):
                moved = await _redispatch(stream)
        if not moved:
            # a move counts as a redispatch alone
            srv.counters.retries += 1
            be.counters.retries += 1
            # as in HAProxy each attempt is a session of the server, one balanced only once
            srv.counters.cum_sess += 1
            srv.counters.unbalanced += 1
            be.counters.cum_sess -= 1
            be.counters.unbalanced -= 1
        if moved:
            # HAProxy's Tw ends, and its Tc begins, where the last server was chosen
            stream.t_w = waited = waited + ctx.now - started
            started = ctx.now


def follows_client(address: Address) -> bool:
    """Whether connections to the server go where the client wanted to go, at least in part: one
    that was made for a client is of no use for the next.
    """
    if address.kind in _PORTLESS:
        return False
    return address.port_offset is not None or address.port == 0 or address.host in _ANY_HOST


def _where(stream: Stream, srv: Server) -> tuple[int, SockAddr]:
    """Family and address that the stream is to be connected to. Raises OSError."""
    address = srv.address
    port = address.port
    if address.port_offset is not None or (port == 0 and address.kind not in _PORTLESS):
        # no port of its own, or one relative to the port that the client connected to
        port = stream.dst_port + (address.port_offset or 0)
    family, where = sockaddr(address, port)
    if address.host in _ANY_HOST and (host := stream.dst_ip) != "unix":
        # where the client wanted to go, as rules may have changed it
        family, where = (
            (socket.AF_INET6, (host, port, 0, 0)) if ":" in host else (socket.AF_INET, (host, port))
        )
    return family, where


def _open(
    stream: Stream, srv: Server, family: int, where: SockAddr, outer: Outer | None
) -> Connection:
    """Start to connect, to the server's SOCKS4 proxy where it has one. Raises OSError."""
    if srv.socks4 is not None:
        family, where = sockaddr(srv.socks4, srv.socks4.port)
    return open_connection(
        stream.ctx, family, where, stream.task, srv.socket_options, srv.source, outer
    )


#: a server without an address of its own
_ANY_HOST = frozenset({"0.0.0.0", "::"})
_PORTLESS = frozenset({AddressKind.UNIX, AddressKind.ABNS})


def _may_redispatch(conf: BackConf, retry: int) -> bool:
    """Whether the retry number `retry`, from 1, may go to another server (`option redispatch`)."""
    interval = conf.redispatch
    if interval < 0:
        # counted from the last retry: -1 is the last one
        interval += conf.retries + 1
    return interval > 0 and retry % interval == 0


async def choose_redispatch(stream: Stream, retry: int) -> None:
    """Before a request is sent again: go to another server where that may be. Raises Stop."""
    conf, srv, be = stream.bconf, stream.srv, stream.be
    assert srv is not None and be is not None
    if conf.redispatch and (
        be.shared.active > 1
        or (not srv.shared.running and not stream.sticks)
        or _may_redispatch(conf, retry)
    ):
        await _redispatch(stream)


async def _redispatch(stream: Stream) -> bool:
    """Move the stream to another server if there is one; it may have to wait for it. Raises Stop.

    The place on the old server is given back first: others may have been waiting for it.
    """
    old, be = stream.srv, stream.be
    assert old is not None and be is not None
    old.release()
    new = be.pick(stream, old)
    if new is None and old.limit is None:
        old.take()
        return False
    if new is None:
        stream.srv = None
        new = await wait_for_server(stream, be)
        stream.srv = new
    if new is old:
        return False  # taken again by `pick`; it is the session that was counted
    stream.set_server(new)
    be.counters.cum_sess -= 1  # one session on two servers
    be.counters.unbalanced -= 1
    stream.redispatched = True
    stream.note_redispatch()
    old.counters.redispatches += 1
    be.counters.redispatches += 1
    return True


async def _pause(stream: Stream, ms: int) -> None:
    """Wait before the next attempt; ends early when nobody waits for the answer any more."""
    ctx = stream.ctx
    until = ctx.now + ms
    if ms <= 0:
        return
    stream.task.set_expire(until)
    while ctx.now < until:
        if stream.client_gone and (stream.bconf.abortonclose or stream.conf.abortonclose):
            raise Stop(0, "CC")
        await park()
    stream.task.expire = FOREVER
