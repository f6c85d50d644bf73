"""Health checks: a TCP connection to each checked server, at its interval (manual 5.2, `check`).

A Check is a shared task of the global wait queue: whichever pool thread collects it opens the
connection on its own loop, waits there for the answer or the timeout, enters the result, and puts
the check back into the queue. While it is under way it is in no queue, so that one thread at a time
owns it.

As in HAProxy: a check that connects is reset before its handshake is acknowledged, so that servers
never see it in accept(). The timeout is `inter`; when `timeout check` and `timeout connect` are
both set, the smaller of `inter` and `timeout connect`. The next check starts one interval after the
end of this one. With `check-send-proxy` a PROXY header is sent before the reset: version 1 tells
of the check's own connection, version 2 says LOCAL (all verified against 2.6).
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterable
from random import random
from typing import TYPE_CHECKING

from mtproxy.net.connection import Connection
from mtproxy.net.proxyproto import build_v1, build_v2
from mtproxy.net.sockets import bind_source, peer_text, sockaddr
from mtproxy.proxy.checkstatus import CheckStatus
from mtproxy.proxy.server import ServerState
from mtproxy.proxy.transitions import report_check
from mtproxy.sched.tasklet import Task

if TYPE_CHECKING:
    from mtproxy.base.settings import GlobalSettings
    from mtproxy.proxy.backend import BackendShared
    from mtproxy.sched.context import ThreadContext
    from mtproxy.sched.waitqueue import WaitQueueBase

#: intervals below this do not decide how far the first checks are spread, in ms
SPREAD_THRESHOLD = 1000

#: errors of this process, not of the server or the way to it
NO_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ENOSPC})


class Check:
    """The health check of one server. `run` on the thread that collected it; see the module."""

    __slots__ = (
        "_connection",
        "_family",
        "_source",
        "_started",
        "_task",
        "_timeout",
        "_where",
        "expire",
        "never_local",
        "server",
        "settings",
        "spread",
        "wq_key",
    )

    def __init__(self, server: ServerState, spread: int, *, never_local: bool = False) -> None:
        """`spread` is `spread-checks`, in percent of the interval, 0..50; `never_local` is
        `pp2-never-send-local`.
        """
        settings = server.settings.check
        assert settings is not None
        self.server = server
        self.settings = settings
        self.spread = spread
        self.never_local = never_local
        self.expire: int | None = None
        self.wq_key: tuple[int, int] | None = None
        address = settings.address or server.address
        port = settings.port or address.port or server.address.port
        self._family, self._where = sockaddr(address, port)
        proxy = server.backend.settings
        self._source = server.settings.source or proxy.source
        timeouts = proxy.timeouts
        self._timeout = settings.inter
        if timeouts.check is not None and timeouts.connect is not None:
            self._timeout = min(settings.inter, timeouts.connect)
        self._started = 0
        self._task: Task | None = None
        self._connection: Connection | None = None

    def interval(self) -> int:
        """Milliseconds to the next check, as the server's health asks for, without spreading."""
        server, settings = self.server, self.settings
        return server.interval(server.check, settings.inter, settings.fastinter, settings.downinter)

    def run(self, ctx: ThreadContext) -> None:
        """Start the check on this thread. Its result comes from the loop of the same thread."""
        if not self.server.check.active:
            self._requeue(ctx)
            return
        self.server.check.in_progress = True
        self._started = ctx.now
        try:
            try:
                connected = self._connect(ctx)
            except OSError as e:
                # for want of a descriptor no server is called dead: idle connections give theirs
                if e.errno not in (errno.EMFILE, errno.ENFILE) or not ctx.shed(ctx):
                    raise
                connected = self._connect(ctx)
        except OSError as e:
            self._finish(ctx, *local_failure(e, self._family))
            return
        if connected:
            self._finish(ctx, CheckStatus.L4OK, "")

    def _greet(self, sock: socket.socket) -> None:
        """Send the header that the settings ask for. A fresh socket takes it whole."""
        settings = self.settings.send_proxy
        if settings is None:
            return
        source, destination = peer_text(sock.getsockname()), peer_text(sock.getpeername())
        if settings.version == 1:
            header = build_v1(source, destination)
        elif self.never_local:
            header = build_v2(source, destination, checksum=settings.crc32c)
        else:
            header = build_v2(None, None, checksum=settings.crc32c)
        sock.send(header)

    def _connect(self, ctx: ThreadContext) -> bool:
        """Start to connect; whether that has succeeded at once. OSError: refused at once."""
        sock = socket.socket(self._family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            if self._family != socket.AF_UNIX:
                # no acknowledgement of the server's SYN before the reset that ends the check
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
            if self._source is not None:
                bind_source(sock, self._source)
            error = sock.connect_ex(self._where)
            if error == errno.EINPROGRESS:
                task = Task(ctx, self._step, "check")
                self._connection = Connection(ctx, sock, task, ready=0)
                self._task = task
                task.set_expire(ctx.now + self._timeout)
                return False
            if error:
                raise OSError(error, os.strerror(error))
            self._greet(sock)
        except OSError:
            sock.close()
            raise
        sock.close()
        return True

    def _step(self, _value: None) -> None:
        """The loop saw something on the connection, or the timeout has come."""
        task, connection = self._task, self._connection
        assert task is not None
        assert connection is not None
        ctx = task.ctx
        error = connection.connect_error()
        if error == 0:
            try:
                self._greet(connection.sock)
            except OSError as failed:
                self._end(ctx, CheckStatus.L4CON, failed.strerror or str(failed))
            else:
                self._end(ctx, CheckStatus.L4OK, "")
        elif error != errno.EINPROGRESS:
            self._end(ctx, CheckStatus.L4CON, os.strerror(error))
        elif task.expire <= ctx.now:
            self._end(ctx, CheckStatus.L4TOUT, "")

    def _end(self, ctx: ThreadContext, status: CheckStatus, info: str) -> None:
        """Drop the connection and report."""
        assert self._task is not None
        assert self._connection is not None
        self._connection.reset()
        ctx.finish(self._task)
        self._task = self._connection = None
        self._finish(ctx, status, info)

    def _finish(self, ctx: ThreadContext, status: CheckStatus, info: str) -> None:
        self.server.check.in_progress = False
        report_check(self.server, ctx, status, info, ctx.now - self._started)
        self._requeue(ctx)

    def _requeue(self, ctx: ThreadContext) -> None:
        delay = self.interval()
        if self.spread:
            range_ms = delay * self.spread // 100
            delay += range_ms - int(2 * range_ms * random())
        ctx.pool.wait_queue.queue(self, ctx.now + delay, ctx.tid)


def local_failure(error: OSError, family: int) -> tuple[CheckStatus, str]:
    """The result of a check which the local kernel refused at once."""
    text = error.strerror or str(error)
    if error.errno == errno.ECONNREFUSED and family != socket.AF_UNIX:
        return CheckStatus.L4CON, text
    local = family == socket.AF_UNIX or error.errno in NO_RESOURCES
    return CheckStatus.SOCKERR if local else CheckStatus.L4CON, f"General socket error ({text})"


def start_checks(
    backends: Iterable[BackendShared],
    settings: GlobalSettings,
    wait_queue: WaitQueueBase[Check],
    now: int,
    tid: int,
) -> list[Check]:
    """Queue the first check of every checked server, spread over the smallest interval.

    Check number i of n starts i/n of an interval after `now`: the shortest interval of at least
    SPREAD_THRESHOLD ms, or the server's own if that is longer, at most `max-spread-checks` (manual
    3.2; verified against 2.6). Called once, before or after the threads start.
    """
    checks = [
        Check(server, settings.spread_checks, never_local=settings.pp2_never_send_local)
        for backend in backends
        for server in backend.servers
        if server.settings.check is not None
    ]
    shortest = min((i for c in checks if (i := c.interval()) >= SPREAD_THRESHOLD), default=0)
    for number, check in enumerate(checks):
        spread = max(shortest, check.interval())
        if settings.max_spread_checks:
            spread = min(spread, settings.max_spread_checks)
        wait_queue.queue(check, now + spread * number // len(checks), tid)
    return checks
