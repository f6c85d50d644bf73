"""`option NAME` of the manual's section 4.2, each by what it does; see `bodies` and `cookies` too."""

from __future__ import annotations

# fmt: off
from tests.differential.case import OK, Case, answer, request, rules

_CLOSE = request("/", "connection: close")
_OLD = request(version="HTTP/1.0")
_OLD_KEEP = request("/", "connection: keep-alive", version="HTTP/1.0")
_MODES = ("httpclose", "http-server-close", "http-keep-alive")
_UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\n\r\nabc"
_CHUNKS = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
_TWO = "server s1 @ORIGIN@\nserver s2 @ORIGIN@\nhttp-response set-header x-srv %[srv_name]"
_CASES = "h1-case-adjust content-length Content-Length\nh1-case-adjust x-name X-NaMe\nh1-case-adjust location Location\nh1-case-adjust connection CONNECTION"
_NAMES = ("x-name: 1", "host: h", "x_odd: 2", "x.dot: 3", "x-fine: 4")

CASES = [
    # -- connections
    *(rules(f"{mode} in the {side}: {what}", f"option {mode}" if side != "backend" else "", one, request("/2"), back=f"option {mode}" if side != "frontend" else "", answers=(reply,))
      for mode in _MODES for side in ("frontend", "backend", "both")
      for what, one, reply in (("plain", request(), OK), ("1.0", _OLD, OK), ("1.0 kept", _OLD_KEEP, OK), ("until close", request(), _UNTIL_CLOSE), ("chunks", request(), _CHUNKS), ("closed by the client", _CLOSE, OK), ("closed by the server", request(), answer("connection: close")))),
    *(rules(f"{one} in front, {two} behind", f"option {one}", request(), request("/2"), back=f"option {two}") for one in _MODES for two in _MODES if one != two),
    rules("http-pretend-keepalive and server-close", "", request(), request("/2"), back="option http-server-close\noption http-pretend-keepalive"),
    rules("http-pretend-keepalive and httpclose", "option httpclose", request(), back="option http-pretend-keepalive"),
    rules("http-pretend-keepalive alone", "", request(), back="option http-pretend-keepalive"),
    rules("http-pretend-keepalive and 1.0", "", _OLD, back="option http-server-close\noption http-pretend-keepalive"),
    rules("http-no-delay", "option http-no-delay", request(), back="option http-no-delay", answers=(_CHUNKS,)),
    rules("nolinger", "option nolinger", request(), _CLOSE, back="option nolinger"),
    rules("tcpka", "option tcpka\noption clitcpka", request(), back="option srvtcpka"),
    rules("splice", "option splice-auto", request(method="POST", body="a" * 40000), back="option splice-request\noption splice-response", answers=(answer(body=b"b" * 60000),)),
    rules("tcp-smart", "option tcp-smart-accept", request(), back="option tcp-smart-connect"),
    rules("independent-streams", "option independent-streams", request(), back="option independent-streams"),
    rules("prefer-last-server", "", request("/1"), request("/2"), request("/3"), back=f"option prefer-last-server\n{_TWO}"),
    rules("prefer-last-server and http-reuse never", "", request("/1"), request("/2"), request("/3"), back=f"option prefer-last-server\nhttp-reuse never\n{_TWO}"),
    rules("http-reuse never", "", request("/1"), request("/2"), request("/3"), back=f"http-reuse never\n{_TWO}"),
    rules("allbackups", "", request("/1"), request("/2"), back="option allbackups\nserver s1 @ORIGIN@ disabled\nserver s2 @ORIGIN@ backup\nserver s3 @ORIGIN@ backup\nhttp-response set-header x-srv %[srv_name]"),
    rules("without allbackups", "", request("/1"), request("/2"), back="server s1 @ORIGIN@ disabled\nserver s2 @ORIGIN@ backup\nserver s3 @ORIGIN@ backup\nhttp-response set-header x-srv %[srv_name]"),
    rules("persist", "", request("/", "cookie: S=a"), back="option persist\ncookie S insert indirect\nserver s1 @ORIGIN@ cookie a disabled\nserver s2 @ORIGIN@ cookie b"),
    rules("no option persist", "", request("/", "cookie: S=a"), back="no option persist\ncookie S insert indirect\nserver s1 @ORIGIN@ cookie a disabled\nserver s2 @ORIGIN@ cookie b"),
    rules("http-use-htx", "option http-use-htx", request(), back="option http-use-htx"),
    rules("disable-h2-upgrade", "option disable-h2-upgrade", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    rules("socket-stats", "option socket-stats", request()),
    rules("contstats", "option contstats", request()),
    rules("http-buffer-request", "option http-buffer-request\nhttp-request return status 200 content-type a/b lf-string %[req.body_len] if { path /f }", request("/f", method="POST", body="abcdef"), request("/b", method="POST", body="abc")),
    rules("http-buffer-request in the backend", "", request("/b", method="POST", body="abcdef"), back="option http-buffer-request\nhttp-request set-header x-len %[req.body_len]"),
    # -- addresses
    *(rules(f"forwardfor{words}", f"option forwardfor{words}", request(), request("/", "x-forwarded-for: 9.9.9.9"), request("/", "X-Client: 8.8.8.8"))
      for words in ("", " except 127.0.0.0/8", " except 10.0.0.0/8", " if-none", " header X-Client", " header X-Client if-none", " except 127.0.0.1 header X-Client if-none")),
    *(rules(f"forwardfor{words} in the backend", "option forwardfor", request(), request("/", "x-forwarded-for: 9.9.9.9"), request("/", "X-Client: 8.8.8.8"), back=f"option forwardfor{words}")
      for words in ("", " except 127.0.0.0/8", " if-none", " header X-Client")),
    rules("forwardfor if-none in front, not behind", "option forwardfor if-none", request("/", "x-forwarded-for: 9.9.9.9"), back="option forwardfor"),
    *(rules(f"originalto{words}", f"option originalto{words}", request(), request("/", "x-original-to: 9.9.9.9")) for words in ("", " except 127.0.0.0/8", " except 10.0.0.0/8", " header X-Dst")),
    # -- names of fields
    *(rules(f"restrict names {how}, {side}", f"option http-restrict-req-hdr-names {how}" if side == "frontend" else "", request("/", *_NAMES), back=f"option http-restrict-req-hdr-names {how}" if side == "backend" else "") for how in ("preserve", "delete", "reject") for side in ("frontend", "backend")),
    rules("restrict names delete, added by a rule", "option http-restrict-req-hdr-names delete\nhttp-request set-header x_rule 1", request("/", *_NAMES)),
    rules("restrict names reject, none odd", "option http-restrict-req-hdr-names reject", request("/", "x-fine: 1")),
    rules("case to the server", "", request("/", "x-name: 1", "x-other: 2"), back="option h1-case-adjust-bogus-server", settings=_CASES),
    rules("case to the server, with options", "option forwardfor", request("/", "x-name: 1"), request(method="POST", body="abc"), back="option h1-case-adjust-bogus-server\noption httpclose", settings="h1-case-adjust x-forwarded-for X-Forwarded-For\n"),
    rules("case to the client", "option h1-case-adjust-bogus-client", request(), request("/2"), answers=(answer("x-name: 1", "x-other: 2"), _CHUNKS)),
    rules("case to the client, replies", "option h1-case-adjust-bogus-client\nhttp-request redirect location /x if { path /r }\nhttp-request deny if { path /d }", request("/r"), request("/d")),
    rules("case to the client, a bad request", "option h1-case-adjust-bogus-client", b"GET / HTTP/1.1\r\nbad header\r\n\r\n"),
    rules("case from a file", "option h1-case-adjust-bogus-client", request(), answers=(answer("x-file: 1"),), settings="h1-case-adjust-file @DIR@/names\n", files={"names": "# a comment\nx-file X-FILE\n\nx-two X-TWO\n"}),
    # -- caches and cookies
    *(rules(f"checkcache {method}: {', '.join(headers) or 'nothing'}", "", request(method=method), back="option checkcache", answers=(answer("set-cookie: a=1", *headers),))
      for method in ("GET", "POST") for headers in ((), ("etag: x",), ("cache-control: public", "etag: x"), ("cache-control: max-age=10",), ("cache-control: private", "etag: x"), ('cache-control: no-cache="set-cookie", max-age=3',), ("cache-control: public",), ("pragma: no-cache", "etag: x"), ("expires: x",))
      if method == "GET" or headers),
    rules("checkcache without a cookie", "", request(), back="option checkcache", answers=(answer("etag: x"),)),
    rules("checkcache and a cookie of ours", "", request(), back="option checkcache\ncookie SRV insert\nserver s1 @ORIGIN@ cookie c1", answers=(answer("etag: x"),)),
    rules("checkcache and nocache", "", request(), back="option checkcache\ncookie SRV insert nocache\nserver s1 @ORIGIN@ cookie c1", answers=(answer("etag: x", "set-cookie: a=1"),)),
    # -- logs
    *(rules(f"{option} of a good one and a bad one", f"option {option}", request(), request("/", "bad header"), answers=(OK,)) for option in ("dontlog-normal", "log-separate-errors", "logasap", "dontlognull")),
    rules("log-separate-errors and a refusal", "option log-separate-errors\nhttp-request deny if { path /d }", request(), request("/d")),
    rules("dontlog-normal and a refusal", "option dontlog-normal\nhttp-request deny if { path /d }", request(), request("/d")),
    rules("dontlog-normal and a retry", "option dontlog-normal", request(), back="retries 1\noption redispatch\nserver s1 127.0.0.1:1\nserver s2 @ORIGIN@"),
    rules("httpslog", "option httpslog", request()),
    rules("httplog clf", "option httplog clf", request(), hide=(r"\d+ \d+ \d+ \d+ \d+ (?=---- )", r" 200 \d+", r" \d{3} (?=\"c\d+\")")),
    rules("tcplog in mode http", "option tcplog", request(), hide=(r"(?<=T/T/T )\d+",)),
    Case("tcplog", "option tcplog", requests=(b"abc",), answers=(b"xyz",), tcp=True),
    Case("no format in mode tcp", "no log\nlog global", requests=(b"abc",), answers=(b"xyz",), tcp=True),
    Case("logasap in mode tcp", "option tcplog\noption logasap", requests=(b"abc",), answers=(b"xyz",), tcp=True),
    Case("dontlog-normal in mode tcp", "option dontlog-normal", requests=(b"abc",), answers=(b"xyz",), tcp=True),
    # -- the client's proxy
    rules("http-use-proxy-header: no proxy", "option http-use-proxy-header\nhttp-request auth realm r unless { http_auth(u@N@) }", request("/"), request("/", "authorization: Basic YTpi"), request("/", "proxy-authorization: Basic YTpi"), sections="userlist u@N@\nuser a insecure-password b\n"),
    rules("http-use-proxy-header: a proxy", "option http-use-proxy-header\nhttp-request auth realm r unless { http_auth(u@N@) }", request("http://h/"), request("http://h/", "authorization: Basic YTpi"), request("http://h/", "proxy-authorization: Basic YTpi"), sections="userlist u@N@\nuser a insecure-password b\n"),
    # -- relaxed parsing changes nothing for good messages
    rules("accept-invalid-http-request", "option accept-invalid-http-request", request()),
    rules("accept-invalid-http-response", "", request(), back="option accept-invalid-http-response"),
    # -- errors and probes
    rules("monitor-uri", "monitor-uri /up\nmonitor fail if { hdr(x-fail) 1 }", request("/up"), request("/up", "x-fail: 1"), request("/other")),
    rules("errorfile", "errorfile 403 @DIR@/e\nhttp-request deny", request(), files={"e": "HTTP/1.0 403 No\r\nx-own: 1\r\n\r\nmine"}),
]
