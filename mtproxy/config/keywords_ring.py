"""`ring` sections (manual 3.9): buffers in memory for log lines, forwarded to servers over TCP.

Exports `KEYWORDS`. A server line is a backend's; what only a proxy could use of it has no effect.
"""

from __future__ import annotations

from mtproxy.base.errors import ConfigError
from mtproxy.config import keywords_server
from mtproxy.config.context import Context
from mtproxy.config.drafts import RING_SIZE
from mtproxy.config.model import (
    IN_RING,
    Keyword,
    Statement,
    Support,
    choice,
    size,
    time,
)
from mtproxy.log.syslog import FORMATS

#: more would be no ring in memory
_MAX_SIZE = 1 << 40


def _description(ctx: Context, st: Statement) -> None:
    st.required(1, "a text")
    ctx.ring.description = " ".join(st.words[1:])


def _format(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    ctx.ring.format = choice("format", st.required(1, "a format"), FORMATS)


def _maxlen(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    ctx.ring.maxlen = _bytes(st, "maxlen")


def _size(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    value = _bytes(st, "size")
    if value < RING_SIZE:
        raise ConfigError(
            f"'size' : {value} is less than the {RING_SIZE} bytes that ring '{ctx.ring.name}' has"
            " anyway",
            word=st.arg(1),
        )
    ctx.ring.size = value


def _bytes(st: Statement, name: str) -> int:
    text = st.required(1, "a number of bytes")
    value = size(name, text)
    if not 0 < value <= _MAX_SIZE:
        raise ConfigError(f"'{name}' : from 1 to {_MAX_SIZE} bytes are possible", word=text)
    return value


def _timeout(ctx: Context, st: Statement) -> None:
    name = choice("timeout", st.required(1, "'connect' or 'server'"), ("connect", "server"))
    st.at_most(1, taken=2)
    full = f"timeout {name}"
    ctx.ring.backend.timeouts[name] = time(full, st.required(2, "a time", taken=2))


def _server(ctx: Context, st: Statement) -> None:
    ctx.current = backend = ctx.ring.backend
    try:
        keywords_server.read_server(ctx, st)
    finally:
        ctx.current = None
    for server in backend.servers[-1:]:
        server.check = False  # a ring notices by itself when a server is away


KEYWORDS: tuple[Keyword, ...] = (
    Keyword("description", IN_RING, _description),
    Keyword("format", IN_RING, _format),
    Keyword("maxlen", IN_RING, _maxlen),
    Keyword("size", IN_RING, _size),
    Keyword("timeout", IN_RING, _timeout),
    Keyword("server", IN_RING, _server),
    Keyword("backing-file", IN_RING, None, Support.LATER, "rings in files"),
)
