"""`set server b/s addr ADDRESS [port PORT]`: another address and port for a running server.

Any thread may call. The address changes under the SERVER lock; then every thread is told, with no
lock held. What is answered is HAProxy's, word for word, verified against 2.6.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from mtproxy.base.addresses import Address, AddressKind
from mtproxy.proxy.dns.apply import tell_threads
from mtproxy.rules.types import Ip6, parse_ip

if TYPE_CHECKING:
    from mtproxy.proxy.server import ServerState
    from mtproxy.sched.context import ThreadContext

_NUMBER = re.compile(r"\s*([+-]?[0-9]+)", re.ASCII)
_IP = (AddressKind.IPV4, AddressKind.IPV6, AddressKind.NONE)


def change_address(
    server: ServerState, ctx: ThreadContext, host: str | None, port: str | None, updater: str = ""
) -> str:
    """Change the address, the port, or both (None: leave it). Returns what happened, for people.

    A port with a sign is an offset to the port that the client connected to.
    """
    parts: list[str] = []
    server.lock.take(ctx.tid)
    try:
        old = server.address
        new = old
        failed = False
        if host is not None:
            new, text = _other_host(old, host)
            parts.append(text)
            failed = text.startswith(("Invalid", "Update"))
        if port is not None and not failed:
            new, text = _other_port(server, new, port)
            parts.append(text)
        if new != old:
            server.address = replace(new, text=f"{new.host}:{new.port}" if new.port else new.host)
            server.epoch += 1
    finally:
        server.lock.drop(ctx.tid)
    if new != old:
        server.backend.update(server, ctx)
        tell_threads(server, ctx)
        ctx.pool.run_everywhere(partial(_learn, server.backend.name))
    return ", ".join(parts) + (f" by '{updater}'" if updater else "")


def _learn(backend: str, ctx: ThreadContext) -> None:
    """Those who know servers by their address look again."""
    for told in ctx.room.backends[backend].on_servers:
        told()


def _other_host(old: Address, host: str) -> tuple[Address, str]:
    found = parse_ip(host)
    if found is None:
        return old, f"Invalid addr '{host}'"
    if old.kind not in _IP:
        return old, (
            "Update for the current server address family is only supported through configuration"
            " file"
        )
    kind = AddressKind.IPV6 if isinstance(found, Ip6) else AddressKind.IPV4
    before = parse_ip(old.host) if old.host else None
    if before is not None and before == found and old.kind is kind:
        return old, "no need to change the addr"
    shown = old.host or "0.0.0.0"
    return replace(old, kind=kind, host=host), f"IP changed from '{shown}' to '{host}'"


def _other_port(server: ServerState, old: Address, text: str) -> tuple[Address, str]:
    match = _NUMBER.match(text)
    if match is None:
        return old, f"problem converting port '{text}' to an int"
    number = int(match[1])
    before = old.port if old.port_offset is None else old.port_offset
    sign = text[0] if text[0] in "+-" else ""
    if sign:
        if old.port_offset is None and not server.check_port:
            return old, (
                "can't change <port> to port map because it is incompatible with current health"
                " check port configuration (use 'port' statement from the 'server' directive."
            )
        if old.port_offset == number:
            return old, "no need to change the port"
        new = replace(old, port=0, port_offset=number)
    else:
        number %= 1 << 16
        if old.port_offset is None and old.port == number:
            return old, "no need to change the port"
        new = replace(old, port=number, port_offset=None)
    plus = "" if old.port_offset is None else "+"
    return new, f"port changed from '{plus}{before}' to '{sign}{abs(number)}'"
