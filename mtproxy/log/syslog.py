"""Syslog: facilities, levels, and the head that each `format` puts before a line.

A `HeadWriter` belongs to one thread. `refresh()` rebuilds its strings at most once per second;
formats that carry microseconds build theirs for each message. Formats: HAProxy configuration
manual, `log`; RFC 3164, RFC 5424.
"""

from __future__ import annotations

from time import time

from mtproxy.rules.logformat.dates import SecondCache

LEVELS = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
FACILITIES = (
    "kern",
    "user",
    "mail",
    "daemon",
    "auth",
    "syslog",
    "lpr",
    "news",
    "uucp",
    "cron",
    "auth2",
    "ftp",
    "ntp",
    "audit",
    "alert",
    "cron2",
    "local0",
    "local1",
    "local2",
    "local3",
    "local4",
    "local5",
    "local6",
    "local7",
)
FORMATS = ("local", "rfc3164", "rfc5424", "priority", "short", "timed", "iso", "raw")

EMERG, ALERT, CRIT, ERR, WARNING, NOTICE, INFO, DEBUG = range(8)

#: formats whose head says microseconds: nothing to keep for a second
PRECISE = frozenset({"rfc5424", "timed", "iso"})


def level_number(name: str) -> int:
    """0 (emerg) to 7 (debug). Raises ValueError with the known names."""
    try:
        return LEVELS.index(name)
    except ValueError:
        raise ValueError(f"unknown log level '{name}': {', '.join(LEVELS)}") from None


def facility_number(name: str) -> int:
    """0 (kern) to 23 (local7). Raises ValueError with the known names."""
    try:
        return FACILITIES.index(name)
    except ValueError:
        raise ValueError(f"unknown log facility '{name}': {', '.join(FACILITIES)}") from None


class HeadWriter:
    """Writes the head of every message of one sender with one format, facility and tag."""

    __slots__ = ("_after", "_dates", "_facility", "_format", "precise", "structured")

    def __init__(self, log_format: str, facility: int, tag: str, pid: int, hostname: str) -> None:
        self._format = log_format
        self._facility = facility
        self.precise = log_format in PRECISE
        self.structured = log_format == "rfc5424"
        match log_format:
            case "local":
                pattern, self._after = "{mon} {day_padded} {clock} ", f"{tag}[{pid}]: "
            case "rfc3164":
                pattern = "{mon} {day_padded} {clock} "
                self._after = f"{hostname or 'localhost'} {tag}[{pid}]: "
            case "rfc5424":
                # the fraction stands between clock and offset: the newline is replaced by it
                pattern = "1 {year}-{month}-{day}T{clock}\n{iso_offset} "
                self._after = f"{hostname or '-'} {tag} {pid} - - "
            case "timed" | "iso":
                pattern, self._after = "{year}-{month}-{day}T{clock}\n{iso_offset} ", ""
            case _:
                pattern, self._after = "", ""
        self._dates = SecondCache(pattern)

    def head(self, level: int, now: float) -> str:
        """The head of a message of `level` sent at `now` (seconds since the epoch)."""
        second = int(now)
        date = self._dates[second]
        if self.precise:
            date = date.replace("\n", f".{int((now - second) * 1e6):06d}")
        match self._format:
            case "raw" | "iso":
                priority = ""
            case "short" | "timed":
                priority = f"<{level}>"
            case _:
                priority = f"<{self._facility * 8 + level}>"
        return f"{priority}{date}{self._after}"

    def head_now(self, level: int) -> str:
        return self.head(level, time())
