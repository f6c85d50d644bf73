"""What request rules make of a head is remembered with it, and is right all the same."""

from __future__ import annotations

from pathlib import Path

from mtproxy.testing.configs import http
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program
from mtproxy.testing.wire import Wire

#: a head is kept when it comes for the second time: after that it is known
TIMES = 5


def _lines(wire: Wire, path: str = "/head", more: str = "") -> list[bytes]:
    """The x- lines of the request as the origin got it."""
    answer = wire.request(f"GET {path} HTTP/1.1\nhost: A.example{more}")
    assert answer.head.status == 200
    return [line for line in answer.body.split(b"\r\n") if line.startswith(b"x-")]


def test_the_same_request_is_changed_in_the_same_way() -> None:
    rules = """http-request set-var(txn.h) hdr(host),lower
        http-request set-header X-Host %[var(txn.h)]
        http-request add-header X-Path %[path] if { path_beg /head }
        http-request del-header X-Gone
        http-response set-header X-Var %[var(txn.h)]"""
    with Origin() as origin, Program("mtproxy", http(origin.port, fe=rules)) as proxy:
        wire = proxy.connect()
        for _ in range(TIMES):
            answer = wire.request("GET /head HTTP/1.1\nhost: A.example\nx-gone: 1")
            assert answer.get("x-var") == b"a.example"
            lines = answer.body.split(b"\r\n")
            found = [line for line in lines if line.startswith(b"x-")]
            assert found == [b"x-host: a.example", b"x-path: /head"]


def test_rules_behind_them_run_for_every_request() -> None:
    """... and change a copy, as the backend's do, whose own first rules are remembered, too."""
    fe = """http-request set-header X-A 1
        http-request set-var(sess.n) int(0) if !{ var(sess.n) -m found }
        http-request set-var(sess.n) var(sess.n),add(1)
        http-request add-header X-N %[var(sess.n)]"""
    be = "http-request set-header X-B 2 if { hdr(x-a) 1 }\nhttp-request set-header X-A 3"
    with Origin() as origin, Program("mtproxy", http(origin.port, fe=fe, be=be)) as proxy:
        wire = proxy.connect()
        for number in range(1, TIMES + 1):
            assert _lines(wire) == [b"x-n: %d" % number, b"x-b: 2", b"x-a: 3"]


def test_sides_that_are_remembered_one_upon_the_other() -> None:
    be = "http-request set-header X-B 2 if { hdr(x-a) 1 }\nhttp-request set-header X-A 3"
    fe = "http-request set-header X-A 1"
    with Origin() as origin, Program("mtproxy", http(origin.port, fe=fe, be=be)) as proxy:
        wire = proxy.connect()
        for _ in range(TIMES):
            assert _lines(wire) == [b"x-b: 2", b"x-a: 3"]


def test_what_is_refused_is_refused_every_time() -> None:
    rules = "http-request set-header X-A 1\nhttp-request deny if { path /no }"
    with Origin() as origin, Program("mtproxy", http(origin.port, fe=rules)) as proxy:
        wire = proxy.connect()
        for _ in range(TIMES):
            assert wire.request("GET /no HTTP/1.1\nhost: a").status == 403
            assert _lines(wire) == [b"x-a: 1"]


def test_a_changed_list_is_seen_by_the_next_request(tmp_path: Path) -> None:
    """A map and an ACL file changed by the runtime socket, in every way that there is."""
    hosts, paths = tmp_path / "hosts.map", tmp_path / "paths.lst"
    hosts.write_text("a.example one\n")
    paths.write_text("/elsewhere\n")
    rules = f"""http-request set-header X-T %[hdr(host),lower,map_str({hosts},none)]
        http-request set-header X-P 1 if {{ path -f {paths} }}"""
    with Origin() as origin, Program("mtproxy", http(origin.port, fe=rules)) as proxy:
        wire = proxy.connect()

        def told(*expected: bytes) -> None:
            for _ in range(TIMES):
                assert _lines(wire) == list(expected)

        told(b"x-t: one")
        proxy.cli(f"set map {hosts} a.example two")
        told(b"x-t: two")
        proxy.cli(f"del map {hosts} a.example")
        told(b"x-t: none")
        proxy.cli(f"add map {hosts} a.example three")
        told(b"x-t: three")
        proxy.cli(f"add acl {paths} /head")
        told(b"x-t: three", b"x-p: 1")
        proxy.cli(f"clear acl {paths}")
        told(b"x-t: three")
        answer = proxy.cli(f"prepare map {hosts}")
        version = answer.rsplit(maxsplit=1)[-1]
        proxy.cli(f"add map @{version} {hosts} a.example four")
        told(b"x-t: three")
        proxy.cli(f"commit map @{version} {hosts}")
        told(b"x-t: four")


def test_what_does_not_follow_from_the_head_is_not_remembered() -> None:
    """A variable of the session, a source port, what another request left."""
    rules = """http-request set-header X-S %[src_port]
        http-request set-var(sess.p) path if !{ var(sess.p) -m found }
        http-request set-header X-F %[var(sess.p)]"""
    with Origin() as origin, Program("mtproxy", http(origin.port, fe=rules)) as proxy:
        for first in ("/head?1", "/head?2"):
            wire = proxy.connect()
            port = wire.sock.getsockname()[1]
            for path in (first, *["/head"] * TIMES):
                assert _lines(wire, path) == [b"x-s: %d" % port, b"x-f: /head"]
