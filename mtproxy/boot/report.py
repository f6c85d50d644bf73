"""Lines on standard error in HAProxy's form: `[ALERT]    (pid) : text`."""

from __future__ import annotations

import os

from mtproxy.base.stderr import write_error


def say(severity: str, text: str) -> None:
    """`severity` is NOTICE, WARNING or ALERT. Never blocks, see base.stderr."""
    write_error(f"[{severity}]{' ' * (9 - len(severity))}({os.getpid()}) : {text}\n")
