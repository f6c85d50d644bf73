"""Getting a server connection for a stream: an idle one of this thread, or a new one, with retries.

Idle server connections wait in `Server.idle`, still registered with the poller and owned by a small
watch tasklet: any event on an idle connection (bytes nobody asked for, a hang-up) closes it. Each
thread keeps its own; nothing here is shared.

Retries follow HAProxy (manual 4.2 `retries`, `option redispatch`): a refused connection is tried again on
the same server after a second's pause at most; the last attempt goes to another server where
redispatching is allowed.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from mtproxy.base.settings import AddressKind
from mtproxy.net.connection import IN, OUT, READABLE, Connection, open_connection
from mtproxy.net.sockets import peer_text, set_keepalive, sockaddr
from mtproxy.sched.tasklet import Tasklet, park
from mtproxy.stream.conf import FOREVER
from mtproxy.stream.stream import Stop, Stream

if TYPE_CHECKING:
    from mtproxy.proxy.server import Server
    from mtproxy.sched.context import ThreadContext
    from mtproxy.stream.conf import BackConf

#: pause before the same server is tried again, ms
TURN_AROUND = 1000
#: an idle server connection that nobody used for so long is closed, ms
IDLE_MAX = 5000
#: idle connections kept per server and thread
IDLE_PER_SERVER = 512
_LOCAL_TROUBLE = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL, errno.EAGAIN}
)


class IdleWatch:
    """What `Connection.mark` holds for a server connection: its server, its watch tasklet, and when it
    became idle."""

    __slots__ = ("conn", "epoch", "reused", "server", "since", "tasklet")

    def __init__(self, ctx: ThreadContext, conn: Connection, server: Server) -> None:
        self.conn = conn
        self.server = server
        self.since = 0
        self.epoch = server.epoch
        self.reused = 0
        self.tasklet = Tasklet(ctx, self.on_event, "idle-watch")

    def on_event(self, _value: None) -> None:
        conn = self.conn
        if conn.tasklet is self.tasklet and conn.ready & READABLE:
            forget_idle(conn)


def forget_idle(conn: Connection) -> None:
    """Close an idle connection and take it out of its server's list."""
    watch = conn.mark
    assert isinstance(watch, IdleWatch)
    conn.close()
    try:
        watch.server.idle.remove(conn)
    except ValueError:
        return  # it was taken out before


def take_idle(stream: Stream, srv: Server) -> Connection | None:
    """The most recently used idle connection to `srv`, now owned by `stream`, or None."""
    if srv.epoch != srv.shared.epoch:
        for stale in srv.refresh():
            stale.close()
        return None
    idle = srv.idle
    while idle:
        conn = idle.pop()
        if conn.ready & READABLE:
            conn.close()
            continue
        conn.tasklet = stream.task
        return conn
    return None


def give_idle(conn: Connection, now: int) -> None:
    """Keep a server connection that is between two requests. Closes it if it cannot be kept."""
    watch = conn.mark
    assert isinstance(watch, IdleWatch)
    srv = watch.server
    if conn.ready & IN:
        # the last read was exactly full: find out whether anything more came
        try:
            if conn.recv(1):
                conn.close()
                return
        except BlockingIOError:
            conn.ready &= OUT
        except OSError:
            conn.close()
            return
    if conn.ready & READABLE or watch.epoch != srv.shared.epoch or len(srv.idle) >= IDLE_PER_SERVER:
        conn.close()
        return
    watch.since = now
    conn.tasklet = watch.tasklet
    srv.idle.append(conn)


def purge_idle(srv: Server, now: int) -> None:
    """Close idle connections that have waited too long. Called about once a second."""
    idle = srv.idle
    if srv.epoch != srv.shared.epoch:
        for stale in srv.refresh():
            stale.close()
        return
    while idle:
        watch = idle[0].mark
        assert isinstance(watch, IdleWatch)
        if now - watch.since < IDLE_MAX:
            return
        idle.popleft().close()


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
    left = conf.retries
    while True:
        srv = stream.srv
        assert srv is not None
        attempt = ctx.now
        error = 0
        try:
            conn = _open(stream, srv)
        except OSError as e:
            error = e.errno or errno.EIO
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
            if not error:
                srv.counters.connect += 1
                be.counters.connect += 1
                stream.t_c = ctx.now - started
                conn.mark = IdleWatch(ctx, conn, srv)
                if conf.tcpka:
                    set_keepalive(conn.sock)
                return conn
            conn.close()
        if left <= 0:
            srv.counters.failed_conns += 1
            be.counters.failed_conns += 1
            if error in _LOCAL_TROUBLE:
                raise Stop(503, "RC")
            raise Stop(503, "sC" if error == errno.ETIMEDOUT else "SC")
        left -= 1
        stream.retries += 1
        srv.counters.retries += 1
        be.counters.retries += 1
        if not (_may_redispatch(conf, left) and _redispatch(stream)):
            await _pause(stream, min(TURN_AROUND, conf.connect) - (ctx.now - attempt))


def _open(stream: Stream, srv: Server) -> Connection:
    address = srv.address
    port = address.port
    if address.port_offset is not None or (port == 0 and address.kind not in _PORTLESS):
        # no port of its own, or one relative to the port that the client connected to
        port = stream.dst_port + (address.port_offset or 0)
    family, where = sockaddr(address, port)
    conn = open_connection(stream.ctx, family, where, stream.task)
    stream.server_ip, stream.server_port = peer_text(where)
    return conn


_PORTLESS = frozenset({AddressKind.UNIX, AddressKind.ABNS})


def _may_redispatch(conf: BackConf, left: int) -> bool:
    """Whether the retry with `left` more behind it may go to another server (`option redispatch`)."""
    interval = conf.redispatch
    if interval == 0:
        return False
    if interval < 0:
        return left % -interval == 0
    return (conf.retries - left) % interval == 0


def _redispatch(stream: Stream) -> bool:
    """Move the stream to another server if there is one."""
    old, be = stream.srv, stream.be
    assert old is not None and be is not None
    old.release()
    new = be.pick(stream.ctx, old)
    if new is None:
        old.take()
        return False
    moved = new is not old
    stream.set_server(new)
    if moved:
        stream.redispatched = True
        old.counters.redispatches += 1
        be.counters.redispatches += 1
    return moved


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
