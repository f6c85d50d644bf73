"""Several constructs at once, as real files have them: rules with cookies, stick tables, redispatch,
pages of one's own, captures and logs.
"""

from __future__ import annotations

# fmt: off
from tests.differential.case import Case, answer, request

_PAGE = "HTTP/1.1 {0} Own\r\ncontent-type: text/html\r\ncontent-length: 8\r\n\r\npage {0}"
_STATUSES = (400, 401, 403, 404, 408, 413, 429, 500, 502, 503, 504)
_FILES = {f"{status}.http": _PAGE.format(status) for status in _STATUSES}
_PAGES = "\n".join(f"errorfile {status} @DIR@/{status}.http" for status in _STATUSES)
#: what ends a request: lines of the frontend, of the backend, the server's answer
_CAUSES = {
    "denied": ("http-request deny", "", answer()),
    "denied behind": ("", "http-request deny deny_status 429", answer()),
    "unknown": ("http-request auth realm r", "", answer()),
    "no server": ("", "server s1 127.0.0.1:1 disabled", answer()),
    "refused": ("", "retries 0\nserver s1 127.0.0.1:1", answer()),
    "refused, redispatched": ("", "option redispatch\nretries 1\nserver s1 127.0.0.1:1 cookie a\nserver s2 @ORIGIN@ cookie b\ncookie S insert indirect nocache", answer()),
    "no answer": ("", "retries 0", b""),
    "nonsense": ("", "", b"nonsense\r\n\r\n"),
    "slow": ("", "timeout server 150ms", b"HTTP/1.1 200 OK\r\n"),
    "response denied": ("", "http-response deny", answer(body=b"secret")),
    "response denied in front": ("http-response deny deny_status 500 if { status 200 }", "", answer(body=b"secret")),
    "redirected": ("http-request redirect location /new code 302 if { path_beg / }", "", answer()),
    "redirected back": ("", "http-response redirect location /later code 303", answer(body=b"secret")),
    "returned": ("", "http-request return status 200 content-type text/plain lf-string '%[method] %[path]'", answer()),
    "tarpit": ("timeout tarpit 50ms\nhttp-request tarpit deny_status 429", "", answer()),
    "served": ("", "", answer("x-a: b", body=b"body")),
}
_WAYS = {
    "GET": request("/p?q=1", "referer: here", "cookie: S=b; id=7"),
    "HEAD": request("/p", "referer: here", method="HEAD"),
    "POST": request("/p", "cookie: id=9", method="POST", body="a=b&c=d"),
    "GET 1.0": request("/p", version="HTTP/1.0"),
    "close": request("/p", "connection: close"),
}
_LOOK = (
    "capture request header Referer len 8\ncapture response header X-A len 8\ncapture cookie id len 6\n"
    "http-request set-var(txn.way) method,lower\nhttp-after-response set-header x-way %[var(txn.way)]\n"
)
_LOG = "log-format '%ci %ft %b/%s %TR/%Tw %ST %CC %CS %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r [%[var(txn.way)]]'\n"
_HIDE = (r"(?<= )-?\d+/-?\d+(?= \d{3} )", r"(?<= )\d+/\d+(?=/\d+/\d+/\+?\d+ \d+/\d+ )")

_LIMIT = (
    "stick-table type ip size 100 expire 1m store http_req_rate(1m),http_err_cnt,gpc0,http_req_cnt\n"
    "http-request track-sc0 src\n"
)
_SERVERS = "cookie SRV insert indirect nocache\nserver a @ORIGIN@ cookie ca\nserver b @ORIGIN@ cookie cb\nhttp-response set-header x-srv %[srv_name]\n"
_FIVE = tuple(request(f"/{number}") for number in range(5))
_STICK = "stick-table type string len 20 size 100 expire 1m\nstick on req.cook(id)\nserver a @ORIGIN@\nserver b @ORIGIN@\nserver c @ORIGIN@\nhttp-response set-header x-srv %[srv_name]\n"


def _limited(name: str, lines: str, *requests: bytes, back: str = "", **more: object) -> Case:
    return Case(name, front=_LIMIT + lines, back=back, requests=requests or _FIVE, **more)  # type: ignore[arg-type]


CASES = [
    *(Case(f"{cause}, {way}", front=_LOOK + front, back=back, answers=(reply,), requests=(ask, ask))
      for cause, (front, back, reply) in _CAUSES.items() for way, ask in _WAYS.items()),
    *(Case(f"{cause}, {way}, own pages", front=f"{_LOOK}{_PAGES}\n{_LOG}{front}", back=back, answers=(reply,), requests=(ask,), files=_FILES, hide=_HIDE)
      for cause, (front, back, reply) in _CAUSES.items() for way, ask in _WAYS.items() if way in ("GET", "HEAD", "POST")),
    *(Case(f"{cause}, the backend's pages", front=_LOOK + front, back=f"{_PAGES}\n{back}", answers=(reply,), files=_FILES)
      for cause, (front, back, reply) in _CAUSES.items()),
    # -- limits
    _limited("too many", "http-request deny deny_status 429 if { sc_http_req_rate(0) gt 3 }"),
    _limited("too many, with a page", f"{_PAGES}\nhttp-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 3 }}", files=_FILES),
    _limited("too many, dropped", "http-request silent-drop if { sc_http_req_rate(0) gt 2 }", patience=0.4),
    _limited("too many errors", "http-request deny deny_status 429 if { sc0_http_err_cnt gt 2 }", answers=(answer(status="404 No"),)),
    _limited("own refusals are errors", "http-request deny if { path /0 /1 /2 }\nhttp-request deny deny_status 429 if { sc0_http_err_cnt gt 2 }"),
    _limited("marked", "http-request sc-inc-gpc0(0) if { path /1 }\nhttp-request deny deny_status 403 if { sc0_get_gpc0 gt 0 }"),
    _limited("marked by the answer", "http-response sc-inc-gpc0(0) if { status 401 }\nhttp-request return status 200 if { sc0_get_gpc0 gt 1 }", answers=(answer(status="401 U"),)),
    _limited("counts are told", "http-request set-header x-rate %[sc_http_req_rate(0)]\nhttp-response set-header x-count %[sc_http_req_cnt(0)]"),
    _limited("too many go elsewhere", "use_backend @B@ if { sc_http_req_rate(0) le 2 }\ndefault_backend other@N@", sections="backend other@N@\nmode http\nhttp-request return status 200 content-type text/plain string busy\n"),
    _limited("too many and a cookie", "http-request deny deny_status 429 if { sc_http_req_rate(0) gt 3 } !{ req.cook(vip) -m found }", *(request(f"/{n}", "cookie: vip=1; SRV=cb") for n in range(5)), back=_SERVERS),
    # -- stickiness
    *(Case(f"a cookie and {name}", back=_SERVERS + lines, requests=(request("/1"), request("/2", "cookie: SRV=cb"), request("/3", "cookie: SRV=none; x=1"), request("/4", "cookie: SRV=ca")))
      for name, lines in {
          "leastconn": "balance leastconn", "source": "balance source", "uri": "balance uri", "a chosen server": "use-server b if { path /1 }", "a rule that ignores it": "ignore-persist if { path /2 }",
          "a removed header": "http-request del-header cookie", "prefer-last-server": "option prefer-last-server", "server-close": "option http-server-close", "httpclose": "option httpclose",
          "a drained server": "http-request set-header x %[srv_is_up(@B@/b)]", "a table": "stick-table type ip size 10\nstick on src"}.items()),
    *(Case(f"sticky by a cookie, {name}", back=_STICK + lines, requests=tuple(request(f"/{n}", f"cookie: id={who}") for n, who in enumerate("xyxzzy")), commands=commands)
      for name, lines, commands in (
          ("plain", "", ()), ("a server goes", "", ("disable server @B@/a",)), ("redispatch", "option redispatch", ("disable server @B@/a",)), ("stored by the answer", "stick store-response res.hdr(x-srv)", ()),
          ("weights", "", ("set weight @B@/b 0",)), ("cleared", "", ("clear table @B@",)), ("a condition", "stick match req.cook(other) if { path /1 }", ()))),
    *(Case(f"{name}, five in turn", back=f"server a @ORIGIN@ {a}\nserver b @ORIGIN@ {b}\nserver c @ORIGIN@ {c}\n{lines}\nhttp-response set-header x-srv %[srv_name]", requests=_FIVE * 2, commands=commands, fresh=fresh)
      for fresh in (False, True)
      for name, a, b, c, lines, commands in (
          (f"weights, {fresh}", "weight 1", "weight 2", "weight 3", "", ()), (f"one goes, {fresh}", "", "", "", "", ("disable server @B@/b",)), (f"one drains, {fresh}", "", "", "", "", ("set server @B@/a state drain",)),
          (f"another weight, {fresh}", "", "", "", "", ("set weight @B@/c 3",)), (f"a backup, {fresh}", "", "backup", "backup", "", ("disable server @B@/a",)), (f"all backups, {fresh}", "", "backup", "backup", "option allbackups", ("disable server @B@/a",)),
          (f"limits, {fresh}", "maxconn 1", "maxconn 2", "", "", ()), (f"goes and comes, {fresh}", "", "", "", "", ("disable server @B@/a", "enable server @B@/a")), (f"none is left, {fresh}", "disabled", "", "disabled", "", ("disable server @B@/b",)))),
]
