"""The `mtproxy` command."""

from __future__ import annotations

import os
import sys

from mtproxy.cli.args import HELP, USAGE, UsageError, parse_args
from mtproxy.cli.check import check_condition, check_configuration, load_reported, version_text
from mtproxy.config import has_listener


def main(argv: list[str] | None = None) -> int:
    """Entry point. Returns the exit code."""
    args = sys.argv[1:] if argv is None else argv
    try:
        cmdline = parse_args(args)
    except UsageError as e:
        print(f"[ALERT]    ({os.getpid()}) : {e}\n{USAGE}", file=sys.stderr)
        return 1
    if cmdline.help:
        print(HELP, end="")
        return 0
    if cmdline.version:
        print(version_text(cmdline.version), end="")
        return 0
    if cmdline.condition is not None:
        return check_condition(cmdline.condition)
    if cmdline.directory:
        os.chdir(cmdline.directory)
    if cmdline.check:
        return check_configuration(cmdline)
    settings = load_reported(cmdline)
    if settings is None:
        return 1
    if not has_listener(settings):
        print(
            f"[ALERT]    ({os.getpid()}) : [mtproxy.main()] No enabled listener found "
            "(check for 'bind' directives) ! Exiting.",
            file=sys.stderr,
        )
        return 2
    from mtproxy.boot.run import run

    return run(settings, cmdline)


if __name__ == "__main__":
    sys.exit(main())
