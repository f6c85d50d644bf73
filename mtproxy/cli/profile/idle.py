"""Which threads wait for work, told from their stacks. Pure.

The proxy names the lines at which its loop waits (`profile status`); other threads wait in the
standard library. What py-spy takes for busy because the kernel was just about to let it run is
found here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

#: a frame as a sampler tells it: file, line, name
type RawFrame = tuple[str, int, str]

#: a thread whose innermost frame is one of these waits for others
_WAITING = (
    ("/threading.py", frozenset({"wait", "join", "_wait_for_tstate_lock"})),
    ("/selectors.py", frozenset({"select"})),
    ("/queue.py", frozenset({"get"})),
    ("/socket.py", frozenset({"accept"})),
    # it waits in C, called by this function, which does nothing else itself
    ("/sched/watchdog.py", frozenset({"_run"})),
)


class IdleRule:
    """`lines`: where the loop polls so that it may wait. `pollers`: files of pollers in Python,
    whose frames stand above those lines.
    """

    def __init__(self, lines: Iterable[tuple[str, int]] = (), pollers: Iterable[str] = ()) -> None:
        self._lines = frozenset(lines)
        self._pollers = frozenset(pollers)

    def __call__(self, frames: Sequence[RawFrame]) -> bool:
        """Whether a thread with these frames, the innermost first, is idle."""
        if not frames:
            return True
        at = 0
        while at < len(frames) - 1 and frames[at][0] in self._pollers:
            at += 1
        if frames[at][:2] in self._lines:
            return True
        file, _, name = frames[0]
        bare = name.rpartition(".")[2]
        return any(file.endswith(end) and bare in names for end, names in _WAITING)
