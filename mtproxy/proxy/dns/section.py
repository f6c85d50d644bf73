"""One `resolvers` section at work for servers' names (manual 5.3.2), as HAProxy does it.

Every name that a server needs is looked up once per `timeout resolve`: all name servers are asked
at once, the first valid answer counts. While none is valid: when all have answered, the other
address family is asked for at once; after `timeout retry` the question is put again, at most
`resolve_retries` times in all, then the look-up has failed, and how long servers keep what they
have is said by `hold`. A cut answer is a failed one, as there.

A section lives on one thread, which alone touches it; the others post to it.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import TYPE_CHECKING

from mtproxy.proxy.dns.channel import Channel, Counters, open_channel
from mtproxy.proxy.dns.records import Record, Requester, Resolution, Status
from mtproxy.proxy.dns.wire import AAAA, SRV, A, Outcome, fingerprint, question, read
from mtproxy.sched.tasklet import Task

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtproxy.base.server_settings import ResolversSettings
    from mtproxy.sched.context import ThreadContext

#: questions that are sent in one turn: answers must not come faster than they can be read
_AT_ONCE = 64
_OTHER_FAMILY = {A: AAAA, AAAA: A}
_STATUS = {
    Outcome.VALID: Status.VALID,
    Outcome.INVALID: Status.INVALID,
    Outcome.NX: Status.NX,
    Outcome.REFUSED: Status.REFUSED,
}


class SectionShared:
    """What every thread may know of a section: its settings, its thread, counters to add up."""

    __slots__ = ("counters", "settings", "tid")

    def __init__(self, settings: ResolversSettings, tid: int) -> None:
        self.settings = settings
        #: the thread that looks up servers' names
        self.tid = tid
        #: by position of the name server: those of each thread, appended while they set up
        self.counters: list[list[Counters]] = [[] for _ in settings.nameservers]

    def totals(self, position: int) -> dict[str, int]:
        """What all threads have counted of a name server. Any thread."""
        sides = self.counters[position]
        return {name: sum(getattr(one, name) for one in sides) for name in Counters.NAMES}


class Section:
    """See the module. Owner thread only."""

    __slots__ = (
        "_by_name",
        "_channels",
        "_fresh",
        "_numbers",
        "_running",
        "_task",
        "_waiting",
        "ctx",
        "settings",
        "shared",
        "take_targets",
    )

    def __init__(self, shared: SectionShared, ctx: ThreadContext) -> None:
        self.shared = shared
        self.settings = settings = shared.settings
        self.ctx = ctx
        #: has servers follow the records of an answer; see `servers`
        self.take_targets: Callable[[Section, Resolution, list[Record]], None] | None = None
        self._channels: list[Channel] = []
        for nameserver, counters in zip(settings.nameservers, shared.counters, strict=True):
            channel = open_channel(ctx, nameserver, self._received)
            counters.append(channel.counters)
            self._channels.append(channel)
        self._by_name: dict[tuple[str, int], Resolution] = {}
        #: by the number of the question
        self._numbers: dict[int, Resolution] = {}
        #: those that wait for answers, the one that was asked first in front
        self._running: OrderedDict[Resolution, None] = OrderedDict()
        #: those that were never looked up
        self._fresh: OrderedDict[Resolution, None] = OrderedDict()
        #: the others, the one that is due first in front
        self._waiting: OrderedDict[Resolution, None] = OrderedDict()
        self._task = Task(ctx, lambda _value: self._step(), "resolvers")

    # --- who wants to know what

    def link(self, requester: Requester, name: str, kind: int) -> Resolution:
        """Have `requester` know `name`. `kind` is what is asked for: A or AAAA (first), or SRV.
        Raises ValueError for what is no name.
        """
        key = name.lower().removesuffix("."), kind
        resolution = self._by_name.get(key)
        if resolution is None:
            resolution = Resolution(key[0], kind, self.ctx.now)
            for one in (kind, _OTHER_FAMILY.get(kind, kind)):
                resolution.wires[one] = question(key[0], one, self.settings.payload_size)
            self._by_name[key] = resolution
            self._fresh[resolution] = None
            self._task.wake()
        resolution.requesters[requester] = None
        resolution.settled = False
        return resolution

    def unlink(self, requester: Requester, resolution: Resolution) -> None:
        """`requester` is not interested any more. A name without requesters is dropped."""
        resolution.requesters.pop(requester, None)
        resolution.settled = False  # another may want the address that it had
        if not resolution.requesters:
            del self._by_name[resolution.name, resolution.preferred]
            self._fresh.pop(resolution, None)
            self._waiting.pop(resolution, None)
            self._running.pop(resolution, None)
            self._numbers.pop(resolution.number, None)
            resolution.number = -1
            resolution.running = False

    # --- asking

    def _step(self) -> None:
        """Ask again, give up, begin what is due."""
        now = self.ctx.now
        settings = self.settings
        retry = max(settings.timeout_retry, 1)
        while self._running:
            resolution = next(iter(self._running))
            if resolution.last_query + retry > now:
                break
            if resolution.tries <= 0:
                if not resolution.answered:
                    resolution.status = Status.TIMEOUT
                self._failed(resolution)
                continue
            other = _OTHER_FAMILY.get(resolution.preferred)
            if not resolution.answered or resolution.kind != resolution.preferred or other is None:
                resolution.kind = resolution.preferred
                resolution.tries -= 1
            else:
                resolution.kind = other
            self._ask(resolution)
        self._begin(now)
        self._arm()

    def _begin(self, now: int) -> None:
        if self.ctx.stopping:
            return  # nobody gets a new server connection for it
        left = _AT_ONCE
        pause = max(self.settings.timeout_resolve, 1)
        while queue := self._fresh or self._waiting:
            resolution = next(iter(queue))
            if queue is self._waiting and resolution.last_resolution + pause > now:
                return
            if not left:
                self._task.wake()
                return
            left -= 1
            number = secrets.randbits(16)
            while number in self._numbers:
                number = secrets.randbits(16)
            del queue[resolution]
            self._numbers[number] = resolution
            resolution.number = number
            resolution.running = True
            resolution.kind = resolution.preferred
            resolution.tries = self.settings.retries - 1
            self._ask(resolution)

    def _ask(self, resolution: Resolution) -> None:
        resolution.answered = resolution.asked = 0
        resolution.last_query = self.ctx.now
        wire = resolution.number.to_bytes(2) + resolution.wires[resolution.kind][2:]
        self._running[resolution] = None
        self._running.move_to_end(resolution)
        for channel in self._channels:
            resolution.asked += channel.send(wire)

    def _arm(self) -> None:
        """Set the time of the next step."""
        ticks = []
        if self._running:
            first = next(iter(self._running))
            ticks.append(first.last_query + max(self.settings.timeout_retry, 1))
        if self._fresh:
            ticks.append(self.ctx.now)
        if self._waiting:
            last = next(iter(self._waiting)).last_resolution
            ticks.append(last + max(self.settings.timeout_resolve, 1))
        if ticks and not self.ctx.stopping:
            self._task.set_expire(max(min(ticks), self.ctx.now + 1))

    # --- answers

    def _received(self, channel: Channel, data: bytes) -> None:
        counters = channel.counters
        if len(data) > self.settings.payload_size:
            counters.too_big += 1
            return
        if len(data) < 2:
            counters.invalid += 1
            return
        resolution = self._numbers.get(int.from_bytes(data[:2]))
        if resolution is None:
            counters.outdated += 1
            return
        resolution.answered += 1
        mark = fingerprint(data)
        now = self.ctx.now
        if mark is not None and mark == resolution.seen:
            resolution.seen_again(now)
            outcome = Outcome.VALID
        else:
            answer = read(data, resolution.name, resolution.kind, self.settings.payload_size)
            outcome = answer.outcome
            if outcome is Outcome.VALID:
                resolution.enter(answer, now)
                resolution.seen = mark
        resolution.status = _STATUS.get(outcome, Status.OTHER)
        setattr(counters, outcome.value, getattr(counters, outcome.value) + 1)
        if outcome is Outcome.VALID:
            self._succeeded(resolution, channel)
        elif resolution.answered >= resolution.asked:
            self._all_failed(resolution)
        self._arm()

    def _all_failed(self, resolution: Resolution) -> None:
        """Every name server has answered, none of them well."""
        if resolution.kind != resolution.preferred:
            if resolution.tries <= 0:
                self._failed(resolution)
            return
        other = _OTHER_FAMILY.get(resolution.preferred)
        if other is not None:
            resolution.kind = other
            self._ask(resolution)

    def _succeeded(self, resolution: Resolution, channel: Channel) -> None:
        now = self.ctx.now
        gone = resolution.take_obsolete(now, self.settings.hold_obsolete)
        resolution.last_valid = now
        if self.take_targets is not None and (gone or resolution.preferred == SRV):
            self.take_targets(self, resolution, gone)
        if not resolution.settled:
            counters: Counters | None = channel.counters
            updater = f"{self.settings.name}/{channel.nameserver.name}"
            for requester in list(resolution.requesters):
                requester.succeeded(self.ctx, counters, updater)
                counters, updater = None, "DNS cache"
            resolution.settled = True
        self._ended(resolution)

    def _failed(self, resolution: Resolution) -> None:
        keep = False
        for requester in list(resolution.requesters):
            keep |= requester.failed(self.ctx)
        if not keep:
            resolution.forget()
        resolution.settled = False
        self._ended(resolution)

    def _ended(self, resolution: Resolution) -> None:
        """The look-up is over; the next one waits for its time."""
        self._numbers.pop(resolution.number, None)
        self._running.pop(resolution, None)
        resolution.number = -1
        resolution.running = False
        resolution.last_resolution = self.ctx.now
        if resolution.requesters:
            self._waiting[resolution] = None
            self._waiting.move_to_end(resolution)

    def close(self) -> None:
        """Close the sockets."""
        for channel in self._channels:
            channel.close()

    def _check(self) -> None:
        """Raise AssertionError where an invariant does not hold (tests)."""
        everybody = set(self._by_name.values())
        queues = (self._fresh, self._running, self._waiting)
        assert set().union(*queues) == everybody
        assert sum(map(len, queues)) == len(everybody)
        assert set(self._numbers.values()) == set(self._running)
        for number, resolution in self._numbers.items():
            assert resolution.number == number
        for (name, kind), resolution in self._by_name.items():
            assert (resolution.name, resolution.preferred) == (name, kind)
            assert resolution.requesters
            assert resolution.running == (resolution in self._running)
            resolution._check()
        asked = [one.last_query for one in self._running]
        assert asked == sorted(asked)
