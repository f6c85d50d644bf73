"""Cookie fetches, bodies and response fetches give what a real HAProxy gives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mtproxy.rules.points import HTTP_RESPONSE
from mtproxy.testing.haproxy_judge import find_haproxy
from mtproxy.testing.samples import SampleJudge, Samples

pytestmark = pytest.mark.skipif(find_haproxy() is None, reason="haproxy is not installed")

COOKIES = [
    ["a=1"], ["a=1; b=2"], ["a=1; a=2"], ["a=1", "a=2"], ["a=1,b=2"], ["a = 1 ; b= 2"], ["a"],
    ["a="], ["a; b=2"], ["a=;b"], ['a="x;y"; b=2'], ['a="x, y"; b=2'], ['a="x'], ["A=1"], ["=1"],
    ["a=b=c"], ["a=1;;b=2"], ["a=1;"], ["; a=1"], ["ab=1; a=2"], [""], ["a=x y; b=2"],
    ["$Version=1; a=1"], ["a=1, a=2"], ['a="q\\"r;s"; b=2'], ["b; a=1"], ["a=1;\tb=2"],
    ['"a"=1'], ["a=1 2;b=3"], ["b=1;a="], ["b=1; a="], ["a= ;b"], ["b=1 ;a ="], ["="], ["a=="],
    ["b=1;="], ["b=1;=x"], ["a=1;b"], ['a="'], ['a="x\\";b=2'], ['a=x"y;z";b=2'], ["a, b=2"],
    ["a=1,, b=2"], [" $x=1;a=2"], ["a=x,y=z"], ["b;;;a=1"], ["a=\\;b=2"], ['"a,b"=1; a=2'],
    ["a=1; expires=Wed, 09 Jun 2021 10:18:14 GMT"], ["b=1", "a=2; x"], ["$a=1"], ["b=1; a=2"],
    ["a=1; a=3; b"], ["a=12ms; b=-3"], ["b", "a=1"],
]  # fmt: skip
REQUEST = [
    "req.cook(a)", "cook(a)", "req.cook", "req.cook()", "cook(b)", "req.cook_cnt(a)", "cook_cnt",
    "req.cook_cnt()", "req.cook_val(a)", "cook_val", "cookie(a)", "cookie", 'req.cook("a")',
]  # fmt: skip
REQUEST_ACLS = [
    "cook(a) 1", "cook(a) 2", "cook() 2", "cook(a) -m found", "cook_cnt(a) 2", "cook_val(a) 2",
    "cook 1", "req.cook(a) 1", "cook_beg(a) 1", "cook_beg x", "cookie(a) 1", "req.cook_val 2",
]  # fmt: skip
RESPONSE = [
    "res.cook(a)", "scook(a)", "scook", "res.cook()", "scook(b)", "res.cook_cnt(a)", "scook_cnt",
    "res.cook_val(a)", "scook_val", "cookie(a)", "cookie", "status", "res.ver", "resp_ver",
    "hdr(x)", "res.hdr(x)", "shdr(x,1)", "res.fhdr(x)", "res.hdr_cnt(x)", "shdr_ip(x)",
    "res.hdr_val(x)", "res.hdr_names", "res.fhdr_cnt", "res.body_size", "res.body_len",
    "method", "http_first_req", "req.proto_http", "res.cache_hit", "res.comp",
]  # fmt: skip
RESPONSE_ACLS = [
    "res.cook(a) 1", "res.cook(a) 2", "scook(a) -m found", "scook() 2", "res.cook_cnt 2",
    "scook_beg(a) 1", "status 200", "res.hdr(x) 2", "shdr(x) 3", "shdr_beg(x) 2", "path /",
    "cook(a) 1", "hdr(x) 2", "method GET", "req.hdr(host) h", "res.ver 1.1", "cookie(a) 1",
]  # fmt: skip


@pytest.fixture(scope="module")
def requests() -> Iterator[SampleJudge]:
    with SampleJudge(REQUEST, REQUEST_ACLS) as judge:
        yield judge


@pytest.fixture(scope="module")
def responses() -> Iterator[SampleJudge]:
    with SampleJudge(RESPONSE, RESPONSE_ACLS, response=True) as judge:
        yield judge


@pytest.mark.parametrize("lines", COOKIES, ids="|".join)
def test_cookies_of_a_request(lines: list[str], requests: SampleJudge) -> None:
    fields = "".join(f"Cookie: {line}\r\n" for line in lines)
    request = f"GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n".encode()
    answer = requests.ask(request)
    assert answer is not None
    samples = Samples()
    samples.receive(request)
    for _ in range(2):
        compare(samples, requests, answer)


def compare(
    samples: Samples, judge: SampleJudge, answer: tuple[list[bytes | None], list[bool]]
) -> None:
    values, results = answer
    ours = {one: samples.text(one) for one in judge.expressions}
    assert ours == dict(zip(judge.expressions, values, strict=True))
    tests = {one: samples.test(one) for one in judge.acls}
    assert tests == dict(zip(judge.acls, results, strict=True))


@pytest.mark.parametrize("lines", COOKIES, ids="|".join)
def test_cookies_of_a_response(lines: list[str], responses: SampleJudge) -> None:
    fields = "".join(f"Set-Cookie: {line}\r\n" for line in lines)
    check_response(f"HTTP/1.1 200 OK\r\n{fields}X: 2, 3\r\nContent-Length: 0\r\n\r\n", responses)


@pytest.mark.parametrize(
    "response",
    [
        "HTTP/1.0 404 Nope\r\nX: 1.2.3.4\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 204 No\r\n\r\n",
        "HTTP/1.1 302 Moved\r\nX: a,b\r\nx: c\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_responses(response: str, responses: SampleJudge) -> None:
    check_response(response, responses)


def check_response(text: str, judge: SampleJudge) -> None:
    request = b"GET / HTTP/1.1\r\nHost: h\r\nCookie: a=1\r\nX: 2\r\n\r\n"
    response = text.encode()
    answer = judge.ask(request, response)
    assert answer is not None
    samples = Samples(HTTP_RESPONSE)
    samples.receive(request, response)
    for _ in range(2):
        compare(samples, judge, answer)
