"""HAProxy's command line (management guide, section 3): `parse_args` and the help texts.

Pure: nothing is read, opened or printed here. `UsageError` carries what is wrong; the caller
prints it and the short usage, and exits with 1 as HAProxy does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mtproxy.base.commandline import CommandLine
from mtproxy.base.nearest import nearest
from mtproxy.base.units import decimal


class UsageError(Exception):
    """The command line cannot be understood."""


#: options that take the next argument
_WITH_VALUE = ("-f", "-p", "-L", "-n", "-N", "-m", "-C", "-cc", "-x", "-S")

_FLAGS: dict[str, dict[str, object]] = {
    "-c": {"check": True},
    "-v": {"version": 1},
    "-vv": {"version": 2},
    "-h": {"help": True},
    "--help": {"help": True},
    "--version": {"version": 1},
    "-d": {"debug": True},
    "-db": {"foreground": True},
    "-dC": {"dump": True},
    "-dD": {"diag": True},
    "-dW": {"zero_warning": True},
    "-dL": {"check_locks": True},
    "-dr": {"ignore_resolution_failures": True},
    "-D": {"daemon": True},
    "-q": {"quiet": True},
    "-V": {"verbose": True},
}

#: option -> what it turns off, by the name of the global keyword that does the same
_FEATURES_OFF = {
    "-de": "noepoll",
    "-dp": "nopoll",
    "-dS": "nosplice",
    "-dG": "nogetaddrinfo",
    "-dR": "noreuseport",
}

#: accepted without effect, with the reason; a key that ends in "*" stands for all that begin so
IGNORED = {
    "-dA*": "there is no archive of libraries to make",
    "-dF": "names a detail of HAProxy's streams",
    "-dI": "forking is not prevented",
    "-dK*": "keywords are listed in docs/configuration.md",
    "-dM*": "memory belongs to Python; try PYTHONMALLOC=debug",
    "-dV": "there is no TLS towards servers yet that would be verified",
    "-dZ": "names HAProxy's mux interface",
    "-ds": "select() is never used",
    "-dk": "kqueue is not a part of Linux",
    "-dt*": "traces are not there yet",
    "-dv": "event ports are not a part of Linux",
}

_MASTER = (
    "'{}' : the master process (master-worker mode) is known but not supported by mtproxy yet;"
    " run it in the foreground (-db) under your service manager"
)


def _number(option: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"'{option}' expects a number (got '{text}')")
    return decimal(text)


def _ignored(argument: str) -> bool:
    return any(
        argument == known or (known.endswith("*") and argument.startswith(known[:-1]))
        for known in IGNORED
    )


def known_options() -> list[str]:
    """Every option, for suggestions and for the tests of the documentation."""
    ignored = [name.removesuffix("*") for name in IGNORED]
    return [*_FLAGS, *_WITH_VALUE, *_FEATURES_OFF, *ignored, "-W", "-Ws", "-sf", "-st", "--"]


def parse_args(argv: Sequence[str]) -> CommandLine:
    """Understand `argv` (without the program's name). Raises UsageError."""
    changes: dict[str, object] = {}
    paths: list[str] = []
    off: set[str] = set()
    ignored: list[str] = []
    pids: list[int] = []
    master = ""
    rest = list(argv)
    rest.reverse()
    while rest:
        argument = rest.pop()
        if argument == "--":
            paths.extend(reversed(rest))
            break
        if argument in _FLAGS:
            changes.update(_FLAGS[argument])
        elif argument in _FEATURES_OFF:
            off.add(_FEATURES_OFF[argument])
        elif argument in ("-sf", "-st"):
            changes["stop_at_once"] = argument == "-st"
            while rest and not rest[-1].startswith("-"):
                pids.append(_number(argument, rest.pop()))
        elif argument in _WITH_VALUE:
            if not rest:
                raise UsageError(f"'{argument}' expects an argument")
            _with_value(argument, rest.pop(), changes, paths)
        elif argument.startswith("-v"):
            # as in HAProxy: -version, -vvv
            changes["version"] = 2 if argument.startswith("-vv") else 1
        elif argument in ("-W", "-Ws"):
            master = argument
        elif _ignored(argument):
            ignored.append(argument)
        else:
            raise UsageError(_unknown(argument))
    if master and not changes.get("check"):
        raise UsageError(_MASTER.format(master))
    needs_files = not changes.keys() & {"version", "help", "condition"}
    if needs_files and not paths:
        raise UsageError("no configuration file: give one with '-f'")
    return replace(
        CommandLine(
            paths=tuple(paths),
            disabled_features=frozenset(off),
            stop_pids=tuple(pids),
            ignored=tuple(ignored),
        ),
        **changes,  # type: ignore[arg-type]
    )


def _with_value(option: str, value: str, changes: dict[str, object], paths: list[str]) -> None:
    if option == "-f":
        if not value:
            raise UsageError("'-f' expects a file or a directory")
        paths.append(value)
    elif option == "-cc":
        changes["condition"] = value
    elif option == "-p":
        changes["pidfile"] = value
    elif option == "-L":
        if not value:
            raise UsageError("'-L' expects a name")
        changes["local_peer"] = value
    elif option == "-C":
        changes["directory"] = value
    elif option == "-n":
        changes["maxconn"] = _number(option, value)
    elif option == "-N":
        changes["proxy_maxconn"] = _number(option, value)
    elif option == "-m":
        changes["memory_limit_mb"] = _number(option, value)
    elif option == "-S":
        raise UsageError(_MASTER.format(option))
    else:
        raise UsageError(
            f"'{option}' : taking over the listeners of a running process is known but not"
            " supported by mtproxy yet"
        )


def _unknown(argument: str) -> str:
    if argument.startswith("-"):
        suggestion = nearest(argument, known_options()) if len(argument) > 1 else None
        hint = f"; did you mean '{suggestion}'?" if suggestion else ""
        return f"unknown option '{argument}'{hint}"
    return f"unexpected argument '{argument}'; a configuration file stands behind '-f' or '--'"


USAGE = """\
Usage: mtproxy [-f FILE|DIRECTORY]... [OPTION]... [-- FILE...]
       mtproxy --help    explains the options and gives examples
"""

HELP = """\
mtproxy runs haproxy.cfg: a reverse proxy for TCP and HTTP on every core.

Usage: mtproxy [-f FILE|DIRECTORY]... [OPTION]... [-- FILE...]

Try it:
  mtproxy -c -V -f haproxy.cfg     is this configuration valid? (says what to change)
  mtproxy -db -f haproxy.cfg       run it in the foreground; Ctrl-C stops it
  mtproxy -D -p run/pid -f haproxy.cfg
                                   run it in the background
  mtproxy -cc 'feature(OPENSSL)'   the answer is the exit code: 0 yes, 1 no, 2 nonsense
  mtproxy demo                     a demonstration that needs no configuration
  mtproxy ctl "show info"          ask a running process (stats socket)
  mtproxy top                      watch it: proxies, servers, threads, locks
  mtproxy locks --watch            which lock costs how much, live
  mtproxy profile                  where its threads spend their time: a flame graph

Configuration:
  -f PATH     read this file, or every *.cfg of this directory in order of names; repeatable
  -- FILE...  all the rest are configuration files
  -C DIR      go to this directory first
  -c          check the configuration only. Exit code 0: valid, 1: errors, 2: nothing to listen on
  -cc EXPR    evaluate a condition of `.if` and say by the exit code: 0 true, 1 false, 2 error
  -dW         treat warnings as errors
  -dC         with -c: print what was understood, defaults applied
  -dD         show hints about suspicious statements too
  -dr         a server name that does not resolve does not prevent the start
  -L NAME     name of this peer ($HAPROXY_LOCALPEER), default: the host's name

Process:
  -D          run in the background             -db        stay in the foreground
  -d          foreground and debug output       -p FILE    write the process number there
  -n N        limit of connections, in all      -N N       default limit per frontend
  -m MB       limit of memory                   -q / -V    say nothing / say more
  -sf PID...  once ready, ask these processes to finish
  -st PID...  once ready, terminate these processes

Debugging:
  -v, -vv     version; version, features and limits
  -dL         check owner and order of every lock (slow)
  -de -dp     do not use epoll, poll            -dS        do not use splice()
  -dG         do not use getaddrinfo()          -dR        do not use SO_REUSEPORT

Accepted without effect: -dA -dF -dI -dK -dM -ds -dt -dV -dZ (docs/configuration.md says why).
Not supported yet: -W -Ws -S (master process; -c takes the first two), -x (taking over listeners).
"""
