"""`tune.*` of the global section: names, types and ranges (manual 3.2).

Exports `TUNES` (the table) and `KEYWORDS` made from it. A tune of a feature that mtproxy does not
have is accepted without effect: the feature's own keywords are refused, so nothing is lost.
"""

from __future__ import annotations

from dataclasses import dataclass

from mtproxy.base.errors import ConfigError
from mtproxy.config.context import Context
from mtproxy.config.model import (
    IN_GLOBAL,
    Keyword,
    Statement,
    Support,
    choice,
    integer,
    size,
    time,
)
from mtproxy.log.sampling import STRATEGIES


@dataclass(frozen=True, slots=True)
class Tune:
    """`kind`: int, size, time, switch (on or off), word (one of `words`), text (anything) or none
    (no argument).
    """

    name: str
    kind: str
    minimum: int = 0
    maximum: int | None = None
    #: empty: supported
    no_effect: str = ""
    words: tuple[str, ...] = ()


_TLS = "tunes TLS, whose keywords are refused"
_H2 = "tunes HTTP/2, which is refused"
_QUIC = "tunes QUIC, which is refused"
_LUA = "tunes Lua, which is refused"
_COMP = "tunes compression, which is refused"
_MEMORY = "the memory allocator is Python's"
_ALLOC = "buffers are allocated by Python, one by one"
_SHARED = "idle server connections belong to the thread that opened them"

TUNES: tuple[Tune, ...] = (
    Tune("tune.bufsize", "size", 1024, 1 << 28),
    # mtproxy's own, for comparisons: see sched.fdtable
    Tune("tune.fd.scan", "word", words=("highest", "full")),
    Tune("tune.http.logurilen", "int", 0),
    Tune("tune.log-sampling", "word", words=tuple(STRATEGIES)),
    Tune("tune.http.maxhdr", "int", 1, 32767),
    Tune("tune.lock-stats", "switch"),
    Tune("tune.maxaccept", "int", -1),
    Tune("tune.maxpollevents", "int", 0),
    Tune("tune.maxrewrite", "size", 0, 1 << 28),
    Tune("tune.pipesize", "size", 0),
    Tune("tune.rcvbuf.client", "size", 0),
    Tune("tune.rcvbuf.server", "size", 0),
    Tune("tune.runqueue-depth", "int", 0),
    Tune("tune.sndbuf.client", "size", 0),
    Tune("tune.sndbuf.server", "size", 0),
    # mtproxy's own, for comparisons: the variants of sched.waitqueue_variants
    Tune("tune.wait-queue", "word", words=("seek", "write", "mutex")),
    Tune("tune.applet.zero-copy-forwarding", "switch", no_effect="there are no applets"),
    Tune("tune.buffers.limit", "int", no_effect=_ALLOC),
    Tune("tune.buffers.reserve", "int", no_effect=_ALLOC),
    Tune("tune.bufsize.large", "size", no_effect=_ALLOC),
    Tune("tune.bufsize.small", "size", no_effect=_ALLOC),
    Tune("tune.comp.maxlevel", "int", 1, 9, no_effect=_COMP),
    Tune("tune.disable-fast-forward", "none", no_effect="names a detail of HAProxy's streams"),
    Tune("tune.disable-zero-copy-forwarding", "none", no_effect="names HAProxy's mux interface"),
    Tune("tune.epoll.mask-events", "text", no_effect="descriptors are registered once"),
    Tune("tune.events.max-events-at-once", "int", 1, no_effect="there are no event handlers"),
    Tune("tune.fd.edge-triggered", "switch", no_effect="descriptors are registered once"),
    Tune("tune.h1.zero-copy-fwd-recv", "switch", no_effect="names HAProxy's mux interface"),
    Tune("tune.h1.zero-copy-fwd-send", "switch", no_effect="names HAProxy's mux interface"),
    Tune("tune.h2.be.glitches-threshold", "int", no_effect=_H2),
    Tune("tune.h2.be.initial-window-size", "size", no_effect=_H2),
    Tune("tune.h2.be.max-concurrent-streams", "int", no_effect=_H2),
    Tune("tune.h2.be.max-frames-at-once", "int", no_effect=_H2),
    Tune("tune.h2.be.rxbuf", "size", no_effect=_H2),
    Tune("tune.h2.fe.glitches-threshold", "int", no_effect=_H2),
    Tune("tune.h2.fe.initial-window-size", "size", no_effect=_H2),
    Tune("tune.h2.fe.max-concurrent-streams", "int", no_effect=_H2),
    Tune("tune.h2.fe.max-frames-at-once", "int", no_effect=_H2),
    Tune("tune.h2.fe.max-rst-at-once", "int", no_effect=_H2),
    Tune("tune.h2.fe.max-total-streams", "int", no_effect=_H2),
    Tune("tune.h2.fe.rxbuf", "size", no_effect=_H2),
    Tune("tune.h2.header-table-size", "int", 0, 65535, no_effect=_H2),
    Tune("tune.h2.initial-window-size", "size", no_effect=_H2),
    Tune("tune.h2.log-errors", "text", no_effect=_H2),
    Tune("tune.h2.max-concurrent-streams", "int", no_effect=_H2),
    Tune("tune.h2.max-frame-size", "size", no_effect=_H2),
    Tune("tune.h2.zero-copy-fwd-send", "switch", no_effect=_H2),
    Tune("tune.http.cookielen", "int", 1, 1 << 20),
    Tune("tune.idle-pool.shared", "text", no_effect=_SHARED),
    Tune("tune.idletimer", "time", no_effect="TLS records are not sized, TLS is refused"),
    Tune("tune.listener.default-shards", "text", no_effect="every thread accepts on a listener"),
    Tune("tune.listener.multi-queue", "text", no_effect="the least loaded thread is always chosen"),
    Tune("tune.lua.bool-sample-conversion", "text", no_effect=_LUA),
    Tune("tune.lua.burst-timeout", "time", no_effect=_LUA),
    Tune("tune.lua.forced-yield", "int", no_effect=_LUA),
    Tune("tune.lua.log.loggers", "switch", no_effect=_LUA),
    Tune("tune.lua.log.stderr", "text", no_effect=_LUA),
    Tune("tune.lua.maxmem", "int", no_effect=_LUA),
    Tune("tune.lua.openlibs", "text", no_effect=_LUA),
    Tune("tune.lua.service-timeout", "time", no_effect=_LUA),
    Tune("tune.lua.session-timeout", "time", no_effect=_LUA),
    Tune("tune.lua.task-timeout", "time", no_effect=_LUA),
    Tune("tune.max-checks-per-thread", "int", no_effect="checks are spread by the wait queue"),
    Tune(
        "tune.max-rules-at-once",
        "int",
        no_effect="rules that wait give the thread away by themselves",
    ),
    Tune("tune.memory.hot-size", "size", no_effect=_MEMORY),
    Tune("tune.notsent-lowat.client", "size", no_effect="the kernel's default is kept"),
    Tune("tune.notsent-lowat.server", "size", no_effect="the kernel's default is kept"),
    Tune("tune.pattern.cache-size", "int", no_effect="look-ups cost the same in long lists"),
    Tune("tune.peers.max-updates-at-once", "int", no_effect="tunes peers, which are refused"),
    Tune("tune.pool-high-fd-ratio", "int", 1, 100, no_effect=_SHARED),
    Tune("tune.pool-low-fd-ratio", "int", 1, 100, no_effect=_SHARED),
    Tune("tune.pt.zero-copy-forwarding", "switch", no_effect="names HAProxy's mux interface"),
    Tune("tune.quic.be.max-idle-timeout", "time", no_effect=_QUIC),
    Tune("tune.quic.disable-udp-gso", "none", no_effect=_QUIC),
    Tune("tune.quic.fe.max-idle-timeout", "time", no_effect=_QUIC),
    Tune("tune.quic.frontend.conn-tx-buffers.limit", "int", no_effect=_QUIC),
    Tune("tune.quic.frontend.max-idle-timeout", "time", no_effect=_QUIC),
    Tune("tune.quic.frontend.max-streams-bidi", "int", no_effect=_QUIC),
    Tune("tune.quic.listen", "switch", no_effect=_QUIC),
    Tune("tune.quic.retry-threshold", "int", no_effect=_QUIC),
    Tune("tune.quic.socket-owner", "text", no_effect=_QUIC),
    Tune("tune.rcvbuf.backend", "size", no_effect="sizes the sockets of datagram services"),
    Tune("tune.rcvbuf.frontend", "size", no_effect="sizes the sockets of datagram services"),
    Tune("tune.recv_enough", "size", no_effect="a read is never repeated without an event"),
    Tune("tune.renice.runtime", "int", -20, 19, no_effect="the process keeps its priority"),
    Tune("tune.renice.startup", "int", -20, 19, no_effect="the process keeps its priority"),
    Tune(
        "tune.ring.queues",
        "int",
        no_effect="a ring is filled once a turn",
    ),
    Tune("tune.sched.low-latency", "switch", no_effect="the run queue always serves urgent first"),
    Tune("tune.sndbuf.backend", "size", no_effect="sizes the sockets of datagram services"),
    Tune("tune.sndbuf.frontend", "size", no_effect="sizes the sockets of datagram services"),
    Tune("tune.ssl.cachesize", "int", no_effect=_TLS),
    Tune("tune.ssl.capture-buffer-size", "int", no_effect=_TLS),
    Tune("tune.ssl.capture-cipherlist-size", "int", no_effect=_TLS),
    Tune("tune.ssl.certificate-compression", "text", no_effect=_TLS),
    Tune("tune.ssl.default-dh-param", "int", 1024, no_effect=_TLS),
    Tune("tune.ssl.force-private-cache", "none", no_effect=_TLS),
    Tune("tune.ssl.hard-maxrecord", "size", no_effect=_TLS),
    Tune("tune.ssl.keylog", "switch", no_effect=_TLS),
    Tune("tune.ssl.lifetime", "time", no_effect=_TLS),
    Tune("tune.ssl.maxrecord", "size", no_effect=_TLS),
    Tune("tune.ssl.ocsp-update.maxdelay", "int", no_effect=_TLS),
    Tune("tune.ssl.ocsp-update.mindelay", "int", no_effect=_TLS),
    Tune("tune.ssl.ssl-ctx-cache-size", "int", no_effect=_TLS),
    Tune("tune.stick-counters", "int", no_effect="there are three stick counters"),
    Tune("tune.takeover-other-tg-connections", "text", no_effect=_SHARED),
    Tune("tune.vars.check-max-size", "size"),
    Tune("tune.vars.global-max-size", "size"),
    Tune("tune.vars.proc-max-size", "size"),
    Tune("tune.vars.reqres-max-size", "size"),
    Tune("tune.vars.sess-max-size", "size"),
    Tune("tune.vars.txn-max-size", "size"),
    Tune("tune.zlib.memlevel", "int", 1, 9, no_effect=_COMP),
    Tune("tune.zlib.windowsize", "int", 8, 15, no_effect=_COMP),
)

_BY_NAME = {tune.name: tune for tune in TUNES}


def _tune(ctx: Context, st: Statement) -> None:
    name = st.words[0]
    tune = _BY_NAME[name]
    if tune.kind == "none":
        st.at_most(0)
        return
    st.at_most(1)
    text = st.required(1, "a value")
    value: int | str | bool
    if tune.kind == "int":
        value = integer(name, text, tune.minimum, tune.maximum)
    elif tune.kind == "size":
        value = size(name, text)
        if value < tune.minimum or (tune.maximum is not None and value > tune.maximum):
            raise ConfigError(
                f"'{name}' must be between {tune.minimum} and {tune.maximum} (got {value})",
                word=text,
            )
    elif tune.kind == "time":
        value = time(name, text)
    elif tune.kind == "switch":
        value = choice(name, text, ("on", "off")) == "on"
    elif tune.kind == "word":
        value = choice(name, text, tune.words)
    else:
        value = text
    # Zero is how HAProxy says "the default".
    if value == 0 and value is not False:
        ctx.global_.tune.pop(name, None)
    elif not tune.no_effect:
        ctx.global_.tune[name] = value


KEYWORDS: tuple[Keyword, ...] = tuple(
    Keyword(
        tune.name,
        IN_GLOBAL,
        _tune,
        Support.NO_EFFECT if tune.no_effect else Support.YES,
        tune.no_effect,
    )
    for tune in TUNES
)
