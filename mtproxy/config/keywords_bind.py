"""`bind` and `stats socket`: addresses and the options behind them (manual 5.1).

Exports `KEYWORDS` (statements) and `BIND_OPTIONS` (words behind the address).
"""

from __future__ import annotations

import grp
import os
import pwd
import re
import stat
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mtproxy.base.address import AddressError, parse_addresses
from mtproxy.base.addresses import Address, AddressKind, BindSettings
from mtproxy.base.errors import ConfigError
from mtproxy.base.nearest import nearest
from mtproxy.config.context import Context
from mtproxy.config.model import (
    FRONT_ONLY,
    IN_GLOBAL,
    Args,
    Keyword,
    Statement,
    Support,
    integer,
    time,
)
from mtproxy.config.options import Option, read

#: field of BindSettings -> value
Values = dict[str, Any]


BindOption = Option[Values]
Apply = Callable[[Context, Args, Values], None]


def _set(field: str, value: object = True) -> Apply:
    def apply(ctx: Context, args: Args, values: Values) -> None:
        values[field] = value

    return apply


def _text(field: str) -> Apply:
    def apply(ctx: Context, args: Args, values: Values) -> None:
        values[field] = args.value()

    return apply


def _number(field: str, minimum: int | None = None, maximum: int | None = None) -> Apply:
    def apply(ctx: Context, args: Args, values: Values) -> None:
        values[field] = args.integer(minimum, maximum)

    return apply


def _mode(ctx: Context, args: Args, values: Values) -> None:
    """Permissions of a UNIX socket, octal."""
    text = args.value("permissions in octal")
    try:
        mode = int(text, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o7777:
        raise ConfigError(f"'mode' : '{text}' is not a valid octal mode", word=text)
    values["mode"] = mode


def _user(ctx: Context, args: Args, values: Values) -> None:
    name = args.value("a user name")
    try:
        values["uid"] = pwd.getpwnam(name).pw_uid
    except KeyError:
        raise ConfigError(f"'user' : unknown user name '{name}'", word=name) from None
    values["user"] = name


def _group(ctx: Context, args: Args, values: Values) -> None:
    name = args.value("a group name")
    try:
        values["gid"] = grp.getgrnam(name).gr_gid
    except KeyError:
        raise ConfigError(f"'group' : unknown group name '{name}'", word=name) from None
    values["group"] = name


def _mss(ctx: Context, args: Args, values: Values) -> None:
    value = args.integer(-65535, 65535)
    if not value:
        raise ConfigError("'mss' expects a segment size whose absolute value is 1 to 65535")
    values["mss"] = value


def _level(ctx: Context, args: Args, values: Values) -> None:
    values["level"] = args.choice("user", "operator", "admin")


def _severity_output(ctx: Context, args: Args, values: Values) -> None:
    values["severity_output"] = args.choice("none", "number", "string")


def _tcp_ut(ctx: Context, args: Args, values: Values) -> None:
    values["tcp_ut"] = args.time()


def _proto(ctx: Context, args: Args, values: Values) -> None:
    name = args.value("a protocol name")
    if name == "h2":
        raise ConfigError("'proto h2' is known but not supported by mtproxy yet", word=name)
    if name not in ("h1", "none"):
        raise ConfigError(f"'proto' : unknown MUX protocol '{name}'", word=name)
    values["proto"] = name


#: as many threads as there may be
_MOST_THREADS = 64
_RANGE = re.compile(r"([0-9]{1,9})(?:(-)([0-9]{1,9})?)?")


def _thread_set(name: str, text: str) -> str:
    """`all`, `odd`, `even`, a number or a range."""
    if text in ("all", "odd", "even"):
        return text
    found = _RANGE.fullmatch(text)
    if found is not None:
        first = int(found[1])
        last = int(found[3]) if found[3] else _MOST_THREADS if found[2] else first
        first, last = min(first, last), max(first, last)
        if first >= 1 and last <= _MOST_THREADS:
            return f"{first}-{last}"
    raise ConfigError(
        f"'{name}' : '{text}' is no valid number or range, 1 to {_MOST_THREADS}", word=text
    )


def threads_of(text: str, nbthread: int) -> tuple[int, ...]:
    """The numbers, from 0, of the threads that a `thread` word means and that there are."""
    match text:
        case "all":
            return tuple(range(nbthread))
        case "odd":  # counted from 1
            return tuple(range(0, nbthread, 2))
        case "even":
            return tuple(range(1, nbthread, 2))
    first, _, last = text.partition("-")
    return tuple(range(int(first) - 1, min(int(last), nbthread)))


def _thread(ctx: Context, args: Args, values: Values) -> None:
    text = args.value("a set of threads")
    group, slash, threads = text.rpartition("/")
    if slash and group != "1":
        raise ConfigError(f"'thread' : there is one thread group, 1 (got '{text}')", word=text)
    values["threads"] = _thread_set("thread", threads)


def _process(ctx: Context, args: Args, values: Values) -> None:
    """The old way: process 1, which is all there is, and perhaps threads."""
    text = args.value("a process")
    process, slash, threads = text.partition("/")
    if process not in ("all", "odd", "even", "1", "1-1"):
        raise ConfigError(f"'process' : there is one process, 1 (got '{text}')", word=text)
    if slash:
        values["threads"] = _thread_set("process", threads)


def _shards(ctx: Context, args: Args, values: Values) -> None:
    text = args.value("a number")
    if text == "by-thread":
        values["shards"] = 0
    elif text == "by-group":
        values["shards"] = 1  # there is one
    else:
        values["shards"] = integer("shards", text, 1, _MOST_THREADS)


def _nice(ctx: Context, args: Args, values: Values) -> None:
    args.integer(-1024, 1024)


def _expose_fd(ctx: Context, args: Args, values: Values) -> None:
    args.choice("listeners")


def _tls(name: str, arguments: int = 0) -> BindOption:
    return BindOption(name, None, Support.LATER, "TLS", arguments)


BIND_OPTIONS: tuple[BindOption, ...] = (
    BindOption("accept-proxy", _set("accept_proxy")),
    BindOption("backlog", _number("backlog", 0)),
    BindOption("defer-accept", _set("defer_accept")),
    BindOption("gid", _number("gid", 0)),
    BindOption("group", _group),
    BindOption("id", _number("id", 1)),
    BindOption("interface", _text("interface")),
    BindOption("level", _level),
    BindOption("maxconn", _number("maxconn", 0)),
    BindOption("mode", _mode),
    BindOption("mss", _mss),
    BindOption("name", _text("name")),
    BindOption("process", _process),
    BindOption("severity-output", _severity_output),
    BindOption("shards", _shards),
    BindOption("tcp-ut", _tcp_ut),
    BindOption("tfo", _set("tfo")),
    BindOption("thread", _thread),
    BindOption("transparent", _set("transparent")),
    BindOption("uid", _number("uid", 0)),
    BindOption("user", _user),
    BindOption("v4v6", _set("v4v6")),
    BindOption("v6only", _set("v6only")),
    BindOption("proto", _proto, Support.NO_EFFECT, "every mode has just one multiplexer here"),
    BindOption(
        "expose-fd", _expose_fd, Support.NO_EFFECT, "listeners are not handed to a new process yet"
    ),
    BindOption("nice", _nice, Support.NO_EFFECT, "tasklets of all listeners have equal priority"),
    BindOption("accept-netscaler-cip", None, Support.LATER, "the NetScaler CIP header", 1),
    BindOption("default-crt", None, Support.LATER, "TLS", 1),
    BindOption("guid-prefix", None, Support.LATER, "GUIDs", 1),
    BindOption("idle-ping", None, Support.LATER, "HTTP/2", 1),
    BindOption("label", None, Support.LATER, "listener labels", 1),
    BindOption("namespace", None, Support.LATER, "network namespaces", 1),
    BindOption("nbconn", None, Support.LATER, "reverse HTTP", 1),
    BindOption("quic-cc-algo", None, Support.LATER, "QUIC", 1),
    BindOption("quic-force-retry", None, Support.LATER, "QUIC"),
    BindOption("quic-socket", None, Support.LATER, "QUIC", 1),
    BindOption("tcp-md5sig", None, Support.LATER, "TCP MD5 signatures", 1),
    _tls("allow-0rtt"),
    _tls("alpn", 1),
    _tls("ca-file", 1),
    _tls("ca-ignore-err", 1),
    _tls("ca-sign-file", 1),
    _tls("ca-sign-pass", 1),
    _tls("ca-verify-file", 1),
    _tls("ciphers", 1),
    _tls("ciphersuites", 1),
    _tls("client-sigalgs", 1),
    _tls("crl-file", 1),
    _tls("crt", 1),
    _tls("crt-ignore-err", 1),
    _tls("crt-list", 1),
    _tls("curves", 1),
    _tls("ecdhe", 1),
    _tls("force-sslv3"),
    _tls("force-tlsv10"),
    _tls("force-tlsv11"),
    _tls("force-tlsv12"),
    _tls("force-tlsv13"),
    _tls("generate-certificates"),
    _tls("no-alpn"),
    _tls("no-ca-names"),
    _tls("no-sslv3"),
    _tls("no-strict-sni"),
    _tls("no-tls-tickets"),
    _tls("no-tlsv10"),
    _tls("no-tlsv11"),
    _tls("no-tlsv12"),
    _tls("no-tlsv13"),
    _tls("npn", 1),
    _tls("ocsp-update", 1),
    _tls("prefer-client-ciphers"),
    _tls("sigalgs", 1),
    _tls("ssl"),
    _tls("ssl-max-ver", 1),
    _tls("ssl-min-ver", 1),
    _tls("strict-sni"),
    _tls("tls-ticket-keys", 1),
    _tls("tls-tickets"),
    _tls("verify", 1),
)

_BY_NAME = {option.name: option for option in BIND_OPTIONS}


def read_binds(
    ctx: Context, st: Statement, at: int, title: str, *, datagrams: bool = False
) -> list[BindSettings]:
    """The addresses of word number `at`, with the options behind it."""
    try:
        addresses = parse_addresses(st.words[at], ctx.environ, resolver=ctx.resolver)
        for address in addresses:
            if not datagrams:
                _check_address(address)
    except AddressError as error:
        raise ConfigError(f"'{title}' : {error}", word=st.words[at]) from None
    values: Values = {}
    read(ctx, st, at + 1, title, _BY_NAME, values)
    if "id" in values and len(addresses) > 1:
        raise ConfigError(f"'{title}' : 'id' can only be used with a single socket", word="id")
    binds = []
    for address in addresses:
        merged = dict(values)
        if address.kind is AddressKind.UNIX:
            merged = {**ctx.global_.unix_bind, **values}
            prefix = merged.pop("prefix", "")
            address = replace(address, host=f"{prefix}{address.host}")
        binds.append(BindSettings(address=address, location=st.location, **merged))
    return binds


def _check_address(address: Address) -> None:
    """What can be listened on: a stream address, or a descriptor that is a socket."""
    if address.kind in (AddressKind.UDP4, AddressKind.UDP6):
        raise AddressError(f"a stream address is expected (got '{address.text}')")
    if address.kind is AddressKind.FD:
        try:
            is_socket = stat.S_ISSOCK(os.fstat(address.fd).st_mode)
        except (OSError, OverflowError):
            raise AddressError(f"file descriptor {address.fd} is not open") from None
        if not is_socket:
            raise AddressError(f"file descriptor {address.fd} is not a socket")


def read_bind(ctx: Context, st: Statement) -> None:
    """`bind` of the section in `ctx.current`."""
    text = st.required(1, "an address")
    # Whatever goes wrong now, the proxy does not lack a `bind` line.
    ctx.proxy.bind_lines += 1
    binds = read_binds(ctx, st, 1, f"bind {text}")
    number = binds[0].id if binds else None
    for earlier in ctx.proxy.binds:
        if number is not None and earlier.id == number:
            raise ConfigError(
                f"'bind {text}' : custom id {number} already used at"
                f" {earlier.location.file}:{earlier.location.line}",
                word=str(number),
            )
    ctx.proxy.binds.extend(binds)


def _stats_socket(ctx: Context, st: Statement) -> None:
    text = st.required(2, "an address", taken=2)
    ctx.note_stats()
    binds = read_binds(ctx, st, 2, f"stats socket {text}")
    if any(bind.accept_proxy for bind in binds):
        raise ConfigError(
            f"'stats socket {text}' : 'accept-proxy' is not supported by mtproxy here",
            word="accept-proxy",
        )
    ctx.global_.stats_binds.extend(binds)


def _stats_timeout(ctx: Context, st: Statement) -> None:
    st.at_most(1, taken=2)
    value = time("stats timeout", st.required(2, "a time", taken=2))
    if not value:
        raise ConfigError("'stats timeout' expects a positive time")
    ctx.note_stats()
    ctx.global_.stats_timeout = value


def _unix_bind(ctx: Context, st: Statement) -> None:
    """Defaults for UNIX sockets: prefix, mode, user, group, uid, gid."""
    args = Args(st.words, 1)
    values: Values = {}
    allowed = ("prefix", "mode", "user", "uid", "group", "gid")
    while args.more():
        word = args.next()
        args.name = f"unix-bind {word}"
        if word == "prefix":
            values["prefix"] = args.value("a path prefix")
            continue
        option = _BY_NAME.get(word)
        if word not in allowed or option is None or option.apply is None:
            raise ConfigError(
                f"'unix-bind' : unknown keyword '{word}'",
                word=word,
                suggestion=nearest(word, allowed),
            )
        option.apply(ctx, args, values)
    ctx.global_.unix_bind = values


KEYWORDS: tuple[Keyword, ...] = (
    Keyword("bind", FRONT_ONLY, read_bind),
    Keyword("stats socket", IN_GLOBAL, _stats_socket),
    Keyword("stats timeout", IN_GLOBAL, _stats_timeout),
    Keyword("unix-bind", IN_GLOBAL, _unix_bind),
)
