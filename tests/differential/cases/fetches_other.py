"""Fetches of internal states and of layers 4 and 5: the manual's sections 7.3.2 to 7.3.4."""

from __future__ import annotations

# fmt: off
from tests.differential.case import Case, expr, request, response

_STATES = [
    "always_true", "always_false", "bool(1)", "bool(yes)", "int(-3)", "str(a b)", "bin(6162)", "ipv4(1.2.3.4)",
    "ipv6(2001:db8::1)", "meth(POST)", "avg_queue(@B@)", "be_conn(@B@)", "be_sess_rate(@B@)", "connslots(@B@)",
    "nbsrv(@B@)", "queue(@B@)", "srv_is_up(@B@/s1)", "srv_conn(@B@/s1)", "srv_queue(@B@/s1)", "srv_weight(@B@/s1)",
    "srv_iweight(@B@/s1)", "srv_uweight(@B@/s1)", "srv_sess_rate(@B@/s1)", "srv_conn_free(@B@/s1)",
    "be_conn_free(@B@)", "fe_conn", "fe_conn(c@N@)", "fe_req_rate(c@N@)", "fe_sess_rate(c@N@)", "env(LANG)",
    "env(NO_SUCH_VARIABLE)", "env(HOME)", "hostname", "hostname,length", "prio_class", "prio_offset", "stopping", "proc",
    "thread", "rand(1)", "rand,bool", "uuid", "uuid(4)", "date,bool", "date(0,s),bool", "date_us,bool", "last_rule_line,bool",
    "var(txn.none)", "var(txn.none,str)" , "var(txn.none,12)", "var(proc.none)", "lat_ns_avg,bool", "table_cnt(t@N@)",
    "str(@B@),nbsrv", "str(none),nbsrv", "str(@B@/s1),srv_queue", "fe_name", "fe_defbe",
    "fe_id,bool", "so_id", "so_name,length", "fe_client_timeout",
]

_IN_BACKEND = [
    "nbsrv", "be_id,bool", "be_name", "srv_id", "srv_name", "be_server_timeout", "be_tunnel_timeout", "cur_server_timeout",
    "cur_tunnel_timeout", "fe_name", "fe_defbe", "be_conn", "queue", "connslots", "avg_queue", "be_sess_rate,bool",
    "srv_conn(s1)", "srv_is_up(s1)", "fe_conn", "ssl_bc", "bc_src", "srv_weight(s1)",
]

_CONNECTION = [
    "src", "src_port,bool", "dst", "dst_port,bool", "src_is_local", "dst_is_local", "dst_conn", "fc_src", "fc_src_port,bool",
    "fc_dst", "fc_dst_port,bool", "fc_src_is_local", "fc_dst_is_local", "fc_http_major", "fc_rcvd_proxy", "fc_err",
    "fc_err_str", "fc_pp_authority", "fc_pp_unique_id", "src,concat(-,txn.x)", "src_port", "dst_port", "bc_http_major",
    "bc_src", "bc_err", "bc_err_str", "bc_dst", "bc_dst_port", "fc_rtt,bool", "fc_rttvar,bool", "fc_unacked", "fc_lost",
    "fc_retrans", "ssl_fc", "ssl_bc", "req.ssl_sni", "req.ssl_ver", "req.rdp_cookie", "req.rdp_cookie_cnt",
    "internal.strm.is_htx", "src,length", "dst,hex",
]

_LATE = [
    "srv_name", "srv_id", "be_name", "srv_conn(@B@/s1)", "bc_src", "bc_dst", "bc_dst_port", "bc_src_port", "bc_http_major",
    "be_server_timeout", "cur_server_timeout", "nbsrv(@B@)", "var(txn.none)", "src", "dst_port", "fe_client_timeout",
    "connslots(@B@)", "be_conn(@B@)", "bc_err", "so_id", "http_first_req", "status",
]

_AUTH = "userlist u@N@\n user ann insecure-password secret\n user bob password $5$saltsalt$none\n"
_BASIC = request("/", "authorization: Basic YW5uOnNlY3JldA==")
_BEARER = request("/", "authorization: Bearer abc.def", "x-token: Bearer zzz")

CASES = [
    *(
        expr(text, sections="backend t@N@\n stick-table type ip size 10\n" if "table" in text else "")
        for text in _STATES
    ),
    *(expr(text) for text in _CONNECTION),
    *(response(text, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", name=f"late {text}") for text in _LATE),
    expr("src", name="a mask of the source", before="acl local src 127.0.0.0/8"),
    *(expr(f"{text}", _BASIC, name=f"basic {text}", sections=_AUTH) for text in (
        "http_auth_user", "http_auth_pass", "http_auth_type", "http_auth(u@N@)", "http_auth_bearer", "http_auth_group(u@N@)")),
    *(expr(f"{text}", _BEARER, name=f"bearer {text}") for text in (
        "http_auth_user", "http_auth_pass", "http_auth_type", "http_auth_bearer", "http_auth_bearer(x-token)",
        "http_auth_bearer(x-none)")),
    *(
        Case(
            f"in the backend {text}",
            back=f"timeout tunnel 7s\nhttp-request return status 200 content-type text/plain lf-string '[%[{text}]]'",
        )
        for text in _IN_BACKEND
    ),
    Case(
        "named sockets and ids",
        front="id 4321\nhttp-request return status 200 content-type text/plain lf-string '%[fe_id] %[fe_name]'",
    ),
]
