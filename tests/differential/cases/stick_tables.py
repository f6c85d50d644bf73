"""Stick tables: tracking, counters, stick rules, the runtime socket (manual 4.2, 7.3.1, 7.3.3, 9.3)."""

from __future__ import annotations

# fmt: off
from tests.differential.case import Case, answer, request, rules

_SHOW = "http-request return status 200 content-type text/plain lf-string"
_ALL = (
    "gpc0,gpc0_rate(10s),gpc1,gpc1_rate(10s),gpt0,conn_cnt,conn_cur,conn_rate(10s),sess_cnt,sess_rate(10s),http_req_cnt,"
    "http_req_rate(10s),http_err_cnt,http_err_rate(10s),http_fail_cnt,http_fail_rate(10s),bytes_in_cnt,bytes_in_rate(10s),"
    "bytes_out_cnt,bytes_out_rate(10s),server_id"
)
_TABLE = f"backend t@N@\n stick-table type ip size 100 expire 1m store {_ALL}\n"
_STRINGS = f"backend t@N@\n stick-table type string len 20 size 100 expire 1m store {_ALL}\n"

_COUNTERS = [
    "conn_cnt", "conn_cur", "conn_rate", "sess_cnt", "sess_rate", "http_req_cnt", "http_req_rate", "http_err_cnt", "http_err_rate",
    "http_fail_cnt", "http_fail_rate", "get_gpc0", "get_gpc1", "gpc0_rate", "gpc1_rate", "get_gpt0", "kbytes_in", "kbytes_out",
    "tracked", "trackers",
]
_BYTES = ["bytes_in_rate", "bytes_out_rate"]
_CONVERTERS = [
    "in_table", "table_conn_cnt", "table_conn_cur", "table_conn_rate", "table_gpc0", "table_gpc0_rate", "table_gpc1", "table_gpc1_rate",
    "table_gpt0", "table_http_req_cnt", "table_http_req_rate", "table_http_err_cnt", "table_http_fail_cnt", "table_kbytes_in",
    "table_kbytes_out", "table_sess_cnt", "table_sess_rate", "table_trackers", "table_server_id",
]
_SRC = [
    "conn_cnt", "conn_cur", "conn_rate", "get_gpc0", "get_gpc1", "get_gpt0", "http_req_cnt", "http_err_cnt", "sess_cnt", "kbytes_in",
    "updt_conn_cnt", "inc_gpc0", "inc_gpc1", "clr_gpc0", "clr_gpc1", "gpc0_rate",
]
_FOUR = (request("/1"), request("/2"), request("/3"), request("/4"))


def _tracked(fetch: str, kind: str = "http-request") -> Case:
    return rules(
        f"{kind} sc0_{fetch}", f"{kind} track-sc0 src table t@N@\n{_SHOW} '%[sc0_{fetch}] %[sc_{fetch}(0)] %[sc_{fetch}(0,t@N@)]'",
        *_FOUR, sections=_TABLE,
    )


CASES = [
    *(_tracked(fetch) for fetch in _COUNTERS),
    *(_tracked(fetch, "tcp-request connection") for fetch in ("conn_cnt", "sess_cnt", "http_req_cnt", "conn_cur", "tracked", "trackers")),
    *(_tracked(fetch, "tcp-request content") for fetch in ("conn_cnt", "sess_cnt", "http_req_cnt", "conn_cur")),
    *(_tracked(fetch, "tcp-request session") for fetch in ("conn_cnt", "sess_cnt", "http_req_cnt")),
    *(rules(f"converter {name}", f"http-request track-sc0 src table t@N@\n{_SHOW} '%[src,{name}(t@N@)] %[ipv4(9.9.9.9),{name}(t@N@)]'",
            *_FOUR, sections=_TABLE) for name in _CONVERTERS),
    *(rules(f"src_{name}", f"http-request track-sc0 src table t@N@ if {{ path /2 /3 }}\n{_SHOW} '%[src_{name}(t@N@)]'",
            *_FOUR, sections=_TABLE) for name in _SRC),
    *(rules(f"sc1_{fetch}", f"http-request track-sc1 path table t@N@\n{_SHOW} '%[sc1_{fetch}(t@N@)] %[sc0_{fetch}(t@N@)]'",
            request("/a"), request("/b"), request("/a"), sections=_STRINGS) for fetch in ("http_req_cnt", "sess_cnt", "tracked", "get_gpc0")),
    *(rules(f"action {name}", f"http-request track-sc0 src table t@N@\nhttp-request {line}\n{_SHOW} '%[sc0_get_gpc0] %[sc0_get_gpc1] %[sc0_get_gpt0]'",
            *_FOUR, sections=_TABLE) for name, line in {
                "sc-inc-gpc0": "sc-inc-gpc0(0)", "sc-inc-gpc1": "sc-inc-gpc1(0)", "sc-set-gpt0": "sc-set-gpt0(0) 7",
                "sc-set-gpt0 by an expression": "sc-set-gpt0(0) int(8),add(1)", "sc-inc-gpc0 by condition": "sc-inc-gpc0(0) if { path /2 /4 }",
                "sc-inc-gpc0 of none": "sc-inc-gpc0(1)"}.items()),
    *(rules(f"fetch {name}", f"http-request track-sc0 src table t@N@\n{_SHOW} '%[{name}(t@N@)] %[sc0_get_gpc0] %[sc0_get_gpc1]'",
            *_FOUR, sections=_TABLE) for name in ("sc0_inc_gpc0", "sc0_inc_gpc1", "sc0_clr_gpc0", "sc0_clr_gpc1")),
    rules("arrays of counters", f"http-request track-sc0 src table t@N@\nhttp-request sc-inc-gpc(2,0)\nhttp-request sc-set-gpt(1,0) 5\n"
          f"{_SHOW} '%[sc_get_gpc(2,0)] %[sc_get_gpc(0,0)] %[sc_get_gpt(1,0)] %[sc_gpc_rate(2,0)] %[src,table_gpc(2,t@N@)] %[src,table_gpt(1,t@N@)]'",
          *_FOUR, sections="backend t@N@\n stick-table type ip size 100 expire 1m store gpc(4),gpc_rate(4,10s),gpt(3)\n"),
    rules("rate limit", "http-request track-sc0 src table t@N@\nhttp-request deny deny_status 429 if { sc_http_req_rate(0) gt 2 }", *_FOUR, sections=_TABLE),
    rules("own table", f"stick-table type ip size 10 store http_req_cnt\nhttp-request track-sc0 src\n{_SHOW} '%[sc0_http_req_cnt] %[src_http_req_cnt]'", *_FOUR),
    rules("errors are counted", f"http-request track-sc0 src table t@N@\nhttp-request deny if {{ path /1 /2 }}\n{_SHOW} '%[sc0_http_err_cnt] %[sc0_http_fail_cnt]'",
          *_FOUR, sections=_TABLE),
    rules("a server's errors are counted", f"http-request track-sc0 src table t@N@\n{_SHOW} '%[sc0_http_err_cnt] %[sc0_http_fail_cnt]' if {{ path /4 }}",
          *_FOUR, sections=_TABLE, answers=(answer(status="404 No"), answer(status="500 Bad"), answer())),
    rules("tracked twice", f"http-request track-sc0 path table t@N@\nhttp-request track-sc0 method table t@N@\n{_SHOW} '%[sc0_http_req_cnt] %[str(GET),table_http_req_cnt(t@N@)]'",
          request("/a"), request("/b"), sections=_STRINGS),
    rules("a key that is not there", f"http-request track-sc0 req.hdr(x-none) table t@N@\n{_SHOW} '[%[sc0_http_req_cnt]] %[sc0_tracked]'", request("/a"), sections=_STRINGS),
    rules("a long key", f"http-request track-sc0 path table t@N@\n{_SHOW} '%[sc0_http_req_cnt] %[table_cnt(t@N@)]'",
          request("/" + "a" * 30), request("/" + "a" * 18 + "different"), request("/" + "a" * 30), sections=_STRINGS),
    rules("table_avl and table_cnt", f"http-request track-sc0 path table t@N@\n{_SHOW} '%[table_cnt(t@N@)] %[table_avl(t@N@)]'", *_FOUR, sections=_STRINGS),
    rules("integer keys", f"http-request track-sc0 urlp(n) table t@N@\n{_SHOW} '%[sc0_http_req_cnt] %[urlp(n),table_http_req_cnt(t@N@)]'",
          request("/?n=5"), request("/?n=6"), request("/?n=5"), request("/?n=x"), sections="backend t@N@\n stick-table type integer size 10 store http_req_cnt\n"),
    rules("ipv6 keys", f"http-request track-sc0 src table t@N@\n{_SHOW} '%[sc0_http_req_cnt]'", *_FOUR, sections="backend t@N@\n stick-table type ipv6 size 10 store http_req_cnt\n"),
    rules("binary keys", f"http-request track-sc0 path,sha1 table t@N@\n{_SHOW} '%[sc0_http_req_cnt]'", request("/a"), request("/b"), request("/a"),
          sections="backend t@N@\n stick-table type binary len 20 size 10 store http_req_cnt\n"),
    rules("show table", "http-request track-sc0 path table t@N@", request("/a"), sections=_STRINGS,
          commands=("show table t@N@", "show table t@N@ key /a", "show table t@N@ key /none", "show table t@N@ data.http_req_cnt gt 0",
                    "show table t@N@ data.http_req_cnt gt 100", "show table none@N@"),
          hide=(r"exp=\d+", r"bytes_(in|out)_(rate\(10000\)|cnt)=\d+", r"shard=\d+ ?")),
    rules("set and clear table", f"http-request track-sc0 path table t@N@\n{_SHOW} '%[sc0_get_gpc0] %[sc0_http_req_cnt]'", request("/a"), request("/a"), sections=_STRINGS,
          commands=("set table t@N@ key /a data.gpc0 7", "set table t@N@ key /b data.gpc0 1 data.http_req_cnt 9", "show table t@N@ key /b",
                    "clear table t@N@ key /b", "show table t@N@ data.gpc0 eq 1", "set table t@N@ key /c data.none 1", "clear table t@N@ data.gpc0 gt 100"),
          hide=(r"exp=\d+", r"bytes_(in|out)_(rate\(10000\)|cnt)=\d+", r"shard=\d+ ?")),
    rules("stick on", "", request("/", "x-k: a"), request("/", "x-k: b"), request("/", "x-k: a"), request("/", "x-k: b"), request("/", "x-k: c"),
          back="balance roundrobin\nstick-table type string len 10 size 100 expire 1m\nstick on req.hdr(x-k)\nserver s1 @ORIGIN@\nserver s2 @ORIGIN@\nserver s3 @ORIGIN@\n"
          "http-response set-header x-srv %[srv_name]", fresh=True),
    rules("stick on a condition", "", *(request("/", "x-k: a", f"x-on: {n}") for n in (1, 0, 1, 0, 1)),
          back="balance roundrobin\nstick-table type string len 10 size 100 expire 1m\nstick on req.hdr(x-k) if { hdr(x-on) 1 }\nserver s1 @ORIGIN@\nserver s2 @ORIGIN@\n"
          "http-response set-header x-srv %[srv_name]", fresh=True),
    rules("stick match and store-request", "", *(request("/", f"x-k: {k}") for k in "abaab"),
          back="balance roundrobin\nstick-table type string len 10 size 100 expire 1m\nstick match req.hdr(x-k)\nstick store-request req.hdr(x-k)\nserver s1 @ORIGIN@\nserver s2 @ORIGIN@\n"
          "http-response set-header x-srv %[srv_name]", fresh=True),
    rules("stick store-response", "", request("/"), request("/", "cookie: sid=k1"), request("/", "cookie: sid=k1"), request("/", "cookie: sid=k2"),
          back="balance roundrobin\nstick-table type string len 10 size 100 expire 1m\nstick store-response res.hdr(x-sid)\nstick match req.cook(sid)\nserver s1 @ORIGIN@\nserver s2 @ORIGIN@\n"
          "http-response set-header x-srv %[srv_name]", answers=(answer("x-sid: k1"), answer()), fresh=True),
    rules("stick on a table of another", "", *(request("/", f"x-k: {k}") for k in "abaab"), sections="backend t@N@\n stick-table type string len 10 size 100\n",
          back="balance roundrobin\nstick on req.hdr(x-k) table t@N@\nserver s1 @ORIGIN@\nserver s2 @ORIGIN@\nhttp-response set-header x-srv %[srv_name]", fresh=True),
    rules("tcp-request connection by the table", "tcp-request connection track-sc0 src table t@N@\ntcp-request connection reject if { sc0_conn_cnt gt 2 }",
          *_FOUR, sections=_TABLE, fresh=True),
    rules("conn_cnt over connections", f"tcp-request connection track-sc0 src table t@N@\n{_SHOW} '%[sc0_conn_cnt] %[sc0_sess_cnt] %[sc0_http_req_cnt] %[sc0_conn_cur]'",
          *_FOUR, sections=_TABLE, fresh=True),
    rules("track in the backend", "", *_FOUR, sections=_TABLE, back=f"http-request track-sc0 src table t@N@\n{_SHOW} '%[sc0_http_req_cnt] %[sc0_sess_cnt]'"),
    rules("track of the response", "http-response track-sc0 status table t@N@\nhttp-response set-header x-c %[sc0_http_req_cnt]", *_FOUR,
          sections="backend t@N@\n stick-table type integer size 10 store http_req_cnt\n"),
    rules("counters in the log", "http-request track-sc0 src table t@N@\nlog-format '%[sc0_http_req_cnt] %[sc0_tracked]'", *_FOUR, sections=_TABLE),
    rules("stick rule of a whole frontend", "tcp-request content track-sc2 src table t@N@\nhttp-request set-header x-t '%[sc2_http_req_cnt] %[sc2_trackers]'", *_FOUR, sections=_TABLE),
    rules("table_idle and table_expire", f"http-request track-sc0 src table t@N@\n{_SHOW} '%[src,table_expire(t@N@),bool] %[src,table_idle(t@N@),bool] %[ipv4(9.9.9.9),table_idle(t@N@,-)]'",
          *_FOUR, sections=_TABLE),
    rules("full table", f"http-request track-sc0 path table t@N@\n{_SHOW} '%[sc0_http_req_cnt] %[table_cnt(t@N@)]'", *(request(f"/{n}") for n in range(6)), request("/0"),
          sections="backend t@N@\n stick-table type string len 20 size 3 store http_req_cnt\n"),
    rules("full table with nopurge", f"http-request track-sc0 path table t@N@\n{_SHOW} '%[sc0_http_req_cnt] %[table_cnt(t@N@)]'", *(request(f"/{n}") for n in range(6)),
          sections="backend t@N@\n stick-table type string len 20 size 3 nopurge store http_req_cnt\n"),
    rules("who is blamed", "http-request track-sc0 path table t@N@\nhttp-request auth realm r if { path /1 }\nhttp-request redirect location /x if { path /2 }\n"
          "http-request return status 404 if { path /3 }\nhttp-request deny if { path /4 }\nhttp-request tarpit if { path /5 }\nhttp-request reject if { path /6 }",
          *_FOUR, request("/5"), request("/6"), sections=_STRINGS, fresh=True, commands=("show table t@N@",),
          hide=(r"exp=\d+", r"bytes_(in|out)_(rate\(10000\)|cnt)=\d+", r"shard=\d+ ?")),
    rules("the session is blamed", "tcp-request session track-sc0 src table t@N@\nhttp-request deny if { path /4 }", *_FOUR, sections=_TABLE, fresh=True,
          commands=("show table t@N@",), hide=(r"exp=\d+", r"bytes_(in|out)_(rate\(10000\)|cnt)=\d+", r"shard=\d+ ?")),
    rules("srvkey addr and non-stick", "", *(request(f"/{n}") for n in (1, 2, 1, 2)), sections="backend t@N@\n stick-table type string size 10 srvkey addr\n",
          back="balance roundrobin\nstick on path table t@N@\nserver a @ORIGIN@ id 5\nserver b @ORIGIN@ non-stick id 6\nhttp-response set-header x-srv %[srv_name]",
          fresh=True, commands=("show table t@N@",), hide=(r"exp=\d+", r"shard=\d+ ?", r"server_key=\S+")),
    rules("stick behind use-server", "", *(request(f"/{n}") for n in (1, 2, 1, 2)), sections="backend t@N@\n stick-table type string size 10\n",
          back="balance roundrobin\nuse-server b if { path /1 }\nstick on path table t@N@\nserver a @ORIGIN@\nserver b @ORIGIN@\nhttp-response set-header x-srv %[srv_name]",
          fresh=True, commands=("show table t@N@",), hide=(r"exp=\d+", r"shard=\d+ ?")),
    rules("a server that is down is not stuck to", "", *(request("/1") for _ in range(3)), sections="backend t@N@\n stick-table type string size 10\n",
          back="balance roundrobin\nstick on path table t@N@\nserver a @ORIGIN@\nserver b @ORIGIN@ disabled\nhttp-response set-header x-srv %[srv_name]", fresh=True,
          commands=("set table t@N@ key /1 data.server_id 2", "show table t@N@"), hide=(r"exp=\d+", r"shard=\d+ ?")),
]
