"""Locks without statistics: what `show locks` costs is measured against them (perf/locks.py).

`strip` compiles the sources of `Lock` and `SeekLock` once more with every trace of the statistics
taken out (`sync.stripper`), and puts the result into the two classes. There is one source, so the
two cannot drift apart. What is taken out:

- counting: `slot[...] += 1` and the look-up of the slot;
- timing: the clock, `record_wait`, and the attempt that does not block before the one that does,
  which is there only to know whether a wait has to be timed.

Main thread, before other threads start and before -dL or profiling touch the classes. Cannot be
undone but by `restore`, which is for tests and benchmarks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mtproxy.sync.locks import Lock
from mtproxy.sync.seeklock import SeekLock

_originals: dict[tuple[type[Lock | SeekLock], str], Callable[..., Any]] = {}


def strip() -> None:
    """Build the two lock classes without statistics from now on."""
    if _originals:
        return
    from mtproxy.sync.stripper import stripped  # costs a start 20 ms

    for cls in (Lock, SeekLock):
        for name, method in stripped(cls).items():
            _originals[cls, name] = getattr(cls, name)
            setattr(cls, name, method)


def restore() -> None:
    """Put the statistics back; for tests and benchmarks. No lock may be held."""
    for (cls, name), method in _originals.items():
        setattr(cls, name, method)
    _originals.clear()


def is_stripped() -> bool:
    """Whether locks count nothing."""
    return bool(_originals)
