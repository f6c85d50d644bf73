"""A whole configuration with a scenario: what both programs are played, and what is compared.

A `Whole` is the text of a configuration file as people write it, the servers behind it, and a
function that plays: it asks, waits, speaks to the runtime socket. `perform` plays it against one
program and returns what was seen: answers, what each server got, the log's lines about sessions
and about servers, and notes. In texts `@NAME@` is a server's address and port, `@LOG@` that of the
syslog server, `@DNS@` that of the name server, `@DIR@` the folder of the `files`; listeners are
`bind "fd@${name}"`. Everything waits for what must come: a request for its lines in the log.

A stage belongs to one thread.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Self

from mtproxy.testing.nameserver import Asked, NameServer
from mtproxy.testing.program import Program
from mtproxy.testing.server import Server
from mtproxy.testing.syslog_sink import SyslogSink
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import Wire
from tests.differential.bed import Names
from tests.differential.wire import Client, request_complete

#: seconds that a client waits for an answer
_ANSWER = 60.0
#: lines of the log that are about servers, not sessions
_EVENT = re.compile(
    r"(Health check for |Agent check for |Server |backend |Backup Server |[Pp]roxy |\S+/\S+ changed its )"
)

#: tags are the programs' own names where a file gives none
_OWN = re.compile(r"^(<\d+>)(?:mtproxy|haproxy): ")
_TAG = re.compile(r"^<\d+>(?:mtproxy|haproxy|(\w+)): ")


class Site(Server):
    """An HTTP server. Paths that begin with /health are not recorded and answered with `health`;
    `answers` has raw answers by path. Whoever upgrades gets bytes back in capitals. With
    `every_address` it listens on 127.0.0.2, too.
    """

    def __init__(
        self,
        name: str,
        answers: Mapping[str, bytes] | None = None,
        *,
        every_address: bool = False,
    ) -> None:
        self.name = name
        self.health = 200
        self.answers = dict(answers or {})
        self.heard: list[bytes] = []
        self._guard = threading.Lock()
        super().__init__(self._connection, ("0.0.0.0" if every_address else "127.0.0.1", 0))

    def _connection(self, wire: Wire) -> None:
        wire.sock.settimeout(None)
        while True:
            data = wire.take(len(wire.buffer))
            while not request_complete(data):
                piece = _receive(wire)
                if not piece:
                    return
                data += piece
            target = data.split(b" ", 2)[1].decode("latin-1")
            if target.startswith("/health"):
                wire.send(b"HTTP/1.1 %d Health\r\ncontent-length: 0\r\n\r\n" % self.health)
                continue
            with self._guard:
                self.heard.append(data)
            if b"\r\nupgrade: websocket" in data.lower():
                wire.send(
                    b"HTTP/1.1 101 Switching Protocols\r\n"
                    b"connection: Upgrade\r\nupgrade: websocket\r\n"
                    b"sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
                )
                while piece := _receive(wire):
                    wire.send(piece.upper())
                return
            body = f"{self.name} {target}".encode("latin-1")
            plain = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
            wire.send(self.answers.get(target, plain))


class Talker(Server):
    """A server of lines or packets: `greeting` first, then `talk(piece)` answers each piece.
    What begins with a piece in which `quiet` finds something is a health check and not recorded.
    """

    def __init__(
        self, talk: Callable[[bytes], bytes], *, greeting: bytes = b"", quiet: bytes = b"(?!)"
    ) -> None:
        self.talk = talk
        self.greeting = greeting
        self.heard: list[bytes] = []
        self._quiet = re.compile(quiet)
        self._guard = threading.Lock()
        super().__init__(self._connection)

    def _connection(self, wire: Wire) -> None:
        wire.sock.settimeout(None)
        if self.greeting:
            wire.send(self.greeting)
        number = -1
        while piece := _receive(wire):
            if number >= 0 or not self._quiet.search(piece):
                with self._guard:
                    if number < 0:
                        number = len(self.heard)
                        self.heard.append(b"")
                    # one record for a connection: into how many pieces bytes fall is chance
                    self.heard[number] += piece
            wire.send(self.talk(piece))


def _receive(wire: Wire) -> bytes:
    """Empty at the end, however it came."""
    try:
        return wire.sock.recv(65536)
    except ConnectionError:
        return b""


type Play = Callable[["Stage"], None]


@dataclass(frozen=True, slots=True)
class Whole:
    """See the module. `sites` makes the servers, by the names that the text has for them."""

    name: str
    text: str
    play: Play
    sites: Mapping[str, Callable[[], Site | Talker]] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    #: what the name server knows; its presence starts it
    names: Mapping[Asked, list[str]] | None = None
    #: only root may start it
    root: bool = False
    #: where the programs differ on purpose ("sessions 1"), and the reason
    known: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Seen:
    """What a performance showed; all of it is compared. Lines of the log stand by their tags: of two
    proxies in a row either may write first.
    """

    answers: list[bytes] = field(default_factory=list)
    forwarded: dict[str, list[bytes]] = field(default_factory=dict)
    sessions: list[bytes] = field(default_factory=list)
    events: list[bytes] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Stage:
    """What a play has to do with; a context manager."""

    def __init__(self, program: str, whole: Whole) -> None:
        self.whole = whole
        self.seen = Seen()
        self._stack = ExitStack()
        self._name = program
        self._answers: list[tuple[str, bytes]] = []
        self._ports: dict[int, str] = {}
        self._printed: list[str] = []

    def __enter__(self) -> Self:
        with self._stack:
            enter = self._stack.enter_context
            self.sink = enter(SyslogSink())
            self.sites = {name: enter(make()) for name, make in self.whole.sites.items()}
            self.directory = enter(tempfile.TemporaryDirectory(prefix="mtw", dir="/tmp"))
            os.chmod(self.directory, 0o755)
            values = {f"@{name.upper()}@": f"127.0.0.1:{s.port}" for name, s in self.sites.items()}
            values |= {"@LOG@": f"127.0.0.1:{self.sink.port}", "@DIR@": self.directory}
            values |= {f"@{n.upper()}PORT@": str(s.port) for n, s in self.sites.items()}
            if self.whole.names is not None:
                self.names = enter(NameServer(dict(self.whole.names)))
                values["@DNS@"] = f"127.0.0.1:{self.names.port}"

            def fill(text: str) -> str:
                return re.sub(r"@[A-Z0-9]+@", lambda m: values.get(m[0], m[0]), text)

            for name, text in self.whole.files.items():
                Path(self.directory, name).write_text(fill(text), newline="")
            # one thread: the order of lines in the log is that of the requests
            head = "    nbthread 1\n    max-spread-checks 10\n"
            self.program = enter(Program(self._name, head + fill(self.whole.text)))
            self.program.wait_ready()
            self._ports |= {s.port: name.upper() for name, s in self.sites.items()}
            self._ports |= {
                address[1]: f"<{name}>" for name, address in self.program._listeners.items()
            }
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # -- what plays call

    def client(self, listener: str) -> Client:
        """A client that keeps its connection from one `ask` to the next."""
        return Client(self.program.address(listener), _ANSWER)

    def ask(self, whom: str | Client, data: bytes, logs: int = 1) -> bytes:
        """Sends a request to a listener, on a connection of its own, or as a client does, and waits
        for the answer and for `logs` lines about sessions. The answer is kept for comparison.
        """
        client = self.client(whom) if isinstance(whom, str) else whom
        before = len(self._lines(events=False))
        had = "".join(part.decode("latin-1") for part in client.heard)
        client.ask(data)
        answer = "".join(part.decode("latin-1") for part in client.heard)[len(had) :]
        self._ports |= dict.fromkeys(client.ports, "CLIENT")
        if isinstance(whom, str):
            client.close()
        self.wait_lines(before + logs)
        self._answers.append((f"{data[:60]!r}: ", answer.encode("latin-1")))
        return answer.encode("latin-1")

    def exchange(self, listener: str, data: bytes, logs: int = 1) -> bytes:
        """The same in TCP: sends, half-closes, reads to the end."""
        client = self.client(listener)
        before = len(self._lines(events=False))
        client.exchange(data)
        self._ports |= dict.fromkeys(client.ports, "CLIENT")
        self.wait_lines(before + logs)
        self._answers.append((f"{data[:60]!r}: ", client.heard[0]))
        return client.heard[0]

    def wire(self, listener: str) -> Wire:
        """A connection that the play drives by itself; `keep` what it shows."""
        wire = self.program.connect(listener)
        self._ports[wire.sock.getsockname()[1]] = "CLIENT"
        return wire

    def keep(self, answer: bytes) -> None:
        self._answers.append(("", answer))

    def cli(self, command: str) -> str:
        """A command for the runtime socket; its answer is noted."""
        answer = self.program.cli(command)
        self.note(f"{command}: {re.sub(r'0x[0-9a-f]+', '0xPOINTER', answer)}")
        return answer

    def note(self, text: object) -> None:
        self.seen.notes.append(str(text))

    def status(self, backend: str, server: str, wanted: str) -> None:
        """Wait for a server's status."""
        wait_until(
            lambda: self.program.server_status(backend, server) == wanted,
            f"{backend}/{server} {wanted}",
        )

    def checked(self, *paths: str) -> None:
        """Wait until each of the servers (backend/server) was checked, with success."""
        for path in paths:
            backend, _, server = path.partition("/")
            wait_until(
                lambda b=backend, s=server: self.program.stat(b, s)["check_status"].endswith("OK"),  # type: ignore[misc]
                f"a check of {path}",
            )

    def printed(self, pattern: str, count: int) -> None:
        """Wait for `count` lines on standard output that `pattern` finds; they are compared."""
        regex = re.compile(pattern)

        def lines() -> list[str]:
            return [line for line in self.program.output().splitlines() if regex.search(line)]

        wait_until(lambda: len(lines()) >= count, f"{count} lines with {pattern}")
        self._printed += lines()

    def event(self, pattern: str) -> None:
        """Wait for a line about a server."""
        self.sink.wait(pattern)

    def wait_lines(self, count: int) -> None:
        wait_until(lambda: len(self._lines(events=False)) >= count, f"{count} lines about sessions")

    # -- what is compared

    def _lines(self, *, events: bool) -> list[str]:
        found = [f"<{entry.priority}>{entry.tag}: {entry.text}" for entry in self.sink.entries]
        text = (line.partition(": ")[2] for line in found)
        return [
            line for line, t in zip(found, text, strict=True) if bool(_EVENT.match(t)) == events
        ]

    def result(self) -> Seen:
        names = Names(self._ports, (re.escape(self.directory),))

        def line(text: str) -> bytes:
            found = names.log(_OWN.sub(r"\1", text).encode())
            # whether the connection before is over yet is chance
            return re.sub(rb" A/\d+/", b" A/F/", found)

        seen = self.seen
        seen.answers = [label.encode() + names.bytes(data) for label, data in self._answers]
        seen.forwarded = {
            name: [names.bytes(data) for data in site.heard] for name, site in self.sites.items()
        }
        lines = self._lines(events=False)
        sessions = sorted(lines, key=lambda text: _TAG.match(text)[1] or "")  # type: ignore[index]
        seen.sessions = [line(text) for text in (*sessions, *self._printed)]
        seen.events = [
            re.sub(rb"duration: \d+ms", b"duration: T", line(text))
            for text in self._lines(events=True)
        ]
        seen.notes = [names.bytes(text.encode()).decode() for text in seen.notes]
        return seen


def perform(program: str, whole: Whole) -> Seen:
    """Play it against one program."""
    with Stage(program, whole) as stage:
        whole.play(stage)
        return stage.result()


def differences(mine: Seen, theirs: Seen) -> dict[str, str]:
    """Each thing that is not the same in both: where, and what both have there."""
    found = {}
    for part in ("answers", "sessions", "events", "notes"):
        found |= _compare(part, getattr(mine, part), getattr(theirs, part))
    for name in mine.forwarded:
        found |= _compare(f"forwarded to {name}", mine.forwarded[name], theirs.forwarded[name])
    return found


def _compare(part: str, mine: Sequence[object], theirs: Sequence[object]) -> dict[str, str]:
    pairs = zip_longest(mine, theirs, fillvalue="<nothing>")
    return {
        f"{part} {number}": f"  mtproxy {one!r}\n  haproxy {other!r}"
        for number, (one, other) in enumerate(pairs)
        if one != other
    }
