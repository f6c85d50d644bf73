"""How many connections the process may have, and the descriptors they need. At start only."""

from __future__ import annotations

import resource
from dataclasses import dataclass, replace

from mtproxy.base.settings import Settings

#: descriptors of each thread: poller, wake-up, two log targets
_PER_THREAD = 4
_TARGETS_AMONG_THEM = 2
#: standard streams, configuration and what libraries keep open
_BASE = 16
#: never fewer connections than this when nothing is configured
_MIN_MAXCONN = 100
#: one spliced direction in so many connections is expected; a direction without pipe is copied
_CONNECTIONS_PER_PIPE = 4
#: pipes of a thread where there are descriptors for them
_MIN_PIPES = 8

#: stands for "no limit at all"
_UNLIMITED = 1 << 30


class LimitError(Exception):
    """The configuration wants more descriptors than the system allows."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What `work_out` found."""

    #: client connections of the whole process
    maxconn: int
    #: as many as were asked for: more than `maxconn` where `no strict-limits` had to do with less
    hard_maxconn: int
    #: pipes that splicing may hold in each thread
    pipes: int
    #: descriptors that `hard_maxconn` connections and the pipes need; the fd table is as long
    maxsock: int
    #: descriptors that are used of these; the soft limit on open files is at least that
    ulimit_n: int
    warnings: tuple[str, ...] = ()


def fixed_descriptors(settings: Settings, nbthread: int) -> int:
    """Descriptors that are needed beside those of connections."""
    listeners = len(settings.global_.stats_sockets)
    listeners += sum(bind.shards or nbthread for p in settings.proxies for bind in p.binds)
    checks = sum(1 for p in settings.proxies for s in p.servers if s.check is not None)
    # every thread opens each of them; rings are memory, and their servers are forwarded to once
    logs = [log for p in settings.proxies if not p.disabled for log in p.logs]
    targets = len({log.stdio or log.address for log in logs if log.ring is None})
    return (
        _BASE
        + nbthread * (_PER_THREAD + max(0, targets - _TARGETS_AMONG_THEM))
        + listeners
        + checks
        + sum(len(ring.servers) for ring in settings.rings)
        + 16 * len(settings.global_.stats_sockets)
    )


def work_out(settings: Settings, nbthread: int, cmdline_maxconn: int | None = None) -> Limits:
    """Find `maxconn` and raise the soft limit on open files to what it needs.

    A connection takes two descriptors, one on each side (manual 3.1 `fd-hard-limit`,
    `strict-limits`, `ulimit-n`; 3.2 `maxconn`). Raises LimitError where `strict-limits` (the
    default) forbids to go on with less.
    """
    glob = settings.global_
    soft, hard = map(_number, resource.getrlimit(resource.RLIMIT_NOFILE))
    ceiling = min(hard, glob.fd_hard_limit or hard)
    fixed = fixed_descriptors(settings, nbthread)
    asked = cmdline_maxconn or glob.maxconn
    budget = 0
    if asked is None:
        budget = min(glob.ulimit_n or ceiling, ceiling, 1 << 20)
        per_connection = 2 + 2 / _CONNECTIONS_PER_PIPE
        maxconn = max(_MIN_MAXCONN, int((budget - fixed) / per_connection))
    else:
        maxconn = asked
    # Pipes are a convenience: they get what connections leave, so that none of these is refused
    # for want of a descriptor while splicing goes on.
    pipes = glob.maxpipes
    if pipes is None:
        pipes = max(maxconn // _CONNECTIONS_PER_PIPE, nbthread * _MIN_PIPES)
    want = _Want(maxconn, fixed, pipes)
    needed = max(glob.ulimit_n or 0, want.for_connections, budget)
    own = max(glob.ulimit_n or needed, soft)
    # what `ulimit-n` lacks for the few that are no connections is added to it, but no more
    contradiction = asked is not None and own < 2 * maxconn
    if contradiction:
        needed = own
    with_pipes = needed + 2 * pipes
    if (
        needed > ceiling
        and with_pipes <= (glob.fd_hard_limit or with_pipes)
        and _raise_hard_limit(with_pipes)
    ):
        soft = hard = ceiling = with_pipes
    problems: list[str] = []
    if needed > ceiling:
        problems.append(f"Cannot raise FD limit to {needed}, limit is {ceiling}.")
    usable = min(ceiling, own) if contradiction else ceiling
    if want.for_connections > usable:
        problems.append(
            f"FD limit ({usable}) too low for maxconn={maxconn}/maxsock={want.for_connections}. "
            f"Please raise 'ulimit-n' to {want.for_connections} or more to avoid any trouble."
        )
    if problems and glob.strict_limits:
        raise LimitError(problems[0])
    found = _share_out(want, min(needed, usable), usable, nbthread)
    if found.maxconn < maxconn:
        problems.append(f"Going on with at most {found.maxconn} connections ('no strict-limits').")
    if soft < found.ulimit_n:
        try:
            _raise_soft_limit(min(hard, found.ulimit_n))
        except (ValueError, OSError) as e:  # the hard limit is above fs.nr_open
            problems.append(f"Cannot raise FD limit to {found.ulimit_n}, limit is {soft} ({e}).")
            if glob.strict_limits:
                raise LimitError(problems[-1]) from e
    return replace(found, warnings=tuple(problems))


@dataclass(frozen=True, slots=True)
class _Want:
    """What the configuration asks for: connections, descriptors beside them, pipes in all."""

    maxconn: int
    fixed: int
    pipes: int

    @property
    def for_connections(self) -> int:
        return self.fixed + 2 * self.maxconn


def _share_out(want: _Want, needed: int, usable: int, nbthread: int) -> Limits:
    """How many of the `usable` descriptors connections get, and how many pipes."""
    fixed = want.fixed
    maxconn = min(want.maxconn, max(1, (usable - fixed) // 2))
    limit = max(needed, min(usable, fixed + 2 * maxconn + 2 * want.pipes))
    pipes = max(0, min(want.pipes, (limit - fixed - 2 * maxconn) // 2))
    # not even those beside connections may fit in
    used = min(usable, max(needed, fixed + 2 * maxconn + 2 * pipes))
    maxsock = max(used, want.for_connections)
    return Limits(maxconn, want.maxconn, pipes // nbthread, maxsock, used)


def _number(limit: int) -> int:
    return limit if limit != resource.RLIM_INFINITY else _UNLIMITED


def _raise_soft_limit(needed: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _raise_hard_limit(needed: int) -> bool:
    """Allow more open files than we were started with: a privilege."""
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, needed))
    except (ValueError, OSError):
        return False
    return True
