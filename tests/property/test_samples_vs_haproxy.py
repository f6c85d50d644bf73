"""Headers, cookies and parameters made at random: the same samples as a real HAProxy's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mtproxy.http.errors import BadMessage
from mtproxy.testing.haproxy_judge import find_haproxy
from mtproxy.testing.samples import SampleJudge, Samples

pytestmark = pytest.mark.skipif(find_haproxy() is None, reason="haproxy is not installed")

EXPRESSIONS = [
    "req.hdr(x)", "req.hdr(x,1)", "req.hdr(x,2)", "req.hdr(x,-2)", "req.hdr_cnt(x)", "req.fhdr(x)",
    "req.fhdr(x,1)", "req.fhdr_cnt(x)", "req.hdr_ip(x)", "req.hdr_val(x)", "req.cook(a)",
    "req.cook(ab)", "req.cook", "req.cook_cnt", "req.cook_cnt(a)", "req.cook_val(a)", "urlp(a)",
    "urlp(ab)", "urlp", "urlp(a,;)", "urlp_val(a)", "path", "query", "base", "pathq", "base32",
    "url32", "req.hdr_names", "hdr()",
]  # fmt: skip
ACLS = [
    "hdr(x) a", "hdr(x) 1", "hdr_beg(x) a", "hdr_val(x) 1", "hdr_ip(x) -m found", "cook(a) 1",
    "cook 1", "cook(a) -m found", "urlp(a) 1", "urlp 1", "urlp(a) -m found", "path_dir a",
    "path_end a", "hdr(x) -m len 0", "urlp_val(a) 1", "cook_val(a) 1", "hdr_dom(x) a",
]  # fmt: skip

values = st.text('ab1,";= \\$.:-', max_size=20)
#: addresses are not met by chance
addresses = st.lists(
    st.sampled_from(["1.2.3.4", "1.2.3.4:5", "::1", "[::1]", "1.2.3", "01.2.3.4", "x", ""]),
    max_size=3,
).map(", ".join)
targets = st.text("ab1/?&;=.", max_size=20).map(lambda text: "/" + text)
fields = st.lists(
    st.tuples(st.sampled_from(["x", "X", "cookie", "y"]), st.one_of(values, addresses)), max_size=4
)


@pytest.fixture(scope="module")
def judge() -> Iterator[SampleJudge]:
    with SampleJudge(EXPRESSIONS, ACLS) as judge:
        yield judge


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(targets, fields)
def test_samples_are_those_of_haproxy(
    judge: SampleJudge, target: str, fields: list[tuple[str, str]]
) -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
    request = f"GET {target} HTTP/1.1\r\nhost: h\r\n{lines}\r\n".encode()
    samples = Samples()
    try:
        samples.receive(request)
    except BadMessage:
        return
    answer = judge.ask(request)
    assert answer is not None
    values, results = answer
    assert {one: samples.text(one) for one in EXPRESSIONS} == dict(
        zip(EXPRESSIONS, values, strict=True)
    )
    assert {one: samples.test(one) for one in ACLS} == dict(zip(ACLS, results, strict=True))
