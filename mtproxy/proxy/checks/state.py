"""What `http-check send-state` tells a server of itself (manual 4.2). Any thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.base.addresses import AddressKind
from mtproxy.proxy.states import STOPPING

if TYPE_CHECKING:
    from mtproxy.proxy.server import ServerState

_INET = (AddressKind.IPV4, AddressKind.IPV6)


def state_text(server: ServerState, node: str) -> bytes:
    """The value of X-Haproxy-Server-State."""
    health = server.check.health
    backend = server.backend
    if not server.check.enabled:
        seen = "no check"
    elif server.running:
        word = "NOLB" if server.state == STOPPING else "UP"
        full = health.value == health.top
        seen = word if full else f"{word} {health.value - health.rise + 1}/{health.fall}"
    else:
        seen = f"DOWN {health.value}/{health.rise}" if health.value else "DOWN"
    address = server.address
    inet = address.kind in _INET
    sessions = server.sessions()
    weight = server.weight if server.usable else 0
    return (
        f"{seen}; address={address.host if inet else 'unix'}; port={address.port if inet else ''};"
        f" name={backend.name}/{server.name}; node={node};"
        f" weight={weight}/{backend.total_weight()};"
        f" scur={sessions}/{backend.sessions()}; qcur=0"
    ).encode("utf-8", "surrogateescape")
