"""`-c`, `-cc` and `-v`: the answers that need no running proxy, with HAProxy's exit codes.

Main thread only. Each function returns the exit code and writes to the streams given.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from typing import TextIO

from mtproxy import __version__
from mtproxy.base.commandline import CommandLine
from mtproxy.base.errors import ConfigError, Diagnostics
from mtproxy.base.features import HAPROXY_LEVEL, feature_list
from mtproxy.base.report import note_startup, say
from mtproxy.base.settings import Settings
from mtproxy.config import has_listener, load
from mtproxy.config.conditions import evaluate
from mtproxy.config.cpumap import MAX_THREADS
from mtproxy.config.explain import explain
from mtproxy.config.lexer import from_text, to_text, tokenize
from mtproxy.proxy.statefile import read_all
from mtproxy.rules.actions.service import SERVICES

VALID = 0
ERRORS = 1
NO_LISTENER = 2

TRUE = 0
FALSE = 1
UNPARSABLE = 2


def is_quiet(cmdline: CommandLine) -> bool:
    """-q, unless -V asks for the opposite."""
    return cmdline.quiet and not cmdline.verbose


def report(diagnostics: Diagnostics, cmdline: CommandLine, stream: TextIO | None = None) -> None:
    """Write the messages as HAProxy does; with -q only the exit code speaks."""
    stream = stream or sys.stderr
    if is_quiet(cmdline):
        return
    for item in diagnostics.shown(diag=cmdline.diag):
        # Bytes that are not UTF-8 came in as surrogates and must not stop a message.
        text = item.render().encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        print(text, file=stream)
        note_startup(text + "\n")


def print_out(text: str) -> bool:
    """Write to standard output; False if that cannot be, which is said."""
    from mtproxy.cli.client import ClientError, put  # with modules that a proxy does not need

    try:
        put(sys.stdout, text)
    except ClientError as error:
        say("alert", f"standard output: {error}")
        return False
    return True


def load_reported(cmdline: CommandLine, stream: TextIO | None = None) -> Settings | None:
    """Load what the command line names and print the messages; None: do not start."""
    return _load(cmdline, stream)[0]


def _load(cmdline: CommandLine, stream: TextIO | None) -> tuple[Settings | None, Diagnostics]:
    stream = stream or sys.stderr
    settings, diagnostics = load(cmdline.paths, cmdline)
    report(diagnostics, cmdline, stream)
    if settings is None and not is_quiet(cmdline):
        for line in diagnostics.not_yet():
            say("notice", f"config : {line}", stream)
        say("alert", "config : Fatal errors found in configuration.", stream)
    return settings, diagnostics


def check_configuration(cmdline: CommandLine, stream: TextIO | None = None) -> int:
    """`-c`: 0 valid, 1 errors (or warnings with -dW), 2 valid but nothing to listen on.

    The verdict goes to standard output, messages to standard error; with `stream` all goes there.
    """
    settings, diagnostics = _load(cmdline, stream)
    if settings is None:
        return ERRORS
    warned = diagnostics.warnings > 0
    found: list[str] = []
    read_all(settings, found.append)  # the files of servers' states
    if found:
        warned = True
        more = Diagnostics()
        for text in found:
            more.warning(text)
        report(more, cmdline, stream)
        if settings.global_.zero_warning:
            if not is_quiet(cmdline):
                say("alert", "config : some warnings were found and 'zero-warning' is set", stream)
            return ERRORS
    if cmdline.dump and not print_out(explain(settings, os.environ)):
        return ERRORS
    code, verdict = VALID, "Configuration file is valid\n"
    if not has_listener(settings):
        code = NO_LISTENER
        verdict = "Configuration file has no error but will not start (no listener) => exit(2).\n"
    if warned:
        verdict = f"Warnings were found.\n{verdict}"
    if not is_quiet(cmdline):
        if cmdline.dump and stream is None:
            stream = sys.stderr  # what is printed is to be read again
        if stream is not None:
            stream.write(verdict)
        else:
            print_out(verdict)
    return code


def check_condition(
    text: str, environ: Mapping[str, str] | None = None, stream: TextIO | None = None
) -> int:
    """`-cc`: 0 true, 1 false, 2 not parsable."""
    stream = stream or sys.stderr
    variables = os.environ if environ is None else environ

    def lookup(name: str) -> str | None:
        value = variables.get(name)
        return None if value is None else from_text(value)

    try:
        words = tokenize(from_text(text), lookup, whole=True)
        expression = to_text(words[0].text) if words else ""
        return TRUE if evaluate(expression, variables) else FALSE
    except ConfigError as error:
        diagnostics = Diagnostics()
        diagnostics.alert(error.message, word=error.word, suggestion=error.suggestion)
        report(diagnostics, CommandLine(), stream)
        return UNPARSABLE


def version_text(level: int) -> str:
    """What -v (1) and -vv (2) print.

    The second line is for programs that look for HAProxy's: its third word is the version of
    HAProxy whose language is understood, and `TARGET` names the platform as HAProxy's builds do.
    """
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    python = "Python with the GIL: its threads take turns" if gil else "free-threaded Python"
    lines = [
        f"mtproxy version {__version__} - runs haproxy.cfg on {python}",
        f"HAProxy version {HAPROXY_LEVEL} is the language level of the configuration",
    ]
    if level < 2:
        return "\n".join(lines) + "\n"
    default = min(len(os.sched_getaffinity(0)), MAX_THREADS)
    lines += [
        f"Running on: {platform.platform()}",
        f"Python: {sys.version.split(maxsplit=1)[0]} ({'with' if gil else 'without'} the GIL)",
        "Build options :",
        "  TARGET  = linux-glibc",
        "",
        f"Feature list : {feature_list()}",
        "",
        "Default settings :",
        "  bufsize = 16384, maxrewrite = 1024, maxpollevents = 200",
        "",
        f"Built with multi-threading support (MAX_THREADS={MAX_THREADS}, default={default}).",
        "",
        "Available polling systems :",
        "      epoll : pref=300,  test result OK",
        "       poll : pref=200,  test result OK",
        "Total: 2 (2 usable), will use epoll.",
        "",
        f"Available services : {' '.join(SERVICES)}",
    ]
    return "\n".join(lines) + "\n"
