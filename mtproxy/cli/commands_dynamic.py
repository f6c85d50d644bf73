"""Runtime commands that add and remove servers. Exports COMMANDS.

Answers are HAProxy's, verified against 2.6. One runtime connection at a time changes a backend: all
are served by one thread, and each of these commands claims the backend until it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mtproxy.cli.runtime import INFO, CliError, CliSession, Command, Level, Pause
from mtproxy.cli.servers import find_server, removal_obstacle
from mtproxy.config.dynamic import DynamicError, read_dynamic_server
from mtproxy.proxy.server import ServerState
from mtproxy.proxy.transitions import follow
from mtproxy.stream.coming_going import add_server, remove_server


def _add(cli: CliSession, args: list[str]) -> Iterator[str | Pause]:
    name, slash, server_name = (args[0] if args else "").partition("/")
    if not slash or not server_name:
        raise CliError("Require 'backend/server'.")
    runtime = cli.runtime
    proxy = runtime.backend(name)
    if proxy is None or proxy.shared is None:
        raise CliError("No such backend.")
    shared = proxy.shared
    if not shared.balancer.dynamic:
        raise CliError("Backend must use a dynamic load balancing to support dynamic servers.")
    used = {server.id for server in shared.servers} | runtime.reserved_ids(proxy.name)
    try:
        settings = read_dynamic_server([server_name, *args[1:]], proxy.settings, used)
    except DynamicError as error:
        raise CliError(str(error)) from None
    names = {server.name for server in shared.servers}
    if server_name in names or (proxy.name, server_name) in runtime.changing:
        raise CliError("Already exists a server with the same name in backend.")
    track = None
    if settings.states.track:
        if settings.check is not None:
            raise CliError("unable to enable checks and tracking at the same time!")
        track = _tracked(cli, proxy.name, settings.states.track)
    claim = proxy.name, server_name
    runtime.changing[claim] = settings.id
    runtime.forget_counters(proxy.settings.id, settings.id)

    def begin(wake: Callable[[], None]) -> None:
        def done(state: ServerState) -> None:
            del runtime.changing[claim]
            if track is not None:
                state.track = track
                track.trackers.insert(0, state)  # the last one is told first
                follow(state, cli.ctx)
            if runtime.start_check is not None:
                runtime.start_check(state, cli.ctx)
            wake()

        add_server(shared, settings, cli.ctx, done)

    yield Pause(begin, any_input=False)
    yield f"{cli.severity_prefix(INFO)}New server registered.\n"


def _tracked(cli: CliSession, own: str, name: str) -> ServerState:
    """The server that a new one shall track: of the configuration, and checked."""
    path = name if "/" in name else f"{own}/{name}"
    try:
        server = find_server(cli, [path])
    except CliError:
        raise CliError(f"unable to find required server '{name}' for tracking.") from None
    if server.dynamic:
        raise CliError(f"unable to use {path} for tracking as it is a dynamic server.")
    checked = server.checked_one
    if not (checked.check.configured or checked.agent.configured):
        raise CliError(
            f"unable to use {path} for tracking as it does not have any check nor agent enabled."
        )
    return server


def _delete(cli: CliSession, args: list[str]) -> Iterator[str | Pause]:
    server = find_server(cli, args)
    runtime = cli.runtime
    obstacle = removal_obstacle(runtime, server)
    if obstacle is not None:
        raise CliError(obstacle)
    claim = server.backend.name, server.name
    runtime.changing[claim] = server.id
    if server.track is not None:
        server.track.trackers.remove(server)

    def begin(wake: Callable[[], None]) -> None:
        def done() -> None:
            del runtime.changing[claim]
            wake()

        remove_server(server.backend, server, cli.ctx, done)

    yield Pause(begin, any_input=False)
    # no newline: HAProxy ends this answer with a single one
    yield f"{cli.severity_prefix(INFO)}Server deleted."


COMMANDS: tuple[Command, ...] = (
    Command(
        ("add", "server"),
        "add server <bk>/<srv> <addr> [opts]*",
        "add a server, in maintenance",
        Level.ADMIN,
        _add,
    ),
    Command(
        ("del", "server"),
        "del server <bk>/<srv>",
        "remove a server that is in maintenance",
        Level.ADMIN,
        _delete,
    ),
)
