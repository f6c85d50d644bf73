"""Log lines: the aliases, flags and expressions of section 8.2, captures, levels, options."""

from __future__ import annotations

# fmt: off
from tests.differential.case import answer, request, rules

_R = request("/a/b?x=1&y=2", "x-a: one two", "x-q: say \"hi\" [a]", "cookie: s=1; t=2", "user-agent: test/1.0")
_REPLY = answer("x-r: reply", "set-cookie: s=9; path=/", status="201 Made", body=b"12345")

_ALIASES = [
    "B", "CC", "CS", "H", "HM", "HP", "HPO", "HQ", "HU", "HV", "ID", "ST", "U", "b", "bi", "bq", "ci", "f", "fi", "ft", "hr", "hrl",
    "hs", "hsl", "pid", "r", "rc", "rt", "s", "si", "sq", "ts", "tsc", "fc", "bc", "sc", "lc", "sslc", "sslv", "cp", "fp", "bp", "sp",
]
_TIMES = ["T", "Ta", "Tc", "Td", "Tl", "Th", "Ti", "Tq", "TR", "Tr", "Ts", "Tt", "Tu", "Tw", "t", "tr", "trg", "trl", "ms"]
_FORMATS = {
    "plain": "text only", "percent": "100%%", "spaces": "a  b   c", "nothing": "-",
    "flag Q": "%{+Q}r %{+Q}HU %{+Q}ST %{+Q}ci", "flag Q of nothing": "%{+Q}CC %{+Q}ID", "flag X": "%{+X}ci %{+X}fi %{+X}si %{+X}ST %{+X}rc",
    "flag E": "%{+E}HU %{+E}[var(txn.q)]", "flags Q and E": "%{+Q,+E}[var(txn.q)]", "flags for all": "%{+Q}o %r %HM %ST %[capture.req.uri]",
    "flags taken away": "%{+Q}o %HM %{-Q}HU %r", "flag for one": "%{+Q}HM %HU", "X for all": "%{+X}o %ci %ST",
    "expression": "%[capture.req.uri] %[src] %[capture.req.method]", "expression without a value": "%[var(txn.no)] %[var(txn.none)]",
    "converters": "%[capture.req.uri,upper] %[src,ipmask(8)] %[str(a),hex]", "quoted expression": "%{+Q}[capture.req.uri] %{+Q}[var(txn.no)]",
    "control characters": "%[bin(61096200)] %[bin(e9)] %[bin(0a)]", "a quote in an expression": "%[var(txn.q)]",
    "response": "%ST %[capture.res.hdr(0)]", "adjacent": "%HM%HU%ST", "braces": "{%ST} [%s] (%b)",
    "flags X and Q": "%{+Q,+X}ci %{+Q,+X}fi %{+Q,+X}si %{+Q,+X}bi %{+Q,+X}ST %{+Q,+X}HM", "flags X, Q and E": "%{+Q,+X,+E}ci %{+Q,+E}ci %{+X,+E}rc",
    "names only": "%f %b %s %ft", "request line": "%r", "the http format": "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r",
    "json by hand": "{\"m\":\"%HM\",\"u\":\"%HU\",\"s\":%ST}", "unique id": "%ID %{+X}ID",
    "aliases beside text": "m=%HM;u=%HU;", "integers": "%[int(-5)] %[int(7),add(1)] %[always_true]", "long": "%[capture.req.uri] " * 20,
}
_CAPTURES = "capture request header x-a len 5\ncapture request header x-none len 5\ncapture response header x-r len 30\ncapture cookie s len 8"

_OPTIONS = {
    "httplog": "option httplog", "httplog clf": "option httplog clf", "tcplog in http": "option tcplog", "logasap": "option httplog\noption logasap",
    "dontlog-normal": "option httplog\noption dontlog-normal", "dontlognull": "option httplog\noption dontlognull", "log-separate-errors": "option httplog\noption log-separate-errors",
    "no log": "no log\noption httplog", "log-tag": "option httplog", "captures": f"option httplog\n{_CAPTURES}",
    "level": "option httplog\nhttp-request set-log-level debug", "level of the response": "option httplog\nhttp-response set-log-level emerg",
    "silent": "option httplog\nhttp-request set-log-level silent if { path /a/b }", "httpslog": "option httpslog",
    "error-log-format": "error-log-format 'ERR %ci'\noption httplog", "log-format and httplog": "option httplog\nlog-format 'mine %ST'",
    "log-format-sd": "log-format-sd '[x@1 a=\"%ST\"]'\nlog-format 'm %ST'",
}

#: bytes, milliseconds, times; in the TCP format the bytes
_HIDE_CLF = (r"(?<= 201 )\d+", r"(?<=CLIENTPORT )\d{1,3}", r"(?<=\"s1\" )[\d ]+(?= ----)", r"(?<=T/T/T )\d+")
_HIDE_TIME = (r"\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d \+0000", r"\b\d{9,}\b", r"\b\d{1,3}\b")

CASES = [
    *(rules(f"alias {name}", f"log-format 'a=%{name};'\n{_CAPTURES}\nunique-id-format %ci", _R, answers=(_REPLY,), hide=(r"(?<=a=)\d+",) if name in "BU" else ()) for name in _ALIASES),
    *(rules(f"time {name}", f"log-format 'a=%{name};'", _R, answers=(_REPLY,), hide=_HIDE_TIME) for name in _TIMES),
    *(rules(f"format {name}", f"log-format '{text}'\n{_CAPTURES}\nunique-id-format '%[path]'\nhttp-request set-var(txn.q) req.fhdr(x-q)", _R, answers=(_REPLY,)) for name, text in _FORMATS.items()),
    *(rules(f"option {name}", lines, _R, request("/other"), answers=(_REPLY,), hide=_HIDE_CLF if "clf" in name or "tcplog" in name else ()) for name, lines in _OPTIONS.items()),
    *(rules(f"own answer {name}", f"log-format 'a=%{name};'\nhttp-request deny if {{ path_beg /a }}", _R) for name in
      ("ST", "b", "s", "si", "bi", "ts", "tsc", "r", "HM", "HP", "HU", "HV", "hr", "hs", "sp", "bp", "rc", "ID", "CC", "sq", "bq")),
    *(rules(f"bad request {name}", f"log-format 'a=%{name};'", b"GET / HTTP/1.1\r\nbad header\r\n\r\n") for name in
      ("ST", "b", "s", "ts", "tsc", "r", "HM", "HP", "HU", "HV", "HQ", "HPO", "ci", "rt")),
    *(rules(f"target {name} {target}", f"log-format '[%{name}] %ST'", request(target, host)) for name in ("HP", "HPO", "HQ", "HU", "HM", "HV")
      for target, host in (("/a?b", "host: h"), ("http://h/x?y=1", "host: h"), ("/", "host: h"), ("/?", "host: h"), ("/a%20b#f", "host: h"))),
    rules("redirect is logged", "option httplog\nhttp-request redirect location /x", _R),
    rules("return is logged", "option httplog\nhttp-request return status 200", _R),
    rules("deny is logged", "option httplog\nhttp-request deny", _R),
    rules("tarpit is logged", "option httplog\ntimeout tarpit 20ms\nhttp-request tarpit", _R),
    rules("reject is logged", "option httplog\nhttp-request reject", _R),
    rules("auth is logged", "option httplog\nhttp-request auth", _R),
    rules("silent-drop is logged", "option httplog\nhttp-request silent-drop", _R, patience=0.3),
    rules("response deny is logged", "option httplog\nhttp-response deny", _R),
    rules("refused server is logged", "option httplog", _R, back="server s1 127.0.0.1:1"),
    rules("no server is logged", "option httplog", _R, back="server s1 127.0.0.1:1 disabled"),
    rules("bad answer is logged", "option httplog", _R, answers=(b"nonsense\r\n\r\n",)),
    rules("empty answer is logged", "option httplog", _R, answers=(b"",)),
    rules("capture in the backend's rules", "option httplog\ndeclare capture request len 10\ndeclare capture response len 10", _R,
          back="http-request capture path id 0\nhttp-response capture res.hdr(x-r) id 0", answers=(_REPLY,)),
    rules("capture len of rules", "option httplog\nhttp-request capture path len 4\nhttp-request capture req.hdr(x-a) len 20", _R),
    rules("captures with bars", "option httplog\ncapture request header x-a len 20\ncapture request header x-q len 20\ncapture request header host len 20", _R),
    rules("repeated captured header", "option httplog\ncapture request header x-a len 20", request("/", "x-a: one", "x-a: two")),
    rules("cookie capture of a prefix", "option httplog\ncapture cookie s= len 20", request("/", "cookie: t=1; s=abc; u=2"), answers=(_REPLY,)),
    rules("unique-id in the log", "unique-id-format 'u-%[path]'\nunique-id-header x-u\nlog-format '%ID %ST'", _R),
    rules("two requests", "option httplog", request("/1"), request("/2"), request("/3")),
    rules("HEAD and POST", "option httplog", request("/1", method="HEAD"), request("/2", method="POST", body="abc")),
    rules("a status of the server", "option httplog", _R, answers=(answer(status="500 Bad", body=b""),)),
    rules("log-separate-errors of a 500", "option httplog\noption log-separate-errors", _R, answers=(answer(status="500 Bad", body=b""),)),
    rules("dontlog-normal of a 500", "option httplog\noption dontlog-normal", _R, answers=(answer(status="500 Bad", body=b""),)),
    rules("set-src in the log", "option httplog\nhttp-request set-src ipv4(9.8.7.6)", _R),
    rules("set-uri in the log", "option httplog\nhttp-request set-uri /changed", _R),
    rules("set-method in the log", "log-format '%HM %r %ST'\nhttp-request set-method PUT", _R),
    rules("set-status in the log", "log-format '%ST %s'\nhttp-response set-status 299", _R),
    rules("backend rules' expression in the log", "log-format '%[var(txn.be)] %[be_name]'", _R, back="http-request set-var(txn.be) be_name"),
    *(rules(f"empty captures {name}", f"log-format '{name} %ST'\ncapture request header x-e len 5\ncapture request header x-none len 5\ncapture request header x-a len 5", request("/", "x-e:", "x-a: v"))
      for name in ("%hr", "%hrl", "%{+Q}hr", "%{+Q}hrl", "[%[capture.req.hdr(0)]] [%[capture.req.hdr(1)]]")),
    rules("a format of the request alone", "log-format '[%HP]'", _R),
]
