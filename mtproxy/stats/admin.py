"""What a form of the statistics page does to servers: HAProxy's field names and actions.

A form has one `b` (the backend), one `action` and any number of `s` (servers); of several `b` or
`action` the last one counts. Scripts that post such forms to HAProxy do the same here. Any thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from mtproxy.proxy import transitions
from mtproxy.proxy.states import FDRAIN, FMAINT, RUNNING, STOPPED, STOPPING
from mtproxy.stream.ending import KILLED, end_those_on

if TYPE_CHECKING:
    from mtproxy.proxy.server import ServerState
    from mtproxy.sched.context import ThreadContext
    from mtproxy.stats.runtime import Runtime

#: does it, and says whether there was anything to do
type Change = Callable[[ServerState, ThreadContext], bool]

#: how logs explain a state that was forced here
_REASON: Final = "changed from Web interface"

#: bytes of one field; more is an error
_FIELD: Final = 2048


def _ready(server: ServerState, ctx: ThreadContext) -> bool:
    transitions.set_ready(server, ctx)
    return True


def _drain(server: ServerState, ctx: ThreadContext) -> bool:
    transitions.set_drain(server, ctx)
    return True


def _maint(server: ServerState, ctx: ThreadContext) -> bool:
    transitions.set_maint(server, ctx)
    return True


def _set(flag: int, word: str) -> Change:
    def change(server: ServerState, ctx: ThreadContext) -> bool:
        if server.admin & flag:
            return False
        transitions.set_flag(server, ctx, flag, f"'{word}' on stats page")
        return True

    return change


def _clear(flag: int) -> Change:
    def change(server: ServerState, ctx: ThreadContext) -> bool:
        if not server.admin & flag:
            return False
        transitions.clear_flag(server, ctx, flag)
        return True

    return change


def _checks(*, on: bool, agent: bool = False) -> Change:
    def change(server: ServerState, ctx: ThreadContext) -> bool:
        check = server.agent if agent else server.check
        return check.configured and transitions.enable_check(server, ctx, on, agent=agent)

    return change


def _health(state: int, *, agent: bool = False) -> Change:
    def change(server: ServerState, ctx: ThreadContext) -> bool:
        if not server.agent.enabled if agent else server.track is not None:
            return False
        transitions.set_health(server, ctx, state, agent=agent, reason=_REASON)
        return True

    return change


def _shutdown(server: ServerState, ctx: ThreadContext) -> bool:
    ctx.pool.run_everywhere(end_those_on(server, KILLED))
    return True


#: by the value of `action`; those of old versions last
ACTIONS: Final[dict[str, Change]] = {
    "ready": _ready,
    "drain": _drain,
    "maint": _maint,
    "shutdown": _shutdown,
    "dhlth": _checks(on=False),
    "ehlth": _checks(on=True),
    "hrunn": _health(RUNNING),
    "hnolb": _health(STOPPING),
    "hdown": _health(STOPPED),
    "dagent": _checks(on=False, agent=True),
    "eagent": _checks(on=True, agent=True),
    "arunn": _health(RUNNING, agent=True),
    "adown": _health(STOPPED, agent=True),
    "disable": _set(FMAINT, "disable"),
    "enable": _clear(FMAINT),
    "stop": _set(FDRAIN, "stop"),
    "start": _clear(FDRAIN),
}


def act(runtime: Runtime, ctx: ThreadContext, form: bytes) -> str:
    """Do what the form says. Returns the state that the page is told: DONE, PART (of the servers),
    NONE (nothing was asked for), ERRP (something is wrong in the form).
    """
    backend = change = None
    names: list[str] = []
    for field in reversed(form.split(b"&")):
        if len(field) >= _FIELD:
            return "ERRP"
        raw_key, _, raw_value = field.partition(b"=")
        key, value = _decoded(raw_key), _decoded(raw_value)
        if key == "b" and backend is None:
            backend = runtime.backend(value)
            if backend is None:
                return "ERRP"
        elif key == "action" and change is None:
            change = ACTIONS.get(value)
            if change is None:
                return "ERRP"
        elif key == "s":
            names.append(value)
    if backend is None or backend.shared is None or change is None or not names:
        return "NONE"
    servers = {server.name: server for server in backend.shared.servers}
    asked = done = 0
    for name in names:
        server = servers.get(name)
        if server is None:
            asked += 1
        elif change(server, ctx):
            asked += 1
            done += 1
    if not asked:
        return "NONE"
    if not done:
        return "ERRP"
    return "DONE" if asked == done else "PART"


def _decoded(text: bytes) -> str:
    return unquote_to_bytes(text.replace(b"+", b" ")).decode("utf-8", "surrogateescape")
