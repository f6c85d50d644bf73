"""Getting a server connection for a stream: an idle one of this thread, or a new one, with retries.

Idle server connections wait in `Server.idle`, still registered with the poller and owned by a
watch tasklet of their server: any event on an idle connection (bytes nobody asked for, a hang-up)
closes it. Each thread keeps its own; nothing here is shared.

Retries follow HAProxy (manual 4.2 `retries`, `option redispatch`): a refused connection is tried
again on the same server after a second's pause at most; the last attempt goes to another server
where redispatching is allowed.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from mtproxy.base.settings import AddressKind
from mtproxy.net.connection import ENDED, OUT, READABLE, Connection, open_connection
from mtproxy.net.sockets import peer_text, set_keepalive, sockaddr
from mtproxy.net.splice import close_idle_pipes
from mtproxy.sched.context import shed_here
from mtproxy.sched.tasklet import Task, Tasklet, park
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
#: how long other threads get to close idle connections, ms
_SHED_PAUSE = 20
_NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
_LOCAL_TROUBLE = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL, errno.EAGAIN}
)


class ServerMark:
    """What `Connection.mark` holds for a server connection."""

    __slots__ = ("epoch", "reused", "server", "since")

    def __init__(self, server: Server) -> None:
        self.server = server
        #: the server's epoch when it was opened
        self.epoch = server.epoch
        #: how many later requests it carried
        self.reused = 0
        #: tick at which it became idle
        self.since = 0


def watch_idle(ctx: ThreadContext, srv: Server) -> None:
    """Make the tasklet that any event on an idle connection of `srv` wakes. Once per thread."""
    srv.watch = Tasklet(ctx, lambda _value: close_ended(srv), "idle-watch")


def close_ended(srv: Server) -> None:
    """Close the idle connections that ended, or brought bytes nobody asked for."""
    alive = []
    for conn in srv.idle:
        if is_quiet(conn):
            alive.append(conn)
        else:
            conn.close()
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
    if srv.epoch != srv.shared.epoch:
        for stale in srv.refresh():
            stale.close()
        return None
    idle = srv.idle
    while idle:
        conn = idle.pop()
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
    if mark.epoch != srv.shared.epoch or len(idle) >= IDLE_PER_SERVER:
        conn.close()
        return
    mark.since = now
    conn.tasklet = srv.watch
    idle.append(conn)


def purge_idle(srv: Server, now: int) -> None:
    """Close idle connections that have waited too long. Called about once a second."""
    idle = srv.idle
    if srv.epoch != srv.shared.epoch:
        for stale in srv.refresh():
            stale.close()
        return
    while idle:
        if now - idle[0].mark.since < IDLE_MAX:
            return
        idle.popleft().close()


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
    left = conf.retries
    asked_others = False
    while True:
        srv = stream.srv
        assert srv is not None
        attempt = ctx.now
        error = 0
        try:
            conn = _open(stream, srv)
        except OSError as e:
            error = e.errno or errno.EIO
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
            if not error:
                srv.counters.connect += 1
                be.counters.connect += 1
                stream.t_c = ctx.now - started
                conn.mark = ServerMark(srv)
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
    """Whether a retry with `left` more behind it may go to another server (`option redispatch`)."""
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
    be.counters.cum_sess -= 1  # one session on two servers
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
