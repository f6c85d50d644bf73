"""`mtproxy locks`: lock statistics of a running proxy, once or live.

Independent of the proxy itself, like `cli.client`. One thread, no shared state.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from mtproxy.cli.client import REFUSALS, ClientError, ask, choose_socket, put, socket_option

#: answers of `show locks` that are refusals too
_REFUSALS = (*REFUSALS, "No such lock label", "Lock statistics are built out", "Expected:")

#: call sites shown below the table
SITES_SHOWN = 5


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mtproxy locks",
        description="Show who waited for which lock in a running proxy, and for how long.",
        epilog="'mtproxy ctl set profiling locks on' adds how long locks are held, and the "
        "function and line of the longest waits and holds. docs/locking.md explains the labels.",
    )
    socket_option(parser)
    parser.add_argument("label", nargs="?", help="this label alone, such as TASK_WQ")
    parser.add_argument(
        "--all", action="store_true", help="with --watch: also labels that were never used"
    )
    parser.add_argument(
        "--top",
        nargs="?",
        const=0,
        type=_count,
        metavar="N",
        help="one line per label, the longest waiting first; at most N. With --watch: N labels",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--watch",
        nargs="?",
        const=1.0,
        type=float,
        metavar="SECONDS",
        help="show what happens per second, refreshed every SECONDS (default 1); Ctrl-C ends",
    )
    form.add_argument("--json", action="store_true", help="all figures as JSON")
    form.add_argument(
        "--prometheus", action="store_true", help="all figures in Prometheus' text format"
    )
    form.add_argument("--reset", action="store_true", help="start counting anew")
    return parser


def _count(text: str) -> int:
    """Argparse type: how many labels."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1000):
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to 999")
    return int(text)


def _command(options: argparse.Namespace) -> str:
    """What to ask once. Raises ClientError if the options do not go together."""
    if options.watch is not None:
        return ""
    label = f" {options.label}" if options.label else ""
    if label and (options.json or options.prometheus or options.top is not None):
        raise ClientError("a label goes with --reset or --watch, or alone")
    if options.top is not None and (options.json or options.prometheus or options.reset):
        raise ClientError("--top goes with --watch, or alone")
    if options.json:
        return "show locks json"
    if options.prometheus:
        return "show locks prometheus"
    if options.reset:
        return f"show locks reset{label}"
    if options.top is not None:
        return "show locks top" + (f" {options.top}" if options.top else "")
    return f"show locks{label}"


def locks(argv: Sequence[str], out: TextIO | None = None) -> int:
    """`mtproxy locks`. Exit code 1: refused, or no connection."""
    options = _parser().parse_args(list(argv))
    out = out or sys.stdout
    try:
        command = _command(options)
        address = choose_socket(options.socket)
        if options.watch is not None:
            return _watch(address, options, out)
        answer = ask(address, command, options.timeout)
        # one empty line ends every answer on the wire
        put(out, answer[:-1] if answer.endswith("\n\n") or answer == "\n" else answer)
    except ClientError as error:
        print(f"mtproxy locks: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    return 1 if answer.startswith(_REFUSALS) else 0


#: what the locks of a label guard; docs/locking.md has the details
GUARDS = {
    "SERVER": "one server's administrative and health state",
    "LBPRM": "which servers of a backend are usable, and its balancing",
    "QUEUE": "the slots of limited servers, and who waits for one",
    "TASK_WQ": "the wait queue that the threads share (health checks, stick tables)",
    "LISTENER": "how many connections a listener, a frontend or the process has",
    "PATREF": "the entries of an ACL or a map",
    "STK_TABLE": "a part of a stick table: its entries and what is stored of them",
    "STK_COUNT": "how many entries a stick table has",
    "LOGSRV": "a sampled log line's position (tune.log-sampling lock)",
    "RING": "a ring's messages",
    "CELL": "a value that is compared and exchanged (tune.log-sampling cas)",
    "OTHER": "nothing in the program; tests use it",
}
_COLUMNS = (
    "locks/s: how often it was taken; waits/s: how often not at once; wait ms/s: waiting time of",
    "all threads together; ns/lock: waiting time per taking; failed up/s: readers that could not",
    "become seekers; longest ms: the longest single wait since the start or the last --reset",
)
_HOLD_COLUMNS = "hold ms/s: time that it was held; ns/hold: for how long each time"


@dataclass(frozen=True, slots=True)
class LockFigures:
    """One label's totals, or what was added to them in an interval. Times in ns."""

    label: str
    locks: int
    waits: int
    failed_upgrades: int
    wait_ns: int
    longest_ns: int
    #: None: not profiled
    holds: int | None = None
    hold_ns: int = 0

    @property
    def used(self) -> bool:
        """Whether anybody ever took it, or tried to become a seeker."""
        return bool(self.locks or self.failed_upgrades)

    def since(self, before: LockFigures) -> LockFigures:
        """What was added. All of it, if somebody has reset the counters meanwhile."""
        if self.locks < before.locks or self.wait_ns < before.wait_ns:
            return self
        holds, hold_ns = self.holds, self.hold_ns
        if holds is not None and before.holds is not None and before.holds <= holds:
            holds, hold_ns = holds - before.holds, hold_ns - before.hold_ns
        return LockFigures(
            self.label,
            self.locks - before.locks,
            self.waits - before.waits,
            self.failed_upgrades - before.failed_upgrades,
            self.wait_ns - before.wait_ns,
            self.longest_ns,
            holds,
            hold_ns,
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """What the proxy said: figures by label, and lines about call sites, the longest first."""

    figures: dict[str, LockFigures]
    sites: dict[str, tuple[str, ...]]


def parse_locks(text: str) -> Answer:
    """The answer to `show locks json`. Raises ClientError."""
    try:
        labels = json.loads(text)
        return Answer(
            {one["label"]: _figures(one) for one in labels},
            {one["label"]: tuple(_sites(one)) for one in labels},
        )
    except (ValueError, KeyError, TypeError):
        raise ClientError(f"no lock statistics in the answer: {text.strip()[:200]!r}") from None


def _figures(one: dict[str, Any]) -> LockFigures:
    profile = one.get("profile")
    holds = profile["holds"].values() if profile else ()
    return LockFigures(
        one["label"],
        one["read_locks"] + one["seek_locks"] + one["write_locks"],
        one["read_waits"] + one["seek_waits"] + one["write_waits"],
        one["failed_upgrades"],
        one["read_wait_ns"] + one["seek_wait_ns"] + one["write_wait_ns"],
        one["longest_wait_ns"],
        sum(kind["count"] for kind in holds) if profile else None,
        sum(kind["total_ns"] for kind in holds),
    )


def _sites(one: dict[str, Any]) -> Iterable[str]:
    profile = one.get("profile") or {}
    for what in ("wait", "hold"):
        for site in profile.get(f"{what}_sites", [])[:SITES_SHOWN]:
            yield (
                f"{one['label']:<12}longest {what} {site['longest_ns'] / 1e6:9.3f} ms, "
                f"{site['count']:>8} times {site['total_ns'] / 1e6:>11.3f} ms: "
                f"{site['kind']} at {site['function']}:{site['line']} ({site['file']})"
            )


def by_waiting(figures: Iterable[LockFigures], count: int = 0) -> list[LockFigures]:
    """The longest waits first; at most `count`, if that is not 0."""
    return sorted(figures, key=lambda f: (-f.wait_ns, -f.locks, f.label))[: count or None]


def locks_table(figures: Sequence[LockFigures], seconds: float, count: int = 0) -> str:
    """What was added in `seconds`, per second, the longest waits first; at most `count` labels."""
    profiled = any(one.holds is not None for one in figures)
    titles = f"{'LOCK':<12}{'locks/s':>12}{'waits/s':>10}{'wait ms/s':>11}{'ns/lock':>10}"
    titles += f"{'failed up/s':>13}{'longest ms':>12}"
    lines = [titles + f"{'hold ms/s':>11}{'ns/hold':>10}" * profiled]
    for one in by_waiting(figures, count):
        per_lock = one.wait_ns / one.locks if one.locks else 0.0
        per_second = f"{one.locks / seconds:>12.0f}{one.waits / seconds:>10.1f}"
        waiting = f"{one.wait_ns / 1e6 / seconds:>11.3f}{per_lock:>10.1f}"
        failed = f"{one.failed_upgrades / seconds:>13.1f}{one.longest_ns / 1e6:>12.3f}"
        line = f"{one.label:<12}{per_second}{waiting}{failed}"
        if profiled:
            per_hold = one.hold_ns / one.holds if one.holds else 0.0
            line += f"{one.hold_ns / 1e6 / seconds:>11.3f}{per_hold:>10.1f}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def legend(labels: Iterable[str], *, profiled: bool = False) -> str:
    """What stands in the table: its columns, and what the locks of `labels` guard."""
    guards = [f"{label}: {GUARDS[label]}" for label in labels if label in GUARDS]
    lines = [*_COLUMNS, *[_HOLD_COLUMNS] * profiled, *guards, "More: docs/locking.md"]
    return "".join(f"# {line}\n" for line in lines)


def _screen(text: str) -> str:
    """Terminal codes that put `text` over what was shown before, without flicker; what does not fit
    is cut off.
    """
    size = shutil.get_terminal_size()
    lines = [line[: size.columns] for line in text.splitlines()[: size.lines - 1]]
    return "\x1b[H" + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J"


def _watch(address: str, options: argparse.Namespace, out: TextIO) -> int:
    """Table after table: over each other on a terminal, else one below the other with the time."""
    interval, timeout = options.watch, options.timeout
    if not 0 < interval < threading.TIMEOUT_MAX:
        raise ClientError("--watch needs a time above 0")
    terminal = out.isatty()
    before = parse_locks(ask(address, "show locks json", timeout)).figures
    _know(options.label, before)
    then = time.monotonic()
    explained = False
    try:
        if terminal:
            put(out, "\x1b[2J")
        while True:
            time.sleep(interval)
            answer = parse_locks(ask(address, "show locks json", timeout))
            current = answer.figures
            now = time.monotonic()
            added = [
                figures.since(before[label]) if label in before else figures
                for label, figures in current.items()
                if (figures.used or options.all)
                and (options.label is None or label == options.label.upper())
            ]
            shown = f"{time.strftime('%H:%M:%S')}  {address}\n"
            shown += (
                locks_table(added, now - then, options.top or 0)
                if added
                else "no lock has been used yet\n"
            )
            for one in by_waiting(added, options.top or 0):
                shown += "".join(f"{line}\n" for line in answer.sites[one.label])
            explanation = legend(current, profiled=any(f.holds is not None for f in added))
            if terminal:
                shown = _screen(f"{shown}\n{explanation}")
            else:
                shown = f"{shown}\n" if explained else f"{explanation}{shown}\n"
            if not put(out, shown):
                return 0
            explained = True
            before, then = current, now
    except KeyboardInterrupt:
        return 0


def _know(label: str | None, figures: dict[str, LockFigures]) -> None:
    if label is not None and label.upper() not in figures:
        raise ClientError(f"no such lock label '{label}'; there are {', '.join(figures)}")
