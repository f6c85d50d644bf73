"""The command line as every layer sees it: immutable; `cli.args` is the only writer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The command line after `cli.args` understood it (management guide, section 3)."""

    #: files and directories in the order given; a directory stands for its *.cfg, sorted
    paths: tuple[str, ...] = ()
    check: bool = False  # -c
    condition: str | None = None  # -cc
    #: 0: run, 1: -v, 2: -vv
    version: int = 0
    help: bool = False
    debug: bool = False  # -d
    foreground: bool = False  # -db
    daemon: bool = False  # -D
    quiet: bool = False  # -q
    verbose: bool = False  # -V
    zero_warning: bool = False  # -dW
    diag: bool = False  # -dD
    check_locks: bool = False  # -dL
    #: -dr: a server's name that cannot be resolved does not prevent the start
    ignore_resolution_failures: bool = False
    #: noepoll (-de), nopoll (-dp), nosplice (-dS), nogetaddrinfo (-dG), noreuseport (-dR), ...
    disabled_features: frozenset[str] = frozenset()
    pidfile: str | None = None  # -p
    local_peer: str | None = None  # -L
    maxconn: int | None = None  # -n
    proxy_maxconn: int | None = None  # -N
    memory_limit_mb: int | None = None  # -m
    directory: str | None = None  # -C
    #: processes to be told to stop once this one serves: -sf (finish), -st (terminate)
    stop_pids: tuple[int, ...] = ()
    stop_at_once: bool = False  # -st rather than -sf
    dump: bool = False  # -dC: print the configuration as understood
    #: accepted and without a meaning here, e.g. "-dM", "-dI"
    ignored: tuple[str, ...] = ()
