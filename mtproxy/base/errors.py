"""Diagnostics of the configuration and the command line: what is wrong, where, and the word meant.

A `Diagnostic` is one message; `Diagnostics` collects those of a whole load, so that every error
of a file is reported in one run. Parsers of single keywords raise `ConfigError`, which the section
parser turns into a diagnostic with the statement's location. The text form is HAProxy's:
`[ALERT]    (PID) : config : parsing [FILE:LINE] : MESSAGE`, followed by the nearest known word.
Used by the main thread before the others start; nothing here is locked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from mtproxy.base.location import Location
from mtproxy.base.report import line

#: how every message about something that is built later says so, and what it is about
_NOT_YET = re.compile(
    r"((?:section )?'[^']*'(?:, '[^']*')*|log to a [a-z ]+?) (?:: |is )"
    r"known but not supported by mtproxy yet"
)
#: places of one kind that a summary names
_PLACES_SHOWN = 12


class Severity(StrEnum):
    """The four levels, most severe first. An alert makes the configuration unusable."""

    ALERT = "alert"
    WARNING = "warning"
    NOTICE = "notice"
    DIAG = "diag"


class ConfigError(Exception):
    """A statement cannot be used. `word` is the offending word, `suggestion` the nearest known one.

    `column` counts from 1 and points into `source`, the line as written, when both are known.
    `offset` is the place inside `word`, from 0.
    """

    def __init__(
        self,
        message: str,
        *,
        word: str | None = None,
        suggestion: str | None = None,
        column: int | None = None,
        offset: int = 0,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.word = word
        self.suggestion = suggestion
        self.column = column
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message about the configuration."""

    severity: Severity
    message: str
    location: Location | None = None
    word: str | None = None
    suggestion: str | None = None
    #: position in `source` from 1; 0 when unknown
    column: int = 0
    #: the line as written, shown with a caret below `column` (lexical errors)
    source: str | None = None

    def text(self) -> str:
        """The message with its place and suggestion, without severity and process number."""
        place = ""
        if self.location is not None:
            place = f"parsing [{self.location.file}:{self.location.line}] : "
        parts = [f"{place}{self.message}"]
        if self.suggestion is not None:
            parts.append(f"; did you mean '{self.suggestion}'?")
        if self.source is not None and self.column:
            # A long line is shown around the fault only.
            start = max(0, self.column - 60)
            shown = self.source[start : start + 80].replace("\t", " ")
            parts.append(f"\n  {shown}\n  {' ' * (self.column - 1 - start)}^")
        return "".join(parts)

    def render(self, pid: int | None = None) -> str:
        """The lines HAProxy would write to its standard error, without a final line feed."""
        first, *more = self.text().split("\n")
        head = line(self.severity, f"config : {first}", pid)
        indent = "" if self.source is not None else "   | "
        return "\n".join([head, *(f"{indent}{line}" for line in more)])


class Diagnostics:
    """The messages of one load, in the order in which they were found."""

    def __init__(self) -> None:
        self._items: list[Diagnostic] = []

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"<Diagnostics {self.errors} errors, {self.warnings} warnings>"

    def add(self, diagnostic: Diagnostic) -> None:
        self._items.append(diagnostic)

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        self._items.extend(diagnostics)

    def alert(
        self,
        message: str,
        location: Location | None = None,
        *,
        word: str | None = None,
        suggestion: str | None = None,
        column: int = 0,
        source: str | None = None,
    ) -> None:
        self.add(Diagnostic(Severity.ALERT, message, location, word, suggestion, column, source))

    def warning(
        self, message: str, location: Location | None = None, *, word: str | None = None
    ) -> None:
        self.add(Diagnostic(Severity.WARNING, message, location, word))

    def notice(self, message: str, location: Location | None = None) -> None:
        self.add(Diagnostic(Severity.NOTICE, message, location))

    def diag(self, message: str, location: Location | None = None) -> None:
        self.add(Diagnostic(Severity.DIAG, message, location))

    def _count(self, severity: Severity) -> int:
        return sum(1 for item in self._items if item.severity is severity)

    @property
    def errors(self) -> int:
        return self._count(Severity.ALERT)

    @property
    def warnings(self) -> int:
        return self._count(Severity.WARNING)

    def not_yet(self) -> list[str]:
        """What the configuration needs and mtproxy has not, one line for each kind with its places.

        Empty where the messages themselves say as much: when there is only one.
        """
        places: dict[str, dict[str, list[int]]] = {}
        for item in self._items:
            found = _NOT_YET.search(item.message)
            if found is None or item.location is None:
                continue
            for name in found[1].replace("'", "").split(", "):
                files = places.setdefault(name, {})
                files.setdefault(item.location.file, []).append(item.location.line)
        if sum(len(lines) for files in places.values() for lines in files.values()) < 2:
            return []
        several = len({file for files in places.values() for file in files}) > 1
        summary = []
        for name, files in places.items():
            count = sum(map(len, files.values()))
            where = "; ".join(
                (f"{file} " if several else "") + _lines(lines) for file, lines in files.items()
            )
            summary.append(f"not supported yet: {count} x {name} ({where})")
        return summary

    def shown(self, *, diag: bool = False) -> list[Diagnostic]:
        """Those to be printed: `diag` messages only when asked for (`-dD`)."""
        return [item for item in self._items if diag or item.severity is not Severity.DIAG]


def _lines(numbers: list[int]) -> str:
    """`line 3`, `lines 3, 7`, `lines 1, 2, ... and 30 more`."""
    shown = ", ".join(map(str, numbers[:_PLACES_SHOWN]))
    more = len(numbers) - _PLACES_SHOWN
    return f"line{'s' * (len(numbers) > 1)} {shown}" + (f" and {more} more" if more > 0 else "")
