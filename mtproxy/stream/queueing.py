"""Waiting for a server: a stream in the queues of `proxy.queue` (manual 4.2 `timeout queue`).

`wait_for_server` is called where no server was free at once; a backend without limited servers has
nothing to wait for, and the answer is 503. Failures are `Stop`: 503 with sQ when `timeout queue` is
over, with SQ where the server's queue is as long as `maxqueue` allows, CQ when the client has gone.
Owner thread only.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from mtproxy.net.connection import ERR
from mtproxy.proxy.queue import Joined, Pendconn
from mtproxy.sched.tasklet import park
from mtproxy.stream.conf import FOREVER
from mtproxy.stream.stream import Stop

if TYPE_CHECKING:
    from mtproxy.proxy.backend import Backend
    from mtproxy.proxy.queue import BackendQueue
    from mtproxy.proxy.server import Server
    from mtproxy.stream.stream import Stream


async def wait_for_server(stream: Stream, be: Backend, chosen: Server | None = None) -> Server:
    """A server that is taken, its slot included; sets `stream.t_w`. Raises Stop.

    `chosen`: the one that the client has to come back to; it is not taken yet. None: `be.pick` has
    just found no server.
    """
    ctx = stream.ctx
    queue = be.shared.queue
    began = ctx.now
    if queue is None:
        raise no_server(stream, be)
    while True:
        seen = queue.freed
        srv = chosen
        if srv is None:
            srv = be.pick(stream)
            if srv is not None:
                break
            if not be.shared.up:
                raise no_server(stream, be)
            # what an algorithm chooses though it is full is the only one for this request
            srv = be.pick_any(stream)
            if srv is not None:
                srv.untake()
        pend = Pendconn(
            stream.task,
            ctx.tid,
            stream.priority_class,
            ctx.now + stream.priority_offset,
            bound=stream.sticks or not stream.bconf.leaves_queue,
        )
        if srv is None:
            joined = queue.join(pend, ctx.tid, seen)
        elif srv.limit is None:
            srv.take()
            break
        else:
            joined = queue.join_server(srv.limit, pend, ctx.tid)
        if joined is Joined.GRANTED:
            assert srv is not None
            srv.take()
            break
        if joined is Joined.AGAIN:
            continue
        if joined is Joined.FULL:
            assert srv is not None
            if chosen is not None and stream.bconf.redispatch and not stream.sticks:
                chosen = None
                _note_move(stream, srv)
                continue
            stream.server = srv.name
            _count_failure(srv, be)
            raise Stop(503, "SQ")
        found = await _wait(stream, be, queue, srv, pend, began)
        if found is not None:
            srv = found
            break
        # sent away by a server that went down
        if chosen is not None:
            _note_move(stream, chosen)
            chosen = None
    stream.t_w = max(stream.t_w, 0) + ctx.now - began
    return srv


def no_server(stream: Stream, be: Backend) -> Stop:
    """What becomes of a session that no server is usable for."""
    stream.t_w = -1
    be.counters.failed_conns += 1
    return Stop(503, "SC")


async def _wait(
    stream: Stream,
    be: Backend,
    queue: BackendQueue,
    srv: Server | None,
    pend: Pendconn,
    began: int,
) -> Server | None:
    """Wait in a queue for the slot of a server, which is then taken; None: look for another one.
    Raises Stop.
    """
    ctx, task, conf = stream.ctx, stream.task, stream.bconf
    counters = be.counters if srv is None else srv.counters
    place = pend.place
    counters.queue_cur += 1
    if place is not None and place.length > counters.queue_max:
        counters.queue_max = place.length
    # the log names the server that was waited for
    before = stream.server
    if srv is not None:
        stream.server = srv.name
    expire = ctx.now + conf.queue
    task.set_expire(expire)
    stop: Stop | None = None
    waits = True
    try:
        while pend.place is not None:
            if ctx.now >= expire:
                stop = Stop(503, "sQ")
            elif stream.client_gone and _gives_up(stream):
                stop = Stop(0, "CQ")
            else:
                await park()
                continue
            if queue.leave(pend, ctx.tid):
                waits = False
                stream.t_w = max(stream.t_w, 0) + ctx.now - began
                if stop.status:
                    be.counters.failed_conns += 1
                    if srv is not None:
                        srv.counters.failed_conns += 1
                raise stop
            break  # it got a slot at the last moment
        else:
            # the lock orders what another thread has written before
            queue.leave(pend, ctx.tid)
        waits = False
    finally:
        counters.queue_cur -= 1
        task.expire = FOREVER
        stream.unusual = True
        if waits and not queue.leave(pend, ctx.tid):
            # the stream ends here, and has got a slot just now
            limit = None if pend.target is None else pend.target.limit
            if limit is not None:
                queue.give_back(limit, ctx.tid)
        if srv is None:
            stream.backend_queue += pend.position
        else:
            stream.srv_queue += pend.position
    stream.server = before
    if pend.target is None:
        return None
    found = be.slots[pend.target.position]
    found.take()
    return found


def _gives_up(stream: Stream) -> bool:
    """Whether a client that has closed its side takes its request with it (`option abortonclose`).
    One whose connection is broken does, and one who has not sent anything to be passed on.
    """
    if stream.bconf.abortonclose or stream.conf.abortonclose or stream.conn.ready & ERR:
        return True
    if stream.request_line is not None:
        return False
    try:
        return not stream.conn.sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _note_move(stream: Stream, old: Server) -> None:
    """The session does not go to the server that it was to come back to."""
    stream.redispatched = True
    stream.unusual = True
    stream.note_redispatch()
    old.counters.redispatches += 1
    assert stream.be is not None
    stream.be.counters.redispatches += 1


def _count_failure(srv: Server, be: Backend) -> None:
    srv.counters.failed_conns += 1
    be.counters.failed_conns += 1
