"""`option contstats`: bytes are counted while a session goes on (manual 4.2).

Without the option they are counted when a transaction ends. The thread's housekeeping calls
`count_ongoing`; what it has counted is kept in the stream and left out at the end. Owner thread
only: counters are those of its own side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mtproxy.sched.context import ThreadContext

#: how often, in ms; HAProxy's
PERIOD = 5000


def count_ongoing(ctx: ThreadContext) -> None:
    """Count what this thread's sessions have moved since the last time, of frontends that ask for
    it. To be called about once a second; does its work once in `PERIOD`.
    """
    room = ctx.room
    if ctx.now < room.count_tick:
        return
    room.count_tick = ctx.now + PERIOD
    for front in room.fronts.values():
        if front.conf.contstats:
            for stream in front.streams:
                # one that has a backend is in the middle of a transaction
                if stream.be is not None:
                    stream.count_so_far()
