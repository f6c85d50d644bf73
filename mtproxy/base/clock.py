"""Ticks: integer milliseconds of the monotonic clock.

A thread reads the clock once per turn of its loop and keeps it in `ThreadContext.now`; everything
that measures or expires on the data path uses that value. `NEVER` is a tick that no clock reaches,
so that "is it due?" is one comparison without a test for None.
"""

from __future__ import annotations

import time

#: later than every tick
NEVER = 1 << 62


def monotonic_ms() -> int:
    """The current tick, in milliseconds."""
    return time.monotonic_ns() // 1_000_000


def wall_offset_ms() -> int:
    """What to add to a tick to get milliseconds since the epoch. Changes when the date is set."""
    return time.time_ns() // 1_000_000 - time.monotonic_ns() // 1_000_000
