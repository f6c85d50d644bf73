"""Runtime commands about servers: their state, connections, weight, maintenance. Exports COMMANDS.

Changes go through `proxy.transitions`, which locks, recounts the backend and logs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mtproxy.base.addresses import AddressKind
from mtproxy.base.clock import monotonic_ms
from mtproxy.cli.commands_health import set_agent, set_agent_target, set_check_target, set_health
from mtproxy.cli.runtime import ERR, WARNING, Answer, CliError, CliSession, Command, Level, Pause
from mtproxy.cli.servers import find_server
from mtproxy.proxy import transitions
from mtproxy.proxy.addressing import change_address
from mtproxy.proxy.adjust import change_weight
from mtproxy.proxy.dns.servers import change_name
from mtproxy.proxy.server import ServerState
from mtproxy.proxy.states import RMAINT
from mtproxy.stats.runtime import ProxyRuntime
from mtproxy.stream.listening import on_every_thread

if TYPE_CHECKING:
    from mtproxy.sched.context import ThreadContext

STATE_VERSION = "1"
STATE_HEADER = (
    "# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight "
    "srv_iweight srv_time_since_last_change srv_check_status srv_check_result srv_check_health "
    "srv_check_state srv_agent_state bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord "
    "srv_use_ssl srv_check_port srv_check_addr srv_agent_addr srv_agent_port\n"
)


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
    check_port = server.check_port
    srv_name = (settings.resolve and settings.resolve.srv_name) or "-"
    check_address = server.check_address.host if server.check_address else "-"
    found, agent = server.check, server.agent
    agent_address, agent_port = check_address, check_port
    if agent.configured:
        agent_address = server.agent_address.host if server.agent_address else check_address
        agent_port = server.agent_port
    return (
        f"{proxy.settings.id} {proxy.name} {server.id} {server.name} {address} "
        f"{server.state} {server.admin} "
        f"{server.weight} {settings.weight} {(now - server.last_change) // 1000} "
        f"{found.status.number} {found.result} {found.health.value} {found.state_bits()} "
        f"{agent.state_bits()} "
        f"{int(proxy.settings.forced_id)} {int(settings.forced_id)} {server.hostname or '-'} "
        f"{port} {srv_name} 0 {check_port} {check_address} {agent_address} {agent_port}\n"
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
            kept = [side.look_at_idle() for side in sides]
            idle = [len(conns) for conns in kept]
            # one that carried a later request already is safe for any first request
            safe = sum(conn.mark.reused > 0 for conns in kept for conn in conns)
            used = server.sessions()
            highest = max([used, *(side.counters.conn_max for side in sides)])
            address, port = _host_and_port(server)
            yield (
                f"{proxy.name}/{server.name} {proxy.settings.id}/{server.id} {address} {port} - "
                f"{server.settings.pool_purge_delay} {used} {highest} {highest} "
                f"{sum(idle) - safe} {safe} "
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


_SET_USAGE = (
    "usage: set server <backend>/<server> addr | agent | agent-addr | agent-port | agent-send | "
    "check-addr | check-port | fqdn | health | ssl | state | weight"
)
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
            text = change_name(server, cli.ctx, value)
            severity = ERR if text.startswith(f"{_FQDN} failed") else WARNING
            return f"{cli.severity_prefix(severity)}{text}\n"
        case "health":
            set_health(cli, server, value)
        case "agent":
            set_agent(cli, server, value)
        case "addr":
            return _set_address(cli, server, args[2:])
        case "ssl":
            raise CliError(
                "'set server <srv> ssl' cannot be set.  default-server should define ssl settings"
            )
        case "agent-addr" | "agent-port" | "agent-send":
            set_agent_target(cli, server, args[1:])
        case "check-addr" | "check-port":
            set_check_target(cli, server, args[1:])
        case _:
            raise CliError(_SET_USAGE)
    return ""


def _set_address(cli: CliSession, server: ServerState, words: list[str]) -> str:
    """`addr <address> [port <port>]`; an address ends the want of one."""
    if not words:
        raise CliError("set server <b>/<s> addr requires an address and optionally a port.")
    port = None
    if len(words) > 1 and words[1] == "port":
        port = words[2] if len(words) > 2 else ""
    text = change_address(server, cli.ctx, words[0], port, "stats socket command")
    transitions.clear_flag(server, cli.ctx, RMAINT)
    return cli.severity_prefix(WARNING) + text + "\n"


def _set_maxconn(cli: CliSession, args: list[str]) -> Iterator[str | Pause]:
    server = find_server(cli, args)
    if len(args) < 2 or not args[1]:
        raise CliError("Require <maxconn>.")
    if not args[1].isascii() or not args[1].isdigit():
        begins = args[1][:1].isdigit()
        raise CliError(
            "Trailing garbage in maxconn string"
            if begins
            else "maxconn string empty or preceded by garbage"
        )
    maxconn = int(args[1][:9])
    backend, limit = server.backend, server.limit
    if limit is not None:
        limit.queue.set_maxconn(limit, maxconn, cli.ctx.tid)
    elif maxconn:
        backend.set_limit(server, maxconn)

        def adopt(ctx: ThreadContext) -> None:
            side = ctx.room.backends[backend.name]
            side.adopt_limit(server.position)

        pool = cli.runtime.pool
        yield Pause(lambda wake: on_every_thread(pool, adopt, wake, cli.ctx.tid), any_input=False)


def _set_state(cli: CliSession, server: ServerState, value: str) -> None:
    match value:
        case "ready":
            transitions.set_ready(server, cli.ctx)
        case "drain":
            transitions.set_drain(server, cli.ctx)
        case "maint":
            transitions.set_maint(server, cli.ctx)
        case _:
            raise CliError("'set server <srv> state' expects 'ready', 'drain' and 'maint'.")


def _set_weight(cli: CliSession, args: list[str]) -> Answer:
    server = find_server(cli, args)
    _change_weight(cli, server, args[1] if len(args) > 1 else "")
    return ""


def _change_weight(cli: CliSession, server: ServerState, text: str) -> None:
    """An absolute weight, or a percentage of the configured one."""
    fault = change_weight(server, cli.ctx, text)
    if fault:
        raise CliError(fault)


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
        ("set", "maxconn", "server"),
        "set maxconn server <bk>/<srv> <number>",
        "limit the sessions of a server",
        Level.ADMIN,
        _set_maxconn,
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
