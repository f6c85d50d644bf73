"""Rows of `show stat` from the running proxies: frontends, servers, backends.

Which columns a row has, and when they stay empty, is HAProxy 2.6's choice (management guide 9.1).
Any thread may call; other threads' counters are read without a lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mtproxy.base.addresses import Address, AddressKind
from mtproxy.base.clock import monotonic_ms
from mtproxy.proxy.counters import AVERAGE_SAMPLES
from mtproxy.proxy.slowstart import throttle
from mtproxy.proxy.states import server_status
from mtproxy.stats.fields import MODULES
from mtproxy.stats.render import ObjectType, Row, Value
from mtproxy.stats.totals import Totals

if TYPE_CHECKING:
    from mtproxy.proxy.counters import BackendCounters, ServerCounters
    from mtproxy.proxy.server import Server, ServerState
    from mtproxy.stats.runtime import ListenerRuntime, ProxyRuntime, Runtime

#: bits of the <type> filter
FRONTENDS, BACKENDS, SERVERS, LISTENERS = 1, 2, 4, 8


@dataclass(frozen=True, slots=True)
class Filter:
    """What `show stat` was asked for. `types` is a mask of the bits above; None and -1 stand for
    all.
    """

    proxy: ProxyRuntime | None = None
    types: int = -1
    server_id: int = -1
    #: leave out servers that are down or in maintenance
    up: bool = False
    #: leave out servers in maintenance
    no_maint: bool = False
    #: addresses, cookies and algorithms are for operators
    legends: bool = True


def rows(runtime: Runtime, wanted: Filter | None = None) -> Iterator[Row]:
    """All rows in the order of the configuration: frontend, listeners, servers, backend of each
    proxy.
    """
    wanted = wanted or Filter()
    for proxy in runtime.proxies if wanted.proxy is None else [wanted.proxy]:
        one_server = wanted.server_id != -1
        if (
            proxy.frontends
            and wanted.types & FRONTENDS
            and (not one_server or not wanted.server_id)
        ):
            yield frontend_row(runtime, proxy)
        if wanted.types & LISTENERS:
            for listener in proxy.listeners:
                if wanted.server_id in (-1, listener.settings.id):
                    yield listener_row(runtime, proxy, listener, legends=wanted.legends)
        if proxy.backends and proxy.shared is not None:
            if wanted.types & SERVERS:
                yield from _server_rows(runtime, proxy, wanted)
            if wanted.types & BACKENDS and (not one_server or not wanted.server_id):
                yield backend_row(runtime, proxy, wanted)


def rows_of(runtime: Runtime, shown: Iterable[ProxyRuntime], wanted: Filter) -> Iterator[Row]:
    """The rows of some proxies, in their order."""
    for proxy in shown:
        yield from rows(runtime, replace(wanted, proxy=proxy))


def _server_rows(runtime: Runtime, proxy: ProxyRuntime, wanted: Filter) -> Iterator[Row]:
    assert proxy.shared is not None
    for state in proxy.shared.servers:
        if wanted.server_id not in (-1, state.id):
            continue
        if (wanted.up or wanted.no_maint) and state.maint:
            continue
        if wanted.up and not state.running:
            continue
        yield server_row(runtime, proxy, state, legends=wanted.legends)


def frontend_row(runtime: Runtime, proxy: ProxyRuntime) -> Row:
    """The FRONTEND line."""
    number = proxy.settings.id
    sets = proxy.frontend_counters()
    http = proxy.settings.mode == "http"
    t = runtime.baselines.since_clear((number, "F"), sets)
    rates = runtime.rates
    total = {
        name: sum(getattr(c, name) for c in sets) for name in ("cum_conn", "cum_sess", "cum_req")
    }
    values: dict[str, Value] = {
        "pxname": proxy.name,
        "svname": "FRONTEND",
        "scur": t.conn_cur,
        "smax": rates.peak((number, "F", "conn"), t.conn_cur, t.conn_max, t.cum_sess),
        "slim": _front_limit(runtime, proxy),
        "stot": t.cum_sess,
        "bin": t.bytes_in,
        "bout": t.bytes_out,
        "dreq": t.denied_req,
        "dresp": t.denied_resp,
        "ereq": t.failed_req,
        "status": proxy.state,
        "pid": 1,
        "iid": number,
        "sid": 0,
        "type": ObjectType.FRONTEND.number,
        "rate": rates.rate((number, "F", "cum_sess"), total["cum_sess"]),
        "rate_lim": proxy.settings.rate_limit,
        "rate_max": rates.highest((number, "F", "cum_sess"), total["cum_sess"]),
        "comp_in": t.comp_in,
        "comp_out": t.comp_out,
        "comp_byp": t.comp_byp,
        "comp_rsp": t.comp_rsp,
        "mode": proxy.settings.mode,
        "conn_rate": rates.rate((number, "F", "cum_conn"), total["cum_conn"]),
        "conn_rate_max": rates.highest((number, "F", "cum_conn"), total["cum_conn"]),
        "conn_tot": t.cum_conn,
        "dcon": t.denied_conn,
        "dses": t.denied_sess,
        "wrew": t.failed_rewrites,
        "eint": t.internal_errors,
        # of mode tcp, where there are none, too
        "req_rate": rates.rate((number, "F", "cum_req"), total["cum_req"]) if http else 0,
        "req_rate_max": rates.highest((number, "F", "cum_req"), total["cum_req"]) if http else 0,
        "req_tot": t.cum_req if http else 0,
    }
    if http:
        values |= _responses(t)
        values |= {
            "intercepted": t.intercepted_req,
            "cache_lookups": t.cache_lookups,
            "cache_hits": t.cache_hits,
        }
    values |= _modules(t, http, connections=t.cum_conn)
    return Row(ObjectType.FRONTEND, number, 0, values)


def listener_row(
    runtime: Runtime, proxy: ProxyRuntime, listener: ListenerRuntime, *, legends: bool = True
) -> Row:
    """The line of one listening socket (`option socket-stats`)."""
    number = proxy.settings.id
    settings = listener.settings
    assert settings.id is not None
    key = (number, "L", settings.id)
    t = runtime.baselines.since_clear(key, listener.counters)
    full = settings.maxconn and t.conn_cur >= settings.maxconn
    values: dict[str, Value] = {
        "pxname": proxy.name,
        "svname": listener.name,
        "scur": t.conn_cur,
        "smax": runtime.rates.peak((*key, "conn"), t.conn_cur, t.conn_max, t.cum_conn),
        "slim": settings.maxconn or 0,
        "stot": t.cum_conn,
        "bin": t.bytes_in,
        "bout": t.bytes_out,
        "dreq": t.denied_req,
        "dresp": t.denied_resp,
        "ereq": t.failed_req,
        "status": "FULL" if full else "OPEN",
        "pid": 1,
        "iid": number,
        "sid": settings.id,
        "type": ObjectType.LISTENER.number,
        "mode": proxy.settings.mode,
        "dcon": t.denied_conn,
        "dses": t.denied_sess,
        "wrew": t.failed_rewrites,
        "eint": t.internal_errors,
        "ssl_sess": 0,
        "ssl_reused_sess": 0,
        "ssl_failed_handshake": 0,
    }
    if legends:
        values["addr"] = listener.address or address_text(settings.address)
    return Row(ObjectType.LISTENER, number, settings.id, values)


def backend_row(runtime: Runtime, proxy: ProxyRuntime, wanted: Filter | None = None) -> Row:
    """The BACKEND line."""
    wanted = wanted or Filter()
    shared = proxy.shared
    assert shared is not None
    number = proxy.settings.id
    sets = proxy.backend_counters()
    http = proxy.settings.mode == "http"
    t = runtime.baselines.since_clear((number, "B"), sets)
    now = monotonic_ms()
    status = "UP" if shared.up else "DOWN"
    if wanted.up or wanted.no_maint:
        status += f" ({sum(s.running for s in shared.servers)}/{len(shared.servers)})"
    sessions = sum(c.cum_sess for c in sets)
    values: dict[str, Value] = {
        "pxname": proxy.name,
        "svname": "BACKEND",
        "slim": shared.fullconn,
        "dreq": t.denied_req,
        "status": status,
        "weight": shared.total_weight(),
        "act": shared.active,
        "bck": shared.backup,
        "chkdown": shared.down_transitions,
        "lastchg": (now - shared.last_change) // 1000,
        "pid": 1,
        "iid": number,
        "sid": 0,
        "type": ObjectType.BACKEND.number,
        "rate": runtime.rates.rate((number, "B", "cum_sess"), sessions),
        "rate_max": runtime.rates.highest((number, "B", "cum_sess"), sessions),
        "comp_in": t.comp_in,
        "comp_out": t.comp_out,
        "comp_byp": t.comp_byp,
        "comp_rsp": t.comp_rsp,
        "mode": proxy.settings.mode,
        "uweight": shared.total_weight(),
        "agg_server_status": 0,
        "agg_server_check_status": 0,
        "agg_check_status": 0,
    }
    values |= _backend_side(runtime, (number, "B"), t, sets, http)
    if shared.servers:
        values["downtime"] = _downtime(shared.down_ms, shared.last_change, shared.up, now)
    if wanted.legends:
        values["algo"] = proxy.settings.balance
        cookie = proxy.settings.cookie
        if cookie is not None:
            values["cookie"] = _readable(cookie.name)
    values |= _modules(t, http, connections=t.connect)
    if http:
        idle = sum([len(side.idle) for one in shared.servers for side in one.sides])
        values |= {
            "cache_lookups": t.cache_lookups,
            "cache_hits": t.cache_hits,
            # this side of HTTP/1 is that of the servers
            "h1_open_connections": t.conn_cur + idle,
            "h1_total_streams": t.connect + t.reuse,
            "h1_bytes_in": t.from_servers,
            "h1_bytes_out": t.to_servers,
        }
    return Row(ObjectType.BACKEND, number, 0, values)


def server_row(
    runtime: Runtime, proxy: ProxyRuntime, state: ServerState, *, legends: bool = True
) -> Row:
    """The line of one server."""
    number = proxy.settings.id
    sides: Sequence[Server] = state.sides
    sets = [s.counters for s in sides]
    http = proxy.settings.mode == "http"
    key = (number, state.id)
    t = runtime.baselines.since_clear(key, sets)
    now = monotonic_ms()
    sessions = sum(c.cum_sess for c in sets)
    idle = [conn.mark.reused > 0 for side in sides for conn in side.look_at_idle()]
    values: dict[str, Value] = {
        "pxname": proxy.name,
        "svname": state.name,
        "status": server_status(state),
        "weight": state.shown_weight(now),
        "act": int(not state.settings.backup),
        "bck": int(state.settings.backup),
        "lastchg": (now - state.last_change) // 1000,
        "pid": 1,
        "iid": number,
        "sid": state.id,
        "type": ObjectType.SERVER.number,
        "rate": runtime.rates.rate((*key, "cum_sess"), sessions),
        "rate_max": runtime.rates.highest((*key, "cum_sess"), sessions),
        "mode": proxy.settings.mode,
        "srv_icur": len(idle),
        "idle_conn_cur": idle.count(False),
        "safe_conn_cur": idle.count(True),
        "used_conn_cur": t.conn_cur,
        "need_conn_est": max(t.conn_cur, int(t.connect > 0)),
        "uweight": state.weight,
        "ssl_sess": 0,
        "ssl_reused_sess": 0,
        "ssl_failed_handshake": 0,
    }
    values |= _backend_side(runtime, key, t, sets, http)
    limit = state.limit
    if limit is not None and limit.maxconn:
        values["slim"] = limit.maxconn
    if limit is not None and limit.maxqueue:
        values["qlimit"] = limit.maxqueue
    percent = throttle(state, now)
    if percent is not None:
        values["throttle"] = percent
    if legends:
        values["addr"] = address_text(state.address)
        cookie = state.sides[0].cookie if state.sides else state.settings.cookie
        if cookie:
            values["cookie"] = _readable(cookie)
    limit = state.limit
    if limit is not None:
        if limit.maxconn:
            values["slim"] = limit.maxconn
        if limit.maxqueue:
            values["qlimit"] = limit.maxqueue
    if state.settings.pool_max_conn >= 0:
        values["src_ilim"] = state.settings.pool_max_conn
    agent = state.agent
    if agent.active:
        values |= {
            "agent_status": ("* " if agent.in_progress else "") + agent.status.code,
            "agent_duration": max(agent.duration, 0),
            "agent_desc": agent.status.description,
            "last_agt": agent.info,
            "agent_rise": agent.health.rise,
            "agent_fall": agent.health.fall,
            "agent_health": agent.health.value,
        }
        if agent.status.has_code:
            values["agent_code"] = agent.code
    if state.checked_one.settings.states.observe != "none":
        values["hanafail"] = state.failed_hana
    if state.track is not None:
        values["tracked"] = state.track.full_name
    check = state.check
    if check.enabled:
        values |= {
            "chkfail": state.failed_checks,
            "chkdown": state.down_transitions,
            "downtime": _downtime(state.down_ms, state.last_change, state.running, now),
        }
    if check.active:
        values |= {
            "check_status": ("* " if check.in_progress else "") + check.status.code,
            "last_chk": check.info,
            "check_desc": check.status.description,
            "check_rise": check.health.rise,
            "check_fall": check.health.fall,
            "check_health": check.health.value,
        }
        if check.status.has_code:
            values["check_code"] = check.code % (1 << 32)
        if check.status.finished:
            values["check_duration"] = check.duration
    agent = state.agent
    if agent.active:
        values |= {
            "agent_status": ("* " if agent.in_progress else "") + agent.status.code,
            "last_agt": agent.info,
            "agent_desc": agent.status.description,
            "agent_duration": max(agent.duration, 0),
            "agent_rise": agent.health.rise,
            "agent_fall": agent.health.fall,
            "agent_health": agent.health.value,
        }
        if agent.status.has_code:
            values["agent_code"] = agent.code
    return Row(ObjectType.SERVER, number, state.id, values)


def _readable(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def address_text(address: Address) -> str:
    """An address as the `addr` column shows it: "1.2.3.4:80", "[::1]:80", "unix"."""
    if address.kind in (AddressKind.UNIX, AddressKind.ABNS):
        return "unix"
    if address.kind is AddressKind.NONE:
        return ""
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{host}:{address.port}"


def _backend_side(
    runtime: Runtime,
    key: tuple[object, ...],
    t: Totals,
    sets: Sequence[BackendCounters] | Sequence[ServerCounters],
    http: bool,
) -> dict[str, Value]:
    """The columns that servers and backends have in common."""
    values: dict[str, Value] = {
        "qcur": t.queue_cur,
        "qmax": t.queue_max,
        "scur": t.conn_cur,
        "smax": runtime.rates.peak((*key, "conn"), t.conn_cur, t.conn_max, t.cum_sess),
        "stot": t.cum_sess,
        "bin": t.bytes_in,
        "bout": t.bytes_out,
        "dresp": t.denied_resp,
        "econ": t.failed_conns,
        "eresp": t.failed_resp,
        "wretr": t.retries,
        "wredis": t.redispatches,
        "lbtot": t.cum_sess - t.unbalanced,
        "cli_abrt": t.cli_aborts,
        "srv_abrt": t.srv_aborts,
        "lastsess": (monotonic_ms() - t.last_tick) // 1000 if t.last_tick else -1,
        **_averages(sets),
        "wrew": t.failed_rewrites,
        "connect": t.connect,
        "reuse": t.reuse,
        "qtime_max": t.qtime_max,
        "ctime_max": t.ctime_max,
        "rtime_max": t.dtime_max,
        "ttime_max": t.ttime_max,
        "eint": t.internal_errors,
    }
    if http:
        values |= _responses(t)
        values["req_tot"] = sum(t.http_rsp)
    return values


#: column -> the sliding sum that it is the average of
_AVERAGES = {"qtime": "q_time", "ctime": "c_time", "rtime": "d_time", "ttime": "t_time"}
_NO_AVERAGES = dict.fromkeys(_AVERAGES, 0)


def _averages(sets: Sequence[BackendCounters] | Sequence[ServerCounters]) -> dict[str, int]:
    """Average times over the last 1024 transactions of each thread, in ms, rounded up."""
    samples = sum([min(c.timed, AVERAGE_SAMPLES) for c in sets])
    if not samples:
        return _NO_AVERAGES
    return {
        column: -(-sum([getattr(c, name) for c in sets]) // samples)
        for column, name in _AVERAGES.items()
    }


def _responses(t: Totals) -> dict[str, Value]:
    other, *classes = t.http_rsp
    values: dict[str, Value] = {f"hrsp_{n}xx": count for n, count in enumerate(classes, 1)}
    values["hrsp_other"] = other
    return values


def _modules(t: Totals, http: bool, *, connections: int) -> dict[str, Value]:
    """The columns after `-`: what this proxy has no counters for stays 0."""
    values: dict[str, Value] = {field.name: 0 for field in MODULES}
    if http:
        values |= {
            "h1_open_connections": t.conn_cur,
            "h1_total_connections": connections,
            "h1_total_streams": sum(t.http_rsp),
            "h1_bytes_in": t.bytes_in,
            "h1_bytes_out": t.bytes_out,
            "h1_spliced_bytes_in": t.spliced_in,
            "h1_spliced_bytes_out": t.spliced_out,
        }
    return values


def _front_limit(runtime: Runtime, proxy: ProxyRuntime) -> int:
    """The limit of a frontend's connections that is in force."""
    if proxy.maxconn is not None:
        return proxy.maxconn
    return proxy.settings.maxconn or runtime.first_maxconn


def _downtime(down_ms: int, last_change: int, up: bool, now: int) -> int:
    """Seconds spent down, the present outage included."""
    return (down_ms + (0 if up else now - last_change)) // 1000
