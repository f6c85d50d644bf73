"""Waiting for a condition with a deadline: the only way tests wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def wait_until[T](probe: Callable[[], T | None], what: str, seconds: float = 5.0) -> T:
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
