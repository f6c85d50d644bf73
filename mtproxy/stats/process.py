"""`show info`: the process as fields, with HAProxy 2.6's names, order, positions, tags and types.

Fields of things that this proxy does not have (memory pools, peers, ...) are there and 0, because
programs look for them by position or name. Any thread may call; other threads' data is only read.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mtproxy.stats.fields import Field
from mtproxy.stats.render import Value, json_field

if TYPE_CHECKING:
    from mtproxy.stats.runtime import Runtime

#: HAProxy counts bytes in its rate meter in units of 32
_BYTES_UNIT = 32


def _table(text: str) -> dict[int, Field]:
    fields = {}
    for line in text.strip().splitlines():
        position, name, tags, kind, description = line.split(None, 4)
        fields[int(position)] = Field(name.replace("_of_", " "), tags, kind, description)
    return fields


# Names with a blank are written with "_of_" here. Positions 45 and 46 belong to a compression
# library.
INFO_FIELDS = _table("""
0 Name POS str Name of the program
1 Version POS str Version of the program
2 Release_date POS str Date of the version
3 Nbthread CGS u32 Threads that serve connections
4 Nbproc CGS u32 Processes, always 1
5 Process_num KGP u32 Number of the process, always 1
6 Pid SGP u32 Process id
7 Uptime MDP str Time since start in days, hours, minutes and seconds
8 Uptime_sec MDP u32 Seconds since start
9 Memmax_MB CLP u32 Limit of memory in MB, 0 for none
10 PoolAlloc_MB MGP u32 Memory in pools in MB
11 PoolUsed_MB MGP u32 Memory in use from pools in MB
12 PoolFailed MCP u32 Allocations that failed
13 Ulimit-n CLP u32 Limit of open files
14 Maxsock CLP u32 Limit of sockets
15 Maxconn CLP u32 Limit of connections in force
16 Hard_maxconn CLP u32 Limit of connections that cannot be raised at run time
17 CurrConns MGP u32 Connections now
18 CumConns MCP u32 Connections since start
19 CumReq MCP u32 Requests since start
20 MaxSslConns MMP u32 Limit of TLS connections
21 CurrSslConns MGP u32 TLS connections now
22 CumSslConns MCP u32 TLS connections since start
23 Maxpipes CLP u32 Limit of pipes, 0 for none
24 PipesUsed MGP u32 Pipes in use for splicing
25 PipesFree MGP u32 Pipes kept for the next use
26 ConnRate MRP u32 Connections per second now
27 ConnRateLimit CLP u32 Limit of connections per second
28 MaxConnRate MMP u32 Most connections per second
29 SessRate MRP u32 Sessions per second now
30 SessRateLimit CLP u32 Limit of sessions per second
31 MaxSessRate MRP u32 Most sessions per second
32 SslRate MRP u32 TLS sessions per second now
33 SslRateLimit CLP u32 Limit of TLS sessions per second
34 MaxSslRate MMP u32 Most TLS sessions per second
35 SslFrontendKeyRate MGP u32 TLS keys computed per second for clients
36 SslFrontendMaxKeyRate MMP u32 Most TLS keys per second for clients
37 SslFrontendSessionReuse_pct MGP u32 Percentage of TLS sessions resumed
38 SslBackendKeyRate MRP u32 TLS keys computed per second for servers
39 SslBackendMaxKeyRate MMP u32 Most TLS keys per second for servers
40 SslCacheLookups MCP u32 Look-ups in the TLS session cache
41 SslCacheMisses MCP u32 Look-ups in the TLS session cache that found nothing
42 CompressBpsIn MRP u32 Bytes per second given to compression
43 CompressBpsOut MRP u32 Bytes per second that came out of compression
44 CompressBpsRateLim CLP u32 Limit of compression output
47 Tasks MGP u32 Tasks that exist now
48 Run_queue MGP u32 Tasklets waiting for their turn now
49 Idle_pct MaP u32 Percentage of the last second that threads had nothing to do
50 node COS str Name of this node
51 description COS str Description of this node
52 Stopping MGP u32 1 while a soft stop is in progress
53 Jobs MGP u32 Listeners and connections that keep the process alive
54 Unstoppable_of_Jobs MGP u32 Those of them that a stop does not wait for
55 Listeners MGP u32 Listening sockets
56 ActivePeers MGP u32 Peers that are in use
57 ConnectedPeers MGP u32 Peers that are connected
58 DroppedLogs MGP u32 Log messages that could not be sent
59 BusyPolling MGP u32 1 where threads poll without waiting
60 FailedResolutions MGP u32 Names that could not be resolved
61 TotalBytesOut MGP u64 Bytes sent to clients since start
62 TotalSplicdedBytesOut MGP u64 Those of them that were spliced
63 BytesOutRate MRP u64 Bytes per second sent to clients now
64 DebugCommandsIssued MGP u32 Debug commands used on this process
65 CumRecvLogs MCP u32 Log messages received
66 Build_of_info POS str Version of the build
67 Memmax_bytes CLP u32 Limit of memory in bytes, 0 for none
68 PoolAlloc_bytes MGP u64 Memory in pools in bytes
69 PoolUsed_bytes MGP u64 Memory in use from pools in bytes
70 Start_time_sec MDP u32 Start, in seconds since the epoch
71 Tainted SGP str Bits for unusual things that were done to the process
""")


@dataclass(frozen=True, slots=True)
class InfoItem:
    """A field with its place and its value."""

    position: int
    field: Field
    value: Value


def info(runtime: Runtime, *, precise: bool = False) -> list[InfoItem]:
    """All fields with their values; `precise` gives times with fractions (`show info float`)."""
    values = _values(runtime, precise)
    return [
        InfoItem(position, field, values.get(field.name, 0))
        for position, field in INFO_FIELDS.items()
        if field.name != "description" or runtime.settings.global_.description
    ]


def _values(runtime: Runtime, precise: bool) -> dict[str, Value]:
    pool = runtime.pool
    global_ = runtime.settings.global_
    uptime = time.monotonic() - runtime.started_monotonic
    totals = runtime.rates.process_totals()
    rates = runtime.rates
    connections = runtime.current_connections
    fronts = [f.counters for p in runtime.proxies for f in p.frontends]
    tune = global_.tune

    def rate(name: str) -> int:
        return rates.rate((None, None, name), totals[name])

    def highest(name: str) -> int:
        return rates.highest((None, None, name), totals[name])

    return {
        # clients ask for this name before they go on; "Build info" says which program it is
        "Name": "HAProxy",
        "Version": runtime.version,
        "Release_date": runtime.release_date,
        "Nbthread": pool.nbthread,
        "Nbproc": 1,
        "Process_num": 1,
        "Pid": runtime.pid,
        "Uptime": uptime_text(uptime),
        "Uptime_sec": round(uptime, 6) if precise else int(uptime),
        "Ulimit-n": runtime.ulimit_n,
        "Maxsock": runtime.maxsock,
        "Maxconn": runtime.maxconn,
        "Hard_maxconn": runtime.hard_maxconn,
        "CurrConns": connections,
        "CumConns": totals["cum_conn"] + runtime.cli_connections,
        "CumReq": totals["cum_req"] + runtime.cli_connections,
        "Maxpipes": int(tune.get("maxpipes", 0)),
        "PipesFree": sum(len(ctx.pipes) for ctx in pool.contexts),
        "ConnRate": rate("cum_conn"),
        "ConnRateLimit": 0 if runtime.connection_rate is None else runtime.connection_rate.limit,
        "SessRateLimit": 0 if runtime.session_rate is None else runtime.session_rate.limit,
        "SslRateLimit": runtime.idle_limits.get("ssl-sessions", 0),
        "CompressBpsRateLim": 1024 * runtime.idle_limits.get("http-compression", 0),
        "MaxConnRate": highest("cum_conn"),
        "SessRate": rate("cum_sess"),
        "MaxSessRate": highest("cum_sess"),
        "Tasks": sum(len(ctx.tasklets) for ctx in pool.contexts),
        "Run_queue": sum(
            len(ctx.urgent) + len(ctx.normal) + len(ctx.bulk) for ctx in pool.contexts
        ),
        "Idle_pct": rates.idle_percent,
        "node": runtime.node,
        "description": global_.description or "",
        "Stopping": int(pool.leaving),
        "Jobs": runtime.listeners + connections,
        "Listeners": runtime.listeners,
        "DroppedLogs": runtime.dropped_logs,
        "CumRecvLogs": runtime.received_logs,
        "TotalBytesOut": totals["bytes_out"],
        "TotalSplicdedBytesOut": sum(c.spliced_out for c in fronts),
        "BytesOutRate": rate("bytes_out") // _BYTES_UNIT * _BYTES_UNIT,
        "Build info": f"{runtime.product} {runtime.version}",
        "Start_time_sec": round(runtime.started_at, 6) if precise else int(runtime.started_at),
        "Tainted": "0",
    }


def uptime_text(seconds: float) -> str:
    """A time span the way HAProxy writes it, such as 1d 2h03m04s."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return f"{days}d {hour}h{minute:02d}m{second:02d}s"


def render_text(items: list[InfoItem], *, describe: bool = False) -> Iterator[str]:
    """`Name: value` lines."""
    for item in items:
        text = f":{json.dumps(item.field.description)}" if describe else ""
        yield f"{item.field.name}: {item.value}{text}\n"


def render_typed(items: list[InfoItem], *, describe: bool = False) -> Iterator[str]:
    """`position.name.process:tags:type:value` lines."""
    for item in items:
        kind = "flt" if isinstance(item.value, float) else item.field.type
        text = f":{json.dumps(item.field.description)}" if describe else ""
        yield (f"{item.position}.{item.field.name}.1:{item.field.tags}:{kind}:{item.value}{text}\n")


def render_json(items: list[InfoItem]) -> Iterator[str]:
    """One line with an array of items."""
    array = [json_field(i.position, i.field, i.field.tags, i.value) for i in items]
    yield json.dumps(array, separators=(",", ":")) + "\n"
