"""How many connections the process may have, and the descriptors they need. At start only."""

from __future__ import annotations

import resource
from dataclasses import dataclass

from mtproxy.base.settings import Settings

#: descriptors of each thread: poller, wake-up, log sockets
_PER_THREAD = 4
#: standard streams, configuration and what libraries keep open
_BASE = 16
#: never fewer connections than this when nothing is configured
_MIN_MAXCONN = 100
#: one spliced direction in so many connections is expected; a direction without pipe is copied
_CONNECTIONS_PER_PIPE = 4
#: pipes of a thread where there are descriptors for them
_MIN_PIPES = 8


class LimitError(Exception):
    """The configuration wants more descriptors than the system allows."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What `work_out` found."""

    #: client connections of the whole process
    maxconn: int
    #: pipes that splicing may hold in each thread
    pipes: int
    #: descriptors that `maxconn` connections and the pipes need
    maxsock: int
    warnings: tuple[str, ...] = ()


def fixed_descriptors(settings: Settings, nbthread: int) -> int:
    """Descriptors that are needed beside those of connections."""
    listeners = sum(len(p.binds) for p in settings.proxies) + len(settings.global_.stats_sockets)
    checks = sum(1 for p in settings.proxies for s in p.servers if s.check is not None)
    return (
        _BASE
        + nbthread * _PER_THREAD
        + listeners
        + checks
        + 16 * len(settings.global_.stats_sockets)
    )


def work_out(settings: Settings, nbthread: int, cmdline_maxconn: int | None = None) -> Limits:
    """Find `maxconn` and raise the soft limit on open files to what it needs.

    A connection takes two descriptors, one on each side (manual 3.2 `maxconn`, `ulimit-n`,
    `strict-limits`). Raises LimitError where `strict-limits` (the default) forbids to go on with
    less.
    """
    glob = settings.global_
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ceiling = hard if hard != resource.RLIM_INFINITY else 1 << 30
    fixed = fixed_descriptors(settings, nbthread)
    maxconn = cmdline_maxconn or glob.maxconn
    warnings: list[str] = []
    budget = 0
    if maxconn is None:
        budget = min(glob.ulimit_n or ceiling, ceiling, 1 << 20)
        per_connection = 2 + 2 / _CONNECTIONS_PER_PIPE
        maxconn = max(_MIN_MAXCONN, int((budget - fixed) / per_connection))
    needed = max(glob.ulimit_n or 0, fixed + 2 * maxconn, min(budget, ceiling))
    # Pipes are a convenience: they get what connections leave, so that none of these is refused
    # for want of a descriptor while splicing goes on.
    wanted = glob.maxpipes
    if wanted is None:
        wanted = max(maxconn // _CONNECTIONS_PER_PIPE, nbthread * _MIN_PIPES)
    if needed > ceiling and _raise_hard_limit(needed + 2 * wanted):
        soft = hard = ceiling = needed + 2 * wanted
    if needed > ceiling:
        message = f"Cannot raise FD limit to {needed}, limit is {ceiling}"
        if glob.strict_limits:
            raise LimitError(f"{message}.")
        warnings.append(f"{message}; going on with what is allowed ('no strict-limits').")
        needed = ceiling
        maxconn = min(maxconn, max(1, (ceiling - fixed) // 2))
    limit = max(needed, min(ceiling, fixed + 2 * maxconn + 2 * wanted))
    pipes = max(0, min(wanted, (limit - fixed - 2 * maxconn) // 2))
    needed = max(needed, fixed + 2 * maxconn + 2 * pipes)
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    return Limits(maxconn, pipes // nbthread, needed, tuple(warnings))


def _raise_hard_limit(needed: int) -> bool:
    """Allow more open files than we were started with: a privilege."""
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, needed))
    except (ValueError, OSError):
        return False
    return True
