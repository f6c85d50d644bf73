"""The table of endings: every timeout of the manual and every session state that can be reached."""

from __future__ import annotations

# fmt: off
from tests.differential.endings import GET, OK, Ending

_POST = b"POST /a HTTP/1.1\r\nhost: h\r\ncontent-length: 10\r\n\r\n"
_POST_SOME = _POST + b"12345"
_CHUNKED_POST = b"POST /a HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n"
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n"
_CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
_BIG = 3_000_000
_BIG_HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % _BIG
_BAD_CHUNK = b"zz\r\n"
_SWITCH = b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"
_UPGRADE = b"GET /a HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"
_CLOSED = ("tell gone", "pause")

_SERVES = ("head", OK, "hold")

HTTP = [
    # -- it goes well
    Ending("normal", "----", (GET, "head"), (_SERVES,)),
    Ending("two requests", "----", (GET, "head", GET, "head"), (("head", OK, "head", OK, "hold"),)),
    Ending("close", "----", (GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"), "end"), (_SERVES,)),
    Ending("half-close behind a request", "----", (GET, "half", "end"), (_SERVES,)),
    Ending("an upload", "----", (_POST + b"1234567890", "head"), (_SERVES,)),
    Ending("chunks", "----", (GET, "head", "await sent"), (("head", _CHUNKED + b"2\r\nok\r\n0\r\n\r\n", "tell sent", "hold"),)),
    Ending("until close", "----", (GET, "end"), (("head", b"HTTP/1.1 200 OK\r\n\r\nabc", "close"),)),
    Ending("redirect", "LR--", (GET, "head"), front="http-request redirect location /x"),
    Ending("redirect in the backend", "LR--", (GET, "head"), back="http-request redirect location /x"),
    Ending("return", "LR--", (GET, "head"), front="http-request return status 200 content-type text/plain string hello"),
    Ending("return in the backend", "LR--", (GET, "head"), back="http-request return status 503"),
    Ending("response return", "LH--", (GET, "end"), (_SERVES,), back="http-response return status 200 content-type text/plain string hello"),
    Ending("monitor-uri", "", (GET, "head"), front="monitor-uri /a"),
    Ending("monitor fail", "", (GET, "head"), front="monitor-uri /a\nmonitor fail if TRUE"),
    # -- waiting for the request
    Ending("nothing, close", "CR--", ("close", "pause")),
    Ending("nothing, reset", "CR--", ("reset", "pause")),
    Ending("nothing, half-close", "CR--", ("half", "end")),
    Ending("nothing, close, dontlognull", "", ("close", "pause"), front="option dontlognull"),
    Ending("nothing, close, ignored", "", ("close", "pause"), front="option http-ignore-probes"),
    Ending("nothing, half-close, ignored", "", ("half", "end"), front="option http-ignore-probes"),
    Ending("a piece, close", "CR--", (GET[:9], "pause", "close", "pause")),
    Ending("a piece, reset", "CR--", (GET[:9], "pause", "reset", "pause")),
    Ending("a piece, half-close", "CR--", (GET[:9], "half", "end")),
    Ending("a piece, half-close, ignored", "CR--", (GET[:9], "half", "end"), front="option http-ignore-probes"),
    Ending("http-request, nothing", "cR--", ("end",), front="timeout http-request @W@"),
    Ending("http-request, nothing, dontlognull", "", ("end",), front="timeout http-request @W@\noption dontlognull"),
    Ending("http-request, nothing, ignored", "", ("end",), front="timeout http-request @W@\noption http-ignore-probes"),
    Ending("http-request, a piece", "cR--", (GET[:9], "end"), front="timeout http-request @W@"),
    Ending("http-request, a piece, dontlognull", "cR--", (GET[:9], "end"), front="timeout http-request @W@\noption dontlognull"),
    Ending("client, nothing", "cR--", ("end",), front="timeout client @W@"),
    Ending("client, a piece", "cR--", (GET[:9], "end"), front="timeout client @W@"),
    Ending("http-request, second request", "cR--", (GET, "head", GET[:9], "end"), (_SERVES,), front="timeout http-request @W@"),
    Ending("http-keep-alive", "----", (GET, "head", "end"), (_SERVES,), front="timeout http-keep-alive @W@"),
    Ending("http-keep-alive from http-request", "----", (GET, "head", "end"), (_SERVES,), front="timeout http-request @W@"),
    Ending("http-keep-alive, a piece", "cR--", (GET, "head", GET[:9], "end"), (_SERVES,), front="timeout http-keep-alive @W@\ntimeout http-request @W@"),
    Ending("second request, a piece, close", "CR--", (GET, "head", GET[:9], "pause", "close", "pause"), (_SERVES,)),
    Ending("idle, reset", "----", (GET, "head", "reset", "pause"), (_SERVES,)),
    Ending("no request", "PR--", (b"GET / HTTP/1.1\r\nbad header\r\n\r\n", "end")),
    Ending("no second request", "PR--", (GET, "head", b"\x16\x03\x01\r\n\r\n", "end"), (_SERVES,)),
    Ending("deny", "PR--", (GET, "head"), front="http-request deny"),
    Ending("deny in the backend", "PR--", (GET, "head"), back="http-request deny"),
    Ending("deny with a body", "PR--", (_POST_SOME, "head"), front="http-request deny"),
    Ending("reject", "PR--", (GET, "end"), front="http-request reject"),
    Ending("silent-drop", "PR--", (GET, "pause", "pause"), front="http-request silent-drop"),
    Ending("content reject", "PR--", (GET, "end"), front="tcp-request content reject"),
    Ending("too long a head", "PR--", (b"GET / HTTP/1.1\r\nhost: h\r\nx: " + b"a" * 20000 + b"\r\n\r\n", "end")),
    Ending("rewriting fails", "PR--", (GET, "head"), front="\n".join(f"http-request set-header x{n} " + "a" * 900 for n in range(20))),
    Ending("tarpit", "PT--", (GET, "end"), front="http-request tarpit\ntimeout tarpit @W@"),
    Ending("tarpit, timeout connect", "PT--", (GET, "end"), front="http-request tarpit", both="timeout connect @W@"),
    Ending("tarpit, the client leaves", "PT--", (GET, "pause", "close", "pause"), front="http-request tarpit\ntimeout tarpit @W@"),
    Ending("tarpit in the backend, both timeouts", "PT--", (GET, "end"), back="http-request tarpit\ntimeout tarpit @L@", front="timeout tarpit @W@"),
    Ending("tarpit in the frontend, both timeouts", "PT--", (GET, "end"), back="timeout tarpit @W@", front="http-request tarpit\ntimeout tarpit @L@"),
    Ending("tarpit, the client leaves with abortonclose", "PT--", (GET, "pause", "close", "pause"), front="http-request tarpit\ntimeout tarpit @W@", both="option abortonclose"),
    Ending("tarpit in the backend", "PT--", (GET, "end"), back="http-request tarpit\ntimeout tarpit @W@", front="timeout tarpit @W@"),
    Ending("another mode", "IR--", (GET, "head"), front="use_backend %[str(tcp@N@)]", sections="backend tcp@N@\nmode tcp\nserver s1 @ORIGIN@"),
    Ending("buffer-request, late", "cR--", (_POST_SOME, "end"), front="option http-buffer-request\ntimeout http-request @W@"),
    Ending("buffer-request in the backend, late", "cR--", (_POST_SOME, "end"), back="option http-buffer-request\ntimeout http-request @W@"),
    Ending("buffer-request, left", "CR--", (_POST_SOME, "pause", "close", "pause"), front="option http-buffer-request"),
    Ending("buffer-request, bad chunk", "PR--", (_CHUNKED_POST, "pause", _BAD_CHUNK, "end"), front="option http-buffer-request"),
    Ending("wait-for-body, late", "cR--", (_POST_SOME, "end"), front="http-request wait-for-body time @W@"),
    Ending("no server", "SC--", (GET, "head"), server="server s1 @ORIGIN@ disabled"),
    Ending("no backend's server", "SC--", (GET, "head"), server=""),
    # -- the connection to the server
    Ending("refused", "SC--", (GET, "head"), server="server s1 @REFUSED@"),
    Ending("refused, with a body", "SC--", (_POST_SOME, "head"), server="server s1 @REFUSED@"),
    Ending("refused, a retry", "SC--", (GET, "head"), server="server s1 @REFUSED@", back="retries 1\ntimeout connect @W@"),
    Ending("refused, redispatched", "----", (GET, "head"), (_SERVES,), back="retries 1\noption redispatch\nbalance first", server="server s1 @REFUSED@\nserver s2 @ORIGIN@"),
    Ending("connect", "sC--", (GET, "head"), server="server s1 @DEAF@", back="timeout connect @W@"),
    Ending("connect, a retry", "sC--", (GET, "head"), server="server s1 @DEAF@", back="timeout connect @W@\nretries 1"),
    Ending("connect, half-close", "sC--", (GET, "half", "head"), server="server s1 @DEAF@", back="timeout connect @W@"),
    Ending("connect, left with abortonclose", "CC--", (GET, "pause", "close", "pause"), server="server s1 @DEAF@", both="option abortonclose", back="timeout connect @L@"),
    Ending("connect, left", "sC--", (GET, "pause", "close", "pause", "pause", "pause", "pause", "pause"), server="server s1 @DEAF@", back="timeout connect @W@"),
    Ending("connect, timeout client", "sC--", (GET, "head"), server="server s1 @DEAF@", front="timeout client @W@", back="timeout connect @L@"),
    Ending("no local address", "SC--", (GET, "head"), server="server s1 @ORIGIN@ source 203.0.113.7"),
    # -- waiting for the response head
    Ending("server", "sH--", (GET, "head"), (("head", "hold"),), back="timeout server @W@"),
    Ending("server, a piece", "sH--", (GET, "head"), (("head", _HEAD[:9], "hold"),), back="timeout server @W@"),
    Ending("server closes", "SH--", (GET, "head"), (("head", "close"),)),
    Ending("server resets", "SH--", (GET, "head"), (("head", "reset"),)),
    Ending("server closes at once", "SH--", (GET, "head"), (("close",),)),
    Ending("server closes within its head", "SH--", (GET, "head"), (("head", _HEAD[:20], "close"),)),
    Ending("server resets within its head", "SH--", (GET, "head"), (("head", _HEAD[:20], "pause", "reset"),)),
    Ending("server closes a kept connection", "----", (GET, "head", GET, "end"), (("head", OK, "head", "close"), ("head", OK, "hold"))),
    Ending("bad head", "PH--", (GET, "head"), (("head", b"SSH-2.0-x\r\n\r\n", "hold"),)),
    Ending("bad header", "PH--", (GET, "head"), (("head", b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n", "hold"),)),
    Ending("response deny", "PH--", (GET, "head"), (_SERVES,), back="http-response deny"),
    Ending("response deny with a status", "PH--", (GET, "head"), (_SERVES,), back="http-response deny status 403"),
    Ending("response rewriting fails", "PH--", (GET, "head"), (_SERVES,), back="\n".join(f"http-response set-header x{n} " + "a" * 900 for n in range(20))),
    Ending("head, left with abortonclose", "CH--", (GET, "await got", "close", "await closed"), (("head", "tell got", "end", "tell closed"),), both="option abortonclose"),
    Ending("head, reset with abortonclose", "CD--", (GET, "await got", "reset", "await closed"), (("head", "tell got", "end", "tell closed"),), both="option abortonclose"),
    Ending("head, left", "----", (GET, "await got", "close", "await sent", "pause"), (("head", "tell got", "pause", OK, "tell sent", "hold"),)),
    Ending("head, left, late", "sH--", (GET, "await got", "close", "await closed"), (("head", "tell got", "end", "tell closed"),), back="timeout server @W@"),
    Ending("head, reset", "CD--", (GET, "await got", "reset", "await sent", "pause"), (("head", "tell got", "pause", OK, "tell sent", "hold"),)),
    Ending("upload stalls", "sH--", (_POST_SOME, "end"), (("head", "hold"),), front="timeout client @W@", back="timeout server @L@"),
    Ending("upload stalls, client and server", "sH--", (_POST_SOME, "end"), (("head", "hold"),), front="timeout client @L@", back="timeout server @W@"),
    Ending("upload stalls behind an answer", "sD--", (_POST_SOME, "end"), (("head", _HEAD, "hold"),), front="timeout client @W@", back="timeout server @L@"),
    Ending("upload is left", "CD--", (_POST_SOME, "await got", "close", "await closed"), (("head", "tell got", "end", "tell closed"),)),
    Ending("upload is reset", "CD--", (_POST_SOME, "await got", "reset", "await closed"), (("head", "tell got", "end", "tell closed"),)),
    Ending("bad chunk", "PH--", (_CHUNKED_POST, "await got", _BAD_CHUNK, "end"), (("head", "tell got", "hold"),)),
    Ending("bad chunk at once", "PR--", (_CHUNKED_POST + _BAD_CHUNK, "end"), (("head", "hold"),)),
    Ending("answered in the upload", "CD--", (_POST_SOME, "head"), (("head", OK, "hold"),)),
    Ending("upload, the server closes", "SH--", (_POST_SOME, "head"), (("head", "close"),)),
    # -- bodies
    Ending("body, server", "sD--", (GET, "end"), (("head", _HEAD + b"123", "hold"),), back="timeout server @W@"),
    Ending("body, server closes", "SD--", (GET, "end"), (("head", _HEAD + b"123", "close"),)),
    Ending("body, server resets", "SD--", (GET, "end"), (("head", _HEAD + b"123", "pause", "reset"),)),
    Ending("chunks, server closes", "SD--", (GET, "end"), (("head", _CHUNKED + b"3\r\nabc\r\n", "close"),)),
    Ending("chunks, server", "sD--", (GET, "end"), (("head", _CHUNKED + b"3\r\nabc\r\n", "hold"),), back="timeout server @W@"),
    Ending("chunks, bad", "SD--", (GET, "end"), (("head", _CHUNKED + b"3\r\nabc\r\n", "pause", _BAD_CHUNK, "hold"),)),
    Ending("chunks, bad at once", "PH--", (GET, "end"), (("head", _CHUNKED + _BAD_CHUNK, "hold"),)),
    Ending("until close, reset", "SD--", (GET, "end"), (("head", b"HTTP/1.1 200 OK\r\n\r\nabc", "pause", "reset"),)),
    Ending("until close, server", "sD--", (GET, "end"), (("head", b"HTTP/1.1 200 OK\r\n\r\nabc", "hold"),), back="timeout server @W@"),
    # (HAProxy sees what a client does only when it writes to it)
    Ending("body, left", "CD--", (GET, "head", "close", "await closed"), (("head", _HEAD + b"123", "pause", b"4", "pause", b"5", "end", "tell closed"),), back="timeout server @W@"),
    Ending("body, reset", "sD--", (GET, "head", "reset", "await closed"), (("head", _HEAD + b"123", "end", "tell closed"),), back="timeout server @W@"),
    Ending("body is not read", "cD--", (GET, "await closed"), (("head", _BIG_HEAD + b"x" * (_BIG - 1), "end", "tell closed"),), front="timeout client @W@"),
    Ending("body, left unread", "CD--", (GET, "head", "pause", "close", "await closed"), (("head", _BIG_HEAD + b"x" * (_BIG - 1), "end", "tell closed"),)),
    Ending("last data, reset", "----", ("small", GET, "await all", "pause", "reset", "pause"), (("head", b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 15000, "close", "tell all"),)),
    Ending("last data, client", "----", ("small", GET, "await all", "pause", "pause", "pause", "pause", "pause"), (("head", b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 15000, "close", "tell all"),), front="timeout client @W@"),
    # -- switched
    Ending("tunnel", "----", (_UPGRADE, "head", b"abc", "half", "end"), (("head", _SWITCH, "end", b"xyz", "close"),)),
    Ending("tunnel, timeout tunnel", "?D--", (_UPGRADE, "head", "end"), (("head", _SWITCH, "end", "close"),), back="timeout tunnel @W@"),
    Ending("tunnel, timeout client", "cD--", (_UPGRADE, "head", "end"), (("head", _SWITCH, "end", "close"),), front="timeout client @W@"),
    Ending("tunnel, timeout server", "sD--", (_UPGRADE, "head", "end"), (("head", _SWITCH, "hold"),), back="timeout server @W@"),
    Ending("tunnel, reset", "CD--", (_UPGRADE, "head", "pause", "reset", "await closed"), (("head", _SWITCH, "end", "tell closed"),)),
    Ending("tunnel, server resets", "SD--", (_UPGRADE, "head", "end"), (("head", _SWITCH, "pause", "reset"),)),
    Ending("tunnel, half-closed, server-fin", "sD--", (_UPGRADE, "head", "half", "end"), (("head", _SWITCH, "hold"),), back="timeout server-fin @W@"),
    Ending("tunnel, the server half-closes", "----", (_UPGRADE, "head", "end", "await closed"), (("head", _SWITCH, "half", "end", "tell closed"),), front="timeout client-fin @W@"),
    # -- by hand
    Ending("shutdown sessions server", "KH--", (GET, "await got", "cli shutdown sessions server @B@/s1", "end"), (("head", "tell got", "hold"),)),
    Ending("shutdown sessions server in the body", "KD--", (GET, "head", "pause", "cli shutdown sessions server @B@/s1", "end"), (("head", _HEAD, "hold"),)),
    # -- a server that goes down
    Ending("goes down", "DH--", (GET, "await got", "cli set server @B@/s1 health down", "end"), (("head", "tell got", "hold"),), server="server s1 @ORIGIN@ check inter 60s on-marked-down shutdown-sessions"),
    Ending("goes down in the body", "DD--", (GET, "head", "pause", "cli set server @B@/s1 health down", "end"), (("head", _HEAD, "hold"),), server="server s1 @ORIGIN@ check inter 60s on-marked-down shutdown-sessions"),
    # -- queues
    Ending("queue", "sQ--", (GET, "await got", "new", GET, "head", "close", "pause"), (("head", "tell got", "hold"),), back="timeout queue @W@", server="server s1 @ORIGIN@ maxconn 1"),
    Ending("queue, left", "CQ--", (GET, "await got", "new", GET, "pause", "close", "pause", "tell go", "pause"), (("head", "tell got", "await go", OK, "close"),), both="option abortonclose", server="server s1 @ORIGIN@ maxconn 1"),
    Ending("queue, its turn comes", "----", (GET, "await got", "new", GET, "pause", "tell go", "head"), (("head", "tell got", "await go", OK, "close"), _SERVES), server="server s1 @ORIGIN@ maxconn 1"),
]

TCP = [
    Ending("normal", "--", (b"abc", "half", "end"), (("end", b"xyz", "close"),), tcp=True),
    Ending("the server ends first", "--", ("end", "close", "pause"), ((b"xyz", "half", "end"),), tcp=True),
    Ending("client, nothing", "cD", ("end",), (("end", "close"),), front="timeout client @W@", tcp=True),
    Ending("server, nothing", "sD", ("end",), back="timeout server @W@", tcp=True),
    Ending("client and server", "?D", ("end",), (("end", "close"),), front="timeout client @W@", back="timeout server @W@", tcp=True),
    Ending("tunnel", "?D", (b"abc", "end"), (("end", "close"),), back="timeout tunnel @W@", tcp=True),
    Ending("reset", "CD", (b"abc", "pause", "reset", "await closed"), (("end", "tell closed"),), tcp=True),
    Ending("server resets", "SD", (b"abc", "end"), (("pause", "reset"),), tcp=True),
    Ending("half-closed, timeout client", "cD", ("end", "await closed"), (("half", "end", "tell closed"),), front="timeout client @W@", tcp=True),
    Ending("half-closed, client-fin", "cD", ("end", "await closed"), (("half", "end", "tell closed"),), front="timeout client-fin @W@", tcp=True),
    Ending("half-closed, server-fin", "sD", ("pause", "half", "end"), back="timeout server-fin @W@", tcp=True),
    Ending("half-closed, timeout server", "sD", ("pause", "half", "end"), back="timeout server @W@", tcp=True),
    Ending("half-closed, tunnel and client-fin", "cD", ("end", "await closed"), (("half", "end", "tell closed"),), front="timeout client-fin @W@", back="timeout tunnel 1m", tcp=True),
    Ending("half-closed, tunnel and server-fin", "sD", ("pause", "half", "end"), back="timeout tunnel 1m\ntimeout server-fin @W@", tcp=True),
    Ending("refused", "SC", ("end",), server="server s1 @REFUSED@", tcp=True),
    Ending("connect", "sC", ("end",), server="server s1 @DEAF@", back="timeout connect @W@", tcp=True),
    Ending("connect, left with abortonclose", "CC", ("pause", "close", "pause"), server="server s1 @DEAF@", both="option abortonclose", tcp=True),
    Ending("no local address", "SC", ("end",), server="server s1 @ORIGIN@ source 203.0.113.7", tcp=True),
    Ending("no server", "SC", ("end",), server="server s1 @ORIGIN@ disabled", tcp=True),
    Ending("content reject", "PR", (b"abc", "end"), front="tcp-request content reject", tcp=True),
    Ending("content reject in the backend", "PR", (b"abc", "end"), back="tcp-request content reject", tcp=True),
    Ending("response reject", "PD", (b"abc", "end"), ((b"xyz", "hold"),), back="tcp-response content reject", tcp=True),
    Ending("response close", "--", (b"abc", "half", "end"), ((b"xyz", "hold"),), back="tcp-response content close", tcp=True),
    Ending("inspect, left", "--", ("pause", "close", "pause"), front="tcp-request inspect-delay 10s\ntcp-request content accept if { req.len gt 100 }", tcp=True),
    Ending("inspect, delay is over", "--", ("pause", b"abc", "half", "end"), (("end", b"xyz", "close"),), front="tcp-request inspect-delay @W@\ntcp-request content accept if { req.len gt 100 }", tcp=True),
    Ending("not read", "cD", ("await closed",), ((b"x" * _BIG, "end", "tell closed"),), front="timeout client @W@", tcp=True),
    Ending("last data, reset", "CD", ("small", "await all", "pause", "reset", "pause"), ((b"x" * 15000, "close", "tell all"),), tcp=True),
    Ending("last data, client", "cD", ("small", "await all", "pause", "pause", "pause", "pause", "pause"), ((b"x" * 15000, "close", "tell all"),), front="timeout client @W@", tcp=True),
    Ending("last data, ended, client", "cL", ("small", "half", "await all", "pause", "pause", "pause", "pause", "pause"), (("end", b"x" * 15000, "close", "tell all"),), front="timeout client @W@", tcp=True),
    Ending("shutdown sessions server", "K-", (b"abc", "await got", "cli shutdown sessions server @B@/s1", "end"), (("tell got", "hold"),), tcp=True),
    Ending("goes down", "D-", ("await got", "cli set server @B@/s1 health down", "end"), (("tell got", "hold"),), server="server s1 @ORIGIN@ check inter 60s on-marked-down shutdown-sessions", tcp=True),
    Ending("queue", "sQ", ("await got", "new", "end"), (("tell got", "hold"),), back="timeout queue @W@", server="server s1 @ORIGIN@ maxconn 1", tcp=True),
    Ending("queue, left", "CQ", ("await got", "new", "pause", "close", "pause", "tell go", "pause"), (("tell got", "await go", "close"),), both="option abortonclose", server="server s1 @ORIGIN@ maxconn 1", tcp=True),
]

_HOLDS = "HAProxy holds the connection of a client that has gone until the end of the wait"

_NOT_BEGUN = "HAProxy counts no session of the server where a connection could not be begun"

#: endings that differ on purpose, and why
KNOWN = {
    "http/tarpit, the client leaves": _HOLDS,
    "http/another mode": "the client is told 500, HAProxy closes without a word",
    "http/no local address": _NOT_BEGUN,
    "tcp/no local address": _NOT_BEGUN,
    "http/upload stalls": "`timeout client` strikes, as the manual has it: HAProxy waits for `timeout server`",
    "http/upload stalls behind an answer": "`timeout client` strikes, as the manual has it: HAProxy waits for `timeout server`",
    "http/last data, reset": "HAProxy is through with a response once it is in its own buffers",
    "http/last data, client": "HAProxy is through with a response once it is in its own buffers",
    "http/tunnel, the server half-closes": "what the client still has to say is passed on, HAProxy closes both sides",
}

#: endings that differ for now; no failure if they do not any more
PENDING: dict[str, str] = {}
