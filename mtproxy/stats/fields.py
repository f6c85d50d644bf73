"""The columns of `show stat`, in HAProxy 2.6's order, with their tags and types.

Facts only, no values: names and order of the CSV header (management guide 9.1), and for the typed
output (9.2) each field's tag: origin (Metric, Status, Key, Config, Product), nature (a: average, A:
age, C: counter, D: duration, G: gauge, L: limit, M: maximum, N: name, O: output, R: rate) and scope
(Process, Service). Immutable; any thread may read it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Field:
    """`tags` are three letters, `type` one of str, u32, u64, s32."""

    name: str
    tags: str
    type: str
    description: str


def _table(text: str) -> tuple[Field, ...]:
    fields = []
    for line in text.strip().splitlines():
        name, tags, kind, description = line.split(None, 3)
        fields.append(Field(name, tags, kind, description))
    return tuple(fields)


#: the columns before the `-` column
CORE = _table("""
pxname KNS str Name of the proxy
svname KNS str FRONTEND, BACKEND, or the name of the server or listener
qcur MGP u32 Requests waiting in the queue now
qmax MMP u32 Most requests that waited in the queue
scur MGP u32 Sessions now
smax MMP u32 Most sessions at a time
slim CLP u32 Limit of sessions (maxconn, fullconn)
stot MCP u64 Sessions since start
bin MCP u64 Request bytes since start
bout MCP u64 Response bytes since start
dreq MCP u64 Requests denied
dresp MCP u64 Responses denied
ereq MCP u64 Requests that were invalid or incomplete
econ MCP u64 Requests for which no connection to a server came about
eresp MCP u64 Responses that were invalid or broken off by the server
wretr MCP u64 Connects that were retried
wredis MCP u64 Requests sent to another server after a failure
status SGP str State: UP, DOWN, NOLB, MAINT, DRAIN, no check, OPEN, PAUSED, STOP
weight MaP u32 Weight of the server, or of all active servers of the backend
act SGP u32 Active servers that are usable
bck SGP u32 Backup servers that are usable
chkfail MCP u64 Health checks that failed while the server was up
chkdown MCP u64 Times it went from UP to DOWN
lastchg MAP u32 Seconds since the last change of state
downtime MCP u32 Seconds spent DOWN
qlimit CGS u32 Limit of the server's queue
pid KGP u32 Number of the process, always 1
iid KGS u32 Number of the proxy
sid KGS u32 Number of the server or listener in its proxy
throttle MAP u32 Percentage of the weight in use during slow start
lbtot MCP u64 Requests given by load balancing
tracked CNS str Server whose state this one follows
type CGS u32 0 frontend, 1 backend, 2 server, 3 listener
rate MRP u32 Sessions per second now
rate_lim CLP u32 Limit of sessions per second
rate_max MMP u32 Most sessions per second
check_status MOP str Result of the last health check
check_code MOP u32 Status code of the last health check
check_duration MDP u64 Milliseconds the last health check took
hrsp_1xx MCP u64 Responses with a 1xx status
hrsp_2xx MCP u64 Responses with a 2xx status
hrsp_3xx MCP u64 Responses with a 3xx status
hrsp_4xx MCP u64 Responses with a 4xx status
hrsp_5xx MCP u64 Responses with a 5xx status
hrsp_other MCP u64 Responses with another status or none
hanafail MCP u64 Failures found by watching traffic
req_rate MRP u32 HTTP requests per second now
req_rate_max MMP u32 Most HTTP requests per second
req_tot MCP u64 HTTP requests since start
cli_abrt MCP u64 Transfers broken off by the client
srv_abrt MCP u64 Transfers broken off by the server
comp_in MCP u64 Bytes given to compression
comp_out MCP u64 Bytes that came out of compression
comp_byp MCP u64 Bytes that could have been compressed but were not
comp_rsp MCP u64 Responses that were compressed
lastsess MAP s32 Seconds since the last session, -1 for none
last_chk MOP str Details of the last health check
last_agt MOP str Details of the last agent check
qtime MaP u32 Average milliseconds in queue over the last 1024 requests
ctime MaP u32 Average milliseconds to connect over the last 1024 requests
rtime MaP u32 Average milliseconds to the response over the last 1024 requests
ttime MaP u32 Average milliseconds in all over the last 1024 requests
agent_status MOP str Result of the last agent check
agent_code MOP u32 Code of the last agent check
agent_duration MDP u64 Milliseconds the last agent check took
check_desc MOP str The health check's result in words
agent_desc MOP str The agent check's result in words
check_rise CGS u32 Successful checks that bring it up
check_fall CGS u32 Failed checks that take it down
check_health CGS u32 Health counter, from 0 to rise+fall-1
agent_rise CGS u32 Successful agent checks that bring it up
agent_fall CGS u32 Failed agent checks that take it down
agent_health CGS u32 Health counter of the agent check
addr CGS str Address and port
cookie CNS str Cookie value or name
mode CGS str tcp, http, health or unknown
algo CGS str Algorithm of load balancing
conn_rate MRP u32 Connections per second now
conn_rate_max MMP u32 Most connections per second
conn_tot MCP u64 Connections since start
intercepted MCP u64 Requests answered by the proxy itself
dcon MCP u64 Connections denied by rules
dses MCP u64 Sessions denied by rules
wrew MCP u64 Header changes that failed
connect MCP u64 Connection attempts
reuse MCP u64 Requests sent over an idle connection
cache_lookups MCP u64 Requests looked for in the cache
cache_hits MCP u64 Requests answered from the cache
srv_icur MGP u32 Idle connections ready for use
src_ilim CLP u32 Limit of idle connections
qtime_max MMP u32 Most milliseconds in queue
ctime_max MMP u32 Most milliseconds to connect
rtime_max MMP u32 Most milliseconds to the response
ttime_max MMP u32 Most milliseconds in all
eint MCP u64 Internal errors
idle_conn_cur MGP u32 Idle connections not safe for any request
safe_conn_cur MGP u32 Idle connections safe for any request
used_conn_cur MGP u32 Connections in use
need_conn_est MGP u32 Estimate of the connections needed
uweight MaP u32 Weight as set by the user, or of all active servers
agg_server_status MGP u32 Servers by state (metrics only)
agg_server_check_status MGP u32 Servers by check result (metrics only)
agg_check_status MGP u32 Checks by result (metrics only)
""")

#: the columns after the `-` column, which HAProxy's modules add
MODULES = _table("""
ssl_sess MCP u64 TLS sessions since start
ssl_reused_sess MCP u64 TLS sessions that were resumed
ssl_failed_handshake MCP u64 TLS handshakes that failed
h2_headers_rcvd MCP u64 HTTP/2 HEADERS frames received
h2_data_rcvd MCP u64 HTTP/2 DATA frames received
h2_settings_rcvd MCP u64 HTTP/2 SETTINGS frames received
h2_rst_stream_rcvd MCP u64 HTTP/2 RST_STREAM frames received
h2_goaway_rcvd MCP u64 HTTP/2 GOAWAY frames received
h2_detected_conn_protocol_errors MCP u64 HTTP/2 connection errors found
h2_detected_strm_protocol_errors MCP u64 HTTP/2 stream errors found
h2_rst_stream_resp MCP u64 HTTP/2 RST_STREAM frames sent upon errors
h2_goaway_resp MCP u64 HTTP/2 GOAWAY frames sent upon errors
h2_open_connections MGP u64 HTTP/2 connections now
h2_backend_open_streams MGP u64 HTTP/2 streams now
h2_total_connections MCP u64 HTTP/2 connections since start
h2_backend_total_streams MCP u64 HTTP/2 streams since start
h1_open_connections MGP u64 HTTP/1 connections now
h1_open_streams MGP u64 HTTP/1 streams now
h1_total_connections MCP u64 HTTP/1 connections since start
h1_total_streams MCP u64 HTTP/1 streams since start
h1_bytes_in MCP u64 HTTP/1 bytes received
h1_bytes_out MCP u64 HTTP/1 bytes sent
h1_spliced_bytes_in MCP u64 HTTP/1 bytes received by splicing
h1_spliced_bytes_out MCP u64 HTTP/1 bytes sent by splicing
""")

#: positions as the typed output numbers them
FIELDS = CORE + MODULES

POSITIONS = {field.name: position for position, field in enumerate(FIELDS)}

#: the CSV header line, without newline
CSV_HEADER = (
    "# " + "".join(f"{f.name}," for f in CORE) + "-," + "".join(f"{f.name}," for f in MODULES)
)

#: fields whose tags differ in a backend's rows
BACKEND_TAGS = {"act": "MGP", "bck": "MGP", "rate": "MGP", "rate_max": "MGP"}

ORIGINS = {"M": "Metric", "S": "Status", "K": "Key", "C": "Config", "P": "Product"}
NATURES = {
    "a": "Avg",
    "A": "Age",
    "C": "Counter",
    "D": "Duration",
    "G": "Gauge",
    "L": "Limit",
    "M": "Max",
    "N": "Name",
    "O": "Output",
    "R": "Rate",
}
SCOPES = {"P": "Process", "S": "Service", "C": "Cluster"}
