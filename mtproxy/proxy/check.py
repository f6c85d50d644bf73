"""Health checks: when the check of each server starts, and the one that connects and says nothing
(manual 5.2, `check`).

A Check is a shared task of the global wait queue: whichever pool thread collects it runs it on its
own loop, enters the result, and puts the check back into the queue. While it is under way it is in
no queue, so that one thread at a time owns it. What a backend's check has to say is a script, which
`proxy.checks` runs; without one, and that is the usual case, the functions here do.

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
from collections.abc import Iterable, Iterator
from random import random
from typing import TYPE_CHECKING, Any

from mtproxy.base.addresses import SendProxy
from mtproxy.net.connection import Connection
from mtproxy.net.proxyproto import build_v1, build_v2
from mtproxy.net.sockets import LINGER_RESET, peer_text, sockaddr
from mtproxy.net.source import open_socket
from mtproxy.proxy.agent import AgentCheck
from mtproxy.proxy.checks.outcome import Outcome, local_failure
from mtproxy.proxy.checks.run import UNDER_WAY, Run
from mtproxy.proxy.checkstatus import CheckStatus
from mtproxy.proxy.external import run_command
from mtproxy.proxy.server import ServerState
from mtproxy.proxy.sourcing import note_trouble
from mtproxy.proxy.transitions import report_check
from mtproxy.sched.tasklet import Task

if TYPE_CHECKING:
    from mtproxy.base.settings import GlobalSettings
    from mtproxy.net.sockets import SockAddr
    from mtproxy.proxy.backend import BackendShared
    from mtproxy.proxy.checks.script import Script
    from mtproxy.sched.context import ThreadContext
    from mtproxy.sched.waitqueue import WaitQueueBase

#: intervals below this do not decide how far the first checks are spread, in ms
SPREAD_THRESHOLD = 1000


class Check:
    """The health check of one server. `run` on the thread that collected it; see the module."""

    __slots__ = (
        "_connection",
        "_external",
        "_family",
        "_place",
        "_scripted",
        "_started",
        "_task",
        "check_timeout",
        "connect_timeout",
        "expire",
        "never_local",
        "server",
        "settings",
        "source",
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
        self._family = 0
        proxy = server.backend.settings
        script = proxy.check_script
        #: whether a command does it
        self._external = proxy.external_check is not None
        #: whether there is more to do than to connect
        self._scripted = settings.via_socks4 or (script is not None and not script.connects_only)
        #: what `option tcp-check` says of a connection that failed
        self._place = "" if script is None else " at initial connection step of tcp-check"
        self.source = server.source
        timeouts = proxy.timeouts
        #: ms to connect in, and those for everything behind that, None: the rest
        self.connect_timeout = settings.inter
        self.check_timeout = timeouts.check
        if timeouts.check is not None and timeouts.connect is not None:
            self.connect_timeout = min(settings.inter, timeouts.connect)
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
        if self._external:
            ctx.spawn(self._call(ctx), "external check")
            return
        if self._scripted:
            run = Run(self, self._script(ctx), ctx)
            run.task = ctx.spawn(self._say(ctx, run), "check")
            return
        try:
            try:
                connected = self._connect(ctx)
            except OSError as e:
                # for want of a descriptor no server is called dead: idle connections give theirs
                if e.errno not in (errno.EMFILE, errno.ENFILE) or not ctx.shed(ctx):
                    raise
                connected = self._connect(ctx)
        except OSError as e:
            note_trouble(self.server.backend, ctx, e, self._family)
            self._finish(ctx, local_failure(e, self._family, self._place))
            return
        if connected:
            self._finish(ctx, Outcome(CheckStatus.L4OK))

    def _script(self, ctx: ThreadContext) -> Script:
        """The functions of the thread that runs the check."""
        script: Script = ctx.room.check_scripts[self.server.backend.name]
        return script

    async def _call(self, ctx: ThreadContext) -> None:
        """Run the command and report; the child may outlive that for a moment."""
        task = ctx.running
        assert isinstance(task, Task)
        reported = False

        def report(outcome: Outcome) -> None:
            nonlocal reported
            reported = True
            self._finish(ctx, outcome)

        try:
            await run_command(ctx, task, self.server, self.connect_timeout, report)
        finally:
            if not reported:
                self.server.check.in_progress = False
                self._requeue(ctx)

    async def _say(self, ctx: ThreadContext, run: Run) -> None:
        """Run the script and report."""
        try:
            outcome = await run.outcome()
        except Exception:
            # whoever owns the loop prints it; the server goes on being checked
            self.server.check.in_progress = False
            self._requeue(ctx)
            raise
        self._finish(ctx, outcome)

    def greet(self, sock: socket.socket, *, forced: bool = False) -> None:
        """Send the header that the settings ask for; `forced`: or the usual one. A fresh socket
        takes it whole. Raises OSError.
        """
        settings = self.settings.send_proxy
        if settings is None:
            if not forced:
                return
            settings = self.server.settings.send_proxy or SendProxy()
        source, destination = peer_text(sock.getsockname()), peer_text(sock.getpeername())
        if settings.version == 1:
            header = build_v1(source, destination)
        elif self.never_local:
            header = build_v2(source, destination, checksum=settings.crc32c)
        else:
            header = build_v2(None, None, checksum=settings.crc32c)
        sock.send(header)

    def target(self) -> tuple[int, SockAddr]:
        """Family and address of the next connection; the server's address may have changed."""
        address = self.server.check_address or self.server.address
        port = self.server.check_port or address.port or self.server.address.port
        return sockaddr(address, port)

    def _connect(self, ctx: ThreadContext) -> bool:
        """Start to connect; whether that has succeeded at once. OSError: refused at once."""
        self._family, where = self.target()
        source = self.source
        sock = open_socket(source, self._family)
        try:
            if self._family != socket.AF_UNIX:
                # no acknowledgement of the server's SYN before the reset that ends the check
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
            if source is not None:
                source.bind(sock)
            error = sock.connect_ex(where)
            if error == errno.EINPROGRESS:
                # on this machine a connection is there as soon as it was asked for
                error = sock.connect_ex(where)
                if error == errno.EISCONN:
                    error = 0
            if error in UNDER_WAY:
                task = Task(ctx, self._step, "check")
                self._connection = Connection(ctx, sock, task, ready=0)
                self._task = task
                task.set_expire(ctx.now + self.connect_timeout)
                return False
            if error:
                raise OSError(error, os.strerror(error))
            self.greet(sock)
            if self._family != socket.AF_UNIX:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
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
                self.greet(connection.sock)
            except OSError as failed:
                info = failed.strerror or str(failed)
                self._end(ctx, Outcome(CheckStatus.L4CON, info + self._place))
            else:
                self._end(ctx, Outcome(CheckStatus.L4OK))
        elif error != errno.EINPROGRESS:
            self._end(ctx, Outcome(CheckStatus.L4CON, os.strerror(error) + self._place))
        elif task.expire <= ctx.now:
            self._end(ctx, Outcome(CheckStatus.L4TOUT, self._place))

    def _end(self, ctx: ThreadContext, outcome: Outcome) -> None:
        """Drop the connection and report."""
        assert self._task is not None
        assert self._connection is not None
        self._connection.reset()
        ctx.finish(self._task)
        self._task = self._connection = None
        self._finish(ctx, outcome)

    def _finish(self, ctx: ThreadContext, outcome: Outcome) -> None:
        self.server.check.in_progress = False
        status, info, code = outcome
        report_check(self.server, ctx, status, info, ctx.now - self._started, code)
        self._requeue(ctx)

    def _requeue(self, ctx: ThreadContext) -> None:
        if self.server.removed:
            return
        delay = self.interval()
        if self.spread:
            range_ms = delay * self.spread // 100
            delay += range_ms - int(2 * range_ms * random())
        ctx.pool.wait_queue.queue(self, ctx.now + delay, ctx.tid)


def start_checks(
    backends: Iterable[BackendShared],
    settings: GlobalSettings,
    wait_queue: WaitQueueBase[Any],
    now: int,
    tid: int,
) -> list[Check | AgentCheck]:
    """Queue the first check of every server, and that of its agent, spread over the smallest
    interval.

    Check number i of n starts i/n of an interval after `now`: the shortest interval of at least
    SPREAD_THRESHOLD ms, or the server's own if that is longer, at most `max-spread-checks` (manual
    3.2; verified against 2.6). Called once, before or after the threads start.
    """
    servers = [server for backend in backends for server in backend.servers]
    checks = [check for server in servers for check in _of(server, settings)]
    shortest = min((i for c in checks if (i := c.interval()) >= SPREAD_THRESHOLD), default=0)
    for number, check in enumerate(checks):
        spread = max(shortest, check.interval())
        if settings.max_spread_checks:
            spread = min(spread, settings.max_spread_checks)
        wait_queue.queue(check, now + spread * number // len(checks), tid)
    return checks


def _of(server: ServerState, settings: GlobalSettings) -> Iterator[Check | AgentCheck]:
    """The health check and the agent check of a server."""
    if server.settings.check is not None:
        check = Check(server, settings.spread_checks, never_local=settings.pp2_never_send_local)
        server.check_task = check
        yield check
    if server.settings.agent is not None:
        yield AgentCheck(server, settings.spread_checks)


def start_check(server: ServerState, settings: GlobalSettings, ctx: ThreadContext) -> None:
    """Queue the first check of a server that was added at run time, if it is checked."""
    for check in _of(server, settings):
        ctx.pool.wait_queue.queue(check, ctx.now, ctx.tid)
