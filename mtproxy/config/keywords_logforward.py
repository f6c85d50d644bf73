"""`log-forward` sections (manual 3.10): syslog that comes in and where it goes.

Exports `KEYWORDS`, `open_section`, `check`, `freeze` and `lines_of`. What a section says is kept as
that of a frontend.
"""

from __future__ import annotations

from dataclasses import replace

from mtproxy.base.addresses import AddressKind
from mtproxy.base.errors import ConfigError
from mtproxy.base.log_settings import LogForwardSettings, LogSettings
from mtproxy.config.context import Context
from mtproxy.config.drafts import ProxyDraft
from mtproxy.config.keywords_bind import read_bind, read_binds
from mtproxy.config.keywords_log import read_log
from mtproxy.config.model import (
    IN_LOG_FORWARD,
    LOG_FORWARD,
    Keyword,
    Statement,
    check_name,
    integer,
    time,
)

#: connections at a time where a section does not say; HAProxy's
_MAXCONN = 10
_UDP = {AddressKind.IPV4: AddressKind.UDP4, AddressKind.IPV6: AddressKind.UDP6}


def open_section(ctx: Context, st: Statement) -> None:
    """A `log-forward` section begins."""
    name = st.arg(1)
    ctx.current = draft = ProxyDraft(LOG_FORWARD, name, st.location, maxconn=_MAXCONN)
    if not name:
        raise ConfigError("'log-forward' expects a name as argument")
    check_name(name, LOG_FORWARD)
    st.at_most(1)
    for other in (*ctx.log_forwards, *ctx.proxies):
        if other.name == name:
            place = f"{other.location.file}:{other.location.line}"
            raise ConfigError(
                f"log-forward section '{name}' has the same name as {other.title()} at {place}",
                word=name,
            )
    ctx.log_forwards.append(draft)


def _dgram_bind(ctx: Context, st: Statement) -> None:
    text = st.required(1, "an address")
    ctx.proxy.bind_lines += 1
    for bind in read_binds(ctx, st, 1, f"dgram-bind {text}", datagrams=True):
        kind = _UDP.get(bind.address.kind, bind.address.kind)
        if kind not in _UDP.values():
            raise ConfigError(
                f"'dgram-bind {text}' : a datagram address is expected (got '{bind.address.text}')",
                word=text,
            )
        address = replace(bind.address, kind=kind)
        ctx.proxy.datagrams.append(replace(bind, address=address))


def _maxconn(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    ctx.proxy.maxconn = integer("maxconn", st.required(1, "a number"), 1)


def _backlog(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    ctx.proxy.backlog = integer("backlog", st.required(1, "a number"), 0) or None


def _timeout(ctx: Context, st: Statement) -> None:
    st.at_most(1, taken=2)
    ctx.proxy.timeouts["client"] = time("timeout client", st.required(2, "a time", taken=2))


def freeze(draft: ProxyDraft, global_logs: tuple[LogSettings, ...]) -> LogForwardSettings:
    """The section as every other layer sees it."""
    logs: list[LogSettings] = []
    for entry in draft.logs:
        if entry is None:
            logs.extend(global_logs)
        else:
            logs.append(entry)
    return LogForwardSettings(
        draft.name,
        tuple(draft.binds),
        tuple(draft.datagrams),
        tuple(logs),
        draft.maxconn or _MAXCONN,
        draft.backlog,
        draft.timeouts.get("client") or None,
        draft.location,
    )


KEYWORDS: tuple[Keyword, ...] = (
    Keyword("bind", IN_LOG_FORWARD, read_bind),
    Keyword("dgram-bind", IN_LOG_FORWARD, _dgram_bind),
    Keyword("log", IN_LOG_FORWARD, read_log, negatable=True),
    Keyword("maxconn", IN_LOG_FORWARD, _maxconn),
    Keyword("backlog", IN_LOG_FORWARD, _backlog),
    Keyword("timeout client", IN_LOG_FORWARD, _timeout),
)
