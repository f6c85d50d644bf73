"""`log` in global and proxies, with its targets, formats, facilities and levels; log formats.

Manual 4.2, 8.2. Exports `KEYWORDS`.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Final

from mtproxy.base.address import AddressError, Port, parse_address
from mtproxy.base.addresses import Address, AddressKind
from mtproxy.base.errors import ConfigError
from mtproxy.base.log_settings import LogSettings, SampleSettings
from mtproxy.config.context import Context
from mtproxy.config.drafts import FormatText, ProxyDraft
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


def _target(ctx: Context, text: str) -> tuple[Address | None, str | None, str | None]:
    """Address, standard stream or ring: one of the three."""
    if text in ("stdout", "stderr"):
        return None, text, None
    if text.startswith("ring@"):
        ring = text.removeprefix("ring@")
        # the two other sinks are what they are called, whichever way they are named
        return (None, ring, None) if ring in ("stdout", "stderr") else (None, None, ring)
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
    return replace(address, kind=kind, port=port), None, None


def read_log(ctx: Context, st: Statement) -> None:
    """`log` of the section in `ctx.current`, or of the global one."""
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
    target = args.next()
    address, stdio, ring = _target(ctx, target)
    length = 1024
    form = None
    sample = None
    # each at most once, in this order, as HAProxy wants them
    if _option(args, "len"):
        length = args.integer(80, 65535)
    if _option(args, "format"):
        form = args.choice(*FORMATS)
    if _option(args, "sample"):
        sample = parse_sample(args.value("<ranges>:<size>"))
    if _option(args, "profile"):
        raise ConfigError(
            "'log ... profile' is known but not supported by mtproxy yet", word="profile"
        )
    rest = args.words[args.position :]
    if not rest or not rest[0]:
        raise ConfigError("'log' expects a facility")
    if rest[0] in ("len", "format", "sample", "profile"):
        raise ConfigError(
            f"'log' : '{rest[0]}' is out of place: 'len', 'format' and 'sample' stand in this"
            " order, each once",
            word=rest[0],
        )
    facility = choice("log facility", rest[0], FACILITIES)
    level = choice("log level", rest[1], LEVELS) if len(rest) > 1 else "debug"
    minlevel = choice("log minimum level", rest[2], LEVELS) if len(rest) > 2 else "emerg"
    if len(rest) > 3:
        raise ConfigError(f"'log' cannot handle unexpected argument '{rest[3]}'", word=rest[3])
    return LogSettings(
        address=address,
        stdio=stdio,
        ring=ring,
        facility=facility,
        level=level,
        minlevel=minlevel,
        length=length,
        format=form,
        location=st.location,
        sample=sample,
    )


def _option(args: Args, word: str) -> bool:
    """Whether the next word is this one; it is taken then."""
    if args.more() and args.words[args.position] == word:
        args.next()
        args.name = f"log {word}"
        return True
    return False


#: HAProxy keeps positions and sizes in 32 bits
_MAX_SAMPLE = (1 << 32) - 1


def parse_sample(text: str) -> SampleSettings:
    """`1,3-5:6` (manual, `log`). Raises ConfigError."""
    listed, colon, after = text.partition(":")
    if not colon:
        raise ConfigError(
            f"'log sample' : missing ':' and the sample's size in '{text}'", word=text
        )
    if not listed:
        raise ConfigError(f"'log sample' : no ranges given in '{text}'", word=text)
    # one comma at the end is taken, as HAProxy takes it
    ranges = sorted(_sample_range(part, text) for part in listed.removesuffix(",").split(","))
    for (_, last), (first, _) in itertools.pairwise(ranges):
        if first <= last:
            raise ConfigError(f"'log sample' : ranges are overlapping in '{text}'", word=text)
    size = _positive(after)
    if size is None:
        raise ConfigError(
            f"'log sample' : wrong sample size '{after}', an integer from 1 to {_MAX_SAMPLE} is"
            " expected",
            word=text,
        )
    if ranges[-1][1] > size:
        raise ConfigError(
            f"'log sample' : the sample's size {size} must not be less than {ranges[-1][1]},"
            " where the last range ends",
            word=text,
        )
    return SampleSettings(tuple(ranges), size)


def _sample_range(part: str, text: str) -> tuple[int, int]:
    low, dash, high = part.partition("-")
    first = _positive(low)
    last = _positive(high) if dash else first
    if first is None or last is None or (dash and last <= first):
        raise ConfigError(
            f"'log sample' : wrong range '{part}', <position> or <lower>-<higher> is expected,"
            " from 1",
            word=text,
        )
    return first, last


def _positive(text: str) -> int | None:
    if not (text.isascii() and text.isdigit()) or len(text) > 20:
        return None
    number = int(text)
    return number if 0 < number <= _MAX_SAMPLE else None


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


def _format(ctx: Context, st: Statement) -> None:
    """A log format; what it means is looked at when the whole proxy is known."""
    name = st.words[0]
    text = st.required(1, "a log format")
    if len(st.words) > 2:
        raise ConfigError(
            f"'{name}' expects only one argument, don't forget to escape spaces!", word=st.words[2]
        )
    proxy = ctx.proxy
    before = name if name in proxy.format_texts else ""
    if name == "log-format":
        before = format_statement(proxy)
        proxy.options -= LOG_OPTIONS
        proxy.log_format = "custom"
    if before and proxy.kind == "defaults" and name in ("log-format", "error-log-format"):
        warn_overridden(ctx, st, name, before)
    column = st.columns[1] if len(st.columns) > 1 else 0
    proxy.format_texts[name] = FormatText(text, st.location, column)


#: the options that choose a log format
LOG_OPTIONS: Final = frozenset({"httplog", "httplog-clf", "httpslog", "tcplog"})


def format_statement(proxy: ProxyDraft) -> str:
    """The statement that chose the log format so far, as it is written; empty without one."""
    name = proxy.log_format
    if name in ("", "custom"):
        return "log-format" if name else ""
    return "option " + name.replace("-", " ")


def warn_overridden(ctx: Context, st: Statement, name: str, before: str) -> None:
    """A second log format in a `defaults` section: HAProxy says so there alone."""
    ctx.warn(st.location, f"'{name}' overrides previous '{before}' in 'defaults' section.")


def _unique_id_header(ctx: Context, st: Statement) -> None:
    ctx.proxy.unique_id_header = st.required(1, "a header name")
    st.at_most(1)


KEYWORDS: tuple[Keyword, ...] = (
    Keyword("log", PROXY | {GLOBAL}, read_log, negatable=True),
    Keyword("log-tag", PROXY | {GLOBAL}, _log_tag),
    Keyword("log-send-hostname", IN_GLOBAL, _log_send_hostname),
    Keyword("log-format", FRONT, _format),
    Keyword("log-format-sd", FRONT, _format),
    Keyword("error-log-format", FRONT, _format),
    Keyword("log-steps", FRONT, None, Support.LATER, "log formats"),
    Keyword("unique-id-format", FRONT, _format, quiet=True),
    Keyword("unique-id-header", FRONT, _unique_id_header, quiet=True),
)
