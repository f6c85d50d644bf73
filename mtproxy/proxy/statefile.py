"""Server state files: what `show servers state` printed, read when the next process starts.

`read_all` reads the files (main thread, before privileges are dropped); `apply_all` brings the
servers into those states (thread 0, when all threads are set up and none runs yet). Rules and
messages are HAProxy's (manual, `load-server-state-from-file`), verified against 2.6: what the
configuration has changed counts, else what the last process knew.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mtproxy.base.addresses import AddressKind
from mtproxy.proxy import transitions
from mtproxy.proxy.addressing import change_address
from mtproxy.proxy.checkstatus import CheckStatus
from mtproxy.proxy.dns.apply import tell_threads
from mtproxy.proxy.dns.servers import change_name, restore_target
from mtproxy.proxy.states import (
    CMAINT,
    FDRAIN,
    FMAINT,
    HMAINT,
    IDRAIN,
    IMAINT,
    RMAINT,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
)

if TYPE_CHECKING:
    from mtproxy.base.settings import ProxySettings, Settings
    from mtproxy.proxy.backend import BackendShared
    from mtproxy.proxy.server import ServerState
    from mtproxy.sched.context import ThreadContext

VERSION = "1"
#: fields of a line; the last ones came later
_LEAST, _MOST = 20, 25
_REASON = "changed from server-state after a reload"

_ADMIN_STATES = frozenset({0, FMAINT, CMAINT, CMAINT | FMAINT, CMAINT | FDRAIN, FDRAIN})
_RESULTS = range(5)
_CHECK_BITS = 31
_CONFIGURED, _ENABLED = 2, 4
_MOST_WEIGHT = 256
#: HAProxy knows so many
_STATUSES = 24

type Warn = Callable[[str], None]
#: lines by backend and server
type Lines = dict[tuple[str, str], list[str]]


@dataclass(slots=True)
class States:
    """What the files say: the lines of the global one, and those of each backend's own."""

    common: Lines = field(default_factory=dict)
    local: dict[str, Lines] = field(default_factory=dict)


def _path(base: str | None, name: str) -> str:
    return name if name.startswith("/") or not base else os.path.join(base, name)


def read_all(settings: Settings, warn: Warn) -> States:
    """Read the files that the configuration names. Faults are warnings: the program starts."""
    glob = settings.global_
    states = States()
    backends = [p for p in settings.proxies if p.is_backend and not p.disabled and p.servers]
    if glob.server_state_file:
        path = _path(glob.server_state_base, glob.server_state_file)
        lines = _read(path, "config: ", "global server state file", warn)
        states.common = {(line[1], line[3]): line for line in reversed(lines)}
    for proxy in backends:
        if proxy.load_server_state != "local":
            continue
        title = f"Proxy '{proxy.name}': "
        path = _path(glob.server_state_base, proxy.server_state_file or proxy.name)
        lines = _read(path, title, "server state file", warn)
        mine = [line for line in lines if _belongs(proxy, line, warn)]
        states.local[proxy.name] = {(proxy.name, line[3]): line for line in reversed(mine)}
    return states


def _read(path: str, title: str, what: str, warn: Warn) -> list[list[str]]:
    """The fields of the lines of one file; none where something is wrong with it."""
    try:
        text = Path(path).read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        warn(f"{title}Can't open {what} '{path}': {error.strerror}.")
        return []
    first, _, rest = text.partition("\n")
    if first != VERSION:
        warn(f"{title}Can't get version of the {what} '{path}'.")
        return []
    found: list[list[str]] = []
    for number, line in enumerate(rest.splitlines(keepends=True), 1):
        fields = line.split()
        if line.endswith("\n") and (not fields or fields[0].startswith("#")):
            continue
        if not line.endswith("\n") or not _LEAST <= len(fields) <= _MOST:
            warn(f"{title}corrupted {what} '{path}' at line {number}.")
            return []
        found.append(fields)
    return found


def _belongs(proxy: ProxySettings, line: list[str], warn: Warn) -> bool:
    """Whether a line of a backend's own file is about the backend."""
    same_id, same_name = line[0] == str(proxy.id), line[1] == proxy.name
    if not same_id and not same_name:
        return False
    if not same_id:
        warn(
            f"Proxy '{proxy.name}': backend ID mismatch: from server state file: '{line[0]}', from"
            f" running config '{proxy.id}'"
        )
    elif not same_name:
        warn(
            f"Proxy '{proxy.name}': backend name mismatch: from server state file: '{line[1]}',"
            f" from running config '{proxy.name}'"
        )
        return line[15] == "1"
    return True


def apply_all(
    states: States, backends: Mapping[str, BackendShared], ctx: ThreadContext, warn: Warn
) -> None:
    """Bring all servers into the states that were read."""
    for name, backend in backends.items():
        mode = backend.settings.load_server_state
        lines = states.common if mode == "global" else states.local.get(name, {})
        if mode == "none" or not lines:
            continue
        unused = {server for owner, server in lines if owner == name}
        for server in backend.servers:
            line = lines.get((name, server.name))
            if line is not None:
                unused.discard(server.name)
                _apply(server, ctx, line[4:], warn)
        if mode == "local":
            for missing in sorted(unused):
                warn(f"Proxy '{name}': can't find server '{missing}' in backend '{name}'")


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return -1


def _faults(fields: list[str], names: Iterable[tuple[str, int, Callable[[int], bool]]]) -> str:
    text = ""
    for name, position, valid in names:
        if not valid(_number(fields[position])):
            text += f", invalid {name} value '{fields[position]}'"
    return text


_INHERITED = IDRAIN | IMAINT | HMAINT | RMAINT
_FIELDS: tuple[tuple[str, int, Callable[[int], bool]], ...] = (
    ("srv_op_state", 1, lambda n: n in (STOPPED, STARTING, RUNNING, STOPPING)),
    ("srv_admin_state", 2, lambda n: n >= 0 and n & ~_INHERITED in _ADMIN_STATES),
    ("srv_uweight", 3, lambda n: 0 <= n <= _MOST_WEIGHT),
    ("srv_iweight", 4, lambda n: 0 <= n <= _MOST_WEIGHT),
    ("srv_last_time_change", 5, lambda n: n >= 0),
    ("srv_check_status", 6, lambda n: 0 <= n < _STATUSES),
    ("srv_check_result", 7, lambda n: n in _RESULTS),
    ("srv_check_health", 8, lambda n: n >= 0),
    ("srv_check_state", 9, lambda n: n >= 0 and not n & ~_CHECK_BITS),
    ("srv_agent_state", 10, lambda n: n >= 0 and not n & ~_CHECK_BITS),
    ("bk_f_forced_id", 11, lambda n: n in (0, 1)),
    ("srv_f_forced_id", 12, lambda n: n in (0, 1)),
    ("srv_port", 14, lambda n: 0 <= n < 1 << 16),
)


def _apply(server: ServerState, ctx: ThreadContext, fields: list[str], warn: Warn) -> None:
    """One line, from `srv_addr` on."""
    faults = _faults(fields, _FIELDS)
    if faults:
        warn(f"server-state application failed for server '{server.full_name}'{faults}")
        return
    numbers = {name: _number(fields[position]) for name, position, _ in _FIELDS}
    if server.track is None:
        _restore_health(server, ctx, numbers["srv_op_state"], numbers["srv_check_health"])
    _restore_admin(server, ctx, numbers["srv_admin_state"], numbers["srv_iweight"])
    server.last_change = ctx.now - 1000 * numbers["srv_last_time_change"]
    by_number = {status.number: status for status in CheckStatus}
    server.check.status = by_number.get(numbers["srv_check_status"], server.check.status)
    server.check.result = numbers["srv_check_result"]
    for check, bits in (
        (server.check, numbers["srv_check_state"]),
        (server.agent, numbers["srv_agent_state"]),
    ):
        if check.configured and bits & _CONFIGURED and not bits & _ENABLED:
            check.enabled = False
    if numbers["srv_iweight"] == server.settings.weight != numbers["srv_uweight"]:
        transitions.set_weight(server, ctx, numbers["srv_uweight"])
    _restore_place(server, ctx, fields)


def _restore_health(server: ServerState, ctx: ThreadContext, state: int, health: int) -> None:
    check = server.check
    rise, top = check.health.rise, check.health.top
    if state == STARTING:
        # HAProxy's STARTING is a server on its way up
        check.health.value = health if 1 <= health < rise else max(rise - 1, 0)
        return
    if state == STOPPING and check.health.fall == 1:
        state = STOPPED
    transitions.set_health(server, ctx, state, reason=_REASON)
    if state == STOPPING:
        check.health.value = health if rise <= health < top else rise


def _restore_admin(server: ServerState, ctx: ThreadContext, admin: int, iweight: int) -> None:
    configured = server.admin & CMAINT
    if (admin & CMAINT) != configured:
        # the configuration has changed, and counts
        (transitions.set_maint if configured else transitions.set_ready)(server, ctx)
    elif admin & FMAINT and not configured:
        transitions.set_maint(server, ctx)
    elif not admin & FMAINT and configured:
        transitions.set_ready(server, ctx)
    if (
        not server.admin & FMAINT
        and admin & FDRAIN
        and (iweight > 0 or server.settings.weight == 0)
    ):
        transitions.set_drain(server, ctx)


def _restore_place(server: ServerState, ctx: ThreadContext, fields: list[str]) -> None:
    """The port; of a server that is known by its name, the last address, and a name given by
    hand.
    """
    address = server.address
    if address.kind in (AddressKind.UNIX, AddressKind.ABNS):
        return
    last, name = fields[0], fields[13]
    resolve = server.settings.resolve
    if resolve is not None and resolve.srv_name is not None:
        known = server.settings.init_last and "-" not in (last, name)
        if known and fields[15] == resolve.srv_name:
            restore_target(server, ctx, name, last, _number(fields[14]))
        return
    if server.hostname is not None and name not in ("-", server.hostname):
        if _number(fields[2]) & HMAINT:
            change_name(server, ctx, name)
        return
    if server.hostname is not None and last != "-" and server.settings.init_last:
        change_address(server, ctx, last, None)
        transitions.clear_flag(server, ctx, RMAINT)
    port = _number(fields[14])
    if address.port_offset is None and server.address.port != port:
        server.lock.take(ctx.tid)
        host = server.address.host
        server.address = replace(server.address, port=port, text=f"{host}:{port}")
        server.epoch += 1
        server.lock.drop(ctx.tid)
        tell_threads(server, ctx)
