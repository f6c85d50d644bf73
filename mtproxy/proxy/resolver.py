"""DNS look-ups of running streams (manual 5.3, `do-resolve`): UDP to the name servers of a section.

A `Resolver` is one `resolvers` section on one thread. `lookup` is awaited by a stream's coroutine:
it asks all name servers at once, takes the first answer that is one, asks again after `timeout
retry`, and keeps what it has learnt as long as the section's `hold` says. `resolve_retries` is how
often it asks in all. The other family is asked for where nothing is known of the preferred one; a
name server's silence is no reason for that, as in HAProxy. The messages are
dnspython's work. Answers that belong to no question of ours (number, name, type) are dropped.
Owner thread only.
"""

from __future__ import annotations

import secrets
import socket
from typing import TYPE_CHECKING, Any

from mtproxy.net.connection import OUT, READABLE, Connection
from mtproxy.net.sockets import sockaddr
from mtproxy.sched.tasklet import Task, Tasklet, park

if TYPE_CHECKING:
    from mtproxy.base.settings import ResolversSettings
    from mtproxy.sched.context import ThreadContext

#: answers that are kept; when it is full, all are forgotten
_KEPT = 4096
#: the most questions that wait for answers, of the 65,536 that can be told apart
_OPEN = 32768
_A, _AAAA = 1, 28


class _Question:
    """One question that waits for its answer."""

    __slots__ = ("addresses", "answered", "failures", "name", "task", "type")

    def __init__(self, name: str, kind: int, task: Task) -> None:
        self.name = name
        self.type = kind
        self.task = task
        self.answered = False
        #: how many name servers could not tell
        self.failures = 0
        #: literal addresses; empty: the name has none
        self.addresses: list[str] = []


class Resolver:
    """See the module."""

    __slots__ = ("_channels", "_kept", "_questions", "_tasklet", "ctx", "settings")

    def __init__(self, settings: ResolversSettings, ctx: ThreadContext) -> None:
        self.settings = settings
        self.ctx = ctx
        self._channels: list[Connection] = []
        self._questions: dict[int, _Question] = {}
        #: (name, type) -> (tick until which it holds, addresses)
        self._kept: dict[tuple[str, int], tuple[int, list[str]]] = {}
        self._tasklet = Tasklet(ctx, lambda _value: self._read(), "resolver")

    async def lookup(self, name: str, task: Task, prefer: str = "ipv6") -> str | None:
        """An address of `name`, of the preferred family ("ipv4", "ipv6") if it has one; None if it
        has none or nobody says. `task` is the caller's, whose expiry is changed.
        """
        ctx = self.ctx
        kinds = (_A, _AAAA) if prefer == "ipv4" else (_AAAA, _A)
        left = max(self.settings.retries, 1)
        while left:
            left -= 1
            until = ctx.now + self.settings.timeout_retry
            known = True
            for kind in kinds:
                addresses = await self._ask(name, kind, task)
                if addresses:
                    return addresses[0]
                if addresses is None:
                    known = False
                    if ctx.now >= until:
                        break
            if known:
                return None
            # all name servers had trouble: it may be over by the next time
            task.set_expire(until)
            while left and ctx.now < until:
                await park()
        return None

    async def _ask(self, name: str, kind: int, task: Task) -> list[str] | None:
        """The addresses of a family; None where nobody could tell within `timeout retry`."""
        ctx, settings = self.ctx, self.settings
        kept = self._kept.get((name, kind))
        if kept is not None and ctx.now < kept[0]:
            return kept[1]
        if len(self._questions) >= _OPEN:
            return []  # numbers would run out, and who is not answered for so many is not there
        question = _Question(name, kind, task)
        number = secrets.randbits(16)
        while number in self._questions:
            number = secrets.randbits(16)
        try:
            wire = self._wire(name, kind, number)
        except ValueError:
            return []  # no name that could be asked for
        self._questions[number] = question
        try:
            until = ctx.now + settings.timeout_retry
            self._send(wire)
            task.set_expire(until)
            while not question.answered and ctx.now < until:
                if 0 < len(self._channels) <= question.failures:
                    break
                await park()
        finally:
            del self._questions[number]
        if not question.answered:
            return None
        # manual 5.3.2: of all periods `hold valid` alone is meant for look-ups of streams
        hold = settings.hold_valid
        if question.addresses and hold:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            self._kept[name, kind] = (ctx.now + hold, question.addresses)
        return question.addresses

    def _wire(self, name: str, kind: int, number: int) -> bytes:
        """The question as it is sent. Raises ValueError for what is no name."""
        import dns.exception
        import dns.message
        import dns.rdatatype

        try:
            message = dns.message.make_query(
                name,
                dns.rdatatype.RdataType(kind),
                id=number,
                payload=self.settings.payload_size,
                use_edns=0,
            )
            return message.to_wire()
        except (dns.exception.DNSException, UnicodeError) as error:
            raise ValueError(str(error)) from None

    def _send(self, wire: bytes) -> None:
        """Ask every name server; one that cannot be reached is as good as one that is silent."""
        if not self._channels:
            self._open()
        for channel in self._channels:
            try:
                channel.send(wire)
            except OSError:
                channel.ready &= ~OUT

    def _open(self) -> None:
        for server in self.settings.nameservers:
            family, where = sockaddr(server.address, server.address.port)
            sock = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            try:
                sock.connect(where)
                self._channels.append(Connection(self.ctx, sock, self._tasklet))
            except OSError:
                sock.close()

    def _read(self) -> None:
        """Something came from a name server."""
        for channel in self._channels:
            while channel.ready & READABLE:
                try:
                    data = channel.recv(65535)
                except BlockingIOError:
                    channel.ready = OUT
                except OSError:
                    channel.ready = OUT  # nobody listens there; the others may answer
                else:
                    self._answer(data)

    def _answer(self, data: bytes) -> None:
        import dns.exception
        import dns.message
        import dns.rcode

        question = self._questions.get(int.from_bytes(data[:2]))
        if question is None or question.answered:
            return
        try:
            message = dns.message.from_wire(data)
            if not isinstance(message, dns.message.QueryMessage) or not _answers(message, question):
                return
            code = message.rcode()
            if code == dns.rcode.NOERROR:
                found = message.resolve_chaining().answer
                question.addresses = [str(one) for one in found] if found is not None else []
            elif code != dns.rcode.NXDOMAIN:
                # this one cannot tell: another may, or it after a while
                question.failures += 1
                question.task.wake()
                return
        except (dns.exception.DNSException, ValueError):
            return
        question.answered = True
        question.task.wake()

    def close(self) -> None:
        """Close the sockets."""
        for channel in self._channels:
            channel.close()
        self._channels.clear()


def _answers(message: Any, question: _Question) -> bool:
    """Whether a message answers just this question."""
    import dns.flags
    import dns.name

    if not message.flags & dns.flags.QR or len(message.question) != 1:
        return False
    asked = message.question[0]
    name = dns.name.from_text(question.name)
    return bool(asked.rdtype == question.type and asked.name == name)
