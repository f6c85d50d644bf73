"""The configuration as it was understood, as an haproxy.cfg with every default (`-c -dC`).

Defaults sections, conditions, variables and host names are worked in; rules of named defaults
sections stay in sections of these names. Reading the text again gives the same settings, which the
golden configurations prove. What is not known here yet stands as a comment, so nothing is hidden.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields

from mtproxy.base.addresses import (
    Address,
    AddressKind,
    BindSettings,
    SendProxy,
    SourceSettings,
    UseSource,
)
from mtproxy.base.location import Location
from mtproxy.base.log_settings import LogForwardSettings, LogSettings, RingSettings
from mtproxy.base.ruleset import Format
from mtproxy.base.server_settings import ResolveSettings, ServerSettings
from mtproxy.base.settings import GlobalSettings, ProxySettings, Settings, StatsSocket
from mtproxy.config import registry
from mtproxy.config.dump import address_text
from mtproxy.config.explain_checks import check_lines
from mtproxy.config.explain_rules import Sections, cookie_words, reply_lines, rule_lines
from mtproxy.config.explain_sections import environment_lines, section_lines
from mtproxy.config.keywords_balance import balance_words
from mtproxy.config.keywords_sticktable import words_of as table_words
from mtproxy.config.quoting import duration, quote, text
from mtproxy.config.quoting import line as _line


def explain(settings: Settings, before: Mapping[str, str]) -> str:
    """Sections in order, with a final line feed. `before`: the environment that was there."""
    lines = ["global", *environment_lines(settings.environment, before)]
    lines += _global(settings.global_)
    for ring in settings.rings:
        lines += ["", f"ring {quote(ring.name)}", *_ring(ring)]
    for forward in settings.log_forwards:
        lines += ["", f"log-forward {quote(forward.name)}", *_log_forward(forward)]
    lines += section_lines(settings)
    sections = Sections()
    for proxy in settings.proxies:
        lines += [*sections.lines(proxy), *_proxy(proxy)]
    # lines of a section begin with a blank
    return "".join(f"   {line}\n" if line.startswith(" ") else f"{line}\n" for line in lines)


def _value(name: str, value: object) -> Iterator[str]:
    """`name value` unless it is not set; a flag is just its name."""
    if value is True:
        yield _line(name)
    elif value is not None and value is not False:
        yield _line(name, value)


def _others(record: object, known: frozenset[str]) -> Iterator[str]:
    """What differs from its default and has no line of its own."""
    for item in fields(record):  # type: ignore[arg-type]
        value = getattr(record, item.name)
        default = item.default
        if item.default_factory is not MISSING:
            default = item.default_factory()
        if item.name not in known and not isinstance(value, Location) and value != default:
            yield f" # {item.name} = {value!r}"


# --- global

_GLOBAL_VALUES = (
    "nbthread", "maxconn", "ulimit-n", "fd-hard-limit", "maxpipes", "pidfile", "chroot", "user",
    "group", "uid", "gid", "node", "description", "localpeer", "server-state-base",
    "server-state-file", "log-tag", "spread-checks", "quiet",
    "daemon", "zero-warning", "set-dumpable",
)  # fmt: skip
_GLOBAL_KNOWN = frozenset(name.replace("-", "_") for name in _GLOBAL_VALUES) | {
    "close_spread_time", "cpu_map", "disabled_features", "expose_experimental", "external_check",
    "grace",
    "hard_stop_after", "logs",
    "log_send_hostname", "max_spread_checks", "pp2_never_send_local", "profiling_locks",
    "profiling_tasks", "stats_maxconn", "stats_sockets", "strict_limits",
    "tune", "variables",
}  # fmt: skip


def _global(glob: GlobalSettings) -> Iterator[str]:
    if glob.nbthread is None:
        yield " # nbthread: one for each CPU that the process may use"
    if glob.maxconn is None:
        yield " # maxconn: as many as the limit of open files allows"
    for name in _GLOBAL_VALUES:
        yield from _value(name, getattr(glob, name.replace("-", "_")))
    if glob.external_check:
        preserved = ["preserve-env"] if glob.external_check == "preserve-env" else []
        yield _line("external-check", *preserved)
    for tid, cpus in sorted(glob.cpu_map.items()):
        yield _line("cpu-map", f"1/{tid}", ",".join(map(str, sorted(cpus))))
    if glob.hard_stop_after is not None:
        yield _line("hard-stop-after", duration(glob.hard_stop_after))
    if glob.grace:
        yield _line("grace", duration(glob.grace))
    if glob.close_spread_time:
        endless = glob.close_spread_time < 0
        window = "infinite" if endless else duration(glob.close_spread_time)
        yield _line("close-spread-time", window)
    if glob.max_spread_checks is not None:
        yield _line("max-spread-checks", duration(glob.max_spread_checks))
    if glob.log_send_hostname is not None:
        yield _line("log-send-hostname", *filter(None, [glob.log_send_hostname]))
    if glob.expose_experimental:
        yield _line("expose-experimental-directives")
    for variable in glob.variables:
        word = "set-var-fmt" if isinstance(variable.value, Format) else "set-var"
        yield _line(word, ",".join((variable.name, *variable.conditions)), *variable.words)
    if glob.pp2_never_send_local:
        yield " pp2-never-send-local"
    yield " strict-limits" if glob.strict_limits else " no strict-limits"
    if glob.profiling_tasks != "off":
        yield _line("profiling.tasks", glob.profiling_tasks)
    if glob.profiling_locks:
        yield " profiling.locks on"
    for name in sorted(glob.disabled_features):
        yield _line(name)
    for name, value in sorted(glob.tune.items()):
        shown = {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value
        yield _line(name, shown)
    if glob.stats_sockets:
        yield _line("stats", "maxconn", glob.stats_maxconn)
    for one in glob.stats_sockets:
        yield _line("stats", "timeout", duration(one.timeout))
        yield _stats_socket(one)
        yield from _others(one.bind, _BIND_KNOWN)
    for log in glob.logs:
        yield _log(log)
    yield from _others(glob, _GLOBAL_KNOWN)


def _stats_socket(one: StatsSocket) -> str:
    words = ["stats", "socket", *_bind_words(one.bind), "level", one.bind.level]
    return _line(*words, "severity-output", one.bind.severity_output)


# --- proxies

_PROXY_KNOWN = frozenset({
    "name", "id", "kind", "mode", "binds", "servers", "default_backend", "balance", "timeouts",
    "balance_params", "direct", "name_header", "rdp_cookie",
    "options", "forwardfor", "originalto", "logs", "log_tag", "retries", "maxconn", "backlog",
    "http_reuse", "stick_table", "rules", "errors", "cookie", "dynamic_cookie_key",
    "check_script", "external_check", "load_server_state", "server_state_file",
    "disabled", "description", "log_format", "redispatch", "monitor_uri", "source", "forced_id",
    *(f"{side}tcpka_{what}" for side in ("cli", "srv") for what in ("cnt", "idle", "intvl")),
})  # fmt: skip
#: written from fields of their own
_WORKED_OUT = frozenset({"httplog", "httpslog", "tcplog", "redispatch", "forwardfor", "originalto"})


def _proxy(proxy: ProxySettings) -> Iterator[str]:
    if proxy.forced_id:
        yield _line("id", proxy.id)
    if proxy.disabled:
        yield _line("disabled")
    yield from _value("description", proxy.description)
    if proxy.errors and proxy.mode != "http":
        # replies that were inherited; `mode tcp` would not take all that they say
        yield _line("mode", "http")
        yield from reply_lines(proxy.errors.items())
    yield _line("mode", proxy.mode)
    if proxy.is_frontend:
        if proxy.maxconn is None:
            yield " # maxconn: that of the process"
        yield from _value("maxconn", proxy.maxconn)
        yield from _value("backlog", proxy.backlog)
        for bind in proxy.binds:
            yield _line("bind", *_bind_words(bind))
            yield from _others(bind, _BIND_KNOWN)
        yield from _value("default_backend", proxy.default_backend)
        if proxy.monitor_uri is not None:
            yield _line("monitor-uri", text(proxy.monitor_uri))
    if proxy.is_backend:
        for words in balance_words(proxy):
            yield _line(*words)
        if proxy.load_server_state != "none":
            yield _line("load-server-state-from-file", proxy.load_server_state)
        if proxy.server_state_file:
            yield _line("server-state-file-name", proxy.server_state_file)
        yield _line("retries", proxy.retries)
        yield (
            _line("option", "redispatch", proxy.redispatch)
            if proxy.redispatch
            else " no option redispatch"
        )
        yield _line("http-reuse", proxy.http_reuse)
        if proxy.source is not None:
            yield _line(*_source_words(proxy.source))
        if proxy.cookie is not None:
            yield _line(*cookie_words(proxy.cookie))
        yield from _value("dynamic-cookie-key", proxy.dynamic_cookie_key)
    if proxy.stick_table is not None:
        yield _line(*table_words(proxy.stick_table))
    yield from _options(proxy)
    if proxy.mode == "http":
        yield from reply_lines(proxy.errors.items())
    yield from rule_lines(proxy)
    external = proxy.external_check
    if external is not None:
        yield _line("external-check", "command", external.command)
        yield _line("external-check", "path", external.path)
    if proxy.check_script is not None:
        yield from check_lines(proxy.check_script)
    yield from _timeouts(proxy)
    yield from _value("log-tag", proxy.log_tag)
    for log in proxy.logs:
        yield _log(log)
    for server in proxy.servers:
        yield from _server(server)
    yield from _others(proxy, _PROXY_KNOWN)


def _options(proxy: ProxySettings) -> Iterator[str]:
    if proxy.log_format not in ("", "custom") and proxy.is_frontend:
        yield _line("option", *proxy.log_format.split("-"))
    for name, fmt in proxy.rules.formats.items():
        if _has(proxy, name):
            yield _line(name, fmt.text)
    header = proxy.rules.unique_id_header
    if header is not None and _has(proxy, "unique-id-header"):
        yield _line("unique-id-header", text(header))
    for name in sorted(proxy.options - _WORKED_OUT):
        if _has(proxy, "option", name):
            yield _line("option", name)
    forwardfor = proxy.forwardfor
    if forwardfor is not None:
        words = ["except", forwardfor.except_net] if forwardfor.except_net else []
        words += ["header", forwardfor.header.decode("latin-1")]
        yield _line("option", "forwardfor", *words, *["if-none"] * forwardfor.if_none)
    originalto = proxy.originalto
    if originalto is not None:
        words = ["except", originalto.except_net] if originalto.except_net else []
        yield _line("option", "originalto", *words, "header", originalto.header.decode("latin-1"))
    for side in ("cli", "srv"):
        if not _has(proxy, f"{side}tcpka-cnt"):
            continue
        yield from _value(f"{side}tcpka-cnt", getattr(proxy, f"{side}tcpka_cnt"))
        for what in ("idle", "intvl"):
            seconds = getattr(proxy, f"{side}tcpka_{what}")
            if seconds is not None:
                yield _line(f"{side}tcpka-{what}", f"{seconds}s")


def _timeouts(proxy: ProxySettings) -> Iterator[str]:
    for item in fields(proxy.timeouts):
        value = getattr(proxy.timeouts, item.name)
        name = item.name.replace("_", "-")
        if value is not None and _has(proxy, "timeout", name):
            yield _line("timeout", name, duration(value))


def _has(proxy: ProxySettings, *words: str) -> bool:
    """Whether a statement that was inherited means something in this kind of proxy."""
    keyword = registry.find(proxy.kind, words)
    return keyword is not None and proxy.kind in keyword.sections


def _log(log: LogSettings) -> str:
    if log.ring is not None:
        target = f"ring@{log.ring}"
    elif log.address is not None:
        target = _address(log.address)
    else:
        target = str(log.stdio)
    words: list[object] = ["log", target, "len", log.length]
    if log.format is not None:
        words += ["format", log.format]
    if log.sample is not None:
        ranges = ",".join(_range(*one) for one in log.sample.ranges)
        words += ["sample", f"{ranges}:{log.sample.size}"]
    extra = [one.strip() for one in _others(log, _LOG_KNOWN)]
    return _line(*words, log.facility, log.level, log.minlevel) + "".join(
        f" {one}" for one in extra
    )


_LOG_KNOWN = frozenset({
    "address", "stdio", "ring", "sample", "length", "format", "facility", "level", "minlevel"
})  # fmt: skip


def _range(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}-{last}"


def _log_forward(forward: LogForwardSettings) -> Iterator[str]:
    for bind in forward.binds:
        yield _line("bind", *_bind_words(bind))
    for bind in forward.datagrams:
        yield _line("dgram-bind", *_bind_words(bind))
    yield _line("maxconn", forward.maxconn)
    if forward.backlog is not None:
        yield _line("backlog", forward.backlog)
    if forward.client_timeout is not None:
        yield _line("timeout", "client", duration(forward.client_timeout))
    for log in forward.logs:
        yield _log(log)


def _ring(ring: RingSettings) -> Iterator[str]:
    if ring.description:
        yield _line("description", ring.description)
    yield _line("format", ring.format)
    yield _line("maxlen", ring.maxlen)
    yield _line("size", ring.size)
    if ring.connect_timeout is not None:
        yield _line("timeout", "connect", duration(ring.connect_timeout))
    if ring.server_timeout is not None:
        yield _line("timeout", "server", duration(ring.server_timeout))
    for server in ring.servers:
        yield from _server(server)
    yield from _others(ring, _RING_KNOWN)


_RING_KNOWN = frozenset({
    "name", "description", "format", "maxlen", "size", "servers", "connect_timeout",
    "server_timeout",
})  # fmt: skip


# --- addresses and what stands behind them


def _address(address: Address) -> str:
    """As `dump` writes it; a port of 0 is none."""
    shown = address_text(address)
    if address.kind in (AddressKind.FD, AddressKind.UNIX, AddressKind.ABNS):
        return shown
    return shown.removesuffix(":0") if address.port_offset is None else shown


def _source_words(source: SourceSettings) -> list[str]:
    shown = _address(source.address)
    if source.high_port:
        shown += f"-{source.high_port}"
    words = ["source", shown]
    if source.usesrc is not None:
        whose = source.usesrc.value
        if source.foreign is not None:
            whose = _address(source.foreign)
        elif source.usesrc is UseSource.HEADER:
            whose += f"({text(source.header)},{source.occurrence})"
        words += ["usesrc", whose]
    return [*words, "interface", source.interface] if source.interface else words


_BIND_VALUES = (
    "name", "id", "backlog", "user", "group", "uid", "gid", "mss", "interface", "maxconn", "proto",
    "v4v6", "v6only", "defer-accept", "tfo", "accept-proxy", "transparent",
)  # fmt: skip
_BIND_KNOWN = frozenset(name.replace("-", "_") for name in _BIND_VALUES) | {
    "address", "mode", "tcp_ut", "level", "severity_output", "threads", "shards",
}  # fmt: skip
_SERVER_KNOWN = frozenset({
    # a name is worked in: there is an address
    "name", "id", "address", "hostname", "unresolved", "forced_id", "weight", "backup", "disabled",
    "tfo", "non_stick", "pool_max_conn", "max_reuse", "pool_purge_delay", "tcp_ut", "source",
    "cookie", "log_proto", "rise", "fall", "send_proxy", "check", "resolve",
    "hash_key", "slowstart", "redir", "socks4", "states", "agent", "shutdown_sessions",
    "shutdown_backups", "init_last",
})  # fmt: skip
_STATE_VALUES = ("track", "init-state", "observe", "error-limit", "on-error")
_CHECK_KNOWN = frozenset({
    "inter", "fastinter", "downinter", "rise", "fall", "address", "port", "send_proxy",
    "via_socks4",
})  # fmt: skip


def _words(record: object, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        value = getattr(record, name.replace("-", "_"))
        if value is True:
            yield name
        elif value is not None and value is not False:
            yield from (name, str(value))


def _bind_words(bind: BindSettings) -> list[str]:
    words = [address_text(bind.address), *_words(bind, _BIND_VALUES)]
    if bind.mode is not None:
        words += ["mode", f"{bind.mode:o}"]
    if bind.tcp_ut is not None:
        words += ["tcp-ut", duration(bind.tcp_ut)]
    if bind.threads != "all":
        words += ["thread", bind.threads]
    if bind.shards != 1:
        words += ["shards", str(bind.shards or "by-thread")]
    return words


def _server(server: ServerSettings) -> Iterator[str]:
    yield _line("server", server.name, *_server_words(server))
    yield from _others(server, _SERVER_KNOWN)
    if server.check is not None:
        yield from _others(server.check, _CHECK_KNOWN)
    known = frozenset(name.replace("-", "_") for name in _STATE_VALUES)
    yield from _others(server.states, known)


def _send_proxy_words(header: SendProxy) -> list[str]:
    words = ["send-proxy-v2" if header.version == 2 else "send-proxy"]
    options = [
        name for name in ("authority", "crc32c", "unique-id")
        if getattr(header, name.replace("-", "_"))
    ]  # fmt: skip
    if options:
        words += ["proxy-v2-options", ",".join(options)]
    return words


def _name_words(server: ServerSettings) -> list[str]:
    """A name in place of an address, and the address until it is looked up."""
    address, resolve = server.address, server.resolve
    where = (resolve and resolve.srv_name) or str(server.hostname)
    if address.port_offset is not None:
        where += f":{address.port_offset:+d}"
    elif address.port:
        where += f":{address.port}"
    first = "last," if server.init_last else ""
    words = [where, "init-addr", first + ("none" if server.unresolved else address.host)]
    return words if resolve is None else [*words, *_resolve_words(resolve)]


def _resolve_words(resolve: ResolveSettings) -> list[str]:
    words = ["resolvers", resolve.resolvers, "resolve-prefer", resolve.prefer]
    words += ["resolve-opts", "allow-dup-ip" if resolve.allow_dup_ip else "prevent-dup-ip"]
    words[-1] += ",ignore-weight" * resolve.ignore_weight
    if resolve.nets:
        words += ["resolve-net", ",".join(resolve.nets)]
    return words


def _server_words(server: ServerSettings) -> list[str]:
    named = server.unresolved or server.resolve is not None
    words = _name_words(server) if named else [_address(server.address)]
    if server.forced_id:
        words += ["id", str(server.id)]
    words += ["weight", str(server.weight)]
    words += _words(server, ("backup", "disabled", "tfo", "non-stick"))
    words += ["pool-max-conn", str(server.pool_max_conn), "max-reuse", str(server.max_reuse)]
    words += ["pool-purge-delay", duration(server.pool_purge_delay)]
    if server.tcp_ut is not None:
        words += ["tcp-ut", duration(server.tcp_ut)]
    if server.source is not None:
        words += _source_words(server.source)
    if server.cookie:
        words += ["cookie", text(server.cookie)]
    if server.hash_key != "id":
        words += ["hash-key", server.hash_key]
    if server.redir:
        words += ["redir", text(server.redir)]
    if server.slowstart:
        words += ["slowstart", duration(server.slowstart)]
    if server.log_proto != "legacy":
        words += ["log-proto", server.log_proto]
    if server.socks4 is not None:
        words += ["socks4", _address(server.socks4)]
    if server.send_proxy is not None:
        words += _send_proxy_words(server.send_proxy)
    for name in _STATE_VALUES:
        value = getattr(server.states, name.replace("-", "_"))
        if value:
            words += [name, str(value)]
    if server.shutdown_sessions:
        words += ["on-marked-down", "shutdown-sessions"]
    if server.shutdown_backups:
        words += ["on-marked-up", "shutdown-backup-sessions"]
    agent = server.agent
    if agent is not None:
        words += [
            "agent-check",
            "agent-port",
            str(agent.port),
            "agent-inter",
            duration(agent.inter),
        ]
        if agent.address is not None:
            words += ["agent-addr", _address(agent.address)]
        if agent.send:
            words += ["agent-send", text(agent.send)]
    words += ["rise", str(server.rise), "fall", str(server.fall)]
    check = server.check
    if check is not None:
        words += ["check", "inter", duration(check.inter)]
        for name in ("fastinter", "downinter"):
            value = getattr(check, name)
            if value is not None:
                words += [name, duration(value)]
        if check.address is not None:
            words += ["addr", _address(check.address)]
        if check.port is not None:
            words += ["port", str(check.port)]
        if check.send_proxy is not None:
            words.append("check-send-proxy")
        if check.via_socks4:
            words.append("check-via-socks4")
    return words
