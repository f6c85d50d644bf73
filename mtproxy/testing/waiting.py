"""Waiting for a condition with a deadline: the only way tests wait.

`PATIENCE` is the bound of every wait. A shared machine stops a process for seconds now and then, so
how long something took says nothing; only what hangs fails. A test that is about time compares: at
least its timeout, and not that of its neighbours, which is far longer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

#: seconds that only a hang takes
PATIENCE = 60.0


def wait_until[T](probe: Callable[[], T | None], what: str, seconds: float = PATIENCE) -> T:
    """Calls `probe` until it returns something true, and returns that.

    Raises TimeoutError naming `what` after `seconds`. The pause between two probes grows from 1 to
    20 ms, so that a condition that is met at once costs nothing.
    """
    deadline = time.monotonic() + seconds
    pause = 0.001
    idle = threading.Event()
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() >= deadline:
            raise TimeoutError(f"{what}: not within {seconds:g} s (last: {found!r})")
        idle.wait(pause)
        pause = min(pause * 1.5, 0.02)
