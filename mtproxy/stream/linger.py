"""Closing a client connection so that the last answer arrives.

A socket that is closed while input is unread is reset by the kernel, and the reset may destroy the
answer on its way. So the output is ended first, and input is thrown away until the client closes
too, within bounds of time and volume.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.net.connection import ENDED, IN, OUT, READABLE
from mtproxy.sched.tasklet import park

if TYPE_CHECKING:
    from mtproxy.stream.stream import Stream

#: how long an ended connection waits for the client's end, ms
LINGER_MS = 1000
#: how much unread input is taken off before giving up, bytes
LINGER_BYTES = 1 << 22
_CHUNK = 1 << 16


async def linger(stream: Stream) -> None:
    """End the output of the client connection and drain what the client still sends.

    Returns when the connection may be closed: the client has closed it, too, or waits too long.
    """
    conn = stream.conn
    ctx = stream.ctx
    if conn.silent:
        return
    if stream.conf.nolinger:
        conn.reset()
        return
    left = LINGER_BYTES
    expire = ctx.now + min(LINGER_MS, stream.conf.client)
    ended = False
    while not conn.closed:
        if conn.ready & READABLE:
            try:
                data = conn.recv(_CHUNK)
            except BlockingIOError:
                conn.ready &= OUT
            except OSError:
                return
            else:
                if not data:
                    return
                left -= len(data)
                if left <= 0:
                    return
                if len(data) < _CHUNK and not conn.ready & ENDED:
                    conn.ready &= ~IN
                continue
        if not ended:
            ended = True
            conn.shutdown_write()
            stream.task.set_expire(expire)
        if ctx.now >= expire:
            return
        await park()
