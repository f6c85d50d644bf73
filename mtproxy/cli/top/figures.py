"""What `mtproxy top` knows: answers of the runtime socket as figures, and what two of them say.

Reads what HAProxy answers as well: there are no locks then, and fewer figures of threads. Pure,
apart from `take`, which asks. Any thread; nothing is shared.
"""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mtproxy.cli.client import REFUSALS, ClientError, ask
from mtproxy.cli.client_locks import LockFigures, parse_locks

#: a line of `show activity`: name, the sum, and each thread's part where there are several
_ACTIVITY = re.compile(r"^(\w+): (-?[\d.]+)(?: \[ ([-\d. ]+) \])?$", re.MULTILINE)

#: columns of `show stat` that count requests which went wrong
ERRORS = ("ereq", "econ", "eresp")
_KINDS = ("1xx", "2xx", "3xx", "4xx", "5xx", "other")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look at the proxy. `at` is of the monotonic clock, in seconds."""

    at: float
    info: Mapping[str, str]
    #: rows of `show stat`, column by column as it was written
    rows: Mapping[tuple[str, str], Mapping[str, str]]
    #: figures of `show activity`, each with one value per thread
    threads: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    locks: Mapping[str, LockFigures] = field(default_factory=dict)

    def of_type(self, kind: str) -> Iterator[tuple[tuple[str, str], Mapping[str, str]]]:
        """Rows of a type: "0" frontends, "1" backends, "2" servers, "3" listeners."""
        for key, row in self.rows.items():
            if row["type"] == kind:
                yield key, row


def take(address: str, timeout: float) -> Snapshot:
    """Ask the proxy behind a runtime socket. Raises ClientError."""
    at = time.monotonic()
    info = parse_info(_answer(address, "show info", timeout))
    rows = parse_stat(_answer(address, "show stat", timeout))
    threads = ask(address, "show activity", timeout)
    locks = ask(address, "show locks json", timeout)
    return Snapshot(
        at,
        info,
        rows,
        {} if threads.startswith(REFUSALS) else parse_activity(threads),
        parse_locks(locks).figures if locks.startswith("[") else {},
    )


def _answer(address: str, command: str, timeout: float) -> str:
    answer = ask(address, command, timeout)
    if answer.startswith(REFUSALS):
        raise ClientError(f"{address}: {command}: {answer.strip().splitlines()[0]}")
    return answer


def parse_info(text: str) -> dict[str, str]:
    """The answer to `show info`."""
    pairs = (line.partition(": ") for line in text.splitlines())
    return {name.rstrip(":"): value for name, _, value in pairs if name}


def product_of(info: Mapping[str, str]) -> str:
    """Which program answers, with its version.

    `Name` says HAProxy for the sake of its clients, mtproxy's own name is in `Build info`.
    """
    ours = info.get("Build info", "")
    if ours.startswith("mtproxy"):
        return ours
    return f"{info.get('Name', '?')} {info.get('Version', '')}".rstrip()


def parse_stat(text: str) -> dict[tuple[str, str], dict[str, str]]:
    """The answer to `show stat`: rows by proxy and server name. Raises ClientError."""
    if not text.startswith("# pxname,"):
        raise ClientError(f"no statistics in the answer: {text.strip()[:200]!r}")
    lines = [line for line in text[2:].splitlines() if line]
    return {(row["pxname"], f"{row['svname']}/{row['type']}"): row for row in csv.DictReader(lines)}


def parse_activity(text: str) -> dict[str, tuple[float, ...]]:
    """The answer to `show activity`: each figure by thread."""
    return {
        name: tuple(float(part) for part in (parts or total).split())
        for name, total, parts in _ACTIVITY.findall(text)
    }


def number(row: Mapping[str, str], column: str) -> int:
    """A figure of a row; one that is empty, or not there, counts as 0."""
    try:
        return int(row.get(column) or 0)
    except ValueError:
        return 0


def requests(row: Mapping[str, str]) -> int:
    """Requests so far; of a server its answers, of a proxy in mode tcp its sessions."""
    if row["mode"] != "http":
        return number(row, "stot")
    if row["req_tot"]:
        return number(row, "req_tot")
    return sum(
        [number(row, f"hrsp_{kind}") for kind in ("1xx", "2xx", "3xx", "4xx", "5xx", "other")]
    )


def errors(row: Mapping[str, str]) -> int:
    """Requests so far that were refused, found no server or got no valid answer."""
    return sum([number(row, column) for column in ERRORS])


class Rates:
    """What happened between two snapshots, per second. The first one alone gives zeros."""

    def __init__(self, before: Snapshot | None, now: Snapshot) -> None:
        self.before = before
        self.now = now
        self.seconds = max(now.at - before.at, 0.001) if before else 1.0

    def per_second(self, key: tuple[str, str], count: str) -> float:
        """How fast a counter of a row grew: a column, "requests" or "errors"."""
        earlier = self.before.rows.get(key) if self.before else None
        if earlier is None:
            return 0.0
        counters = {"requests": requests, "errors": errors}
        read = counters.get(count) or (lambda row: number(row, count))
        # a counter that was cleared meanwhile begins anew
        return max(read(self.now.rows[key]) - read(earlier), 0) / self.seconds

    def thread(self, name: str, tid: int) -> float | None:
        """How fast a figure of a thread grew per second; None: not known."""
        if self.before is None:
            return None
        earlier, current = self.before.threads.get(name, ()), self.now.threads.get(name, ())
        if tid >= min(len(earlier), len(current)):
            return None
        return max(current[tid] - earlier[tid], 0.0) / self.seconds

    def all_requests(self) -> float:
        """Requests per second over all frontends."""
        return sum([self.per_second(key, "requests") for key, _ in self.now.of_type("0")])

    def locks(self) -> list[LockFigures]:
        """What was added to each lock label since the last snapshot."""
        if self.before is None:
            return []
        earlier = self.before.locks
        return [
            figures.since(earlier[label])
            for label, figures in self.now.locks.items()
            if label in earlier and figures.used
        ]
