"""How a backend chooses its servers: balance, hash-type, hash-balance-factor, ... (manual 4.2).

Exports `KEYWORDS`, `check` (what depends on the mode) and `balance_words`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from mtproxy.base.address import AddressError, Port, parse_address
from mtproxy.base.addresses import Address, AddressKind
from mtproxy.base.errors import ConfigError
from mtproxy.config.dump import address_text
from mtproxy.config.keywords_rules import reader_of
from mtproxy.config.model import (
    BACK,
    BACK_ONLY,
    FRONT,
    INT_MAX,
    Keyword,
    Statement,
    Support,
    choice,
    integer,
)
from mtproxy.rules import points
from mtproxy.rules.types import Type

if TYPE_CHECKING:
    from mtproxy.base.ruleset import Expression
    from mtproxy.base.settings import BalanceSettings, ProxySettings
    from mtproxy.config.context import Context
    from mtproxy.config.drafts import ProxyDraft

#: algorithms by their names without what is in parentheses
BALANCE = (
    "roundrobin", "static-rr", "leastconn", "first", "source", "uri", "url_param", "hdr", "random",
    "rdp-cookie", "hash",
)  # fmt: skip
_LATER = ("log-hash", "log-sticky", "sticky")
_FUNCTIONS = ("sdbm", "djb2", "wt6", "crc32", "none")
#: what `mode tcp` knows nothing of
_NEED_HTTP = frozenset({"uri", "url_param", "hdr"})
#: what `balance` looks for, and `persist`
_RDP_COOKIE = "mstshash"
_RDP_PERSISTENCE = "msts"

_is_token = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+").fullmatch
_split = re.compile(r"([^(]*)(?:\((.*))?").fullmatch


def _balance(ctx: Context, st: Statement) -> None:
    word = st.arg(1) or "roundrobin"
    parts = _split(word)
    assert parts is not None
    name, argument = parts[1], parts[2]
    title = f"balance {name}"
    if name in _LATER:
        raise ConfigError(f"'{title}' is known but not supported by mtproxy yet", word=word)
    if name not in BALANCE:
        choice("balance", name, BALANCE)
    if argument is not None:
        if name not in ("hdr", "random", "rdp-cookie"):
            raise ConfigError(f"'{title}' takes no argument in parentheses", word=word)
        if not argument.endswith(")"):
            raise ConfigError(f"'{title}' : missing closing parenthesis", word=word)
        argument = argument[:-1]
    draft = ctx.proxy
    known = draft.balance_params
    #: what `hash-type` and its like have said stays
    params = replace(
        known, name=b"", expression=None, whole=False, path_only=False, depth=0, length=0,
        check_post=False, domain_only=False, draws=2,
    )  # fmt: skip
    match name:
        case "uri":
            params = _uri(st, params)
        case "url_param":
            params = replace(params, name=os.fsencode(st.required(2, "a parameter's name", 2)))
            st.at_most(4)
            if st.arg(3):
                choice(title, st.arg(3), ("check_post",))
                params = replace(params, check_post=True)
            if st.arg(4):
                # how much of a body was waited for, once; the buffer says that now
                integer(f"{title} ... check_post", st.arg(4), 0)
        case "hdr":
            if not argument:
                raise ConfigError(f"'{title}' expects a header's name in parentheses", word=word)
            params = replace(params, name=os.fsencode(argument))
            st.at_most(2)
            if st.arg(2):
                choice(f"balance {word}", st.arg(2), ("use_domain_only",))
                params = replace(params, domain_only=True)
        case "random":
            st.at_most(1)
            if argument:
                params = replace(params, draws=integer(title, argument, 1))
        case "rdp-cookie":
            st.at_most(1)
            if argument == "":
                raise ConfigError(f"'{title}' : missing cookie name", word=word)
            params = _rdp_cookie(ctx, st, params, argument or _RDP_COOKIE)
        case "hash":
            reader = reader_of(ctx, st, points.USE_SERVER, 2)
            if not reader.more():
                raise ConfigError(f"'{title}' expects a sample expression")
            expression = reader.expression(Type.BIN)
            reader.end()
            text = os.fsencode(" ".join(st.words[2:]))
            params = replace(params, name=text, expression=expression)
        case _:
            st.at_most(1)
    draft.balance = name
    draft.balanced = True
    draft.balance_params = params


def _uri(st: Statement, params: BalanceSettings) -> BalanceSettings:
    index = 2
    while word := st.arg(index):
        index += 1
        if word in ("len", "depth"):
            number = integer(
                f"balance uri {word}", st.required(index, f"a number behind '{word}'", 2), 1
            )
            index += 1
            if word == "len":
                params = replace(params, length=number)
            else:
                params = replace(params, depth=number)
        elif word == "whole":
            params = replace(params, whole=True)
        elif word == "path-only":
            params = replace(params, path_only=True)
        else:
            choice("balance uri", word, ("len", "depth", "path-only", "whole"))
    return params


def _rdp_cookie(ctx: Context, st: Statement, params: BalanceSettings, name: str) -> BalanceSettings:
    return replace(params, name=os.fsencode(name), expression=_cookie_fetch(ctx, st, name))


def _cookie_fetch(ctx: Context, st: Statement, name: str) -> Expression:
    """What gives the value of an RDP cookie."""
    words = (*st.words[:1], "rdp-cookie", f"rdp_cookie({name})")
    reader = reader_of(ctx, replace(st, words=words, columns=()), points.USE_SERVER, 2)
    return reader.expression(Type.BIN)


def _persist(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    word = st.required(1, "a method")
    parts = _split(word)
    assert parts is not None
    choice("persist", parts[1], ("rdp-cookie",))
    name = _RDP_PERSISTENCE
    if parts[2] is not None:
        name = parts[2].removesuffix(")")
        if not name or not parts[2].endswith(")"):
            raise ConfigError("'persist rdp-cookie' : missing cookie name", word=word)
    ctx.proxy.rdp_cookie = _cookie_fetch(ctx, st, name)


def _hash_type(ctx: Context, st: Statement) -> None:
    st.at_most(3)
    method = st.required(1, "a method")
    if method == "avalanche":
        raise ConfigError(
            "'hash-type avalanche' is gone: use 'hash-type map-based sdbm avalanche'", word=method
        )
    consistent = choice("hash-type", method, ("consistent", "map-based")) == "consistent"
    function = st.arg(2)
    avalanche = consistent
    if function:
        choice("hash-type", function, _FUNCTIONS)
        avalanche = bool(st.arg(3)) and bool(choice("hash-type", st.arg(3), ("avalanche",)))
    ctx.proxy.balance_params = replace(
        ctx.proxy.balance_params,
        consistent=consistent,
        function=function or "sdbm",
        avalanche=avalanche,
    )


def _factor(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    text = st.required(1, "a number")
    factor = integer("hash-balance-factor", text, 0, INT_MAX)
    if 0 < factor <= 100:
        raise ConfigError("'hash-balance-factor' must be 0 or greater than 100", word=text)
    ctx.proxy.balance_params = replace(ctx.proxy.balance_params, factor=factor)


def _affinity(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    word = choice("hash-preserve-affinity", st.arg(1), ("always", "maxconn", "maxqueue"))
    ctx.proxy.balance_params = replace(ctx.proxy.balance_params, affinity=word)


def _dispatch(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    text = st.required(1, "an address")
    try:
        parsed = parse_address(text, ctx.environ, port=Port.OPTIONAL, resolver=ctx.resolver)
    except AddressError as error:
        raise ConfigError(f"'dispatch' : {error}", word=text) from None
    if parsed.address.kind not in (AddressKind.IPV4, AddressKind.IPV6, AddressKind.UNIX):
        raise ConfigError(f"'dispatch' : an address to connect to is expected (got '{text}')")
    if not parsed.address.port and parsed.address.kind is not AddressKind.UNIX:
        raise ConfigError(f"'dispatch' : missing port number in '{text}'", word=text)
    ctx.proxy.dispatch = parsed.address


def _transparent(ctx: Context, st: Statement) -> None:
    st.at_most(0)
    ctx.proxy.options.add("transparent")


def _name_header(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    name = st.required(1, "a header's name")
    if not _is_token(name):
        raise ConfigError(f"'http-send-name-header' : '{name}' is no name of a header", word=name)
    ctx.proxy.name_header = name


def _private_connections(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    integer("max-session-srv-conns", st.required(1, "a number"), 0)


#: where the client wanted to go
_ANYWHERE = Address(AddressKind.IPV4, "0.0.0.0", 0, text="0.0.0.0")


def check(ctx: Context, proxy: ProxyDraft) -> None:
    """What depends on other statements: sessions that go to no server, hashes without HTTP."""
    if not proxy.is_backend:
        return
    transparent = "transparent" in proxy.options
    if proxy.balanced:
        if transparent:
            ctx.diagnostics.alert(
                f"{proxy.title()} cannot use both transparent and balance mode", proxy.location
            )
        elif proxy.dispatch is not None:
            ctx.warn(
                proxy.location,
                f"dispatch address of {proxy.title()} will be ignored in balance mode",
            )
    elif proxy.dispatch is not None:
        proxy.direct = proxy.dispatch
    elif transparent:
        proxy.direct = _ANYWHERE
    _check_mode(ctx, proxy)


def _check_mode(ctx: Context, proxy: ProxyDraft) -> None:
    """In `mode tcp` there is nothing of HTTP to be hashed; HAProxy's warning."""
    if proxy.is_backend and proxy.mode == "tcp" and proxy.balance in _NEED_HTTP:
        ctx.warn(
            proxy.location,
            f"Layer 7 hash not possible for {proxy.title()} (needs 'mode http'). Falling back to"
            " round robin.",
        )
        proxy.balance = "roundrobin"


def balance_words(proxy: ProxySettings) -> Iterator[list[str]]:
    """The statements that give these settings."""
    if proxy.rdp_cookie is not None:
        yield ["persist", proxy.rdp_cookie.text.replace("rdp_cookie", "rdp-cookie")]
    if proxy.name_header:
        yield ["http-send-name-header", proxy.name_header.decode("latin-1")]
    if proxy.direct is not None:
        # `option transparent` is written with the other options
        if proxy.direct.port or proxy.direct.kind is AddressKind.UNIX:
            yield ["dispatch", address_text(proxy.direct)]
        return
    params = proxy.balance_params
    name = params.name.decode("utf-8", "surrogateescape")
    words = ["balance", proxy.balance]
    match proxy.balance:
        case "uri":
            words += ["whole"] * params.whole + ["path-only"] * params.path_only
            words += ["len", str(params.length)] if params.length else []
            words += ["depth", str(params.depth)] if params.depth else []
        case "url_param":
            words += [name] + ["check_post"] * params.check_post
        case "hdr":
            words = ["balance", f"hdr({name})"] + ["use_domain_only"] * params.domain_only
        case "rdp-cookie":
            words = ["balance", f"rdp-cookie({name})"]
        case "hash":
            words.append(name)
        case "random":
            words = ["balance", f"random({params.draws})"]
    yield words
    method = "consistent" if params.consistent else "map-based"
    words = ["hash-type", method, params.function] + ["avalanche"] * params.avalanche
    yield words
    if params.factor:
        yield ["hash-balance-factor", str(params.factor)]
    if params.affinity != "always":
        yield ["hash-preserve-affinity", params.affinity]


KEYWORDS: tuple[Keyword, ...] = (
    Keyword("balance", BACK, _balance),
    Keyword("dispatch", BACK_ONLY, _dispatch),
    Keyword("http-send-name-header", BACK, _name_header),
    Keyword(
        "max-session-srv-conns",
        FRONT,
        _private_connections,
        Support.NO_EFFECT,
        "a client has at most one idle connection to a server of its own",
    ),
    Keyword("persist", BACK, _persist, quiet=True),
    Keyword("transparent", BACK, _transparent, quiet=True),
    Keyword("hash-type", BACK, _hash_type),
    Keyword("hash-balance-factor", BACK, _factor, quiet=True),
    Keyword("hash-preserve-affinity", BACK, _affinity),
)
