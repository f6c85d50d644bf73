"""The bed: many cases in one configuration, run by one program, and what each of them showed.

`run(program, cases)` starts the program once and gives every case a `Seen`: the bytes that its
client got, the bytes that the origin got, its log lines, the answers of the runtime socket. What
must differ between two runs (dates, ports, pids, timers, uuids) is replaced by its name.
`verdicts(program, cases)` only asks what the program says of each case's configuration.

A bed belongs to one thread; two beds may run at the same time.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Self

from mtproxy.base.commandline import CommandLine
from mtproxy.cli.check import check_configuration
from mtproxy.testing.program import Program, command_of, environment
from mtproxy.testing.wire import PeerClosed
from tests.differential.case import Case
from tests.differential.wire import Client, Origin, Script, merge_chunks, quiet_datagrams

#: how long no log line must come until all are thought to be there, in seconds
QUIET = 0.3

_PREFACE = """\
global
    nbthread 1
    maxconn 1000
    tune.bufsize 16384
    log 127.0.0.1:{log} format rfc3164 local0
{settings}
defaults
    mode http
    log global
    timeout connect 2s
    timeout client 4s
    timeout server 4s
    timeout http-keep-alive 4s
    retries 1
{sections}
"""
_DEFAULT_LOG = re.compile(
    r"^\s*(log-format|log-format-sd|option (tcp|http|https)log)\b", re.MULTILINE
)
_DEFAULT_BACKEND = re.compile(r"^\s*default_backend\b", re.MULTILINE)
_SERVER = re.compile(r"^\s*(server |dispatch )", re.MULTILINE)


#: a case with its number, which makes the names of its sections and is the same for both programs
type Numbered = tuple[int, Case]


@dataclass(slots=True)
class Seen:
    """What one case showed: everything is compared."""

    answers: list[bytes] = field(default_factory=list)
    forwarded: list[bytes] = field(default_factory=list)
    logs: list[bytes] = field(default_factory=list)
    runtime: list[str] = field(default_factory=list)
    #: why the case could not run: the configuration was refused (that, not the words, is compared)
    refused: str = field(default="", compare=False)

    def same(self, other: Seen) -> bool:
        """Two refusals are the same whatever their words are."""
        return self == other and bool(self.refused) == bool(other.refused)

    def __str__(self) -> str:
        if self.refused:
            return f"    refused: {self.refused}"
        lines = [f"    answer    {data!r}" for data in self.answers]
        lines += [f"    forwarded {data!r}" for data in self.forwarded]
        lines += [f"    log       {data!r}" for data in self.logs]
        lines += [f"    runtime   {text!r}" for text in self.runtime]
        return "\n".join(lines) or "    nothing"


def _case_text(case: Case, number: int) -> str:
    mode = "tcp" if case.tcp else "http"
    front = [f'frontend c{number}\n    mode {mode}\n    bind "fd@${{c{number}}}"']
    front.append(f"    log-tag c{number}")
    if not _DEFAULT_LOG.search(case.front):
        front.append(f"    option {mode}log")
    front += [f"    {line.strip()}" for line in case.front.splitlines()]
    if not _DEFAULT_BACKEND.search(case.front):
        front.append("    default_backend @B@")
    back = [f"backend @B@\n    mode {mode}"]
    back += [f"    {line.strip()}" for line in case.back.splitlines()]
    if not _SERVER.search(case.back):
        back.append("    server s1 @ORIGIN@")
    return "\n".join(front + back)


def configuration(cases: Sequence[Numbered], directory: str, origin: int, log: int) -> str:
    """All cases in one configuration; their files are written to `directory`."""
    sections: list[str] = []
    settings: list[str] = []
    texts: list[str] = []
    for number, case in cases:
        folder = f"{directory}/{number}"
        if case.files:
            os.makedirs(folder, exist_ok=True)
        values = {
            "@N@": str(number),
            "@B@": f"b{number}",
            "@DIR@": folder,
            "@ORIGIN@": f"127.0.0.1:{origin}",
            "@PORT@": str(origin),
        }

        def fill(text: str, values: dict[str, str] = values) -> str:
            return re.sub("@[A-Z]+@", lambda m: values.get(m[0], m[0]), text)

        for name, content in case.files.items():
            Path(folder, name).write_text(fill(content), encoding="latin-1")
        sections.append(fill(case.sections))
        settings.append(fill(case.settings))
        texts.append(fill(_case_text(case, number)))
    preface = _PREFACE.format(
        log=log, settings="\n".join(filter(None, settings)), sections="\n".join(sections)
    )
    return preface + "\n".join(texts) + "\n"


# -- what must differ

_DATE = re.compile(rb"\[?\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d(?:\.\d{3})?(?: [+-]\d{4})?\]?")
_UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_HTTP_TIMERS = re.compile(rb"( \S+ [^\s/]+/\S+ )(-?\d+(?:/\+?-?\d+){2,4}) ")
#: `status bytes` of httplog. HAProxy 2.6 counts the bytes of its own form of a message (HTX), which
#: nobody else can; we count those on the wire.
_BYTES = re.compile(rb"(/\+?T -?\d+ )\+?\d+ (?=\S+ \S+ \S{4} )")
_CONNECTIONS = re.compile(rb" (\d+)/(\d+/\d+/\d+/\+?\d+ \d+/\d+)")
_SYSLOG = re.compile(
    rb"<(\d+)>\w{3} [ \d]\d \d\d:\d\d:\d\d (?:\S+ )?([^\[\s]+)\[(\d+)\]: ", re.DOTALL
)


def _timers(match: re.Match[bytes]) -> bytes:
    return match[1] + re.sub(rb"(?<![-\d])\d+", b"T", match[2]) + b" "


class Names:
    """Replaces the numbers of one run by their names."""

    def __init__(self, numbers: dict[int, str], hide: Sequence[str]) -> None:
        self._numbers = {str(number).encode(): name.encode() for number, name in numbers.items()}
        words = b"|".join(sorted(self._numbers, key=len, reverse=True))
        self._pattern = re.compile(rb"(?<!\d)(?:" + (words or b"(?!)") + rb")(?!\d)")
        self._hide = [re.compile(pattern.encode("latin-1")) for pattern in hide]

    def bytes(self, data: bytes) -> bytes:
        data = self._pattern.sub(lambda m: self._numbers[m[0]], data)
        data = _UUID.sub(b"UUID", data)
        for pattern in self._hide:
            data = pattern.sub(b"~", data)
        return merge_chunks(data)

    def log(self, data: bytes) -> bytes:
        """A message without its syslog header but with its priority."""
        header = _SYSLOG.match(data)
        text = b"<" + header[1] + b">" + data[header.end() :] if header else data
        text = _DATE.sub(b"DATE", text.rstrip(b"\n"))
        text = _HTTP_TIMERS.sub(_timers, text, count=1)
        text = _BYTES.sub(rb"\1B ", text, count=1)
        text = _CONNECTIONS.sub(rb" A/\2", text, count=1)
        return self.bytes(text)


# -- running


class Bed:
    """One program on one configuration with an origin and a log server; a context manager."""

    def __init__(self, program: str, cases: Sequence[Numbered]) -> None:
        self.cases = cases
        self.origin = Origin()
        self.sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._messages: list[bytes] = []
        self.sink.bind(("127.0.0.1", 0))
        self._files = tempfile.TemporaryDirectory(prefix="mtd", dir="/tmp")
        os.chmod(self._files.name, 0o755)
        text = configuration(cases, self._files.name, self.origin.port, self.sink.getsockname()[1])
        self.program = Program(program, text)
        self.directory = self._files.name

    def __enter__(self) -> Self:
        self.program.start()
        try:
            self.program.wait_ready()
        except PeerClosed:
            output = self.program.output()
            self.close()
            raise RuntimeError(f"ended while it started:\n{output}") from None
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.program.kill()
        self.program._dir.cleanup()
        self.origin.close(quiet=True)
        self.sink.close()
        self._files.cleanup()

    def play(self, number: int, case: Case) -> tuple[Seen, Names]:
        """One case to its end, but for the log lines."""
        script = self.origin.script = Script(case.answers, case.tcp)
        address = self.program.address(f"c{number}")
        client = Client(address, case.patience)
        seen = Seen()
        for position, data in enumerate(case.requests):
            data = data.replace(b"@PORT@", str(self.origin.port).encode())
            if case.leaves:
                client.leave(data)
            elif case.tcp:
                client.exchange(data)
            else:
                client.ask(data)
                if case.fresh:
                    client.close()
            if position == 0:
                seen.runtime += [self._command(number, command) for command in case.commands]
        client.close()
        numbers = {address[1]: "FRONTPORT", self.origin.port: "ORIGINPORT"}
        numbers[self.program.pid] = "PID"
        with script.lock:
            numbers |= dict.fromkeys(script.ports, "BACKPORT")
            # A connection that was made in vain, or that ended before it was used, says nothing.
            forwarded = [data for data in script.heard if data]
        numbers |= dict.fromkeys(client.ports, "CLIENTPORT")
        # What the client itself sent is no number of this run.
        sent = b" ".join(case.requests)
        numbers = {n: name for n, name in numbers.items() if str(n).encode() not in sent}
        names = Names(numbers, (re.escape(self.directory), *case.hide))
        seen.answers = [names.bytes(data) for data in client.heard]
        seen.forwarded = [names.bytes(data) for data in forwarded]
        seen.runtime = [names.bytes(text.encode()).decode() for text in seen.runtime]
        return seen, names

    def _command(self, number: int, command: str) -> str:
        folder = f"{self.directory}/{number}"
        command = command.replace("@N@", str(number)).replace("@DIR@", folder)
        command = command.replace("@B@", f"b{number}")
        answer = self.program.cli(command)
        return re.sub(r"0x[0-9a-f]+", "0xPOINTER", answer)

    def drain(self) -> None:
        """Take what the log server has got: its buffer holds some 150 messages only."""
        self.sink.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self._messages.append(self.sink.recv(65536))

    def logs(self) -> dict[str, list[bytes]]:
        """All log messages by the tag of their case."""
        found: dict[str, list[bytes]] = {}
        for data in self._messages + quiet_datagrams(self.sink, QUIET):
            header = _SYSLOG.match(data)
            tag = header[2].decode() if header else "?"
            found.setdefault(tag, []).append(data)
        return found


def run(program: str, numbered: Sequence[Numbered]) -> dict[str, Seen]:
    """Every case's `Seen` by name. Raises RuntimeError when the program does not start."""
    found: dict[str, Seen] = {}
    names: dict[str, tuple[str, Names]] = {}
    with Bed(program, numbered) as bed:
        for number, case in numbered:
            if not bed.program.alive():
                found[case.name] = Seen(refused=f"the program ended: {bed.program.output()[-800:]}")
                continue
            found[case.name], name = bed.play(number, case)
            names[f"c{number}"] = case.name, name
            bed.drain()
        for tag, messages in bed.logs().items():
            if tag in names:
                name, replace = names[tag]
                found[name].logs = [replace.log(message) for message in messages]
    return found


# -- load-time verdicts


#: the exit code and the word that stand for an exception while a configuration is loaded
TRACEBACK = 70
TRACEBACK_WORD = "TRACEBACK"


def ask_ours(path: str) -> tuple[int, str]:
    """Within this process: a start of the program would cost 30 times as much."""
    output = StringIO()
    try:
        code = check_configuration(CommandLine(paths=(path,), check=True), output)
    except Exception as error:  # noqa: BLE001 - a traceback is what the bed looks for
        return TRACEBACK, f"[ALERT] {TRACEBACK_WORD}: {error!r}"
    return code, output.getvalue()


def _ask_haproxy(path: str) -> tuple[int, str]:
    command = [*command_of("haproxy"), "-c", "-f", path]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=60,
        env=environment(),
    )
    return done.returncode, done.stderr


_ASK: dict[str, Callable[[str], tuple[int, str]]] = {
    "mtproxy": ask_ours,
    "haproxy": _ask_haproxy,
}


def load_verdict(program: str, text: str) -> tuple[int, str]:
    """Exit code and output of the program's look at a configuration that binds inherited sockets."""
    text = re.sub(r'"fd@\$\{(\w+)\}"', r"unix@/tmp/none-\1", text)
    with tempfile.TemporaryDirectory(prefix="mtd", dir="/tmp") as directory:
        path = Path(directory, "case.cfg")
        path.write_text(text, errors="surrogateescape")
        code, output = _ASK[program](str(path))
        return code, output.replace(directory, "")


def _check(program: str, cases: Sequence[Numbered]) -> tuple[int, str, list[str]]:
    """Exit code, alerts (with line numbers), and the configuration's lines."""
    with tempfile.TemporaryDirectory(prefix="mtd", dir="/tmp") as directory:
        text = configuration(cases, directory, 1, 1)
        text = re.sub(r'"fd@\$\{c(\d+)\}"', r"unix@/tmp/none-c\1", text)
        path = Path(directory, "case.cfg")
        path.write_text(text, errors="surrogateescape")
        code, output = _ASK[program](str(path))
        return code, output.replace(directory, ""), text.split("\n")


def _alert(output: str, code: int) -> str:
    alerts = [line for line in output.splitlines() if "[ALERT]" in line]
    return alerts[0].partition("[ALERT]")[2].strip()[:300] if alerts else f"exit {code}"


def refusals(program: str, cases: Sequence[Case]) -> dict[str, str]:
    """Why the program refuses the configuration of a case, for each that it refuses."""
    found: dict[str, str] = {}
    left = list(enumerate(cases))
    while left:
        code, output, lines = _check(program, left)
        if code == 0:
            return found
        owners: dict[int, int] = {}
        owner = -1
        for position, line in enumerate(lines, 1):
            if begin := re.match(r"frontend c(\d+)$", line):
                owner = int(begin[1])
            owners[position] = owner
        guilty: dict[int, str] = {}
        for line in output.splitlines():
            if "[ALERT]" not in line:
                continue
            at = re.search(r"case\.cfg:(\d+)", line)
            owner = owners.get(int(at[1]), -1) if at else -1
            named = re.search(r"'[bc](\d+)'", line)
            if owner < 0 and named:
                owner = int(named[1])
            if owner >= 0:
                guilty.setdefault(owner, line.partition("[ALERT]")[2].strip()[:300])
        if not guilty and len(left) == 1:
            guilty[left[0][0]] = _alert(output, code)
        if not guilty:
            for number, case in left:
                code, output, _ = _check(program, [(number, case)])
                if code:
                    guilty[number] = _alert(output, code)
        if not guilty:
            raise RuntimeError(f"{program} refuses the cases together but none alone:\n{output}")
        found |= {case.name: guilty[number] for number, case in left if number in guilty}
        left = [(number, case) for number, case in left if number not in guilty]
    return found


def _run_halves(program: str, cases: Sequence[Numbered]) -> dict[str, Seen]:
    """As `run`, and where the program does not start, which cases it was."""
    if not cases:
        return {}
    try:
        return run(program, cases)
    except RuntimeError as error:
        if len(cases) == 1:
            why = str(error).strip().splitlines()[-1]
            return {cases[0][1].name: Seen([f"<DOES NOT START: {why}>".encode()])}
        middle = len(cases) // 2
        first = _run_halves(program, cases[:middle])
        return first | _run_halves(program, cases[middle:])


def run_accepted(program: str, cases: Sequence[Case]) -> dict[str, Seen]:
    """As `run`; a case whose configuration is refused does not stop the others."""
    refused = refusals(program, cases)
    rest = [(n, case) for n, case in enumerate(cases) if case.name not in refused]
    seen = _run_halves(program, rest)
    for name, why in refused.items():
        broken = why.startswith(TRACEBACK_WORD)
        seen[name] = Seen([why.encode()]) if broken else Seen(refused=why)
    return seen


def run_both(cases: Sequence[Case]) -> tuple[dict[str, Seen], dict[str, Seen]]:
    """What mtproxy and HAProxy show, at the same time."""
    with ThreadPoolExecutor(1) as pool:
        theirs = pool.submit(run_accepted, "haproxy", cases)
        mine = run_accepted("mtproxy", cases)
        return mine, theirs.result()


def differences(cases: Sequence[Case]) -> dict[str, tuple[Seen, Seen]]:
    """The cases that differ: ours and HAProxy's. One that differs is tried again alone, because a
    busy machine stalls now and then; what differs twice counts.
    """
    mine, theirs = run_both(cases)
    again = [case for case in cases if not mine[case.name].same(theirs[case.name])]
    runnable = [c for c in again if not (mine[c.name].refused or theirs[c.name].refused)]
    if runnable:
        second, reference = run_both(runnable)
        mine |= second
        theirs |= reference
    return {
        case.name: (mine[case.name], theirs[case.name])
        for case in again
        if not mine[case.name].same(theirs[case.name])
    }
