"""Counters of frontends, listeners, backends and servers: plain integers, one set per thread.

Only the owning thread writes a set (`counters.cum_req += 1`: no lock, no atomic); readers such as
`show stat` add the sets of all threads and accept that they see a moment that never was exactly.
`clear counters` does not write into other threads' sets: `stats.totals` subtracts a baseline
instead.

Names are HAProxy's. `http_rsp[0]` counts statuses outside 1xx..5xx, `http_rsp[n]` those of class n.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

#: calls over which q_time, c_time, d_time and t_time are averaged (HAProxy: TIME_STATS_SAMPLES)
AVERAGE_SAMPLES = 1024


class _Counters:
    """Slots are set to zero; `MAXIMA` names those of which a sum over threads has no meaning of its
    own.
    """

    __slots__ = ()
    #: never cleared by `clear counters`, and summed as they are
    GAUGES: frozenset[str] = frozenset()
    #: highest values seen: a sum over threads is an upper bound
    MAXIMA: frozenset[str] = frozenset()

    def __init__(self) -> None:
        for name in self.names():
            setattr(self, name, [0] * 6 if name == "http_rsp" else 0)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """All slots, base classes first."""
        return tuple(
            name for base in reversed(cls.__mro__) for name in base.__dict__.get("__slots__", ())
        )


class FrontendCounters(_Counters):
    """One frontend (or one listener) on one thread."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "cache_hits",
        "cache_lookups",
        "comp_byp",
        "comp_in",
        "comp_out",
        "comp_rsp",
        "conn_cur",
        "conn_max",
        "cum_conn",
        "cum_req",
        "cum_sess",
        "denied_conn",
        "denied_req",
        "denied_resp",
        "denied_sess",
        "failed_req",
        "failed_rewrites",
        "http_rsp",
        "intercepted_req",
        "internal_errors",
        "spliced_in",
        "spliced_out",
    )
    GAUGES = frozenset({"conn_cur"})
    MAXIMA = frozenset({"conn_max"})

    bytes_in: int
    bytes_out: int
    comp_byp: int
    comp_in: int
    comp_out: int
    comp_rsp: int
    conn_cur: int
    conn_max: int
    cum_conn: int
    cum_req: int
    cum_sess: int
    denied_conn: int
    denied_req: int
    denied_resp: int
    denied_sess: int
    failed_req: int
    failed_rewrites: int
    http_rsp: list[int]
    intercepted_req: int
    internal_errors: int
    #: bytes moved by splice() from and to the client
    spliced_in: int
    spliced_out: int
    cache_hits: int
    cache_lookups: int


class _BackendSide(_Counters):
    """What backends and servers count alike. The four averages are sliding sums, see `average`."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "c_time",
        "cli_aborts",
        "conn_cur",
        "conn_max",
        "connect",
        "ctime_max",
        "cum_sess",
        "d_time",
        "denied_req",
        "denied_resp",
        "dtime_max",
        "failed_conns",
        "failed_resp",
        "failed_rewrites",
        "http_rsp",
        "internal_errors",
        "last_tick",
        "q_time",
        "qtime_max",
        "queue_cur",
        "queue_max",
        "redispatches",
        "retries",
        "reuse",
        "spliced_in",
        "spliced_out",
        "srv_aborts",
        "t_time",
        "timed",
        "ttime_max",
        "unbalanced",
    )
    GAUGES = frozenset({"conn_cur", "queue_cur", "last_tick"})
    MAXIMA = frozenset(
        {"conn_max", "queue_max", "qtime_max", "ctime_max", "dtime_max", "ttime_max"}
    )

    bytes_in: int
    bytes_out: int
    c_time: int
    cli_aborts: int
    connect: int
    ctime_max: int
    cum_sess: int
    d_time: int
    denied_req: int
    denied_resp: int
    dtime_max: int
    failed_conns: int
    failed_resp: int
    failed_rewrites: int
    http_rsp: list[int]
    internal_errors: int
    #: tick of the last session, 0 for none
    last_tick: int
    conn_cur: int
    conn_max: int
    q_time: int
    qtime_max: int
    queue_cur: int
    queue_max: int
    redispatches: int
    retries: int
    reuse: int
    #: bytes moved by splice() from and to the server
    spliced_in: int
    spliced_out: int
    srv_aborts: int
    t_time: int
    #: transactions that entered the averages
    timed: int
    ttime_max: int
    #: of `cum_sess`, those that no balancing algorithm placed
    unbalanced: int

    def add_times(self, queue: int, connect: int, data: int, total: int) -> None:
        """Enter the timers (ms, -1: not reached) of one finished transaction into averages and
        maxima.

        The sliding sums lose one part in 1024 and gain the new value, so that sum/1024 follows the
        last ~1024 transactions at the cost of a few integer operations.
        """
        self.timed += 1
        # mostly zeros on a fast network: each costs two look-ups then, not six
        if queue > 0 or self.q_time:
            self.q_time += max(queue, 0) - (self.q_time >> 10)
            if queue > self.qtime_max:
                self.qtime_max = queue
        if connect > 0 or self.c_time:
            self.c_time += max(connect, 0) - (self.c_time >> 10)
            if connect > self.ctime_max:
                self.ctime_max = connect
        if data > 0 or self.d_time:
            self.d_time += max(data, 0) - (self.d_time >> 10)
            if data > self.dtime_max:
                self.dtime_max = data
        if total > 0 or self.t_time:
            self.t_time += max(total, 0) - (self.t_time >> 10)
            if total > self.ttime_max:
                self.ttime_max = total


class BackendCounters(_BackendSide):
    """One backend on one thread."""

    __slots__ = (
        "cache_hits",
        "cache_lookups",
        "comp_byp",
        "comp_in",
        "comp_out",
        "comp_rsp",
        "from_servers",
        "intercepted_req",
        "to_servers",
    )

    cache_hits: int
    cache_lookups: int
    comp_byp: int
    comp_in: int
    comp_out: int
    comp_rsp: int
    intercepted_req: int
    #: bytes of what went to servers and came from them; of copies that `combined` made
    to_servers: int
    from_servers: int


class ServerCounters(_BackendSide):
    """One server on one thread. Checks count on the thread that ran them."""

    __slots__ = ("down_trans", "failed_checks", "failed_hana")

    down_trans: int
    failed_checks: int
    failed_hana: int


#: what a backend has of its servers: the sums, and the highest of its own and theirs
_SUMS = (
    "bytes_in", "bytes_out", "unbalanced", "timed", "cum_sess", "reuse", "spliced_in",
    "spliced_out",
)  # fmt: skip
_HIGHEST = ("last_tick", "qtime_max", "ctime_max", "dtime_max", "ttime_max")
_read_sums = attrgetter(*_SUMS)
_read_highest = attrgetter(*_HIGHEST)


def combined(own: BackendCounters, servers: Iterable[ServerCounters]) -> BackendCounters:
    """One thread's backend with its servers: for what a transaction counts once, on its server.

    A session that was given to a server enters itself, bytes, responses, times and the use of idle
    connections there alone; this adds them up. Any thread; the result is a copy of the moment.
    """
    out = BackendCounters()
    for name in out.names():
        setattr(out, name, getattr(own, name))
    out.http_rsp = list(own.http_rsp)
    listed = list(servers)
    if not listed:
        return out
    # column by column: there may be thousands of servers
    sums = zip(*map(_read_sums, listed), strict=True)
    for name, column in zip(_SUMS, sums, strict=True):
        setattr(out, name, getattr(out, name) + sum(column))
    out.to_servers += sum([server.bytes_in for server in listed])
    out.from_servers += sum([server.bytes_out for server in listed])
    maxima = zip(*map(_read_highest, listed), strict=True)
    for name, column in zip(_HIGHEST, maxima, strict=True):
        setattr(out, name, max(getattr(out, name), *column))
    responses = zip(out.http_rsp, *[server.http_rsp for server in listed], strict=True)
    out.http_rsp = list(map(sum, responses))
    if out.timed:
        window = min(out.timed, AVERAGE_SAMPLES)
        parts: list[_BackendSide] = [part for part in (own, *listed) if part.timed]
        for name in ("q_time", "c_time", "d_time", "t_time"):
            weighted = sum(
                [
                    getattr(part, name) * part.timed // min(part.timed, AVERAGE_SAMPLES)
                    for part in parts
                ]
            )
            setattr(out, name, weighted * window // out.timed)
    return out


def absorb(own: BackendCounters, server: ServerCounters) -> None:
    """Enter for good what a server that goes has counted for its backend. Owner thread only."""
    total = combined(own, [server])
    for name in total.names():
        setattr(own, name, getattr(total, name))


def average(sliding_sum: int, samples: int) -> int:
    """The average in ms behind a sliding sum of `add_times` after `samples` transactions."""
    if samples <= 0:
        return 0
    return (sliding_sum + min(samples, AVERAGE_SAMPLES) - 1) // min(samples, AVERAGE_SAMPLES)
