"""Changes of a server's state: by a check's result, by the operator, by the server that it tracks.

Any thread may call these functions; `ctx` is the caller's own. Each changes the ServerState under
its SERVER lock. Then, with no lock held, it has the backend recount its usable servers (LBPRM
lock), calls `_after_change`, reports, and lets the servers that track this one follow: each reads
what it tracks under its own lock, so that the later of two changes is seen by all. The messages are
HAProxy's, word for word and level for level, verified against 2.6.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mtproxy.proxy.backend import ALERT, EMERG, NOTICE
from mtproxy.proxy.checkstate import CheckState
from mtproxy.proxy.checkstatus import CONDITIONAL, FAILED, NEUTRAL, PASSED, UNKNOWN, CheckStatus
from mtproxy.proxy.server import ServerState
from mtproxy.proxy.slowstart import Warmup
from mtproxy.proxy.states import (
    DRAIN,
    FDRAIN,
    FMAINT,
    IDRAIN,
    IMAINT,
    MAINT,
    RMAINT,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
)

if TYPE_CHECKING:
    from mtproxy.base.addresses import Address
    from mtproxy.proxy.observe import Event
    from mtproxy.sched.context import ThreadContext

#: longest description of a check's result that is kept, in characters
MOST_INFO = 127


@dataclass(slots=True)
class Change:
    """What one change did to a server; filled under its lock, read afterwards."""

    was_state: int
    was_admin: int
    was_usable: bool
    state: int = 0
    admin: int = 0
    usable: bool = False
    #: severity, text, and whether the numbers of servers and sessions follow
    messages: list[tuple[int, str, bool]] = field(default_factory=list)

    @property
    def stopped(self) -> bool:
        """The server went down or into maintenance."""
        return self.was_state != STOPPED and self.state == STOPPED

    @property
    def started(self) -> bool:
        """It came up: from down, from maintenance, or because it takes new sessions again."""
        return self.state in (STARTING, RUNNING) and self.was_state in (STOPPED, STOPPING)

    @property
    def left(self) -> bool:
        """It takes no new sessions any more: down, maintenance, drain, stopping, no weight."""
        return self.was_usable and not self.usable


def _after_change(server: ServerState, ctx: ThreadContext, change: Change) -> int:
    """What has to happen because a server's state has changed: the one place for it.

    Called once per change, with no lock held, on the thread that made it, after the backend has
    recounted its servers and before the change is reported. `server` may have changed again
    meanwhile, `change` tells what this change did. Returns how many queued requests were moved,
    which the report tells.
    """
    if change.started and server.state == STARTING:
        Warmup(server, end_slowstart).queue(ctx)
    _end_sessions(server, ctx, change)
    queue = server.backend.queue
    if queue is None:
        return 0
    drains = change.admin & DRAIN and not change.was_admin & DRAIN
    if change.stopped or change.state == STOPPING != change.was_state or drains:
        return queue.redistribute(server, ctx.tid)
    return queue.settle(server, ctx.tid) if change.usable else 0


def _end_sessions(server: ServerState, ctx: ThreadContext, change: Change) -> None:
    """`on-marked-down shutdown-sessions`, `on-marked-up shutdown-backup-sessions`."""
    backend, settings = server.backend, server.settings
    if backend.end_sessions is None:
        return
    if change.stopped and settings.shutdown_sessions:
        backend.end_sessions(server, "D", ctx)
    if change.started and settings.shutdown_backups and change.usable and not settings.backup:
        for other in backend.servers:
            if other.settings.backup:
                backend.end_sessions(other, "U", ctx)


def report_check(
    server: ServerState,
    ctx: ThreadContext,
    status: CheckStatus,
    info: str,
    duration: int,
    code: int = 0,
    *,
    agent: bool = False,
) -> None:
    """Enter the result of a health check, or of an agent check.

    `info` says why it failed or what was found, `duration` is in ms, `code` counts if
    `status.has_code`. Ignored while such checks are switched off or held by maintenance, as that
    may have happened meanwhile.
    """
    check = server.agent if agent else server.check
    settings = server.backend.settings
    log_checks = "log-health-checks" in settings.options
    message = ""
    server.lock.take(ctx.tid)
    try:
        if not check.active:
            return
        before = check.status
        check.info = info[:MOST_INFO]
        check.status = status
        check.code = code
        check.duration = duration
        if status.result != UNKNOWN:
            check.result = status.result
        moved = _count(server, check, status)
        if log_checks and status.result != NEUTRAL and (moved or status is not before):
            message = _check_message(server, check)
        change = _begin(server)
        _conclude(server, ctx, check, change, "" if log_checks or server.track else check.outcome())
        _end(server, change)
    finally:
        server.lock.drop(ctx.tid)
    if message:
        server.backend.notify(ctx, NOTICE, message)
    _follow_up(server, ctx, change)


def notice(server: ServerState, ctx: ThreadContext, event: Event) -> None:
    """Traffic of a server that is observed showed something: with too many errors in a row do what
    `on-error` says (manual 5.2).
    """
    observer, settings = server.observer, server.settings.check
    assert observer is not None
    assert settings is not None
    errors = observer.count(event, ctx.tid)
    if not errors:
        return
    action = server.settings.states.on_error
    server.lock.take(ctx.tid)
    server.failed_hana += 1
    health = server.check.health
    if action == "mark-down" and health.up:
        health.value = health.rise
    elif action == "sudden-death" and health.value > health.rise:
        # one more failure after this one takes it down
        health.value = health.rise + 1
    server.lock.drop(ctx.tid)
    if action != "fastinter":
        info = f"Detected {errors} consecutive errors, last one was: {event.text}"
        report_check(server, ctx, CheckStatus.HANA, info, -1)
    # whatever is done, the next check comes within `fastinter`
    task = server.check_task
    if task is None or settings.fastinter is None:
        return
    due, planned = ctx.now + settings.fastinter, task.expire
    if planned is not None and due < planned:
        ctx.pool.wait_queue.move(task, due, ctx.tid)


def _count(server: ServerState, check: CheckState, status: CheckStatus) -> bool:
    """Count a result for the check's health; whether that moved. SERVER lock held."""
    if status.passed:
        if server.observer is not None:
            server.observer.errors = 0
        return check.health.passed()
    if status.result != FAILED or (check.is_agent and not status.has_code):
        # an agent that cannot be asked says nothing about the server
        return False
    moved = check.health.failed()
    server.failed_checks += moved
    return moved


def _check_message(server: ServerState, check: CheckState) -> str:
    kind = "Agent" if check.is_agent else "Health"
    which = "backup server" if server.settings.backup else "server"
    outcome = "succeeded" if check.result >= PASSED else "failed"
    if check.result == CONDITIONAL:
        outcome = f"conditionally {outcome}"
    progress = check.health.text()
    if not server.weight and check.health.up:
        progress = progress.replace("UP", "DRAIN")
    return (
        f"{kind} check for {which} {server.full_name} {outcome}{check.outcome()}, "
        f"status: {progress}."
    )


def _conclude(
    server: ServerState, ctx: ThreadContext, check: CheckState, change: Change, reason: str
) -> None:
    """Bring the server into the state that the check's last result asks for. SERVER lock held."""
    if check.result == FAILED:
        if not check.health.value and not (
            check.is_agent and check.status is not CheckStatus.L7STS
        ):
            _stop(server, ctx, change, reason)
        return
    if check.result < PASSED or server.maint or not _may_run(server):
        return
    if check.result == CONDITIONAL and not check.is_agent:
        _stopping(server, ctx, change, reason)
    elif not check.is_agent or server.state != STOPPING:
        # an agent does not end what the health check began
        _run(server, ctx, change, reason)


def _may_run(server: ServerState) -> bool:
    """Whether neither checks nor the tracked server hold it down."""
    track = server.track
    return not (
        (track is not None and track.state == STOPPED) or server.check.down or server.agent.down
    )


def set_health(
    server: ServerState,
    ctx: ThreadContext,
    state: int,
    *,
    agent: bool = False,
    reason: str = "changed from CLI",
) -> None:
    """Force what the health (or agent) check has found, until the next checks say otherwise.

    `state` is RUNNING, STOPPING or STOPPED. Does not end maintenance. Not for servers that track
    another. `reason` is told in the logs.
    """
    assert server.track is None or agent
    check = server.agent if agent else server.check
    reason = f", {reason}"
    server.lock.take(ctx.tid)
    try:
        change = _begin(server)
        check.health.value = check.health.top if state else 0
        if state == STOPPED:
            _stop(server, ctx, change, reason)
        elif state == STOPPING:
            _stopping(server, ctx, change, reason)
        else:
            _run(server, ctx, change, reason)
        _end(server, change)
    finally:
        server.lock.drop(ctx.tid)
    _follow_up(server, ctx, change)


def force_agent(server: ServerState, ctx: ThreadContext, *, up: bool) -> None:
    """What the agent said of the server's health; `report_check` then does what follows."""
    server.lock.take(ctx.tid)
    health = server.agent.health
    health.value = health.top if up else 0
    server.lock.drop(ctx.tid)


def change_agent(
    server: ServerState,
    ctx: ThreadContext,
    *,
    address: Address | None = None,
    port: int | None = None,
    send: bytes | None = None,
) -> None:
    """Another place of the agent, or what it is sent; None: as before."""
    server.lock.take(ctx.tid)
    if address is not None:
        server.agent_address = address
    if port is not None:
        server.agent_port = port
    if send is not None:
        server.agent_send = send
    server.lock.drop(ctx.tid)


def set_maint(server: ServerState, ctx: ThreadContext) -> None:
    """Put the server into maintenance: no new sessions, no checks. Ends a drain."""
    set_flag(server, ctx, FMAINT)
    clear_flag(server, ctx, FDRAIN)


def set_ready(server: ServerState, ctx: ThreadContext) -> None:
    """End forced maintenance and drain; a checked server is then up until its first failed check.

    What is inherited from a tracked server stays.
    """
    clear_flag(server, ctx, FDRAIN)
    clear_flag(server, ctx, FMAINT)


def set_drain(server: ServerState, ctx: ThreadContext) -> None:
    """No new balanced sessions, but checks and persistent sessions go on. Ends maintenance."""
    set_flag(server, ctx, FDRAIN)
    clear_flag(server, ctx, FMAINT)


def set_flag(server: ServerState, ctx: ThreadContext, flag: int, cause: str = "") -> None:
    """Set one administrative flag; nothing if it is set. `cause` explains it in the logs."""
    _change_flags(server, ctx, flag, 0, cause)


def clear_flag(server: ServerState, ctx: ThreadContext, flag: int) -> None:
    """Clear one administrative flag; nothing if it is not set."""
    _change_flags(server, ctx, 0, flag, "")


def set_weight(server: ServerState, ctx: ThreadContext, weight: int) -> None:
    """Change the weight, 0..256; 0 stops new balanced sessions."""
    if not 0 <= weight <= 256:
        raise ValueError(f"weight {weight} is not within 0..256")
    server.lock.take(ctx.tid)
    try:
        change = _begin(server)
        server.weight = weight
        _remark_drain(server, change)
        _end(server, change)
    finally:
        server.lock.drop(ctx.tid)
    _follow_up(server, ctx, change, even_if_same=True)


def enable_check(server: ServerState, ctx: ThreadContext, on: bool, *, agent: bool = False) -> bool:
    """Switch the health (or agent) check on or off, which changes no state by itself.

    Returns False, and does nothing, if one is to be switched on that is not configured.
    """
    check = server.agent if agent else server.check
    if on and not check.configured:
        return False
    server.lock.take(ctx.tid)
    check.enabled = on
    server.lock.drop(ctx.tid)
    return True


def end_slowstart(server: ServerState, ctx: ThreadContext) -> None:
    """The time of slow start is over: STARTING becomes RUNNING, which HAProxy reports once more."""
    server.lock.take(ctx.tid)
    try:
        change = _begin(server)
        if server.state == STARTING:
            _turn(server, ctx, change, RUNNING)
            _say(server, change, NOTICE, f"is UP{_via(server, '')}", counts=True)
            _remark_drain(server, change)
        _end(server, change)
    finally:
        server.lock.drop(ctx.tid)
    _follow_up(server, ctx, change)


def follow(server: ServerState, ctx: ThreadContext) -> None:
    """Bring a server that tracks another into line with that one. The caller holds no lock."""
    track = server.track
    assert track is not None
    moved = True
    while moved:
        server.lock.take(ctx.tid)
        try:
            change = _begin(server)
            admin, state = track.admin, track.state
            flags = server.admin & ~(IMAINT | IDRAIN)
            if bool(admin & MAINT) != bool(server.admin & IMAINT):
                _administer(server, ctx, change, server.admin ^ IMAINT, "")
            elif bool(admin & DRAIN) != bool(server.admin & IDRAIN):
                _administer(server, ctx, change, server.admin ^ IDRAIN, "")
            elif flags & MAINT or admin & MAINT:
                pass
            elif state == STOPPED:
                _stop(server, ctx, change, "")
            elif not _may_run(server):
                pass
            elif state == STOPPING:
                _stopping(server, ctx, change, "")
            else:
                _run(server, ctx, change, "")
            _end(server, change)
        finally:
            server.lock.drop(ctx.tid)
        moved = (change.was_state, change.was_admin) != (change.state, change.admin)
        _follow_up(server, ctx, change)


def _change_flags(
    server: ServerState, ctx: ThreadContext, to_set: int, to_clear: int, cause: str
) -> None:
    server.lock.take(ctx.tid)
    try:
        admin = (server.admin | to_set) & ~to_clear
        if admin == server.admin:
            return
        change = _begin(server)
        _administer(server, ctx, change, admin, cause)
        _end(server, change)
    finally:
        server.lock.drop(ctx.tid)
    _follow_up(server, ctx, change)


# What follows up to _follow_up is called with the SERVER lock held.


def _begin(server: ServerState) -> Change:
    return Change(server.state, server.admin, server.usable)


def _end(server: ServerState, change: Change) -> None:
    change.state, change.admin, change.usable = server.state, server.admin, server.usable


def _stop(server: ServerState, ctx: ThreadContext, change: Change, reason: str) -> None:
    """Down, unless it is that or in maintenance."""
    if server.maint or server.state == STOPPED:
        return
    expected = server.state == STOPPING or server.drain
    _turn(server, ctx, change, STOPPED)
    text = f"is DOWN{_via(server, reason)}"
    _say(server, change, NOTICE if expected else ALERT, text, counts=True)
    _remark_drain(server, change)


def _stopping(server: ServerState, ctx: ThreadContext, change: Change, reason: str) -> None:
    """No new sessions, unless it is like that or in maintenance."""
    if server.maint or server.state == STOPPING:
        return
    _turn(server, ctx, change, STOPPING)
    _say(server, change, NOTICE, f"is stopping{_via(server, reason)}", counts=True)
    _remark_drain(server, change)


def _run(server: ServerState, ctx: ThreadContext, change: Change, reason: str) -> None:
    """Up, unless it is that or in maintenance."""
    if server.maint or server.state in (STARTING, RUNNING):
        return
    _turn(server, ctx, change, STARTING if server.settings.slowstart else RUNNING)
    _say(server, change, NOTICE, f"is UP{_via(server, reason)}", counts=True)
    _remark_drain(server, change)


def _administer(
    server: ServerState, ctx: ThreadContext, change: Change, admin: int, cause: str
) -> None:
    """Make `admin` the administrative flags: one flag is another than before."""
    was = server.admin
    cause = f" ({cause})" if cause else ""
    if not was & MAINT and admin & MAINT:
        _enter_maint(server, ctx, change, admin, cause)
    elif was & MAINT and not admin & MAINT:
        server.admin = admin
        _leave_maint(server, ctx, change, was)
        _remark_drain(server, change)
    elif was & MAINT:
        server.admin = admin
        _remain_in_maint(server, change, was)
    elif not was & DRAIN and admin & DRAIN:
        server.admin = admin
        via = "" if admin & FDRAIN else _via(server, "")
        _turn(server, ctx, change, server.state)
        _say(server, change, NOTICE, f"enters drain state{cause}{via}", counts=True)
    elif was & DRAIN and not admin & DRAIN:
        server.admin = admin
        _turn(server, ctx, change, server.state)
        word = "UP" if server.running else "DOWN"
        _say(server, change, NOTICE, f"is {word} (leaving forced drain)")
    else:
        server.admin = admin
        _remark_drain(server, change)


def _enter_maint(
    server: ServerState, ctx: ThreadContext, change: Change, admin: int, cause: str
) -> None:
    if server.check.enabled:
        server.check.paused = True
        server.check.health.value = 0
    via = "" if admin & FMAINT else _via(server, "")
    expected = server.state == STOPPING or server.drain
    server.admin = admin
    if server.state == STOPPED:
        _say(server, change, NOTICE, f"was DOWN and now enters maintenance{cause}{via}")
        return
    server.check.health.value = 0
    _turn(server, ctx, change, STOPPED)
    text = f"is going DOWN for maintenance{cause}{via}"
    _say(server, change, NOTICE if expected else ALERT, text, counts=True)


def _leave_maint(server: ServerState, ctx: ThreadContext, change: Change, was: int) -> None:
    if server.check.enabled:
        server.check.paused = False
        server.check.health.restart()
    if _may_run(server):
        if server.track is not None and server.track.state == STOPPING:
            _turn(server, ctx, change, STOPPING)
        else:
            _turn(server, ctx, change, STARTING if server.settings.slowstart else RUNNING)
    goal = f"{'UP' if server.running else 'DOWN'}/{'DRAIN' if server.drain else 'READY'}"
    if was & IMAINT:
        _say(server, change, NOTICE, f"is {goal} (leaving maintenance)")
    elif was & RMAINT:
        name = server.hostname
        _say(server, change, NOTICE, f"('{name}') is {goal} (resolves again)")
    else:
        _say(server, change, NOTICE, f"is {goal} (leaving forced maintenance)")


def _remain_in_maint(server: ServerState, change: Change, was: int) -> None:
    gone = was & ~server.admin
    via = _via(server, "")
    if gone & FMAINT:
        text = f"is leaving forced maintenance but remains in maintenance{via}"
    elif gone & RMAINT:
        name = server.hostname
        text = f"('{name}') resolves again but remains in maintenance{via}"
    elif gone & IMAINT:
        text = "remains in forced maintenance"
    else:
        return
    _say(server, change, NOTICE, text)


def _remark_drain(server: ServerState, change: Change) -> None:
    """HAProxy says that a server is still draining after anything else has changed."""
    if server.maint or not server.drain:
        return
    if server.admin & FDRAIN:
        _say(server, change, NOTICE, "remains in forced drain mode")
    else:
        via = _via(server, "")
        text = f"is leaving forced drain but remains in drain mode{via}"
        _say(server, change, NOTICE, text)


def _turn(server: ServerState, ctx: ThreadContext, change: Change, state: int) -> None:
    """Enter a state; note the time, and what follows from going down."""
    now = ctx.now
    if change.was_state == STOPPED:
        server.down_ms += now - server.last_change
    elif state == STOPPED:
        # threads drop their idle connections when they see the new epoch
        server.epoch += 1
        server.down_transitions += 1
    server.state = state
    server.last_change = now


def _via(server: ServerState, reason: str) -> str:
    """The reason; without one, the server that this one follows."""
    if not reason and server.track is not None:
        return f" via {server.track.full_name}"
    return reason


def _say(
    server: ServerState, change: Change, severity: int, text: str, *, counts: bool = False
) -> None:
    prefix = "Backup Server" if server.settings.backup else "Server"
    change.messages.append((severity, f"{prefix} {server.full_name} {text}", counts))


def _follow_up(
    server: ServerState, ctx: ThreadContext, change: Change, *, even_if_same: bool = False
) -> None:
    """What follows from a change. No lock held."""
    same = (change.was_state, change.was_admin) == (change.state, change.admin)
    if same and not even_if_same:
        return
    backend = server.backend
    lost = backend.update(server, ctx)
    moved = _after_change(server, ctx, change)
    for severity, text, counts in change.messages:
        numbers = _numbers(server, change, moved) if counts else ""
        backend.notify(ctx, severity, f"{text}.{numbers}")
    if lost:
        kind = "proxy" if backend.settings.kind == "listen" else "backend"
        backend.notify(ctx, EMERG, f"{kind} {backend.name} has no server available!")
    if not same:
        for tracker in server.trackers:
            follow(tracker, ctx)


def _numbers(server: ServerState, change: Change, moved: int) -> str:
    """The servers that the backend has, and the sessions that are concerned."""
    backend = server.backend
    word = "left" if change.state == STOPPED else "online"
    running_on = " Running on backup." if backend.on_backup else ""
    text = f" {backend.active} active and {backend.backup} backup servers {word}.{running_on}"
    if change.state == STOPPED:
        remaining = 0 if server.limit is None else server.limit.waiting.length
        return (
            f"{text} {server.sessions()} sessions active, {moved} requeued, "
            f"{remaining} remaining in queue."
        )
    waiting = 0 if backend.queue is None else backend.queue.waiting.length
    return f"{text} {moved} sessions requeued, {waiting} total in queue."
