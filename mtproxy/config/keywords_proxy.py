"""Statements of defaults, frontend, listen and backend that are neither options nor addresses.

Exports `KEYWORDS` (manual 4.2).
"""

from __future__ import annotations

from mtproxy.base.errors import ConfigError
from mtproxy.base.nearest import nearest
from mtproxy.config.context import Context
from mtproxy.config.drafts import ProxyDraft
from mtproxy.config.model import (
    BACK,
    DEFAULTS,
    FRONT,
    PROXY,
    PROXY_ONLY,
    Keyword,
    Parser,
    Statement,
    Support,
    choice,
    integer,
    seconds,
    time,
)

_HTTP_REUSE = ("never", "safe", "aggressive", "always")


def _mode(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    mode = st.arg(1)
    if mode == "health":
        raise ConfigError("'mode health' is gone: use 'http-request return status 200'", word=mode)
    if mode in ("log", "spop", "haterm"):
        raise ConfigError(f"'mode {mode}' is known but not supported by mtproxy yet", word=mode)
    if mode not in ("tcp", "http"):
        raise ConfigError(
            f"unknown proxy mode '{mode}'", word=mode, suggestion=nearest(mode, ("tcp", "http"))
        )
    ctx.proxy.mode = mode


def _default_backend(ctx: Context, st: Statement) -> None:
    name = st.required(1, "a backend name")
    if "%" in name:
        raise ConfigError(
            "'default_backend' : log-format expressions are known but not supported by mtproxy yet",
            word=name,
        )
    st.at_most(1)
    ctx.proxy.default_backend = name
    ctx.proxy.default_backend_location = st.location


def _warn_overwritten(ctx: Context, st: Statement, field: str, key: str = "") -> None:
    """Call before a value is set: it was set before in this very section, to another value than
    that of its `defaults`.
    """
    proxy = ctx.proxy
    if proxy.base is None and proxy.kind == DEFAULTS:
        return
    base = proxy.base or ProxyDraft(DEFAULTS, "", proxy.location)
    ours, theirs = getattr(proxy, field), getattr(base, field)
    if key:
        ours, theirs = ours.get(key), theirs.get(key)
    if ours != theirs:
        ctx.warn(st.location, f"overwriting '{' '.join(st.words[:2])}' which was already specified")


def _timeout(field: str) -> Parser:
    def parse(ctx: Context, st: Statement) -> None:
        st.at_most(1, taken=2)
        value = time(f"timeout {st.words[1]}", st.required(2, "a time", taken=2))
        _warn_overwritten(ctx, st, "timeouts", field)
        # Zero is HAProxy's way to say "none".
        if value:
            ctx.proxy.timeouts[field] = value
        else:
            ctx.proxy.timeouts.pop(field, None)

    return parse


def _retries(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    ctx.proxy.retries = integer("retries", st.required(1, "a number"), 0)


def _maxconn(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    # Zero stands for the global limit.
    ctx.proxy.maxconn = integer("maxconn", st.required(1, "a number"), 0) or None


#: `retry-on`: statuses, and what else may go wrong
_RETRY_STATUSES = (
    "401",
    "403",
    "404",
    "408",
    "421",
    "425",
    "429",
    "500",
    "501",
    "502",
    "503",
    "504",
)
_RETRY_WORDS = (
    *_RETRY_STATUSES,
    "conn-failure",
    "empty-response",
    "junk-response",
    "response-timeout",
    "0rtt-rejected",
)
_RETRYABLE = frozenset(_RETRY_WORDS[len(_RETRY_STATUSES) :]) | {"500", "502", "503", "504"}


def _retry_on(ctx: Context, st: Statement) -> None:
    st.required(1, "at least one keyword")
    words = st.words[1:]
    chosen: frozenset[str] = frozenset()
    for word in words:
        if word == "none":
            if len(words) > 1:
                raise ConfigError("'retry-on' : 'none' is only usable alone", word=word)
        elif word == "all-retryable-errors":
            chosen |= _RETRYABLE
        elif word in _RETRY_WORDS:
            chosen |= {word}
        else:
            raise ConfigError(
                f"'retry-on' : unknown keyword '{word}'",
                word=word,
                suggestion=nearest(word, (*_RETRY_WORDS, "all-retryable-errors", "none")),
            )
    ctx.proxy.retry_on = chosen


def _rate_limit(ctx: Context, st: Statement) -> None:
    """`rate-limit sessions N`; zero: no limit."""
    choice("rate-limit", st.required(1, "'sessions'"), ("sessions",))
    st.at_most(2)
    _warn_overwritten(ctx, st, "rate_limit")
    ctx.proxy.rate_limit = integer("rate-limit sessions", st.required(2, "a number"), 0)


def _fullconn(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    # Zero stands for the default.
    ctx.proxy.fullconn = integer("fullconn", st.required(1, "a number"), 0) or None


def _bind_process(ctx: Context, st: Statement) -> None:
    """Old grammar that HAProxy 2.6 still reads: all processes there are is process 1."""
    for word in st.words[1:]:
        if word not in ("all", "odd", "even", "1", "1-", "1-1"):
            raise ConfigError(
                f"'bind-process' : there is one process, 1 (got '{word}'); see 'nbthread'",
                word=word,
            )
    ctx.warn(st.location, "'bind-process' has no effect: there is one process; see 'nbthread'")


def _max_kept_queue(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    # -1, HAProxy's default, stands for no limit, and so does 0
    number = integer("max-keep-alive-queue", st.required(1, "a number"), -1)
    ctx.proxy.max_kept_queue = max(0, number)


def _backlog(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    ctx.proxy.backlog = integer("backlog", st.required(1, "a number"), 0) or None


def _id(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    number = integer("id", st.required(1, "a number"), 1)
    for other in ctx.proxies:
        if other is not ctx.proxy and other.id == number:
            place = f"{other.location.file}:{other.location.line}"
            raise ConfigError(
                f"custom id {number} is already used by {other.title()} at {place}",
                word=st.arg(1),
            )
    ctx.proxy.id = number


def _description(ctx: Context, st: Statement) -> None:
    st.required(1, "a text")
    ctx.proxy.description = " ".join(st.words[1:])


def _disabled(ctx: Context, st: Statement) -> None:
    st.at_most(0)
    ctx.proxy.disabled = True


def _enabled(ctx: Context, st: Statement) -> None:
    st.at_most(0)
    ctx.proxy.disabled = False


def _http_reuse(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    ctx.proxy.http_reuse = choice("http-reuse", st.arg(1), _HTTP_REUSE)


def _monitor_uri(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    ctx.proxy.monitor_uri = st.required(1, "a URI")


def _load_server_state(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    name = "load-server-state-from-file"
    ctx.proxy.load_server_state = choice(name, st.arg(1), ("none", "global", "local"))


def _server_state_file_name(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    name = st.arg(1)
    ctx.proxy.server_state_file = "" if name == "use-backend-name" else name


def _keepalive_count(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    name = st.words[0]
    value = integer(name, st.required(1, "a number"), 0)
    _set_probe(ctx, name, value)


def _keepalive_time(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    name = st.words[0]
    _set_probe(ctx, name, seconds(name, st.required(1, "a time")))


def _set_probe(ctx: Context, name: str, value: int) -> None:
    """Zero leaves the kernel's value."""
    field = name.replace("-", "_")
    if value:
        ctx.proxy.keepalive_probes[field] = value
    else:
        ctx.proxy.keepalive_probes.pop(field, None)


_TIMEOUTS: tuple[tuple[str, frozenset[str]], ...] = (
    ("check", BACK),
    ("client", FRONT),
    ("client-fin", FRONT),
    ("connect", BACK),
    ("http-keep-alive", PROXY),
    ("http-request", PROXY),
    ("queue", BACK),
    ("server", BACK),
    ("server-fin", BACK),
    ("tunnel", BACK),
)

KEYWORDS: tuple[Keyword, ...] = (
    Keyword("mode", PROXY, _mode),
    Keyword("default_backend", FRONT, _default_backend),
    *(
        Keyword(f"timeout {name}", where, _timeout(name.replace("-", "_")))
        for name, where in _TIMEOUTS
    ),
    Keyword("timeout tarpit", PROXY, _timeout("tarpit")),
    Keyword("timeout client-hs", FRONT, None, Support.LATER, "TLS"),
    Keyword("retries", BACK, _retries),
    Keyword("maxconn", FRONT, _maxconn),
    Keyword("fullconn", BACK, _fullconn),
    Keyword("max-keep-alive-queue", BACK, _max_kept_queue),
    Keyword("rate-limit", FRONT, _rate_limit),
    Keyword("retry-on", BACK, _retry_on, strict=True),
    Keyword("backlog", FRONT, _backlog),
    Keyword("bind-process", PROXY, _bind_process, Support.NO_EFFECT, "there is one process"),
    Keyword("id", PROXY_ONLY, _id),
    Keyword("description", PROXY_ONLY, _description),
    Keyword("disabled", PROXY, _disabled),
    Keyword("enabled", PROXY, _enabled),
    Keyword("http-reuse", BACK, _http_reuse),
    Keyword("monitor-uri", FRONT, _monitor_uri),
    Keyword("load-server-state-from-file", BACK, _load_server_state),
    Keyword("server-state-file-name", BACK, _server_state_file_name),
    Keyword("clitcpka-cnt", FRONT, _keepalive_count),
    Keyword("clitcpka-idle", FRONT, _keepalive_time),
    Keyword("clitcpka-intvl", FRONT, _keepalive_time),
    Keyword("srvtcpka-cnt", BACK, _keepalive_count),
    Keyword("srvtcpka-idle", BACK, _keepalive_time),
    Keyword("srvtcpka-intvl", BACK, _keepalive_time),
)
