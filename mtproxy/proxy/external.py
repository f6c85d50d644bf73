"""External checks: a command of the operator's says how a server is (manual 4.2, `external-check`).

A run is a coroutine on the thread that collected the check. The child is started by posix_spawn(),
watched by its pidfd in the thread's poller, and reaped without blocking anybody. One that takes too
long gets SIGTERM, the check has failed then; if it goes on all the same, SIGKILL.
"""

from __future__ import annotations

import errno
import os
import select
import shutil
import signal
from typing import TYPE_CHECKING

from mtproxy.base.addresses import Address, AddressKind
from mtproxy.proxy.checks.outcome import Outcome
from mtproxy.proxy.checkstatus import CheckStatus
from mtproxy.sched.tasklet import park

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtproxy.base.server_settings import ExternalSettings
    from mtproxy.proxy.server import ServerState
    from mtproxy.sched.context import ThreadContext
    from mtproxy.sched.tasklet import Task

#: ms between SIGTERM and SIGKILL
PATIENCE = 2000
#: there could be no process at all
_NO_PROCESS = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
#: what a shell says of a command that cannot be run, as HAProxy does
_NO_COMMAND = 255
NOT_USED = "NOT_USED"
_ANY = {"": "0.0.0.0", "*": "0.0.0.0"}
#: signals that this process ignores or handles, and no child shall
_DEFAULTS = (signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


class _Child:
    """A process, as the poller sees it. Owner thread only."""

    __slots__ = ("ctx", "fd", "pid", "ready", "tasklet")

    def __init__(self, ctx: ThreadContext, pid: int, task: Task) -> None:
        self.ctx = ctx
        self.pid = pid
        self.ready = 0
        self.tasklet = task
        self.fd = os.pidfd_open(pid)
        ctx.epoll.register(self.fd, select.EPOLLIN)
        ctx.fdtab[self.fd] = self  # type: ignore[assignment]

    def close(self) -> None:
        del self.ctx.fdtab[self.fd]
        os.close(self.fd)


def place_of(address: Address | None) -> tuple[str, str]:
    """Address and port as the command is told them."""
    if address is None or address.kind not in (
        AddressKind.IPV4,
        AddressKind.IPV6,
        AddressKind.UNIX,
    ):
        return NOT_USED, NOT_USED
    if address.kind is AddressKind.UNIX:
        return address.host, NOT_USED
    return _ANY.get(address.host, address.host), str(address.port)


def listener_of(binds: tuple[Address, ...]) -> Address | None:
    """The first listener whose address can be told."""
    return next((one for one in binds if place_of(one) != (NOT_USED, NOT_USED)), None)


def call_of(server: ServerState, external: ExternalSettings) -> tuple[list[str], dict[str, str]]:
    """Arguments and environment of one call (manual 4.2, `external-check command`)."""
    proxy = server.backend.settings
    front = place_of(listener_of(tuple(bind.address for bind in proxy.binds)))
    back = place_of(server.address)
    environ = dict(os.environ) if external.preserve_env else {}
    environ |= {
        "PATH": external.path,
        "HAPROXY_PROXY_NAME": proxy.name,
        "HAPROXY_PROXY_ID": str(proxy.id),
        "HAPROXY_PROXY_ADDR": front[0],
        "HAPROXY_PROXY_PORT": front[1],
        "HAPROXY_SERVER_NAME": server.name,
        "HAPROXY_SERVER_ID": str(server.id),
        "HAPROXY_SERVER_ADDR": back[0],
        "HAPROXY_SERVER_PORT": back[1],
        "HAPROXY_SERVER_MAXCONN": str(server.settings.maxconn),
        "HAPROXY_SERVER_CURCONN": str(server.sessions()),
        "HAPROXY_SERVER_SSL": "0",
        "HAPROXY_SERVER_PROTO": "h1" if proxy.mode == "http" else "tcp",
    }
    return [external.command, *front, *back], environ


def _spawn(program: str, arguments: list[str], environ: dict[str, str]) -> int:
    """Start it; a script without its first line is the shell's, as with execvp(3). OSError."""
    try:
        return os.posix_spawn(program, arguments, environ, setsigmask=(), setsigdef=_DEFAULTS)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
    shell = ["/bin/sh", program, *arguments[1:]]
    return os.posix_spawn(shell[0], shell, environ, setsigmask=(), setsigdef=_DEFAULTS)


async def run_command(
    ctx: ThreadContext,
    task: Task,
    server: ServerState,
    timeout: int,
    report: Callable[[Outcome], None],
) -> None:
    """Run the command once; `report` is called once, within about `timeout` ms."""
    external = server.backend.settings.external_check
    assert external is not None
    arguments, environ = call_of(server, external)
    program = shutil.which(external.command, path=external.path)
    if program is None:
        report(Outcome(CheckStatus.PROCERR, "", _NO_COMMAND))
        return
    try:
        pid = _spawn(program, arguments, environ)
    except OSError as error:
        if error.errno in _NO_PROCESS:
            report(Outcome(CheckStatus.SOCKERR, error.strerror or str(error)))
        else:
            # it is there, but nothing that can be run
            report(Outcome(CheckStatus.PROCERR, "", _NO_COMMAND))
        return
    try:
        child = _Child(ctx, pid, task)
    except OSError as error:
        # no descriptor to watch it with
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        report(Outcome(CheckStatus.SOCKERR, error.strerror or str(error)))
        return
    try:
        await _watch(ctx, task, child, ctx.now + timeout, report)
    finally:
        child.close()


async def _watch(
    ctx: ThreadContext,
    task: Task,
    child: _Child,
    deadline: int,
    report: Callable[[Outcome], None],
) -> None:
    """Until the child has gone and is reaped."""
    late = False
    how = signal.SIGTERM
    task.set_expire(deadline)
    while True:
        ended, status = os.waitpid(child.pid, os.WNOHANG)
        if ended:
            break
        if ctx.now >= task.expire:
            os.kill(child.pid, how)
            how = signal.SIGKILL
            task.set_expire(ctx.now + PATIENCE)
            if not late:
                late = True
                report(Outcome(CheckStatus.PROCTOUT))
        await park()
    if not late:
        code = os.waitstatus_to_exitcode(status)
        good = CheckStatus.PROCERR if code else CheckStatus.PROCOK
        report(Outcome(good, "", max(code, -1)))
