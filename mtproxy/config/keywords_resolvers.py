"""`resolvers` sections: name servers and how long to wait for them (manual 5.3.2).

Exports `KEYWORDS`. A section "default" is made of /etc/resolv.conf where the configuration has none
(`add_default`), as in HAProxy. Main thread only.
"""

from __future__ import annotations

import re
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from mtproxy.base.address import AddressError, Port, parse_address
from mtproxy.base.addresses import Address, AddressKind
from mtproxy.base.errors import ConfigError
from mtproxy.base.location import Location
from mtproxy.base.server_settings import NameServer, ResolversSettings
from mtproxy.config.model import (
    IN_RESOLVERS,
    Keyword,
    Parser,
    Statement,
    check_name,
    choice,
    integer,
    time,
)

if TYPE_CHECKING:
    from mtproxy.config.context import Context

_HOLDS = ("nx", "obsolete", "other", "refused", "timeout", "valid")
_DNS_PORT = 53
#: the section that is made where there is none
_DEFAULT = "default"
#: addresses of name servers that are asked over a stream
_TCP = re.compile(r"(?:stream\+|tcp[46]?@)")
_INET = (AddressKind.IPV4, AddressKind.IPV6, AddressKind.UDP4, AddressKind.UDP6)
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


def _add(ctx: Context, nameserver: NameServer) -> None:
    known = ctx.resolvers[ctx.current_resolvers].nameservers
    for other in known:
        if other.name == nameserver.name:
            raise ConfigError(
                f"name server '{other.name}' has the same name as another one at"
                f" {other.location.file}:{other.location.line}",
                word=other.name,
            )
    _change(ctx, nameservers=(*known, nameserver))


def _nameserver(ctx: Context, st: Statement) -> None:
    name = st.required(1, "a name")
    text = st.required(2, "an address", taken=2)
    check_name(name, "name server")
    if len(st.words) > 3:
        raise ConfigError(
            f"'nameserver' : unexpected '{st.words[3]}' behind the address", word=st.words[3]
        )
    stream = _TCP.match(text) is not None
    try:
        parsed = parse_address(text, ctx.environ, port=Port.OPTIONAL, resolver=ctx.resolver)
    except AddressError as error:
        raise ConfigError(f"'nameserver' : {error}", word=text) from None
    address = parsed.address
    if address.kind not in _INET:
        raise ConfigError("'nameserver' : an IP address is expected", word=text)
    if not address.port:
        raise ConfigError(
            f"'nameserver' : missing port in '{text}' (name servers listen on {_DNS_PORT})",
            word=text,
        )
    kind = AddressKind.IPV6 if ":" in address.host else AddressKind.IPV4
    address = replace(address, kind=kind, port=address.port)
    _add(ctx, NameServer(name, address, st.location, stream=stream))


def _read_resolv_conf() -> tuple[list[str], list[str]]:
    """Addresses of name servers, and what is written there but is none. Raises OSError."""
    good: list[str] = []
    bad: list[str] = []
    for line in _RESOLV_CONF.read_text("ascii", "replace").splitlines():
        words = line.split()
        if len(words) < 2 or words[0] != "nameserver" or words[1] in good:
            continue
        (good if _is_address(words[1]) else bad).append(words[1])
    return good, bad


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _of_resolv_conf(text: str, location: Location) -> NameServer:
    kind = AddressKind.IPV6 if ":" in text else AddressKind.IPV4
    return NameServer(text, Address(kind, text, _DNS_PORT, text=text), location)


def _resolv_conf(ctx: Context, st: Statement) -> None:
    st.at_most(0)
    try:
        good, bad = _read_resolv_conf()
    except OSError as error:
        raise ConfigError(f"'parse-resolv-conf' : cannot read {_RESOLV_CONF}: {error}") from None
    for text in bad:
        ctx.warn(st.location, f"'parse-resolv-conf' : '{text}' is no address")
    known = {one.name for one in ctx.resolvers[ctx.current_resolvers].nameservers}
    for text in good:
        if text in known:
            ctx.warn(
                st.location,
                f"'parse-resolv-conf' : there is a name server '{text}' already: the one of"
                f" {_RESOLV_CONF} is left out",
            )
        else:
            _add(ctx, _of_resolv_conf(text, st.location))
    if not good:
        ctx.warn(st.location, f"'parse-resolv-conf' : no name server found in {_RESOLV_CONF}")


def add_default(ctx: Context) -> None:
    """The section "default" of /etc/resolv.conf, unless there is one or nothing to make it of."""
    if _DEFAULT in ctx.resolvers:
        return
    try:
        good, _ = _read_resolv_conf()
    except OSError:
        return
    if good:
        place = Location(str(_RESOLV_CONF), 0)
        servers = tuple(_of_resolv_conf(text, place) for text in good)
        ctx.resolvers[_DEFAULT] = ResolversSettings(_DEFAULT, servers, implicit=True)


def _hold(ctx: Context, st: Statement) -> None:
    kind = choice("hold", st.required(1, "a status"), _HOLDS)
    value = time(f"hold {kind}", st.required(2, "a time", taken=2))
    st.at_most(2)
    _change(ctx, **{f"hold_{kind}": value})


def _retries(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    _change(ctx, retries=integer("resolve_retries", st.required(1, "a number"), 0))


def _payload(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    size = integer("accepted_payload_size", st.required(1, "a number"), 512, 65535)
    _change(ctx, payload_size=size)


def _timeout(field: str) -> Parser:
    def parse(ctx: Context, st: Statement) -> None:
        st.at_most(1, taken=2)
        value = time(f"timeout {st.words[1]}", st.required(2, "a time", taken=2))
        _change(ctx, **{field: value})

    return parse


KEYWORDS: tuple[Keyword, ...] = (
    Keyword("nameserver", IN_RESOLVERS, _nameserver),
    Keyword("parse-resolv-conf", IN_RESOLVERS, _resolv_conf),
    Keyword("hold", IN_RESOLVERS, _hold),
    Keyword("resolve_retries", IN_RESOLVERS, _retries),
    Keyword("accepted_payload_size", IN_RESOLVERS, _payload),
    Keyword("timeout retry", IN_RESOLVERS, _timeout("timeout_retry")),
    Keyword("timeout resolve", IN_RESOLVERS, _timeout("timeout_resolve")),
)
