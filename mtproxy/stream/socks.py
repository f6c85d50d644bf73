"""Connections to servers through a SOCKS4 proxy (`socks4`, manual 5.2). Owner thread only."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from mtproxy.net import socks4
from mtproxy.net.connection import IN, READABLE, Connection
from mtproxy.sched.tasklet import park

if TYPE_CHECKING:
    from mtproxy.net.sockets import SockAddr
    from mtproxy.stream.stream import Stream


async def ask_proxy(stream: Stream, conn: Connection, where: SockAddr, deadline: int) -> None:
    """Have the proxy at the other end of `conn` connect to `where`, until the tick `deadline`.

    Raises TimeoutError; OSError where the proxy says no, or cannot reach such an address.
    """
    request = None if not isinstance(where, tuple) else socks4.request(where[0], where[1])
    if request is None:
        raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))
    conn.send(request)  # a fresh socket takes it whole
    task = stream.task
    reply = b""
    while len(reply) < socks4.REPLY_SIZE:
        if conn.ready & READABLE:
            try:
                more = conn.recv(socks4.REPLY_SIZE - len(reply))
            except BlockingIOError:
                conn.ready &= ~IN
                continue
            if not more:
                raise ConnectionResetError(errno.ECONNRESET, socks4.READ_ERROR)
            reply += more
            continue
        if stream.ctx.now >= deadline:
            raise TimeoutError
        task.set_expire(deadline)
        await park()
    if not socks4.granted(reply):
        raise ConnectionRefusedError(errno.ECONNREFUSED, socks4.DENIED)
