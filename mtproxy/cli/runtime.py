"""The runtime socket's language, without any I/O: sessions, commands, levels, help.

A `CliSession` is fed bytes and gives back answers; `cli.server` moves both over a connection.
Commands come from the tables `COMMANDS` of the modules `commands_*`. A handler gets the session and
the words after the command's own, and returns its answer as a string or as an iterable of strings
(long answers leave in pieces). It raises `CliError` to refuse.

What is compatible with HAProxy (management guide 9.3): commands end with a newline or `;`, a
backslash protects the next character, `<<` at the end of a line announces a payload that ends with
an empty line, every answer ends with an empty line, a session without prompt ends after its
commands, `prompt` keeps it open.

A session belongs to the thread that serves its connection.
"""

from __future__ import annotations

import difflib
import re
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from mtproxy.base.report import say
from mtproxy.cli.known import known_name

if TYPE_CHECKING:
    from mtproxy.sched.context import ThreadContext
    from mtproxy.stats.runtime import Runtime

#: words of a command that count; HAProxy's limit
MAX_WORDS = 64
#: bytes of a command or payload that may wait for their end (tune.bufsize)
MAX_PENDING = 16384
DEFAULT_TIMEOUT_MS = 10_000

#: the end of a line that announces a payload, and the word that ends it (none: an empty line)
_PAYLOAD = re.compile(r"(?:<<|(?:\A|(?<=[ \t]))<<(\S{1,7}))[ \t\r]*\Z")

PROMPT = "> "
PAYLOAD_PROMPT = "+ "

_SEVERITY_NAMES = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
ERR, WARNING, NOTICE, INFO = 3, 4, 5, 6


class Level(IntEnum):
    """What a session may do; the numbers only order the levels."""

    USER = 1
    OPERATOR = 2
    ADMIN = 3


class CliError(Exception):
    """A command is refused. `text` is the answer, one line without its newline."""

    def __init__(self, text: str, severity: int = ERR) -> None:
        super().__init__(text)
        self.text = text
        self.severity = severity


@dataclass(slots=True)
class Pause:
    """A piece of an answer that is a wait: `begin(wake)` makes some thread call `wake()`, once or
    more, when there may be more to say. The server sets `stopped` when the client has ended it; the
    answer then ends. With `any_input` it does so by sending anything, closing its sending side, or
    silence; without, only by closing the connection.
    """

    begin: Callable[[Callable[[], None]], None]
    any_input: bool = True
    stopped: bool = False


type Answer = str | Iterable[str | Pause]
type Handler = Callable[[CliSession, list[str]], Answer]


@dataclass(frozen=True, slots=True)
class Command:
    """One entry of a command table. `usage` and `help` are what `help` shows.

    `level` is needed to run it; a handler may ask for more by `CliSession.need`.
    """

    words: tuple[str, ...]
    usage: str
    help: str
    level: Level
    handler: Handler

    def line(self) -> str:
        """Its line in the list of commands."""
        return f"  {self.usage:<40}: {self.help}\n"


class CommandTable:
    """All commands of the program. Immutable after its making; shared by all sessions."""

    def __init__(self, commands: Iterable[Command]) -> None:
        ordered = sorted(commands, key=lambda c: (c.words in _LAST, c.words))
        self.commands = tuple(ordered)
        self._by_words = {c.words: c for c in self.commands}
        if len(self._by_words) != len(self.commands):
            raise ValueError("two commands have the same words")
        self._longest = max(len(c.words) for c in self.commands)

    def find(self, words: Sequence[str]) -> Command | None:
        """The command with the most leading words in common, all of its own included."""
        for length in range(min(self._longest, len(words)), 0, -1):
            command = self._by_words.get(tuple(words[:length]))
            if command is not None:
                return command
        return None

    def allowed(self, level: Level) -> list[Command]:
        """The commands that a session of `level` may run."""
        return [c for c in self.commands if c.level <= level]

    def beginning_with(self, words: Sequence[str], level: Level) -> list[Command]:
        """Allowed commands whose words begin like `words`, the last one perhaps cut short."""
        if not words:
            return self.allowed(level)
        *whole, last = words
        found = []
        for command in self.allowed(level):
            own = command.words
            if len(own) >= len(words) and list(own[: len(whole)]) == whole:
                if own[len(whole)].startswith(last):
                    found.append(command)
            elif tuple(words[: len(own)]) == own:  # the rest are arguments
                found.append(command)
        return found

    def resembling(self, words: Sequence[str], level: Level) -> list[Command]:
        """At most 10 allowed commands that `words` may have been meant for, best first."""
        close = self.beginning_with(words, level)
        if close:
            return close
        typed = " ".join(words[: self._longest]).lower()
        scored = []
        for command in self.allowed(level):
            own = " ".join(command.words)
            score = max(
                difflib.SequenceMatcher(None, typed, own).ratio(),
                difflib.SequenceMatcher(None, words[0].lower(), command.words[0]).ratio() - 0.1,
            )
            if score >= 0.6:
                scored.append((-score, own, command))
        scored.sort(key=lambda entry: entry[:2])
        return [command for _, _, command in scored[:10]]


_LAST = frozenset({("help",), ("prompt",), ("quit",)})


class CliSession:
    """One connection to the runtime socket.

    `timeout_ms` is how long the connection may be silent; the server reads it before every wait.
    """

    def __init__(
        self,
        runtime: Runtime,
        ctx: ThreadContext,
        commands: CommandTable,
        level: Level = Level.OPERATOR,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> None:
        self.runtime = runtime
        self.ctx = ctx
        self.commands = commands
        self.level = level
        self.timeout_ms = timeout_ms
        #: the connection stays open after the answers
        self.interactive = False
        #: `interactive`, and a prompt is shown
        self.prompt = False
        #: the prompt tells how long the program has been running
        self.timed = False
        #: `experimental-mode on`
        self.experimental = False
        #: `expert-mode on`
        self.expert = False
        #: "none", "number" or "string": whether messages begin with their severity
        self.severity_output = "none"
        #: the connection is to be closed once the current answer has left
        self.closing = False
        #: the current command gets no answer at all, not even the empty line
        self.silent = False
        #: at least one command was answered
        self.answered = False
        #: the payload of the current command, None when it has none
        self.payload: str | None = None
        self._pending = bytearray()
        self._awaiting_payload: str | None = None
        #: the line that ends it
        self._payload_end = b""
        #: lines for which the prompt of a payload is to be shown, and those for which it was
        self.payload_prompts = 0
        self._prompted = 0

    # --- input
    def feed(self, data: bytes) -> None:
        """Take bytes from the connection."""
        self._pending += data

    def discard_input(self) -> None:
        """Forget the commands that were received and not answered yet."""
        self._pending.clear()
        self._awaiting_payload = None

    @property
    def pending(self) -> bool:
        """Whether the beginning of a command waits for its end."""
        return bool(self._pending) or self.awaiting_payload

    @property
    def awaiting_payload(self) -> bool:
        """Whether a command has come whose payload is not complete."""
        return self._awaiting_payload is not None

    def next_command(self) -> str | None:
        """The next whole command, None if more bytes are needed. Its payload, if any, is in
        `payload`.
        """
        if self._awaiting_payload is not None:
            return self._finish_payload(self._awaiting_payload)
        end = self._end_of_command()
        if end is None:
            if len(self._pending) > MAX_PENDING:
                self._pending.clear()
                self.closing = True
                return ""
            return None
        at_newline = self._pending[end : end + 1] == b"\n"
        line = self._pending[:end].decode("utf-8", "surrogateescape")
        del self._pending[: end + 1]
        self.payload = None
        announced = _PAYLOAD.search(line) if at_newline else None
        if announced is not None:
            self._payload_end = (announced[1] or "").encode("utf-8", "surrogateescape")
            return self._finish_payload(line[: announced.start()])
        return line

    def _end_of_command(self) -> int | None:
        """Where the first newline or unprotected `;` stands."""
        pending = self._pending
        at = 0
        while True:
            newline = pending.find(b"\n", at)
            semicolon = pending.find(b";", at, newline if newline >= 0 else len(pending))
            if semicolon < 0:
                return newline if newline >= 0 else None
            backslashes = 0
            while semicolon > backslashes and pending[semicolon - 1 - backslashes] == 0x5C:
                backslashes += 1
            if backslashes % 2 == 0:
                return semicolon
            at = semicolon + 1

    def _finish_payload(self, command: str) -> str | None:
        """Take the payload if its empty line has come; otherwise remember that we wait for it."""
        pending = self._pending
        last = self._payload_end + b"\n"
        if pending.startswith(last):
            end, after = 0, len(last)
        else:
            end = pending.find(b"\n" + last)
            after = end + 1 + len(last)
        # the line of the command, and each one behind it but the last
        lines = 1 + (pending.count(b"\n") if end < 0 else pending.count(b"\n", 0, end) + bool(end))
        self.payload_prompts = lines - self._prompted
        self._prompted = 0 if end >= 0 else lines
        if end < 0:
            self._awaiting_payload = command
            if len(pending) > MAX_PENDING:
                pending.clear()
                self._awaiting_payload = None
                self.closing = True
                return ""
            return None
        self._awaiting_payload = None
        self.payload = pending[:end].decode("utf-8", "surrogateescape")
        del pending[:after]
        return command

    # --- output
    def answer(self, command: str) -> Generator[str | Pause]:
        """Run one command; yields its answer in pieces, the last of which ends with the empty line
        (and the prompt). Nothing is yielded by a command that just closes the connection. Closing
        it closes the handler's generator.
        """
        self.answered = True
        try:
            if self.closing:
                raise CliError(f"Command too long: at most {MAX_PENDING} bytes, closing.")
            result = self._run(command)
            if isinstance(result, str):
                yield result
            else:
                yield from result
        except CliError as error:
            yield self.severity_prefix(error.severity) + error.text + "\n"
        except Exception as error:  # noqa: BLE001  # one command's bug must not end the proxy
            say(
                "alert",
                f"runtime command {command!r} failed unexpectedly. "
                f"Please report this:\n{traceback.format_exc()}",
            )
            yield f"Internal error: {type(error).__name__}: {error}\n"
        if self.silent:
            return
        yield "\n" + (self._prompt() if self.prompt else "")

    def _prompt(self) -> str:
        """The prompt; HAProxy's since 2.9 where it is timed."""
        if not self.timed:
            return PROMPT
        seconds = int(time.monotonic() - self.runtime.started_monotonic)
        minutes, hours = seconds // 60, seconds // 3600
        return f"[{hours // 24}:{hours % 24:02d}:{minutes % 60:02d}:{seconds % 60:02d}]{PROMPT}"

    def _run(self, line: str) -> Answer:
        words = split_words(line)
        command = self.commands.find(words)
        if command is None:
            return self.unknown(words)
        self.need(command.level)
        return command.handler(self, words[len(command.words) :])

    def need(self, level: Level) -> None:
        """Raise CliError unless the session has at least `level`."""
        if self.level < level:
            raise CliError("Permission denied")

    def severity_prefix(self, severity: int) -> str:
        """What `set severity-output` puts before a message."""
        match self.severity_output:
            case "number":
                return f"[{severity}]: "
            case "string":
                return f"[{_SEVERITY_NAMES[severity]}]: "
            case _:
                return ""

    def unknown(self, words: Sequence[str]) -> str:
        """The answer to words that are no command."""
        name = known_name(words)
        if name is not None:
            return (
                f"{self.severity_prefix(ERR)}Unsupported command: HAProxy's '{name}' is known but "
                "not supported by mtproxy yet; 'help' lists what is.\n"
            )
        close = self.commands.resembling(words, self.level) if words else []
        # HAProxy's words: scripts look for them
        if words:
            head = "Unknown command, but maybe one of the following ones is a better match:\n"
        else:
            head = "Unknown command. Please enter one of the following commands only:\n"
        if close:
            shown = [c for c in close if c.words not in _LAST]
            shown += [c for c in self.commands.commands if c.words in _LAST]
        else:
            shown = self.commands.allowed(self.level)
        return self.severity_prefix(INFO) + head + "".join(c.line() for c in shown)

    def help(self, words: Sequence[str]) -> str:
        """The answer to `help [words]`."""
        shown = self.commands.beginning_with(words, self.level)
        if not shown and known_name(words) is None:
            shown = self.commands.resembling(words, self.level) if words else []
        if not shown:
            return self.unknown(words)
        head = f"{self.severity_prefix(INFO)}The following commands are valid at this level:\n"
        return head + "".join(c.line() for c in shown)


def split_words(line: str) -> list[str]:
    """The words of a command: separated by blanks, a backslash takes the next character as it is.

    A NUL ends the line, as it does in a C string; words beyond the 64th are ignored.
    """
    words: list[str] = []
    current: list[str] | None = None
    characters = iter(line.partition("\0")[0])
    for c in characters:
        if c in " \t\r":
            if current is not None:
                words.append("".join(current))
                current = None
            continue
        if current is None:
            current = []
        if c == "\\":
            c = next(characters, "\\")
        current.append(c)
    if current is not None:
        words.append("".join(current))
    return words[:MAX_WORDS]
