"""Activity counters of one thread: what its loop did. Written by the owner, read by anybody.

`show activity` prints them; they explain where a loop's time goes (HAProxy manual, management
guide, "show activity").
"""

from __future__ import annotations

FIELDS = (
    "loops",  # turns of the loop
    "wake_tasks",  # polls that did not wait because tasklets were queued
    "wake_signal",  # polls cut short by another thread
    "poll_io",  # descriptors reported ready
    "poll_drop_fd",  # of these, whose owner was gone already
    "poll_exp",  # timers that fired
    "ctxsw",  # tasklets run
    "urgent",  # of these, urgent ones
    "bulk",  # of these, bulk ones
    "tasksw",  # shared tasks run
    "inbox",  # messages taken from other threads
    "accepted",  # connections accepted here
    "accq_pushed",  # of these, handed to another thread
    "empty_rq",  # turns without a tasklet to run
    "long_rq",  # turns with more tasklets than the depth
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
    poll_drop_fd: int
    poll_exp: int
    ctxsw: int
    urgent: int
    bulk: int
    tasksw: int
    inbox: int
    accepted: int
    accq_pushed: int
    empty_rq: int
    long_rq: int
    errors: int
