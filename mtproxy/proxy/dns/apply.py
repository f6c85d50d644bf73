"""Changes that a name's look-up makes to a server: its address, port, name, weight, maintenance.

Each is made under the server's SERVER lock and reported in HAProxy's words with no lock held. A new
address is a new epoch: every thread is told to drop its idle connections to the old one and to use
the new one. Any thread may call these functions; `ctx` is the caller's own.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from mtproxy.base.addresses import Address, AddressKind
from mtproxy.proxy import transitions
from mtproxy.proxy.backend import NOTICE
from mtproxy.proxy.states import HMAINT, RMAINT

if TYPE_CHECKING:
    from mtproxy.proxy.server import ServerState
    from mtproxy.sched.context import ThreadContext


def tell_threads(server: ServerState, ctx: ThreadContext) -> None:
    """Have every thread use the server's new address in its next turn, and close its idle
    connections to the old one. Call it with no lock held.
    """
    ctx.pool.run_everywhere(partial(_follow, server))


def _follow(server: ServerState, ctx: ThreadContext) -> None:
    for side in server.sides:
        if side.tid == ctx.tid and side.epoch != server.epoch:
            for stale in side.refresh():
                stale.close()
            if side.cookie_key is not None:
                # it has another name now for those who look for it
                for learn in ctx.room.backends[server.backend.name].on_servers:
                    learn()


def set_address(server: ServerState, ctx: ThreadContext, address: Address, updater: str) -> bool:
    """Give the server another IP address, its port stays; `updater` says who wants it. Whether it
    is another one.
    """
    with_text = f"{address.host}:{address.port}" if address.port else address.host
    server.lock.take(ctx.tid)
    try:
        old = server.address
        if old.kind is address.kind and old.host == address.host:
            return False
        server.address = replace(address, text=with_text)
        server.epoch += 1
    finally:
        server.lock.drop(ctx.tid)
    tell_threads(server, ctx)
    before = "(none)" if old.kind is AddressKind.NONE else old.host
    server.backend.notify(
        ctx,
        NOTICE,
        f"{server.full_name} changed its IP from {before} to {address.host} by {updater}.",
    )
    return True


def forget_address(server: ServerState, ctx: ThreadContext) -> None:
    """The server has no IP address any more; its port stays."""
    server.lock.take(ctx.tid)
    server.address = replace(server.address, kind=AddressKind.NONE, host="", text="")
    server.epoch += 1
    server.lock.drop(ctx.tid)
    tell_threads(server, ctx)


def set_port(server: ServerState, ctx: ThreadContext, port: int) -> None:
    """The port of a SRV record's target takes the place of the server's."""
    server.lock.take(ctx.tid)
    changed = server.address.port != port or server.address.port_offset is not None
    if changed:
        server.address = replace(server.address, port=port, port_offset=None)
        server.epoch += 1
    server.lock.drop(ctx.tid)
    if changed:
        tell_threads(server, ctx)


def set_name(server: ServerState, ctx: ThreadContext, name: str, updater: str) -> str:
    """Give the server another host name. Returns how that is told."""
    server.lock.take(ctx.tid)
    old = server.hostname
    server.hostname = name
    server.admin |= HMAINT
    server.lock.drop(ctx.tid)
    before = "(null)" if old is None else old
    return f"{server.full_name} changed its FQDN from {before} to {name} by '{updater}'"


def forget_name(server: ServerState, ctx: ThreadContext) -> None:
    """The server stands for no target of a SRV record: it has neither name nor port."""
    server.lock.take(ctx.tid)
    server.hostname = None
    server.address = replace(server.address, port=0)
    server.lock.drop(ctx.tid)


def set_weight(server: ServerState, ctx: ThreadContext, weight: int) -> None:
    """The weight of a SRV record, 0..256; said only where it is another one."""
    if server.weight != weight:
        transitions.set_weight(server, ctx, weight)


def enter_maint(server: ServerState, ctx: ThreadContext, cause: str) -> bool:
    """The name has no address: maintenance. Whether it was not in it for that reason already."""
    if server.admin & RMAINT:
        return False
    transitions.set_flag(server, ctx, RMAINT, cause)
    return True


def leave_maint(server: ServerState, ctx: ThreadContext) -> bool:
    """The name has an address again. Whether the server was in maintenance for want of one."""
    if not server.admin & RMAINT:
        return False
    transitions.clear_flag(server, ctx, RMAINT)
    return True
