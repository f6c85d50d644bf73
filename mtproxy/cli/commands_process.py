"""Runtime commands about the process: version, environment, sockets, messages. Exports COMMANDS."""

from __future__ import annotations

import os

from mtproxy.base.addresses import AddressKind, BindSettings
from mtproxy.cli.numbers import c_integer
from mtproxy.cli.runtime import INFO, Answer, CliError, CliSession, Command, Level
from mtproxy.stats import errors


def _show_version(cli: CliSession, _args: list[str]) -> Answer:
    return f"{cli.severity_prefix(INFO)}{cli.runtime.version}\n"


def _show_env(_cli: CliSession, args: list[str]) -> Answer:
    if not args:
        return [f"{name}={value}\n" for name, value in sorted(os.environ.items())]
    value = os.environ.get(args[0]) if args[0] else None
    if value is None:
        raise CliError("Variable not found")
    return f"{args[0]}={value}\n"


def _show_startup_logs(cli: CliSession, _args: list[str]) -> Answer:
    lines = [line if line.endswith("\n") else line + "\n" for line in cli.runtime.startup_logs]
    return [cli.severity_prefix(INFO), *lines]


def _show_errors(cli: CliSession, args: list[str]) -> Answer:
    proxy = None
    kind = args[1] if len(args) > 1 else ""
    if args and args[0] != "-1":
        proxy = cli.runtime.proxy(args[0])
        if proxy is None:
            if not c_integer(args[0]):
                raise CliError("No such proxy.")
            # a number that no proxy has
            return errors.render(cli.runtime, requests=False, responses=False)
    return errors.render(
        cli.runtime, proxy, requests=kind != "response", responses=kind != "request"
    )


def _show_sockets(cli: CliSession, _args: list[str]) -> Answer:
    lines = ["# socket lvl processes\n"]
    for stats_socket in cli.runtime.settings.global_.stats_sockets:
        bind = stats_socket.bind
        lines.append(f"{socket_text(bind)} {bind.level} all\n")
    return lines


def socket_text(bind: BindSettings) -> str:
    """A listening address as `show cli sockets` writes it."""
    address = bind.address
    match address.kind:
        case AddressKind.UNIX:
            return f"unix@{address.host}"
        case AddressKind.ABNS:
            return f"abns@{address.host}"
        case AddressKind.FD:
            return f"fd@{address.fd}"
        case AddressKind.IPV6 | AddressKind.UDP6:
            return f"ipv6@[{address.host}]:{address.port}"
        case AddressKind.IPV4 | AddressKind.UDP4:
            return f"ipv4@{address.host}:{address.port}"
        case AddressKind.NONE:
            return "none"


COMMANDS: tuple[Command, ...] = (
    Command(
        ("show", "version"), "show version", "version of the program", Level.USER, _show_version
    ),
    Command(
        ("show", "env"),
        "show env [var]",
        "environment variables of the process",
        Level.OPERATOR,
        _show_env,
    ),
    Command(
        ("show", "startup-logs"),
        "show startup-logs",
        "what was said while starting",
        Level.OPERATOR,
        _show_startup_logs,
    ),
    Command(
        ("show", "errors"),
        "show errors [<iid>|<proxy>] [request|response]",
        "the last invalid request and response of each proxy",
        Level.OPERATOR,
        _show_errors,
    ),
    Command(
        ("show", "cli", "sockets"),
        "show cli sockets",
        "runtime sockets and their levels",
        Level.USER,
        _show_sockets,
    ),
)
