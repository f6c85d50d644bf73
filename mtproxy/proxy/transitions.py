"""Changes of a server's state: by a health check's result, by the operator.

Any thread may call these functions; `ctx` is the caller's own. Each changes the ServerState under
its SERVER lock, then has the backend recount its usable servers (LBPRM lock), then reports with no
lock held. The messages are HAProxy's, word for word and level for level, verified against 2.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.proxy.backend import ALERT, EMERG, NOTICE
from mtproxy.proxy.server import CheckStatus, ServerState

if TYPE_CHECKING:
    from mtproxy.sched.context import ThreadContext


def report_check(
    server: ServerState,
    ctx: ThreadContext,
    status: CheckStatus,
    info: str,
    duration: int,
    code: int = 0,
) -> None:
    """Enter the result of a health check: `info` says more about it, `duration` is in ms, `code`
    is what the application answered.

    Ignored while the server is in maintenance, as it may have been put there meanwhile.
    """
    health = server.health
    assert health is not None
    server.lock.take(ctx.tid)
    try:
        if server.maint:
            return
        was_up = health.up
        moved = health.passed() if status.passed else health.failed()
        worth_logging = moved or status is not server.check_status
        server.check_status = status
        server.check_info = info
        server.check_code = code
        server.check_duration = duration
        up = health.up
        progress = health.text()
        if moved and not status.passed:
            server.failed_checks += 1
        if up != was_up:
            _turned(server, ctx, was_running=was_up)
    finally:
        server.lock.drop(ctx.tid)

    reason = f", reason: {status.description}"
    if status.has_code:
        reason += f", code: {code}"
    if info:
        reason += f', info: "{_printable(info)}"'
    reason += f", check duration: {duration}ms"
    if worth_logging and "log-health-checks" in server.backend.settings.options:
        if not server.weight and up:
            progress = progress.replace("UP", "DRAIN")
        which = "backup server" if server.settings.backup else "server"
        outcome = "succeeded" if status.passed else "failed"
        if status.conditional:
            outcome = "conditionally succeeded"
        server.backend.notify(
            ctx,
            NOTICE,
            f"Health check for {which} {server.backend.name}/{server.name} {outcome}{reason}, "
            f"status: {progress}.",
        )
        reason = ""
    if up != was_up:
        _announce_turn(server, ctx, up, reason)


def _printable(info: str) -> str:
    """Text of a server's for a log line: what could end it, or its quotes, is written as &#N;."""
    if info.isascii() and info.isprintable() and '"' not in info:
        return info
    data = info.encode("utf-8", "surrogateescape")
    return "".join([chr(c) if 32 <= c < 127 and c != 34 else f"&#{c};" for c in data])


def set_health(server: ServerState, ctx: ThreadContext, up: bool) -> bool:
    """Force the health of a checked server, until the next checks say otherwise.

    Returns False, and does nothing, if the server is not checked.
    """
    health = server.health
    if health is None:
        return False
    server.lock.take(ctx.tid)
    try:
        was_up = health.up
        if up:
            health.value = health.rise + health.fall - 1
        else:
            health.value = 0
        turned = up != was_up and not server.maint
        if turned:
            _turned(server, ctx, was_running=was_up)
    finally:
        server.lock.drop(ctx.tid)
    if turned:
        _announce_turn(server, ctx, up, ", changed from CLI")
    return True


def set_maint(server: ServerState, ctx: ThreadContext) -> None:
    """Put the server into maintenance: no new sessions, no checks. Ends a drain."""
    server.lock.take(ctx.tid)
    try:
        if server.maint:
            return
        was_running, was_draining = server.running, server.drain
        server.maint = True
        server.drain = False
        if was_running:
            _turned(server, ctx, was_running=True)
    finally:
        server.lock.drop(ctx.tid)
    lost = server.backend.update(server, ctx)
    if was_running:
        text = f"{_title(server)} is going DOWN for maintenance. {_left(server)}"
        server.backend.notify(ctx, NOTICE if was_draining else ALERT, text)
    else:
        text = f"{_title(server)} was DOWN and now enters maintenance."
        server.backend.notify(ctx, NOTICE, text)
    _announce_loss(server, ctx, lost)


def set_ready(server: ServerState, ctx: ThreadContext) -> None:
    """End maintenance and drain. A checked server is then up until its first failed check."""
    _admit(server, ctx, drain=False)


def set_drain(server: ServerState, ctx: ThreadContext) -> None:
    """No new balanced sessions, but checks and persistent sessions go on. Ends maintenance."""
    _admit(server, ctx, drain=True)


def set_weight(server: ServerState, ctx: ThreadContext, weight: int) -> None:
    """Change the weight, 0..256; 0 stops new balanced sessions."""
    if not 0 <= weight <= 256:
        raise ValueError(f"weight {weight} is not within 0..256")
    server.lock.take(ctx.tid)
    server.weight = weight
    server.lock.drop(ctx.tid)
    _announce_loss(server, ctx, server.backend.update(server, ctx))


def _admit(server: ServerState, ctx: ThreadContext, drain: bool) -> None:
    """Leave maintenance, if in it, and enter or leave drain."""
    server.lock.take(ctx.tid)
    try:
        was_maint, was_draining = server.maint, server.drain
        if was_maint:
            if server.health is not None:
                server.health.restart()
            server.maint = server.unresolved = False
            _turned(server, ctx, was_running=False)
        elif was_draining != drain:
            _turned(server, ctx, was_running=server.running, still_running=server.running)
        server.drain = drain
        running = server.running
    finally:
        server.lock.drop(ctx.tid)
    if not was_maint and was_draining == drain:
        return
    lost = server.backend.update(server, ctx)
    notify = server.backend.notify
    title = _title(server)
    if was_maint:
        goal = "DRAIN" if drain else "READY"
        notify(ctx, NOTICE, f"{title} is UP/{goal} (leaving forced maintenance).")
        if drain:
            notify(ctx, NOTICE, f"{title} remains in forced drain mode.")
    elif drain:
        counts = _online(server) if running else _left(server)
        notify(ctx, NOTICE, f"{title} enters drain state. {counts}")
    else:
        notify(ctx, NOTICE, f"{title} is {'UP' if running else 'DOWN'} (leaving forced drain).")
    _announce_loss(server, ctx, lost)


def _turned(
    server: ServerState, ctx: ThreadContext, *, was_running: bool, still_running: bool = False
) -> None:
    """Note the time of a change, and what follows from going down. SERVER lock held."""
    now = ctx.now
    if not was_running:
        server.down_ms += now - server.last_change
    elif not still_running:
        # threads drop their idle connections when they see the new epoch
        server.epoch += 1
        server.down_transitions += 1
    server.last_change = now


def _announce_turn(server: ServerState, ctx: ThreadContext, up: bool, reason: str) -> None:
    """Recount and report a server that went up or down for `reason`."""
    lost = server.backend.update(server, ctx)
    notify = server.backend.notify
    draining = server.drain
    title = _title(server)
    if up:
        notify(ctx, NOTICE, f"{title} is UP{reason}. {_online(server)}")
    else:
        text = f"{title} is DOWN{reason}. {_left(server)}"
        notify(ctx, NOTICE if draining else ALERT, text)
    if draining:
        notify(ctx, NOTICE, f"{title} remains in forced drain mode.")
    _announce_loss(server, ctx, lost)


def _announce_loss(server: ServerState, ctx: ThreadContext, lost: bool) -> None:
    if lost:
        backend = server.backend
        backend.notify(ctx, EMERG, f"backend {backend.name} has no server available!")


def _title(server: ServerState) -> str:
    prefix = "Backup " if server.settings.backup else ""
    return f"{prefix}Server {server.backend.name}/{server.name}"


def _counts(server: ServerState, word: str) -> str:
    backend = server.backend
    running_on = " Running on backup." if backend.on_backup else ""
    return f"{backend.active} active and {backend.backup} backup servers {word}.{running_on}"


def _left(server: ServerState) -> str:
    return (
        f"{_counts(server, 'left')} {server.sessions()} sessions active, 0 requeued, "
        "0 remaining in queue."
    )


def _online(server: ServerState) -> str:
    return f"{_counts(server, 'online')} 0 sessions requeued, 0 total in queue."
