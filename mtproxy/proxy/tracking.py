"""Servers that follow others (`track`): who follows whom, and how they begin.

Called once, by the main thread, before the others start; proxy/transitions.py does the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mtproxy.proxy.states import IMAINT, STOPPED

if TYPE_CHECKING:
    from mtproxy.proxy.backend import BackendShared
    from mtproxy.proxy.server import ServerState


def link_tracks(backends: Mapping[str, BackendShared], now: int) -> None:
    """Find what each server tracks, and let it begin in that one's state.

    The configuration was checked: what is tracked exists, and no chain is a loop.
    """
    changed: set[BackendShared] = set()
    for backend in backends.values():
        for server in backend.servers:
            if server.settings.states.track:
                _link(backends, server)
                changed.add(backend)
    roots = [
        server
        for backend in backends.values()
        for server in backend.servers
        if server.trackers and server.track is None
    ]
    for root in roots:
        _spread(root)
    for backend in changed:
        backend.recount(now)


def _link(backends: Mapping[str, BackendShared], server: ServerState) -> None:
    name, _, wanted = server.settings.states.track.rpartition("/")
    backend = backends[name] if name else server.backend
    server.track = next(one for one in backend.servers if one.name == wanted)
    server.track.trackers.insert(0, server)  # the last one of the configuration is told first


def _spread(server: ServerState) -> None:
    """Bring all that follow `server`, directly or not, into its state."""
    for one in server.trackers:
        if server.maint:
            one.admin |= IMAINT
            one.check.health.value = 0
        if server.state == STOPPED:
            one.state = STOPPED
        _spread(one)
