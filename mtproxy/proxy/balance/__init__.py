"""Load-balancing algorithms: which server of a backend gets the next session.

An algorithm is one shared object per backend (class `Balancer` in `base`) which knows servers by
their position in the backend, and makes a picker for each thread, which knows that thread's own
`Server` objects. `make_balancer` chooses it by the `balance` and `hash-type` keywords (manual 4.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.proxy.balance.base import SCALE, Balancer, Full, HashOf, Picker
from mtproxy.proxy.balance.consistent import Consistent, Random
from mtproxy.proxy.balance.first import First
from mtproxy.proxy.balance.leastconn import LeastConn
from mtproxy.proxy.balance.roundrobin import RoundRobin
from mtproxy.proxy.balance.static import StaticMap

if TYPE_CHECKING:
    from mtproxy.base.settings import ProxySettings
    from mtproxy.sync.locks import Lock

#: the algorithms that take new servers and weights at any time, whatever `hash-type` says
ALGORITHMS = ("first", "leastconn", "random", "roundrobin")

__all__ = [
    "ALGORITHMS",
    "SCALE",
    "Balancer",
    "Consistent",
    "First",
    "Full",
    "HashOf",
    "LeastConn",
    "Picker",
    "Random",
    "RoundRobin",
    "StaticMap",
    "make_balancer",
]


def make_balancer(settings: ProxySettings, lock: Lock) -> Balancer:
    """The algorithm of a backend. `lock` is its LBPRM lock."""
    servers = settings.servers
    size = len(servers)
    params = settings.balance_params
    name = settings.balance
    if name == "roundrobin":
        return RoundRobin(lock, size, [i for i, server in enumerate(servers) if server.backup])
    if name == "leastconn":
        return LeastConn(lock, size)
    asks_always = name in ("url_param", "rdp-cookie")
    ids = [server.id for server in servers]
    if name == "first":
        return First(lock, ids)
    if name == "static-rr" or (name != "random" and not params.consistent):
        return StaticMap(lock, [server.weight for server in servers], asks_always=asks_always)
    addresses = [server.address for server in servers]
    hash_keys = [server.hash_key for server in servers]
    if name == "random":
        return Random(lock, ids, addresses, hash_keys, params.factor, params.draws)
    return Consistent(
        lock,
        ids,
        addresses,
        hash_keys,
        params.factor,
        asks_always=asks_always,
        affinity=params.affinity,
    )
