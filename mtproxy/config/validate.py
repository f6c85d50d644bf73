"""Checks over the whole configuration, and the step from drafts to immutable Settings.

Main thread only. Faults are added to the context's diagnostics; the caller looks there.
"""

from __future__ import annotations

from mtproxy.base.settings import ProxySettings, Settings
from mtproxy.config.context import Context
from mtproxy.config.drafts import ProxyDraft


def check(ctx: Context) -> None:
    """Cross checks between sections; adds alerts and warnings."""
    for proxy in ctx.proxies:
        if proxy.disabled:
            continue
        _check_default_backend(ctx, proxy)
        _check_binds(ctx, proxy)
        _check_timeouts(ctx, proxy)
        _check_mode(ctx, proxy)
    _check_server_ids(ctx)


def _check_default_backend(ctx: Context, proxy: ProxyDraft) -> None:
    name = proxy.default_backend
    if name is None or not proxy.is_frontend:
        return
    place = proxy.default_backend_location
    target = next((p for p in ctx.proxies if p.name == name and p.is_backend), None)
    if target is None:
        from mtproxy.config.nearest import nearest

        ctx.diagnostics.alert(
            f"{proxy.title()} : unable to find required default_backend '{name}'",
            place,
            word=name,
            suggestion=nearest(name, (p.name for p in ctx.proxies if p.is_backend)),
        )
    elif target.mode != proxy.mode:
        ctx.diagnostics.alert(
            f"{proxy.mode} {proxy.title()} tries to use incompatible {target.mode}"
            f" {target.title()} as default_backend (see 'mode')",
            place,
            word=name,
        )


def _check_binds(ctx: Context, proxy: ProxyDraft) -> None:
    if proxy.kind == "frontend" and not proxy.binds:
        ctx.warn(
            proxy.location,
            f"{proxy.title()} has no 'bind' directive: declare it as a backend if that was meant",
        )


def _check_timeouts(ctx: Context, proxy: ProxyDraft) -> None:
    needed = []
    if proxy.is_frontend:
        needed.append("client")
    if proxy.is_backend and (proxy.servers or proxy.kind == "listen"):
        needed.extend(["connect", "server"])
    missing = [f"'{name}'" for name in needed if name not in proxy.timeouts]
    if missing:
        ctx.warn(
            proxy.location,
            f"missing timeouts for {proxy.title()}: {', '.join(missing)}\n"
            "without them a dead peer is never noticed: set all of them to a non-zero value",
        )


def _check_mode(ctx: Context, proxy: ProxyDraft) -> None:
    if proxy.mode == "tcp" and proxy.is_frontend and proxy.log_format in ("httplog", "httplog-clf"):
        ctx.warn(
            proxy.location,
            f"'option httplog' not usable with {proxy.title()} (needs 'mode http'):"
            " falling back to 'option tcplog'",
        )
        proxy.options -= {"httplog", "httplog-clf"}
        proxy.options.add("tcplog")
        proxy.log_format = "tcplog"


def _check_server_ids(ctx: Context) -> None:
    for proxy in ctx.proxies:
        seen: dict[int, str] = {}
        for server in proxy.servers:
            if server.id is None:
                continue
            if server.id in seen:
                ctx.diagnostics.alert(
                    f"'server {proxy.name}/{server.name}' : custom id {server.id} is already used"
                    f" by server '{seen[server.id]}'",
                    server.location,
                )
            seen[server.id] = server.name


def _numbers(wanted: list[int | None]) -> list[int]:
    """Ids as given, and the lowest free numbers from 1 for the others, in order."""
    used = {number for number in wanted if number is not None}
    result = []
    following = 1
    for number in wanted:
        if number is None:
            while following in used:
                following += 1
            number = following
            used.add(number)
        result.append(number)
    return result


def freeze(ctx: Context, files: tuple[str, ...]) -> Settings:
    """The immutable configuration; call it only when there are no alerts."""
    global_ = ctx.global_.freeze()
    proxies: list[ProxySettings] = []
    for draft, number in zip(ctx.proxies, _numbers([p.id for p in ctx.proxies]), strict=True):
        ids = _numbers([server.id for server in draft.servers])
        by_name = {server.name: i for server, i in zip(draft.servers, ids, strict=True)}
        proxies.append(draft.freeze(number, global_.logs, by_name))
    return Settings(global_, tuple(proxies), files, dict(ctx.environ))


def has_listener(settings: Settings) -> bool:
    """Something to listen on: without it HAProxy does not start (exit code 2 of -c)."""
    if settings.global_.stats_sockets:
        return True
    return any(proxy.binds and not proxy.disabled for proxy in settings.proxies)
