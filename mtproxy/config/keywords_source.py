"""`source` of backends and servers: where connections to servers come from (manual 4.2 and 5.2).

`KEYWORDS` are the statements; `server_source` reads the word of a `server` line. Main thread only.
"""

from __future__ import annotations

import os
import re

from mtproxy.base.address import AddressError, Port, parse_address, parse_with_range
from mtproxy.base.addresses import Address, SourceSettings, UseSource
from mtproxy.base.errors import ConfigError
from mtproxy.config.context import Context
from mtproxy.config.model import BACK, Args, Keyword, Statement
from mtproxy.config.server_draft import ServerDraft

#: how far back a part of a header may be counted from the last one
_HISTORY = 10
_HEADER = re.compile(r"hdr_ip\(\s*([^\s,)]*)\s*(?:,(-?[0-9]*))?")
_OF_CLIENT = {"client": UseSource.CLIENT, "clientip": UseSource.CLIENT_IP}
_FURTHER = ("usesrc", "interface")


def server_source(ctx: Context, args: Args, draft: ServerDraft) -> None:
    """`source ADDRESS[:PORT[-PORT]]` and what may follow it on a server's line."""
    expected = "<addr>[:<port>[-<port>]], and optionally 'usesrc' <addr>, and 'interface' <name>"
    text = args.value(expected)
    try:
        address, high = parse_with_range(text, ctx.environ, ctx.resolver)
    except AddressError as error:
        raise ConfigError(f"'source {text}' : {error}", word=text) from None
    draft.source = _further(ctx, args, address, high)


def _proxy_source(ctx: Context, st: Statement) -> None:
    """`source ADDRESS[:PORT]` and what may follow it in a backend."""
    args = Args(st.words, 1)
    args.name = "source"
    text = args.value("<addr>[:<port>], and optionally 'usesrc' <addr>, and 'interface' <name>")
    ctx.proxy.source = _further(ctx, args, _address(ctx, "source", text), 0)
    if args.more():
        extra = args.next()
        raise ConfigError(
            f"'source' only supports optional keywords 'interface' and 'usesrc' (got '{extra}')",
            word=extra,
        )


def _further(ctx: Context, args: Args, address: Address, high: int) -> SourceSettings:
    """The words behind the address; the last one of each kind counts."""
    interface = ""
    usesrc: UseSource | None = None
    foreign: Address | None = None
    header, occurrence = "", -1
    while args.more() and args.words[args.position] in _FURTHER:
        word = args.name = args.next()
        if word == "interface":
            interface = args.value("the name of an interface")
            continue
        whose = args.value("<addr>[:<port>], 'client', 'clientip', or 'hdr_ip(name,#)'")
        if whose in _OF_CLIENT:
            usesrc = _OF_CLIENT[whose]
        elif whose.startswith("hdr_ip("):
            usesrc = UseSource.HEADER
            header, occurrence = _header(whose)
        else:
            usesrc, foreign = UseSource.ADDRESS, _address(ctx, "usesrc", whose)
    args.name = "source"
    return SourceSettings(
        address,
        high,
        interface,
        usesrc,
        foreign if usesrc is UseSource.ADDRESS else None,
        os.fsencode(header.lower()),
        occurrence,
    )


def _header(text: str) -> tuple[str, int]:
    """Name and occurrence of `hdr_ip(NAME[,OCCURRENCE])`."""
    found = _HEADER.match(text)
    assert found is not None  # it matches what begins as it has to
    occurrence = -1 if found[2] is None else int(found[2]) if found[2].strip("-") else 0
    if occurrence < -_HISTORY:
        raise ConfigError(
            "'usesrc hdr_ip(name,num)' does not support negative occurrences values smaller than "
            f"-{_HISTORY}",
            word=text,
        )
    return found[1], occurrence


def _address(ctx: Context, name: str, text: str) -> Address:
    try:
        return parse_address(text, ctx.environ, port=Port.OPTIONAL, resolver=ctx.resolver).address
    except AddressError as error:
        raise ConfigError(f"'{name} {text}' : {error}", word=text) from None


def _alone(ctx: Context, st: Statement) -> None:
    raise ConfigError("'usesrc' only allowed after a 'source' statement", word="usesrc")


def usesrc_alone(ctx: Context, args: Args, draft: ServerDraft) -> None:
    """`usesrc` of a server's line without `source` before it."""
    raise ConfigError("'usesrc' only allowed after a 'source' statement", word="usesrc")


KEYWORDS: tuple[Keyword, ...] = (
    Keyword("source", BACK, _proxy_source),
    Keyword("usesrc", BACK, _alone),
)
