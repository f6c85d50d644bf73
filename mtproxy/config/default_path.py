"""`default-path`: from which directory relative names of files count (manual 3.1).

As in HAProxy this is a temporary change of the process's directory while a configuration file is
read, undone behind each file. Main thread, while nothing else runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

MODES = ("current", "config", "parent", "origin")


@dataclass(slots=True)
class DefaultPath:
    """The policy in force, and the directory that the program was started in."""

    mode: str = "current"
    origin: str = ""
    start: str = field(default_factory=os.getcwd)

    def apply(self, file: str) -> None:
        """Go where relative names count from while `file` is read. Raises OSError."""
        os.chdir(self.start)
        folder, slash, _ = file.rpartition("/")
        here = (folder or "/") if slash else "."
        match self.mode:
            case "config":
                os.chdir(here)
            case "parent":
                os.chdir(os.path.join(here, ".."))
            case "origin":
                os.chdir(self.origin)

    @contextmanager
    def reading(self, file: str) -> Iterator[None]:
        """Around the reading of a file. Raises OSError where the directory is not there."""
        self.apply(file)
        try:
            yield
        finally:
            os.chdir(self.start)
