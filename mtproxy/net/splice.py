"""Moving bytes from socket to socket inside the kernel: splice(2) through a pipe.

A direction that turned out to be bulk takes a pipe from its thread's pool and moves data through it
without copying it into the process. A pipe goes back to the pool only when it is empty. Owner
thread only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from mtproxy.sched.context import DEFAULT_PIPE_SIZE

if TYPE_CHECKING:
    from mtproxy.sched.context import ThreadContext

_FLAGS = os.SPLICE_F_NONBLOCK | os.SPLICE_F_MOVE
MAX_IDLE_PIPES = 64


class Pipe:
    """A pipe and how many bytes it holds now."""

    __slots__ = ("level", "rd", "size", "wr")

    def __init__(self, size: int = DEFAULT_PIPE_SIZE) -> None:
        """`size` is what it is asked to hold, bytes; an unprivileged process may get less."""
        self.rd, self.wr = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.level = 0
        with contextlib.suppress(OSError):  # over the user's pipe budget: a small one works too
            fcntl.fcntl(self.wr, fcntl.F_SETPIPE_SZ, size)
        self.size = fcntl.fcntl(self.wr, fcntl.F_GETPIPE_SZ)

    def fill(self, fd: int, most: int) -> int:
        """Take up to `most` bytes from `fd`. 0: the peer has ended. Raises BlockingIOError,
        which means "nothing there" only while the pipe is not full.
        """
        n = os.splice(fd, self.wr, most, flags=_FLAGS)
        self.level += n
        return n

    def drain(self, fd: int) -> int:
        """Give what the pipe holds to `fd`; returns how much went. Raises BlockingIOError."""
        n = os.splice(self.rd, fd, self.level, flags=_FLAGS)
        self.level -= n
        return n

    def close(self) -> None:
        os.close(self.rd)
        os.close(self.wr)


def take_pipe(ctx: ThreadContext) -> Pipe | None:
    """An empty pipe, or None when splice() is turned off, at the limit, or without descriptors:
    then the caller copies instead.
    """
    if not ctx.pipe_size:
        return None
    if ctx.pipes:
        pipe: Pipe = ctx.pipes.pop()
        return pipe
    if ctx.pipes_left <= 0:
        return None
    try:
        pipe = Pipe(ctx.pipe_size)
    except OSError:
        return None
    ctx.pipes_left -= 1
    return pipe


def close_idle_pipes(ctx: ThreadContext) -> bool:
    """Give back the descriptors of all pipes that are not in use; whether there were any."""
    found = bool(ctx.pipes)
    while ctx.pipes:
        ctx.pipes.pop().close()
        ctx.pipes_left += 1
    return found


def give_pipe(ctx: ThreadContext, pipe: Pipe) -> None:
    """Return a pipe. One that still holds bytes is closed: they belong to a dead connection."""
    if pipe.level == 0 and len(ctx.pipes) < MAX_IDLE_PIPES:
        ctx.pipes.append(pipe)
    else:
        pipe.close()
        ctx.pipes_left += 1
