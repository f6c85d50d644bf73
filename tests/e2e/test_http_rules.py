"""Rule sets of HTTP in the running program: order, choice of the backend, bodies they wait for."""

from __future__ import annotations

import time

import pytest

from mtproxy.testing.configs import http, tcp
from mtproxy.testing.origin import Origin
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import Wire


def test_a_request_body_is_waited_for(proxy, origin: Origin) -> None:
    rules = "http-request wait-for-body time 5s\nhttp-request set-header X-Body %[req.body]"
    wire = proxy(http(origin.port, fe=rules)).connect()
    wire.send(b"POST /head HTTP/1.1\r\nhost: a\r\ncontent-length: 6\r\n\r\nabc")
    wire.send(b"def")
    assert b"x-body: abcdef\r\n" in wire.read_response().body


def test_a_chunked_body_is_waited_for_and_forwarded_as_it_came(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port, be="option http-buffer-request")).connect()
    wire.send(b"POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")
    wire.send(b"3\r\ndef\r\n0\r\n\r\nGET /head HTTP/1.1\r\nhost: next\r\n\r\n")
    assert wire.read_response().body == b"abcdef"
    assert b"host: next" in wire.read_response().body


def test_a_body_that_does_not_come_is_a_timeout(proxy, origin: Origin) -> None:
    rules = "http-request wait-for-body time 300ms"
    wire = proxy(http(origin.port, fe=rules)).connect()
    started = time.monotonic()
    wire.send(b"POST /head HTTP/1.1\r\nhost: a\r\ncontent-length: 6\r\n\r\nabc")
    assert wire.read_response().status == 408
    assert 0.25 < time.monotonic() - started < 20
    assert wire.at_end()


def test_enough_of_a_body_is_enough(proxy, origin: Origin) -> None:
    rules = "http-request wait-for-body time 20s at-least 3\nhttp-request deny if { path /no }"
    wire = proxy(http(origin.port, fe=rules)).connect()
    wire.send(b"POST /no HTTP/1.1\r\nhost: a\r\ncontent-length: 6\r\n\r\nabc")
    assert wire.read_response().status == 403


def test_who_expects_is_asked_to_go_on(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port, fe="http-request wait-for-body time 5s")).connect()
    wire.send(
        b"POST /head HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n"
    )
    assert wire.read_until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    wire.send(b"ok")
    answer = wire.read_response()
    assert answer.status == 200
    assert b"expect" not in answer.body


def test_rules_of_frontend_and_backend_run_in_their_order(proxy, origin: Origin) -> None:
    front = "http-request set-header X-A front\nhttp-response set-header X-R front"
    back = "http-request set-header X-A back\nhttp-response set-header X-R back"
    answer = (
        proxy(http(origin.port, fe=front, be=back)).connect().request("GET /head HTTP/1.1\nhost: a")
    )
    assert b"x-a: back\r\n" in answer.body
    assert answer.head.all("x-r") == [b"front"]


def test_a_status_that_a_rule_made_up_opens_no_tunnel(proxy, origin: Origin) -> None:
    """What follows a made-up 101 is not passed to the server past all rules."""
    rules = "http-request deny if { path /no }\nhttp-response set-status 101"
    wire = proxy(http(origin.port, fe=rules)).connect()
    wire.send(b"GET /head HTTP/1.1\r\nhost: a\r\n\r\nGET /no HTTP/1.1\r\nhost: a\r\n\r\n")
    answer = wire.read_to_end()
    assert answer.startswith(b"HTTP/1.1 101 ")
    assert b"403" not in answer
    assert b"GET /no" not in answer


def test_a_timeout_of_one_request(proxy, serve) -> None:
    """`set-timeout server` shortens the wait for this request alone."""

    def handler(wire: Wire) -> None:
        wire.read_request()
        wire.fill()  # no answer, until the proxy closes

    rules = "timeout server 60s\nhttp-request set-timeout server 200ms if { path /short }"
    wire = proxy(http(serve(handler).port, be=rules)).connect()
    started = time.monotonic()
    assert wire.request("GET /short HTTP/1.1\nhost: a").status == 504
    assert time.monotonic() - started < 20


@pytest.mark.only("mtproxy")
def test_a_python_function_answers(proxy, origin: Origin, tmp_path, monkeypatch) -> None:
    (tmp_path / "hello_service.py").write_text(
        "def hello(view):\n"
        "    return 200, [(b'X-Path', view.request.target)], b'hello'\n"
        "def bad(view):\n"
        "    return 200, [(b'X', b'a\\r\\nb: c')], b''\n"
        "def deep(view):\n"
        "    try:\n"
        "        {}['inner']\n"
        "    except KeyError:\n"
        "        raise RuntimeError('outer')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    rules = (
        "http-request use-service python.hello_service.hello if { path /hello }\n"
        "http-request use-service python.hello_service.bad if { path /bad }\n"
        "http-request use-service python.hello_service.deep if { path /deep }"
    )
    running = proxy(http(origin.port, fe=rules))
    wire = running.connect()
    answer = wire.request("GET /hello HTTP/1.1\nhost: a")
    assert (answer.status, answer.body, answer.get("x-path")) == (200, b"hello", b"/hello")
    assert wire.request("GET /bad HTTP/1.1\nhost: a").status == 500
    told = wait_until(lambda: "is no header" in (out := running.output()) and out, "the report")
    # the proxy's own way of ending a request is no part of it
    assert "During handling" not in told
    assert wire.request("GET /deep HTTP/1.1\nhost: a").status == 500
    told = wait_until(lambda: "RuntimeError" in (out := running.output()) and out, "the report")
    assert told.count("During handling") == 1
    assert told.index("KeyError: 'inner'") < told.index("RuntimeError: outer")
    assert "Stop" not in told
    assert wire.request("GET /head HTTP/1.1\nhost: a").status == 200


def test_a_chosen_backend_of_another_mode_gets_nothing(proxy, origin: Origin) -> None:
    """The name is known when a request is there only: then it is an error of the proxy."""
    more = f"""
backend bytes
    mode tcp
    server s1 127.0.0.1:{origin.port}
"""
    running = proxy(http(origin.port, fe="use_backend %[path,field(2,/)]") + more)
    # HAProxy notes a 500, too, but says nothing to the client
    if running.program == "mtproxy":
        assert running.connect().request("GET /bytes HTTP/1.1\nhost: a").status == 500
    assert running.connect().request("GET /head HTTP/1.1\nhost: a").status == 200
    assert running.stat("bytes", "s1")["stot"] == "0"


def test_bytes_become_http_at_a_chosen_backend(proxy, origin: Origin) -> None:
    """The backend's rules see the request."""
    more = f"""
backend pages
    mode http
    http-request deny
    server s1 127.0.0.1:{origin.port}
"""
    lines = (
        "tcp-request inspect-delay 60s\ntcp-request content accept if { req.len gt 0 }\n"
        "use_backend %[req.payload(5,5)]"
    )
    running = proxy(tcp(origin.port, fe=lines) + more)
    wire = running.connect()
    wire.send(b"GET /pages HTTP/1.1\r\nhost: a\r\n\r\n")
    assert wire.read_response().status == 403
    wire = running.connect()
    assert wire.request("GET /head? HTTP/1.1\nhost: a").status == 200
    assert running.stat("pages", "s1")["stot"] == "0"


def test_rules_of_http_do_not_run_in_tcp(proxy, origin: Origin) -> None:
    rules = "http-request deny\nhttp-response deny\nhttp-after-response set-header x y"
    more = "\nredirect location /other"
    wire = proxy(tcp(origin.port, fe=rules + more, be=rules + more)).connect()
    answer = wire.request("GET /head HTTP/1.1\nhost: a")
    assert (answer.status, answer.get("x")) == (200, None)
