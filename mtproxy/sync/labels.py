"""The names of all locks of the program, in the order in which a thread may take them.

A thread that holds a lock may only take locks whose label stands *later* in `LockLabel`; two
locks of one label are never held together. `mtproxy.sync.debug` checks both. Names are HAProxy's
where it has a lock for the same purpose. A label stays here only while some lock carries it.

Immutable after import; any thread may read it.
"""

from __future__ import annotations

from enum import Enum


class LockLabel(Enum):
    """What a lock protects. The value is the label's rank in the lock order, from 0."""

    SIGNALS = 0  # installed signal handlers and pending signal counts
    LISTENER = 1  # a listener's state (ready, full, paused)
    PROXY = 2  # a proxy's state (enabled, stopping, stopped)
    SERVER = 3  # a server's administrative and health state
    LBPRM = 4  # a backend's set of usable servers
    TASK_WQ = 5  # the global wait queue
    LOGSRV = 6  # the sampling index of a log server
    RING = 7  # an in-memory ring of messages
    OTHER = 8  # anything too small to deserve a name


#: labels in rank order: `LABELS[label.value] is label`
LABELS: tuple[LockLabel, ...] = tuple(LockLabel)
