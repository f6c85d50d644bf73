"""Lines on standard error in HAProxy's form: `[ALERT]    (pid) : text`. Any thread."""

from __future__ import annotations

import os
import sys

_quiet = False


def silence() -> None:
    """Say nothing any more (`quiet`, -q). Main thread, before the others start."""
    global _quiet
    _quiet = True


def say(severity: str, text: str) -> None:
    """`severity` is NOTICE, WARNING or ALERT."""
    if _quiet:
        return
    print(  # noqa: T201
        f"[{severity}]{' ' * (9 - len(severity))}({os.getpid()}) : {text}",
        file=sys.stderr,
        flush=True,
    )
