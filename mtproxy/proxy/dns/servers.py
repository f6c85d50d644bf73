"""Servers that follow a name: Follower, one per server, and Targets, the slots of a SRV name.

A Follower takes an address of its name, keeps it as long as answers have it, and puts its server
into maintenance when the name has had none for longer than the section holds. The servers of a
backend that are named by one SRV name (`_http._tcp.example`) are slots: each target of an answer
takes one, gives it port, weight and name, and the address that came with it or else is looked up.

Everything here runs on the thread of the servers' section; `proxy.dns.apply` changes the servers.
The messages are HAProxy's, verified against 2.6.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from functools import partial
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

from mtproxy.base.addresses import Address, AddressKind
from mtproxy.proxy.backend import NOTICE
from mtproxy.proxy.dns import apply
from mtproxy.proxy.dns.records import Record, Resolution, Status
from mtproxy.proxy.dns.wire import AAAA, SRV, A, valid_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mtproxy.proxy.backend import BackendShared
    from mtproxy.proxy.dns.channel import Counters
    from mtproxy.proxy.dns.section import Section
    from mtproxy.proxy.server import ServerState
    from mtproxy.sched.context import ThreadContext

#: writes a message (severity, text) to the logs of the backend of that name, and nowhere else
type Log = Callable[[ThreadContext, int, str, str], None]

_KINDS = {A: AddressKind.IPV4, AAAA: AddressKind.IPV6}
_NO_ADDRESS = Address(AddressKind.NONE)

#: why a server whose name has no address goes into maintenance
_CAUSES = {
    Status.NX: "DNS NX status",
    Status.TIMEOUT: "DNS timeout status",
    Status.REFUSED: "DNS refused status",
}


class Follower:
    """A server that follows a name. A `records.Requester`."""

    __slots__ = ("log", "nets", "record", "resolution", "resting", "section", "server", "targets")

    def __init__(self, server: ServerState, section: Section, log: Log) -> None:
        self.server = server
        self.section = section
        #: writes to the backend's logs alone
        self.log = log
        resolve = server.settings.resolve
        assert resolve is not None
        self.nets = [ip_network(text, strict=False) for text in resolve.nets]
        self.resolution: Resolution | None = None
        #: the record whose address the server has taken
        self.record: Record | None = None
        #: the slots that it is one of
        self.targets: Targets | None = None
        #: its address is known without looking it up, or it stands for no target
        self.resting = False

    def follow(self, name: str) -> None:
        """Look up `name` from now on, instead of what was looked up before."""
        self.leave()
        resolve = self.server.settings.resolve
        assert resolve is not None
        kind = A if resolve.prefer == "ipv4" else AAAA
        try:
            self.resolution = self.section.link(self, name, kind)
        except ValueError:
            self.resolution = None  # nothing that could be asked for

    def leave(self) -> None:
        """Look up nothing any more."""
        resolution = self.resolution
        self.resolution = None
        self.let_go()
        if resolution is not None:
            self.section.unlink(self, resolution)

    def let_go(self) -> None:
        """Give the address back: another one may be taken."""
        if self.record is not None:
            self.record.users.pop(self, None)
            self.record = None

    # --- what a look-up comes to

    def succeeded(self, ctx: ThreadContext, counters: Counters | None, updater: str) -> None:
        resolution = self.resolution
        if resolution is None or (self.targets is not None and self.resting):
            return
        if self.record is not None and self.record.key not in resolution.by_key:
            self.let_go()
        found = True
        if self.record is None:
            record = self._choose(resolution)
            if record is None:
                found = False
            else:
                self.record = record
                record.users[self] = None
                if apply.set_address(self.server, ctx, self._address(record), updater) and counters:
                    counters.update += 1
        changed = self._update_status(ctx, has_address=found)
        if changed and not found:
            apply.forget_address(self.server, ctx)

    def failed(self, ctx: ThreadContext) -> bool:
        if self._update_status(ctx, has_address=False):
            apply.forget_address(self.server, ctx)
            self.let_go()
            return False
        return True

    def _address(self, record: Record) -> Address:
        return _with_host(self.server.address, record.found.kind, record.found.host)

    def _choose(self, resolution: Resolution) -> Record | None:
        """The record that suits best: the preferred family, the preferred networks, an address that
        no other server of the backend has taken from this name, the one that the server has.
        """
        resolve = self.server.settings.resolve
        assert resolve is not None
        preferred = A if resolve.prefer == "ipv4" else AAAA
        backend = self.server.backend
        current = self.server.address.host
        best: dict[int, tuple[int, Record]] = {}
        top = -1
        for record in resolution.records:
            kind, host = record.found.kind, record.found.host
            if kind not in _KINDS:
                continue
            score = 8 if kind == preferred else 0
            if self.nets and any(ip_address(host) in net for net in self.nets):
                score += 4
            used = any(
                isinstance(user, Follower) and user is not self and user.server.backend is backend
                for user in record.users
            )
            if used and not resolve.allow_dup_ip:
                continue
            score += (0 if used else 2) + (host == current)
            if score > top:
                top = score
                best[kind] = score, record
                if score == 15:
                    break
        if preferred in best:
            return best[preferred][1]
        for _, record in best.values():
            return record
        return None

    def _update_status(self, ctx: ThreadContext, *, has_address: bool) -> bool:
        """Enter or leave maintenance as the state of the look-up asks for. Whether it did."""
        server, resolution = self.server, self.resolution
        if resolution is None:
            return self._update_slot(ctx, has_address=has_address)
        settings = self.section.settings
        status = resolution.status
        if status is Status.NONE:
            return False
        if status is Status.VALID:
            if not has_address:
                return apply.enter_maint(server, ctx, "No IP for server ")
            if not apply.leave_maint(server, ctx):
                return False
            server.backend.notify(
                ctx,
                NOTICE,
                f"Server {server.full_name} administratively READY thanks to valid DNS answer.",
            )
            return True
        holds = {
            Status.NX: settings.hold_nx,
            Status.TIMEOUT: settings.hold_timeout,
            Status.REFUSED: settings.hold_refused,
        }
        if ctx.now < resolution.last_valid + holds.get(status, settings.hold_other):
            return False
        return apply.enter_maint(server, ctx, _CAUSES.get(status, "unspecified DNS error"))

    def _update_slot(self, ctx: ThreadContext, *, has_address: bool) -> bool:
        """The same for a slot, whose address came with its target. Whether it entered."""
        if self.targets is None:
            return False
        if has_address:
            apply.leave_maint(self.server, ctx)
            return False
        return apply.enter_maint(self.server, ctx, "entry removed from SRV record")

    # --- slots of a SRV name

    def stand_for(self, record: Record, ctx: ThreadContext) -> None:
        """Serve this target of the SRV name."""
        server, found = self.server, record.found
        self.resting = False
        apply.set_port(server, ctx, found.port)
        if record.extra is not None:
            kind, host = record.extra
            address = _with_host(server.address, kind, host)
            apply.set_address(server, ctx, address, "DNS additional record")
            self.resting = True
            self.leave()
        if server.hostname is None:
            text = apply.set_name(server, ctx, found.host, "SRV record")
            self.log(ctx, NOTICE, text, server.backend.name)
        record.users[self] = None
        if not self.resting and self.resolution is None:
            self.follow(found.host)
        self._update_slot(ctx, has_address=server.address.kind is not AddressKind.NONE)
        resolve = server.settings.resolve
        assert resolve is not None
        if not resolve.ignore_weight:
            apply.set_weight(server, ctx, (found.weight + 255) // 256)

    def stand_back(self, ctx: ThreadContext) -> None:
        """The target is gone: wait for another one."""
        self.leave()
        self._update_slot(ctx, has_address=False)
        apply.forget_address(self.server, ctx)
        apply.forget_name(self.server, ctx)
        self.resting = True


def _with_host(old: Address, kind: int, host: str) -> Address:
    return replace(old, kind=_KINDS[kind], host=host)


class Targets:
    """The slots of one SRV name in one backend. A `records.Requester`."""

    __slots__ = ("backend", "free", "name", "resolution", "restored", "section")

    def __init__(self, backend: BackendShared, name: str, section: Section) -> None:
        self.backend = backend
        self.name = name
        self.section = section
        #: slots that stand for no target, the next one in front
        self.free: deque[Follower] = deque()
        #: some of these have a target of before a restart, which answers have to confirm
        self.restored = False
        self.resolution: Resolution | None = None

    def follow(self) -> None:
        """Begin to look up the name."""
        try:
            self.resolution = self.section.link(self, self.name, SRV)
        except ValueError:
            self.resolution = None

    def succeeded(self, ctx: ThreadContext, counters: Counters | None, updater: str) -> None:
        """`take_targets` has done it."""

    def failed(self, ctx: ThreadContext) -> bool:
        resolution = self.resolution
        assert resolution is not None
        settings = self.section.settings
        holds = {
            Status.NX: settings.hold_nx,
            Status.TIMEOUT: settings.hold_timeout,
            Status.REFUSED: settings.hold_refused,
        }
        if ctx.now < resolution.last_valid + holds.get(resolution.status, settings.hold_other):
            return True
        for record in resolution.records:
            for follower in list(record.users):
                if isinstance(follower, Follower) and follower.targets is self:
                    self.let_go(follower, record, ctx)
        return False

    def let_go(self, follower: Follower, record: Record, ctx: ThreadContext) -> None:
        """A slot does not stand for its target any more; it is the last of the free ones."""
        del record.users[follower]
        follower.stand_back(ctx)
        self.free.append(follower)

    def assign(self, record: Record, ctx: ThreadContext) -> None:
        """Have a slot stand for a target: the one that does already, or the next free one."""
        for user in record.users:
            if isinstance(user, Follower) and user.targets is self:
                user.stand_for(record, ctx)
                return
        if self.restored:
            self._choose_again(record, ctx)
        elif self.free:
            self.free.popleft().stand_for(record, ctx)

    def _choose_again(self, record: Record, ctx: ThreadContext) -> None:
        """The slot that stood for the target before the restart; else one that has none."""
        found = record.found
        chosen = None
        for slot in self.free:
            server = slot.server
            if server.hostname == found.host and server.address.port == found.port:
                chosen = slot
                break
            if server.hostname is None and chosen is None:
                chosen = slot
        if chosen is not None:
            self.free.remove(chosen)
            chosen.stand_for(record, ctx)

    def end_restoring(self, ctx: ThreadContext) -> None:
        """Targets of before the restart that the first answer does not have are gone."""
        self.restored = False
        for slot in self.free:
            if slot.server.hostname is not None:
                slot.stand_back(ctx)


def take_targets(section: Section, resolution: Resolution, gone: list[Record]) -> None:
    """`Section.take_targets`: records have gone, and those of a SRV name want slots."""
    ctx = section.ctx
    lost = set(gone)
    for record in sorted((*gone, *resolution.records), key=lambda one: one.found.order):
        if record in lost:
            for user in list(record.users):
                if not isinstance(user, Follower):
                    continue
                if record.found.kind == SRV:
                    assert user.targets is not None
                    user.targets.let_go(user, record, ctx)
                elif user.record is record:
                    user.let_go()
        elif record.found.kind == SRV:
            for requester in list(resolution.requesters):
                if isinstance(requester, Targets):
                    requester.assign(record, ctx)

    for requester in list(resolution.requesters):
        if isinstance(requester, Targets) and requester.restored:
            requester.end_restoring(ctx)


def restore_target(
    server: ServerState, ctx: ThreadContext, name: str, host: str, port: int
) -> None:
    """A slot of a SRV name stands for the target that a state file tells, until there is an answer.
    Before the threads serve.
    """
    follower = server.follower
    if follower is None or follower.targets is None:
        return
    kind = AAAA if ":" in host else A
    server.hostname = name
    server.address = replace(_with_host(server.address, kind, host), port=port)
    server.epoch += 1
    apply.tell_threads(server, ctx)
    follower.targets.restored = True
    apply.leave_maint(server, ctx)


def start_following(
    backends: Iterable[BackendShared], sections: dict[str, Section], log: Log
) -> None:
    """Have the servers of `backends` that name one of `sections` follow their names.

    Once, on the thread that owns the sections, while it sets up.
    """
    for backend in backends:
        slots: dict[str, Targets] = {}
        for server in backend.servers:
            resolve = server.settings.resolve
            section = sections.get(resolve.resolvers) if resolve is not None else None
            if resolve is None or section is None:
                continue
            section.take_targets = take_targets
            server.follower = follower = Follower(server, section, log)
            if resolve.srv_name is None:
                if server.hostname is not None:
                    follower.follow(server.hostname)
                continue
            targets = slots.get(resolve.srv_name)
            if targets is None:
                slots[resolve.srv_name] = targets = Targets(backend, resolve.srv_name, section)
                targets.follow()
            follower.targets = targets
            targets.free.append(follower)


def change_name(server: ServerState, ctx: ThreadContext, name: str) -> str:
    """`set server b/s fqdn NAME`: what the runtime socket answers. Any thread."""
    follower = server.follower
    if follower is None:
        return "set server <b>/<s> fqdn failed because no resolution is configured."
    if follower.targets is not None:
        return "set server <b>/<s> fqdn failed because SRV resolution is configured."
    updater = "stats socket command"
    if name == server.hostname:
        return f"no need to change the FDQN by '{updater}'"
    if len(name) > 255 or not _is_domain(name) or not valid_name(name):
        return f"invalid fqdn '{name}' by '{updater}'"
    text = apply.set_name(server, ctx, name, updater)
    shared = follower.section.shared
    ctx.pool.run_on(shared.tid, partial(_follow_anew, follower))
    return text


def _follow_anew(follower: Follower, _ctx: ThreadContext) -> None:
    name = follower.server.hostname
    if name is not None:
        follower.follow(name)


def _is_domain(name: str) -> bool:
    """HAProxy's characters of names of hosts."""
    return bool(name) and all(c.isascii() and (c.isalnum() or c in "-_.") for c in name)
