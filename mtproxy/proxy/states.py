"""The states of a server: HAProxy's operational states and administrative flags, and their words.

Plain numbers, those of the state file (management guide, "show servers state"): they are compared
on the way of each request, and combined with `|`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mtproxy.proxy.server import ServerState

#: Operational states. Down; only this one stops a server altogether (false as a truth value).
STOPPED: Final = 0
#: up, and its weight grows (`slowstart`)
STARTING: Final = 1
RUNNING: Final = 2
#: up for those who are bound to it, no new sessions (`http-check disable-on-404`)
STOPPING: Final = 3

#: Administrative flags. Maintenance that the operator asked for, or the configuration.
FMAINT: Final = 0x01
#: inherited from a tracked server
IMAINT: Final = 0x02
#: the configuration said `disabled`; stays when the maintenance has ended
CMAINT: Final = 0x04
#: a drain that the operator or the agent asked for
FDRAIN: Final = 0x08
#: inherited from a tracked server
IDRAIN: Final = 0x10
#: its name has no address
RMAINT: Final = 0x20
#: its name was changed on the runtime socket; no maintenance
HMAINT: Final = 0x40

#: any maintenance, any drain
MAINT: Final = FMAINT | IMAINT | RMAINT
DRAIN: Final = FDRAIN | IDRAIN


def server_status(server: ServerState) -> str:
    """The status column of `show stat`.

    A server that tracks another shows the numbers of the checked one at the end of the chain.
    """
    admin = server.admin
    if admin & RMAINT:
        return "MAINT (resolution)"
    if admin & IMAINT and server.track is not None:
        return f"MAINT (via {server.track.full_name})"
    if admin & MAINT:
        return "MAINT"
    checked = server.checked_one
    word = _word(server, checked)
    if word.endswith(" "):
        return word + checked.check.health.progress(up=checked.state != STOPPED)
    return word


def _word(server: ServerState, checked: ServerState) -> str:
    """A status; with a space at its end where numbers follow."""
    check, agent = checked.check, checked.agent
    full = check.health.value == check.health.top
    if server.state in (RUNNING, STARTING):
        going_down = check.enabled and not full
        if server.admin & DRAIN:
            if agent.enabled:
                return "DRAIN (agent)"
            return "DRAIN " if going_down else "DRAIN"
        if going_down:
            return "UP "
        return "UP" if check.enabled else "no check"
    if server.state == STOPPING:
        unchecked = not server.check.enabled and server.track is None
        return "NOLB" if unchecked or full else "NOLB "
    if agent.enabled and not agent.health.value:
        return "DOWN (agent)"
    if check.enabled and not check.health.value:
        return "DOWN"
    return "DOWN " if agent.enabled or check.enabled else "DOWN"
