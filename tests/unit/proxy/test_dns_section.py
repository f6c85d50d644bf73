"""A resolvers section against any sequence of answers, silence and time: its invariants, and what
requesters are told.
"""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import dns.message
import dns.rcode
import dns.rrset
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mtproxy.base.addresses import Address, AddressKind
from mtproxy.base.server_settings import NameServer, ResolversSettings
from mtproxy.proxy.dns import section as module
from mtproxy.proxy.dns.channel import Counters
from mtproxy.proxy.dns.records import Status
from mtproxy.proxy.dns.section import Section, SectionShared
from mtproxy.proxy.dns.wire import AAAA, A
from mtproxy.sched.timers import Timers


class FakeChannel:
    """Keeps what it is asked."""

    def __init__(self, nameserver: NameServer) -> None:
        self.nameserver = nameserver
        self.counters = Counters()
        self.asked: list[bytes] = []
        self.reachable = True

    def send(self, wire: bytes) -> bool:
        if self.reachable:
            self.asked.append(wire)
        return self.reachable

    def close(self) -> None:
        pass


class Wisher:
    """A requester that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def succeeded(self, _ctx: Any, _counters: Counters | None, updater: str) -> None:
        self.told.append(updater)

    def failed(self, _ctx: Any) -> bool:
        self.told.append("failed")
        return False


def make(monkeypatch: pytest.MonkeyPatch | None = None, **settings: Any) -> tuple[Any, Any, Any]:
    """A section, its channels, its context."""
    servers = tuple(
        NameServer(name, Address(AddressKind.IPV4, "127.0.0.1", 53)) for name in ("one", "two")
    )
    ctx: Any = SimpleNamespace(now=1000, normal=deque(), timers=Timers(), stopping=False)
    channels: list[FakeChannel] = []

    def open_channel(_ctx: Any, nameserver: NameServer, _received: Any) -> FakeChannel:
        channels.append(FakeChannel(nameserver))
        return channels[-1]

    original = module.open_channel
    module.open_channel = open_channel  # type: ignore[assignment]
    try:
        shared = SectionShared(ResolversSettings("dns", servers, **settings), 0)
        return Section(shared, ctx), channels, ctx
    finally:
        module.open_channel = original


def run(ctx: Any) -> None:
    """What the loop does: due timers, then the tasklets that are queued."""
    ctx.timers.expire_due(ctx.now)
    for _ in range(len(ctx.normal)):
        tasklet = ctx.normal.popleft()
        tasklet.queued = False
        tasklet.step(None)


def answer(wire: bytes, *addresses: str, rcode: int = 0, ttl: int = 5) -> bytes:
    query = dns.message.from_wire(wire)
    reply = dns.message.make_response(query)
    asked = query.question[0]
    for address in addresses:
        kind = "AAAA" if ":" in address else "A"
        reply.answer.append(dns.rrset.from_text(asked.name, ttl, "IN", kind, address))
    reply.set_rcode(dns.rcode.Rcode(rcode))
    return reply.to_wire()


def test_the_other_family_is_asked_when_all_have_answered() -> None:
    section, (one, two), ctx = make()
    wisher = Wisher()
    resolution = section.link(wisher, "a.test", AAAA)
    run(ctx)
    section._received(one, answer(one.asked[-1], rcode=3))
    assert resolution.kind == AAAA
    section._received(two, answer(two.asked[-1], rcode=3))
    assert resolution.kind == A
    section._received(two, answer(two.asked[-1], "192.0.2.1"))
    assert wisher.told == ["dns/two"]
    section._received(one, answer(one.asked[-1], "192.0.2.2"))
    assert one.counters.outdated == 1
    section._check()


def test_silence_ends_after_the_retries() -> None:
    section, (one, _two), ctx = make(retries=3, timeout_retry=100)
    wisher = Wisher()
    resolution = section.link(wisher, "a.test", A)
    for _ in range(40):
        run(ctx)
        section._check()
        ctx.now += 10
        if wisher.told:
            break
    assert wisher.told == ["failed"]
    assert resolution.status is Status.TIMEOUT
    assert len(one.asked) == 3


def test_the_same_answer_is_not_told_twice() -> None:
    section, (one, _two), ctx = make(timeout_resolve=100)
    wisher = Wisher()
    section.link(wisher, "a.test", A)
    for ttl in (9, 8, 7):
        run(ctx)
        section._received(one, answer(one.asked[-1], "192.0.2.1", ttl=ttl))
        ctx.now += 101
    assert wisher.told == ["dns/one"]
    assert one.counters.valid == 3
    run(ctx)
    section._received(one, answer(one.asked[-1], "192.0.2.2"))
    assert wisher.told == ["dns/one", "dns/one"]


def test_a_burst_of_names_is_spread_over_turns() -> None:
    section, (one, _two), ctx = make()
    for number in range(200):
        section.link(Wisher(), f"n{number}.test", A)
    run(ctx)
    assert len(one.asked) == module._AT_ONCE
    for _ in range(4):
        run(ctx)
    assert len(one.asked) == 200
    section._check()


def test_nothing_is_asked_while_the_proxy_stops() -> None:
    section, (one, _two), ctx = make()
    section.link(Wisher(), "a.test", A)
    ctx.stopping = True
    run(ctx)
    assert not one.asked


NAMES = st.sampled_from(["a.test", "b.test", "c.test"])


class Machine(RuleBasedStateMachine):
    """Requesters come and go, answers come in any order, time passes."""

    @initialize()
    def begin(self) -> None:
        self.section, self.channels, self.ctx = make(
            retries=2, timeout_retry=50, timeout_resolve=50, hold_obsolete=20
        )
        self.linked: list[tuple[Wisher, Any]] = []

    @rule(name=NAMES, kind=st.sampled_from([A, AAAA]))
    def link(self, name: str, kind: int) -> None:
        wisher = Wisher()
        self.linked.append((wisher, self.section.link(wisher, name, kind)))

    @precondition(lambda self: self.linked)
    @rule(data=st.data())
    def unlink(self, data: st.DataObject) -> None:
        wisher, resolution = self.linked.pop(data.draw(st.integers(0, len(self.linked) - 1)))
        self.section.unlink(wisher, resolution)
        before = len(wisher.told)
        self.section._check()
        assert len(wisher.told) == before

    @rule(ms=st.integers(0, 120))
    def pass_time(self, ms: int) -> None:
        self.ctx.now += ms
        run(self.ctx)

    @rule(
        number=st.integers(0, 1),
        back=st.integers(0, 3),
        hosts=st.lists(st.sampled_from(["192.0.2.1", "192.0.2.2", "2001:db8::1"]), unique=True),
        rcode=st.sampled_from([0, 0, 0, 2, 3, 5]),
        damage=st.integers(0, 200),
    )
    def answer(self, number: int, back: int, hosts: list[str], rcode: int, damage: int) -> None:
        channel = self.channels[number]
        if len(channel.asked) <= back:
            return
        wire = answer(channel.asked[-1 - back], *hosts, rcode=rcode)
        if 2 <= damage < len(wire):
            wire = wire[:damage] + bytes([wire[damage] ^ 0x55]) + wire[damage + 1 :]
        self.section._received(channel, wire)

    @rule(number=st.integers(0, 1), reachable=st.booleans())
    def reach(self, number: int, reachable: bool) -> None:
        self.channels[number].reachable = reachable

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "section"):
            self.section._check()


TestAnySequence = Machine.TestCase
