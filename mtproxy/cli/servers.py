"""Which server a runtime command means, and whether it could be removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.cli.runtime import CliError, CliSession

if TYPE_CHECKING:
    from mtproxy.proxy.server import ServerState
    from mtproxy.stats.runtime import Runtime


def find_server(cli: CliSession, args: list[str]) -> ServerState:
    """The server that `backend/server` names. Raises CliError in HAProxy's words."""
    backend, slash, name = (args[0] if args else "").partition("/")
    if not slash or not backend or not name:
        raise CliError("Require 'backend/server'.")
    proxy = cli.runtime.backend(backend)
    if proxy is None or proxy.shared is None:
        raise CliError("No such backend.")
    for server in proxy.shared.servers:
        if server.name == name or name == f"#{server.id}":
            return server
    raise CliError("No such server.")


def removal_obstacle(runtime: Runtime, server: ServerState) -> str | None:
    """Why `del server` would refuse it now, in HAProxy's words; None: it would not."""
    if (server.backend.name, server.name) in runtime.settings.referenced_servers:
        return (
            "This server cannot be removed at runtime due to other configuration elements pointing"
            " to it."
        )
    if not server.maint:
        return "Only servers in maintenance mode can be deleted."
    waiting = sum([counters.queue_cur for counters in server.side_counters])
    if server.sessions() or waiting:
        return "Server still has connections attached to it, cannot remove it."
    return None
