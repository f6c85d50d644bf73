"""Fetches of HTTP requests and responses: the manual's section 7.3.6."""

from __future__ import annotations

# fmt: off
from tests.differential.case import answer, expr, request, response

_TARGETS = {
    "plain": "/a/b.html", "query": "/a/b?x=1&y=two&z=", "root": "/", "star": "*",
    "absolute": "http://host.example:8080/p/q?x=9", "encoded": "/a%20b?x=%41&x=2", "odd": "/a//b?;x=1;y=2",
    "empty query": "/a?", "double": "/a?x=1?y=2&x=3", "fragment": "/a?x=1#frag", "same": "/a?xx=1&x=2&axx=3",
    "none": "/a?x", "equals": "/a?x=a=b&y==", "https": "https://127.0.0.1/secure", "bare host": "http://host",
}
_URIS = [
    "path", "pathq", "query", "url", "base", "baseq", "url_ip", "url_port", "base32", "url32",
    "urlp(x)", "urlp(y)", "urlp(z)", "url_param(x,;)", "urlp(y,;)", "urlp", "urlp_val(x)", "urlp_val(y)",
    "path,length", "query,length", "url,crc32", "method", "req.ver", "base,lower",
]


def _target(name: str) -> bytes:
    if name == "star":
        return request("*", "host: www.Example.com", method="OPTIONS")
    host = "host: www.Example.com"
    if name == "absolute":
        host = "host: host.example:8080"
    elif name == "https":
        host = "host: 127.0.0.1"
    elif name == "bare host":
        host = "host: host"
    return request(_TARGETS[name], host)


_HEADERS = request(
    "/p", "host: h.example", "x-list: a, b ,c", "X-List: d", "x-num: 42", "x-nums: 1,2,3", "x-ip: 10.1.2.3",
    "x-ips: 10.0.0.1, 10.0.0.2,2001:db8::1", "x-empty:", "x-date: Mon, 01 Jan 2020 00:00:00 GMT",
    "cookie: a=1; b=two; a=3", "cookie: c=x", "x-port: 1.2.3.4:80", "x-v6p: [::1]:80", "x-bad: nope",
    "x-quoted: \"a,b\",c", "user-agent: t/1.0", "accept: */*",
)
_HEADER_FETCHES = [
    "req.hdr(x-list)", "req.hdr(x-list,1)", "req.hdr(x-list,2)", "req.hdr(x-list,4)", "req.hdr(x-list,5)",
    "req.hdr(x-list,-1)", "req.hdr(x-list,-2)", "req.hdr(x-list,-4)", "req.hdr(x-list,-5)", "req.hdr(x-list,0)",
    "req.fhdr(x-list)", "req.fhdr(x-list,1)", "req.fhdr(x-list,2)", "req.fhdr(x-list,-1)", "req.fhdr(x-list,-2)",
    "req.fhdr(x-list,3)", "hdr(x-list)", "hdr(X-LIST,2)", "req.hdr_cnt(x-list)", "req.fhdr_cnt(x-list)",
    "hdr_cnt(x-list)", "req.hdr_cnt(x-none)", "req.hdr_cnt", "req.fhdr_cnt", "req.hdr_cnt(x-empty)",
    "req.fhdr_cnt(x-empty)", "req.hdr(x-empty)", "req.hdr(x-empty),length", "req.hdr(x-none)", "hdr(x-none),length",
    "req.hdr_val(x-num)", "req.hdr_val(x-nums)", "req.hdr_val(x-nums,2)", "req.hdr_val(x-bad)", "hdr_val(x-none)",
    "req.hdr_val(x-num),add(1)", "req.hdr_ip(x-ip)", "req.hdr_ip(x-ips)", "req.hdr_ip(x-ips,1)",
    "req.hdr_ip(x-ips,-2)", "req.hdr_ip(x-port)", "req.hdr_ip(x-v6p)", "req.hdr_ip(x-bad)", "hdr_ip(x-ip)",
    "req.hdr_ip(x-ip),ipmask(8)", "req.hdr(x-date)", "req.fhdr(x-date)", "req.hdr(x-date,1)",
    "req.hdr(x-quoted)", "req.hdr(x-quoted,1)", "req.hdr_cnt(x-quoted)", "req.hdr_names", "req.hdr_names(;)",
    "req.hdrs", "req.hdrs,length", "req.hdrs_bin,hex", "req.hdrs_bin,length", "req.cook(a)", "req.cook(b)", "req.cook(c)",
    "req.cook(d)", "req.cook", "cook(a)", "req.cook_cnt(a)", "req.cook_cnt", "req.cook_cnt(d)", "req.cook_val(a)",
    "req.cook_val(b)", "cook_val(a)", "cook_cnt(a)", "cookie(a)", "req.hdr(host)", "req.hdr", "req.fhdr(x-quoted)",
    "req.hdr(cookie)", "req.fhdr(cookie)", "req.hdr(x-list),upper", "hdr(host),lower", "http_first_req",
    "req.proto_http", "req_ver", "req.body_len", "req.body_size", "req.body", "unique-id", "capture.req.method",
    "capture.req.uri", "capture.req.ver", "req.len,bool", "method,length", "http_auth_type",
]

_COOKIES = [
    "a=1", "a=1; b=2", "b=2;a=1", "a=", "a", "a=\"q\"", "a = 1", "a=1;a=2", "xa=1; a=2", "A=1", "a=1,b=2",
    "a=x y", "; a=1", "a=b=c", "$Version=1; a=1; $Path=/",
]

_FORM = request(
    "/", "content-type: application/x-www-form-urlencoded", method="POST",
    body="a=1&b=two&a=3&c=&d=x%20y+z",
)
_BODY = [
    "req.body", "req.body_len", "req.body_size", "req.body_param(a)", "req.body_param(b)", "req.body_param(c)",
    "req.body_param(d)", "req.body_param(d),url_dec", "req.body_param(e)", "req.body_param", "req.body,bytes(2,3)",
    "req.body,length", "req.body_param(a),length", "req.body,sha1,hex", "req.body,upper", "req.body,field(2,&)",
]

_REPLY = answer(
    "X-List: a, b,c", "x-list: d", "x-num: 7", "x-ip: 1.2.3.4", "set-cookie: s=1; path=/", "set-cookie: t=two",
    "set-cookie: s=3", "content-type: text/html", "x-empty: ", status="201 Made", body=b"answer",
)
_RESPONSE = [
    "status", "res.ver", "resp_ver", "res.hdr(x-list)", "res.hdr(x-list,1)", "res.hdr(x-list,-2)",
    "res.fhdr(x-list)", "res.fhdr(x-list,1)", "res.hdr_cnt(x-list)", "res.fhdr_cnt(x-list)", "res.hdr_val(x-num)",
    "res.hdr_ip(x-ip)", "res.hdr_names", "res.hdr_names(|)", "res.hdrs,length", "res.hdrs_bin,length", "res.cook(s)",
    "res.cook(t)", "res.cook(u)", "res.cook_cnt(s)", "res.cook_val(s)", "scook(s)", "shdr(x-list)", "shdr_cnt(x-list)",
    "shdr_val(x-num)", "shdr_ip(x-ip)", "scook_cnt(s)", "scook_val(s)", "res.hdr(content-type)", "res.body_len",
    "res.hdr(x-empty),length", "status,add(1)", "method", "path", "capture.res.ver", "capture.req.uri", "srv_id",
    "srv_name", "be_name", "fe_name", "bc_http_major", "fc_http_major", "res.hdr(nothing)", "res.cook",
    "be_id,bool", "bc_dst", "bc_src", "res.comp", "res.len,bool", "wait_end", "res.cook_cnt", "status,length",
]

CASES = [
    *(expr(fetch, _target(name), name=f"{fetch} of {name}") for name in _TARGETS for fetch in _URIS),
    *(expr(fetch, _HEADERS) for fetch in _HEADER_FETCHES),
    *(
        expr(f"req.cook({name})", request("/", f"cookie: {value}"), name=f"cookie {name} in {value}")
        for value in _COOKIES for name in "a"
    ),
    *(
        expr(f"req.cook_cnt({name})", request("/", f"cookie: {value}"), name=f"count {name} in {value}")
        for value in _COOKIES for name in "a"
    ),
    *(expr(f"{fetch}", _FORM, name=f"form {fetch}", before="option http-buffer-request") for fetch in _BODY),
    *(expr(f"{fetch}", _FORM, name=f"waited {fetch}", before="http-request wait-for-body time 2s")
      for fetch in ("req.body", "req.body_len", "req.body_param(b)")),
    *(response(fetch, _REPLY, name=f"response {fetch}") for fetch in _RESPONSE),
    expr("method", request(method="PURGE"), name="an unknown method"),
    expr("req.ver", request(version="HTTP/1.0"), name="version 1.0"),
    expr("http_first_req", request(), request(), request(), name="the first request of a connection"),
]
