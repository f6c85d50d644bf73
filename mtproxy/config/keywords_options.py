"""`option NAME` in proxies (manual 4.2), with the `no` and `default` prefixes.

Exports `KEYWORDS`. A plain option ends up as its name in the draft's `options` set; the others
have a parser here.
"""

from __future__ import annotations

import ipaddress

from mtproxy.base.errors import ConfigError
from mtproxy.base.settings import ForwardFor
from mtproxy.config.context import Context
from mtproxy.config.keywords_log import LOG_OPTIONS, format_statement, warn_overridden
from mtproxy.config.model import (
    BACK,
    FRONT,
    PROXY,
    Keyword,
    Parser,
    Statement,
    Support,
    choice,
    integer,
)

#: at most one of these holds; the last one wins (manual 4., "connection modes")
HTTP_CONNECTION_MODES = frozenset({"httpclose", "http-server-close", "http-keep-alive"})


def _flag(ctx: Context, st: Statement) -> None:
    """A boolean option. `default` takes back what a defaults section said."""
    st.at_most(0, taken=2)
    name = st.words[1]
    if st.prefix:
        ctx.proxy.options.discard(name)
    else:
        ctx.proxy.options.add(name)


def _connection_mode(ctx: Context, st: Statement) -> None:
    if not st.prefix:
        ctx.proxy.options -= HTTP_CONNECTION_MODES
    _flag(ctx, st)


def _accepted(ctx: Context, st: Statement) -> None:
    """An option without an effect is remembered, since it may be wrong for the proxy's mode."""
    _flag(ctx, st)


def _log_format(ctx: Context, st: Statement) -> None:
    """`option httplog [clf]`, `httpslog` and `tcplog`: the last one wins."""
    name = st.words[1]
    if name == "httplog" and st.arg(2) == "clf":
        st.at_most(1, taken=2)
        name = "httplog-clf"
    else:
        st.at_most(0, taken=2)
    proxy = ctx.proxy
    before = format_statement(proxy)
    if before and proxy.kind == "defaults":
        warn_overridden(ctx, st, " ".join(st.words), before)
    proxy.options -= LOG_OPTIONS
    proxy.options.add(name)
    proxy.log_format = name
    proxy.format_texts.pop("log-format", None)


def _tcpka(ctx: Context, st: Statement) -> None:
    """`option tcpka`: both sides."""
    st.at_most(0, taken=2)
    sides = set()
    if ctx.proxy.kind != "backend":
        sides.add("clitcpka")
    if ctx.proxy.kind != "frontend":
        sides.add("srvtcpka")
    ctx.proxy.options |= sides


def _redispatch(ctx: Context, st: Statement) -> None:
    st.at_most(1, taken=2)
    proxy = ctx.proxy
    if st.prefix:
        proxy.redispatch = 0
    elif st.arg(2):
        proxy.redispatch = integer("option redispatch", st.arg(2))
    else:
        proxy.redispatch = -1
    if proxy.redispatch:
        proxy.options.add("redispatch")
    else:
        proxy.options.discard("redispatch")


def _forwardfor(ctx: Context, st: Statement) -> None:
    """`option forwardfor [except NET] [header NAME] [if-none]`."""
    ctx.proxy.forwardfor = _address_header(st, "forwardfor", b"x-forwarded-for")


def _originalto(ctx: Context, st: Statement) -> None:
    """`option originalto [except NET] [header NAME]`."""
    ctx.proxy.originalto = _address_header(st, "originalto", b"x-original-to")


def _address_header(st: Statement, name: str, header: bytes) -> ForwardFor:
    supported = "'except' and 'header'"
    if name == "forwardfor":
        supported = "'except', 'header' and 'if-none'"
    except_net: str | None = None
    if_none = False
    position = 2
    while position < len(st.words):
        word = st.words[position]
        if word == "if-none" and name == "forwardfor":
            if_none = True
            position += 1
            continue
        if word not in ("except", "header"):
            raise ConfigError(
                f"'option {name}' only supports {supported} (got '{word}')",
                word=word,
            )
        value = st.arg(position + 1)
        if not value:
            raise ConfigError(f"'option {name} {word}' expects an argument", word=word)
        if word == "header":
            header = _header_name(value)
        else:
            try:
                except_net = str(ipaddress.ip_network(value, strict=False))
            except ValueError:
                raise ConfigError(
                    f"'option {name} except' expects an address or network (got '{value}')",
                    word=value,
                ) from None
        position += 2
    return ForwardFor(header, except_net, if_none)


def _header_name(text: str) -> bytes:
    """A header name in lower case, as it is sent."""
    tokens = set("!#$%&'*+-.^_`|~")
    if not all(char.isascii() and (char.isalnum() or char in tokens) for char in text):
        raise ConfigError(f"'{text}' is not a valid header name", word=text)
    return text.lower().encode("ascii")


def _restrict_names(ctx: Context, st: Statement) -> None:
    """`option http-restrict-req-hdr-names {preserve|delete|reject}`."""
    st.at_most(1, taken=2)
    word = choice(
        "option http-restrict-req-hdr-names",
        st.required(2, "what to do", taken=2),
        ("preserve", "delete", "reject"),
    )
    options = ctx.proxy.options
    options -= {f"http-restrict-req-hdr-names {one}" for one in ("preserve", "delete", "reject")}
    options.add(f"http-restrict-req-hdr-names {word}")


def _still_strict(ctx: Context, st: Statement) -> None:
    """An option that lets bad messages pass, which is not followed (docs/http1.md)."""
    if not st.prefix:
        ctx.warn(
            st.location,
            f"'option {st.words[1]}' is ignored: messages that break the grammar of HTTP are"
            " refused all the same ('show errors' has the last one).",
        )
    _flag(ctx, st)


def _option(
    name: str,
    sections: frozenset[str],
    parse: Parser | None = _flag,
    *,
    negatable: bool = True,
) -> Keyword:
    return Keyword(f"option {name}", sections, parse, negatable=negatable)


def _no_effect(name: str, sections: frozenset[str], why: str) -> Keyword:
    return Keyword(f"option {name}", sections, _accepted, Support.NO_EFFECT, why, negatable=True)


def _later(name: str, sections: frozenset[str], feature: str) -> Keyword:
    return Keyword(f"option {name}", sections, None, Support.LATER, feature, negatable=True)


def _removed(name: str, sections: frozenset[str], instead: str) -> Keyword:
    return Keyword(f"option {name}", sections, None, Support.REMOVED, instead, negatable=True)


KEYWORDS: tuple[Keyword, ...] = (
    _option("abortonclose", BACK),
    _option("allbackups", BACK),
    _option("clitcpka", FRONT),
    _option("dontlog-normal", FRONT),
    _option("dontlognull", FRONT),
    _option("forwardfor", PROXY, _forwardfor, negatable=False),
    _option("http-buffer-request", PROXY),
    _option("http-keep-alive", PROXY, _connection_mode),
    _option("http-server-close", PROXY, _connection_mode),
    _option("httpclose", PROXY, _connection_mode),
    _option("httplog", FRONT, _log_format, negatable=False),
    _option("httpslog", FRONT, _log_format, negatable=False),
    _option("log-health-checks", BACK),
    _option("log-separate-errors", FRONT),
    _option("logasap", FRONT),
    _option("nolinger", PROXY),
    _option("originalto", PROXY, _originalto, negatable=False),
    _option("persist", BACK),
    _option("transparent", BACK),
    _option("redispatch", BACK, _redispatch),
    _option("socket-stats", FRONT),
    _option("splice-request", PROXY),
    _option("splice-response", PROXY),
    _option("srvtcpka", BACK),
    _option("tcpka", PROXY, _tcpka, negatable=False),
    _option("tcplog", FRONT, _log_format, negatable=False),
    _option("contstats", FRONT),
    _no_effect("disable-h2-upgrade", FRONT, "connections are never upgraded to HTTP/2"),
    _no_effect("http-no-delay", PROXY, "TCP_NODELAY is always set and no data are held back"),
    _no_effect("splice-auto", PROXY, "bulk is always spliced unless 'nosplice' forbids it"),
    _no_effect("tcp-smart-accept", FRONT, "the kernel decides when it acknowledges"),
    _no_effect("tcp-smart-connect", BACK, "the kernel decides when it acknowledges"),
    _option("accept-invalid-http-request", FRONT, _still_strict),
    _option("accept-invalid-http-response", BACK, _still_strict),
    _later("accept-unsafe-violations-in-http-request", FRONT, "relaxed HTTP parsing"),
    _later("accept-unsafe-violations-in-http-response", BACK, "relaxed HTTP parsing"),
    _later("assume-rfc6587-ntf", FRONT, "log forwarding"),
    _option("checkcache", BACK),
    _later("dont-parse-log", FRONT, "log forwarding"),
    _later("forwarded", BACK, "the Forwarded header"),
    _option("h1-case-adjust-bogus-client", FRONT),
    _option("h1-case-adjust-bogus-server", BACK),
    _later("http-drop-request-trailers", BACK, "trailer filtering"),
    _later("http-drop-response-trailers", FRONT, "trailer filtering"),
    _option("http-ignore-probes", FRONT),
    _option("http-pretend-keepalive", BACK),
    _option("http-restrict-req-hdr-names", PROXY, _restrict_names, negatable=False),
    _option("http-use-proxy-header", FRONT),
    _option("idle-close-on-response", FRONT),
    _option("independent-streams", PROXY),
    _option("prefer-last-server", BACK),
    _later("use-small-buffers", PROXY, "small buffers"),
    _removed("forceclose", PROXY, "use 'option httpclose'"),
    _removed("http_proxy", PROXY, "use 'http-request do-resolve', 'set-dst' and 'set-uri'"),
    _removed("http-use-htx", PROXY, "HTX is the only representation"),
    _removed("http-tunnel", FRONT, "HTTP connections become tunnels by Upgrade or CONNECT only"),
    _removed("tcpsplice", PROXY, "use 'option splice-auto'"),
)
