"""`mtproxy ctl` and `mtproxy locks`: programs that ask a running proxy over its runtime socket.

Independent of the proxy itself: nothing of it is imported, so that they start fast.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

#: where a runtime socket is looked for when none is named
SOCKET_VARIABLE = "MTPROXY_SOCKET"
USUAL_SOCKETS = (
    "/run/mtproxy/admin.sock",
    "/run/mtproxy.sock",
    "/tmp/mtproxy.sock",  # used only if it is ours, see choose_socket
    "/run/haproxy/admin.sock",
    "/var/run/haproxy.sock",
)
#: the same, of `mtproxy demo`, below the folder of temporary files
DEMO_SOCKETS = "mtproxy-demo-*/runtime.sock"

DEFAULT_TIMEOUT = 10.0
#: how long a usual socket may take to accept a connection, in seconds
PROBE_TIMEOUT = 1.0

#: answers that begin like this are refusals: the command's exit code is 1
REFUSALS = ("Unknown command", "Unsupported command", "Permission denied", "Internal error")


class ClientError(Exception):
    """Something the user can put right; the text says how."""


def usual_sockets() -> list[str]:
    """Where a runtime socket is looked for: the usual places, then demonstrations, newest first.

    A socket that somebody else made is passed over, root's aside: it could answer anything.
    """
    demos: list[tuple[float, str]] = []
    for path in Path(tempfile.gettempdir()).glob(DEMO_SOCKETS):
        with contextlib.suppress(OSError):  # it ends just now
            demos.append((path.stat().st_mtime, str(path)))
    found = []
    for name in (*USUAL_SOCKETS, *(name for _, name in sorted(demos, reverse=True))):
        with contextlib.suppress(OSError):
            status = os.stat(name)
            if stat.S_ISSOCK(status.st_mode) and status.st_uid in (0, os.geteuid()):
                found.append(name)
    return found


def choose_socket(named: str | None) -> str:
    """The socket to ask: the named one, $MTPROXY_SOCKET, or the first usual one that answers.

    A file that a dead proxy left behind does not answer. Raises ClientError if none does.
    """
    if named:
        return named
    from_environment = os.environ.get(SOCKET_VARIABLE)
    if from_environment:
        return from_environment
    problems = []
    for path in usual_sockets():
        try:
            connect(path, PROBE_TIMEOUT).close()
        except ClientError as error:
            problems.append(str(error))
        else:
            return path
    raise ClientError(
        f"which runtime socket? Name it with -S or ${SOCKET_VARIABLE}: the path or HOST:PORT of a "
        "'stats socket' line of the configuration"
        + "".join(f"\n  tried: {problem}" for problem in problems)
    )


def connect(address: str, timeout: float = DEFAULT_TIMEOUT) -> socket.socket:
    """Connect to a path, `unix@path`, `abns@name` or HOST:PORT. Raises ClientError."""
    try:
        host, colon, port = address.rpartition(":")
        if (
            colon
            and port.isascii()
            and port.isdigit()
            and "/" not in address
            and "@" not in address
        ):
            return socket.create_connection((host.strip("[]"), int(port)), timeout)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(timeout)
            name = address.removeprefix("abns@")
            # HAProxy pads abstract names with NUL to the full length, and so does mtproxy
            abstract = b"\0" + os.fsencode(name)[:107].ljust(107, b"\0")
            sock.connect(abstract if name != address else address.removeprefix("unix@"))
        except BaseException:
            sock.close()
            raise
        return sock
    except FileNotFoundError:
        raise ClientError(f"no socket {address}: is the proxy running?") from None
    except ConnectionRefusedError:
        raise ClientError(f"nobody listens on {address}: is the proxy running?") from None
    except PermissionError:
        raise ClientError(f"no permission to connect to {address}") from None
    except (OSError, ValueError, OverflowError) as error:
        raise ClientError(f"cannot connect to {address}: {error}") from None


def ask(address: str, command: str, timeout: float = DEFAULT_TIMEOUT) -> str:
    """Send one line of commands and return the whole answer. Raises ClientError."""
    with connect(address, timeout) as sock:
        try:
            sock.sendall(command.encode("utf-8", "surrogateescape") + b"\n")
            sock.shutdown(socket.SHUT_WR)
            pieces = []
            while piece := sock.recv(65536):
                pieces.append(piece)
        except TimeoutError:
            raise ClientError(f"{address} did not answer within {timeout:g} seconds") from None
        except OSError as error:
            raise ClientError(f"{address}: {error}") from None
    return b"".join(pieces).decode("utf-8", "replace")


def _socket_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-S",
        "--socket",
        metavar="PATH|HOST:PORT",
        help=f"runtime socket; default: ${SOCKET_VARIABLE}, or the first of these that answers: "
        f"{', '.join(USUAL_SOCKETS)}, and that of a running 'mtproxy demo'",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=DEFAULT_TIMEOUT,
        metavar="SECONDS",
        help="how long to wait for the answer (default: %(default)g)",
    )


def ctl(argv: Sequence[str], out: TextIO | None = None) -> int:
    """`mtproxy ctl`: send a command, print the answer. Exit code 1: refused or no connection."""
    parser = argparse.ArgumentParser(
        prog="mtproxy ctl",
        description="Send a command to a running proxy and print its answer.",
        epilog='Examples: mtproxy ctl "show info"; mtproxy ctl -S run/admin.sock "show stat; show '
        'info"; mtproxy ctl help. Exit code: 0 answered, 1 refused or no connection, 2 wrong '
        "options. The commands are described in docs/runtime.md.",
    )
    _socket_option(parser)
    parser.add_argument(
        "command", nargs="+", help="the command, in one or several words; ';' separates several"
    )
    options = parser.parse_args(list(argv))
    out = out or sys.stdout
    try:
        answer = ask(choose_socket(options.socket), " ".join(options.command), options.timeout)
    except ClientError as error:
        print(f"mtproxy ctl: {error}", file=sys.stderr)
        return 1
    # one empty line ends every answer on the wire; on a terminal it is only noise
    out.write(answer[:-1] if answer.endswith("\n\n") else answer)
    return 1 if answer.startswith(REFUSALS) else 0


# --- locks ---------------------------------------------------------------------------------------


def locks(argv: Sequence[str], out: TextIO | None = None) -> int:
    """`mtproxy locks`: the lock statistics of a running proxy, once or again and again."""
    parser = argparse.ArgumentParser(
        prog="mtproxy locks",
        description="Show who waited for which lock in a running proxy, and for how long.",
    )
    _socket_option(parser)
    parser.add_argument(
        "--all", action="store_true", help="with --watch: also labels that were never used"
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
    form.add_argument("--reset", action="store_true", help="start counting anew")
    options = parser.parse_args(list(argv))
    out = out or sys.stdout
    try:
        address = choose_socket(options.socket)
        if options.watch is not None:
            return _watch(address, options, out)
        command = "show locks json" if options.json else "show locks"
        if options.reset:
            command = "show locks reset"
        answer = ask(address, command, options.timeout)
    except ClientError as error:
        print(f"mtproxy locks: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    out.write(answer[:-1] if answer.endswith("\n\n") else answer)
    return 1 if answer.startswith(REFUSALS) else 0


#: what the locks of a label guard; docs/locking.md has the details
GUARDS = {
    "SERVER": "one server's administrative and health state",
    "LBPRM": "which servers of a backend are usable, and its balancing",
    "TASK_WQ": "the wait queue that the threads share (health checks)",
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


@dataclass(frozen=True, slots=True)
class LockFigures:
    """One label's totals, or what was added to them in an interval. Times in ns."""

    label: str
    locks: int
    waits: int
    failed_upgrades: int
    wait_ns: int
    longest_ns: int

    @property
    def used(self) -> bool:
        """Whether anybody ever took it, or tried to become a seeker."""
        return bool(self.locks or self.failed_upgrades)

    def since(self, before: LockFigures) -> LockFigures:
        return LockFigures(
            self.label,
            self.locks - before.locks,
            self.waits - before.waits,
            self.failed_upgrades - before.failed_upgrades,
            self.wait_ns - before.wait_ns,
            self.longest_ns,
        )


def parse_locks(text: str) -> dict[str, LockFigures]:
    """The answer to `show locks json`. Raises ClientError."""
    try:
        labels = json.loads(text)
        return {
            one["label"]: LockFigures(
                one["label"],
                one["read_locks"] + one["seek_locks"] + one["write_locks"],
                one["read_waits"] + one["seek_waits"] + one["write_waits"],
                one["failed_upgrades"],
                one["read_wait_ns"] + one["seek_wait_ns"] + one["write_wait_ns"],
                one["longest_wait_ns"],
            )
            for one in labels
        }
    except (ValueError, KeyError, TypeError):
        raise ClientError(f"no lock statistics in the answer: {text[:200]!r}") from None


def locks_table(figures: Sequence[LockFigures], seconds: float) -> str:
    """What was added in `seconds`, per second, the longest waits first."""
    titles = f"{'LOCK':<12}{'locks/s':>12}{'waits/s':>10}{'wait ms/s':>11}{'ns/lock':>10}"
    lines = [f"{titles}{'failed up/s':>13}{'longest ms':>12}"]
    for one in sorted(figures, key=lambda f: (-f.wait_ns, -f.locks, f.label)):
        per_lock = one.wait_ns / one.locks if one.locks else 0.0
        per_second = f"{one.locks / seconds:>12.0f}{one.waits / seconds:>10.1f}"
        waiting = f"{one.wait_ns / 1e6 / seconds:>11.3f}{per_lock:>10.1f}"
        failed = f"{one.failed_upgrades / seconds:>13.1f}{one.longest_ns / 1e6:>12.3f}"
        lines.append(f"{one.label:<12}{per_second}{waiting}{failed}")
    return "\n".join(lines) + "\n"


def legend(labels: Iterable[str]) -> str:
    """What stands in the table: its columns, and what the locks of `labels` guard."""
    guards = [f"{label}: {GUARDS[label]}" for label in labels if label in GUARDS]
    lines = [*_COLUMNS, *guards, "More: docs/locking.md"]
    return "".join(f"# {line}\n" for line in lines)


def _watch(address: str, options: argparse.Namespace, out: TextIO) -> int:
    interval, timeout = options.watch, options.timeout
    if not 0 < interval < threading.TIMEOUT_MAX:
        raise ClientError("--watch needs a time above 0")
    clear = "\x1b[H\x1b[2J" if out.isatty() else ""
    before = parse_locks(ask(address, "show locks json", timeout))
    then = time.monotonic()
    explained = False
    try:
        while True:
            time.sleep(interval)
            current = parse_locks(ask(address, "show locks json", timeout))
            now = time.monotonic()
            added = [
                figures.since(before[label]) if label in before else figures
                for label, figures in current.items()
                if figures.used or options.all
            ]
            table = locks_table(added, now - then) if added else "no lock has been used yet\n"
            if clear:
                out.write(f"{clear}{table}\n{legend(current)}")
            else:
                out.write(f"{table}\n" if explained else f"{legend(current)}{table}\n")
            out.flush()
            explained = True
            before, then = current, now
    except KeyboardInterrupt:
        return 0
