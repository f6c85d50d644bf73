"""Agent checks: ask a program on the server how much it wants to do (manual 5.2, `agent-check`).

An AgentCheck is a shared task of the global wait queue, as a health check is: the thread that
collects it connects, sends `agent-send`, reads one line and does what it says. An agent that cannot
be asked changes nothing. It goes on in maintenance: the agent may end that.

The line's words are HAProxy's: `up`, `down`, `stopped`, `fail`; `ready`, `drain`, `maint`; a weight
as `75%`; `maxconn:10`; behind `#` a description. The last word of each kind counts.
"""

from __future__ import annotations

import errno
import os
import re
from random import random
from typing import TYPE_CHECKING, NamedTuple

from mtproxy.net import connection as net
from mtproxy.net.sockets import sockaddr
from mtproxy.net.source import open_socket
from mtproxy.proxy.adjust import change_maxconn, change_weight
from mtproxy.proxy.checks.outcome import INFO_MAX, Outcome, local_failure
from mtproxy.proxy.checkstatus import CheckStatus
from mtproxy.proxy.sourcing import note_trouble
from mtproxy.proxy.transitions import force_agent, report_check, set_drain, set_maint, set_ready
from mtproxy.sched.tasklet import Task, park

if TYPE_CHECKING:
    from mtproxy.proxy.server import ServerState
    from mtproxy.sched.context import ThreadContext

#: the most that is read for a line, in bytes
MOST_BYTES = 16384
_BLANKS = re.compile(r"[ \t,]+")
_HEALTHS = frozenset(("up", "down", "stopped", "fail"))
_ADMINS = {"ready": set_ready, "drain": set_drain, "maint": set_maint}


class Reply(NamedTuple):
    """What a line says; "" for what it does not say. `odd` is its first word without a meaning."""

    health: str = ""
    admin: str = ""
    weight: str = ""
    maxconn: str | None = None
    odd: str = ""
    description: str = ""


def parse_reply(line: str) -> Reply:
    """The words of one line, without its end. They mean the same in capitals."""
    words, _, description = line.partition("#")
    if words and words[-1] not in " \t,":
        # a sharp within a word begins no description
        words, description = _within_words(line)
    health = admin = weight = odd = ""
    maxconn: str | None = None
    for word in filter(None, _BLANKS.split(words)):
        lower = word.lower()
        if lower in _HEALTHS:
            health = word
        elif lower in _ADMINS:
            admin = lower
        elif "0" <= word[0] <= "9" and "%" in word:
            weight = word
        elif lower.startswith("maxconn:"):
            maxconn = word[8:]
        elif not odd:
            odd = word
    return Reply(health, admin, weight, maxconn, odd, description.lstrip(" \t"))


def _within_words(line: str) -> tuple[str, str]:
    found = re.search(r"[ \t,]#", line)
    return (line, "") if found is None else (line[: found.start()], line[found.end() :])


class AgentCheck:
    """The agent check of one server. One thread at a time owns it; see the module."""

    __slots__ = ("_connection", "_started", "_task", "expire", "server", "spread", "wq_key")

    def __init__(self, server: ServerState, spread: int) -> None:
        """`spread` is `spread-checks`, in percent of the interval, 0..50."""
        assert server.settings.agent is not None
        self.server = server
        self.spread = spread
        self.expire: int | None = None
        self.wq_key: tuple[int, int] | None = None
        self._started = 0
        self._connection: net.Connection | None = None
        self._task: Task | None = None

    def interval(self) -> int:
        """Milliseconds to the next check, without spreading."""
        settings = self.server.settings.agent
        assert settings is not None
        return settings.inter

    def run(self, ctx: ThreadContext) -> None:
        """Start on this thread."""
        agent = self.server.agent
        if not agent.active:
            self._requeue(ctx)
            return
        agent.in_progress = True
        self._started = ctx.now
        self._task = ctx.spawn(self._ask(ctx), "agent check")

    def _requeue(self, ctx: ThreadContext) -> None:
        if self.server.removed:
            return
        delay = self.interval()
        if self.spread:
            range_ms = delay * self.spread // 100
            delay += range_ms - int(2 * range_ms * random())
        ctx.pool.wait_queue.queue(self, ctx.now + delay, ctx.tid)

    async def _ask(self, ctx: ThreadContext) -> None:
        """Ask, and do what the answer says."""
        try:
            found = await self._exchange(ctx)
            self.server.agent.in_progress = False
            if isinstance(found, str):
                self._obey(ctx, parse_reply(found))
            else:
                self._report(ctx, *found)
        finally:
            self.server.agent.in_progress = False
            if self._connection is not None:
                # an agent that sees the end may rely on what it said being in force
                self._connection.close()
                self._connection = None
            self._task = None
            self._requeue(ctx)

    async def _exchange(self, ctx: ThreadContext) -> str | Outcome:
        """The agent's line, or why there is none."""
        server, task = self.server, self._task
        assert task is not None
        address = server.agent_address or server.address
        family, where = sockaddr(address, server.agent_port)
        try:
            connection = self._connect(ctx, task, family, where)
        except OSError as refused:
            note_trouble(server.backend, ctx, refused, family)
            return local_failure(refused, family)
        self._connection = connection
        timeouts = server.backend.settings.timeouts
        limit = self.interval()
        if timeouts.check is not None and timeouts.connect is not None:
            limit = min(limit, timeouts.connect)
        task.set_expire(self._started + limit)
        try:
            while (error := connection.connect_error()) == errno.EINPROGRESS:
                if ctx.now >= task.expire:
                    return Outcome(CheckStatus.L4TOUT)
                await park()
            if error:
                return Outcome(CheckStatus.L4CON, os.strerror(error))
            if timeouts.check is not None:
                task.set_expire(ctx.now + timeouts.check)
            if server.agent_send:
                # a fresh socket takes it whole
                connection.send(server.agent_send)
            return await self._read_line(ctx, task, connection)
        except OSError as failed:
            return Outcome(CheckStatus.SOCKERR, failed.strerror or str(failed))

    def _connect(
        self, ctx: ThreadContext, task: Task, family: int, where: object
    ) -> net.Connection:
        """Begin to connect. Raises OSError where the kernel refuses at once."""
        source = self.server.source
        try:
            sock = open_socket(source, family)
        except OSError as e:
            # for want of a descriptor no agent is called silent: idle connections give theirs
            if e.errno not in (errno.EMFILE, errno.ENFILE) or not ctx.shed(ctx):
                raise
            sock = open_socket(source, family)
        try:
            if source is not None:
                source.bind(sock)
            error = sock.connect_ex(where)  # type: ignore[arg-type]
            if error and error != errno.EINPROGRESS:
                raise OSError(error, os.strerror(error))
            return net.Connection(ctx, sock, task, ready=0)
        except OSError:
            sock.close()
            raise

    async def _read_line(
        self, ctx: ThreadContext, task: Task, connection: net.Connection
    ) -> str | Outcome:
        data = b""
        while True:
            while connection.ready & net.READABLE:
                try:
                    more = connection.recv(MOST_BYTES)
                except BlockingIOError:
                    connection.ready &= ~net.READABLE
                    break
                data += more
                end = min((data.find(c) for c in b"\r\n\0" if c in data), default=-1)
                if end >= 0:
                    return data[:end].decode("utf-8", "surrogateescape")
                if not more or len(data) > MOST_BYTES:
                    if data:
                        return Outcome(CheckStatus.L7TOUT, "Ignoring incomplete line from agent")
                    return Outcome(CheckStatus.L7RSP, "TCPCHK got an empty response at step 2")
            if ctx.now >= task.expire:
                return Outcome(CheckStatus.L7TOUT)
            await park()

    def _obey(self, ctx: ThreadContext, reply: Reply) -> None:
        """Do what the agent says: administrative words first, then weights, then its health."""
        server = self.server
        if not server.agent.enabled:
            return  # switched off while it was asked
        if reply.admin:
            _ADMINS[reply.admin](server, ctx)
        warning = ""
        if reply.weight:
            warning = change_weight(server, ctx, reply.weight)
        if reply.maxconn is not None:
            warning = warning or change_maxconn(server, ctx, reply.maxconn)
        if not reply.health:
            text = f"agent warns : {warning}" if warning else ""
            if reply.odd:
                text = f"agent reports an error : {reply.odd}"
            self._report(ctx, CheckStatus.CHECKED, text)
            return
        up = reply.health.lower() == "up"
        text = reply.description
        if not text or up:
            text = reply.odd or warning or text
        info = f"via agent : {reply.health}" + (f" ({text})" if text else "")
        force_agent(server, ctx, up=up)
        self._report(ctx, CheckStatus.L7OK if up else CheckStatus.L7STS, info)

    def _report(
        self, ctx: ThreadContext, status: CheckStatus, info: str = "", code: int = 0
    ) -> None:
        info = info[:INFO_MAX]
        report_check(self.server, ctx, status, info, ctx.now - self._started, code, agent=True)
