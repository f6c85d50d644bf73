"""Checks over the whole configuration, and the step from drafts to immutable Settings.

Main thread only. Faults are added to the context's diagnostics; the caller looks there.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence

from mtproxy.base.addresses import AddressKind
from mtproxy.base.location import Location
from mtproxy.base.log_settings import BUILT_IN_SINKS, LogSettings
from mtproxy.base.nearest import nearest
from mtproxy.base.settings import ProxySettings, Settings
from mtproxy.config import (
    keywords_auth,
    keywords_balance,
    keywords_errors,
    keywords_logforward,
    keywords_resolvers,
    keywords_stats,
    keywords_sticktable,
)
from mtproxy.config.advice import advise, advise_sections
from mtproxy.config.context import Context
from mtproxy.config.cpumap import MAX_THREADS
from mtproxy.config.drafts import ProxyDraft, RingDraft
from mtproxy.config.keywords_bind import threads_of
from mtproxy.config.keywords_capture import check_cookie_capture
from mtproxy.config.keywords_external import check_external
from mtproxy.config.keywords_server_state import check_tracks
from mtproxy.config.logformats import read_formats
from mtproxy.config.model import LISTEN
from mtproxy.config.server_draft import ServerDraft, free_numbers
from mtproxy.rules.places import reads_bytes

#: addresses that have no port
_PATHS = (AddressKind.UNIX, AddressKind.ABNS)


#: what is ignored outside `mode http`: name of the option and how to find it in a draft
_HTTP_FRONT = (
    "accept-invalid-http-request",
    "disable-h2-upgrade",
    "http-ignore-probes",
    "http-use-proxy-header",
    "idle-close-on-response",
)
_HTTP_BACK = (
    "accept-invalid-http-response",
    "checkcache",
    "http-pretend-keepalive",
    "prefer-last-server",
)
_HTTP_BOTH = ("http-buffer-request", "http-no-delay")
#: the rule sets that are
_HTTP_RULES = ("http-request", "http-response", "http-after-response", "redirect")


def check(ctx: Context) -> None:
    """Cross checks between sections; adds alerts and warnings."""
    for ring in ctx.rings:
        _check_ring(ctx, ring)
    for entry in ctx.global_.logs:
        _check_ring_name(ctx, entry)
    for forward in ctx.log_forwards:
        _check_logs(ctx, forward)
    _check_global(ctx)
    for defaults in ctx.defaults:
        _check_defaults(ctx, defaults)
    ctx.users = keywords_auth.freeze(ctx)
    ctx.patterns.finish(ctx.warn)
    keywords_resolvers.add_default(ctx)
    for proxy in ctx.proxies:
        if proxy.disabled:
            continue
        _check_mode(ctx, proxy)
        read_formats(ctx, proxy)
        check_cookie_capture(ctx, proxy)
        _check_default_backend(ctx, proxy)
        _check_use_backend(ctx, proxy)
        _check_references(ctx, proxy)
        proxy.error_replies = keywords_errors.resolve(ctx, proxy)
        keywords_sticktable.check(ctx, proxy)
        keywords_stats.check(ctx, proxy)
        keywords_balance.check(ctx, proxy)
        _check_inherited_rules(ctx, proxy)
        _check_loops(ctx, proxy)
        _check_binds(ctx, proxy)
        _check_timeouts(ctx, proxy)
        _check_logs(ctx, proxy)
        _check_servers(ctx, proxy)
        check_tracks(ctx, proxy)
        check_external(ctx, proxy)
        advise(ctx, proxy)
    advise_sections(ctx)


def _check_global(ctx: Context) -> None:
    draft = ctx.global_
    if draft.values.get("profiling_locks") and draft.tune.get("tune.lock-stats") is False:
        ctx.diagnostics.alert(
            "'profiling.locks on' needs the statistics that 'tune.lock-stats off' builds out of "
            "the locks; set one of the two the other way"
        )


def _target(ctx: Context, proxy: ProxyDraft) -> ProxyDraft | None:
    """The backend side that `default_backend` of a frontend side names."""
    if proxy.default_backend is None or not proxy.is_frontend:
        return None
    for other in ctx.proxies_by_name.get(proxy.default_backend, ()):
        if other.is_backend:
            return other
    return None


def _check_default_backend(ctx: Context, proxy: ProxyDraft) -> None:
    name = proxy.default_backend
    if name is None or not proxy.is_frontend:
        return
    place = proxy.default_backend_location
    title = proxy.title()
    target = _target(ctx, proxy)
    if target is None:
        ctx.diagnostics.alert(
            f"{title} : unable to find required default_backend '{name}'",
            place,
            word=name,
            suggestion=nearest(name, (p.name for p in ctx.proxies if p.is_backend)),
        )
        return
    if target.mode != proxy.mode:
        _refuse_mode(ctx, proxy, target, "as default_backend", place)
    if target is proxy:
        ctx.diagnostics.alert(f"{title} : loop detected for default_backend '{name}'", place)


def _refuse_mode(
    ctx: Context, proxy: ProxyDraft, target: ProxyDraft, how: str, place: Location | None
) -> None:
    """A frontend names a backend of another mode. What is TCP may become HTTP."""
    if proxy.mode == "tcp" and target.mode == "http":
        return
    at = target.location
    ctx.diagnostics.alert(
        f"{proxy.mode} {proxy.title()} tries to use incompatible {target.mode} {target.title()}"
        f" ({at.file}:{at.line}) {how} (see 'mode')",
        place,
        word=target.name,
    )


def _check_use_backend(ctx: Context, proxy: ProxyDraft) -> None:
    """What fixed names choose must be of the same mode; others are looked at when they are used.

    Names that do not exist are found with the other references.
    """
    for choice in proxy.rules.use_backend:
        name = choice.name.constant
        if name is None:
            continue
        text = name.decode("utf-8", "surrogateescape")
        for target in ctx.proxies_by_name.get(text, ()):
            if target.is_backend and target.mode != proxy.mode:
                _refuse_mode(ctx, proxy, target, "in a 'use_backend' rule", choice.location)


def _check_defaults(ctx: Context, defaults: ProxyDraft) -> None:
    """What rules of a `defaults` section name must not depend on who inherits them."""
    for reference in defaults.rules.references:
        if reference.kind == "table" and not reference.name:
            missing = "table"
        elif reference.kind == "server" and "/" not in reference.name:
            missing = "backend"
        else:
            continue
        ctx.diagnostics.alert(
            f"'{reference.word}' : the name of a {missing} must be set in a 'defaults' section"
            f" ('{defaults.name}')",
            reference.location,
            word=reference.word,
        )


def _check_loops(ctx: Context, proxy: ProxyDraft) -> None:
    """A proxy cannot choose itself as the backend."""
    for choice in proxy.rules.use_backend:
        name = choice.name.constant
        if name is not None and proxy.is_backend and name == proxy.name.encode():
            ctx.diagnostics.alert(
                f"{proxy.title()} : loop detected for use_backend '{proxy.name}'",
                choice.location,
                word=proxy.name,
            )


def _check_inherited_rules(ctx: Context, proxy: ProxyDraft) -> None:
    """Rules of a `defaults` section are for frontends or for backends, never for both."""
    base = proxy.base
    if base is None or proxy.kind == LISTEN or not any(base.rules.sets.values()):
        return  # a listen section was refused when it began
    before = [
        one
        for one in ctx.proxies[: ctx.proxies.index(proxy)]
        if one.base is base and one.kind != LISTEN
    ]
    front = proxy.is_frontend or any(one.is_frontend for one in before)
    back = proxy.is_backend or any(one.is_backend for one in before)
    if front and back:
        ctx.diagnostics.alert(
            "frontends and backends cannot inherit from the same defaults section if it defines"
            f" rules ('{base.name}' at {base.location.file}:{base.location.line})",
            proxy.location,
            word=base.name,
        )


#: what a proxy may be, so that rules mean it where they name none
_OWN = ("backend", "frontend", "table")


def _check_references(ctx: Context, proxy: ProxyDraft) -> None:
    """Everything that the rules of a proxy name has to exist."""
    for reference in proxy.rules.references:
        known = _known(ctx, proxy, reference.kind)
        name = reference.name or proxy.name
        if known is None or name in known:
            continue
        title = reference.title or reference.word
        sections = ("http-errors", "resolvers")
        what = f"{reference.kind} section" if reference.kind in sections else reference.kind
        if reference.name:
            message = f"unable to find the {what} '{name}'"
            if reference.kind == "server" and "/" not in name:
                message += f" in {proxy.title()}"
            suggestion = nearest(name, known)
        else:
            message = f"missing {what} name"
            if reference.word not in title:
                message += f" in '{reference.word}'"
            if reference.kind in _OWN:
                lacks = "has" if reference.kind == "table" else "is"
                message += f" ({proxy.title()} {lacks} none itself)"
            suggestion = None
        ctx.diagnostics.alert(
            f"'{title}' : {message}",
            reference.location,
            word=reference.word,
            suggestion=suggestion,
        )


def _known(ctx: Context, proxy: ProxyDraft, kind: str) -> Collection[str] | None:
    """The names of everything of a kind; None where they are not looked at."""
    match kind:
        case "backend":
            return {one.name for one in ctx.proxies if one.is_backend}
        case "frontend":
            return {one.name for one in ctx.proxies if one.is_frontend}
        case "proxy":
            return ctx.proxies_by_name
        case "userlist":
            return ctx.userlists
        case "http-errors":
            return ctx.http_errors
        case "resolvers":
            return ctx.resolvers
        case "table":
            return keywords_sticktable.tables(ctx)
        case "server":
            backends = [one for one in ctx.proxies if one.is_backend]
            paths = [f"{one.name}/{server}" for one in backends for server in one.servers_by_name]
            return {*paths, *proxy.servers_by_name}
        case "event sink":
            return {*BUILT_IN_SINKS, *(ring.name for ring in ctx.rings)}
        case "request capture":
            return {str(number) for number in range(len(proxy.request_captures))}
        case "response capture":
            return {str(number) for number in range(len(proxy.response_captures))}
    return None


def _check_binds(ctx: Context, proxy: ProxyDraft) -> None:
    if proxy.is_frontend and not proxy.bind_lines:
        ctx.warn(
            proxy.location,
            f"{proxy.title()} has no 'bind' directive: declare it as a backend if that was meant",
        )
    for bind in proxy.binds:
        if bind.proto not in (None, _MUX[proxy.mode]):
            ctx.diagnostics.alert(
                f"MUX protocol '{bind.proto}' is not usable for 'bind {bind.address.text}' in"
                f" 'mode {proxy.mode}'",
                bind.location,
                word=bind.proto,
            )
        if bind.threads != "all" and not threads_of(bind.threads, _thread_count(ctx)):
            ctx.diagnostics.alert(
                f"{proxy.title()}: 'thread' directive names threads that do not exist in"
                f" 'bind {bind.address.text}' ('nbthread' is {_thread_count(ctx)})",
                bind.location,
                word="thread",
            )


def _thread_count(ctx: Context) -> int:
    """As many threads as there will be."""
    given = ctx.global_.values.get("nbthread")
    return given if isinstance(given, int) else min(len(os.sched_getaffinity(0)), MAX_THREADS)


def _check_timeouts(ctx: Context, proxy: ProxyDraft) -> None:
    have = proxy.timeouts
    enough = "client" in have or not proxy.is_frontend
    if proxy.is_backend and proxy.servers:
        tunnel = proxy.mode == "tcp" and "tunnel" in have
        enough = enough and "connect" in have and ("server" in have or tunnel)
    if enough:
        return
    needed = ["client"] if proxy.is_frontend else []
    if proxy.is_backend:
        needed += ["connect", "server"]
    missing = ", ".join(f"'{name}'" for name in needed if name not in have)
    ctx.warn(
        proxy.location,
        f"missing timeouts for {proxy.title()}: {missing}\n"
        "without them a dead peer is never noticed: set all of them to a non-zero value",
    )


def _check_mode(ctx: Context, proxy: ProxyDraft) -> None:
    """What needs `mode http` is ignored elsewhere, and what needs bytes there, with a warning."""
    if proxy.mode == "http":
        rules = proxy.rules
        conditions = [rule.condition for one in rules.sets.values() for rule in one]
        conditions += [one.condition for one in (*rules.use_backend, *rules.use_server)]
        conditions += [one.condition for one in rules.stick]
        for condition in conditions:
            word = None if condition is None else reads_bytes(condition, rules.acls)
            if condition is not None and word is not None:
                ctx.warn(
                    condition.location,
                    f"{proxy.title()}: L6 sample fetch '{word}' is ignored on HTTP proxies,"
                    " which show no raw bytes",
                )
        return
    if any(one.action == "switch-mode" for one in proxy.rules.sets.get("tcp-request content", ())):
        return  # what needs HTTP is for connections that become it
    title = proxy.title()
    options = _HTTP_BOTH + _HTTP_FRONT * proxy.is_frontend + _HTTP_BACK * proxy.is_backend
    ignored = [f"option {name}" for name in options if name in proxy.options]
    if proxy.forwardfor is not None:
        ignored.append("option forwardfor")
        proxy.forwardfor = None
    if proxy.originalto is not None:
        ignored.append("option originalto")
        proxy.originalto = None
    if proxy.monitor_uri is not None and proxy.is_frontend:
        ignored.append("monitor-uri")
        proxy.monitor_uri = None
    if proxy.cookie is not None and proxy.is_backend:
        ignored.append("cookie")
        proxy.cookie = None
    if proxy.cookie_capture is not None and proxy.is_frontend:
        ignored.append("capture cookie")
    if proxy.stats is not None:
        ignored.append("stats")
        proxy.stats = None
    for name in ignored:
        ctx.warn(proxy.location, f"'{name}' ignored for {title} as it requires HTTP mode")
    _warn_of_http_rules(ctx, proxy)
    if proxy.is_frontend and proxy.log_format in ("httplog", "httplog-clf", "httpslog"):
        name = proxy.log_format.partition("-")[0]
        ctx.warn(
            proxy.location,
            f"'option {name}' not usable with {title} (needs 'mode http'):"
            " falling back to 'option tcplog'",
        )
        proxy.options -= {"httplog", "httplog-clf", "httpslog"}
        proxy.options.add("tcplog")
        proxy.log_format = "tcplog"


def _warn_of_http_rules(ctx: Context, proxy: ProxyDraft) -> None:
    """Rules about HTTP do nothing in `mode tcp` (see `stream.rules`); of inherited ones nothing is
    said.
    """
    sets = proxy.rules.sets
    for name in _HTTP_RULES:
        inherited = 0 if proxy.base is None else len(proxy.base.rules.sets.get(name, ()))
        own = sets.get(name, [])[inherited:]
        if own:
            ctx.warn(
                own[0].location,
                f"'{name}' rules ignored for {proxy.title()} as they require HTTP mode",
            )


def _check_ring(ctx: Context, ring: RingDraft) -> None:
    if ring.maxlen > ring.size:
        ctx.warn(
            ring.location,
            f"ring '{ring.name}' : 'maxlen' {ring.maxlen} exceeds the ring's size and is taken as"
            f" {ring.size}",
        )
        ring.maxlen = ring.size
    _check_timeouts(ctx, ring.backend)
    _check_servers(ctx, ring.backend)


def _check_ring_name(ctx: Context, log: LogSettings) -> None:
    if log.ring is None or log.ring in BUILT_IN_SINKS:
        return
    names = [ring.name for ring in ctx.rings]
    if log.ring not in names:
        ctx.diagnostics.alert(
            f"'log' : unable to find the ring '{log.ring}'",
            log.location,
            word=log.ring,
            suggestion=nearest(log.ring, names),
        )


def _check_logs(ctx: Context, proxy: ProxyDraft) -> None:
    for entry in proxy.logs:
        if entry is not None:
            _check_ring_name(ctx, entry)
    known = [entry for entry in proxy.logs if entry is not None]
    if None in proxy.logs:
        known += ctx.global_.logs
    format_given = proxy.log_format or "log-format-sd" in proxy.format_texts
    if proxy.is_frontend and format_given and not known:
        ctx.warn(
            proxy.location,
            f"log format ignored for {proxy.title()} since it has no log address",
        )


#: the one multiplexer that `proto` may name in each mode
_MUX = {"http": "h1", "tcp": "none"}


def _check_servers(ctx: Context, proxy: ProxyDraft) -> None:
    wanted = _MUX[proxy.mode]
    seen: dict[int, str] = {}
    for server in proxy.servers:
        title = f"server {proxy.name}/{server.name}"
        if server.id is not None:
            if server.id in seen:
                ctx.diagnostics.alert(
                    f"'{title}' : custom id {server.id} is already used by server"
                    f" '{seen[server.id]}'",
                    server.location,
                )
            seen[server.id] = server.name
        if server.proto not in (None, wanted):
            ctx.diagnostics.alert(
                f"'{title}' : MUX protocol '{server.proto}' is not usable in 'mode {proxy.mode}'",
                server.location,
                word=server.proto,
            )
        _check_resolvers(ctx, proxy, server, title)
        wanted_by_check = "h1" if proxy.checks.kind == "http" else "none"
        if server.check and server.check_proto not in (None, wanted_by_check):
            ctx.diagnostics.alert(
                f"'{title}' uses an incompatible MUX protocol for the selected check type",
                server.location,
                word=server.check_proto,
            )
        if server.check and not (_check_port_known(server) or proxy.checks.ports_known()):
            ctx.diagnostics.alert(
                f"'{title}' has neither service port nor check port", server.location
            )


def _check_resolvers(ctx: Context, proxy: ProxyDraft, server: ServerDraft, title: str) -> None:
    name = server.resolvers
    if name is None or name in ctx.resolvers:
        return
    ctx.diagnostics.alert(
        f"'{title}' : unable to find required resolvers '{name}'",
        server.location,
        word=name,
        suggestion=nearest(name, ctx.resolvers),
    )


def _check_port_known(server: ServerDraft) -> bool:
    if server.check_port or server.srv_name is not None:
        return True
    address = server.check_address
    if address is not None and (address.port or address.kind in _PATHS):
        return True
    assert server.address is not None
    # a server without an address of its own is where the client went; its check fails
    nowhere = server.address.host in ("0.0.0.0", "::")
    return bool(server.address.port) or nowhere or server.address.kind in _PATHS


def freeze(ctx: Context, files: tuple[str, ...]) -> Settings:
    """The immutable configuration; call it only when there are no alerts."""
    global_ = ctx.global_.freeze()
    proxies: list[ProxySettings] = []
    wanted = [proxy.id for proxy in ctx.proxies]
    position = ctx.global_.stats_position
    if position is not None:
        # to HAProxy the runtime sockets are a proxy too, which takes a number
        wanted.insert(position, None)
    numbers = free_numbers(wanted)
    if position is not None:
        del numbers[position]
    for draft, number in zip(ctx.proxies, numbers, strict=True):
        ids = free_numbers([server.id for server in draft.servers])
        by_name = {server.name: i for server, i in zip(draft.servers, ids, strict=True)}
        proxies.append(draft.freeze(number, global_.logs, by_name))
    rings = tuple(ring.freeze() for ring in ctx.rings)
    return Settings(
        global_,
        tuple(proxies),
        files,
        dict(ctx.environ),
        rings,
        tuple(keywords_logforward.freeze(one, global_.logs) for one in ctx.log_forwards),
        resolvers=dict(ctx.resolvers),
        userlists=ctx.users,
        http_errors={name: dict(one.messages) for name, one in ctx.http_errors.items()},
        patterns=ctx.patterns,
        referenced_servers=frozenset(_referenced_servers(ctx, proxies)),
    )


def _referenced_servers(
    ctx: Context, proxies: Sequence[ProxySettings]
) -> Iterator[tuple[str, str]]:
    """Servers that something else points at. Names that are made for each request do not count."""
    for draft, proxy in zip(ctx.proxies, proxies, strict=True):
        for reference in draft.rules.references:
            if reference.kind == "server":
                backend, slash, name = reference.name.rpartition("/")
                yield (backend if slash else proxy.name), name
        for server in proxy.servers:
            if server.states.track:
                backend, slash, name = server.states.track.rpartition("/")
                yield (backend if slash else proxy.name), name


def has_listener(settings: Settings) -> bool:
    """Something to listen on: without it HAProxy does not start (exit code 2 of -c)."""
    if settings.global_.stats_sockets:
        return True
    if any(one.binds or one.datagrams for one in settings.log_forwards):
        return True
    return any(proxy.binds and not proxy.disabled for proxy in settings.proxies)
