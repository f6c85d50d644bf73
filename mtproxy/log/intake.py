"""Log forwarding: syslog messages that come in, by UDP or over TCP, go out to `log` targets
(manual 3.10, section `log-forward`).

A `Relay` writes messages to the targets of one section on one thread. `DatagramReader` and
`StreamIntake` bring them: datagrams are one message each; on a connection a message ends with a
line feed, or is preceded by its length (RFC 6587), as its first byte tells. One thread serves all
sockets of a section. Owner thread only.
"""

from __future__ import annotations

import socket
from datetime import datetime
from typing import TYPE_CHECKING

from mtproxy.base.clock import NEVER
from mtproxy.base.report import say
from mtproxy.log import received, sampling
from mtproxy.log.logger import Sender, ThreadLogs, open_senders
from mtproxy.log.ring import RingTarget
from mtproxy.net.connection import ENDED, IN, OUT, READABLE, Connection
from mtproxy.net.listener import Acceptor
from mtproxy.sched.tasklet import Task, Tasklet, park

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtproxy.base.log_settings import LogForwardSettings
    from mtproxy.sched.context import ThreadContext

#: bytes of a message at most, and of a datagram
MOST = 65536
#: datagrams that are read before others get their turn
_BATCH = 64
_READ_SIZE = 16384


class BadFrame(Exception):
    """What came over a connection is no syslog."""


class Relay:
    """The way out of one section. `ThreadLogs.received` counts what comes in."""

    __slots__ = ("_formats", "_samples", "_senders", "_thread_logs")

    def __init__(
        self,
        settings: LogForwardSettings,
        pid: int,
        thread_logs: ThreadLogs,
        samples: sampling.ThreadSampling | None,
    ) -> None:
        """Raises OSError for a target that cannot be opened."""
        self._senders: list[Sender] = open_senders(settings.logs, None, pid, thread_logs)
        self._formats: list[str | None] = [
            sender.target.ring.format if isinstance(sender.target, RingTarget) else log.format
            for sender, log in zip(self._senders, settings.logs, strict=True)
        ]
        self._samples = samples
        self._thread_logs = thread_logs

    def send(self, data: bytes) -> None:
        """Forward one message."""
        self._thread_logs.received += 1
        message = received.parse(data.rstrip(b"\n\0"))
        level = message.level
        skipped = self._samples.skipped(level) if self._samples is not None else ()
        for number, sender in enumerate(self._senders):
            if level > sender.level or number in skipped:
                continue
            log_format = self._formats[number] or received.natural_format(message)
            facility = sender.facility if message.facility < 0 else message.facility
            now = datetime.now().astimezone()
            head = received.head(message, log_format, max(level, sender.minimum), facility, now)
            sender.send_whole(head, message.text)


class DatagramReader:
    """A UDP socket, watched by one thread."""

    __slots__ = ("_relay", "_sock", "ready", "tasklet")

    def __init__(self, ctx: ThreadContext, sock: socket.socket, relay: Relay) -> None:
        self._sock = sock
        self._relay = relay
        self.ready = 0
        self.tasklet = Tasklet(ctx, self._read, "log-forward")
        ctx.epoll.register(sock.fileno(), IN)
        ctx.fdtab[sock.fileno()] = self

    def _read(self, _value: object) -> None:
        for _ in range(_BATCH):
            try:
                data = self._sock.recv(MOST)
            except BlockingIOError:
                return
            except OSError as error:
                say("alert", f"a socket for logs cannot be read: {error}")
                return
            self._relay.send(data)


class Places:
    """How many connections a section has at a time, see `net.listener.Gate`."""

    __slots__ = ("_current", "_maxconn", "acceptors")

    def __init__(self, maxconn: int) -> None:
        self._maxconn = maxconn
        self._current = 0
        self.acceptors: list[Acceptor] = []

    def full(self) -> bool:
        return self._current >= self._maxconn

    def admit(self) -> bool:
        return not self.full()

    def delay(self) -> int:
        """There is no limit of a rate."""
        return 0

    def cancel(self) -> bool:
        return False

    def enter(self) -> None:
        self._current += 1

    def leave(self) -> None:
        """A connection has ended."""
        self._current -= 1
        self.resume()

    def resume(self) -> None:
        """Accept again where that was stopped and there is room."""
        for acceptor in self.acceptors:
            if acceptor.paused and not self.full():
                acceptor.resume()


class StreamIntake:
    """Starts to read connections: an acceptor's `start`."""

    __slots__ = ("_places", "_relay", "_timeout")

    def __init__(self, relay: Relay, places: Places, timeout: int | None) -> None:
        """`timeout`: ms without a byte after which a connection is closed."""
        self._relay = relay
        self._places = places
        self._timeout = timeout

    def __call__(self, ctx: ThreadContext, sock: socket.socket, peer: object) -> None:
        session = _Session(ctx, self._relay, self._places, self._timeout)
        task = ctx.spawn(session.run(), "log-forward")
        try:
            session.attach(task, Connection(ctx, sock, task))
        except OSError as error:
            ctx.abandon(task)
            sock.close()
            self._places.leave()
            say("alert", f"a connection for logs is closed at once: {error}")


class _Session:
    """One connection."""

    __slots__ = ("_conn", "_ctx", "_places", "_relay", "_task", "_timeout")

    _conn: Connection
    _task: Task

    def __init__(
        self, ctx: ThreadContext, relay: Relay, places: Places, timeout: int | None
    ) -> None:
        self._ctx = ctx
        self._relay = relay
        self._places = places
        self._timeout = timeout

    def attach(self, task: Task, conn: Connection) -> None:
        """Say which task runs it and which connection it serves, before its first run."""
        self._task = task
        self._conn = conn

    async def run(self) -> None:
        """Read until the client closes, sends nonsense, or nothing for too long."""
        conn, ctx = self._conn, self._ctx
        frames = Frames()
        try:
            while True:
                deadline = NEVER if self._timeout is None else ctx.now + self._timeout
                while not conn.ready & READABLE:
                    if ctx.now >= deadline or ctx.stopping:
                        return
                    self._task.set_expire(deadline)
                    await park()
                try:
                    data = conn.recv(_READ_SIZE)
                except BlockingIOError:
                    conn.ready &= OUT
                    continue
                if not data:
                    return
                if len(data) < _READ_SIZE and not conn.ready & ENDED:
                    conn.ready &= ~IN
                for message in frames.feed(data):
                    self._relay.send(message)
        except (OSError, BadFrame):
            pass  # what has come before has been forwarded
        finally:
            conn.close()
            self._places.leave()


class Frames:
    """Cuts a stream of bytes into messages (RFC 6587, both framings)."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The messages that are complete now, each once; then raises BadFrame if nonsense follows.
        To be run to its end.
        """
        rest = self._rest + data
        start = 0
        while start < len(rest):
            first = rest[start : start + 1]
            if first == b"<":
                end = rest.find(b"\n", start)
                if end < 0:
                    break
                yield rest[start:end].removesuffix(b"\r")
                start = end + 1
            elif first in b"123456789":
                blank = rest.find(b" ", start, start + 8)
                if blank < 0:
                    if len(rest) - start >= 8:
                        raise BadFrame
                    break
                digits = rest[start:blank]
                if not digits.isdigit() or int(digits) > MOST:
                    raise BadFrame
                end = blank + 1 + int(digits)
                if end > len(rest):
                    break
                yield rest[blank + 1 : end]
                start = end
            else:
                raise BadFrame
        self._rest = rest[start:]
        if len(self._rest) > MOST + 8:
            raise BadFrame
