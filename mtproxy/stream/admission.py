"""Rules about connections and sessions, before a stream serves them (manual 4.2, `tcp-request`).

Neither refusal is logged: a connection that is rejected is reset, a session is closed. Rules about
connections run when one is accepted; those about sessions next, or behind a PROXY header where one
is waited for (`stream.proxied`). Owner thread only.
"""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING, cast

from mtproxy.net.connection import Connection
from mtproxy.net.sockets import LINGER_RESET, silence
from mtproxy.rules.transaction import Transaction
from mtproxy.rules.verdict import ACCEPT, DROP, Verdict
from mtproxy.stream.rules import evaluate

if TYPE_CHECKING:
    from mtproxy.base.ruleset import ProxyRules
    from mtproxy.proxy.counters import FrontendCounters
    from mtproxy.stream.stream import Stream


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


def admit(stream: Stream, sock: socket.socket, *, session: bool = True) -> bool:
    """Run the rules about connections, then, if `session`, those about sessions. False: `sock` is
    closed.
    """
    stream.conn = cast(Connection, _Accepted(sock))
    stream.txn = Transaction()
    admitted = False
    try:
        admitted = _passes_connection(stream, sock) and (
            not session or passes_session(stream, sock)
        )
    finally:
        if not admitted:
            sock.close()
            stream.leave_listener()
    return admitted


def passes_session(stream: Stream, sock: socket.socket) -> bool:
    """Run the rules about sessions; False: the caller closes."""
    rules = stream.room.rules
    assert rules is not None
    verdict = evaluate(rules.session, stream)
    if verdict is None or verdict is ACCEPT:
        if stream.tracking is not None:
            stream.tracking.count_session()
        return True
    if verdict is DROP:
        _drop(stream, sock)
        return False
    with contextlib.suppress(OSError):  # the client has gone already
        # unread input makes the kernel send a reset next: it comes behind an orderly end
        sock.shutdown(socket.SHUT_WR)
    for counters in _sides(stream):
        counters.denied_sess += 1
    return False


def _passes_connection(stream: Stream, sock: socket.socket) -> bool:
    rules = stream.room.rules
    assert rules is not None
    verdict: Verdict | None = evaluate(rules.connection, stream)
    if verdict is None or verdict is ACCEPT:
        return True
    if verdict is DROP:
        _drop(stream, sock)
        return False
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
    for counters in _sides(stream):
        counters.denied_conn += 1
    return False


def _drop(stream: Stream, sock: socket.socket) -> None:
    silence(sock)
    for counters in _sides(stream):
        counters.denied_req += 1


def _sides(stream: Stream) -> tuple[FrontendCounters, ...]:
    listener = stream.listener.counters
    return (stream.fe.counters,) if listener is None else (stream.fe.counters, listener)
