"""What a sampler found: stacks by thread and time. Pure data, no I/O."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class Frame(NamedTuple):
    """One function on a stack. `line` is where it is defined, or where it was, 0 if unknown."""

    name: str
    file: str
    line: int

    def label(self) -> str:
        """`name (file:line)`, the form of all outputs."""
        if not self.file:
            return self.name
        return (
            f"{self.name} ({self.file}:{self.line})" if self.line else f"{self.name} ({self.file})"
        )


#: frames from the outermost to the one that runs
type Stack = tuple[Frame, ...]


@dataclass(slots=True)
class Sample:
    """A thread's stack at one moment, in seconds from the beginning."""

    at: float
    stack: Stack
    idle: bool = False


@dataclass(slots=True)
class Thread:
    """One thread of the proxy, by its name."""

    name: str
    samples: list[Sample] = field(default_factory=list)


@dataclass(slots=True)
class Profile:
    """The result of a session."""

    sampler: str
    pid: int
    python: str
    #: how long it took, in seconds
    seconds: float = 0.0
    #: how many times all threads were looked at
    rounds: int = 0
    threads: list[Thread] = field(default_factory=list)
    #: remarks for the user: what was lost, what it cost
    notes: list[str] = field(default_factory=list)

    @property
    def interval(self) -> float:
        """Mean time between two rounds, in seconds."""
        return self.seconds / self.rounds if self.rounds else 0.0

    def thread(self, name: str) -> Thread:
        """The thread of that name, made when it is new."""
        for one in self.threads:
            if one.name == name:
                return one
        one = Thread(name)
        self.threads.append(one)
        return one

    def stacks(self) -> Iterator[tuple[str, Stack]]:
        """Every sample of every thread, with the thread's name."""
        for thread in self.threads:
            for sample in thread.samples:
                yield thread.name, sample.stack

    def without_idle(self) -> Profile:
        """The same without what threads did not do. A thread that was always idle is left out."""
        kept = []
        for thread in self.threads:
            busy = [sample for sample in thread.samples if not sample.idle]
            if busy:
                kept.append(Thread(thread.name, busy))
        return Profile(
            self.sampler, self.pid, self.python, self.seconds, self.rounds, kept, self.notes
        )


def thread_order(name: str) -> tuple[str, int, str]:
    """Sort key: mtproxy/2 before mtproxy/10."""
    head, _, number = name.rpartition("/")
    return (head, int(number), "") if number.isdigit() else (name, -1, name)
