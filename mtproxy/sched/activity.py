"""Activity counters of one thread: what its loop did. Written by the owner, read by anybody.

`show activity` prints them; they explain where a loop's time goes (HAProxy manual, management
guide, "show activity").
"""

from __future__ import annotations

FIELDS = (
    "loops",  # turns of the loop
    "wake_tasks",  # polls that did not wait because work was left
    "wake_signal",  # polls cut short by another thread
    "poll_io",  # descriptors reported ready
    "poll_exp",  # timers that fired
    "ctxsw",  # tasklets run
    "tasksw",  # shared tasks run
    "inbox",  # messages taken from other threads
    "accepted",  # connections accepted here
    "long_rq",  # turns that left tasklets for the next turn
    "errors",  # tasklets that ended with an unexpected exception
)


class Activity:
    """The counters named in FIELDS, all of them totals since the start."""

    __slots__ = FIELDS

    def __init__(self) -> None:
        for name in FIELDS:
            setattr(self, name, 0)

    def snapshot(self) -> dict[str, int]:
        """The counters by name, at this moment."""
        return {name: getattr(self, name) for name in FIELDS}

    loops: int
    wake_tasks: int
    wake_signal: int
    poll_io: int
    poll_exp: int
    ctxsw: int
    tasksw: int
    inbox: int
    accepted: int
    long_rq: int
    errors: int
