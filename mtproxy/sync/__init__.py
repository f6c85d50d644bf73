"""Everything that threads share safely: labelled locks, atomic cells, counters, inboxes.

Each lock carries a `LockLabel`, and each operation is passed the caller's thread number `tid`
(0 .. nbthread-1 for the pool, nbthread for helper threads), which selects the statistics slot.
See docs/locking.md for the order of the labels and the SeekLock's compatibility matrix.
"""
