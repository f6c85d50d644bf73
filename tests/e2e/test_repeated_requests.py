"""What rules made of a request head is remembered: it must be what they would do each time.

Every request comes several times: its head is parsed, then known, then what rules make of it is
known, too. All of them must fare alike.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mtproxy.testing.configs import http
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program
from mtproxy.testing.syslog_sink import SyslogSink

SHOWS = "http-response set-header X-V %[var(txn.v)]"
REQUESTS = (
    "GET /head HTTP/1.1\nhost: a",
    "GET /head?q=1&p=2 HTTP/1.1\nhost: B.Example\nx-a: 1\nx-a: 2, 3\ncookie: id=7; k=8",
    "GET /head HTTP/1.1\nhost: a\nx-no: 1",
    "GET /head/more HTTP/1.1\nhost: a:80\nx-forwarded-for: 1.2.3.4\nx-b: x",
    "HEAD /head HTTP/1.1\nhost: a",
    "POST /head HTTP/1.1\nhost: a\ncontent-length: 0",
)
# fmt: off
RULES = {
    "constant": "http-request set-header X-A 5\nhttp-request add-header X-C c",
    "variable": f"http-request set-var(txn.v) hdr(host),lower,field(1,:)\n{SHOWS}",
    "variable of the request": "http-request set-var(req.v) path\n"
    "http-request set-header X-P %[var(req.v)]",
    "format": f"http-request set-var-fmt(txn.v) <%[path]-%[method]>\n{SHOWS}",
    "unset": f"http-request set-var(txn.v) path\n"
    f"http-request unset-var(txn.v) if {{ hdr_cnt(x-a) gt 1 }}\n{SHOWS}",
    "conditions": "acl known hdr(host) -m beg a\nacl no hdr(x-no) -m found\n"
    "http-request set-header X-Known %[hdr(host)] if known !no or { urlp(q) 1 }",
    "deny": "http-request set-header X-Z 1\nhttp-request deny deny_status 429 if { hdr(x-no) 1 }",
    "return": "http-request return status 200 content-type text/plain"
    " lf-string %[path] if { path_end more }",
    "allow": "http-request allow if { path_beg /head/ }\nhttp-request set-header X-Z 1",
    "redirect": "http-request redirect prefix /x if { hdr(x-no) 1 }\nhttp-request set-header X-Z 1",
    "path": "http-request replace-path (.*)/more \\1\nhttp-request set-query z=%[url_param(q)]",
    "headers": "http-request del-header x-a\nhttp-request replace-header x-b (.) \\1\\1\n"
    "http-request replace-value cookie 7 9",
    "host": "http-request set-header Host other.example",
    "too long": "http-request set-header X-A %[hdr(host),regsub(a,aaaaaaaaaaaaaaaa,g)]\n"
    "http-request set-header X-B %[req.hdr(x-b)]",
    "and the backend's": f"http-request set-var(txn.v) hdr(host)\n"
    f"use_backend be if {{ var(txn.v) -m found }}\n{SHOWS}",
    "the rest": "http-request set-header X-A 1\nhttp-request allow if { path_end more }\n"
    "http-request set-header X-P %[src]\nhttp-request set-header X-A 2 if { method POST }",
    # what hangs on more than the head
    "the connection": "http-request set-header X-P %[src]",
    "sessions": f"http-request set-var(sess.n) int(1),add(sess.n) if {{ always_false }}\n{SHOWS}",
}
# fmt: on


@pytest.mark.parametrize("name", RULES)
def test_requests_that_come_again_fare_alike(name: str) -> None:
    back = "http-request add-header X-Back %[var(txn.v)]\nhttp-request set-header X-A back"
    with SyslogSink() as sink, Origin() as origin:
        extra = f"log 127.0.0.1:{sink.port} local0\nlog-format %r|%[last_rule_line]|%[var(txn.v)]\n"
        config = http(origin.port, fe=extra + RULES[name], be=back)
        with Program("mtproxy", "global\n    nbthread 1\n" + config) as proxy:
            passes = [
                [
                    (answer.status, answer.get("x-v"), answer.get("location"), answer.body)
                    for answer in (proxy.connect().request(request) for request in REQUESTS)
                ]
                for _ in range(4)
            ]
            assert passes[1:] == [passes[0]] * 3
            sink.wait(r"HTTP/1.1\|", count=4 * len(REQUESTS))
            texts = sink.texts()
    assert texts[len(REQUESTS) :] == texts[: len(REQUESTS)] * 3


def test_changed_patterns_count_at_once(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.map"
    hosts.write_text("a one\n")
    rules = f"http-request set-header X-T %[hdr(host),map_str({hosts},none)]\n"
    rules += f"http-request deny if {{ hdr(host) -f {tmp_path / 'no.acl'} }}"
    (tmp_path / "no.acl").write_text("z\n")
    request = "GET /head HTTP/1.1\nhost: a"
    with Origin() as origin, Program("mtproxy", http(origin.port, fe=rules)) as proxy:
        wire = proxy.connect()

        def tenant() -> bytes:
            bodies = [wire.request(request).body for _ in range(4)]
            assert bodies[1:] == [bodies[0]] * 3
            return bodies[0].split(b"x-t: ")[1].split(b"\r\n")[0]

        assert tenant() == b"one"
        proxy.cli(f"set map {hosts} a two")
        assert tenant() == b"two"
        proxy.cli(f"del map {hosts} a")
        assert tenant() == b"none"
        proxy.cli(f"add map {hosts} a three")
        assert tenant() == b"three"
        proxy.cli(f"clear map {hosts}")
        assert tenant() == b"none"
        version = proxy.cli(f"prepare map {hosts}").split()[-1]
        proxy.cli(f"add map @{version} {hosts} a four")
        assert tenant() == b"none"
        proxy.cli(f"commit map @{version} {hosts}")
        assert tenant() == b"four"
        proxy.cli(f"add acl {tmp_path / 'no.acl'} a")
        assert [proxy.connect().request(request).status for _ in range(3)] == [403] * 3
        proxy.cli(f"del acl {tmp_path / 'no.acl'} a")
        assert tenant() == b"four"


def test_what_was_remembered_is_not_changed_by_what_follows() -> None:
    """Cookies are taken out of the head for the server, backends add to it."""
    rules = "http-request set-header X-A 1"
    back = "cookie S insert indirect\nhttp-request add-header X-N %[rand(1)]"
    request = "GET /head HTTP/1.1\nhost: a\ncookie: S=x; k=1"
    with Origin() as origin:
        config = http(origin.port, fe=rules, be=back, server="cookie s1")
        with Program("mtproxy", config) as proxy:
            wire = proxy.connect()
            bodies = [wire.request(request).body for _ in range(5)]
    assert bodies[1:] == [bodies[0]] * 4
    assert bodies[0].count(b"x-a: 1") == bodies[0].count(b"x-n: 0") == 1
