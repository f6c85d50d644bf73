"""How many sessions there are over all threads, and how many there have been at most."""

from __future__ import annotations

from mtproxy.proxy.counters import ServerCounters
from mtproxy.proxy.load import Load


def test_own_sessions_are_exact_and_others_a_tick_old() -> None:
    mine, other = ServerCounters(), ServerCounters()
    load = Load(mine, [mine, other])
    mine.conn_cur, other.conn_cur = 2, 3
    assert load.total(10) == 5
    mine.conn_cur, other.conn_cur = 4, 9
    assert load.total(10) == 7
    assert load.total(11) == 13


def test_a_peak_is_looked_at_twice() -> None:
    """One session that moves from thread to thread within a tick never is two."""
    mine, other = ServerCounters(), ServerCounters()
    load = Load(mine, [mine, other])
    other.conn_cur = 1
    load.look(10)
    mine.conn_cur, other.conn_cur = 1, 0
    assert load.total(10) == 2
    load.note_peak(mine, 10)
    assert mine.conn_max == 1
    other.conn_cur = 4
    load.note_peak(mine, 10)
    assert mine.conn_max == 5
    other.conn_cur = 0
    load.note_peak(mine, 10)
    assert mine.conn_max == 5
