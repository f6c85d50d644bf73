"""`log` in global and proxies, with its targets, formats, facilities and levels (manual 4.2).

Exports `KEYWORDS`.
"""

from __future__ import annotations

from dataclasses import replace

from mtproxy.base.address import AddressError, Port, parse_address
from mtproxy.base.errors import ConfigError
from mtproxy.base.settings import Address, AddressKind, LogSettings
from mtproxy.config.context import Context
from mtproxy.config.model import (
    FRONT,
    GLOBAL,
    IN_GLOBAL,
    PROXY,
    Args,
    Keyword,
    Statement,
    Support,
    choice,
)
from mtproxy.log.syslog import FACILITIES, FORMATS, LEVELS

#: where syslog listens when the target gives no port
SYSLOG_PORT = 514

_UDP = {AddressKind.IPV4: AddressKind.UDP4, AddressKind.IPV6: AddressKind.UDP6}


def _target(ctx: Context, text: str) -> tuple[Address | None, str | None]:
    if text in ("stdout", "stderr"):
        return None, text
    if text.startswith("ring@"):
        raise ConfigError("log to a ring buffer is known but not supported by mtproxy yet")
    if text.startswith("backend@"):
        raise ConfigError("log to a backend is known but not supported by mtproxy yet")
    try:
        address = parse_address(
            text, ctx.environ, port=Port.OPTIONAL, resolver=ctx.resolver
        ).address
    except AddressError as error:
        raise ConfigError(f"'log' : {error}", word=text) from None
    kind = _UDP.get(address.kind, address.kind)
    port = address.port
    if kind in (AddressKind.UDP4, AddressKind.UDP6) and not port:
        port = SYSLOG_PORT
    return replace(address, kind=kind, port=port), None


def _log(ctx: Context, st: Statement) -> None:
    logs = ctx.global_.logs if ctx.current is None else ctx.proxy.logs
    if st.prefix == "no":
        st.at_most(0)
        logs.clear()
        return
    if ctx.current is not None and st.arg(1) == "global":
        st.at_most(1)
        if None not in ctx.proxy.logs:
            ctx.proxy.logs.append(None)
        return
    if not st.arg(1) or not st.arg(2):
        what = "<address> and <facility>" + ("" if ctx.current is None else " or 'global'")
        raise ConfigError(f"'log' expects {what} as arguments")
    entry = _entry(ctx, st)
    if ctx.current is None:
        ctx.global_.logs.append(entry)
    else:
        ctx.proxy.logs.append(entry)


def _entry(ctx: Context, st: Statement) -> LogSettings:
    args = Args(st.words, 1)
    address, stdio = _target(ctx, args.next())
    length = 1024
    form = "local"
    while args.more() and args.words[args.position] in ("len", "format", "sample", "profile"):
        word = args.next()
        args.name = f"log {word}"
        if word == "len":
            length = args.integer(80, 65535)
        elif word == "format":
            form = args.choice(*FORMATS)
        else:
            raise ConfigError(
                f"'log ... {word}' is known but not supported by mtproxy yet", word=word
            )
    rest = args.words[args.position :]
    if not rest or not rest[0]:
        raise ConfigError("'log' expects a facility")
    if len(rest) > 3:
        raise ConfigError(f"'log' cannot handle unexpected argument '{rest[3]}'", word=rest[3])
    facility = choice("log facility", rest[0], FACILITIES)
    level = choice("log level", rest[1], LEVELS) if len(rest) > 1 else "debug"
    minlevel = choice("log minimum level", rest[2], LEVELS) if len(rest) > 2 else "emerg"
    return LogSettings(
        address=address,
        stdio=stdio,
        facility=facility,
        level=level,
        minlevel=minlevel,
        length=length,
        format=form,
        location=st.location,
    )


def _log_tag(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    tag = st.required(1, "a tag")
    if ctx.current is None:
        ctx.global_.values["log_tag"] = tag
    else:
        ctx.proxy.log_tag = tag


def _log_send_hostname(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    # An empty string stands for the host's own name.
    ctx.global_.values["log_send_hostname"] = st.arg(1)


KEYWORDS: tuple[Keyword, ...] = (
    Keyword("log", PROXY | {GLOBAL}, _log, negatable=True),
    Keyword("log-tag", PROXY | {GLOBAL}, _log_tag),
    Keyword("log-send-hostname", IN_GLOBAL, _log_send_hostname),
    Keyword("log-format", FRONT, None, Support.LATER, "log formats"),
    Keyword("log-format-sd", FRONT, None, Support.LATER, "log formats"),
    Keyword("error-log-format", FRONT, None, Support.LATER, "log formats"),
    Keyword("log-steps", FRONT, None, Support.LATER, "log formats"),
    Keyword("unique-id-format", FRONT, None, Support.LATER, "log formats"),
    Keyword("unique-id-header", FRONT, None, Support.LATER, "log formats"),
)
