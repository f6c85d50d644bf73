"""Generated cases: hypothesis writes the expressions, conditions, formats, rules, requests.

Two ways. *Batches*: an example is one configuration with many generated cases, for what stands in
the configuration. *Live*: one configuration and one pair of programs, and an example is a request,
for what comes from outside; there hypothesis also finds the smallest one that shows a difference.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Self

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from tests.differential import bed, generate
from tests.differential.case import Case, quoted, request, rules
from tests.differential.known_differences import DIFFERENCES, PENDING

pytestmark = [
    pytest.mark.usefixtures("haproxy"),
    pytest.mark.skipif("generated" in PENDING, reason="not judged yet: it is being built"),
]

#: how many times as many examples, chosen anew each time; 0: the same ones every time, so that a
#: change is judged by itself. To look for more: MTPROXY_EXPLORE=10 pytest tests/differential
EXPLORE = int(os.environ.get("MTPROXY_EXPLORE", "0"))

#: no shrinking: an example is a hundred cases, and the report names those that differ
batches = settings(
    max_examples=4 * max(EXPLORE, 1),
    derandomize=not EXPLORE,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    deadline=None,
)
live = settings(
    max_examples=250 * max(EXPLORE, 1),
    derandomize=not EXPLORE,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
SIZE = 60


def same(cases: Sequence[Case]) -> None:
    found = {
        name: f"{name}\n  mtproxy\n{mine}\n  haproxy\n{theirs}"
        for name, (mine, theirs) in bed.differences(cases).items()
    }
    requests = {case.name: case.requests for case in cases}
    wrong = [f"{text}\n  requests {requests[name]!r}" for name, text in found.items()]
    assert not wrong, f"{len(wrong)} of {len(cases)} cases differ:\n" + "\n".join(wrong[:25])


def many[T](strategy: st.SearchStrategy[T]) -> st.SearchStrategy[list[T]]:
    return st.lists(strategy, min_size=SIZE, max_size=SIZE)


@batches
@given(many(st.tuples(generate.expressions, generate.values, generate.targets)))
def test_expressions(items: list[tuple[str, str, str]]) -> None:
    same([generate.expression_case(n, *item) for n, item in enumerate(items)])


@batches
@given(many(st.tuples(generate.conditions, generate.values, generate.targets, generate.ipv4)))
def test_conditions(items: list[tuple[str, str, str, str]]) -> None:
    same([generate.condition_case(n, *item) for n, item in enumerate(items)])


@batches
@given(
    many(
        st.tuples(
            st.one_of(generate.formats, generate.tight_formats), generate.values, generate.targets
        )
    )
)
def test_formats(items: list[tuple[str, str, str]]) -> None:
    same([generate.format_case(n, *item) for n, item in enumerate(items)])


@batches
@given(many(st.tuples(generate.rule_lists, generate.header_sets, generate.targets)))
def test_rules(items: list[tuple[list[str], list[str], str]]) -> None:
    same([generate.rules_case(n, *item) for n, item in enumerate(items)])


# -- live


class Pair:
    """mtproxy and HAProxy with the same cases, asked one request after another."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases = {case.name: (number, case) for number, case in enumerate(cases)}
        numbered = list(enumerate(cases))
        self.beds = [bed.Bed(program, numbered) for program in ("mtproxy", "haproxy")]

    def __enter__(self) -> Self:
        for one in self.beds:
            one.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        for one in self.beds:
            one.close()

    def same(self, name: str, *requests: bytes) -> None:
        number, case = self.cases[name]
        case = replace(case, requests=requests)
        mine, theirs = (one.play(number, case)[0] for one in self.beds)
        assert mine.same(theirs), f"{requests!r}\n  mtproxy\n{mine}\n  haproxy\n{theirs}"


def shown(expressions: Sequence[str]) -> str:
    """A rule that answers with the values of all expressions."""
    text = " ".join(f"{n}=<%[{expression}]>" for n, expression in enumerate(expressions))
    return f"http-request return status 200 content-type text/plain lf-string {quoted(text)}"


_URI = [
    "path", "pathq", "query", "url", "base", "baseq", "urlp(a)", "urlp(b)", "urlp(q)", "url_param(a,;)",
    "urlp", "urlp_val(a)", "url_ip", "url_port", "base32", "url32", "path,length", "path,url_dec",
    "path,field(2,/)", "path,word(2,/)", "query,url_dec(1)", "path,lower,crc32", "urlp(a),url_dec",
]  # fmt: skip
_HEADERS = [
    "req.hdr(x-a)", "req.hdr(x-a,1)", "req.hdr(x-a,-2)", "req.hdr_cnt(x-a)", "req.fhdr(x-a)", "req.fhdr_cnt(x-a)",
    "req.hdr_val(x-a)", "req.hdr_ip(x-a)", "req.cook(a)", "req.cook(b)", "req.cook_cnt(a)", "req.cook_cnt", "req.cook",
    "req.hdr(x-b),lower", "req.hdr(x-a),field(2,' ')", "req.fhdr(x-a),language(a;b)", "req.hdr_names",
    "req.hdrs,length", "req.fhdr(x-a),json(utf8s)", "req.fhdr(x-a),url_enc", "req.fhdr(x-a),hex", "req.fhdr(x-b),b64dec",
    "req.fhdr(x-a),regsub(a,<&>,g)", "req.fhdr(x-a),xxh64", "req.fhdr(x-a),map_beg(@DIR@/m0,none)",
    "req.fhdr(x-a),map_sub(@DIR@/m1,none)", "req.fhdr(x-a),map_end(@DIR@/m2,none)", "req.fhdr(x-a),map_dom(@DIR@/m3,none)",
    "req.fhdr(x-a),map_dir(@DIR@/m4,none)", "req.fhdr(x-a),map(@DIR@/m,none)", "req.hdr(authorization)", "http_auth_user",
    "http_auth_pass", "http_auth_type", "http_auth_bearer",
]  # fmt: skip
#: one file for each kind of look-up: HAProxy 2.6 mixes up their cached results where they share one
_MAP = "a 1\nab 2\nabc 3\nX 4\n0 5\na.b 8\n/a 9\nXY 10\n.a 11\n"
_BODY = [
    "req.body", "req.body_len", "req.body_size", "req.body_param(a)", "req.body_param(b)", "req.body,hex", "req.body,sha1,hex",
    "req.body,json_query('$.a')", "req.body,json_query('$.a.b')", "req.body,json_query('$.a[1]')", "req.body,json_query('$.a',int)",
]  # fmt: skip
_ADDRESSES = [
    "req.hdr(x-i),ipmask(8,16)", "req.hdr_ip(x-i)", "req.hdr_ip(x-i),ipmask(24)", "req.hdr(x-i),map_ip(@DIR@/i,none)",
    "req.hdr(x-n),add(1)", "req.hdr(x-n),mul(-3)", "req.hdr_val(x-n)", "req.hdr(x-n),map_int(@DIR@/n,none)", "req.hdr(x-n),bool",
    "req.hdr(x-n),http_date", "req.hdr(x-n),utime(%Y)", "req.hdr(x-n),hex2i", "req.hdr(x-n),odd", "req.hdr(x-n),cpl",
]  # fmt: skip
_IPS = "10.0.0.0/8 ten\n10.1.0.0/16 more\n10.1.2.0/24 most\n2001:db8::/32 doc\n192.168.1.1 host\n::/0 all\n"
_INTS = "1:5 low\n0 zero\n10 ten\n1000: high\n"

LIVE = [
    rules("uri", shown(_URI)),
    rules("headers", shown(_HEADERS), files={"m": _MAP} | {f"m{n}": _MAP for n in range(5)}),
    rules("body", f"option http-buffer-request\n{shown(_BODY)}"),
    rules("addresses", shown(_ADDRESSES), files={"i": _IPS, "n": _INTS}),
    rules(
        "rewriting",
        "http-request replace-path ^/([^/]*)/(.*)$ /\\2/\\1\nhttp-request replace-value x-a ^(.)(.*)$ \\2\\1\n"
        "http-request replace-header x-b a <&>\nhttp-request del-header x-c -m beg\nhttp-request set-header x-d '%[path] %[req.hdr(x-a)]'",
    ),
    rules("normal", "\n".join(f"http-request normalize-uri {kind}" for kind in (
        "path-strip-dot", "path-strip-dotdot", "path-merge-slashes", "percent-decode-unreserved", "percent-to-uppercase", "query-sort-by-name")),
        settings="expose-experimental-directives"),
    rules("cookies", "", back="cookie s insert indirect nocache\nserver s1 @ORIGIN@ cookie one\nserver s2 @ORIGIN@ cookie two weight 0\n"),
    rules("switch", "use_backend @B@x if { path_beg /a } { hdr(x-a) -m found }\nuse_backend @B@x if { req.cook(c) -m sub b }\nuse_backend @B@x if { path_reg ^/[0-9]+ }",
          sections="backend @B@x\n http-request set-header x-went there\n server s @ORIGIN@\n"),
]  # fmt: skip


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with Pair(LIVE) as running:
        yield running


headers = st.lists(
    st.tuples(st.sampled_from(["x-a", "x-b", "x-c1", "X-A"]), generate.values).map(": ".join),
    max_size=4,
)
cookies = st.lists(
    st.text('abcs12=;, one"two', max_size=24).map(lambda text: f"cookie: {text.strip()}"),
    max_size=2,
)


#: well-formed Cookie headers: what HAProxy leaves of stray delimiters is its own affair
jars = st.lists(
    st.tuples(
        st.lists(
            st.tuples(
                st.sampled_from(["s", "a", "ss", "S"]),
                st.one_of(st.sampled_from(["one", "two", ""]), st.text('onetw"x=~', max_size=6)),
            ).map("=".join),
            min_size=1,
            max_size=4,
        ),
    ).map(lambda item: "cookie: " + "; ".join(item[0])),
    max_size=2,
)


@live
@given(target=generate.targets, host=st.sampled_from(["h", "H.Example:80", "1.2.3.4"]))
@example(target="/a?", host="h")
def test_uris(pair: Pair, target: str, host: str) -> None:
    pair.same("uri", request(target, f"host: {host}"))


@live
@given(fields=headers, jar=cookies)
def test_headers(pair: Pair, fields: list[str], jar: list[str]) -> None:
    pair.same("headers", request("/", *fields, *jar))


@live
@given(
    st.one_of(
        st.binary(max_size=40),
        st.text("ab=&%12+", max_size=40).map(str.encode),
        st.recursive(
            st.one_of(st.integers(-5, 5).map(str), st.sampled_from(["true", "null", '"s"', "1.5"])),
            lambda inner: st.one_of(
                st.lists(inner, max_size=3).map(lambda v: f"[{','.join(v)}]"),
                st.tuples(st.sampled_from("ab"), inner).map(lambda t: f'{{"{t[0]}":{t[1]}}}'),
            ),
            max_leaves=5,
        ).map(str.encode),
    )
)
def test_bodies(pair: Pair, body: bytes) -> None:
    pair.same("body", request("/", method="POST", body=body))


@live
@given(
    address=st.one_of(generate.ipv4, generate.ipv6, st.text("0123.:af/", max_size=12)),
    number=st.one_of(generate.large.map(str), st.text("0123-+ax ", max_size=6)),
)
def test_addresses_and_numbers(pair: Pair, address: str, number: str) -> None:
    pair.same("addresses", request("/", f"x-i: {address}", f"x-n: {number.strip()}"))


@live
@given(target=generate.targets, fields=headers)
def test_rewriting(pair: Pair, target: str, fields: list[str]) -> None:
    pair.same("rewriting", request(target, *fields))


@live
@given(st.text("abA%2eE/.?&=4151~", max_size=30).map(lambda text: "/" + text))
def test_normalizing(pair: Pair, target: str) -> None:
    pair.same("normal", request(target))


@live
@given(jar=jars)
def test_persistence(pair: Pair, jar: list[str]) -> None:
    pair.same("cookies", request("/", *jar))


@live
@given(target=generate.targets, fields=headers, jar=cookies)
def test_switching(pair: Pair, target: str, fields: list[str], jar: list[str]) -> None:
    pair.same("switch", request(target, *fields, *jar))


def test_no_record_is_for_generated_cases() -> None:
    assert not [name for name in DIFFERENCES if name.startswith("generated/")]
