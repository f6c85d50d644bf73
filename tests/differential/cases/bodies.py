"""Messages with bodies under rules: chunked ones, HEAD, 1xx, keep-alive, HTTP/1.0."""

from __future__ import annotations

# fmt: off
from tests.differential.case import answer, request, rules

_CHUNKED = b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n"
_CHUNKED_ANSWER = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n"
_SHOW = "http-request return status 200 content-type text/plain lf-string"
_WAIT = "http-request wait-for-body time 1s\n"

CASES = [
    rules("chunked body in a fetch", f"{_WAIT}{_SHOW} '%[req.body] %[req.body_len] %[req.body_size]'", _CHUNKED, _CHUNKED),
    rules("chunked body goes on", _WAIT + "http-request set-header x-l %[req.body_len]", _CHUNKED),
    rules("chunked body with rules", "http-request set-header x-a 1", _CHUNKED, request("/")),
    rules("chunked body denied", "http-request deny", _CHUNKED, request("/")),
    rules("chunked answer with rules", "http-response set-header x-a %[status]", request(), request(), answers=(_CHUNKED_ANSWER,)),
    rules("chunked answer to HTTP/1.0", "http-response set-header x-a 1", request(version="HTTP/1.0"), answers=(_CHUNKED_ANSWER,)),
    rules("answer until the end", "http-response set-header x-a 1", request(), answers=(b"HTTP/1.1 200 OK\r\nx-b: 1\r\n\r\nall of it",)),
    rules("answer until the end to HTTP/1.0", "http-response set-header x-a 1", request(version="HTTP/1.0"), answers=(b"HTTP/1.0 200 OK\r\n\r\nall of it",)),
    rules("204 with rules", "http-response set-header x-a 1", request(), request(), answers=(b"HTTP/1.1 204 No\r\n\r\n",)),
    rules("304 with rules", "http-response set-header x-a 1", request(), answers=(b"HTTP/1.1 304 Not\r\netag: x\r\n\r\n",)),
    rules("set-status 204 of a body", "http-response set-status 204", request(), answers=(answer(body=b"abc"),)),
    rules("HEAD with rules", "http-response set-header x-a %[res.hdr(content-length)]", request(method="HEAD"), answers=(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n",)),
    rules("1xx with rules", "http-response set-header x-a 1", request(), answers=(b"HTTP/1.1 103 Early\r\nlink: x\r\n\r\n" + answer(),)),
    rules("100-continue and a denial", "http-request deny if { path /d }",
          b"POST /d HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\nabc"),
    rules("100-continue and waiting", f"{_WAIT}{_SHOW} '%[req.body]'", b"POST /d HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\nabc"),
    rules("connection header is replaced", "http-request set-header connection close", request()),
    rules("content-length is removed", "http-request del-header content-length", request(method="POST", body="abc")),
    rules("content-length is changed", "http-request set-header content-length 2", request(method="POST", body="abc")),
    rules("transfer-encoding is removed", "http-request del-header transfer-encoding", _CHUNKED),
    rules("answer's content-length is removed", "http-response del-header content-length", request(), request()),
    rules("host is removed", "http-request del-header host", request()),
    rules("upgrade with rules", "http-request set-header x-a 1\nhttp-response set-header x-b 1", request("/", "connection: upgrade", "upgrade: websocket"),
          answers=(b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",)),
    rules("upgrade is removed", "http-request del-header upgrade", request("/", "connection: upgrade", "upgrade: websocket")),
    rules("form of a large body", f"option http-buffer-request\n{_SHOW} '%[req.body_param(last)] %[req.body_len]'", request(method="POST", body="a=" + "x" * 9000 + "&last=1")),
    rules("large body passes", "http-request set-header x-a 1", request(method="POST", body="y" * 40000)),
    rules("large body and wait-for-body", _WAIT + "http-request set-header x-l %[req.body_len,bool]", request(method="POST", body="y" * 40000)),
    rules("large answer with rules", "http-response set-header x-a 1", request(), answers=(answer(body=b"z" * 40000),)),
    rules("wait-for-body of the response", "http-response wait-for-body time 1s\nhttp-response set-header x-l '%[res.body_len] %[res.body]'", request(), answers=(answer(body=b"zzz"),)),
    rules("a chunked answer's body", "http-response wait-for-body time 1s\nhttp-response set-header x-l '%[res.body_len] %[res.body,upper]'", request(), answers=(_CHUNKED_ANSWER,)),
    rules("close after rules", "http-request set-header x-n 1", request("/", "connection: close")),
    rules("keep-alive of HTTP/1.0", "http-response set-header x-n 1", request("/", "connection: keep-alive", version="HTTP/1.0"), request("/2", version="HTTP/1.0")),
    rules("case of names", "option h1-case-adjust-bogus-client\nhttp-response set-header x-custom-name 1", request(), settings="h1-case-adjust x-custom-name X-Custom-NAME"),
    rules("case of names to the server", "http-request set-header x-other-name 1", request(), back="option h1-case-adjust-bogus-server", settings="h1-case-adjust x-other-name X-Other-NAME"),
    rules("restrict names", "option http-restrict-req-hdr-names delete", request("/", "x_a: 1", "x-b: 2", "x.c: 3")),
    rules("restrict names reject", "option http-restrict-req-hdr-names reject", request("/", "x_a: 1")),
    rules("restrict names preserve", "option http-restrict-req-hdr-names preserve", request("/", "x_a: 1")),
    rules("option httpclose in the backend", "", request(), request(), back="option httpclose\nhttp-response set-header x-a 1"),
    rules("option http-server-close", "", request(), request(), back="option http-server-close\nhttp-response set-header x-a 1"),
    rules("option http-pretend-keepalive", "", request(), back="option http-server-close\noption http-pretend-keepalive"),
    rules("option nolinger", "option nolinger", request()),
    rules("option http-no-delay", "option http-no-delay", request()),
    rules("option http-ignore-probes", "option http-ignore-probes", request()),
    rules("option http-use-proxy-header", "option http-use-proxy-header", request("/", "proxy-connection: close")),
    rules("option accept-invalid-http-request", "option accept-invalid-http-request", b"GET /a|b HTTP/1.1\r\nhost: h\r\nx_a: 1\r\n\r\n"),
    rules("option accept-invalid-http-response", "", request(), back="option accept-invalid-http-response", answers=(b"HTTP/1.1 200 OK\r\nx-\xe9: 1\r\ncontent-length: 0\r\n\r\n",)),
    rules("http-send-name-header", "", request(), request("/", "x-srv: given"), back="http-send-name-header x-srv"),
    rules("dispatch", "", request(), back="dispatch @ORIGIN@\nhttp-response set-header x-a 1"),
    rules("http_proxy-like target", "http-request set-path /p", request("http://h:80/q", "host: h:80")),
    *(rules(f"the client leaves: {name}", f"option httplog\n{front}", data, back=back, answers=replies, leaves=True, patience=2.0) for name, front, back, data, replies in [
        ("a chunked body is short, buffered", "option http-buffer-request", "", _CHUNKED[:-2], (answer(),)),
        ("a body is short, buffered", "option http-buffer-request", "", request(method="POST", body="abc")[:-1], (answer(),)),
        ("a body is short, waited for", "http-request wait-for-body time 1s", "", request(method="POST", body="abc")[:-1], (answer(),)),
        ("a head is short", "", "", b"GET / HTTP/1.1\r\nhost: h\r\n", (answer(),)),
        ("nothing is sent", "", "", b"", (answer(),)),
        ("in a tarpit", "timeout tarpit 300ms\nhttp-request tarpit", "", request(), (answer(),)),
        ("before the answer", "", "timeout server 300ms", request(), (b"HTTP/1.1 200 OK\r\n",)),
        ("before the answer, abortonclose", "", "option abortonclose\ntimeout server 300ms", request(), (b"HTTP/1.1 200 OK\r\n",)),
        ("a body that passes is short", "", "timeout server 300ms", request(method="POST", body="abc")[:-1], (answer(),)),
    ]),
]
