"""Ways in which a session can end: what an ending is, and the stage on which it is made to happen.

An `Ending` is two scripts, the client's and the origin's, and a configuration; the stage plays
them against one program and keeps what the log, the client and the counters say of it. Steps are

    bytes      send them (`@W@` in the configuration is the wait that the case is about, `@L@`
               three of them)
    "head"     read until a message's head is here
    "end"      read to the end of the connection
    "half"     end the own output; "close", "reset": end the connection
    "hold"     the origin: wait until the client's script is over
    "pause"    let a third of the wait go by
    "tell x"   something has come so far; "await x": wait for the other to tell
    "cli ..."  a command for the runtime socket
    "new"      the client: another connection beside the first, which later steps use
    "small"    the client: the same, and its kernel takes few bytes only

Many endings are played at once, each in a frontend and a backend of its own. One whose log differs
is played again with longer waits: what a busy machine does to short ones goes away, a difference
stays. A stage belongs to one thread.
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from mtproxy.testing.program import Program
from mtproxy.testing.server import listen_on
from tests.differential.bed import load_verdict
from tests.differential.wire import quiet_datagrams

type Script = tuple[bytes | str, ...]

#: the waits of the first try and of those after it, ms
WAITS = (300, 1000, 3000)
#: timeouts that shall not strike, in waits
_LONG = 30
#: sessions that are played at the same time
_AT_ONCE = 24
#: how long a script waits for what it expects, in seconds
_PATIENCE = 40.0

GET = b"GET /a HTTP/1.1\r\nhost: h\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@dataclass(frozen=True, slots=True)
class Ending:
    """One way to end. `state` is a session state that HAProxy logs for it ("": it logs nothing).
    It begins with "?" where both sides' timeouts strike at once."""

    name: str
    state: str
    client: Script
    #: a script for each connection in turn, the last one for all others
    origin: tuple[Script, ...] = (("hold",),)
    front: str = ""
    back: str = ""
    #: lines that both sides have from their defaults section
    both: str = ""
    #: whole sections behind the others
    sections: str = ""
    #: "server s1 @ORIGIN@" unless given; @REFUSED@ refuses, @DEAF@ never answers a SYN
    server: str = "server s1 @ORIGIN@"
    tcp: bool = False


@dataclass(slots=True)
class Shown:
    """What an ending showed: everything is compared."""

    heard: list[bytes] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    counters: dict[str, str] = field(default_factory=dict)
    #: the configuration was refused, and why
    refused: str = field(default="", compare=False)

    def same(self, other: Shown) -> bool:
        return self == other and bool(self.refused) == bool(other.refused)

    def __str__(self) -> str:
        if self.refused:
            return f"    refused: {self.refused}"
        lines = [f"    client   {data!r}" for data in self.heard]
        lines += [f"    log      {line}" for line in self.logs]
        lines += [f"    {name:8} {text}" for name, text in self.counters.items()]
        return "\n".join(lines)


# -- the two ends


class Party:
    """One end of a script: a socket that says how it ended. One thread uses it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.got = b""
        sock.settimeout(_PATIENCE)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def receive(self, until: bytes | None) -> bool:
        """Read until `until` is here, or to the end; whether `until` came."""
        while until is None or until not in self.got:
            try:
                piece = self.sock.recv(65536)
            except TimeoutError:
                self.got += b"<NOTHING>"
                return False
            except ConnectionError:
                self.got += b"<RESET>"
                return False
            if not piece:
                self.got += b"<END>"
                return False
            self.got += piece
        return True

    def act(self, step: bytes | str) -> None:
        if isinstance(step, bytes):
            with contextlib.suppress(OSError):  # what the peer does to us is seen by reading
                self.sock.sendall(step)
        elif step == "head":
            self.receive(b"\r\n\r\n")
        elif step == "end":
            self.receive(None)
        elif step == "half":
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_WR)
        elif step == "reset":
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.sock.close()
        elif step == "close":
            self.sock.close()
        else:
            raise ValueError(f"no such step: {step!r}")


class Play:
    """One ending on its way. The client's thread runs `client`, the origin's `serve`."""

    def __init__(self, ending: Ending, number: int, wait: int) -> None:
        self.ending = ending
        self.number = number
        self.wait = wait / 1000
        self.over = threading.Event()
        self._told: dict[str, threading.Event] = {}
        self._lock = threading.Lock()
        self.listener = listen_on(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.heard: list[bytes] = []
        self._sockets: list[socket.socket] = [self.listener]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def event(self, name: str) -> threading.Event:
        with self._lock:
            return self._told.setdefault(name, threading.Event())

    def _common(self, step: str) -> bool:
        word, _, rest = step.partition(" ")
        if word == "tell":
            self.event(rest).set()
        elif word == "await":
            if not self.event(rest).wait(_PATIENCE):
                raise TimeoutError(f"{self.ending.name}: nobody told {rest}")
        elif word == "pause":
            self.over.wait(self.wait / 3)
        else:
            return False
        return True

    # the origin
    def _accept(self) -> None:
        number = 0
        scripts = self.ending.origin
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            with self._lock:
                self._sockets.append(sock)
            script = scripts[min(number, len(scripts) - 1)]
            number += 1
            threading.Thread(target=self._serve, args=(sock, script), daemon=True).start()

    def _serve(self, sock: socket.socket, script: Script) -> None:
        party = Party(sock)
        try:
            for step in script:
                if step == "hold":
                    self.over.wait(_PATIENCE)
                elif step == "deaf":
                    self.listener.shutdown(socket.SHUT_RDWR)
                elif not isinstance(step, str) or not self._common(step):
                    if step == "head":
                        party.got = b""
                    party.act(step)
        finally:
            if script and script[-1] not in ("close", "reset"):
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    # the client
    def client(self, program: Program) -> None:
        address = program.address(f"c{self.number}")
        parties: list[Party] = []
        try:
            if self.ending.client[0] != "small":
                parties.append(Party(_connect(address)))
            for step in self.ending.client:
                if isinstance(step, str):
                    if step.startswith("cli "):
                        program.cli(step[4:].replace("@B@", f"b{self.number}"))
                        continue
                    if step in ("new", "small"):
                        parties.append(Party(_connect(address, 4096 * (step == "small"))))
                        continue
                    if self._common(step):
                        continue
                parties[-1].act(step)
        finally:
            self.over.set()
            for party in parties:
                party.sock.close()
            self.heard = [party.got for party in parties]

    def close(self) -> None:
        self.over.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(_PATIENCE)
        with self._lock:
            for sock in self._sockets:
                with contextlib.suppress(OSError):
                    sock.close()


def _connect(address: tuple[str, int], receive_buffer: int = 0) -> socket.socket:
    sock = socket.socket()
    sock.settimeout(_PATIENCE)
    if receive_buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.connect(address)
    return sock


# -- the stage

_PREFACE = """\
global
    nbthread 1
    maxconn 1000
    log 127.0.0.1:{log} format rfc3164 local0
    tune.sndbuf.client 4096
defaults base
    mode http
    log global
    retries 0
    timeout connect {long}ms
    timeout client {long}ms
    timeout server {long}ms
"""


class _Places:
    """Addresses that refuse, and that never answer."""

    def __init__(self) -> None:
        self._refusing = socket.socket()
        self._refusing.bind(("127.0.0.1", 0))
        # A queue for one connection that nobody accepts: further SYNs are dropped.
        self._deaf = listen_on(("127.0.0.1", 0), 0)
        self._fill = [socket.socket() for _ in range(2)]
        for sock in self._fill:
            sock.setblocking(False)
            sock.connect_ex(self._deaf.getsockname())

    def __enter__(self) -> Mapping[str, str]:
        ports = {
            "@REFUSED@": self._refusing.getsockname()[1],
            "@DEAF@": self._deaf.getsockname()[1],
        }
        return {name: f"127.0.0.1:{port}" for name, port in ports.items()}

    def __exit__(self, *_: object) -> None:
        for sock in (self._refusing, self._deaf, *self._fill):
            sock.close()


def configuration(
    numbered: Sequence[tuple[Ending, int, int]], places: Mapping[str, str], log: int, wait: int
) -> str:
    """All endings, each with its number and its origin's port, in one configuration."""
    texts = []
    for ending, number, port in numbered:
        mode = "tcp" if ending.tcp else "http"
        values = {
            "@W@": f"{wait}ms",
            "@L@": f"{3 * wait}ms",
            "@N@": str(number),
            "@B@": f"b{number}",
            "@ORIGIN@": f"127.0.0.1:{port}",
            **places,
        }

        def fill(text: str, values: dict[str, str] = values) -> str:
            text = re.sub("@[A-Z]+@", lambda m: values.get(m[0], m[0]), text)
            return "\n".join(f"    {line.strip()}" for line in text.splitlines())

        texts.append(
            f"defaults d{number} from base\n{fill(ending.both)}\n"
            f"frontend c{number} from d{number}\n    mode {mode}\n"
            f'    bind "fd@${{c{number}}}"\n    log-tag c{number}\n'
            f"    option {mode}log\n{fill(ending.front)}\n"
            f"    default_backend b{number}\n"
            f"backend b{number} from d{number}\n    mode {mode}\n{fill(ending.back)}\n{fill(ending.server)}\n"
            f"{fill(ending.sections)}"
        )
    preface = _PREFACE.format(log=log, long=wait * _LONG)
    return preface + "\n".join(texts) + "\n"


_LINE = re.compile(
    r"^<(?P<priority>\d+)>.*? c\d+\[\d+\]: (?P<client>\S+) \[\S+\] (?P<front>\S+) (?P<back>\S+) "
    r"(?P<timers>\S+) (?P<rest>.*)$",
    re.DOTALL,
)
#: counters that every ending is judged by
_FIELDS = [
    "scur",
    "stot",
    "econ",
    "eresp",
    "ereq",
    "dreq",
    "dresp",
    "wretr",
    "wredis",
    "hrsp_2xx",
    "hrsp_3xx",
    "hrsp_4xx",
    "hrsp_5xx",
    "hrsp_other",
    "req_tot",
    "cli_abrt",
    "srv_abrt",
    "intercepted",
    "eint",
]


def _timers(text: str, wait: int) -> str:
    """-1 as it is; S: shorter than the wait, L: not shorter, X: three waits."""

    def name(match: re.Match[str]) -> str:
        value = int(match[0])
        return "-1" if value < 0 else "S" if value < wait else "L" if value < 2.5 * wait else "X"

    return re.sub(r"-?\d+", name, text)


def normal_line(data: bytes, ending: Ending, number: int, wait: int) -> str:
    """A log line without what must differ."""
    found = _LINE.match(data.decode("latin-1"))
    if found is None:
        return data.decode("latin-1")
    back = re.sub(rf"\b([bc]){number}\b", r"\1N", found["back"])
    rest = found["rest"]
    if not ending.tcp:
        # HAProxy counts bytes of its own form of a message
        rest = re.sub(r"^(-?\d+) \d+", r"\1 B", rest)
    else:
        # how much fits into the kernel is chance
        rest = re.sub(r"^\d{6,}", "MANY", rest)
    rest = re.sub(r" \d+/(\d+/\d+/\d+/\+?\d+ )", r" A/\1", rest, count=1)
    if ending.state.startswith("?"):
        rest = re.sub(r"\b[cs]D(?=(--)? A/)", "?D", rest)
    priority = int(found["priority"]) & 7
    return f"<{priority}> {back} {_timers(found['timers'], wait)} {rest.rstrip()}"


def _counters(text: str, hidden: Mapping[str, Sequence[str]]) -> dict[tuple[str, str], str]:
    """The counters by proxy and server; `hidden` are those that chance decides, by proxy."""
    lines = text.strip().splitlines()
    names = lines[0].lstrip("# ").split(",")
    found = {}
    for line in lines[1:]:
        values = dict(zip(names, line.split(","), strict=False))
        if values.get("eresp") == "2":
            values["eresp"] = "1"  # HAProxy counts a reset before the head twice
        values |= dict.fromkeys(hidden.get(values["pxname"], ()), "0")
        shown = [f"{n}={values[n]}" for n in _FIELDS if values.get(n) not in ("", "0", None)]
        found[values["pxname"], values["svname"]] = " ".join(shown)
    return found


def refusals(program: str, endings: Sequence[Ending]) -> dict[str, str]:
    """Why a program refuses an ending's configuration, for each that it refuses."""
    places = dict.fromkeys(("@REFUSED@", "@DEAF@"), "127.0.0.1:1")

    def ask(some: Sequence[Ending]) -> tuple[int, str]:
        text = configuration([(e, n, 1) for n, e in enumerate(some)], places, 1, 300)
        return load_verdict(program, text)

    if ask(endings)[0] == 0:
        return {}
    answers = {ending.name: ask([ending]) for ending in endings}
    return {name: output for name, (code, output) in answers.items() if code}


def perform(program: str, endings: Sequence[Ending], wait: int) -> dict[str, Shown]:
    """Play all of them that the program accepts; what each showed by name."""
    refused = refusals(program, endings)
    shown = _perform(program, [e for e in endings if e.name not in refused], wait)
    return shown | {name: Shown(refused=why) for name, why in refused.items()}


def _perform(program: str, endings: Sequence[Ending], wait: int) -> dict[str, Shown]:
    plays = [Play(ending, number, wait) for number, ending in enumerate(endings)]
    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind(("127.0.0.1", 0))
    sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    shown = {ending.name: Shown() for ending in endings}
    try:
        with _Places() as places:
            numbered = [(play.ending, play.number, play.port) for play in plays]
            text = configuration(numbered, places, sink.getsockname()[1], wait)
            with Program(program, text) as running:
                running.wait_ready()
                with ThreadPoolExecutor(_AT_ONCE) as pool:
                    for done in [pool.submit(play.client, running) for play in plays]:
                        done.result()
                messages = quiet_datagrams(sink, 0.4)
                hidden = {
                    f"b{play.number}": ("cli_abrt", "srv_abrt")
                    for play in plays
                    if play.ending.state.startswith("?")
                }
                counters = _counters(running.cli("show stat"), hidden)
                for play in plays:
                    one = shown[play.ending.name]
                    one.heard = [re.sub(rb"(?<=:)\d{4,5}\b", b"PORT", h) for h in play.heard]
                    for title, name, owner in (
                        ("front", f"c{play.number}", "FRONTEND"),
                        ("back", f"b{play.number}", "BACKEND"),
                        ("server", f"b{play.number}", "s1"),
                    ):
                        one.counters[title] = counters.get((name, owner), "")
                if not running.alive():
                    raise RuntimeError(running.output())
    finally:
        for play in plays:
            play.close()
        sink.close()
    for message in messages:
        tag = re.search(rb" c(\d+)\[\d+\]: ", message)
        if tag is not None:
            play = plays[int(tag[1])]
            line = normal_line(message, play.ending, play.number, wait)
            shown[play.ending.name].logs.append(line)
    return shown


def perform_both(endings: Sequence[Ending], wait: int) -> tuple[dict[str, Shown], dict[str, Shown]]:
    """What mtproxy and HAProxy show, at the same time."""
    with ThreadPoolExecutor(1) as pool:
        theirs = pool.submit(perform, "haproxy", endings, wait)
        mine = perform("mtproxy", endings, wait)
        return mine, theirs.result()


def differences(
    endings: Sequence[Ending], known: Collection[str] = (), pending: Collection[str] = ()
) -> tuple[dict[str, tuple[Shown, Shown]], dict[str, list[str]]]:
    """Play `endings`; those that do not do as they should several times, with longer waits: to
    show the same, or to differ where they are `known` to. Nothing is expected of `pending` ones.

    (endings that differ: ours and HAProxy's; the states that HAProxy logged, by name).
    """
    left = list(endings)
    found: dict[str, tuple[Shown, Shown]] = {}
    states: dict[str, list[str]] = {}
    for wait in WAITS:
        mine, theirs = perform_both(left, wait)
        for e in left:
            states[e.name] = states_of(theirs[e.name])
            found.pop(e.name, None)
            if not mine[e.name].same(theirs[e.name]):
                found[e.name] = mine[e.name], theirs[e.name]
        left = [
            e
            for e in left
            if e.name not in pending
            and ((e.name in found) != (e.name in known) or e.state not in states[e.name])
        ]
        if not left:
            break
    return found, states


def states_of(shown: Shown) -> list[str]:
    """The session states that were logged; one empty one where nothing was."""
    return re.findall(r" (\S{2}(?:--)?) A/", "\n".join(shown.logs)) or [""]
