"""HTTP fetches and ACLs give what a real HAProxy gives for the same bytes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mtproxy.testing.haproxy_judge import find_haproxy
from mtproxy.testing.samples import SampleJudge, Samples

pytestmark = pytest.mark.skipif(find_haproxy() is None, reason="haproxy is not installed")

LINE = [
    "path", "url", "query", "base", "baseq", "pathq", "method", "req.ver", "req_ver", "url_ip",
    "url_port", "base32", "url32", "http_first_req", "req.proto_http", "req_proto_http",
]  # fmt: skip
HEADERS = [
    "hdr(host)", "req.hdr(x)", "req.hdr(x,1)", "req.hdr(x,2)", "req.hdr(x,3)", "req.hdr(x,-1)",
    "req.hdr(x,-2)", "req.hdr(x,-10)", "req.hdr(x,0)", "req.hdr_cnt(x)", "req.fhdr(x)",
    "req.fhdr(x,1)", "req.fhdr(x,-2)", "req.fhdr_cnt(x)", "req.hdr", "hdr()", "req.hdr(,2)",
    "req.fhdr", "req.fhdr()", "req.hdr_cnt", "req.hdr_cnt()", "req.fhdr_cnt", "req.hdr_ip(x)",
    "req.hdr_ip(x,1)", "hdr_ip(x,-2)", "req.hdr_val(x)", "hdr_val(x,1)", "req.hdr_names",
    "req.hdr_names(:)", "req.hdr_names(-=)", "hdr(X)", "req.hdr_val", "req.hdr_ip", "hdr_cnt(X)",
]  # fmt: skip
PARAMETERS = [
    "urlp(a)", "urlp", "urlp()", "urlp(a,;)", "urlp(,;)", "urlp_val(a)", "urlp(a,?)", "urlp(b)",
    "url_param(a)", "urlp(a,&)", "urlp(,&)", "urlp(a,/)", "urlp(a,)", "urlp_val",
]  # fmt: skip
ACLS = [
    "hdr(x) a", "hdr(x) b", "hdr(x) -m found", "hdr_cnt(x) 2", "hdr(x,1) a", "hdr(x,0) a",
    "hdr(x,-1) a", "hdr_val(x) 5", "hdr b", "hdr() b", "urlp(a) 1", "urlp(a) 2", "urlp 2",
    "urlp() 2", "urlp(a) -m found", "path_beg /a", "hdr_beg(x) b", "req.fhdr(x) a,b",
    "hdr_ip(x) -m found", "req.hdr_val(x) -m found", "urlp_val(a) 2", "hdr_beg(x,2) b",
]  # fmt: skip

TARGETS = [
    ("GET", "/a/b?x=1", "H.com"), ("GET", "/a?", "h"), ("GET", "/a?b?c", "h"), ("GET", "/", "h"),
    ("OPTIONS", "*", "h"), ("CONNECT", "h:80", "h:80"), ("GET", "http://h:8080/p?q", "h:8080"),
    ("GET", "http://h", "h"), ("GET", "http://h:80/x", "h"), ("GET", "//x/y", "h"),
    ("GET", "http://1.2.3.4/x", "1.2.3.4"), ("GET", "http://1.2.3.4:81/x", "1.2.3.4:81"),
    ("GET", "https://1.2.3.4", "1.2.3.4"), ("POST", "/a;b?c=d", "h,i"), ("GET", "/a?q", ""),
    ("GET", "ftp://1.2.3.4/", "1.2.3.4"), ("GET", "http://u@1.2.3.4/", "1.2.3.4"),
    ("GET", "http://[::1]:81/x?y", "[::1]:81"), ("HEAD", "/a", "h"),
]  # fmt: skip
VALUES = [
    "a, b ,c", "a,,b", "", ",", ", ,a, ", "a,", '"a,b",c', '"a\\",b",c', '"a,b', 'a"b,c"d,e',
    'a\\"b,c', '"a\\\\",b', "1.2.3.4, 5.6.7.8:90", "5, 6abc", "abc, -7", "[::1]:80, ::1", "[::1]",
    "1.2.3.4:x", "1.2.3.4:", "1.2.3.4:99999", "unknown, 1.2.3.4", "+5", "99999999999999999999",
    "12\xe9", "--5", "5-3", "01.2.3.4", "::ffff:1.2.3.4", "1.2.3.4:65536", "1.2.3.4:080", '"a\\',
    '"a\\\\', "a\tb , c", "1.2.3.256, 1.2.3.4, x",
]  # fmt: skip
QUERIES = [
    "/?a=1", "/?a=1&a=2", "/?x=2&a=1", "/?a", "/?a=", "/?a&b=2", "/?ba=1", "/?b=x;a=1",
    "/;a=1?b=2", "/;a=1;b=3?a=5", "/?a=1?a=2", "/?=2", "/?&&a=1", "/?a=b=c", "/?a==", "/?b=a=1",
    "/x", "/?", "http://h/?a=1", "/?A=1", "/?b&a=2", "/?aa=1&a=2", "/?b=1&", "/?q;2", "/?a=1;a=2",
    "/&a=1&a=2", "/a=1/a=2", "/a?a=1/b=2",
]  # fmt: skip

MESSAGES = [
    *(f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n" for method, target, host in TARGETS),
    *(f"GET / HTTP/1.1\r\nHost: h\r\nX: {value}\r\n\r\n" for value in VALUES),
    *(f"GET {query} HTTP/1.1\r\nHost: h\r\n\r\n" for query in QUERIES),
    "GET / HTTP/1.1\r\nHost: h\r\nX: a\r\nY: q\r\nx: b, c\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\nY: q\r\n\r\n",
    "GET /nohost?x HTTP/1.0\r\n\r\n",
]


@pytest.fixture(scope="module")
def judge() -> Iterator[SampleJudge]:
    with SampleJudge(LINE + HEADERS + PARAMETERS, ACLS) as judge:
        yield judge


@pytest.mark.parametrize("message", MESSAGES)
def test_requests(message: str, judge: SampleJudge) -> None:
    request = message.encode("latin-1")
    answer = judge.ask(request)
    assert answer is not None, "refused: the case shows nothing"
    values, results = answer
    samples = Samples()
    samples.receive(request)
    # twice: the second time the head has its index
    for _ in range(2):
        assert {one: samples.text(one) for one in judge.expressions} == dict(
            zip(judge.expressions, values, strict=True)
        )
        assert {one: samples.test(one) for one in judge.acls} == dict(
            zip(judge.acls, results, strict=True)
        )
    # the stream's own copy has none
    samples.view.request = samples.view.request.copy()
    assert {one: samples.text(one) for one in judge.expressions} == dict(
        zip(judge.expressions, values, strict=True)
    )
