"""The runtime socket on net's connections: starts a session for each accepted connection.

One `CliStarter` per runtime socket, immutable, shared by all threads; it is called on the thread
that will serve the connection. Runtime connections do not count towards connection limits and do
not hold up a soft stop.
"""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

from mtproxy.base.report import say
from mtproxy.cli.commands import COMMANDS
from mtproxy.cli.runtime import CliSession, Level, Pause
from mtproxy.cli.server import BATCH, serve
from mtproxy.net.connection import ENDED, ERR, HUP, IN, OUT, READABLE, Connection
from mtproxy.sched.tasklet import Task, park

if TYPE_CHECKING:
    from mtproxy.base.settings import StatsSocket
    from mtproxy.net.listener import Acceptor
    from mtproxy.sched.context import ThreadContext
    from mtproxy.stats.runtime import Runtime

_READ_SIZE = 16384
#: how long and how much is read from a client that has its answer but does not close
_LINGER_MS = 1000
_LINGER_READS = 64

#: the peer went away: nothing to report about that
_GONE = frozenset({errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.ETIMEDOUT})


class CliGate:
    """How many connections a runtime socket has at a time, see `net.listener.Gate`. The others wait
    in the kernel's queue. Owner thread only: one thread serves all runtime connections.

    `total` is the gate of all runtime sockets together (`stats maxconn`); None: this is it.
    """

    def __init__(self, maxconn: int | None, total: CliGate | None = None) -> None:
        self.maxconn = maxconn
        self.total = total
        self.current = 0
        #: all acceptors that may have to wait for this gate
        self.acceptors: list[Acceptor] = []

    def full(self) -> bool:
        if self.total is not None and self.total.full():
            return True
        return self.maxconn is not None and self.current >= self.maxconn

    def admit(self) -> bool:
        # one thread serves them all, so that nobody takes the place before `enter`
        return not self.full()

    def delay(self) -> int:
        return 0

    def cancel(self) -> bool:
        return False

    def enter(self) -> None:
        self.current += 1
        if self.total is not None:
            self.total.enter()

    def add(self, acceptor: Acceptor) -> None:
        """Say who asks this gate."""
        self.acceptors.append(acceptor)
        if self.total is not None:
            self.total.add(acceptor)

    def leave(self) -> None:
        """A connection has ended."""
        self.current -= 1
        if self.total is None:
            self.resume()
        else:
            self.total.leave()

    def resume(self) -> None:
        """Let those that wait for this gate, or for descriptors, accept again."""
        for acceptor in self.acceptors:
            if acceptor.paused and not acceptor.gate.full():
                acceptor.resume()


class CliStarter:
    """Starts sessions of one runtime socket; an acceptor's `start`."""

    __slots__ = ("gate", "level", "runtime", "severity_output", "timeout_ms")

    def __init__(self, runtime: Runtime, stats_socket: StatsSocket, gate: CliGate) -> None:
        self.runtime = runtime
        self.gate = gate
        self.severity_output = stats_socket.bind.severity_output
        self.level = Level[stats_socket.bind.level.upper()]
        self.timeout_ms = stats_socket.timeout

    def __call__(self, ctx: ThreadContext, sock: socket.socket, peer: object) -> None:
        session = CliSession(self.runtime, ctx, COMMANDS, self.level, self.timeout_ms)
        session.severity_output = self.severity_output
        connection = CliConnection(session, self.gate)
        task = ctx.spawn(connection.run(), "runtime socket")
        try:
            connection.attach(task, Connection(ctx, sock, task))
        except OSError as error:
            ctx.abandon(task)
            sock.close()
            self.gate.leave()
            say("alert", f"a connection to the runtime socket is closed at once: {error}")
            return
        # an approximation is enough for a report, hence no atomic increment
        self.runtime.cli_connections += 1


class CliConnection:
    """The transport of one session. Owner thread only."""

    __slots__ = ("conn", "gate", "session", "task")

    task: Task
    conn: Connection

    def __init__(self, session: CliSession, gate: CliGate) -> None:
        self.session = session
        self.gate = gate

    def attach(self, task: Task, conn: Connection) -> None:
        """Say which task runs it and which connection it serves, before its first run."""
        self.task = task
        self.conn = conn

    async def run(self) -> None:
        """Serve the connection, then close it."""
        try:
            await serve(self.session, self.read_some, self.write_all, self.wait_for)
            await self._linger()
        except TimeoutError:
            pass  # the client neither reads its answer nor closes
        except OSError as error:
            if error.errno not in _GONE:
                raise
        finally:
            self.conn.close()
            self.gate.leave()

    async def _linger(self) -> None:
        """End the output and wait for the client's end: closing with input unread makes the kernel
        send a reset, which may destroy the answer on its way.
        """
        self.conn.shutdown_write()
        self.session.timeout_ms = _LINGER_MS
        for _ in range(_LINGER_READS):
            if not await self.read_some():
                return

    async def read_some(self) -> bytes:
        """At least one byte, or b"" at the end. Raises TimeoutError."""
        conn = self.conn
        deadline = conn.ctx.now + self.session.timeout_ms
        while True:
            if conn.ready & READABLE:
                try:
                    return conn.recv(_READ_SIZE)
                except BlockingIOError:
                    conn.ready &= ~(IN | ENDED)
            await self._wait(deadline)

    async def write_all(self, data: bytes) -> None:
        """Hand everything to the kernel. Raises TimeoutError if the client stops reading.

        A long answer comes in pieces, each of which took a while to make: after each the others
        run, and this task goes on as bulk.
        """
        conn = self.conn
        view = memoryview(data)
        deadline = conn.ctx.now + self.session.timeout_ms
        while view:
            try:
                sent = conn.send(view)
            except BlockingIOError:
                conn.ready &= ~OUT
                while not conn.ready & (OUT | ENDED):
                    await self._wait(deadline)
                continue
            view = view[sent:]
            deadline = conn.ctx.now + self.session.timeout_ms
        if len(data) >= BATCH:
            self.task.queue = conn.ctx.bulk
            self.task.wake()
            await park()
            self.task.queue = conn.ctx.normal

    async def wait_for(self, pause: Pause) -> None:
        """Wait until it is over, or the client ends it: where it asks for any input by sending
        something, which is thrown away with what it has sent before, or by silence for too long,
        which ends the session; in any case by closing the connection.
        """
        conn, task, shared = self.conn, self.task, self.conn.ctx.shared
        over = False

        def on_thread(_ctx: ThreadContext) -> None:
            nonlocal over
            over = True
            task.wake()

        if pause.any_input and self.session.pending:
            self.session.discard_input()
            pause.stopped = True
            return
        pause.begin(lambda: shared.post(on_thread))
        deadline = conn.ctx.now + self.session.timeout_ms
        while not over:
            if not pause.any_input:
                if conn.ready & (HUP | ERR):
                    pause.stopped = True
                    return
                await park()
                continue
            if conn.ready & READABLE:
                try:
                    conn.recv(_READ_SIZE)
                except BlockingIOError:
                    conn.ready &= ~(IN | ENDED)
                else:
                    pause.stopped = True
                    return
            try:
                await self._wait(deadline)
            except TimeoutError:
                self.session.closing = pause.stopped = True
                return

    async def _wait(self, deadline: int) -> None:
        """Park until something happens. Raises TimeoutError at `deadline`."""
        if self.conn.ctx.now >= deadline:
            raise TimeoutError
        self.task.set_expire(deadline)
        await park()
