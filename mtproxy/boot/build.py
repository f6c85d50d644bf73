"""From settings to runtime objects: what all threads share, and what each builds for itself."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from mtproxy.base.addresses import AddressKind, BindSettings
from mtproxy.base.settings import ProxySettings, Settings
from mtproxy.boot.report import tell
from mtproxy.http.cache import MAX_HEADERS, HeadCache
from mtproxy.log import syslog
from mtproxy.log.forward import start_forwarders
from mtproxy.log.logger import DEFAULT_LENGTH, Logger, ThreadLogs, make_logger, sampling_of
from mtproxy.log.ring import BUF0, Ring
from mtproxy.log.sampling import DEFAULT_STRATEGY, Sampling
from mtproxy.net.listener import Acceptor
from mtproxy.proxy.backend import Backend, BackendShared
from mtproxy.proxy.balance.keys import KEYED, hash_function
from mtproxy.proxy.checks.script import PLAIN, Script
from mtproxy.proxy.counters import FrontendCounters
from mtproxy.proxy.dns.section import Section, SectionShared
from mtproxy.proxy.dns.servers import start_following
from mtproxy.proxy.frontend import Frontend
from mtproxy.proxy.quota import Quota, Rate
from mtproxy.proxy.resolver import Resolver
from mtproxy.proxy.server import ServerState
from mtproxy.proxy.sticking import Sticking
from mtproxy.proxy.sticktable import make_tables
from mtproxy.proxy.tracking import link_tracks
from mtproxy.rules.build import Build, RuleShared
from mtproxy.rules.logformat.code import DEFAULT_URI_LENGTH
from mtproxy.rules.nowhere import set_variables
from mtproxy.rules.reply import build_errors
from mtproxy.sched.context import ThreadContext
from mtproxy.sched.fdtable import FdTable
from mtproxy.stats.runtime import Runtime
from mtproxy.stats.service import StatsService
from mtproxy.stream.admission import rules_at_accept
from mtproxy.stream.conf import BackConf, FrontConf
from mtproxy.stream.connect import prepare
from mtproxy.stream.ending import end_those_on
from mtproxy.stream.listening import FrontListeners
from mtproxy.stream.persistence import Persistence, RdpPersistence
from mtproxy.stream.proxied import rules_expect_header
from mtproxy.stream.room import FrontGate, FrontRoom, ListenerRoom, Room
from mtproxy.stream.rules import SideRules
from mtproxy.stream.session import SessionStarter

DEFAULT_MAXACCEPT = 16
DEFAULT_BACKLOG = 4096
#: a frontend's limit that is none: the one of the process is lower
NO_LIMIT = 1 << 40


@dataclass(slots=True)
class BoundListener:
    """A listening socket and the frontend it belongs to."""

    proxy: ProxySettings
    bind: BindSettings
    sock: socket.socket
    #: what `listen` was asked for
    backlog: int = DEFAULT_BACKLOG
    #: numbers of the threads that accept and serve its connections; None: all
    threads: tuple[int, ...] | None = None


@dataclass(slots=True)
class Shared:
    """What all threads share. Made before they start; the lists are filled while they set up."""

    settings: Settings
    maxconn: int
    listeners: list[BoundListener]
    backends: dict[str, BackendShared] = field(default_factory=dict)
    front_counters: dict[str, list[FrontendCounters]] = field(default_factory=dict)
    #: by position in `listeners`; only of those that are counted one by one
    listener_counters: dict[int, list[FrontendCounters]] = field(default_factory=dict)
    #: the same of the others, for rules that ask
    rule_counters: dict[int, list[FrontendCounters]] = field(default_factory=dict)
    #: by name and kind of the proxy; None where no log line is sampled
    samplings: dict[tuple[str, str], Sampling | None] = field(default_factory=dict)
    rings: dict[str, Ring] = field(default_factory=dict)
    resolvers: dict[str, SectionShared] = field(default_factory=dict)
    #: by position in `listeners`: the limits of the process, the frontend and the listener
    quotas: list[tuple[Quota, ...]] = field(default_factory=list)
    #: the first of those
    process_quota: Quota = field(init=False)
    #: connections and sessions of the process per second
    connection_rate: Rate = field(default_factory=Rate)
    session_rate: Rate = field(default_factory=Rate)
    #: sessions per second, by frontend
    front_rates: dict[str, Rate] = field(default_factory=dict)
    #: by name
    front_listeners: dict[str, FrontListeners] = field(default_factory=dict)
    pid: int = field(default_factory=os.getpid)
    #: by frontend: numbers its log lines (%lc); next() of a count is atomic
    log_numbers: dict[str, Callable[[], int]] = field(default_factory=dict)
    rules: RuleShared = field(init=False)
    #: what reports see of the process; there before the threads set up
    runtime: Runtime | None = None


def make_shared(
    settings: Settings, maxconn: int, listeners: list[BoundListener], now: int, nbthread: int = 1
) -> Shared:
    """What exists once for all threads. Main thread, before they start."""
    shared = Shared(settings, maxconn, listeners)
    shared.rules = RuleShared(settings)
    shared.rules.tables.update(make_tables(settings))
    set_variables(shared.rules)
    for ring in (BUF0, *settings.rings):
        shared.rings[ring.name] = Ring(ring)
    for number, resolvers in enumerate(settings.resolvers.values()):
        shared.resolvers[resolvers.name] = SectionShared(resolvers, number % nbthread)
    strategy = str(settings.global_.tune.get("tune.log-sampling", DEFAULT_STRATEGY))
    for proxy in settings.proxies:
        if proxy.disabled:
            continue
        shared.samplings[proxy.name, proxy.kind] = sampling_of(proxy.logs, strategy)
        if proxy.is_backend:
            shared.backends[proxy.name] = BackendShared(
                proxy,
                now,
                partial(announce, proxy.name),
                default_fullconn(settings, proxy, maxconn),
            )
            shared.backends[proxy.name].end_sessions = end_sessions
        if proxy.is_frontend:
            shared.front_counters[proxy.name] = []
            shared.log_numbers[proxy.name] = itertools.count().__next__
    link_tracks(shared.backends, now)
    shared.process_quota = process = Quota(maxconn)
    shared.connection_rate.limit = settings.global_.maxconnrate
    shared.session_rate.limit = settings.global_.maxsessrate
    fronts = shared.front_listeners
    for proxy in settings.proxies:
        if proxy.is_frontend and not proxy.disabled:
            shared.front_rates[proxy.name] = Rate(proxy.rate_limit)
            quota = Quota(proxy.maxconn or NO_LIMIT)
            fronts[proxy.name] = FrontListeners(proxy, quota, NO_LIMIT)
    for number, listener in enumerate(listeners):
        if "socket-stats" in listener.proxy.options:
            shared.listener_counters[number] = []
        else:
            shared.rule_counters[number] = []
        front = fronts[listener.proxy.name]
        owned = listener.bind.address.kind is not AddressKind.FD
        tcp = listener.sock.family in (socket.AF_INET, socket.AF_INET6)
        front.sockets.append((listener.sock, listener.backlog if owned and tcp else 0))
        quotas = [process, front.quota]
        if listener.bind.maxconn:
            quotas.append(Quota(listener.bind.maxconn))
        shared.quotas.append(tuple(quotas))
    return shared


def default_fullconn(settings: Settings, backend: ProxySettings, maxconn: int) -> int:
    """A tenth of the connections that its frontends may bring (manual 4.2, `fullconn`).

    Counted are those whose default it is, and those that name it in a `use_backend` line.
    """
    total = 0
    for front in settings.proxies:
        if front.disabled or not front.is_frontend:
            continue
        default = front.default_backend or (front.name if front.is_backend else None)
        names = {choice.name.constant for choice in front.rules.use_backend}
        if backend.name == default or backend.name.encode() in names:
            total += front.maxconn or maxconn
    return max(1, -(-total // 10))


def end_sessions(server: ServerState, why: str, ctx: ThreadContext) -> None:
    """End all sessions on a server (`on-marked-down`, `on-marked-up`)."""
    ctx.pool.run_everywhere(end_those_on(server, why))


def announce(backend: str, ctx: ThreadContext, level: int, text: str) -> None:
    """Say on standard error and in the backend's logs that the state of a server has changed."""
    if level == syslog.EMERG:
        # as HAProxy words it on standard error
        aborting = " Aborting." if text.startswith("Cannot bind") else ""
        tell("alert", text.replace(f"backend {backend} has", f"backend '{backend}' has") + aborting)
    else:
        tell("warning", text)
    log_only(ctx, level, text, backend)


def log_only(ctx: ThreadContext, level: int, text: str, backend: str) -> None:
    """Write a message about a server to its backend's logs alone."""
    logger = ctx.room.backend_logs.get(backend)
    if logger is not None:
        logger.text(level, text)


def build_room(ctx: ThreadContext, shared: Shared) -> Room:
    """Build this thread's own runtime objects. Called on the thread."""
    settings = shared.settings
    # the keyword counts the end of the head as one
    max_headers = int(settings.global_.tune.get("tune.http.maxhdr", MAX_HEADERS + 1)) - 1
    room = Room(HeadCache(max_headers))
    logs = [settings.global_.logs, *(proxy.logs for proxy in settings.proxies)]
    logs += [section.logs for section in settings.log_forwards]
    thread_logs = ThreadLogs(
        ctx,
        hostname=settings.global_.log_send_hostname,
        rings=shared.rings,
        longest=max((log.length for lines in logs for log in lines), default=DEFAULT_LENGTH),
    )
    room.thread_logs = thread_logs
    ctx.flushers.append(thread_logs.flush)
    start_forwarders(
        ctx, [(shared.rings[ring.name], ring) for ring in settings.rings], ctx.pool.nbthread
    )
    for resolvers in settings.resolvers.values():
        section = shared.resolvers[resolvers.name]
        room.resolvers[resolvers.name] = Resolver(resolvers, ctx, section)
        if section.tid == ctx.tid:
            room.sections[resolvers.name] = Section(section, ctx)
    confs = room.confs
    for name, backend_shared in shared.backends.items():
        room.backends[name] = backend = Backend(backend_shared, ctx.tid)
        proxy = backend_shared.settings
        confs[name] = conf = BackConf(proxy, settings.global_)
        for server in (*backend.servers, *backend.hidden):
            prepare(ctx, server, conf, http=proxy.mode == "http")
        room.backend_logs[name] = _logger(proxy, shared, ctx, thread_logs)
    for proxy in settings.proxies:
        if proxy.disabled or not proxy.is_frontend:
            continue
        target = proxy.name if proxy.kind == "listen" and proxy.servers else proxy.default_backend
        if target is None and proxy.kind == "listen":
            target = proxy.name
        logger = _logger(proxy, shared, ctx, thread_logs, room)
        counters = shared.front_counters[proxy.name]
        frontend = Frontend(proxy, ctx.tid, logger.log if logger.enabled else None, counters)
        frontend.log_unparsed = logger.log_unparsed
        frontend.log_text = logger.text if logger.enabled else None
        front_conf = FrontConf(proxy, settings.global_)
        room.fronts[proxy.name] = FrontRoom(room, frontend, front_conf, target)
    _build_rules(ctx, room, shared)
    start_following(shared.backends.values(), room.sections, log_only)
    return room


def _build_rules(ctx: ThreadContext, room: Room, shared: Shared) -> None:
    """Make this thread's functions of all rules. Proxies that have none cost nothing later."""
    sides: dict[int, SideRules] = {}
    for proxy in shared.settings.proxies:
        if proxy.is_backend and not proxy.disabled:
            script = proxy.check_script or PLAIN
            room.check_scripts[proxy.name] = Script(script, Build(shared.rules, proxy, ctx, room))
        keyed = proxy.is_backend and proxy.balance in KEYED
        if proxy.disabled or not (proxy.rules.any or proxy.errors or keyed):
            continue
        build = Build(shared.rules, proxy, ctx, room)
        if keyed:
            room.backends[proxy.name].set_hash(hash_function(proxy, build))
        if proxy.errors:
            errors = build_errors(proxy.errors, build)
            if proxy.is_frontend:
                room.fronts[proxy.name].frontend.errors = errors
            if proxy.is_backend:
                room.backends[proxy.name].errors = errors
        if not proxy.rules.any:
            continue
        sides[id(proxy)] = side = SideRules(proxy.rules, build)
        if proxy.rules.stats is not None and shared.runtime is not None:
            side.stats = StatsService(proxy.rules.stats, shared.runtime, build)
        if proxy.is_backend:
            room.back_rules[proxy.name] = side
            if proxy.rules.stick:
                backend = room.backends[proxy.name]
                backend.sticking = Sticking(proxy.rules.stick, build, backend)
    for name, backend in room.backends.items():
        cookie = backend.settings.rdp_cookie
        if cookie is not None:
            build = Build(shared.rules, backend.settings, ctx, room)
            room.confs[name].rdp = RdpPersistence(backend, build.expression(cookie))
        rules = room.back_rules.get(name)
        if backend.settings.cookie is not None or (
            rules is not None and (rules.use_server or rules.persist)
        ):
            room.confs[name].persistence = Persistence(
                backend,
                rules.use_server if rules is not None else (),
                rules.persist if rules is not None else (),
            )
    for front in room.fronts.values():
        front.set_rules(sides.get(id(front.frontend.settings)))
        if may_become_http(shared.settings, front.frontend.settings):
            _add_http_side(ctx, room, shared, front)


def may_become_http(settings: Settings, proxy: ProxySettings) -> bool:
    """Whether connections of a frontend of `mode tcp` may become HTTP."""
    if proxy.mode != "tcp" or not proxy.is_frontend:
        return False
    rules = proxy.rules
    if any(one.action == "switch-mode" for one in rules.sets.get("tcp-request content", ())):
        return True
    backends = {one.name for one in settings.proxies if one.is_backend and one.mode == "http"}
    return proxy.default_backend in backends or bool(backends and rules.use_backend)


def _add_http_side(ctx: ThreadContext, room: Room, shared: Shared, front: FrontRoom) -> None:
    """What connections of `front` find when they become HTTP: its rules about HTTP."""
    proxy = replace(front.frontend.settings, mode="http")
    conf = FrontConf(proxy, shared.settings.global_)
    front.http = http = FrontRoom(room, front.frontend, conf, front.route.name, "http")
    http.streams = front.streams
    side = (
        SideRules(proxy.rules, Build(shared.rules, proxy, ctx, room)) if proxy.rules.any else None
    )
    http.set_rules(side)


def _sets_log_level(settings: Settings, proxy: ProxySettings) -> bool:
    """Whether a rule that a transaction of this frontend may meet sets the level of its line."""
    sides = [proxy]
    for other in settings.proxies:
        chosen = bool(proxy.rules.use_backend) or other.name == proxy.default_backend
        if other.is_backend and chosen:
            sides.append(other)
    rules = (rule for side in sides for one in side.rules.sets.values() for rule in one)
    return any(rule.action == "set-log-level" for rule in rules)


def _logger(
    proxy: ProxySettings,
    shared: Shared,
    ctx: ThreadContext,
    thread_logs: ThreadLogs,
    room: Room | None = None,
) -> Logger:
    """The logger of a frontend; without `room` one that writes texts alone."""
    glob = shared.settings.global_
    rules = proxy.rules
    captures = rules.captures
    front = room is not None
    return make_logger(
        proxy.logs,
        proxy.log_tag or glob.log_tag,
        shared.pid,
        ctx,
        mode=proxy.mode,
        options=proxy.options,
        # a backend has no lines of that kind; the name may be one for another mode
        log_format=proxy.log_format if front else "",
        formats=rules.formats if front else None,
        build=Build(shared.rules, proxy, ctx, room) if front else None,
        captures=captures is not None and bool(captures.request or captures.response),
        levels=front and _sets_log_level(shared.settings, proxy),
        next_log_number=shared.log_numbers.get(proxy.name),
        uri_length=int(glob.tune.get("tune.http.logurilen", DEFAULT_URI_LENGTH)),
        thread_logs=thread_logs,
        shared_samples=shared.samplings[proxy.name, proxy.kind],
    )


class _Listening:
    """A listening socket that each thread watches: `sched.fdtable` calls it on the thread."""

    __slots__ = ("max_accept", "number", "shared")

    def __init__(self, shared: Shared, number: int, max_accept: int) -> None:
        self.shared = shared
        self.number = number
        self.max_accept = max_accept

    def __call__(self, ctx: ThreadContext) -> None:
        room: Room = ctx.room
        shared, number = self.shared, self.number
        listener = shared.listeners[number]
        proxy, bind = listener.proxy, listener.bind
        counters = shared.listener_counters.get(number)
        name = bind.name
        if counters is not None:
            name = name or f"sock-{bind.id}"
        elif room.count_listeners:
            counters = shared.rule_counters[number]
        room.listeners[number] = listener_room = ListenerRoom(
            room.fronts[proxy.name],
            bind.id or number + 1,
            counters,
            shared.quotas[number],
            name,
        )
        rates = (shared.connection_rate, shared.session_rate, shared.front_rates[proxy.name])
        listener_room.rates = rates if rates[2].limit else rates[:2]
        acceptor = Acceptor(
            ctx,
            listener.sock,
            SessionStarter(
                proxy.name,
                proxy.mode,
                number,
                ruled=rules_at_accept(proxy.rules),
                sends_header=bind.accept_proxy,
                may_send_header=rules_expect_header(proxy.rules),
                # `proto none` is TCP and stays that
                switches=bind.proto != "none" and may_become_http(shared.settings, proxy),
            ),
            FrontGate(ctx.tid, listener_room),
            self.max_accept,
            threads=listener.threads,
        )
        room.acceptors.append(acceptor)


def announce_listeners(table: FdTable, shared: Shared, nbthread: int) -> None:
    """Have every thread accept on every listening socket. Main thread, before they start."""
    glob = shared.settings.global_
    max_accept = int(glob.tune.get("tune.maxaccept", DEFAULT_MAXACCEPT))
    if max_accept <= 0:
        max_accept = 1 << 20
    for number, listener in enumerate(shared.listeners):
        adopt = _Listening(shared, number, max_accept)
        threads = range(nbthread) if listener.threads is None else listener.threads
        table.insert(listener.sock.fileno(), threads, adopt)
