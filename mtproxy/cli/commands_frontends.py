"""Runtime commands about frontends and limits: enable, disable and shutdown frontend, set maxconn,
set rate-limit. Exports COMMANDS.

Answers and messages are HAProxy's, verified against 2.6.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mtproxy.base.report import say
from mtproxy.cli.numbers import c_integer
from mtproxy.cli.runtime import NOTICE, Answer, CliError, CliSession, Command, Level, Pause
from mtproxy.stats.runtime import OPEN, PAUSED, STOPPED
from mtproxy.stream.listening import look_again

if TYPE_CHECKING:
    from mtproxy.stats.runtime import ProxyRuntime
    from mtproxy.stream.listening import FrontListeners

#: syslog's
_WARNING = 4


def _find(cli: CliSession, args: list[str]) -> tuple[ProxyRuntime, FrontListeners]:
    if not args or not args[0]:
        raise CliError("A frontend name is expected.")
    proxy = cli.runtime.frontend(args[0])
    listeners = None if proxy is None else cli.runtime.front_listeners.get(proxy.name)
    if proxy is None or listeners is None:
        raise CliError("No such frontend.")
    return proxy, listeners


def _title(proxy: ProxyRuntime) -> str:
    return f"{'proxy' if proxy.settings.is_backend else 'frontend'} {proxy.name}"


def _announce(cli: CliSession, proxy: ProxyRuntime, text: str) -> None:
    """On standard error and in the frontend's logs."""
    say("warning", text)
    for frontend in proxy.frontends:
        if frontend.tid == cli.ctx.tid and frontend.log_text is not None:
            frontend.log_text(_WARNING, text)


def _disable(cli: CliSession, args: list[str]) -> Iterator[str | Pause]:
    proxy, listeners = _find(cli, args)
    if listeners.stopped:
        raise CliError("Frontend was previously shut down, cannot disable.", NOTICE)
    if listeners.paused or not listeners.sockets:
        raise CliError("All sockets are already disabled.", NOTICE)
    proxy.state = PAUSED
    pause = Pause(lambda wake: listeners.pause(cli.runtime.pool, wake), any_input=False)
    yield pause
    _announce(cli, proxy, f"Paused {_title(proxy)}.")


def _enable(cli: CliSession, args: list[str]) -> Iterator[str | Pause]:
    proxy, listeners = _find(cli, args)
    if listeners.stopped:
        raise CliError("Frontend was previously shut down, cannot enable.")
    if not listeners.paused:
        raise CliError("All sockets are already enabled.", NOTICE)
    failure: str | None = None

    def begin(wake: object) -> None:
        nonlocal failure
        assert callable(wake)
        failure = listeners.resume(cli.runtime.pool, wake)
        if failure is not None:
            wake()

    yield Pause(begin, any_input=False)
    if failure is not None:
        say("alert", f"Cannot resume {_title(proxy)}: {failure}")
        raise CliError("Failed to resume frontend, check logs for precise cause (port conflict?).")
    proxy.state = OPEN
    _announce(cli, proxy, f"Resumed {_title(proxy)}.")


def _shutdown(cli: CliSession, args: list[str]) -> Iterator[str | Pause]:
    proxy, listeners = _find(cli, args)
    if listeners.stopped:
        raise CliError("Frontend was already shut down.", NOTICE)
    proxy.state = STOPPED
    yield Pause(lambda wake: listeners.stop(cli.runtime.pool, wake), any_input=False)
    accepted = sum(counters.cum_conn for counters in proxy.frontend_counters())
    served = sum(counters.cum_sess for counters in proxy.backend_counters())
    _announce(
        cli, proxy, f"Proxy {proxy.name} stopped (cumulated conns: FE: {accepted}, BE: {served})."
    )


# --- limits


def _set_maxconn_frontend(cli: CliSession, args: list[str]) -> Answer:
    proxy, listeners = _find(cli, args)
    if len(args) < 2:
        raise CliError("Integer value expected.")
    value = c_integer(args[1])
    if value < 0:
        raise CliError("Value out of range.")
    proxy.maxconn = value
    listeners.set_maxconn(value, cli.runtime.pool)
    return ""


def _set_maxconn_global(cli: CliSession, args: list[str]) -> Answer:
    runtime = cli.runtime
    if not args:
        raise CliError("Expects an integer value.")
    value = c_integer(args[0])
    if value > runtime.hard_maxconn:
        raise CliError("Value out of range.")
    runtime.maxconn = value if value > 0 else runtime.hard_maxconn
    if runtime.process_quota is not None:
        runtime.process_quota.limit = runtime.maxconn
    look_again(runtime.pool)
    return ""


_RATES = "connections", "sessions", "ssl-sessions", "http-compression"
_RATE_USAGE = """\
'set rate-limit' only supports :
   - 'connections global' to set the per-process maximum connection rate
   - 'sessions global' to set the per-process maximum session rate
   - 'ssl-sessions global' to set the per-process maximum SSL session rate
   - 'http-compression global' to set the per-process maximum compression speed in kB/s"""


def _set_rate_limit(cli: CliSession, args: list[str]) -> Answer:
    if len(args) < 2 or args[0] not in _RATES or args[1] != "global":
        raise CliError(_RATE_USAGE)
    if len(args) < 3:
        raise CliError("Expects an integer value.")
    value = c_integer(args[2])
    if value < 0:
        raise CliError("Value out of range.")
    runtime = cli.runtime
    set_limit = runtime.rate_limits.get(args[0])
    if set_limit is not None:
        set_limit(value)
        look_again(runtime.pool)
    else:
        # there is no TLS and no compression, so that any limit holds
        runtime.idle_limits[args[0]] = value
    return ""


COMMANDS: tuple[Command, ...] = (
    Command(
        ("disable", "frontend"),
        "disable frontend <frontend>",
        "refuse connections to a frontend",
        Level.ADMIN,
        _disable,
    ),
    Command(
        ("enable", "frontend"),
        "enable frontend <frontend>",
        "accept connections again",
        Level.ADMIN,
        _enable,
    ),
    Command(
        ("shutdown", "frontend"),
        "shutdown frontend <frontend>",
        "close a frontend's listening sockets for good",
        Level.ADMIN,
        _shutdown,
    ),
    Command(
        ("set", "maxconn", "frontend"),
        "set maxconn frontend <frontend> <number>",
        "limit the connections of a frontend",
        Level.ADMIN,
        _set_maxconn_frontend,
    ),
    Command(
        ("set", "maxconn", "global"),
        "set maxconn global <number>",
        "limit the connections of the process",
        Level.ADMIN,
        _set_maxconn_global,
    ),
    Command(
        ("set", "rate-limit"),
        "set rate-limit <what> global <number>",
        "limit what is new per second",
        Level.ADMIN,
        _set_rate_limit,
    ),
)
