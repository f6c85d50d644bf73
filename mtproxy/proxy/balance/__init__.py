"""Load-balancing algorithms: which server of a backend gets the next session.

An algorithm is one shared object per backend (class `Balancer` in `base`) which knows servers by
their position in the backend, and makes a picker for each thread, which knows that thread's own
`Server` objects. `ALGORITHMS` names them by their `balance` keyword.
"""

from __future__ import annotations

from mtproxy.proxy.balance.base import Balancer, Picker
from mtproxy.proxy.balance.leastconn import LeastConn
from mtproxy.proxy.balance.roundrobin import RoundRobin

__all__ = ["ALGORITHMS", "Balancer", "LeastConn", "Picker", "RoundRobin"]

ALGORITHMS: dict[str, type[Balancer]] = {
    "roundrobin": RoundRobin,
    "leastconn": LeastConn,
}
