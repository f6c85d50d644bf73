"""The soak run's books: each request that a client made against the line that the proxy logged.

Clients tell of each of their requests what they saw (`outcome`), the proxy logs a line with the
request's `x-id` (`FORMAT`), and the two have to fit: as soon as both are there they are compared
and forgotten, so the books of a long run stay small. What is left at the end is wrong: a line that
nobody asked for (or a second one), a whole answer that was not logged.

An outcome is a word:

    =200   this status came, whole: exactly one line, with this status and nothing unusual
    ~200   an answer with this status began and was cut: a line with this status
    !      the request was sent for sure and not waited for: a line, whatever it says
    ?      it is not known whether the proxy ever saw the request: a line or none

`Ledger` belongs to the thread that holds its lock; `LogReader` is a thread that enters lines.
"""

from __future__ import annotations

import collections
import dataclasses
import socket
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Self

#: `log-format` of the frontend; `capture request header x-id` comes first
FORMAT = (
    "%[capture.req.hdr(0)] %ST %tsc %b/%s queues=%sq,%bq retries=%rc bytes=%U,%B "
    "timers=%TR,%Tw,%Tc,%Tr,%Ta"
)
#: Linux's number, which the socket module does not know: beyond the system's limit, for root
_SO_RCVBUFFORCE = 33
#: how many complaints of one kind are worth printing
_MOST = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """A logged request. `identity` is "-" where no head came; `queued` tells that it waited."""

    identity: str
    status: int
    state: str
    server: str
    queued: bool
    retries: int
    up: int
    down: int


def parse(text: str) -> Line:
    """Raises ValueError for what does not look like `FORMAT`."""
    identity, status, state, server, *rest = text.split()
    values = dict(word.split("=", 1) for word in rest)
    up, down = values["bytes"].split(",")
    waited = int(values["timers"].split(",")[1])
    queued = values["queues"] != "0,0" or waited > 0
    retries = int(values["retries"].lstrip("+"))
    return Line(
        identity, int(status), state, server, queued, retries, int(up), int(down.lstrip("+"))
    )


class Ledger:
    """See the module's text. Every method may be called by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: dict[str, Line] = {}
        self._outcomes: dict[str, str] = {}
        self._complaints: collections.Counter[str] = collections.Counter()
        self._examples: dict[str, list[str]] = {}
        self.lines = 0
        self.queued = 0
        self.retries = 0
        self.up = 0
        self.down = 0
        #: termination states (two letters) of all lines, and how many had no head
        self.states: collections.Counter[str] = collections.Counter()
        self.headless = 0
        #: outcomes by their word
        self.outcomes: collections.Counter[str] = collections.Counter()

    def enter_line(self, text: str) -> None:
        """A line of the log."""
        try:
            line = parse(text)
        except (ValueError, KeyError) as error:
            with self._lock:
                self._complain("lines that are not of the format", f"{text!r} ({error})")
            return
        with self._lock:
            self.lines += 1
            self.queued += line.queued
            self.retries += line.retries
            self.up += line.up
            self.down += line.down
            self.states[line.state[:2]] += 1
            if line.identity == "-":
                self.headless += 1
                return
            outcome = self._outcomes.pop(line.identity, None)
            if outcome is not None:
                self._compare(outcome, line)
            elif line.identity in self._lines:
                self._complain("requests logged twice", text)
            else:
                self._lines[line.identity] = line

    def enter_outcomes(self, words: Iterable[str]) -> None:
        """What a client saw: "identity outcome" each."""
        with self._lock:
            for word in words:
                identity, outcome = word.split()
                self.outcomes[outcome] += 1
                line = self._lines.pop(identity, None)
                if line is not None:
                    self._compare(outcome, line)
                elif identity in self._outcomes:
                    self._complain("requests of which a client told twice", identity)
                else:
                    self._outcomes[identity] = outcome

    def _compare(self, outcome: str, line: Line) -> None:
        kind, status = outcome[0], outcome[1:]
        if kind in "=~" and line.status != int(status):
            self._complain("statuses that the client did not see", f"{outcome} {line}")
        elif outcome == "=200" and line.state[:2] != "--":
            self._complain("whole answers logged as something else", f"{outcome} {line}")
        elif outcome == "=200" and line.server.endswith("/<NOSRV>"):
            self._complain("answers of no server", f"{line}")

    def _complain(self, what: str, example: str) -> None:
        self._complaints[what] += 1
        examples = self._examples.setdefault(what, [])
        if len(examples) < _MOST:
            examples.append(example)

    def unlogged(self) -> int:
        """How many requests of the kind that may have no line have none."""
        with self._lock:
            return sum(outcome == "?" for outcome in self._outcomes.values())

    def waiting(self) -> int:
        """How many requests still have to be logged."""
        with self._lock:
            return sum(outcome != "?" for outcome in self._outcomes.values())

    def problems(self) -> list[str]:
        """What does not fit, when clients and log have come to their ends."""
        with self._lock:
            found = {what: (n, self._examples[what]) for what, n in self._complaints.items()}
            missing = [f"{i} {o}" for i, o in self._outcomes.items() if o != "?"]
            if missing:
                found["requests that were not logged"] = (len(missing), missing[:_MOST])
            if self._lines:
                extra = [str(line) for line in self._lines.values()]
                found["lines too many"] = (len(extra), extra[:_MOST])
        return [f"{n} {what}: {'; '.join(some)}" for what, (n, some) in found.items()]


class LogReader(threading.Thread):
    """A UDP socket of its own that enters what comes into a ledger, until the block ends."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(name="log reader", daemon=True)
        self._ledger = ledger
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.bind(("127.0.0.1", 0))
        size = 64 << 20
        try:
            self._sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, size)
        except PermissionError:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
        self.port: int = self._sock.getsockname()[1]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        # an empty datagram to itself is the end
        self._sock.sendto(b"", self._sock.getsockname())
        self.join()
        self._sock.close()

    def run(self) -> None:
        while data := self._sock.recv(65536):
            text = data.decode("utf-8", "replace")
            # also what servers' changes of state say comes here: no line of a request
            _, mark, message = text.partition("]: ")
            if mark and message.startswith("soak "):
                self._ledger.enter_line(message[5:])

    def lost(self) -> int:
        """How many datagrams the kernel dropped because this thread was late."""
        for row in Path("/proc/net/udp").read_text().splitlines()[1:]:
            words = row.split()
            if words[1].endswith(f":{self.port:04X}"):
                return int(words[-1])
        raise ProcessLookupError("the log's socket is gone")
