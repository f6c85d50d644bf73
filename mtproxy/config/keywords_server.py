"""`server` and `default-server`: address and options (manual 5.2).

Exports `KEYWORDS` (statements) and `SERVER_OPTIONS` (words behind the address).
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_network

from mtproxy.base.address import AddressError, Port, parse_address
from mtproxy.base.addresses import Address, AddressKind
from mtproxy.base.errors import ConfigError
from mtproxy.base.nearest import nearest
from mtproxy.config.context import Context
from mtproxy.config.keywords_server_state import STATE_OPTIONS
from mtproxy.config.keywords_source import server_source, usesrc_alone
from mtproxy.config.model import (
    BACK,
    BACK_ONLY,
    Args,
    Keyword,
    Statement,
    Support,
    check_name,
)
from mtproxy.config.options import Option, read
from mtproxy.config.server_draft import ServerDraft

Apply = Callable[[Context, Args, ServerDraft], None]


ServerOption = Option[ServerDraft]


def _set(field: str, value: object = True) -> Apply:
    def apply(ctx: Context, args: Args, draft: ServerDraft) -> None:
        setattr(draft, field, value)

    return apply


def _number(field: str, minimum: int | None = None, maximum: int | None = None) -> Apply:
    def apply(ctx: Context, args: Args, draft: ServerDraft) -> None:
        setattr(draft, field, args.integer(minimum, maximum))

    return apply


def _delay(field: str, *, zero: bool = False) -> Apply:
    def apply(ctx: Context, args: Args, draft: ServerDraft) -> None:
        value = args.time()
        if not value and not zero:
            raise ConfigError(f"'{args.name}' : invalid value 0, a positive time is expected")
        setattr(draft, field, value)

    return apply


def _marked(field: str, word: str) -> Apply:
    def apply(ctx: Context, args: Args, draft: ServerDraft) -> None:
        args.choice(word)
        setattr(draft, field, True)

    return apply


def _check_address(ctx: Context, args: Args, draft: ServerDraft) -> None:
    draft.check_address = _address(ctx, args, "addr", Port.OPTIONAL)


def _check_port(ctx: Context, args: Args, draft: ServerDraft) -> None:
    # Zero stands for the server's own port.
    draft.check_port = args.integer(0, 65535) or None


def _socks4(ctx: Context, args: Args, draft: ServerDraft) -> None:
    draft.socks4 = _address(ctx, args, "socks4", Port.MANDATORY)


def _address(ctx: Context, args: Args, name: str, rule: Port) -> Address:
    text = args.value("an address")
    try:
        return parse_address(text, ctx.environ, port=rule, resolver=ctx.resolver).address
    except AddressError as error:
        raise ConfigError(f"'{name}' : {error}", word=text) from None


def _proto(ctx: Context, args: Args, draft: ServerDraft) -> None:
    draft.proto = _multiplexer(args)


def _check_proto(ctx: Context, args: Args, draft: ServerDraft) -> None:
    draft.check_proto = _multiplexer(args)


def _multiplexer(args: Args) -> str:
    title = args.name
    name = args.value("a protocol name")
    if name in ("h2", "fcgi"):
        raise ConfigError(f"'{title} {name}' is known but not supported by mtproxy yet", word=name)
    if name not in ("h1", "none"):
        raise ConfigError(f"'{title}' : unknown MUX protocol '{name}'", word=name)
    return name


def _init_addr(ctx: Context, args: Args, draft: ServerDraft) -> None:
    methods = tuple(args.value("a list of methods").split(","))
    for method in methods:
        if method not in ("last", "libc", "none") and not _is_ip(method):
            raise ConfigError(
                f"'init-addr' : unknown method or invalid address '{method}'", word=method
            )
    draft.init_addr = methods


def _resolvers(ctx: Context, args: Args, draft: ServerDraft) -> None:
    draft.resolvers = args.value("the name of a resolvers section")


def _resolve_prefer(ctx: Context, args: Args, draft: ServerDraft) -> None:
    draft.resolve_prefer = args.choice("ipv4", "ipv6")


_RESOLVE_OPTS = ("allow-dup-ip", "ignore-weight", "prevent-dup-ip")


def _resolve_opts(ctx: Context, args: Args, draft: ServerDraft) -> None:
    for word in args.value("a list of options").split(","):
        if word == "ignore-weight":
            draft.ignore_weight = True
        elif word in _RESOLVE_OPTS:
            draft.allow_dup_ip = word == "allow-dup-ip"
        elif word:
            raise ConfigError(
                f"'resolve-opts' : unknown option '{word}'",
                word=word,
                suggestion=nearest(word, _RESOLVE_OPTS),
            )


#: networks that HAProxy takes in one `resolve-net`
_MOST_NETS = 5


def _resolve_net(ctx: Context, args: Args, draft: ServerDraft) -> None:
    nets = [text for text in args.value("a list of networks").split(",") if text]
    for text in nets:
        try:
            ip_network(text, strict=False)
        except ValueError:
            raise ConfigError(f"'resolve-net' : invalid network '{text}'", word=text) from None
    draft.resolve_nets += tuple(nets)
    if len(draft.resolve_nets) > _MOST_NETS:
        raise ConfigError(f"'resolve-net' : more than {_MOST_NETS} networks", word=nets[-1])


def _is_ip(text: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, text)
        except OSError:
            continue
        return True
    return False


def _ws(ctx: Context, args: Args, draft: ServerDraft) -> None:
    if args.choice("auto", "h1", "h2") == "h2":
        raise ConfigError("'ws h2' is known but not supported by mtproxy yet", word="h2")


def _pool_low_conn(ctx: Context, args: Args, draft: ServerDraft) -> None:
    args.integer(0)


def _log_proto(ctx: Context, args: Args, draft: ServerDraft) -> None:
    draft.log_proto = args.choice("legacy", "octet-count")


def _cookie(ctx: Context, args: Args, draft: ServerDraft) -> None:
    draft.cookie = args.value("a value")


def _redir(ctx: Context, args: Args, draft: ServerDraft) -> None:
    draft.redir = args.value("a prefix")


def _hash_key(ctx: Context, args: Args, draft: ServerDraft) -> None:
    draft.hash_key = args.choice("id", "addr", "addr-port")


def _slowstart(ctx: Context, args: Args, draft: ServerDraft) -> None:
    # HAProxy counts in whole seconds
    draft.slowstart = -(-args.time() // 1000) * 1000


#: `proxy-v2-options`, and those that tell of TLS
_PROXY_V2_OPTIONS = ("authority", "crc32c", "unique-id")
_PROXY_V2_TLS = ("ssl", "cert-cn", "cert-key", "cert-sig", "ssl-cipher")


def _proxy_v2_options(ctx: Context, args: Args, draft: ServerDraft) -> None:
    words = args.value("a list of options").split(",")
    for word in words:
        if word in _PROXY_V2_TLS:
            raise ConfigError(
                f"'proxy-v2-options {word}' is known but not supported by mtproxy yet (TLS)",
                word=word,
            )
        if word not in _PROXY_V2_OPTIONS:
            raise ConfigError(
                f"'proxy-v2-options' : unknown option '{word}'",
                word=word,
                suggestion=nearest(word, _PROXY_V2_OPTIONS + _PROXY_V2_TLS),
            )
    draft.proxy_v2_options |= frozenset(words)


def _later(name: str, feature: str, arguments: int = 0) -> ServerOption:
    return ServerOption(name, None, Support.LATER, feature, arguments)


def _default(name: str, why: str) -> ServerOption:
    """A `no-...` word for a feature that is off anyway."""
    return ServerOption(name, lambda ctx, args, draft: None, Support.NO_EFFECT, why)


SERVER_OPTIONS: tuple[ServerOption, ...] = (
    *STATE_OPTIONS,
    ServerOption("addr", _check_address),
    ServerOption("backup", _set("backup")),
    ServerOption("check", _set("check")),
    ServerOption("check-send-proxy", _set("check_send_proxy")),
    ServerOption("check-via-socks4", _set("check_via_socks4")),
    ServerOption("cookie", _cookie),
    ServerOption("disabled", _set("disabled")),
    ServerOption("downinter", _delay("downinter")),
    ServerOption("enabled", _set("disabled", False)),
    ServerOption("fall", _number("fall", 1)),
    ServerOption("fastinter", _delay("fastinter")),
    ServerOption("hash-key", _hash_key),
    ServerOption("id", _number("id", 1), in_default=False, arguments=1),
    ServerOption("init-addr", _init_addr),
    ServerOption("inter", _delay("inter")),
    ServerOption("max-reuse", _number("max_reuse", -1)),
    ServerOption("maxconn", _number("maxconn", 0)),
    ServerOption("maxqueue", _number("maxqueue", 0)),
    ServerOption("minconn", _number("minconn", 0)),
    ServerOption("on-marked-down", _marked("shutdown_sessions", "shutdown-sessions")),
    ServerOption("on-marked-up", _marked("shutdown_backups", "shutdown-backup-sessions")),
    ServerOption("no-backup", _set("backup", False)),
    ServerOption("no-check", _set("check", False)),
    ServerOption("no-check-send-proxy", _set("check_send_proxy", False)),
    ServerOption("no-send-proxy", _set("send_proxy_v1", False)),
    ServerOption("no-send-proxy-v2", _set("send_proxy_v2", False)),
    ServerOption("no-tfo", _set("tfo", False)),
    ServerOption("non-stick", _set("non_stick")),
    ServerOption("pool-max-conn", _number("pool_max_conn", -1)),
    ServerOption("pool-purge-delay", _delay("pool_purge_delay", zero=True)),
    ServerOption("port", _check_port),
    ServerOption("proxy-v2-options", _proxy_v2_options),
    ServerOption("redir", _redir),
    ServerOption("resolve-net", _resolve_net),
    ServerOption("resolve-opts", _resolve_opts),
    ServerOption("resolve-prefer", _resolve_prefer),
    ServerOption("resolvers", _resolvers),
    ServerOption("rise", _number("rise", 1)),
    ServerOption("send-proxy", _set("send_proxy_v1")),
    ServerOption("send-proxy-v2", _set("send_proxy_v2")),
    ServerOption("slowstart", _slowstart),
    ServerOption("socks4", _socks4),
    ServerOption("source", server_source),
    ServerOption("stick", _set("non_stick", False)),
    ServerOption("tcp-ut", _delay("tcp_ut", zero=True)),
    ServerOption("tfo", _set("tfo")),
    ServerOption("weight", _number("weight", 0, 256)),
    ServerOption("log-proto", _log_proto),
    ServerOption(
        "pool-low-conn",
        _pool_low_conn,
        Support.NO_EFFECT,
        "no thread takes idle connections from another",
    ),
    ServerOption(
        "check-proto", _check_proto, Support.NO_EFFECT, "every check has just one multiplexer here"
    ),
    ServerOption("proto", _proto, Support.NO_EFFECT, "every mode has just one multiplexer here"),
    ServerOption("ws", _ws, Support.NO_EFFECT, "WebSocket is always carried by HTTP/1.1"),
    _default("no-check-ssl", "TLS is off"),
    _default("no-send-proxy-v2-ssl", "TLS is off"),
    _default("no-send-proxy-v2-ssl-cn", "TLS is off"),
    _default("no-ssl", "TLS is off"),
    _default("no-verifyhost", "TLS is off"),
    _later("allow-0rtt", "TLS"),
    _later("alpn", "TLS", 1),
    _later("ca-file", "TLS", 1),
    _later("check-alpn", "TLS", 1),
    _later("check-pool-conn-name", "connection pools for checks", 1),
    _later("check-reuse-pool", "connection pools for checks"),
    _later("check-sni", "TLS", 1),
    _later("check-sni-auto", "TLS"),
    _later("check-ssl", "TLS"),
    _later("ciphers", "TLS", 1),
    _later("ciphersuites", "TLS", 1),
    _later("client-sigalgs", "TLS", 1),
    _later("crl-file", "TLS", 1),
    _later("crt", "TLS", 1),
    _later("curves", "TLS", 1),
    _later("force-sslv3", "TLS"),
    _later("force-tlsv10", "TLS"),
    _later("force-tlsv11", "TLS"),
    _later("force-tlsv12", "TLS"),
    _later("force-tlsv13", "TLS"),
    _later("guid", "GUIDs", 1),
    _later("healthcheck", "health check sections", 1),
    _later("idle-ping", "HTTP/2", 1),
    _later("log-bufsize", "log backends", 1),
    _later("namespace", "network namespaces", 1),
    _later("no-check-sni-auto", "TLS"),
    _later("no-renegotiate", "TLS"),
    _later("no-sni-auto", "TLS"),
    _later("no-ssl-reuse", "TLS"),
    _later("no-sslv3", "TLS"),
    _later("no-tls-tickets", "TLS"),
    _later("no-tlsv10", "TLS"),
    _later("no-tlsv11", "TLS"),
    _later("no-tlsv12", "TLS"),
    _later("no-tlsv13", "TLS"),
    _later("npn", "TLS", 1),
    _later("pool-conn-name", "named connection pools", 1),
    _later("renegotiate", "TLS"),
    _later("send-proxy-v2-ssl", "TLS"),
    _later("send-proxy-v2-ssl-cn", "TLS"),
    _later("set-proxy-v2-tlv-fmt", "TLVs made by formats", 1),
    _later("shard", "peers", 1),
    _later("sigalgs", "TLS", 1),
    _later("sni", "TLS", 1),
    _later("sni-auto", "TLS"),
    _later("ssl", "TLS"),
    _later("ssl-max-ver", "TLS", 1),
    _later("ssl-min-ver", "TLS", 1),
    _later("ssl-reuse", "TLS"),
    _later("tcp-md5sig", "TCP MD5 signatures", 1),
    _later("tls-tickets", "TLS"),
    ServerOption("usesrc", usesrc_alone),
    _later("verify", "TLS", 1),
    _later("verifyhost", "TLS", 1),
)

_BY_NAME = {option.name: option for option in SERVER_OPTIONS}


#: how the first address of a name is found unless `init-addr` says it; the last one where the name
#: is looked up later as well
_INIT_ADDR = ("last", "libc", "none")


def _resolve_server(ctx: Context, st: Statement, draft: ServerDraft, title: str, at: int) -> None:
    """Address of the server; `init-addr` and -dr say what to do when a name is unknown.

    Done after the options are read, because `init-addr` stands behind the address.
    """
    text = st.words[at]
    methods = list(draft.init_addr)
    if not methods:
        methods = list(_INIT_ADDR if draft.resolvers is not None else _INIT_ADDR[:2])
    if ctx.cmdline.ignore_resolution_failures:
        methods.append("none")
    fallback = next((m for m in methods if m == "none" or _is_ip(m)), None)
    before = methods[: methods.index(fallback)] if fallback is not None else methods
    failed: str | None = None
    asked = False

    def resolve(name: str, family: int) -> list[str]:
        nonlocal failed, asked
        if not name.startswith("_") and "libc" in before:
            asked = True
            found = ctx.resolver(name, family)
            if found:
                return found
        if fallback is None:
            if not asked:
                raise AddressError(f"no method found to resolve address '{name}'")
            return []
        failed = name
        # of no family: what comes later may be of the other one
        return ["0.0.0.0" if fallback == "none" else fallback]

    parsed = parse_address(text, ctx.environ, port=Port.OPTIONAL_OR_OFFSET, resolver=resolve)
    address = parsed.address
    if address.kind in (AddressKind.FD, AddressKind.UDP4, AddressKind.UDP6):
        raise ConfigError(
            f"'{title}' : a stream address to connect to is expected (got '{text}')", word=text
        )
    draft.hostname = parsed.hostname
    draft.unresolved = failed is not None and fallback == "none"
    if draft.unresolved:
        address = replace(address, kind=AddressKind.NONE, host="")
    draft.address = address
    if parsed.hostname is not None and parsed.hostname.startswith("_"):
        draft.srv_name, draft.hostname = parsed.hostname, None
    if failed is not None and asked:
        what = "disabling server" if draft.unresolved else "falling back to the configured address"
        ctx.warn(st.location, f"'{title}' : could not resolve address '{failed}', {what}")


def read_server(ctx: Context, st: Statement) -> None:
    """A `server` line of the section in `ctx.current`."""
    name = st.required(1, "a name")
    st.required(2, "an address")
    _check_new(ctx, st, name)
    check_name(name, "server")
    _add_server(ctx, _read_draft(ctx, st, name, 2))


def _read_draft(ctx: Context, st: Statement, name: str, at: int) -> ServerDraft:
    """What a line says of a server; the address is its word number `at`."""
    proxy = ctx.proxy
    title = f"{st.words[0]} {proxy.name}/{name}"
    draft = replace(proxy.default_server, name=name, location=st.location)
    read(ctx, st, at + 1, title, _BY_NAME, draft)
    try:
        _resolve_server(ctx, st, draft, title, at)
    except AddressError as error:
        raise ConfigError(f"'{title}' : {error}", word=st.words[at]) from None
    return draft


def _check_new(ctx: Context, st: Statement, name: str) -> None:
    """Complain if there is a server of that name; what else is wrong is told too."""
    earlier = ctx.proxy.servers_by_name.get(name)
    if earlier is not None:
        error = ConfigError(
            f"'{st.words[0]} {ctx.proxy.name}/{name}' : another server named '{name}' was already"
            f" defined at line {earlier.location.line}, please use distinct names",
            word=st.words[1],
        )
        ctx.report(st, error)


def _add_server(ctx: Context, draft: ServerDraft) -> None:
    proxy = ctx.proxy
    if draft.name not in proxy.servers_by_name:
        proxy.servers.append(draft)
        proxy.servers_by_name[draft.name] = draft


#: `server-template PREFIX NUMBER` or `FIRST-LAST`
_TEMPLATE_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")


def _server_template(ctx: Context, st: Statement) -> None:
    """As many servers as the line says, all alike: PREFIX and a number are their names."""
    prefix = st.required(1, "a prefix")
    numbers = st.required(2, "a number or a range")
    st.required(3, "an address")
    check_name(prefix, "server-template")
    found = _TEMPLATE_RANGE.fullmatch(numbers)
    first, last = (1, 0) if found is None else (int(found[1]), int(found[2] or found[1]))
    if found is not None and found[2] is None:
        first = 1
    if last < first or last > _LAST_OF_TEMPLATE:
        raise ConfigError(
            f"'server-template {ctx.proxy.name}/{prefix}' : wrong number or range '{numbers}'",
            word=numbers,
        )
    draft = _read_draft(ctx, st, prefix, 3)
    for number in range(first, last + 1):
        # an id can be that of the first alone
        name, given_id = f"{prefix}{number}", draft.id if number == first else None
        _check_new(ctx, st, name)
        _add_server(ctx, replace(draft, name=name, id=given_id))


#: far more than anybody has; a slip of the pen must not fill the memory
_LAST_OF_TEMPLATE = 1_000_000


def _default_server(ctx: Context, st: Statement) -> None:
    title = f"default-server {ctx.proxy.name}".rstrip()
    read(ctx, st, 1, title, _BY_NAME, ctx.proxy.default_server)


KEYWORDS: tuple[Keyword, ...] = (
    Keyword("server", BACK_ONLY, read_server, strict=True),
    Keyword("default-server", BACK, _default_server, strict=True),
    Keyword("server-template", BACK_ONLY, _server_template, strict=True),
)
