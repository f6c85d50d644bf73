"""Loggers: from a record to the senders of a frontend, and plain messages for state changes.

`ThreadLogs` holds what one thread needs for logging: date caches and one open target per address,
shared by all frontends of that thread. `make_logger` builds a frontend's logger from it as one
generated function. Everything here belongs to the thread that made it; only `ThreadLogs.dropped`
and `.sent` are read by others.

Levels (manual 8.1, 8.3.3): traffic is sent at `info`; with `option log-separate-errors` a
transaction that failed, was retried or ended with a 5xx status at `err`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from time import time
from typing import TYPE_CHECKING, Any, Protocol

from mtproxy.base.log_settings import LogSettings
from mtproxy.log import sampling, syslog, targets
from mtproxy.log.function import NO_DATA, Line, generate, log_nothing
from mtproxy.log.ring import Ring, RingTarget
from mtproxy.rules.keeping import unique_id
from mtproxy.rules.logformat import code
from mtproxy.rules.logformat.aliases import NUMBER
from mtproxy.rules.logformat.dates import LineDates
from mtproxy.rules.logformat.grammar import parse_pieces
from mtproxy.rules.logformat.record import LogRecord
from mtproxy.rules.logformat.strings import sample_texts

if TYPE_CHECKING:
    from mtproxy.base.ruleset import Format
    from mtproxy.rules.build import Build

DEFAULT_FACILITY = "local0"
DEFAULT_TAG = "mtproxy"
#: `len` of a `log` line that has none
DEFAULT_LENGTH = 1024


#: formats by the name of the option that chooses them
NAMED_FORMATS = {
    "httplog": code.HTTPLOG,
    "httplog-clf": code.CLFLOG,
    "httpslog": code.HTTPSLOG,
    "tcplog": code.TCPLOG,
}


class HasTid(Protocol):
    """The one thing a logger wants from a ThreadContext."""

    tid: int


class ThreadLogs:
    """The log targets and date caches of one thread. `ctx` is None in a process without a pool.

    `hostname` is the value of `log-send-hostname`: None without it, "" for the host's own name.
    `rings` are those of the process by name.
    """

    def __init__(
        self,
        ctx: HasTid | None = None,
        *,
        hostname: str | None = None,
        rings: Mapping[str, Ring] | None = None,
        longest: int = DEFAULT_LENGTH,
    ) -> None:
        """`longest`: the greatest `len` of all `log` lines of the configuration."""
        self.rings = rings or {}
        self.longest = longest
        self.tid = 0 if ctx is None else ctx.tid
        #: the name that syslog heads carry; "" for none
        self.hostname = "" if hostname is None else hostname or socket.gethostname()
        self.dates = LineDates()
        #: lines wait for `flush`; without a loop nobody would call it
        self.batched = ctx is not None
        #: messages that came in for `log-forward` sections; other threads may read it
        self.received = 0
        self._targets: dict[object, targets.LogTarget] = {}

    def target(self, log: LogSettings) -> targets.LogTarget:
        """The open target of `log`; two `log` lines with the same address share one. Raises
        OSError.
        """
        key = ("ring", log.ring) if log.ring is not None else log.stdio or log.address
        target = self._targets.get(key)
        if target is None:
            if log.ring is None:
                target = targets.open_target(log)
            else:
                target = RingTarget(self.rings[log.ring], self.tid)
            self._targets[key] = target
        return target

    def sink(self, name: str) -> Callable[[str], None]:
        """The function that writes a text to a ring, "stdout" or "stderr". Owner thread.

        Rings put their format's head before it, with severity and facility 0. Raises OSError.
        """
        ring = self.rings.get(name)
        if ring is None:
            target = self.target(LogSettings(None, stdio=name))
            return lambda text: target.send(text.encode("utf-8", "surrogateescape") + b"\n")
        target = self.target(LogSettings(None, ring=name))
        head_now = syslog.HeadWriter(ring.format, 0, "-", 0, self.hostname).head_now
        most = ring.maxlen

        def write(text: str) -> None:
            target.send((head_now(0) + text).encode("utf-8", "surrogateescape")[:most])

        return write

    def flush(self) -> None:
        """Send what the turn has logged. Owner thread, at the end of each turn of its loop."""
        for target in self._targets.values():
            if target.waiting:
                target.flush()

    @property
    def dropped(self) -> int:
        """Messages lost so far on all targets of this thread."""
        return sum(t.dropped for t in list(self._targets.values()))

    def dropped_on(self, name: str) -> int:
        """Messages lost so far on targets of this name. Any thread."""
        return sum(t.dropped for t in list(self._targets.values()) if t.name == name)

    @property
    def sent(self) -> int:
        """Messages handed to the kernel so far by this thread."""
        return sum(t.sent for t in list(self._targets.values()))

    def close(self) -> None:
        for target in self._targets.values():
            target.close()
        self._targets.clear()


class Sender:
    """One `log` line of one proxy on one thread: its filter, head and target."""

    __slots__ = (
        "_heads",
        "dress",
        "facility",
        "foreign",
        "level",
        "maximum",
        "minimum",
        "target",
        "whole",
    )

    def __init__(
        self,
        log: LogSettings,
        tag: str,
        pid: int,
        hostname: str,
        target: targets.LogTarget,
        longest: int = DEFAULT_LENGTH,
    ) -> None:
        self.facility = facility = syslog.facility_number(log.facility or DEFAULT_FACILITY)
        #: less important messages are not sent
        self.level = syslog.level_number(log.level)
        #: more important ones are sent as this level
        self.minimum = syslog.level_number(log.minlevel)
        # As HAProxy counts: on a descriptor the newline is one of the `len` bytes, in a datagram it
        # comes on top. Texts are made in a buffer of the longest `len`, which ends with a NUL.
        #: bytes before the newline; for a ring those of the text alone
        self.maximum = log.length - isinstance(target, targets.StreamTarget)
        #: the same for what brings its own head
        self.foreign = self.maximum
        #: into a ring: bytes of head and text; 0 elsewhere
        self.whole = 0
        if isinstance(target, RingTarget) or log.format == "raw":
            self.maximum = min(self.maximum, longest - 1)
        if isinstance(target, RingTarget):
            log = replace(log, format=target.ring.format)
            self.whole = target.ring.maxlen
        # log-send-hostname makes rfc3164 the default (manual, `log`)
        head_format = log.format or ("rfc3164" if hostname else "local")
        self._heads = syslog.HeadWriter(head_format, facility, tag, pid, hostname)
        self.target = target
        #: senders with the same one send the same bytes
        self.dress = (head_format, facility, tag, self.minimum, self.maximum, self.whole)

    @property
    def precise(self) -> bool:
        return self._heads.precise

    @property
    def structured(self) -> bool:
        """Its heads end with structured data (RFC 5424)."""
        return self._heads.structured

    def wants(self, level: int) -> bool:
        return level <= self.level

    def head(self, level: int, now: float) -> str:
        return self._heads.head(max(level, self.minimum), now)

    def send(self, level: int, text: str, structured: str = "") -> None:
        """Send `text` (without newline) at `level` if the line asks for that level.

        `structured`: what stands for the structured data of a head that has such.
        """
        if level > self.level:
            return
        head, limit = self.head(level, time()), self.maximum
        if structured and self.structured:
            head = head[: -len(NO_DATA)] + structured
        if self.whole:
            message = head.encode("utf-8", "surrogateescape")
            message += text.encode("utf-8", "surrogateescape")[:limit]
            self.target.send(message[: self.whole])
        else:
            message = (head + text).encode("utf-8", "surrogateescape")
            self.target.send(message[:limit] + b"\n")

    def send_whole(self, head: bytes, text: bytes) -> None:
        """Send what brings its own head, whatever level it has."""
        limit = self.foreign
        if self.whole:
            self.target.send((head + text[:limit])[: self.whole])
        else:
            self.target.send((head + text)[:limit] + b"\n")


def open_senders(
    logs: Iterable[LogSettings], tag: str | None, pid: int, thread_logs: ThreadLogs
) -> list[Sender]:
    """A sender for each `log` line. Raises OSError for an address that cannot be opened."""
    return [
        Sender(
            log,
            tag or DEFAULT_TAG,
            pid,
            thread_logs.hostname,
            thread_logs.target(log),
            thread_logs.longest,
        )
        for log in logs
    ]


def sampling_of(
    logs: Iterable[LogSettings], strategy: str = sampling.DEFAULT_STRATEGY
) -> sampling.Sampling | None:
    """What all threads share of a proxy's `log` lines; None when none of them is sampled."""
    lines = [sampling.Line(syslog.level_number(log.level), log.sample) for log in logs]
    return sampling.make_sampling(lines, strategy)


def send_text(
    senders: Sequence[Sender],
    level: int,
    text: str,
    samples: sampling.ThreadSampling | None = None,
    structured: str = "",
) -> None:
    """Send a message of the program itself (a server's change of state, a start, an error).

    `level` is one of syslog.EMERG … syslog.DEBUG; `text` has no newline at its end.
    """
    skipped = samples.skipped(level) if samples is not None else ()
    for number, sender in enumerate(senders):
        if number not in skipped:
            sender.send(level, text, structured)


class Logger:
    """A frontend's logger on one thread: `logger(record)` writes the line to all its targets.

    The stream asks `logasap` (log when the response head is there) and sets `record.null` for
    `dontlognull`; everything else is decided here.
    """

    __slots__ = ("enabled", "log", "log_unparsed", "logasap", "samples", "senders")

    def __init__(
        self,
        senders: Sequence[Sender],
        log: Callable[[LogRecord], None],
        *,
        logasap: bool,
        samples: sampling.ThreadSampling | None = None,
    ) -> None:
        self.senders = senders
        self.samples = samples
        #: the generated function; hot callers bind it once
        self.log = log
        #: the one for what was no request (`error-log-format`); None: it has no format of its own
        self.log_unparsed: Callable[[LogRecord], None] | None = None
        self.logasap = logasap
        self.enabled = bool(senders)

    def __call__(self, record: LogRecord) -> None:
        self.log(record)

    def text(self, level: int, text: str) -> None:
        send_text(self.senders, level, text, self.samples)


def format_text(name: str, mode: str) -> str:
    """The format behind "httplog", "httplog-clf", "tcplog" or "" (none chosen); any other text is
    a format itself.
    """
    if name:
        return NAMED_FORMATS.get(name, name)
    return code.DEFAULTLOG_HTTP if mode == "http" else code.DEFAULTLOG_TCP


def make_logger(
    logs: Sequence[LogSettings],
    tag: str | None,
    pid: int,
    ctx: HasTid | None,
    *,
    mode: str = "http",
    options: frozenset[str] = frozenset(),
    log_format: str = "",
    formats: Mapping[str, Format] | None = None,
    build: Build | None = None,
    captures: bool = False,
    levels: bool = False,
    uri_length: int = code.DEFAULT_URI_LENGTH,
    thread_logs: ThreadLogs | None = None,
    next_log_number: Callable[[], int] | None = None,
    shared_samples: sampling.Sampling | None = None,
) -> Logger:
    """Build the logger of a frontend for the calling thread.

    `logs`: the frontend's `log` lines with `log global` already replaced by the global ones.
    `log_format`: see `format_text`. `formats`: what `log-format`, `error-log-format` and
    `log-format-sd` were understood as; `build` makes functions of their expressions. `levels`:
    rules may set the level of a transaction, or silence it (`set-log-level`). `options`: names of
    its boolean options, of which logasap, dontlognull, dontlog-normal and log-separate-errors
    matter here. `captures`: whether it has `capture` lines. `uri_length`: tune.http.logurilen.
    `next_log_number`: for %lc, shared by the threads. `shared_samples`: what `sampling_of` made of
    `logs` for all threads; without it this logger samples for itself. Raises FormatError, OSError,
    ValueError.
    """
    thread_logs = thread_logs or ThreadLogs(ctx)
    senders = open_senders(logs, tag, pid, thread_logs)
    logasap = "logasap" in options
    if not senders:
        return Logger((), log_nothing, logasap=logasap)
    samples = None
    if shared_samples is None:
        shared_samples = sampling_of(logs)
    if shared_samples is not None:
        samples = sampling.ThreadSampling(shared_samples, thread_logs.tid)
    formats = formats or {}
    context = code.FormatContext(
        thread_logs.dates,
        pid=pid,
        hostname=thread_logs.hostname or socket.gethostname(),
        uri_length=uri_length,
        next_log_number=next_log_number,
        **({"unique_id": unique_id} if "unique-id-format" in formats else {}),
    )
    names = code.namespace(context)

    def source(name: str, prefix: str) -> str:
        """The expression for the text of a format; what it calls is added to `names`."""
        fmt = formats.get(name)
        if fmt is None:
            return ""
        parts: tuple[Any, ...] = fmt.pieces
        if fmt.samples:
            assert build is not None
            functions = sample_texts(parts, build)
            names.update({prefix + called: one for called, one in functions.items()})
        return code.expression_source(
            parts, logasap=logasap, captures=captures, samples=prefix + "s"
        )

    line = Line(source("log-format", "line_"), levels=levels)
    if not line.text:
        pieces = parse_pieces(format_text(log_format, mode), http=mode == "http")
        line.text = code.expression_source(pieces, logasap=logasap, captures=captures)
    if any(sender.structured for sender in senders):
        line.structured = source("log-format-sd", "data_")
    unparsed = Line(source("error-log-format", "error_"), line.structured, levels=levels)
    line.counts = unparsed.counts = any(NUMBER in text for text in line.texts + unparsed.texts)

    def written(line: Line) -> Callable[[LogRecord], None]:
        return generate(senders, line, names.copy(), options, samples, batched=thread_logs.batched)

    logger = Logger(senders, written(line), logasap=logasap, samples=samples)
    if unparsed.text:
        logger.log_unparsed = written(unparsed)
    return logger


def process_id() -> int:
    """The pid for %pid and the syslog head; asked once at start, after the last fork."""
    return os.getpid()
