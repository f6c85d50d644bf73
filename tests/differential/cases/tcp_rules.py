"""Rules of layer 4 and 6: tcp-request connection, session, content; tcp-response content (4.2)."""

from __future__ import annotations

# fmt: off
from tests.differential.case import Case, request, rules


def tcp(name: str, front: str, *data: bytes, back: str = "", answers: tuple[bytes, ...] = (b"reply",), **more: object) -> Case:
    """A case of `mode tcp`."""
    if "silent-drop" in front:
        more = {"patience": 0.4} | more
    return Case(name, front=front, back=back, requests=data or (b"hello\n",), answers=answers, tcp=True, **more)  # type: ignore[arg-type]


#: waits for data, as set-var and capture do not
_INSPECT = "tcp-request inspect-delay 1s\ntcp-request content reject unless { req.len gt 0 }\n"
_TCP = {
    "plain": "", "connection accept": "tcp-request connection accept", "connection reject": "tcp-request connection reject",
    "connection reject by source": "tcp-request connection reject if { src 127.0.0.0/8 }", "connection reject not": "tcp-request connection reject if { src 10.0.0.0/8 }",
    "connection accept before reject": "tcp-request connection accept if { src 127.0.0.1 }\ntcp-request connection reject",
    "session accept": "tcp-request session accept",
    "session reject": "tcp-request session reject", "session reject by condition": "tcp-request session reject if { src 127.0.0.1 }",
    "content accept": "tcp-request content accept", "content reject": "tcp-request content reject", "content reject by length": _INSPECT + "tcp-request content reject if { req.len gt 3 }",
    "content reject not": _INSPECT + "tcp-request content reject if { req.len gt 300 }", "content payload": _INSPECT + "tcp-request content reject if { req.payload(0,5) -m str hello }",
    "content payload bin": _INSPECT + "tcp-request content reject if { req.payload(0,5) -m bin 68656c6c6f }",
    "content payload sub": _INSPECT + "tcp-request content accept if { req.payload(0,0) -m sub ell }\ntcp-request content reject",
    "content payload missing": "tcp-request inspect-delay 50ms\ntcp-request content reject if { req.payload(0,500) -m found }",
    "content payload_lv": _INSPECT + "tcp-request content set-var(sess.p) req.payload_lv(0,1)\ntcp-request content accept if WAIT_END",
    "content wait_end": "tcp-request inspect-delay 50ms\ntcp-request content reject if WAIT_END", "content set-dst": "tcp-request content set-dst ipv4(127.0.0.9)",
    "content set-src": "tcp-request content set-src ipv4(9.8.7.6)", "content set-log-level": "tcp-request content set-log-level err",
    "content set-var": _INSPECT + "tcp-request content set-var(sess.v) req.payload(0,3),upper\nlog-format '[%[var(sess.v)]] %ts'",
    "content capture": _INSPECT + "tcp-request content capture req.payload(0,5) len 4\nlog-format '%hr [%[capture.req.hdr(0)]] %ts'",
    "content set-nice": "tcp-request content set-nice 3", "content set-mark": "tcp-request content set-tos 0", "content set-priority": "tcp-request content set-priority-class int(3)",
    "log of a reject": "tcp-request content reject\noption tcplog", "log of connection reject": "tcp-request connection reject\noption tcplog",
    "log format": "log-format '%ci %f %b %s %ts %B %U'", "rdp cookie": _INSPECT + "tcp-request content set-var(sess.r) req.rdp_cookie(mstshash)\nlog-format '[%[var(sess.r)]]'",
    "variable of the request": _INSPECT + "tcp-request content set-var(req.v) req.payload(0,0),field(1,' ')\ntcp-request content reject if ! { var(req.v) -m str hello } || ! { var(req.v) -m len 5 }",
    "variable of the transaction": _INSPECT + "tcp-request content set-var(txn.v) req.payload(0,5)\ntcp-request content reject if ! { var(txn.v) -m str hello }",
    "variable that is missing": _INSPECT + "tcp-request content reject if ! { var(req.v) -m str hello } || ! { var(req.w) -m str x }",
    "number as text": _INSPECT + "tcp-request content set-var(req.v) req.payload(0,0),length\ntcp-request content reject if ! { var(req.v) -m str 12 } || ! { var(req.v) -m int 12 }",
    "not HTTP": _INSPECT + "tcp-request content reject unless HTTP", "req.proto_http": _INSPECT + "tcp-request content reject if { req.proto_http }",
    "use_backend by payload": _INSPECT + "tcp-request content accept if { req.len gt 0 }\nuse_backend @B@x if { req.payload(0,1) -m str h }",
}
_RESPONSES = {
    "response accept": "tcp-response content accept", "response reject": "tcp-response inspect-delay 1s\ntcp-response content reject if { res.len gt 0 }",
    "response reject by payload": "tcp-response inspect-delay 1s\ntcp-response content reject if { res.payload(0,5) -m str reply }",
    "response reject not": "tcp-response inspect-delay 1s\ntcp-response content reject if { res.payload(0,5) -m str other }",
    "response variable": "tcp-response inspect-delay 1s\ntcp-response content set-var(res.v) res.payload(0,0),upper\ntcp-response content reject if ! { var(res.v) -m str REPLY }",
    "response variable differs": "tcp-response inspect-delay 1s\ntcp-response content set-var(res.v) res.payload(0,0),length\ntcp-response content reject if ! { var(res.v) -m str 6 }",
    "response variable behind a wait": "tcp-response inspect-delay 1s\ntcp-response content reject unless { res.len gt 0 }\ntcp-response content set-var(res.v) res.payload(0,0),upper\ntcp-response content reject if ! { var(res.v) -m str REPLY }",
    "response sees no variable of the request": "tcp-request content set-var(req.v) str(x)\ntcp-request content set-var(txn.v) str(y)\ntcp-response inspect-delay 1s\ntcp-response content reject unless { res.len gt 0 }\ntcp-response content reject if { var(req.v) -m found } || ! { var(txn.v) -m found }",
    "response close": "tcp-response content close", "response set-var": "tcp-response inspect-delay 1s\ntcp-response content set-var(sess.a) res.payload(0,2)\ntcp-response content accept",
}
_RDP = b"\x03\x00\x00\x2a\x25\xe0\x00\x00\x00\x00\x00Cookie: mstshash=user1\r\n\x01\x00\x08\x00\x00\x00\x00\x00"



def _client_hello(name: bytes, alpn: bytes = b"") -> bytes:
    """A ClientHello with SNI and, if given, one ALPN protocol (RFC 8446 4.1.2, RFC 6066, RFC 7301)."""
    sni = b"\x00" + len(name).to_bytes(2) + name
    extensions = b"\x00\x00" + (len(sni) + 2).to_bytes(2) + len(sni).to_bytes(2) + sni
    extensions += bytes.fromhex("000a00040002001d") + bytes.fromhex("000b00020100")
    if alpn:
        item = bytes([len(alpn)]) + alpn
        extensions += b"\x00\x10" + (len(item) + 2).to_bytes(2) + len(item).to_bytes(2) + item
    body = b"\x03\x03" + bytes(range(32)) + b"\x00" + b"\x00\x02\x13\x01" + b"\x01\x00"
    body += len(extensions).to_bytes(2) + extensions
    message = b"\x01" + len(body).to_bytes(3) + body
    return b"\x16\x03\x01" + len(message).to_bytes(2) + message


_TLS = [
    "req.ssl_sni", "req.ssl_hello_type", "req.ssl_ver", "req.ssl_alpn", "req.ssl_ec_ext", "req.ssl_st_ext", "req_ssl_sni", "req_ssl_ver", "req_ssl_hello_type",
]
_TLS_RULES = "tcp-request inspect-delay 500ms\ntcp-request content reject unless {{ req.len gt 0 }}\ntcp-request content set-var(sess.v) {fetch}\ntcp-request content accept if {{ req.ssl_hello_type 1 }}\nlog-format '[%[var(sess.v)]] %ts'"

CASES = [
    *(tcp(name, lines, b"\x03abcdef\n" if "payload_lv" in name else (_RDP if "rdp" in name else b"hello world\n"),
          back="tcp-request content accept", sections="backend @B@x\n mode tcp\n server sx @ORIGIN@\n") for name, lines in _TCP.items()),
    *(tcp(name, "", back=lines) for name, lines in _RESPONSES.items()),
    *(tcp(f"tls {fetch}", _TLS_RULES.format(fetch=fetch), _client_hello(b"www.example.com", b"h2")) for fetch in _TLS),
    *(tcp(f"tls {fetch} without alpn", _TLS_RULES.format(fetch=fetch), _client_hello(b"a.b")) for fetch in ("req.ssl_sni", "req.ssl_alpn")),
    *(tcp(f"no tls {fetch}", _TLS_RULES.format(fetch=fetch), b"GET / HTTP/1.0\r\n\r\n") for fetch in ("req.ssl_sni", "req.ssl_hello_type")),
    tcp("tls routing", "tcp-request inspect-delay 1s\ntcp-request content accept if { req.ssl_hello_type 1 }\nuse_backend @B@x if { req.ssl_sni -i WWW.example.com }\nlog-format '%b %s'",
        _client_hello(b"www.example.com"), sections="backend @B@x\n mode tcp\n server sx @ORIGIN@\n"),
    tcp("tls routing to the default", "tcp-request inspect-delay 1s\ntcp-request content accept if { req.ssl_hello_type 1 }\nuse_backend @B@x if { req.ssl_sni -m end .example.org }\nlog-format '%b %s'",
        _client_hello(b"www.example.com"), sections="backend @B@x\n mode tcp\n server sx @ORIGIN@\n"),
    tcp("http in tcp mode", "tcp-request inspect-delay 1s\ntcp-request content accept if HTTP\ntcp-request content reject", b"GET / HTTP/1.1\r\nhost: h\r\n\r\n"),
    tcp("http method in tcp mode", "tcp-request inspect-delay 1s\ntcp-request content accept if { req.payload(0,3) -m str GET }\ntcp-request content reject", b"PUT / HTTP/1.1\r\nhost: h\r\n\r\n"),
    tcp("backend content rules", "", back="tcp-request inspect-delay 1s\ntcp-request content reject if { req.payload(0,1) -m str h }"),
    tcp("binary data", "tcp-request inspect-delay 1s\ntcp-request content reject unless { req.len gt 0 }\ntcp-request content set-var(sess.v) req.payload(0,4),hex\ntcp-request content accept if { req.len ge 4 }\nlog-format '[%[var(sess.v)]]'", b"\x00\x01\xfe\xff\x00"),
    tcp("sizes", "log-format '%B %U'", b"x" * 1000, answers=(b"y" * 3000,)),
    tcp("refused server", "", back="server s1 127.0.0.1:1"),
    tcp("disabled server", "", back="server s1 127.0.0.1:1 disabled"),
    tcp("stick table", "tcp-request connection track-sc0 src table t@N@\ntcp-request content reject if { sc0_conn_cnt gt 2 }\nlog-format '%[sc0_conn_cnt] %[sc0_sess_cnt] %ts'", b"a", b"b", b"c",
        sections="backend t@N@\n stick-table type ip size 10 store conn_cnt,sess_cnt\n"),
    *(rules(f"http {name}", lines, request("/a"), request("/b", "x-h: v")) for name, lines in {
        "connection reject": "tcp-request connection reject if { src 127.0.0.1 }", "session reject": "tcp-request session reject", "content reject": "tcp-request content reject if { path /b }",
        "content accept": "tcp-request content accept", "content by header": "tcp-request content reject if { req.hdr(x-h) v }", "inspect-delay": "tcp-request inspect-delay 200ms\ntcp-request content accept if HTTP",
        "content set-var": "tcp-request content set-var(txn.p) path\nhttp-request set-header x-p %[var(txn.p)]", "content capture": "tcp-request content capture path len 10\noption httplog",
        "content reject is logged": "tcp-request content reject\noption httplog", "content set-src": "tcp-request content set-src ipv4(9.9.9.9)\noption forwardfor",
        "content silent-drop": "tcp-request content silent-drop if { path /b }", "content set-log-level": "tcp-request content set-log-level silent if { path /b }",
        "content use-service": "", "wait_end": "tcp-request inspect-delay 30ms\ntcp-request content accept if WAIT_END"}.items() if lines),
    rules("http tcp-response reject", "", request("/a"), back="tcp-response content reject"),
    rules("http tcp-response reject by status", "", request("/a"), back="tcp-response content reject if { status 200 }"),
    rules("http tcp-response accept", "", request("/a"), back="tcp-response inspect-delay 1s\ntcp-response content accept if { res.hdr(x-none) -m found }"),
    rules("PROXY v1 expected", "tcp-request connection expect-proxy layer4\nhttp-request set-header x-src '%[src]:%[src_port] %[dst] %[fc_rcvd_proxy]'",
          b"PROXY TCP4 1.2.3.4 5.6.7.8 1111 2222\r\nGET / HTTP/1.1\r\nhost: h\r\n\r\n"),
    rules("PROXY v1 not sent", "tcp-request connection expect-proxy layer4", request("/")),
]
