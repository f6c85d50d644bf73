"""What the kernel says of a running process: CPU time, memory, descriptors, threads.

Plain functions over /proc (Linux, proc(5)); any thread may call them, no state. A process that is
gone raises `ProcessLookupError`, so that a benchmark or a soak run never reports figures of nobody.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        raise ProcessLookupError(f"process {pid} is gone") from None


def _stat(pid: int) -> list[str]:
    # The second field, the command's name, may hold blanks and parentheses: count from its end.
    return _read(pid, "stat").rpartition(")")[2].split()


def children(pid: int) -> list[int]:
    """Direct children of every thread of `pid`."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found += [int(word) for word in (task / "children").read_text().split()]
        except FileNotFoundError:  # the thread ended meanwhile, or the kernel has no such file
            continue
    return found


def cpu_seconds(pid: int) -> float:
    """User + system time of `pid` in seconds: all its threads, waited-for children, and its living
    descendants. The kernel's own precision here is one clock tick (10 ms).
    """
    fields = _stat(pid)
    total = sum(int(fields[i]) for i in (11, 12, 13, 14)) / _TICKS
    for child in children(pid):
        try:
            total += cpu_seconds(child)
        except (ProcessLookupError, FileNotFoundError):
            continue
    return total


def thread_seconds(pid: int) -> tuple[float, float]:
    """What the living threads of `pid` have spent on a CPU, and waiting for one although they were
    ready to run, in seconds with the precision of nanoseconds (schedstat, see proc(5)).
    """
    ran = waited = 0
    folder = Path(f"/proc/{pid}/task")
    if not folder.exists():
        raise ProcessLookupError(f"process {pid} is gone")
    for task in folder.iterdir():
        try:
            words = (task / "schedstat").read_text().split()
        except (FileNotFoundError, ProcessLookupError):  # the thread ended meanwhile
            continue
        ran += int(words[0])
        waited += int(words[1])
    return ran / 1e9, waited / 1e9


def rss_bytes(pid: int) -> int:
    """Resident memory of `pid` itself in bytes."""
    return int(_read(pid, "statm").split()[1]) * _PAGE


def fd_count(pid: int) -> int:
    """How many descriptors `pid` has open."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except FileNotFoundError:
        raise ProcessLookupError(f"process {pid} is gone") from None


def fd_targets(pid: int) -> dict[int, str]:
    """Descriptor -> what it points to ("socket:[123]", a path, ...), for messages."""
    found: dict[int, str] = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/{pid}/fd/{name}")
        except FileNotFoundError:  # closed between the listing and the look
            continue
    return found


def thread_count(pid: int) -> int:
    """How many threads `pid` has."""
    return int(_stat(pid)[17])


def kill_marked(mark: str) -> int:
    """Kills every process that has `mark` ("NAME=value") in its environment, as only descendants
    of whoever set it do: also those that made themselves daemons. Returns how many there were.
    """
    killed: set[int] = set()
    # A process that forks just now has a child that one look may miss.
    while found := _marked(mark.encode()) - killed:
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed |= found
    return len(killed)


def _marked(mark: bytes) -> set[int]:
    """The other processes with `mark` in their environment."""
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # gone meanwhile, or somebody else's
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found.add(int(entry.name))
    return found
