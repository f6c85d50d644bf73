"""DNS look-ups of running streams (manual 5.3, `do-resolve`) by the name servers of a section.

A `Resolver` is one `resolvers` section on one thread. `lookup` is awaited by a stream's coroutine:
it asks all name servers at once, takes the first answer that is one, asks again after `timeout
retry`, and keeps what it has learnt as long as the section's `hold` says. `resolve_retries` is how
often it asks in all. The other family is asked for where nothing is known of the preferred one; a
name server's silence is no reason for that, as in HAProxy. Answers that belong to no question of
ours are dropped. Of several addresses the one is taken that HAProxy would take.
Owner thread only.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from mtproxy.proxy.dns.channel import Channel, open_channel
from mtproxy.proxy.dns.wire import AAAA, A, Outcome, question, read
from mtproxy.sched.tasklet import Task, park

if TYPE_CHECKING:
    from mtproxy.base.server_settings import ResolversSettings
    from mtproxy.proxy.dns.section import SectionShared
    from mtproxy.sched.context import ThreadContext

#: answers that are kept; when it is full, all are forgotten
_KEPT = 4096
#: the most questions that wait for answers, of the 65,536 that can be told apart
_OPEN = 32768
#: answers that do not say whether there is an address
_UNKNOWN = frozenset({Outcome.REFUSED, Outcome.OTHER, Outcome.TRUNCATED})


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

    __slots__ = ("_channels", "_kept", "_questions", "_shared", "ctx", "settings")

    def __init__(
        self, settings: ResolversSettings, ctx: ThreadContext, shared: SectionShared | None = None
    ) -> None:
        """`shared` gets the counters; None: nobody does."""
        self.settings = settings
        self.ctx = ctx
        self._shared = shared
        self._channels: list[Channel] = []
        self._questions: dict[int, _Question] = {}
        #: (name, type) -> (tick until which it holds, addresses)
        self._kept: dict[tuple[str, int], tuple[int, list[str]]] = {}

    async def lookup(self, name: str, task: Task, prefer: str = "ipv6") -> str | None:
        """An address of `name`, of the preferred family ("ipv4", "ipv6") if it has one; None if it
        has none or nobody says. `task` is the caller's, whose expiry is changed.
        """
        ctx = self.ctx
        kinds = (A, AAAA) if prefer == "ipv4" else (AAAA, A)
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
        asked = _Question(name, kind, task)
        number = secrets.randbits(16)
        while number in self._questions:
            number = secrets.randbits(16)
        try:
            wire = self._wire(name, kind, number)
        except ValueError:
            return []  # no name that could be asked for
        self._questions[number] = asked
        try:
            until = ctx.now + settings.timeout_retry
            self._send(wire)
            task.set_expire(until)
            while not asked.answered and ctx.now < until:
                if 0 < len(self._channels) <= asked.failures:
                    break
                await park()
        finally:
            del self._questions[number]
        if not asked.answered:
            return None
        # manual 5.3.2: of all periods `hold valid` alone is meant for look-ups of streams
        hold = settings.hold_valid
        if asked.addresses and hold:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            self._kept[name, kind] = (ctx.now + hold, asked.addresses)
        return asked.addresses

    def _wire(self, name: str, kind: int, number: int) -> bytes:
        """The question as it is sent. Raises ValueError for what is no name."""
        return number.to_bytes(2) + question(name, kind, self.settings.payload_size)[2:]

    def _send(self, wire: bytes) -> None:
        """Ask every name server; one that cannot be reached is as good as one that is silent."""
        if not self._channels:
            counters = None if self._shared is None else self._shared.counters
            for position, nameserver in enumerate(self.settings.nameservers):
                channel = open_channel(self.ctx, nameserver, self._received)
                self._channels.append(channel)
                if counters is not None:
                    counters[position].append(channel.counters)
        for channel in self._channels:
            channel.send(wire)

    def _received(self, channel: Channel, data: bytes) -> None:
        """Something came from a name server."""
        counters = channel.counters
        if len(data) > self.settings.payload_size:
            counters.too_big += 1
            return
        asked = self._questions.get(int.from_bytes(data[:2]))
        if asked is None or asked.answered:
            counters.outdated += 1
            return
        answer = read(data, asked.name, asked.type, self.settings.payload_size)
        outcome = answer.outcome
        setattr(counters, outcome.value, getattr(counters, outcome.value) + 1)
        if outcome is Outcome.INVALID:
            return  # of nobody whom we have asked
        if outcome in _UNKNOWN:
            # this one cannot tell: another may, or it after a while
            asked.failures += 1
        else:
            found = [one for one in answer.records if one.kind == asked.type]
            asked.addresses = [one.host for one in sorted(found, key=lambda one: one.order)]
            asked.answered = True
        asked.task.wake()

    def close(self) -> None:
        """Close the sockets."""
        for channel in self._channels:
            channel.close()
        self._channels.clear()
