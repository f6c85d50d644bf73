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
from collections.abc import Callable, Iterable, Sequence
from time import time
from typing import Any, Protocol

from mtproxy.base.settings import LogSettings
from mtproxy.log import formats, syslog, targets
from mtproxy.log.dates import LineDates
from mtproxy.log.record import LogRecord

DEFAULT_FACILITY = "local0"
DEFAULT_TAG = "mtproxy"


#: formats by the name of the option that chooses them
NAMED_FORMATS = {
    "httplog": formats.HTTPLOG,
    "httplog-clf": formats.CLFLOG,
    "tcplog": formats.TCPLOG,
}


class HasTid(Protocol):
    """The one thing a logger wants from a ThreadContext."""

    tid: int


class ThreadLogs:
    """The log targets and date caches of one thread. `ctx` is None in a process without a pool.

    `hostname` is the value of `log-send-hostname`: None without it, "" for the host's own name.
    """

    def __init__(self, ctx: HasTid | None = None, *, hostname: str | None = None) -> None:
        self.tid = 0 if ctx is None else ctx.tid
        #: the name that syslog heads carry; "" for none
        self.hostname = "" if hostname is None else hostname or socket.gethostname()
        self.dates = LineDates()
        #: lines wait for `flush`; without a loop nobody would call it
        self.batched = ctx is not None
        self._targets: dict[object, targets.LogTarget] = {}

    def target(self, log: LogSettings) -> targets.LogTarget:
        """The open target of `log`; two `log` lines with the same address share one. Raises
        OSError.
        """
        key = log.stdio or log.address
        target = self._targets.get(key)
        if target is None:
            target = self._targets[key] = targets.open_target(log)
        return target

    def flush(self) -> None:
        """Send what the turn has logged. Owner thread, at the end of each turn of its loop."""
        for target in self._targets.values():
            if target.waiting:
                target.flush()

    @property
    def dropped(self) -> int:
        """Messages lost so far on all targets of this thread."""
        return sum(t.dropped for t in list(self._targets.values()))

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

    __slots__ = ("_heads", "level", "maximum", "minimum", "target")

    def __init__(
        self, log: LogSettings, tag: str, pid: int, hostname: str, target: targets.LogTarget
    ) -> None:
        facility = syslog.facility_number(log.facility or DEFAULT_FACILITY)
        #: less important messages are not sent
        self.level = syslog.level_number(log.level)
        #: more important ones are sent as this level
        self.minimum = syslog.level_number(log.minlevel)
        #: bytes, newline included
        self.maximum = log.length
        # log-send-hostname makes rfc3164 the default (manual, `log`)
        head_format = "rfc3164" if hostname and log.format == "local" else log.format
        self._heads = syslog.HeadWriter(head_format, facility, tag, pid, hostname)
        self.target = target

    @property
    def precise(self) -> bool:
        return self._heads.precise

    def wants(self, level: int) -> bool:
        return level <= self.level

    def head(self, level: int, now: float) -> str:
        return self._heads.head(max(level, self.minimum), now)

    def send(self, level: int, text: str) -> None:
        """Send `text` (without newline) at `level` if the line asks for that level."""
        if level > self.level:
            return
        message = (self.head(level, time()) + text).encode("utf-8", "surrogateescape")
        self.target.send(message[: self.maximum - 1] + b"\n")


def open_senders(
    logs: Iterable[LogSettings], tag: str | None, pid: int, thread_logs: ThreadLogs
) -> list[Sender]:
    """A sender for each `log` line. Raises OSError for an address that cannot be opened."""
    return [
        Sender(log, tag or DEFAULT_TAG, pid, thread_logs.hostname, thread_logs.target(log))
        for log in logs
    ]


def send_text(senders: Sequence[Sender], level: int, text: str) -> None:
    """Send a message of the program itself (a server's change of state, a start, an error).

    `level` is one of syslog.EMERG … syslog.DEBUG; `text` has no newline at its end.
    """
    for sender in senders:
        sender.send(level, text)


class Logger:
    """A frontend's logger on one thread: `logger(record)` writes the line to all its targets.

    The stream asks `logasap` (log when the response head is there) and sets `record.null` for
    `dontlognull`; everything else is decided here.
    """

    __slots__ = ("enabled", "log", "logasap", "senders")

    def __init__(
        self, senders: Sequence[Sender], log: Callable[[LogRecord], None], *, logasap: bool
    ) -> None:
        self.senders = senders
        #: the generated function; hot callers bind it once
        self.log = log
        self.logasap = logasap
        self.enabled = bool(senders)

    def __call__(self, record: LogRecord) -> None:
        self.log(record)

    def text(self, level: int, text: str) -> None:
        send_text(self.senders, level, text)


def format_text(name: str, mode: str) -> str:
    """The format behind "httplog", "httplog-clf", "tcplog" or "" (none chosen); any other text is
    a format itself.
    """
    if name:
        return NAMED_FORMATS.get(name, name)
    return formats.DEFAULTLOG_HTTP if mode == "http" else formats.DEFAULTLOG_TCP


def make_logger(
    logs: Sequence[LogSettings],
    tag: str | None,
    pid: int,
    ctx: HasTid | None,
    *,
    mode: str = "http",
    options: frozenset[str] = frozenset(),
    log_format: str = "",
    captures: bool = False,
    uri_length: int = formats.DEFAULT_URI_LENGTH,
    thread_logs: ThreadLogs | None = None,
    next_log_number: Callable[[], int] | None = None,
) -> Logger:
    """Build the logger of a frontend for the calling thread.

    `logs`: the frontend's `log` lines with `log global` already replaced by the global ones.
    `log_format`: see `format_text`. `options`: names of its boolean options, of which logasap,
    dontlognull, dontlog-normal and log-separate-errors matter here. `captures`: whether it has
    `capture` lines. `uri_length`: tune.http.logurilen. `next_log_number`: for %lc, shared by the
    threads. Raises FormatError, OSError, ValueError.
    """
    thread_logs = thread_logs or ThreadLogs(ctx)
    senders = open_senders(logs, tag, pid, thread_logs)
    logasap = "logasap" in options
    if not senders:
        return Logger((), _log_nothing, logasap=logasap)
    pieces = formats.parse_format(format_text(log_format, mode), http=mode == "http")
    line = formats.expression_source(pieces, logasap=logasap, captures=captures)
    context = formats.FormatContext(
        thread_logs.dates,
        pid=pid,
        hostname=thread_logs.hostname or socket.gethostname(),
        uri_length=uri_length,
        next_log_number=next_log_number,
    )
    names = formats.namespace(context)
    return Logger(
        senders, _generate(senders, line, names, options, thread_logs.batched), logasap=logasap
    )


def _log_nothing(record: LogRecord) -> None:
    """The logger of a frontend without `log` lines."""


# A transaction is an error when its first termination letter says so (everything but a normal end
# and a local answer), when a connection had to be retried or sent elsewhere, or when the client got
# a 5xx.
_FAILED = "r.term_state[0] not in '-L' or r.retries or r.redispatched or r.status >= 500"


def _generate(
    senders: Sequence[Sender],
    line: str,
    names: dict[str, Any],
    options: frozenset[str],
    batched: bool,
) -> Callable[[LogRecord], None]:
    """Write the frontend's log function: tests only for the options that are set, senders unrolled.

    Heads are kept in the list `heads`, which is rebuilt when the second changes; it has one entry
    per sender and level used.
    """
    levels = [syslog.INFO]
    body = ["def log(r):"]
    if "dontlognull" in options:
        body.append("    if r.null: return")
    if "dontlog-normal" in options:
        body.append(f"    if not ({_FAILED}): return")
    separate = "log-separate-errors" in options
    if separate:
        levels.append(syslog.ERR)
        # every line is a failed one where normal ones are not logged
        body.append("    k = 1" if "dontlog-normal" in options else f"    k = bool({_FAILED})")
    body += [
        "    now = time()",
        "    if not (heads.since <= now < heads.until): heads.refresh(now)",
        f"    text = {line}",
    ]
    used = 0
    for number, sender in enumerate(senders):
        wanted = [level for level in levels if sender.wants(level)]
        if not wanted:
            continue
        index = f"{number} + {len(senders)} * k" if separate else f"{number}"
        indent = "    "
        if len(wanted) < len(levels):  # only errors pass this sender's filter
            body.append("    if k:")
            indent += "    "
        head = f"fresh{number}(k, now)" if sender.precise else f"heads[{index}]"
        if sender.precise and not separate:
            head = f"fresh{number}(0, now)"
        body += [
            f"{indent}data = ({head} + text).encode('utf-8', 'surrogateescape')",
            f"{indent}if len(data) >= {sender.maximum}: data = data[:{sender.maximum - 1}]",
            f"{indent}send{number}(data + b'\\n')",
        ]
        target = sender.target
        names[f"send{number}"] = target.waiting.append if batched else target.send
        names[f"fresh{number}"] = _fresh_head(sender, levels)
        used += 1
    if not used:
        return _log_nothing
    names["time"] = time
    names["heads"] = _Heads(senders, levels)
    # exec() of our own generated source, see `formats`
    exec(formats.compiled("\n".join(body), "exec"), names)  # noqa: S102
    log: Callable[[LogRecord], None] = names["log"]
    return log


def _fresh_head(sender: Sender, levels: Sequence[int]) -> Callable[[int, float], str]:
    return lambda k, now: sender.head(levels[k], now)


class _Heads(list[str]):
    """Heads of the current second, ordered by level, then sender."""

    def __init__(self, senders: Sequence[Sender], levels: Sequence[int]) -> None:
        super().__init__()
        self._senders = senders
        self._levels = levels
        self.since = 0.0
        self.until = 0.0

    def refresh(self, now: float) -> None:
        self.since = float(int(now))
        self.until = self.since + 1.0
        self[:] = [s.head(level, now) for level in self._levels for s in self._senders]


def process_id() -> int:
    """The pid for %pid and the syslog head; asked once at start, after the last fork."""
    return os.getpid()
