"""Changes of a server that are asked for in words: by the runtime socket, by an agent.

Any thread; no lock held. Each returns what is wrong with the words, in HAProxy's, or "".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mtproxy.proxy.transitions import set_weight

if TYPE_CHECKING:
    from mtproxy.proxy.server import ServerState
    from mtproxy.sched.context import ThreadContext

MAX_WEIGHT = 256
_NUMBER = re.compile(r"([+-]?[0-9]+)(.*)", re.DOTALL)


def change_weight(server: ServerState, ctx: ThreadContext, text: str) -> str:
    """An absolute weight 0..256, or a percentage of the configured one."""
    if not text:
        return "Require <weight> or <weight%>."
    found = _NUMBER.match(text)
    if found is None:
        return "Empty weight string empty or preceded by garbage"
    weight, rest = int(found[1][:12]), found[2]
    if rest == "%":
        if weight < 0:
            return "Relative weight must be positive."
        weight = min(server.settings.weight * weight // 100, MAX_WEIGHT)
    elif not 0 <= weight <= MAX_WEIGHT:
        return "Absolute weight can only be between 0 and 256 inclusive."
    elif rest:
        return "Trailing garbage in weight string"
    if weight and weight != server.settings.weight and not server.backend.balancer.dynamic:
        return "Backend is using a static LB algorithm and only accepts weights '0%' and '100%'."
    set_weight(server, ctx, weight)
    return ""


def change_maxconn(server: ServerState, ctx: ThreadContext, text: str) -> str:
    """The limit of connections; 0: none."""
    if not text:
        return "Require <maxconn>."
    found = _NUMBER.match(text)
    if found is None:
        return "maxconn string empty or preceded by garbage"
    if found[2]:
        return "Trailing garbage in maxconn string"
    queue, limit = server.backend.queue, server.limit
    if queue is None or limit is None:
        return "The server has no limit that could be changed"
    queue.set_maxconn(limit, max(0, int(found[1][:12])), ctx.tid)
    return ""
