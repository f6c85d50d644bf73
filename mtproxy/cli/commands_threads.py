"""Runtime commands that look into the threads: threads, fd. Exports COMMANDS.

They read other threads' contexts while those run: lengths and counters are single loads, containers
are copied by one call that CPython makes atomic; what is shown may be gone by then.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mtproxy.cli.runtime import CliError, CliSession, Command, Level
from mtproxy.net.connection import ERR, HUP, IN, OUT, RDHUP, Connection
from mtproxy.net.listener import Acceptor

if TYPE_CHECKING:
    from mtproxy.sched.context import FdOwner, ThreadContext


def _show_threads(cli: CliSession, _args: list[str]) -> Iterator[str]:
    for ctx in cli.runtime.pool.contexts:
        yield _thread_text(cli, ctx)


def _thread_text(cli: CliSession, ctx: ThreadContext) -> str:
    """One thread; `*` marks the one that answers."""
    queued = len(ctx.urgent) + len(ctx.normal) + len(ctx.bulk)
    running = ctx.running
    mark = "*" if ctx is cli.ctx else " "
    state = "sleeping" if ctx.shared.sleeping else "running"
    lines = [
        (
            f"{mark} Thread {ctx.tid + 1} : {state} act={int(queued > 0 or running is not None)} "
            f"rq={queued} (urgent={len(ctx.urgent)} normal={len(ctx.normal)} "
            f"bulk={len(ctx.bulk)}) inbox={len(ctx.shared.inbox)}\n"
        ),
        (
            f"      conns={ctx.shared.conns} tasks={len(ctx.tasklets)} fds={len(ctx.fdtab)} "
            f"loops={ctx.activity.loops} cpu_ns={ctx.cpu_ns}\n"
        ),
    ]
    if running is None:
        lines.append("      curr_task=0\n")
    else:
        lines.append(f"      curr_task={id(running):#x} ({running.name}) calls={running.calls}\n")
    return "".join(lines)


def _show_fd(cli: CliSession, args: list[str]) -> Iterator[str]:
    if args and not (args[0].isascii() and args[0].isdigit() and len(args[0]) < 10):
        raise CliError("Expected: show fd [<number>]")
    wanted = int(args[0]) if args else None
    # A listener stands in every thread's table: one line, with the mask of its threads.
    seen: dict[int, tuple[FdOwner, int]] = {}
    for ctx in cli.runtime.pool.contexts:
        for fd, owner in list(ctx.fdtab.items()):
            if wanted is None or fd == wanted:
                mask = seen[fd][1] if fd in seen else 0
                seen[fd] = (owner, mask | 1 << ctx.tid)
    for fd in sorted(seen):
        yield _fd_text(fd, *seen[fd])


_READY_LETTERS = ((IN, "r"), (OUT, "w"), (RDHUP, "d"), (HUP, "h"), (ERR, "e"))


def _fd_text(fd: int, owner: FdOwner, mask: int) -> str:
    """`fd : ...`; capital letters in `ready` are the bits that are set."""
    ready = owner.ready
    letters = "".join(letter.upper() if ready & bit else letter for bit, letter in _READY_LETTERS)
    tasklet = owner.tasklet
    kind = type(owner).__name__.lower().lstrip("_")
    text = (
        f"{fd:7d} : ready={letters} tmask={mask:#x} owner={id(owner):#x}({kind}) "
        f"task={tasklet.name} calls={tasklet.calls}"
    )
    if isinstance(owner, Connection | Acceptor):
        text += _addresses(owner.sock, peer=isinstance(owner, Connection))
    return text + "\n"


def _addresses(sock: socket.socket, *, peer: bool) -> str:
    family = {socket.AF_INET: "ipv4", socket.AF_INET6: "ipv6"}.get(sock.family, "unix")
    text = f" fam={family}"
    if family == "unix":
        return text
    try:
        text += f" lport={sock.getsockname()[1]}"
        if peer:
            text += f" rport={sock.getpeername()[1]}"
    except OSError:
        text += " (closed)"
    return text


COMMANDS: tuple[Command, ...] = (
    Command(
        ("show", "threads"),
        "show threads",
        "what each thread is doing",
        Level.USER,
        _show_threads,
    ),
    Command(
        ("show", "fd"), "show fd [num]", "descriptors that are watched", Level.OPERATOR, _show_fd
    ),
)
