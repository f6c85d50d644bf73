"""Runtime commands about the checks of servers: on, off, and what they have found. Exports COMMANDS
and `set_health`, `set_agent`, `set_agent_target`, `set_check_target` for `set server`.
"""

from __future__ import annotations

import os

from mtproxy.base.address import AddressError, Port, parse_address
from mtproxy.base.addresses import Address
from mtproxy.cli.runtime import WARNING, Answer, CliError, CliSession, Command, Level
from mtproxy.cli.servers import find_server
from mtproxy.proxy import transitions
from mtproxy.proxy.checks.target import change_check
from mtproxy.proxy.server import ServerState
from mtproxy.proxy.states import RUNNING, STOPPED, STOPPING

_HEALTHS = {"up": RUNNING, "stopping": STOPPING, "down": STOPPED}


def set_health(cli: CliSession, server: ServerState, value: str) -> None:
    """`set server ... health`: what the health check is said to have found."""
    if server.track is not None:
        raise CliError("cannot change health on a tracking server.")
    if value not in _HEALTHS:
        raise CliError("'set server <srv> health' expects 'up', 'stopping', or 'down'.")
    transitions.set_health(server, cli.ctx, _HEALTHS[value])


def set_agent(cli: CliSession, server: ServerState, value: str) -> None:
    """`set server ... agent`: what the agent is said to have answered."""
    if not server.agent.enabled:
        raise CliError("agent checks are not enabled on this server.")
    if value not in ("up", "down"):
        raise CliError("'set server <srv> agent' expects 'up' or 'down'.")
    transitions.set_health(server, cli.ctx, _HEALTHS[value], agent=True)


def set_agent_target(cli: CliSession, server: ServerState, args: list[str]) -> None:
    """`set server ... agent-addr ADDR [port PORT]`, `agent-port PORT`, `agent-send STRING`."""
    what = args[0]
    if what == "agent-send":
        value = args[1] if len(args) > 1 else ""
        if not server.agent.enabled:
            raise CliError("agent checks are not enabled on this server.")
        transitions.change_agent(server, cli.ctx, send=os.fsencode(value))
        return
    address, port = _target(what, args, server.agent.enabled, "agent checks")
    transitions.change_agent(server, cli.ctx, address=address, port=port)


def set_check_target(cli: CliSession, server: ServerState, args: list[str]) -> None:
    """`set server ... check-addr ADDR [port PORT]`, `check-port PORT`."""
    address, port = _target(args[0], args, server.check.enabled, "health checks")
    if port == 0 and server.address.port_offset is not None:
        raise CliError("can't unset 'port' since MAPPORTS is in use", WARNING)
    change_check(server, cli.ctx, address=address, port=port)


def _target(
    what: str, args: list[str], enabled: bool, checks: str
) -> tuple[Address | None, int | None]:
    """The address and the port that are asked for, None: not. CliError, in HAProxy's words."""
    value = args[1] if len(args) > 1 else ""
    by_address = what.endswith("-addr")
    if not value:
        needs = "an address and optionally a port" if by_address else "a port"
        raise CliError(f"set server <b>/<s> {what} requires {needs}.")
    if not enabled:
        raise CliError(f"{checks} are not enabled on this server", WARNING)
    address = number = None
    port: str | None = value
    if by_address:
        port = (args[3] if len(args) > 3 else "") if args[2:3] == ["port"] else None
        try:
            # an address alone: the last colon of an IPv6 one begins no port
            text = f"[{value}]" if value.count(":") > 1 and value[0] not in "[/" else value
            address = parse_address(text, {}, port=Port.FORBIDDEN, resolver=lambda *_: []).address
        except AddressError:
            raise CliError(f"invalid addr '{value}'", WARNING) from None
    if port is not None:
        if not (port.isascii() and port.removeprefix("-").isdigit()):
            raise CliError("provided port is not an integer", WARNING)
        number = int(port[:12])
        if not 0 <= number <= 65535:
            raise CliError("provided port is invalid", WARNING)
    return address, number


def _disable_health(cli: CliSession, args: list[str]) -> Answer:
    transitions.enable_check(find_server(cli, args), cli.ctx, on=False)
    return ""


def _enable_health(cli: CliSession, args: list[str]) -> Answer:
    if not transitions.enable_check(find_server(cli, args), cli.ctx, on=True):
        raise CliError("Health check was not configured on this server, cannot enable.")
    return ""


def _disable_agent(cli: CliSession, args: list[str]) -> Answer:
    transitions.enable_check(find_server(cli, args), cli.ctx, on=False, agent=True)
    return ""


def _enable_agent(cli: CliSession, args: list[str]) -> Answer:
    if not transitions.enable_check(find_server(cli, args), cli.ctx, on=True, agent=True):
        raise CliError("Agent was not configured on this server, cannot enable.")
    return ""


COMMANDS: tuple[Command, ...] = (
    Command(
        ("disable", "health"),
        "disable health <bk>/<srv>",
        "make no more health checks of a server",
        Level.ADMIN,
        _disable_health,
    ),
    Command(
        ("enable", "health"),
        "enable health <bk>/<srv>",
        "make health checks of a server again",
        Level.ADMIN,
        _enable_health,
    ),
    Command(
        ("disable", "agent"),
        "disable agent <bk>/<srv>",
        "ask a server's agent no more",
        Level.ADMIN,
        _disable_agent,
    ),
    Command(
        ("enable", "agent"),
        "enable agent <bk>/<srv>",
        "ask a server's agent again",
        Level.ADMIN,
        _enable_agent,
    ),
)
