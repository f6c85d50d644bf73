"""Runtime commands about servers: their state, connections, weight, maintenance. Exports COMMANDS.

Changes go through `proxy.transitions`, which locks, recounts the backend and logs.
"""

from __future__ import annotations

from collections.abc import Iterator

from mtproxy.base.clock import monotonic_ms
from mtproxy.base.settings import AddressKind
from mtproxy.cli.commands_health import set_agent, set_health
from mtproxy.cli.runtime import Answer, CliError, CliSession, Command, Level
from mtproxy.cli.servers import find_server
from mtproxy.proxy import transitions
from mtproxy.proxy.dns.servers import change_name
from mtproxy.proxy.server import ServerState
from mtproxy.stats.runtime import ProxyRuntime

STATE_VERSION = "1"
STATE_HEADER = (
    "# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight "
    "srv_iweight srv_time_since_last_change srv_check_status srv_check_result srv_check_health "
    "srv_check_state srv_agent_state bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord "
    "srv_use_ssl srv_check_port srv_check_addr srv_agent_addr srv_agent_port\n"
)

MAX_WEIGHT = 256


def _backends(cli: CliSession, args: list[str]) -> list[ProxyRuntime]:
    """The backend that is named, or all that have servers."""
    if args:
        proxy = cli.runtime.backend(args[0])
        if proxy is None:
            raise CliError("Can't find backend.")
        return [proxy]
    return [p for p in cli.runtime.proxies if p.shared is not None]


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
    srv_name = (settings.resolve and settings.resolve.srv_name) or "-"
    check_address = check.address.host if check and check.address else "-"
    found, agent = server.check, server.agent
    return (
        f"{proxy.settings.id} {proxy.name} {server.id} {server.name} {address} "
        f"{server.state} {server.admin} "
        f"{server.weight} {settings.weight} {(now - server.last_change) // 1000} "
        f"{found.status.number} {found.result} {found.health.value} {found.state_bits()} "
        f"{agent.state_bits()} "
        f"{int(proxy.settings.forced_id)} {int(settings.forced_id)} {server.hostname or '-'} "
        # an agent, if there were one, would be at the address of the check
        f"{port} {srv_name} 0 {check_port} {check_address} {check_address} {check_port}\n"
    )


def _host_and_port(server: ServerState) -> tuple[str, int]:
    address = server.address
    if address.kind in (AddressKind.UNIX, AddressKind.ABNS):
        return "-", 0
    port = address.port
    if address.port_offset is not None:
        port = address.port_offset % (1 << 32)  # HAProxy's unsigned number
    return "-" if address.kind is AddressKind.NONE else address.host, port


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
    transitions.set_maint(find_server(cli, args), cli.ctx)
    return ""


def _enable(cli: CliSession, args: list[str]) -> Answer:
    transitions.set_ready(find_server(cli, args), cli.ctx)
    return ""


_SET_USAGE = "usage: set server <backend>/<server> agent | fqdn | health | state | weight"
_FQDN = "set server <b>/<s> fqdn"


def _set_server(cli: CliSession, args: list[str]) -> Answer:
    server = find_server(cli, args)
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
            return f"{change_name(server, cli.ctx, value)}\n"
        case "health":
            set_health(cli, server, value)
        case "agent":
            set_agent(cli, server, value)
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
    server = find_server(cli, args)
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
    if weight and weight != server.settings.weight and not server.backend.balancer.dynamic:
        raise CliError(
            "Backend is using a static LB algorithm and only accepts weights '0%' and '100%'."
        )
    transitions.set_weight(server, cli.ctx, weight)


def _get_weight(cli: CliSession, args: list[str]) -> Answer:
    server = find_server(cli, args)
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
