"""Lines on standard error in HAProxy's form: `[ALERT]    (pid) : text`."""

from __future__ import annotations

import os
import sys


def say(severity: str, text: str) -> None:
    """`severity` is NOTICE, WARNING or ALERT."""
    print(  # noqa: T201
        f"[{severity}]{' ' * (9 - len(severity))}({os.getpid()}) : {text}",
        file=sys.stderr,
        flush=True,
    )
