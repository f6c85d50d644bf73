"""From an accepted socket to a running stream."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from mtproxy.net.connection import Connection
from mtproxy.net.sockets import set_options
from mtproxy.stream.admission import admit
from mtproxy.stream.http import HttpStream
from mtproxy.stream.proxied import ProxiedHttp, ProxiedTcp
from mtproxy.stream.switching import ProxiedSwitching, SwitchingTcp
from mtproxy.stream.tcp import TcpStream

if TYPE_CHECKING:
    from mtproxy.sched.context import ThreadContext


class SessionStarter:
    """Starts sessions of one frontend on whichever thread it is called.

    One object per listener, immutable, shared by all threads: it finds the thread's own runtime
    objects through the context.
    """

    __slots__ = (
        "behind_header",
        "is_http",
        "name",
        "number",
        "plain",
        "proxied",
        "ruled",
        "sends_header",
    )

    def __init__(
        self,
        front: str,
        mode: str,
        number: int,
        *,
        ruled: bool = False,
        sends_header: bool = False,
        may_send_header: bool = False,
        switches: bool = False,
    ) -> None:
        """`number` is that of the listener in `Room.listeners`; `ruled`: rules look at connections
        when they are accepted (see `rules_at_accept`). `sends_header`: every connection begins with
        a PROXY header; `may_send_header`: a rule says which one does. `switches`: connections may
        become HTTP.
        """
        self.number = number
        self.is_http = mode == "http"
        self.name = f"{front}/{mode}"
        self.ruled = ruled
        self.sends_header = sends_header
        self.proxied = sends_header or may_send_header
        self.plain: type[HttpStream | TcpStream] = TcpStream
        self.behind_header: type[ProxiedHttp | ProxiedTcp | ProxiedSwitching] = ProxiedTcp
        if self.is_http:
            self.plain, self.behind_header = HttpStream, ProxiedHttp
        elif switches:
            self.plain, self.behind_header = SwitchingTcp, ProxiedSwitching

    def __call__(self, ctx: ThreadContext, sock: socket.socket, peer: object) -> None:
        listener = ctx.room.listeners[self.number]
        room = listener.front
        stream: HttpStream | TcpStream
        if self.proxied:
            stream = self.behind_header(ctx, room, sock, peer)
            if self.sends_header:
                stream.expect()
        else:
            stream = self.plain(ctx, room, sock, peer)
        stream.listener = listener
        if stream.client_ip == "unix":
            stream.client_port = listener.id
        if self.ruled and not admit(stream, sock, session=not self.proxied):
            return
        task = ctx.spawn(stream.run(), self.name)
        stream.task = task
        try:
            if room.conf.socket_options:
                set_options(sock, room.conf.socket_options)
            stream.conn = Connection(ctx, sock, task)
        except OSError as error:
            ctx.abandon(task)
            sock.close()
            stream.leave_listener()
            room.refused(ctx, error)
        else:
            stream.open_session()
