"""The names of all locks of the program, in the order in which a thread may take them.

A thread that holds a lock may only take locks whose label stands *later* in `LockLabel`; two
locks of one label are never held together. `mtproxy.sync.debug` checks both. Names are HAProxy's
where it has a lock for the same purpose. A label stays here only while some lock carries it
(tests/unit/sync/test_labels.py sees to that).

Immutable after import; any thread may read it.
"""

from __future__ import annotations

from enum import Enum


class LockLabel(Enum):
    """What a lock protects. The value is the label's rank in the lock order, from 0."""

    SERVER = 0  # a server's administrative and health state
    LBPRM = 1  # a backend's set of usable servers
    QUEUE = 2  # the slots and queues of a backend and its servers
    TASK_WQ = 3  # the global wait queue
    LISTENER = 4  # how many connections a listener, a frontend or the process has
    PATREF = 5  # the entries of a list of patterns: an ACL line's, a file's, a map's
    STK_TABLE = 6  # a shard of a stick table: its entries and all that is stored of them
    STK_COUNT = 7  # how many entries a stick table has
    LOGSRV = 8  # one sampled log line's position, with `tune.log-sampling lock`
    RING = 9  # a ring's messages
    CELL = 10  # the value of a cell (mtproxy.sync.cells)
    OTHER = 11  # not worth a name of its own


#: labels in rank order: `LABELS[label.value] is label`
LABELS: tuple[LockLabel, ...] = tuple(LockLabel)
