"""The built-in sampler's client: asks the proxy for stacks (`profile run`), takes them apart.

What comes is described in `sched.sampler.Sampler.take`: faulthandler's dumps with lines that begin
with `@` between them. faulthandler shows at most 100 frames of at most 100 threads, and cuts names
at 500 characters.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

from mtproxy.cli.client import ClientError, ask, connect
from mtproxy.cli.profile.idle import IdleRule, RawFrame
from mtproxy.cli.profile.sources import Sources
from mtproxy.cli.profile.stacks import Frame, Profile, Sample, thread_order

#: format of the stream that is understood
FORMAT = 1

_THREAD = re.compile(r"(Current thread|Thread) 0x([0-9a-f]+)")
_FRAME = re.compile(r'  File (?:"(.*)"|\?\?\?), line (\d+|\?\?\?) in (.*)')
#: bytes that are kept until the session has ended: to read them takes CPU time, which the proxy may
#: need meanwhile
_MAX_WAITING = 64 << 20
#: seconds without anything before the proxy is given up
_SILENCE = 15.0


class Reader:
    """Takes the lines of a session, one by one; `result` is what they say."""

    def __init__(self, sources: Callable[[str], Sources]) -> None:
        """`sources` makes what names functions, of the proxy's root folder."""
        self._make_sources = sources
        self._sources: Sources | None = None
        self.header: dict[str, Any] = {}
        self.names: dict[int, str] = {}
        self.end: dict[str, Any] | None = None
        self.rounds = 0
        self._at = 0.0
        self._is_idle = IdleRule()
        self._profile = Profile("built-in sampler", 0, "")
        self._thread: int | None = None
        self._frames: list[RawFrame] = []
        #: the answer to the command, where it was refused
        self.refusal = ""

    def line(self, text: str) -> None:
        """The next line, without its newline."""
        if text.startswith("@"):
            self._close_thread()
            kind, _, content = text[1:].partition(" ")
            self._control(kind, content)
        elif not self.header:
            self.refusal += text
        elif text.startswith(("Thread ", "Current thread ")):
            self._close_thread()
            found = _THREAD.match(text)
            # the current thread is the sampler's own
            if found is not None and found[1] == "Thread":
                self._thread = int(found[2], 16)
        elif self._thread is not None:
            frame = _FRAME.fullmatch(text)
            if frame is not None:
                line = int(frame[2]) if frame[2].isdigit() else 0
                self._frames.append((frame[1] or "?", line, frame[3]))
            elif text.startswith("  ..."):
                self._frames.append(("", 0, "(deeper)"))

    def _control(self, kind: str, content: str) -> None:
        if kind == "sample":
            self.rounds += 1
            self._at = int(content) / 1e6
        elif kind == "threads":
            self.names.update((int(key), name) for key, name in json.loads(content).items())
        elif kind == "profile":
            self.header = header = json.loads(content)
            if header["format"] != FORMAT:
                raise ClientError(
                    f"the proxy speaks format {header['format']} of profiles, this program {FORMAT}"
                )
            self._is_idle = IdleRule(((f, n) for f, n in header["idle"]), header["pollers"])
            self._sources = self._make_sources(header["root"])
        elif kind == "end":
            self.end = json.loads(content)

    def _close_thread(self) -> None:
        if self._thread is not None and self._frames:
            assert self._sources is not None
            idle = self._is_idle(self._frames)
            stack = tuple(
                self._sources.frame(file, line, name) if file else Frame(name, "", 0)
                for file, line, name in reversed(self._frames)
            )
            name = self.names.get(self._thread, f"thread {self._thread:#x}")
            self._profile.thread(name).samples.append(Sample(self._at, stack, idle))
        self._thread = None
        self._frames = []

    def result(self, seconds: float) -> Profile:
        """What was found; `seconds`: how long it took, where the proxy did not say."""
        self._close_thread()
        profile = self._profile
        profile.pid, profile.python = self.header["pid"], self.header["python"]
        profile.seconds, profile.rounds = seconds, self.rounds
        profile.threads.sort(key=lambda thread: thread_order(thread.name))
        end = self.end
        if end is None:
            profile.notes.append("the session was cut short")
        elif "error" in end:
            raise ClientError(f"the sampler failed: {end['error']}")
        else:
            profile.seconds = end["seconds"]
            if end["dropped"]:
                profile.notes.append(f"{end['dropped']} samples were lost: this client was slow")
            if end["dumps"]:
                profile.notes.append(
                    f"each dump cost the proxy {end['cpu_us'] / end['dumps']:.0f} us of CPU, "
                    f"{end['cpu_us'] / end['seconds'] / 1e4:.1f} % of a CPU in all"
                )
            asked = self.header["rate"]
            actual = end["samples"] / end["seconds"]
            if actual < 0.8 * asked:
                profile.notes.append(
                    f"{actual:.0f} samples/s instead of {asked:g}: more would have cost the proxy "
                    "too much, or it was short of CPUs"
                )
        return profile


def record(
    address: str,
    seconds: float,
    rate: int,
    sources: Callable[[str], Sources],
    progress: Callable[[float, int], None],
    *,
    idle: bool,
) -> Profile:
    """Run a session. Ctrl-C ends it early, with what has come so far. Raises ClientError."""
    reader = Reader(sources)
    begin = time.monotonic()
    with connect(address) as sock:
        sock.settimeout(_SILENCE)
        words = f"profile run {max(1, round(seconds * 1000))}ms {rate}{' idle' if idle else ''}\n"
        sock.sendall(words.encode())
        waiting = bytearray()
        with _ended_by_interrupt(address) as interrupts:
            try:
                _receive(
                    sock, address, reader, waiting, lambda n: progress(time.monotonic() - begin, n)
                )
            except KeyboardInterrupt:  # the second
                del waiting[waiting.rfind(b"\n") + 1 :]
    _read_all(reader, waiting)
    if not reader.header:
        raise ClientError(explain(reader.refusal))
    profile = reader.result(time.monotonic() - begin)
    if interrupts and reader.end:
        profile.notes.append("the session was cut short")
    return profile


@contextlib.contextmanager
def _ended_by_interrupt(address: str) -> Iterator[list[int]]:
    """Ctrl-C asks the proxy to end the session, so that all it has taken still comes; pressed again
    it raises KeyboardInterrupt. The list tells whether it was pressed.

    An exception at the first would lose what had just been received, wherever it struck.
    """
    pressed: list[int] = []

    def on_interrupt(signum: int, _frame: object) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(signum)
        with contextlib.suppress(ClientError):
            ask(address, "profile stop")

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield pressed  # somebody else takes care of it, or nobody is to
        return
    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _receive(
    sock: socket.socket,
    address: str,
    reader: Reader,
    waiting: bytearray,
    progress: Callable[[int], None],
) -> None:
    """Gather what comes in `waiting` until the session ends; what is too much goes to `reader`."""
    rounds = 0
    for data in _pieces(sock, address):
        waiting += data
        rounds += data.count(b"\n@sample ")
        progress(rounds)
        if len(waiting) > _MAX_WAITING:
            end = waiting.rfind(b"\n") + 1
            _read_all(reader, waiting[:end])
            del waiting[:end]


def explain(refusal: str) -> str:
    """What the user can do about a refusal of the proxy's."""
    if refusal.startswith("Permission denied"):
        return "permission denied: profiling needs a runtime socket of 'level admin'"
    if refusal.startswith("Unknown command"):
        return "the program that answers cannot be profiled: its runtime socket knows no 'profile'"
    return refusal.strip() or "the proxy said nothing"


def _pieces(sock: socket.socket, address: str) -> Iterator[bytes]:
    while True:
        try:
            data = sock.recv(1 << 18)
        except TimeoutError:
            raise ClientError(f"{address}: nothing came for {_SILENCE:g} seconds") from None
        except OSError as error:
            raise ClientError(f"{address}: {error}") from None
        if not data:
            return
        yield data


def _read_all(reader: Reader, data: bytearray) -> None:
    for line in data.decode("utf-8", "replace").split("\n"):
        reader.line(line)
