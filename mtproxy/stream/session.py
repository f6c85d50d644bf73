"""From an accepted socket to a running stream."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from mtproxy.net.connection import Connection
from mtproxy.net.sockets import set_keepalive
from mtproxy.stream.http import HttpStream
from mtproxy.stream.tcp import TcpStream

if TYPE_CHECKING:
    from mtproxy.sched.context import ThreadContext


class SessionStarter:
    """Starts sessions of one frontend on whichever thread it is called.

    One object per listener, immutable, shared by all threads: it finds the thread's own runtime
    objects through the context.
    """

    __slots__ = ("front", "is_http", "name")

    def __init__(self, front: str, mode: str) -> None:
        self.front = front
        self.is_http = mode == "http"
        self.name = f"{front}/{mode}"

    def __call__(self, ctx: ThreadContext, sock: socket.socket, peer: object) -> None:
        room = ctx.room.fronts[self.front]
        stream: HttpStream | TcpStream
        if self.is_http:
            stream = HttpStream(ctx, room, sock, peer)
        else:
            stream = TcpStream(ctx, room, sock, peer)
        task = ctx.spawn(stream.run(), self.name)
        stream.task = task
        stream.conn = Connection(ctx, sock, task)
        stream.open_session()
        if room.conf.tcpka:
            set_keepalive(sock)
