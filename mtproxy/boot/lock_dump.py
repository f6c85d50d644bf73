"""SIGQUIT: the statistics of all locks to standard error, as `show locks` prints them.

A thread of its own does the writing and ends, so that no traffic waits for a slow reader; it is
started from the handler itself and needs no lock, so the dump also comes when all threads hang.
Each block leaves in one write of less than a pipe takes at once, or not at all: none is torn.
A signal that comes while a dump is under way asks for nothing more.
"""

from __future__ import annotations

import os
import types
from _thread import start_new_thread

from mtproxy.base.report import say
from mtproxy.base.stderr import write_error
from mtproxy.sync import reports


class _State:
    """`busy`: a dump is under way. Set on the main thread, cleared by the dump at its end."""

    busy = False


def on_signal(_signum: int, _frame: types.FrameType | None) -> None:
    """The signal handler. Main thread."""
    if not _State.busy:
        _State.busy = True
        try:
            start_new_thread(_dump, ())
        except RuntimeError as error:  # no more threads can be had
            _State.busy = False
            say("warning", f"no lock statistics: {error}")


def _dump() -> None:
    try:
        say("notice", f"lock statistics of process {os.getpid()}:")
        for block in reports.blocks():
            write_error(block)
        if held := reports.held_text():
            write_error(held)
    finally:
        _State.busy = False
