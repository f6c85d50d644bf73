"""The metrics of HAProxy 2.6's Prometheus exporter: facts, no values.

Names, types, help texts and their order are those that HAProxy's exporter prints: dashboards
and alerts are written for them. Immutable; any thread may read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Metric:
    """`field` is the column of `show stat`, or the line of `show info`, that it tells. `kinds`: the
    rows that have it, of F (frontend), L (listener), B (backend) and S (server).
    """

    field: str
    name: str
    type: str
    kinds: str
    help: str


def _table(text: str, kinds: str = "") -> tuple[Metric, ...]:
    """One metric for each line; a line that begins with blanks goes on with the one before it."""
    metrics = []
    for line in text.strip().replace("\n  ", " ").splitlines():
        if kinds:
            field, name, type_, help_ = line.split(" ", 3)
            metrics.append(Metric(field.replace("_of_", " "), name, type_, kinds, help_))
        else:
            field, name, type_, own, help_ = line.split(" ", 4)
            metrics.append(Metric(field, name, type_, own, help_))
    return tuple(metrics)


#: of the process: the prefix is haproxy_process_. Blanks of fields are written "_of_" here.
PROCESS: Final = _table(
    """
Nbthread nbthread gauge Number of started threads (global.nbthread)
Nbproc nbproc gauge Number of started worker processes (historical, always 1)
Process_num relative_process_id gauge Relative worker process number (1)
Uptime_sec uptime_seconds gauge How long ago this worker process was started (seconds)
PoolFailed pool_failures_total counter Number of failed pool allocations since this worker was
  started
Ulimit-n max_fds gauge Hard limit on the number of per-process file descriptors
Maxsock max_sockets gauge Hard limit on the number of per-process sockets
Maxconn max_connections gauge Hard limit on the number of per-process connections (configured or
  imposed by Ulimit-n)
Hard_maxconn hard_max_connections gauge Hard limit on the number of per-process connections
  (imposed by Memmax_MB or Ulimit-n)
CurrConns current_connections gauge Current number of connections on this worker process
CumConns connections_total counter Total number of connections on this worker process since started
CumReq requests_total counter Total number of requests on this worker process since started
MaxSslConns max_ssl_connections gauge Hard limit on the number of per-process SSL endpoints
  (front+back), 0=unlimited
CurrSslConns current_ssl_connections gauge Current number of SSL endpoints on this worker process
  (front+back)
CumSslConns ssl_connections_total counter Total number of SSL endpoints on this worker process
  since started (front+back)
Maxpipes max_pipes gauge Hard limit on the number of pipes for splicing, 0=unlimited
PipesUsed pipes_used_total counter Current number of pipes in use in this worker process
PipesFree pipes_free_total counter Current number of allocated and available pipes in this worker
  process
ConnRate current_connection_rate gauge Number of front connections created on this worker process
  over the last second
ConnRateLimit limit_connection_rate gauge Hard limit for ConnRate (global.maxconnrate)
MaxConnRate max_connection_rate gauge Highest ConnRate reached on this worker process since
  started (in connections per second)
SessRate current_session_rate gauge Number of sessions created on this worker process over the
  last second
SessRateLimit limit_session_rate gauge Hard limit for SessRate (global.maxsessrate)
MaxSessRate max_session_rate gauge Highest SessRate reached on this worker process since started
  (in sessions per second)
SslRate current_ssl_rate gauge Number of SSL connections created on this worker process over the
  last second
SslRateLimit limit_ssl_rate gauge Hard limit for SslRate (global.maxsslrate)
MaxSslRate max_ssl_rate gauge Highest SslRate reached on this worker process since started (in
  connections per second)
SslFrontendKeyRate current_frontend_ssl_key_rate gauge Number of SSL keys created on frontends in
  this worker process over the last second
SslFrontendMaxKeyRate max_frontend_ssl_key_rate gauge Highest SslFrontendKeyRate reached on this
  worker process since started (in SSL keys per second)
SslFrontendSessionReuse_pct frontend_ssl_reuse gauge Percent of frontend SSL connections which did
  not require a new key
SslBackendKeyRate current_backend_ssl_key_rate gauge Number of SSL keys created on backends in
  this worker process over the last second
SslBackendMaxKeyRate max_backend_ssl_key_rate gauge Highest SslBackendKeyRate reached on this
  worker process since started (in SSL keys per second)
SslCacheLookups ssl_cache_lookups_total counter Total number of SSL session ID lookups in the SSL
  session cache on this worker since started
SslCacheMisses ssl_cache_misses_total counter Total number of SSL session ID lookups that didn't
  find a session in the SSL session cache on this worker since started
CompressBpsIn http_comp_bytes_in_total counter Number of bytes submitted to the HTTP compressor in
  this worker process over the last second
CompressBpsOut http_comp_bytes_out_total counter Number of bytes emitted by the HTTP compressor in
  this worker process over the last second
CompressBpsRateLim limit_http_comp gauge Limit of CompressBpsOut beyond which HTTP compression is
  automatically disabled
ZlibMemUsage current_zlib_memory gauge Amount of memory currently used by HTTP compression on the
  current worker process (in bytes)
MaxZlibMemUsage max_zlib_memory gauge Limit on the amount of memory used by HTTP compression above
  which it is automatically disabled (in bytes, see global.maxzlibmem)
Tasks current_tasks gauge Total number of tasks in the current worker process (active + sleeping)
Run_queue current_run_queue gauge Total number of active tasks+tasklets in the current worker
  process
Idle_pct idle_time_percent gauge Percentage of last second spent waiting in the current worker
  thread
Stopping stopping gauge 1 if the worker process is currently stopping, otherwise zero
Jobs jobs gauge Current number of active jobs on the current worker process (frontend connections,
  master connections, listeners)
Unstoppable_of_Jobs unstoppable_jobs gauge Current number of unstoppable jobs on the current
  worker process (master connections)
Listeners listeners gauge Current number of active listeners on the current worker process
ActivePeers active_peers gauge Current number of verified active peers connections on the current
  worker process
ConnectedPeers connected_peers gauge Current number of peers having passed the connection step on
  the current worker process
DroppedLogs dropped_logs_total counter Total number of dropped logs for current worker process
  since started
BusyPolling busy_polling_enabled gauge 1 if busy-polling is currently in use on the worker
  process, otherwise zero (config.busy-polling)
FailedResolutions failed_resolutions counter Total number of failed DNS resolutions in current
  worker process since started
TotalBytesOut bytes_out_total counter Total number of bytes emitted by current worker process
  since started
TotalSplicdedBytesOut spliced_bytes_out_total counter Total number of bytes emitted by current
  worker process through a kernel pipe since started
BytesOutRate bytes_out_rate gauge Number of bytes emitted by current worker process over the last
  second
CumRecvLogs recv_logs_total counter Total number of log messages received by log-forwarding
  listeners on this worker process since started
Build_of_info build_info gauge Build info
Memmax_bytes max_memory_bytes gauge Worker process's hard limit on memory usage in byes (-m on
  command line)
PoolAlloc_bytes pool_allocated_bytes gauge Amount of memory allocated in pools (in bytes)
PoolUsed_bytes pool_used_bytes gauge Amount of pool memory currently used (in bytes)
Start_time_sec start_time_seconds gauge Start time in seconds
""",
    "P",
)

#: of rows: the prefix is haproxy_frontend_, _listener_, _backend_ or _server_. `hrsp` stands for
#: the six columns of that name.
ROWS: Final = _table("""
qcur current_queue gauge BS Number of current queued connections
qmax max_queue gauge BS Highest value of queued connections encountered since process started
scur current_sessions gauge FLBS Number of current sessions on the frontend, backend or server
smax max_sessions gauge FLBS Highest value of current sessions encountered since process started
slim limit_sessions gauge FLBS Frontend/listener/server's maxconn, backend's fullconn
stot sessions_total counter FLBS Total number of sessions since process started
bin bytes_in_total counter FLBS Total number of request bytes since process started
bout bytes_out_total counter FLBS Total number of response bytes since process started
dreq requests_denied_total counter FLB Total number of denied requests since process started
dresp responses_denied_total counter FLBS Total number of denied responses since process started
ereq request_errors_total counter FL Total number of invalid requests since process started
econ connection_errors_total counter BS Total number of failed connections to server since the
  worker process started
eresp response_errors_total counter BS Total number of invalid responses since the worker process
  started
wretr retry_warnings_total counter BS Total number of server connection retries since the worker
  process started
wredis redispatch_warnings_total counter BS Total number of server redispatches due to connection
  failures since the worker process started
status status gauge FLBS Current status of the service, per state label value.
weight weight gauge BS Server's effective weight, or sum of active servers' effective weights for
  a backend
act active_servers gauge B Total number of active UP servers with a non-zero weight
bck backup_servers gauge B Total number of backup UP servers with a non-zero weight
chkfail check_failures_total counter S Total number of failed individual health checks per
  server/backend, since the worker process started
chkdown check_up_down_total counter BS Total number of failed checks causing UP to DOWN server
  transitions, per server/backend, since the worker process started
lastchg check_last_change_seconds gauge BS How long ago the last server state changed, in seconds
downtime downtime_seconds_total counter BS Total time spent in DOWN state, for server or backend
qlimit queue_limit gauge S Limit on the number of connections in queue, for servers only (maxqueue
  argument)
throttle current_throttle gauge S Throttling ratio applied to a server's maxconn and weight during
  the slowstart period (0 to 100%)
lbtot loadbalanced_total counter BS Total number of requests routed by load balancing since the
  worker process started (ignores queue pop and stickiness)
rate_lim limit_session_rate gauge F Limit on the number of sessions accepted in a second (frontend
  only, 'rate-limit sessions' setting)
rate_max max_session_rate gauge FBS Highest value of sessions per second observed since the worker
  process started
check_status check_status gauge S Status of last health check, per state label value.
check_code check_code gauge S layer5-7 code, if available of the last health check.
check_duration check_duration_seconds gauge S Total duration of the latest server health check, in
  seconds.
hrsp http_responses_total counter FBS Total number of HTTP responses with status 100-199 returned
  by this object since the worker process started
req_rate_max http_requests_rate_max gauge F Highest value of http requests observed since the
  worker process started
req_tot http_requests_total counter FB Total number of HTTP requests processed by this object
  since the worker process started
cli_abrt client_aborts_total counter BS Total number of requests or connections aborted by the
  client since the worker process started
srv_abrt server_aborts_total counter BS Total number of requests or connections aborted by the
  server since the worker process started
comp_in http_comp_bytes_in_total counter FB Total number of bytes submitted to the HTTP compressor
  for this object since the worker process started
comp_out http_comp_bytes_out_total counter FB Total number of bytes emitted by the HTTP compressor
  for this object since the worker process started
comp_byp http_comp_bytes_bypassed_total counter FB Total number of bytes that bypassed HTTP
  compression for this object since the worker process started (CPU/memory/bandwidth limitation)
comp_rsp http_comp_responses_total counter FB Total number of HTTP responses that were compressed
  for this object since the worker process started
lastsess last_session_seconds gauge BS How long ago some traffic was seen on this object on this
  worker process, in seconds
qtime queue_time_average_seconds gauge BS Avg. queue time for last 1024 successful connections.
ctime connect_time_average_seconds gauge BS Avg. connect time for last 1024 successful connections.
rtime response_time_average_seconds gauge BS Avg. response time for last 1024 successful
  connections.
ttime total_time_average_seconds gauge BS Avg. total time for last 1024 successful connections.
conn_rate_max connections_rate_max gauge F Highest value of connections per second observed since
  the worker process started
conn_tot connections_total counter F Total number of new connections accepted on this frontend
  since the worker process started
intercepted intercepted_requests_total counter F Total number of HTTP requests intercepted on the
  frontend (redirects/stats/services) since the worker process started
dcon denied_connections_total counter FL Total number of incoming connections blocked on a
  listener/frontend by a tcp-request connection rule since the worker process started
dses denied_sessions_total counter FL Total number of incoming sessions blocked on a
  listener/frontend by a tcp-request connection rule since the worker process started
wrew failed_header_rewriting_total counter FLBS Total number of failed HTTP header rewrites since
  the worker process started
connect connection_attempts_total counter BS Total number of outgoing connection attempts on this
  backend/server since the worker process started
reuse connection_reuses_total counter BS Total number of reused connection on this backend/server
  since the worker process started
cache_lookups http_cache_lookups_total counter FB Total number of HTTP requests looked up in the
  cache on this frontend/backend since the worker process started
cache_hits http_cache_hits_total counter FB Total number of HTTP requests not found in the cache
  on this frontend/backend since the worker process started
srv_icur idle_connections_current gauge S Current number of idle connections available for reuse
  on this server
src_ilim idle_connections_limit gauge S Limit on the number of available idle connections on this
  server (server 'pool_max_conn' directive)
qtime_max max_queue_time_seconds gauge BS Maximum observed time spent in the queue
ctime_max max_connect_time_seconds gauge BS Maximum observed time spent waiting for a connection
  to complete
rtime_max max_response_time_seconds gauge BS Maximum observed time spent waiting for a server
  response
ttime_max max_total_time_seconds gauge BS Maximum observed total request+response time
  (request+queue+connect+response+processing)
eint internal_errors_total counter FLBS Total number of internal errors since process started
idle_conn_cur unsafe_idle_connections_current gauge S Current number of unsafe idle connections
safe_conn_cur safe_idle_connections_current gauge S Current number of safe idle connections
used_conn_cur used_connections_current gauge S Current number of connections in use
need_conn_est need_connections_current gauge S Estimated needed number of connections
uweight uweight gauge BS Server's user weight, or sum of active servers' user weights for a backend
agg_server_status agg_server_status gauge B Backend's aggregated gauge of servers' status
agg_server_check_status agg_server_check_status gauge B Backend's aggregated gauge of servers'
  state check status
agg_check_status agg_check_status gauge B Backend's aggregated gauge of servers' state check status
""")

#: of stick tables: the prefix is haproxy_sticktable_
TABLES: Final = _table(
    """
size size gauge Stick table size.
used used gauge Number of entries used in this stick table.
""",
    "T",
)
