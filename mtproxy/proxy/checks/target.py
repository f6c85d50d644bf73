"""Where the health checks of a server go, as the operator changes it. Any thread may call it; the
server's lock guards what is written, the next check reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mtproxy.base.addresses import Address
    from mtproxy.proxy.server import ServerState
    from mtproxy.sched.context import ThreadContext


def change_check(
    server: ServerState, ctx: ThreadContext, *, address: Address | None, port: int | None
) -> None:
    """Another place of the health check (management 9.3, `set server`); None: as before.

    `port` is 0..65535; 0: the port of the address, or else the server's.
    """
    server.lock.take(ctx.tid)
    if address is not None:
        server.check_address = address
    if port is not None:
        server.check_port = port
    server.lock.drop(ctx.tid)
