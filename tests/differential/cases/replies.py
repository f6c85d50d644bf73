"""Answers of the proxy's own: return, errorfile, http-error, http-errors sections (manual 4.2, 3.7)."""

from __future__ import annotations

# fmt: off
from tests.differential.case import answer, request, rules

_ERROR = "HTTP/1.1 {code} Custom\r\ncontent-type: text/plain\r\nx-own: yes\r\ncontent-length: 4\r\n\r\nownX"
_FILES = {
    "403.http": _ERROR.format(code=403),
    "404.http": _ERROR.format(code=404),
    "503.http": _ERROR.format(code=503),
    "bare.http": "HTTP/1.0 403 Bare\r\n\r\n",
    "close.http": "HTTP/1.0 403 Closing\r\nConnection: close\r\nContent-Type: text/html\r\n\r\n<html></html>\n",
    "lf.http": "HTTP/1.1 403 Newlines\nContent-Type: text/html\n\n<b>\n",
    "plain.txt": "plain text\n",
    "format.txt": "path=%[path] status=%[src] %%\n",
    "empty": "",
}
_SECTIONS = (
    "http-errors e@N@\n errorfile 403 @DIR@/403.http\n errorfile 404 @DIR@/404.http\n errorfile 503 @DIR@/503.http\n"
    "http-errors f@N@\n errorfile 403 @DIR@/close.http\n"
)

_RETURN = {
    "bare": "http-request return",
    "status": "http-request return status 404",
    "odd status": "http-request return status 299",
    "string": "http-request return status 200 content-type text/plain string 'a b'",
    "lf-string": "http-request return status 200 content-type text/plain lf-string '%[path] %HM %ci'",
    "file": "http-request return status 200 content-type text/plain file @DIR@/plain.txt",
    "lf-file": "http-request return status 200 content-type text/plain lf-file @DIR@/format.txt",
    "empty file": "http-request return status 200 content-type text/plain file @DIR@/empty",
    "headers": "http-request return status 200 content-type text/html string x hdr x-a 1 hdr x-b '%[path]' hdr X-A 2",
    "header without a body": "http-request return status 204 hdr x-a 1",
    "default-errorfiles": "http-request return status 503 default-errorfiles",
    "errorfile": "http-request return status 403 errorfile @DIR@/403.http",
    "errorfiles": "http-request return status 404 errorfiles e@N@",
    "conditional": "http-request return status 200 if { path /none }",
    "content-type only": "http-request return status 200 content-type text/plain",
    "unicode": "http-request return status 200 content-type text/plain string 'é'",
    "201": "http-request return status 201 hdr location /new",
    "304": "http-request return status 304",
    "500": "http-request return status 500",
    "string with an empty text": "http-request return status 200 content-type text/plain string ''",
}
_DENY = {
    **{f"default {code}": f"http-request deny deny_status {code}" for code in (200, 400, 401, 403, 404, 405, 407, 408, 410, 413, 425, 429, 500, 501, 502, 503, 504)},
    "content": "http-request deny status 403 content-type text/plain string denied",
    "lf": "http-request deny status 403 content-type text/plain lf-string 'no %[path]' hdr x-why '%[src]'",
    "file": "http-request deny status 403 content-type text/plain file @DIR@/plain.txt",
    "errorfile": "http-request deny deny_status 403 errorfile @DIR@/403.http",
    "errorfiles": "http-request deny deny_status 403 errorfiles e@N@",
    "default-errorfiles": "errorfile 403 @DIR@/403.http\nhttp-request deny deny_status 403 default-errorfiles",
    "by errorfile": "errorfile 403 @DIR@/403.http\nhttp-request deny",
    "by errorfiles": "errorfiles e@N@\nhttp-request deny",
    "by errorfiles of a code": "errorfiles e@N@ 404\nhttp-request deny if { path / }",
    "by errorfiles and its code": "errorfiles e@N@ 403 404\nhttp-request deny if { path / }",
    "last errorfiles": "errorfiles e@N@\nerrorfiles f@N@\nhttp-request deny",
    "errorfile after errorfiles": "errorfiles e@N@\nerrorfile 403 @DIR@/bare.http\nhttp-request deny",
    "errorfile bare": "errorfile 403 @DIR@/bare.http\nhttp-request deny",
    "errorfile close": "errorfile 403 @DIR@/close.http\nhttp-request deny",
    "errorfile lf": "errorfile 403 @DIR@/lf.http\nhttp-request deny",
    "errorfile of /dev/null": "errorfile 403 /dev/null\nhttp-request deny",
    "http-error string": "http-error status 403 content-type text/plain string 'own 403'\nhttp-request deny",
    "http-error lf-string": "http-error status 403 content-type text/plain lf-string 'own %[path]' hdr x-e '%[src]'\nhttp-request deny",
    "http-error file": "http-error status 403 content-type text/plain file @DIR@/plain.txt\nhttp-request deny",
    "http-error lf-file": "http-error status 403 content-type text/plain lf-file @DIR@/format.txt\nhttp-request deny",
    "http-error errorfile": "http-error status 403 errorfile @DIR@/403.http\nhttp-request deny",
    "http-error errorfiles": "http-error status 403 errorfiles e@N@\nhttp-request deny",
    "http-error hdr": "http-error status 403 hdr x-only 1\nhttp-request deny",
    "http-error default": "http-error status 403 default-errorfiles\nhttp-request deny",
    "errorloc": "errorloc 403 http://e.example/403\nhttp-request deny",
    "errorloc302": "errorloc302 403 http://e.example/403\nhttp-request deny",
    "errorloc303": "errorloc303 403 http://e.example/403\nhttp-request deny",
    "tarpit with content": "timeout tarpit 20ms\nhttp-request tarpit status 403 content-type text/plain string slow",
    "tarpit by errorfile": "timeout tarpit 20ms\nerrorfile 500 @DIR@/503.http\nhttp-request tarpit",
}
_ERRORS = {
    "no server": ("", "server s1 127.0.0.1:1 disabled"),
    "refused": ("", "server s1 127.0.0.1:1"),
    "no server, own page": ("", "server s1 127.0.0.1:1 disabled\nerrorfile 503 @DIR@/503.http"),
    "no server, http-error": ("", "server s1 127.0.0.1:1 disabled\nhttp-error status 503 content-type text/plain lf-string 'no %[be_name]'"),
    "no server, frontend's page": ("errorfile 503 @DIR@/503.http", "server s1 127.0.0.1:1 disabled"),
    "no server, errorloc": ("", "server s1 127.0.0.1:1 disabled\nerrorloc 503 /sorry"),
    "response denied, own page": ("", "errorfile 502 @DIR@/503.http\nhttp-response deny"),
}
_BAD_REPLIES = {
    "bad answer": b"HTTP/1.1 bad\r\n\r\n",
    "no answer": b"",
    "bad answer, own page": b"nonsense\r\n\r\n",
}

CASES = [
    *(rules(f"return {name}", line, request("/p?q"), files=_FILES, sections=_SECTIONS) for name, line in _RETURN.items()),
    *(rules(f"backend return {name}", "", request("/p?q"), back=_RETURN[name], files=_FILES, sections=_SECTIONS)
      for name in ("string", "lf-string", "errorfiles", "headers")),
    *(rules(f"deny {name}", line, request("/"), request("/"), files=_FILES, sections=_SECTIONS) for name, line in _DENY.items()),
    *(rules(f"error {name}", front, request("/"), back=back, files=_FILES, sections=_SECTIONS) for name, (front, back) in _ERRORS.items()),
    *(rules(f"server: {name}", "", request("/"), back="errorfile 502 @DIR@/503.http" if "own" in name else "",
            answers=(data,), files=_FILES) for name, data in _BAD_REPLIES.items()),
    rules("bad request, own page", "errorfile 400 @DIR@/403.http", b"GET / HTTP/1.1\r\nbad header\r\n\r\n", files=_FILES),
    rules("bad request, http-error", "http-error status 400 content-type text/plain string bad", b"GET /\x01 HTTP/1.1\r\nhost: h\r\n\r\n"),
    rules("request time-out, own page", "timeout http-request 100ms\nerrorfile 408 @DIR@/403.http", b"GET / HTTP/1.1\r\nhost: h\r\n", files=_FILES, patience=2.0),
    rules("error of HEAD", "http-request deny", request(method="HEAD"), request("/")),
    rules("error of HTTP/1.0", "http-request deny", request(version="HTTP/1.0")),
    rules("error closes", "http-request deny", request("/", "connection: close")),
    rules("return keeps the connection", "http-request return status 200 if { path /r }", request("/r"), request("/x"), request("/r")),
    rules("return after a body", "http-request return status 200 content-type text/plain string ok", request(method="POST", body="x" * 100), request("/")),
    rules("response return keeps", "", request(), request(), back="http-response return status 200 content-type text/plain string r",
          answers=(answer("x-a: 1", body=b"q" * 50),)),
    rules("errorfile 200 by monitor", "monitor-uri /up", request("/up"), request("/up", method="HEAD")),
    rules("error page of defaults", "http-request deny", request(), sections="defaults d@N@\n mode http\n"),
    rules("413", "", b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 99999999999999999999\r\n\r\n"),
]
