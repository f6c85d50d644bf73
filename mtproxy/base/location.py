"""Where a statement of the configuration stands. Immutable."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Location:
    """A file and a line, which counts from 1."""

    file: str
    line: int
