"""`resolvers` sections: name servers and how long to wait for them (manual 5.3.2).

Exports `KEYWORDS`. What only the resolution of servers' own names would use has no effect yet.
Main thread only.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mtproxy.base.address import AddressError, Port, parse_address
from mtproxy.base.errors import ConfigError
from mtproxy.base.settings import Address, NameServer, ResolversSettings
from mtproxy.config.model import (
    IN_RESOLVERS,
    Keyword,
    Parser,
    Statement,
    Support,
    check_name,
    choice,
    integer,
    time,
)

if TYPE_CHECKING:
    from mtproxy.config.context import Context

_HOLDS = ("nx", "obsolete", "other", "refused", "timeout", "valid")
_DNS_PORT = 53
_RESOLV_CONF = Path("/etc/resolv.conf")


def open_section(ctx: Context, st: Statement) -> None:
    """A `resolvers` section begins."""
    name = st.arg(1)
    ctx.current_resolvers = name
    if not name:
        raise ConfigError("'resolvers' expects a name as argument")
    check_name(name, "resolvers")
    st.at_most(1)
    other = ctx.resolvers.get(name)
    if other is not None:
        raise ConfigError(
            f"resolvers '{name}' has the same name as another one at"
            f" {other.location.file}:{other.location.line}",
            word=name,
        )
    ctx.resolvers[name] = ResolversSettings(name, location=st.location)


def _change(ctx: Context, **values: object) -> None:
    name = ctx.current_resolvers
    ctx.resolvers[name] = replace(ctx.resolvers[name], **values)  # type: ignore[arg-type]


def _add(ctx: Context, name: str, address: Address, st: Statement) -> None:
    known = ctx.resolvers[ctx.current_resolvers].nameservers
    for other in known:
        if other.name == name:
            raise ConfigError(
                f"name server '{name}' has the same name as another one at"
                f" {other.location.file}:{other.location.line}",
                word=name,
            )
    _change(ctx, nameservers=(*known, NameServer(name, address, st.location)))


def _nameserver(ctx: Context, st: Statement) -> None:
    name = st.required(1, "a name")
    text = st.required(2, "an address", taken=2)
    if text.startswith(("tcp@", "tcp4@", "tcp6@")):
        raise ConfigError(
            "'nameserver' : questions over TCP are known but not supported by mtproxy yet",
            word=text,
        )
    if len(st.words) > 3:
        raise ConfigError(
            f"'nameserver' : unexpected '{st.words[3]}' behind the address", word=st.words[3]
        )
    try:
        parsed = parse_address(text, ctx.environ, port=Port.OPTIONAL, resolver=ctx.resolver)
    except AddressError as error:
        raise ConfigError(f"'nameserver' : {error}", word=text) from None
    address = parsed.address
    _add(ctx, name, replace(address, port=address.port or _DNS_PORT), st)


def _resolv_conf(ctx: Context, st: Statement) -> None:
    st.at_most(0)
    try:
        lines = _RESOLV_CONF.read_text("ascii", "replace").splitlines()
    except OSError as error:
        raise ConfigError(f"'parse-resolv-conf' : cannot read {_RESOLV_CONF}: {error}") from None
    found = False
    for line in lines:
        words = line.split()
        if len(words) < 2 or words[0] != "nameserver":
            continue
        try:
            text = f"[{words[1]}]" if ":" in words[1] else words[1]
            address = parse_address(text, {}, port=Port.OPTIONAL, resolver=None).address
        except AddressError:
            ctx.warn(st.location, f"'parse-resolv-conf' : '{words[1]}' is no address")
            continue
        _add(ctx, words[1], replace(address, port=_DNS_PORT), st)
        found = True
    if not found:
        ctx.warn(st.location, f"'parse-resolv-conf' : no name server found in {_RESOLV_CONF}")


def _hold(ctx: Context, st: Statement) -> None:
    kind = choice("hold", st.required(1, "a status"), _HOLDS)
    value = time(f"hold {kind}", st.required(2, "a time", taken=2))
    st.at_most(2)
    if kind == "valid":
        _change(ctx, hold_valid=value)


def _retries(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    _change(ctx, retries=integer("resolve_retries", st.required(1, "a number"), 0))


def _payload(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    size = integer("accepted_payload_size", st.required(1, "a number"), 512, 65535)
    _change(ctx, payload_size=size)


def _timeout(field: str | None) -> Parser:
    def parse(ctx: Context, st: Statement) -> None:
        st.at_most(1, taken=2)
        value = time(f"timeout {st.words[1]}", st.required(2, "a time", taken=2))
        if field is not None:
            _change(ctx, **{field: value})

    return parse


KEYWORDS: tuple[Keyword, ...] = (
    Keyword("nameserver", IN_RESOLVERS, _nameserver),
    Keyword("parse-resolv-conf", IN_RESOLVERS, _resolv_conf),
    Keyword("hold", IN_RESOLVERS, _hold),
    Keyword("resolve_retries", IN_RESOLVERS, _retries),
    Keyword("accepted_payload_size", IN_RESOLVERS, _payload),
    Keyword("timeout retry", IN_RESOLVERS, _timeout("timeout_retry")),
    Keyword(
        "timeout resolve",
        IN_RESOLVERS,
        _timeout(None),
        Support.NO_EFFECT,
        "servers' own names are resolved at the start alone",
    ),
)
