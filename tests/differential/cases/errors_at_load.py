"""What is refused when a configuration is loaded, and what is not: only the verdicts are compared."""

from __future__ import annotations

# fmt: off
from tests.differential.case import Case

_FRONT = [
    # conditions
    "http-request deny if", "http-request deny if { }", "http-request deny if { path /a", "http-request deny if path /a }", "http-request deny if nothing",
    "http-request deny if !", "http-request deny if or TRUE", "http-request deny if TRUE or", "http-request deny if { nothing a }", "http-request deny unless",
    "http-request deny if { path -m nothing a }", "http-request deny if { path -m }", "http-request deny if { path -f }", "http-request deny if { path -f /none/such }",
    "http-request deny if { path -z a }", "http-request deny if { path -i }", "http-request deny if { path }", "http-request deny if { path -- }",
    "http-request deny if { src 1.2.3.4.5 }", "http-request deny if { src 10.0.0.0/33 }", "http-request deny if { src ::1/129 }", "http-request deny if { src -n nohost.invalid }",
    "http-request deny if { hdr_val(x) abc }", "http-request deny if { hdr_val(x) 5:1 }", "http-request deny if { hdr_val(x) gt }", "http-request deny if { hdr_val(x) gt x }",
    "http-request deny if { hdr_cnt(x) ge 1 2 }", "http-request deny if { path_reg ( }", "http-request deny if { path_reg [a }", "http-request deny if { path -m reg *a }",
    "http-request deny if { status 200 }", "http-request deny if { res.hdr(a) b }", "http-request deny if { path_beg(a) b }", "http-request deny if { hdr() a }",
    "http-request deny if { hdr(a,b) c }", "http-request deny if { hdr(a,1,2) c }", "http-request deny if { hdr(a c }", "http-request deny if { hdr a) c }", "http-request deny if { int(x) 1 }",
    "http-request deny if { nbsrv(none) 1 }", "http-request deny if { srv_is_up(none/s) }", "http-request deny if { src_conn_cnt(none) 1 }", "http-request deny if { bin(6) -m bin 6 }",
    "http-request deny if { bin(60) -m bin 6 }", "http-request deny if { bin(60) 60 }", "http-request deny if { always_true 1 }", "http-request deny if { method }", "http-request deny if TRUE || FALSE",
    "http-request deny if TRUE && FALSE", "http-request deny if TRUE TRUE", "http-request deny if {path /a}", "http-request deny if !{ path /a }", "http-request deny if ! { path /a }",
    "http-request deny if { path /a } or { path /b } !TRUE", "acl a path /a\nhttp-request deny if a", "acl a path /a\nhttp-request deny if A", "acl", "acl a", "acl a path", "acl a nothing x",
    "acl or path /a", "acl 1a path /a", "acl a! path /a", "acl a_b-c.d:e path /a", "acl a path_len 3:", "acl a path_len :3", "acl a path_len -- -3", "acl a src 10.0.0.0/255.0.0.0",
    "acl a path /x if TRUE", "acl a path -i /x -f", "acl a hdr(host) -i -m beg www", "acl a hdr(host) -m beg -i www", "acl a path,lower /a", "acl a path,nothing /a", "acl a path, /a", "acl a path,lower( /a",
    "acl a path,lower() /a", "acl a path,field /a", "acl a path,field(1) /a", "acl a path,field(x,y) /a", "acl a path,field(1,/) /a", "acl a src,lower a", "acl a path,ipmask(24) 1.2.3.4",
    "acl a path,ipmask(33) 1.2.3.4", "acl a path,ipmask() 1.2.3.4", "acl a path,add(x!) 1", "acl a path,map(/none) a", "acl a path,map() a", "acl a path,regsub(() a", "acl a path,regsub(a) b",
    "acl a path,regsub(a,b,x) b", "acl a path,sha2(5) a", "acl a path,url_dec(x) a", "acl a path,json(nothing) a", "acl a path,digest(none) a", "acl a path,hmac(sha1) a", "acl a path,iif(a) a",
    "acl a path,word(1) a", "acl a path,word(0,/) a", "acl a path,bytes a", "acl a path,bytes(x) a", "acl a path,bytes(1,2,3) a", "acl a path,concat a", "acl a path,strcmp(x) 0", "acl a path,table_gpt0 0",
    "acl a path,table_gpt0(none) 0", "acl a path,http_date(0,x) a", "acl a path,xxh32(x) 1", "acl a path,language a", "acl a path,lower,upper A", "acl a path,length 3", "acl a var(txn.a) x", "acl a var(bad.a) -m str x",
    "acl a var(txn) -m str x", "acl a var() -m str x", "acl a var(txn.a-b) -m str x", "acl a var(txn.a) -m str x", "acl a str(x) x", "acl a ipv4(1.2.3) 1.2.3.4", "acl a ipv6(zz) ::1", "acl a meth(X) X", "acl a rand(x) 1",
    "acl a url_param(a,bb) x", "acl a urlp(a,&) x", "acl a env(A) x", "acl a req.payload(0) -m found", "acl a req.payload(0,1) x", "acl a req.payload(0,1) -m str x", "acl a http_auth(none) 1", "acl a http_auth_group(none) g",
    "acl a sc0_conn_cnt 1", "acl a sc_conn_cnt(0) 1", "acl a sc_conn_cnt 1", "acl a sc9_conn_cnt 1", "acl a dst_port 80", "acl a dst_port x", "acl a ssl_fc", "acl a wait_end", "acl a req.ssl_sni a",
    # rules
    "http-request", "http-request nothing", "http-request deny x", "http-request deny deny_status", "http-request deny deny_status x", "http-request deny deny_status 99", "http-request deny deny_status 700",
    "http-request deny status 403 content-type text/plain", "http-request deny status 403 string a", "http-request deny content-type text/plain string a", "http-request allow x", "http-request set-header", "http-request set-header a",
    "http-request set-header a b c", "http-request set-header a %[nothing]", "http-request set-header a %[path", "http-request set-header a %", "http-request set-header a %Z", "http-request set-header a %[path,nothing]",
    "http-request set-header a %[status]", "http-request set-header a %{+Q}[path]", "http-request set-header a %{+Z}[path]", "http-request set-header a %ST", "http-request set-header a %ci", "http-request add-header a b", "http-request del-header",
    "http-request del-header a -m", "http-request del-header a -m nothing", "http-request del-header ( -m reg", "http-request del-header a -m beg", "http-request replace-header a", "http-request replace-header a (", "http-request replace-header a ( b",
    "http-request replace-header a b", "http-request replace-header a b c", "http-request replace-value a b c d", "http-request replace-path a", "http-request replace-path a b", "http-request replace-uri a b", "http-request set-path", "http-request set-path a b",
    "http-request set-path /a", "http-request set-uri", "http-request set-query a", "http-request set-method", "http-request set-method GET", "http-request set-var(txn.a)", "http-request set-var(txn.a) path", "http-request set-var(a) path",
    "http-request set-var(none.a) path", "http-request set-var(txn.a) nothing", "http-request set-var(txn.a) path,", "http-request set-var(txn.a) path x", "http-request set-var(txn.a) path if TRUE", "http-request set-var txn.a path",
    "http-request set-var(txn.a) res.hdr(x)", "http-request set-var(res.a) path", "http-request set-var-fmt(txn.a)", "http-request set-var-fmt(txn.a) %[path]", "http-request set-var-fmt(txn.a) %[path", "http-request unset-var(txn.a)",
    "http-request unset-var(txn.a) x", "http-request unset-var", "http-request redirect", "http-request redirect location", "http-request redirect location /a code 200", "http-request redirect location /a code 301", "http-request redirect nothing /a",
    "http-request redirect location /a x", "http-request redirect location /a set-cookie", "http-request redirect scheme https code 308", "http-request redirect location %[nothing]", "http-request return status", "http-request return status 99",
    "http-request return status 600", "http-request return string a", "http-request return content-type text/plain", "http-request return status 200 content-type text/plain string", "http-request return status 200 content-type text/plain file /none",
    "http-request return status 200 content-type text/plain string a file b", "http-request return status 200 hdr a", "http-request return status 200 hdr a b", "http-request return status 200 errorfile /none", "http-request return status 404 errorfiles none",
    "http-request return status 418 default-errorfiles", "http-request return status 404 default-errorfiles", "http-request return status 200 content-type text/plain lf-string %[nothing]", "http-request auth", "http-request auth realm", "http-request auth realm x y",
    "http-request tarpit", "http-request tarpit deny_status 500", "http-request reject x", "http-request reject", "http-request silent-drop", "http-request silent-drop x", "http-request capture path", "http-request capture path len", "http-request capture path len 0",
    "http-request capture path len 5", "http-request capture path id 0", "declare capture request len 5\nhttp-request capture path id 0", "declare capture request len 5\nhttp-request capture path id 1", "declare capture", "declare capture request",
    "declare capture request len", "declare capture nothing len 5", "declare capture request len x", "capture request header", "capture request header x", "capture request header x len", "capture request header x len 5", "capture request header x len 0",
    "capture cookie", "capture cookie a", "capture cookie a len 5", "capture nothing header x len 5", "http-request set-src src", "http-request set-src", "http-request set-src path", "http-request set-dst-port int(5)", "http-request set-log-level",
    "http-request set-log-level nothing", "http-request set-log-level err", "http-request set-log-level silent", "http-request set-nice", "http-request set-nice 5000", "http-request set-nice x", "http-request set-tos x", "http-request set-tos 8", "http-request set-mark 5",
    "http-request set-priority-class int(1)", "http-request set-priority-class", "http-request strict-mode", "http-request strict-mode on", "http-request strict-mode x", "http-request disable-l7-retry", "http-request early-hint", "http-request early-hint a b",
    "http-request wait-for-body", "http-request wait-for-body time", "http-request wait-for-body time 1s", "http-request wait-for-body time 1s at-least", "http-request wait-for-body time 1s at-least 5", "http-request wait-for-body at-least 5",
    "http-request wait-for-handshake", "http-request normalize-uri path-strip-dot", "http-request track-sc0 src", "http-request track-sc0 src table none", "http-request track-sc0", "http-request track-sc9 src", "http-request sc-inc-gpc0(0)", "http-request sc-inc-gpc0",
    "http-request sc-inc-gpc0(x)", "http-request sc-set-gpt0(0) 5", "http-request sc-set-gpt0(0)", "http-request set-map(a) b", "http-request set-map(a) b c", "http-request set-map a b c", "http-request add-acl(a) b", "http-request del-map(/none/such) a",
    "http-request do-resolve(txn.a,none) path", "http-request use-service nothing", "http-request cache-use none", "http-request lua.f", "http-request set-timeout server 1s", "http-request deny if TRUE\nhttp-request allow",
    "http-response", "http-response nothing", "http-response deny", "http-response deny if { path /a }", "http-response deny if { status 200 }", "http-response set-header a %[path]", "http-response set-header a %[status]", "http-response set-status",
    "http-response set-status 99", "http-response set-status 1000", "http-response set-status 200", "http-response set-status 200 reason", "http-response set-status 200 reason a", "http-response redirect location /a", "http-response return status 200",
    "http-response auth", "http-response tarpit", "http-response reject", "http-response set-path /a", "http-response capture res.hdr(a) len 5", "http-response capture res.hdr(a) id 0", "declare capture response len 5\nhttp-response capture res.hdr(a) id 0",
    "http-response set-var(res.a) status", "http-response set-var(req.a) path", "http-response wait-for-body time 1s", "http-after-response", "http-after-response nothing", "http-after-response set-header a b", "http-after-response deny", "http-after-response return",
    "http-after-response allow", "http-after-response set-status 404", "http-after-response set-header a %[path]",
    "tcp-request", "tcp-request nothing", "tcp-request connection", "tcp-request connection nothing", "tcp-request connection accept", "tcp-request connection reject if { src 1.2.3.4 }", "tcp-request connection reject if { path /a }",
    "tcp-request connection reject if { req.len 1 }", "tcp-request session reject", "tcp-request session reject if { path /a }", "tcp-request session nothing", "tcp-request content", "tcp-request content accept", "tcp-request content reject if { path /a }",
    "tcp-request content nothing", "tcp-request inspect-delay", "tcp-request inspect-delay x", "tcp-request inspect-delay 1s", "tcp-request inspect-delay 1s x", "tcp-request content set-var(txn.a) src", "tcp-request connection set-var(txn.a) src",
    "tcp-request connection set-var(sess.a) src", "tcp-request content capture path", "tcp-request content capture path len 5", "tcp-request connection track-sc0 src", "tcp-request connection track-sc0 path", "tcp-response content accept", "tcp-response inspect-delay 1s",
    "tcp-request content set-nice 5", "tcp-request connection expect-proxy layer4", "tcp-request connection expect-proxy", "tcp-request content do-resolve(txn.a,none) src",
    # switching, redirects, replies
    "use_backend", "use_backend none", "use_backend none if TRUE", "use_backend %[path]", "use_backend %[nothing]", "use_backend @B@ if", "use_backend @B@ if TRUE", "use_backend @B@ unless TRUE", "use_backend @B@ x", "default_backend none", "use_backend @B@",
    "use-server s1 if TRUE", "redirect", "redirect location", "redirect location /a", "redirect location /a if TRUE", "redirect prefix / code 500", "redirect scheme", "monitor", "monitor fail", "monitor fail if TRUE", "monitor fail if nothing", "monitor-uri",
    "monitor-uri /a", "errorfile", "errorfile 403", "errorfile 403 /none", "errorfile 403 /dev/null", "errorfile 299 /dev/null", "errorfile x /dev/null", "errorfile 403 @DIR@/bad", "errorfile 403 @DIR@/good", "errorfiles", "errorfiles none", "errorfiles e@N@",
    "errorfiles e@N@ 403", "errorfiles e@N@ 299", "errorloc 403", "errorloc 403 /a", "errorloc 299 /a", "errorloc302 403 /a", "errorloc303 403 /a", "http-error", "http-error status", "http-error status 403", "http-error status 299 content-type a string b",
    "http-error status 403 content-type a string b", "http-error status 403 content-type a lf-string %[nothing]", "http-error content-type a string b", "http-error status 403 errorfile /none", "unique-id-format", "unique-id-format %ci", "unique-id-format %[nothing]",
    "unique-id-format %[status]", "unique-id-header", "unique-id-header a", "log-format", "log-format %ci", "log-format %[nothing]", "log-format %[path]", "log-format %[status]", "log-format %[res.hdr(a)]", "log-format %nothing", "log-format %{+Z}ci", "log-format %{+Q ci",
    "log-format %[src", "log-format %%", "log-format 'a b'", "log-format a b", "log-format %[var(txn.a)]", "log-format-sd %ci", "error-log-format %ci", "log-tag a", "log-tag", "option forwardfor", "option forwardfor header", "option forwardfor header a except 1.2.3.4",
    "option forwardfor nothing", "option originalto", "option http-buffer-request", "option http-restrict-req-hdr-names", "option http-restrict-req-hdr-names delete", "option http-restrict-req-hdr-names x", "stick-table", "stick-table type", "stick-table type ip",
    "stick-table type ip size 10", "stick-table type none size 10", "stick-table type ip size x", "stick-table type ip size 1m expire 5s store conn_cnt", "stick-table type ip size 10 store nothing", "stick-table type ip size 10 store conn_rate",
    "stick-table type ip size 10 store conn_rate(1s)", "stick-table type ip size 10 store gpc(5)", "stick-table type ip size 10 store gpc(500)", "stick-table type string size 10", "stick-table type string len 0 size 10", "stick-table type string len 5 size 10",
    "stick-table type integer len 4 size 10", "stick-table type binary size 10", "stick-table type ip size 10 expire", "stick-table type ip size 10 expire x", "stick-table type ip size 10 nopurge", "stick-table type ip size 10 peers none", "stick-table type ip size 10 nothing",
    "stick on src", "compression algo gzip", "filter nothing",
]

_BACK = [
    "use-server", "use-server s1", "use-server s1 if TRUE", "use-server none if TRUE", "use-server %[path] if TRUE", "use_backend @B@ if TRUE", "stick on src", "stick-table type ip size 10\nstick on src", "stick-table type ip size 10\nstick on", "stick-table type ip size 10\nstick on nothing",
    "stick-table type ip size 10\nstick on path", "stick-table type integer size 10\nstick on path", "stick-table type ip size 10\nstick nothing src", "stick-table type ip size 10\nstick match src", "stick-table type ip size 10\nstick store-request src",
    "stick-table type ip size 10\nstick store-response src", "stick-table type string size 10\nstick store-response res.cook(a)", "stick-table type string size 10\nstick on res.cook(a)", "stick on src table none", "stick on src table @B@", "cookie", "cookie a", "cookie a insert", "cookie a insert prefix", "cookie a rewrite prefix",
    "cookie a nothing", "cookie a insert domain", "cookie a insert domain x", "cookie a insert maxidle", "cookie a insert maxidle 1m", "cookie a insert maxlife x", "cookie a insert dynamic", "dynamic-cookie-key", "dynamic-cookie-key a", "cookie a prefix indirect", "cookie a insert attr a=b",
    "cookie a insert attr", "force-persist", "force-persist if TRUE", "ignore-persist", "ignore-persist if TRUE", "ignore-persist unless { path /a }", "http-request set-timeout server 1s", "http-request set-timeout", "http-request set-timeout client 1s", "http-request set-timeout tunnel 1s",
    "http-request set-timeout server x", "http-request set-timeout server int(5)", "http-request deny if { be_name a }", "http-request deny if { srv_name a }", "http-request capture path id 0", "http-request capture path len 5", "http-response capture status id 0", "http-response set-header a %[srv_name]", "tcp-request connection accept",
    "tcp-request session accept", "tcp-request content accept", "tcp-response content accept", "tcp-response content reject if { status 200 }", "tcp-response content nothing", "tcp-response content accept if { path /a }", "tcp-response inspect-delay 1s", "tcp-response content close",
    "http-send-name-header", "http-send-name-header a", "capture request header a len 5", "log-format %ci", "unique-id-format %ci", "monitor-uri /a", "option checkcache", "option persist", "server s1 127.0.0.1:1 cookie", "server s1 127.0.0.1:1 cookie a", "server s1 127.0.0.1:1 cookie a\nserver s2 127.0.0.1:1 cookie a",
    "http-request track-sc0 src", "http-request track-sc0 src table @B@", "retry-on all-retryable-errors", "retry-on nothing", "http-check expect status 200", "email-alert from a", "errorfile 503 /dev/null", "server s1 127.0.0.1:1 redir /a",
]

_SECTIONS = [
    "userlist", "userlist u@N@", "userlist u@N@\n user a", "userlist u@N@\n user a password x", "userlist u@N@\n user a insecure-password x", "userlist u@N@\n user a insecure-password x groups g", "userlist u@N@\n group g\n user a insecure-password x groups g",
    "userlist u@N@\n group g users a", "userlist u@N@\n group g users a\n user a insecure-password x", "userlist u@N@\n group", "userlist u@N@\n group g\n group g", "userlist u@N@\n user a insecure-password x\n user a insecure-password y", "userlist u@N@\n nothing",
    "userlist u@N@\nuserlist u@N@", "http-errors", "http-errors h@N@", "http-errors h@N@\n errorfile 403 /none", "http-errors h@N@\n errorfile 403 /dev/null", "http-errors h@N@\n errorfile 299 /dev/null", "http-errors h@N@\n nothing",
    "http-errors h@N@\n errorfile 403 @DIR@/good", "http-errors h@N@\n errorfile 403 @DIR@/bad", "resolvers r@N@", "resolvers r@N@\n nameserver a 127.0.0.1:53", "resolvers r@N@\n nothing", "ring r@N@", "nothing n@N@",
    "defaults d@N@\n http-request deny", "defaults\n http-request deny", "defaults d@N@\n acl a path /a", "defaults\n acl a path /a", "defaults d@N@\n errorfile 403 /dev/null", "defaults d@N@\n tcp-request content accept", "defaults d@N@\n http-request set-var(txn.a) path",
    "defaults d@N@\n log-format %ci", "defaults d@N@\n use_backend x", "defaults d@N@\n stick-table type ip size 10", "defaults d@N@\n cookie a insert", "defaults d@N@\n monitor-uri /a", "defaults d@N@\n unique-id-format %ci", "defaults d@N@\n capture request header a len 5",
    "listen l@N@\n mode http\n http-request deny", "backend t@N@\n stick-table type ip size 10", "backend t@N@\n mode tcp\n http-request deny", "backend t@N@\n mode tcp\n acl a path /a", "frontend t@N@\n mode tcp\n http-request deny",
]
_GLOBAL = [
    "set-var proc.a int(1)", "set-var proc.a", "set-var txn.a int(1)", "set-var proc.a path", "set-var-fmt proc.a %[int(1)]", "set-var proc.a nothing", "unset-var proc.a", "tune.http.maxhdr 50", "tune.vars.txn-max-size 100", "tune.vars.none-max-size 100",
    "tune.pattern.cache-size 5", "tune.maxrewrite 100", "tune.http.cookielen 20", "tune.http.logurilen 20", "tune.stick-counters 5", "tune.pcre.none 5", "strict-limits", "h1-case-adjust a A", "h1-case-adjust a", "h1-case-adjust-file /none", "presetenv A b", "log-tag a", "maxcomprate 5",
]
_PAGES = {
    "good": "HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n",
    "bad": "no message\n",
}
_STATS = [
    "stats", "stats nothing", "stats enable", "stats uri", "stats uri /s", "stats realm", "stats realm x", "stats refresh", "stats refresh x", "stats refresh 5", "stats refresh 5s", "stats refresh 1d",
    "stats auth", "stats auth u", "stats auth u:p", "stats auth u:p\nstats auth u:q", "stats scope", "stats scope .", "stats scope nothing", "stats hide-version", "stats show-legends", "stats show-modules",
    "stats show-node", "stats show-node a_b-c.d", "stats show-node a/b", "stats show-desc", "stats show-desc a b c", "stats admin", "stats admin TRUE", "stats admin if", "stats admin if TRUE", "stats admin unless nothing",
    "stats http-request", "stats http-request nothing", "stats http-request allow", "stats http-request deny if TRUE", "stats http-request auth realm x", "stats http-request allow\nstats http-request deny",
    "stats auth u:p\nstats http-request allow", "stats realm x\nstats http-request allow", "stats admin if { status 200 }", "stats socket /x", "stats timeout 5s", "stats maxconn 5",
    "mode tcp\nstats enable", "http-request use-service prometheus-exporter", "http-request use-service prometheus-exporter x", "http-response use-service prometheus-exporter", "http-request use-service prometheus",
]
_ERRORS = "http-errors e@N@\n errorfile 403 @DIR@/good\n"


def _name(kind: str, text: str) -> str:
    return f"{kind}: " + text.replace("\n", "; ")


CASES = [
    *(Case(_name("frontend", text), front=text, files=_PAGES, sections=_ERRORS if "errorfiles" in text else "") for text in _FRONT),
    *(Case(_name("backend", text), back=text) for text in _BACK),
    *(Case(_name("frontend", text), front=text) for text in _STATS),
    *(Case(_name("backend", text), back=text) for text in _STATS if "use-service" not in text),
    *(Case(_name("section", text), sections=text + "\n", files=_PAGES) for text in _SECTIONS),
    *(Case(_name("global", text), settings=text) for text in _GLOBAL),
]
