"""The `mtproxy` command, also as `python -m mtproxy`: the way in, above all other packages.

Every branch imports what it needs by itself, so that a client command does not load the proxy and
the proxy starts fast.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable

from mtproxy.base.stderr import open_standard_streams


def _ctl(args: list[str]) -> int:
    from mtproxy.cli.client import ctl

    return ctl(args)


def _locks(args: list[str]) -> int:
    from mtproxy.cli.client_locks import locks

    return locks(args)


def _profile(args: list[str]) -> int:
    from mtproxy.cli.profile.main import profile

    return profile(args)


def _top(args: list[str]) -> int:
    from mtproxy.cli.top.main import top

    return top(args)


def _demo(args: list[str]) -> int:
    from mtproxy.cli.demo import demo

    return demo(args)


#: sub-commands, served by a process of their own
CLIENTS: dict[str, Callable[[list[str]], int]] = {
    "ctl": _ctl,
    "locks": _locks,
    "profile": _profile,
    "top": _top,
    "demo": _demo,
}


def main(argv: list[str] | None = None) -> int:
    """Entry point. Returns the exit code."""
    open_standard_streams()
    args = sys.argv[1:] if argv is None else argv
    if args and args[0] in CLIENTS:
        return CLIENTS[args[0]](args[1:])
    # What the start makes is there to stay; boot lets the collector work when all is built.
    gc.disable()
    try:
        return _serve(args)
    finally:
        gc.enable()


def _serve(args: list[str]) -> int:
    """HAProxy's command line: run a configuration, or check it."""
    from mtproxy.base.report import say
    from mtproxy.cli.args import HELP, USAGE, UsageError, parse_args
    from mtproxy.cli.check import (
        check_condition,
        check_configuration,
        is_quiet,
        load_reported,
        print_out,
        version_text,
    )
    from mtproxy.config import has_listener

    try:
        cmdline = parse_args(args)
    except UsageError as e:
        say("alert", f"{e}\n{USAGE}")
        return 1
    if cmdline.help:
        return 0 if print_out(HELP) else 1
    if cmdline.version:
        return 0 if print_out(version_text(cmdline.version)) else 1
    if cmdline.condition is not None:
        return check_condition(cmdline.condition)
    if cmdline.directory is not None:
        try:
            os.chdir(cmdline.directory)
        except (OSError, ValueError) as e:
            reason = (isinstance(e, OSError) and e.strerror) or e
            say("alert", f"could not change to directory '{cmdline.directory}' : {reason}")
            return 1
    if cmdline.check:
        return check_configuration(cmdline)
    if cmdline.memory_limit_mb:
        from mtproxy.boot.run import prepare

        prepare(cmdline)
    settings = load_reported(cmdline)
    if settings is None:
        return 1
    if not has_listener(settings):
        # 2 is what -c answers to that; a start just fails
        if not is_quiet(cmdline):
            say(
                "alert",
                "[mtproxy.main()] No enabled listener found (check for 'bind' directives) !"
                " Exiting.",
            )
        return 1
    from mtproxy.boot.run import run

    return run(settings, cmdline)


if __name__ == "__main__":
    sys.exit(main())
