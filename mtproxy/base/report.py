"""Lines on standard error in HAProxy's form: `[ALERT]    (pid) : text`.

Any thread may call `say`; a message leaves in one write, so that those of several threads do not
mix within a line.
"""

from __future__ import annotations

import contextlib
import os
from typing import TextIO

from mtproxy.base.stderr import write_error

#: what has been said since the start, until `end_of_start`; None from then on
_startup: list[str] | None = []

#: width of "[ALERT]" and its padding, so that the process numbers stand below each other
_LABEL_WIDTH = 11


def line(severity: str, text: str, pid: int | None = None) -> str:
    """The message without a final line feed. `severity`: alert, warning, notice or diag."""
    label = f"[{severity.upper()}]".ljust(_LABEL_WIDTH)
    return f"{label}({os.getpid() if pid is None else pid}) : {text}"


def say(severity: str, text: str, stream: TextIO | None = None) -> None:
    """Write the message to `stream`, or to standard error without ever blocking.

    A reader that has gone, or a full disk, is no reason to end what was being reported: the
    message is lost then.
    """
    message = line(severity, text) + "\n"
    note_startup(message)
    if stream is None:
        write_error(message)
        return
    with contextlib.suppress(OSError):
        stream.write(message)
        stream.flush()


def note_startup(message: str) -> None:
    """Keep a message of the start, its line feed included, for `show startup-logs`."""
    if _startup is not None:
        _startup.append(message)


def end_of_start() -> list[str]:
    """The messages of the start, for `show startup-logs`; later ones are not kept. Main thread."""
    global _startup
    said, _startup = _startup, None
    return said or []
