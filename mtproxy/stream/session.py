"""From an accepted socket to a running stream."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING, cast

from mtproxy.net.connection import Connection
from mtproxy.net.sockets import LINGER_RESET, set_options, silence
from mtproxy.rules.transaction import Transaction
from mtproxy.rules.verdict import ACCEPT, DROP
from mtproxy.stream.http import HttpStream
from mtproxy.stream.rules import evaluate
from mtproxy.stream.tcp import TcpStream

if TYPE_CHECKING:
    from mtproxy.base.ruleset import ProxyRules
    from mtproxy.sched.context import ThreadContext
    from mtproxy.stream.stream import Stream


class SessionStarter:
    """Starts sessions of one frontend on whichever thread it is called.

    One object per listener, immutable, shared by all threads: it finds the thread's own runtime
    objects through the context.
    """

    __slots__ = ("is_http", "name", "number", "ruled")

    def __init__(self, front: str, mode: str, number: int, *, ruled: bool = False) -> None:
        """`number` is that of the listener in `Room.listeners`; `ruled`: rules look at connections
        when they are accepted (see `rules_at_accept`).
        """
        self.number = number
        self.is_http = mode == "http"
        self.name = f"{front}/{mode}"
        self.ruled = ruled

    def __call__(self, ctx: ThreadContext, sock: socket.socket, peer: object) -> None:
        listener = ctx.room.listeners[self.number]
        room = listener.front
        stream: HttpStream | TcpStream
        if self.is_http:
            stream = HttpStream(ctx, room, sock, peer)
        else:
            stream = TcpStream(ctx, room, sock, peer)
        stream.listener = listener
        if stream.client_ip == "unix":
            stream.client_port = listener.id
        if self.ruled and not admit(stream, sock):
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


class _Accepted:
    """A connection before it is served: the part of `Connection` that rules look at."""

    __slots__ = ("closed", "sock")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.closed = False


def rules_at_accept(rules: ProxyRules) -> bool:
    """Whether a proxy has rules about connections and sessions."""
    sets = rules.sets
    return bool(sets.get("tcp-request connection") or sets.get("tcp-request session"))


def admit(stream: Stream, sock: socket.socket) -> bool:
    """Run the rules about connections, then those about sessions. False: `sock` is closed.

    Neither is logged (manual 4.2): a connection that is rejected is reset, a session is closed.
    """
    rules = stream.room.rules
    assert rules is not None
    stream.conn = cast(Connection, _Accepted(sock))
    stream.txn = Transaction()
    admitted = False
    try:
        admitted = _passes(stream, sock)
    finally:
        if not admitted:
            sock.close()
            stream.leave_listener()
    return admitted


def _passes(stream: Stream, sock: socket.socket) -> bool:
    rules = stream.room.rules
    assert rules is not None
    listener = stream.listener.counters
    sides = (stream.fe.counters,) if listener is None else (stream.fe.counters, listener)
    verdict = evaluate(rules.connection, stream)
    if verdict is None or verdict is ACCEPT:
        verdict = evaluate(rules.session, stream)
        if verdict is None or verdict is ACCEPT:
            if stream.tracking is not None:
                stream.tracking.count_session()
            return True
        if verdict is not DROP:
            with contextlib.suppress(OSError):  # the client has gone already
                # unread input makes the kernel send a reset next: it comes behind an orderly end
                sock.shutdown(socket.SHUT_WR)
            for counters in sides:
                counters.denied_sess += 1
            return False
    elif verdict is not DROP:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
        for counters in sides:
            counters.denied_conn += 1
        return False
    silence(sock)
    for counters in sides:
        counters.denied_req += 1
    return False
