"""Words of a `server` line about its state: what it follows, what watches it, what a change entails
(manual 5.2). Exports `STATE_OPTIONS`, and `check_tracks`, which validation calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mtproxy.base.address import AddressError, Port, parse_address
from mtproxy.base.errors import ConfigError
from mtproxy.base.nearest import nearest
from mtproxy.config.context import Context
from mtproxy.config.drafts import ProxyDraft
from mtproxy.config.model import Args
from mtproxy.config.options import Option
from mtproxy.config.server_draft import ServerDraft

StateOption = Option[ServerDraft]
Apply = Callable[[Context, Args, ServerDraft], None]


def _set(**values: object) -> Apply:
    def apply(ctx: Context, args: Args, draft: ServerDraft) -> None:
        draft.states = replace(draft.states, **values)  # type: ignore[arg-type]

    return apply


def _choice(field: str, *words: str) -> Apply:
    def apply(ctx: Context, args: Args, draft: ServerDraft) -> None:
        _set(**{field: args.choice(*words)})(ctx, args, draft)

    return apply


def _error_limit(ctx: Context, args: Args, draft: ServerDraft) -> None:
    _set(error_limit=args.integer(1))(ctx, args, draft)


def check_observe(ctx: Context, proxy: ProxyDraft, title: str, server: ServerDraft) -> None:
    """Answers are only seen in HTTP."""
    if server.states.observe == "layer7" and proxy.mode != "http":
        ctx.diagnostics.alert(
            f"'{title}' : 'observe layer7' can only be used in mode http",
            server.location,
            word="observe",
        )


def _track(ctx: Context, args: Args, draft: ServerDraft) -> None:
    _set(track=args.value("[backend/]server"))(ctx, args, draft)


def check_tracks(ctx: Context, proxy: ProxyDraft) -> None:
    """What the servers of a backend track has to exist, to be checked, and to end somewhere."""
    for server in proxy.servers:
        title = f"server {proxy.name}/{server.name}"
        check_agent(ctx, title, server)
        check_observe(ctx, proxy, title, server)
        if server.states.track:
            _check_track(ctx, proxy, server)


def _check_track(ctx: Context, proxy: ProxyDraft, server: ServerDraft) -> None:
    title = f"server {proxy.name}/{server.name}"
    wanted = server.states.track

    def refuse(text: str, suggestion: str | None = None) -> None:
        ctx.diagnostics.alert(
            f"'{title}' : {text}", server.location, word=wanted, suggestion=suggestion
        )

    if server.check:
        refuse("unable to enable checks and tracking at the same time")
        return
    backend, _, name = wanted.rpartition("/")
    if backend and not _backends(ctx, backend):
        names = [one.name for one in ctx.proxies if one.is_backend]
        refuse(f"unable to find the backend '{backend}' for tracking", nearest(backend, names))
        return
    found = find_tracked(ctx, proxy, server)
    if found is None:
        other = _backends(ctx, backend)[0] if backend else proxy
        refuse(
            f"unable to find the server '{name}' of {other.title()} for tracking",
            nearest(name, other.servers_by_name),
        )
        return
    other, tracked = found
    path = f"{other.name}/{tracked.name}"
    if not (tracked.check or tracked.agent_check or tracked.states.track):
        refuse(f"unable to use {path} for tracking as it has neither a check nor an agent")
        return
    if other is not proxy and other.checks.disable_on_404 != proxy.checks.disable_on_404:
        refuse(f"unable to use {path} for tracking: 'disable-on-404' is inconsistent")
        return
    seen = [server]
    step: tuple[ProxyDraft, ServerDraft] | None = found
    while step is not None:
        if step[1] is server:
            refuse(f"unable to track {path} as it belongs to a tracking chain looping back to it")
            return
        if step[1] in seen:
            return  # a loop of others, which is reported there
        seen.append(step[1])
        step = find_tracked(ctx, *step)


def _backends(ctx: Context, name: str) -> list[ProxyDraft]:
    return [one for one in ctx.proxies_by_name.get(name, ()) if one.is_backend]


def find_tracked(
    ctx: Context, proxy: ProxyDraft, server: ServerDraft
) -> tuple[ProxyDraft, ServerDraft] | None:
    """The server that `server` of `proxy` tracks, and its backend; None where there is none."""
    backend, _, name = server.states.track.rpartition("/")
    for other in _backends(ctx, backend) if backend else [proxy]:
        found = other.servers_by_name.get(name)
        if found is not None:
            return other, found
    return None


def _agent(value: bool) -> Apply:
    def apply(ctx: Context, args: Args, draft: ServerDraft) -> None:
        draft.agent_check = value

    return apply


def _agent_inter(ctx: Context, args: Args, draft: ServerDraft) -> None:
    draft.agent_inter = args.time()
    if not draft.agent_inter:
        raise ConfigError(f"'{args.name}' : invalid value 0, a positive time is expected")


def _agent_address(ctx: Context, args: Args, draft: ServerDraft) -> None:
    text = args.value("an address")
    try:
        found = parse_address(text, ctx.environ, port=Port.OPTIONAL, resolver=ctx.resolver)
    except AddressError as error:
        raise ConfigError(f"'{args.name}' : {error}", word=text) from None
    draft.agent_address = found.address


def _agent_port(ctx: Context, args: Args, draft: ServerDraft) -> None:
    draft.agent_port = args.integer(0, 65535) or None


def _agent_send(ctx: Context, args: Args, draft: ServerDraft) -> None:
    draft.agent_send = args.value("a string")


def check_agent(ctx: Context, title: str, server: ServerDraft) -> None:
    """An agent has to have a port: the service's own is not its."""
    if server.agent_check and not (server.agent_port or server.check_port):
        ctx.diagnostics.alert(
            f"'{title}' : 'agent-check' needs the port of the agent: set 'agent-port'",
            server.location,
            word="agent-check",
        )


STATE_OPTIONS: tuple[StateOption, ...] = (
    StateOption("agent-addr", _agent_address, arguments=1),
    StateOption("agent-check", _agent(True)),
    StateOption("agent-inter", _agent_inter, arguments=1),
    StateOption("agent-port", _agent_port, arguments=1),
    StateOption("agent-send", _agent_send, arguments=1),
    StateOption(
        "init-state", _choice("init_state", "up", "fully-up", "down", "fully-down"), arguments=1
    ),
    StateOption("no-agent-check", _agent(False)),
    StateOption("error-limit", _error_limit, arguments=1),
    StateOption("observe", _choice("observe", "none", "layer4", "layer7"), arguments=1),
    StateOption(
        "on-error",
        _choice("on_error", "fastinter", "fail-check", "sudden-death", "mark-down"),
        arguments=1,
    ),
    StateOption("track", _track, arguments=1),
)
