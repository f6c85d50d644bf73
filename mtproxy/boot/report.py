"""Messages of start, stop and servers on standard error, which `quiet` and -q turn off.

What is unexpected (base.report) is said nevertheless. Any thread may call `tell`.
"""

from __future__ import annotations

from mtproxy.base.report import say

_quiet = False


def silence() -> None:
    """Tell nothing from now on. Main thread, before the others start."""
    global _quiet
    _quiet = True


def tell(severity: str, text: str) -> None:
    """Write a message, see `base.report.say`, unless told to be silent."""
    if not _quiet:
        say(severity, text)
