"""Writing to standard error from a process that must never stop or fail for want of a reader.

Whoever started us may have closed standard error, may have gone (a broken pipe), or may not read
(a full pipe, a stopped terminal). The first two must not raise into a worker's loop; the last must
not hold it up: a text that cannot be taken is dropped, and so are the following ones until there
is room again. Any thread may call; the one shared flag is a hint, a race on it costs one wait.
"""

from __future__ import annotations

import os
import select
import sys
from typing import TextIO

#: how long the first text that finds no room waits for a reader, ms
PATIENCE_MS = 50
#: a pipe that polls as writable takes this much without blocking (POSIX: PIPE_BUF)
_PIECE = 4096


class _State:
    """`stalled`: the last text found no room."""

    stalled = False


def write_error(text: str) -> None:
    """Write `text` (whole lines, newlines included) to standard error, or drop it. Never raises
    OSError.
    """
    stream = sys.stderr
    if stream is None:
        return
    try:
        fd = stream.fileno()
    except (OSError, ValueError):  # not a file (tests), or closed
        _write_stream(stream, text)
        return
    data = text.encode("utf-8", "backslashreplace")
    poller = select.poll()
    poller.register(fd, select.POLLOUT)
    try:
        stream.flush()
        while data:
            if not poller.poll(0 if _State.stalled else PATIENCE_MS):
                _State.stalled = True
                return
            data = data[os.write(fd, data[:_PIECE]) :]
        _State.stalled = False
    except (OSError, ValueError):
        return


def _write_stream(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except (OSError, ValueError):
        return


def open_standard_streams() -> None:
    """Make sure that descriptors 0, 1 and 2 are open, before any other is opened.

    Otherwise a socket would get one of these numbers, and be written to as standard output.
    Called once, first of all, on the main thread.
    """
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(fd)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != fd:
                os.dup2(opened, fd)
                os.close(opened)
            os.set_inheritable(fd, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(fd, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
