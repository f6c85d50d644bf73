"""`mtproxy ctl`: asks a running proxy over its runtime socket. Also what other such programs need.

Independent of the proxy itself: nothing of it is imported, so that they start fast.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import socket
import stat
import sys
import tempfile
import threading
from collections.abc import Sequence
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

#: asks the proxy to begin its messages with their severity, which is how an error is told from what
#: was asked for (management guide, "set severity-output"); answered with an empty line
_WITH_SEVERITY = "set severity-output number; "
_MESSAGE = re.compile(r"(?<=\n\n)\[([0-7])\]: ")
_ERROR_SEVERITY = 3
#: answers that are errors too, whatever their severity
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


def ask_checked(address: str, command: str, timeout: float = DEFAULT_TIMEOUT) -> tuple[str, bool]:
    """The answer to `command`, and whether it, or that of one command in a chain, is an error.

    One empty line ends every answer on the wire; the last one is left out, it is only noise.
    """
    # as if another empty line stood in front
    answer = "\n" + ask(address, _WITH_SEVERITY + command, timeout)
    failed = answer.lstrip("\n").startswith(REFUSALS)
    for message in _MESSAGE.finditer(answer):
        if int(message[1]) <= _ERROR_SEVERITY or answer.startswith(REFUSALS, message.end()):
            failed = True
    answer = _MESSAGE.sub("", answer)[1:].removeprefix("\n")
    return answer[:-1] if answer == "\n" or answer.endswith("\n\n") else answer, failed


def put(out: TextIO, text: str) -> bool:
    """Write all of it now; False if the reader has seen enough (`| head`). Raises ClientError."""
    try:
        out.write(text)
        out.flush()
    except OSError as error:
        # what is still buffered goes nowhere: the flush at the end of the program must not complain
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, out.fileno())
        os.close(null)
        if isinstance(error, BrokenPipeError):
            return False
        raise ClientError(f"cannot write: {error.strerror}") from None
    return True


def socket_option(parser: argparse.ArgumentParser) -> None:
    """The options -S and --timeout."""
    parser.add_argument(
        "-S",
        "--socket",
        metavar="PATH|HOST:PORT",
        help=f"runtime socket; default: ${SOCKET_VARIABLE}, or the first of these that answers: "
        f"{', '.join(USUAL_SOCKETS)}, and that of a running 'mtproxy demo'",
    )
    parser.add_argument(
        "--timeout",
        type=_timeout,
        default=DEFAULT_TIMEOUT,
        metavar="SECONDS",
        help="how long to wait for the answer (default: %(default)g)",
    )


def _timeout(text: str) -> float:
    """Argparse type: seconds that a socket can wait."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= threading.TIMEOUT_MAX:
        raise argparse.ArgumentTypeError(f"'{text}' is no time above 0, in seconds")
    return value


def ctl(argv: Sequence[str], out: TextIO | None = None) -> int:
    """`mtproxy ctl`: send a command, print the answer. Exit code 1: an error or no connection."""
    parser = argparse.ArgumentParser(
        prog="mtproxy ctl",
        description="Send a command to a running proxy and print its answer.",
        epilog='Examples: mtproxy ctl "show info"; mtproxy ctl -S run/admin.sock "show stat; show '
        'info"; mtproxy ctl help. Exit code: 0 done, 1 an error or no connection, 2 wrong '
        "options. The commands are described in docs/runtime.md.",
    )
    socket_option(parser)
    parser.add_argument(
        "command", nargs="+", help="the command, in one or several words; ';' separates several"
    )
    options = parser.parse_args(list(argv))
    out = out or sys.stdout
    try:
        answer, failed = ask_checked(
            choose_socket(options.socket), " ".join(options.command), options.timeout
        )
        put(out, answer)
    except ClientError as error:
        print(f"mtproxy ctl: {error}", file=sys.stderr)
        return 1
    return int(failed)
