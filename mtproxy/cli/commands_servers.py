"""Runtime commands about servers: their state, connections, weight, maintenance. Exports COMMANDS.

Changes go through `proxy.transitions`, which locks, recounts the backend and logs.
"""

from __future__ import annotations

from collections.abc import Iterator

from mtproxy.base.clock import monotonic_ms
from mtproxy.base.settings import AddressKind
from mtproxy.cli.runtime import WARNING, Answer, CliError, CliSession, Command, Level
from mtproxy.proxy import transitions
from mtproxy.proxy.server import ServerState
from mtproxy.stats.runtime import ProxyRuntime

STATE_VERSION = "1"
STATE_HEADER = (
    "# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight "
    "srv_iweight srv_time_since_last_change srv_check_status srv_check_result srv_check_health "
    "srv_check_state srv_agent_state bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord "
    "srv_use_ssl srv_check_port srv_check_addr srv_agent_addr srv_agent_port\n"
)

# Numbers of the state file (management guide, "show servers state").
_STOPPED, _RUNNING = 0, 2
_MAINT, _MAINT_BY_CONFIG, _DRAIN, _MAINT_UNRESOLVED = 1, 4, 8, 32
_RESULT_UNKNOWN = 0
_CHECKED, _PAUSED = 6, 8

MAX_WEIGHT = 256


def _backends(cli: CliSession, args: list[str]) -> list[ProxyRuntime]:
    """The backend that is named, or all that have servers."""
    if args:
        proxy = cli.runtime.backend(args[0])
        if proxy is None:
            raise CliError("Can't find backend.")
        return [proxy]
    return [p for p in cli.runtime.proxies if p.shared is not None]


def _find(cli: CliSession, args: list[str]) -> ServerState:
    """The server that `backend/server` names."""
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


def _show_state(cli: CliSession, args: list[str]) -> Iterator[str]:
    proxies = _backends(cli, args)
    yield f"{STATE_VERSION}\n{STATE_HEADER}"
    now = monotonic_ms()
    for proxy in proxies:
        assert proxy.shared is not None
        for server in proxy.shared.servers:
            yield _state_line(proxy, server, now)


def _state_line(proxy: ProxyRuntime, server: ServerState, now: int) -> str:
    address, port = _host_and_port(server)
    settings = server.settings
    check = settings.check
    check_port = (check and check.port) or 0
    check_address = check.address.host if check and check.address else "-"
    status, result, health, state = _check_numbers(server)
    return (
        f"{proxy.settings.id} {proxy.name} {server.id} {server.name} {address} "
        f"{_RUNNING if server.running else _STOPPED} {_admin_state(server)} "
        f"{server.weight} {settings.weight} {(now - server.last_change) // 1000} "
        f"{status} {result} {health} {state} 0 "
        f"{int(proxy.settings.forced_id)} {int(settings.forced_id)} {settings.hostname or '-'} "
        # an agent, if there were one, would be at the address of the check
        f"{port} - 0 {check_port} {check_address} {check_address} {check_port}\n"
    )


def _admin_state(server: ServerState) -> int:
    """What the operator, the configuration and the resolution of its name have said."""
    admin = 0
    if server.unresolved:
        admin |= _MAINT_UNRESOLVED
    if server.settings.disabled:
        admin |= _MAINT_BY_CONFIG  # it stays when the maintenance has ended
    if server.maint:
        if server.settings.disabled or not server.unresolved:
            admin |= _MAINT
    elif server.drain:
        admin |= _DRAIN
    return admin


def _check_numbers(server: ServerState) -> tuple[int, int, int, int]:
    """Status, result, health and state of the health check."""
    settings = server.settings
    if server.health is None:
        state = _PAUSED if settings.disabled else 0
        return 1, _RESULT_UNKNOWN, 0 if server.maint else settings.rise, state
    status = server.check_status
    health, state = server.health.value, _CHECKED
    if server.maint:
        health, state = 0, _CHECKED | _PAUSED
    return status.number, status.result, health, state


def _host_and_port(server: ServerState) -> tuple[str, int]:
    address = server.address
    if address.kind in (AddressKind.UNIX, AddressKind.ABNS):
        return "-", 0
    port = address.port
    if address.port_offset is not None:
        port = address.port_offset % (1 << 32)  # HAProxy's unsigned number
    return "-" if server.settings.unresolved else address.host, port


def _show_conn(cli: CliSession, args: list[str]) -> Iterator[str]:
    proxies = _backends(cli, args)
    threads = cli.runtime.pool.nbthread
    yield (
        "# bkname/svname bkid/svid addr port - purge_delay used_cur used_max need_est unsafe_nb "
        f"safe_nb idle_lim idle_cur idle_per_thr[{threads}]\n"
    )
    for proxy in proxies:
        assert proxy.shared is not None
        for server in proxy.shared.servers:
            sides = sorted(server.sides, key=lambda side: side.tid)
            idle = [len(side.idle) for side in sides]
            used = server.sessions()
            highest = max([used, *(side.counters.conn_max for side in sides)])
            address, port = _host_and_port(server)
            yield (
                f"{proxy.name}/{server.name} {proxy.settings.id}/{server.id} {address} {port} - "
                f"{server.settings.pool_purge_delay} {used} {highest} {highest} {sum(idle)} 0 "
                f"{server.settings.pool_max_conn} {sum(idle)} {' '.join(map(str, idle))}\n"
            )


def _show_backend(cli: CliSession, _args: list[str]) -> Answer:
    names = [p.name + "\n" for p in cli.runtime.proxies if p.shared is not None]
    return ["# name\n", *names]


def _disable(cli: CliSession, args: list[str]) -> Answer:
    transitions.set_maint(_find(cli, args), cli.ctx)
    return ""


def _enable(cli: CliSession, args: list[str]) -> Answer:
    """Ends maintenance only: a drain goes on."""
    server = _find(cli, args)
    if server.maint:
        transitions.set_ready(server, cli.ctx)
    return ""


_SET_USAGE = "usage: set server <backend>/<server> fqdn | health | state | weight"
_FQDN = "set server <b>/<s> fqdn"


def _set_server(cli: CliSession, args: list[str]) -> Answer:
    server = _find(cli, args)
    what = args[1] if len(args) > 1 else ""
    value = args[2] if len(args) > 2 else ""
    match what:
        case "state":
            _set_state(cli, server, value)
        case "weight":
            _change_weight(cli, server, value)
        case "fqdn":
            if not value:
                raise CliError(f"{_FQDN} requires a FQDN.")
            raise CliError(f"{_FQDN} failed because no resolution is configured.", WARNING)
        case "health":
            if value not in ("up", "down"):
                raise CliError("'set server <srv> health' expects 'up' or 'down'.")
            if not transitions.set_health(server, cli.ctx, value == "up"):
                raise CliError("Health checks are not configured on this server.")
        case _:
            raise CliError(_SET_USAGE)
    return ""


def _set_state(cli: CliSession, server: ServerState, value: str) -> None:
    match value:
        case "ready":
            transitions.set_ready(server, cli.ctx)
        case "drain":
            transitions.set_drain(server, cli.ctx)
        case "maint":
            transitions.set_maint(server, cli.ctx)
        case _:
            raise CliError("'set server <srv> state' expects 'ready', 'drain' or 'maint'.")


def _set_weight(cli: CliSession, args: list[str]) -> Answer:
    server = _find(cli, args)
    _change_weight(cli, server, args[1] if len(args) > 1 else "")
    return ""


def _change_weight(cli: CliSession, server: ServerState, text: str) -> None:
    """An absolute weight, or a percentage of the configured one."""
    if not text:
        raise CliError("Require <weight> or <weight%>.")
    digits = text.removesuffix("%")
    negative = digits.startswith("-")
    digits = digits.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 9:
        raise CliError(f"'{text}' is no weight: a number, or a number and '%', is expected.")
    if text.endswith("%"):
        if negative:
            raise CliError("Relative weight must be positive.")
        weight = min(server.settings.weight * int(digits) // 100, MAX_WEIGHT)
    else:
        weight = int(digits)
        if weight > MAX_WEIGHT or negative:
            raise CliError("Absolute weight can only be between 0 and 256 inclusive.")
    transitions.set_weight(server, cli.ctx, weight)


def _get_weight(cli: CliSession, args: list[str]) -> Answer:
    server = _find(cli, args)
    return f"{server.weight} (initial {server.settings.weight})\n"


COMMANDS: tuple[Command, ...] = (
    Command(
        ("show", "servers", "state"),
        "show servers state [<backend>]",
        "state of servers, as for a state file",
        Level.USER,
        _show_state,
    ),
    Command(
        ("show", "servers", "conn"),
        "show servers conn [<backend>]",
        "connections to servers, idle ones per thread",
        Level.USER,
        _show_conn,
    ),
    Command(("show", "backend"), "show backend", "names of backends", Level.USER, _show_backend),
    Command(
        ("disable", "server"),
        "disable server <bk>/<srv>",
        "put a server into maintenance",
        Level.ADMIN,
        _disable,
    ),
    Command(
        ("enable", "server"),
        "enable server <bk>/<srv>",
        "end a server's maintenance",
        Level.ADMIN,
        _enable,
    ),
    Command(
        ("set", "server"),
        "set server <bk>/<srv> [opts]",
        "change a server's state, weight or health",
        Level.ADMIN,
        _set_server,
    ),
    Command(
        ("set", "weight"),
        "set weight <bk>/<srv> <weight>",
        "change a server's weight",
        Level.ADMIN,
        _set_weight,
    ),
    Command(
        ("get", "weight"),
        "get weight <bk>/<srv>",
        "a server's weight now and at start",
        Level.USER,
        _get_weight,
    ),
)
