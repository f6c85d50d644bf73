"""Dates of log lines, formatted once per second.

`LineDates` belongs to one thread: no lock. A date with milliseconds is a cached prefix of its
second and one of a thousand endings, so a line pays two look-ups.
"""

from __future__ import annotations

import sys
import time

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

#: seconds remembered; requests of slow clients need the older ones
_KEPT = 64

#: interned, and so nobody counts references to them: all threads share them for nothing
_MILLIS = tuple(sys.intern(f"{n:03d}") for n in range(1000))


class SecondCache(dict[int, str]):
    """Second since the epoch -> text of that second; filled on the first use of a second."""

    def __init__(self, pattern: str, *, utc: bool = False) -> None:
        super().__init__()
        self._pattern = pattern
        self._utc = utc

    def __missing__(self, second: int) -> str:
        if len(self) >= _KEPT:
            self.clear()
        text = self[second] = format_second(self._pattern, second, utc=self._utc)
        return text


def format_second(pattern: str, second: int, *, utc: bool) -> str:
    """`pattern` with {day} {day_padded} {month} {mon} {year} {clock} {offset} {iso_offset} filled
    in.
    """
    tm = time.gmtime(second) if utc else time.localtime(second)
    east = 0 if utc else (tm.tm_gmtoff or 0) // 60
    sign = "-" if east < 0 else "+"
    hours, minutes = divmod(abs(east), 60)
    return pattern.format(
        day=f"{tm.tm_mday:02d}",
        day_padded=f"{tm.tm_mday:2d}",
        month=f"{tm.tm_mon:02d}",
        mon=MONTHS[tm.tm_mon - 1],
        year=f"{tm.tm_year:04d}",
        clock=f"{tm.tm_hour:02d}:{tm.tm_min:02d}:{tm.tm_sec:02d}",
        offset=f"{sign}{hours:02d}{minutes:02d}",
        iso_offset=f"{sign}{hours:02d}:{minutes:02d}",
    )


class LineDates:
    """Every kind of date that a log line can carry, for one thread."""

    __slots__ = ("clf", "gmt", "local", "millis")

    def __init__(self) -> None:
        #: "06/Feb/2009:12:12:51." to be followed by an entry of `millis` (%t, %tr)
        self.clf = SecondCache("{day}/{mon}/{year}:{clock}.")
        #: "06/Feb/2009:12:12:51 +0000" (%T, %trg)
        self.gmt = SecondCache("{day}/{mon}/{year}:{clock} {offset}", utc=True)
        #: the same in local time (%Tl, %trl)
        self.local = SecondCache("{day}/{mon}/{year}:{clock} {offset}")
        self.millis = list(_MILLIS)
