"""The command `mtproxy top`: options, and the plain output for those who have no terminal."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import TextIO

from mtproxy.cli.client import ClientError, choose_socket, put, socket_option
from mtproxy.cli.top.figures import Rates, take
from mtproxy.cli.top.tables import TABLES, arrange, text_table

_EPILOG = """keys in the view:
  1 2 3 4    proxies, servers, threads, locks       enter   into a backend; escape: back
  s S        sort by the next, the previous column  r       turn the order round
  d e        disable, enable the marked server (you are asked first; needs a socket of level admin)
  space      hold and go on                         + -     look more often, less often
  ? q        all keys; quit
It works over the runtime socket of HAProxy too, without locks. For a proxy on another machine:
  ssh -fNL /tmp/remote.sock:/run/mtproxy/admin.sock host; mtproxy top -S /tmp/remote.sock"""


def _interval(text: str) -> float:
    """Argparse type: seconds between two looks."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"'{text}' is not a time from 0.1 to 3600 seconds")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mtproxy top",
        description="Watch a running proxy: rates, sessions, errors, servers, threads, locks.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    socket_option(parser)
    parser.add_argument(
        "--interval",
        type=_interval,
        default=1.0,
        metavar="SECONDS",
        help="time between two looks (default: %(default)g)",
    )
    parser.add_argument(
        "--once",
        nargs="?",
        const="proxies",
        choices=sorted(TABLES),
        metavar="TABLE",
        help="look twice, print one table and end; TABLE: proxies (default), servers, threads, "
        "locks",
    )
    return parser


def top(argv: Sequence[str], out: TextIO | None = None) -> int:
    """`mtproxy top`. Exit code 1: no connection, no terminal, or the library is not there."""
    options = _parser().parse_args(list(argv))
    out = out or sys.stdout
    try:
        address = choose_socket(options.socket)
        first = take(address, options.timeout)
        if options.once:
            time.sleep(options.interval)
            rates = Rates(first, take(address, options.timeout))
            table = TABLES[options.once]
            numeric = table.sorted_by >= 0 and table.columns[table.sorted_by].numeric
            put(
                out,
                text_table(table, arrange(table.rows(rates, ""), table.sorted_by, numeric, False)),
            )
            return 0
        if not (sys.stdin.isatty() and out.isatty()):
            raise ClientError("this is no terminal; 'mtproxy top --once' prints one table")
        try:
            from mtproxy.cli.top.app import TopApp
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] not in ("textual", "rich"):
                raise
            raise ClientError(
                "the live view needs the package textual: pip install 'mtproxy[top]'; "
                "'mtproxy top --once' works without it"
            ) from None
        TopApp(address, first, interval=options.interval, timeout=options.timeout).run()
    except ClientError as error:
        print(f"mtproxy top: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0
