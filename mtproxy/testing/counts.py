"""Lock statistics made zero, for tests that count from the beginning.

`stats.reset` keeps the difference of locks that are held; tests abandon locks in all states.
Call only while no other thread uses locks.
"""

from __future__ import annotations

from mtproxy.sync import stats
from mtproxy.sync.labels import LockLabel


def zero_counts(label: LockLabel, nbthread: int = 1) -> None:
    """Forget everything counted for `label`, and have slots for tids 0 .. nbthread."""
    stats.configure(nbthread)
    for slot in stats.slots_of(label):
        slot[:] = [0] * stats.SLOT_SIZE
    stats.reset(label)
