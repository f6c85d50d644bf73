"""`resolvers` sections and `do-resolve`, with a name server of our own."""

from __future__ import annotations

import time

import pytest

from mtproxy.testing.configs import http
from mtproxy.testing.nameserver import NameServer
from mtproxy.testing.origin import Origin

RULES = (
    "http-request do-resolve(txn.ip,dns,ipv4) hdr(x-name)\n"
    "http-request set-header X-Ip %[var(txn.ip)]"
)


def configuration(origin: Origin, dns: NameServer, rules: str = RULES, more: str = "") -> str:
    section = f"resolvers dns\n    nameserver one 127.0.0.1:{dns.port}\n    {more}\n"
    return section + http(origin.port, fe=rules)


def ip_of(wire, name: str) -> bytes | None:
    head = wire.request(f"GET /head HTTP/1.1\nhost: a\nx-name: {name}").body
    lines = [line for line in head.split(b"\r\n") if line.lower().startswith(b"x-ip:")]
    return lines[0][5:].strip() if lines else None


def test_an_address_is_found(proxy, origin: Origin) -> None:
    answers = {("a.test", "A"): ["192.0.2.7"], ("a.test", "AAAA"): ["2001:db8::7"]}
    with NameServer(answers) as dns:
        wire = proxy(configuration(origin, dns)).connect()
        assert ip_of(wire, "a.test") == b"192.0.2.7"


def test_the_preferred_family_comes_first(proxy, origin: Origin) -> None:
    answers = {("a.test", "A"): ["192.0.2.7"], ("a.test", "AAAA"): ["2001:db8::7"]}
    rules = RULES.replace("ipv4", "ipv6")
    with NameServer(answers) as dns:
        wire = proxy(configuration(origin, dns, rules)).connect()
        assert ip_of(wire, "a.test") == b"2001:db8::7"


def test_the_other_family_is_better_than_none(proxy, origin: Origin) -> None:
    with NameServer({("six.test", "AAAA"): ["2001:db8::6"]}) as dns:
        wire = proxy(configuration(origin, dns)).connect()
        assert ip_of(wire, "six.test") == b"2001:db8::6"


def test_a_name_that_does_not_exist_sets_nothing(proxy, origin: Origin) -> None:
    with NameServer({}) as dns:
        wire = proxy(configuration(origin, dns)).connect()
        assert ip_of(wire, "none.test") == b""


@pytest.mark.only("mtproxy")
def test_what_was_learnt_is_kept(proxy, origin: Origin) -> None:
    config = "global\n    nbthread 1\n"
    with NameServer({("a.test", "A"): ["192.0.2.7"]}) as dns:
        wire = proxy(config + configuration(origin, dns, more="hold valid 60s")).connect()
        for _ in range(3):
            assert ip_of(wire, "a.test") == b"192.0.2.7"
        assert dns.questions == [("a.test", "A")]


def test_a_silent_name_server_is_asked_again_and_given_up(proxy, origin: Origin) -> None:
    more = "resolve_retries 3\n    timeout retry 100ms"
    with NameServer({}, silent=frozenset({("slow.test", "A")})) as dns:
        wire = proxy(configuration(origin, dns, more=more)).connect()
        started = time.monotonic()
        assert ip_of(wire, "slow.test") == b""
        assert 0.25 <= time.monotonic() - started < 20
        assert dns.questions == [("slow.test", "A")] * 3


def test_silence_about_one_family_says_nothing_of_the_other(proxy, origin: Origin) -> None:
    more = "resolve_retries 2\n    timeout retry 100ms\n    timeout resolve 100ms"
    answers = {("a.test", "AAAA"): ["2001:db8::7"]}
    with NameServer(answers, silent=frozenset({("a.test", "A")})) as dns:
        wire = proxy(configuration(origin, dns, more=more)).connect()
        assert ip_of(wire, "a.test") == b""
        assert dns.questions == [("a.test", "A")] * 2


def test_trouble_with_one_family_leads_to_the_other(proxy, origin: Origin) -> None:
    more = "timeout retry 60s\n    timeout resolve 100ms"
    answers = {("a.test", "AAAA"): ["2001:db8::7"]}
    with NameServer(answers, failing=frozenset({("a.test", "A")})) as dns:
        wire = proxy(configuration(origin, dns, more=more)).connect()
        assert ip_of(wire, "a.test") == b"2001:db8::7"
        assert dns.questions == [("a.test", "A"), ("a.test", "AAAA")]


def test_trouble_everywhere_is_given_up(proxy, origin: Origin) -> None:
    more = "resolve_retries 2\n    timeout retry 100ms\n    timeout resolve 100ms"
    failing = frozenset({("a.test", "A"), ("a.test", "AAAA")})
    with NameServer({}, failing=failing) as dns:
        wire = proxy(configuration(origin, dns, more=more)).connect()
        assert ip_of(wire, "a.test") == b""
        # a question more, or its order, is up to the machine's load
        assert set(dns.questions) == failing
        assert 3 <= len(dns.questions) <= 4


@pytest.mark.only("mtproxy")
@pytest.mark.parametrize("name", ["a..b", "x" * 64, "." * 300, "a b"])
def test_what_is_no_name(proxy, origin: Origin, name: str) -> None:
    with NameServer({}) as dns:
        wire = proxy(configuration(origin, dns)).connect()
        assert ip_of(wire, name) == b""


def test_each_request_reaches_the_server_that_it_names(proxy, origin: Origin) -> None:
    """A connection to a server without an address of its own is of no use for the next request."""
    rules = "http-request set-dst hdr(x-ip)\nhttp-request set-dst-port hdr(x-port)"
    config = http(origin.port, fe=rules).replace(f"127.0.0.1:{origin.port}", "0.0.0.0:0")
    with Origin() as other:
        wire = proxy(config).connect()
        for one in (origin, other, origin, other):
            before = len(one.requests)
            head = f"GET /head HTTP/1.1\nhost: a\nx-ip: 127.0.0.1\nx-port: {one.port}"
            assert wire.request(head).status == 200
            assert len(one.requests) == before + 1
