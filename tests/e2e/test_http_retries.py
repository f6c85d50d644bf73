"""Retries of connections that fail, redispatch to another server, and what is not retried."""

from __future__ import annotations

import threading

from mtproxy.testing.configs import HTTP, http
from mtproxy.testing.origin import Origin
from mtproxy.testing.server import free_port
from mtproxy.testing.syslog_sink import SyslogSink, parse_http_line
from mtproxy.testing.wire import Wire, as_wire


def two_servers(first: int, second: int, be: str = "") -> str:
    return f"""{HTTP}
frontend fe
    bind "fd@${{fe}}"
    default_backend be
backend be
    balance roundrobin
    {be}
    server s1 127.0.0.1:{first}
    server s2 127.0.0.1:{second}
"""


def test_a_server_that_comes_back_in_time(proxy, sink: SyslogSink) -> None:
    """Refused at first, and listening before the retries are used up: the client sees nothing."""
    port = free_port()
    be = "retries 3"
    fe = f"log 127.0.0.1:{sink.port} local0\n option httplog"
    wire = proxy(http(port, fe=fe, be=be)).connect()
    wire.send(as_wire("GET /len/5 HTTP/1.1\nhost: a"))
    assert wire.still_open(0.2)  # the first attempt failed; the next one comes after 1 s
    with Origin(("127.0.0.1", port)):
        assert wire.read_response().status == 200
    line = parse_http_line(sink.wait("GET /len/5")[0].string)
    assert line.retries == "1"
    assert line.status == 200


def test_redispatch_to_the_other_server(proxy, origin: Origin, sink: SyslogSink) -> None:
    config = two_servers(free_port(), origin.port, be="option redispatch\n retries 1")
    config = config.replace(
        "default_backend", f"log 127.0.0.1:{sink.port} local0\n option httplog\n default_backend"
    )
    wire = proxy(config).connect()
    for _ in range(2):
        assert wire.request("GET /len/5 HTTP/1.1\nhost: a").get("x-origin") == b"o1"
    lines = [parse_http_line(m.string) for m in sink.wait("GET /len/5", count=2)]
    assert [line.server for line in lines] == ["s2", "s2"]
    # "+": the last attempt went to another server. s1 is in turn at least once.
    assert "+1" in {line.retries for line in lines} <= {"0", "+1"}


def test_redispatch_to_backup_servers_counts_retries(proxy, sink: SyslogSink) -> None:
    """Among active servers each retry goes elsewhere; among backup servers the third one here."""
    config = f"""{HTTP}
frontend fe
    bind "fd@${{fe}}"
    log 127.0.0.1:{sink.port} local0
    option httplog
    default_backend be
backend be
    option allbackups
    option redispatch 3
    timeout connect 100ms
    retries 5
    {"\n    ".join(f"server s{i} 127.0.0.1:{free_port()} backup" for i in range(1, 4))}
"""
    wire = proxy(config).connect()
    assert wire.request("GET /x HTTP/1.1\nhost: a").status == 503
    line = parse_http_line(sink.wait("GET /x")[0].string)
    assert (line.server, line.retries, line.termination) == ("s2", "+5", "SC--")
    assert line.queue_time > 290, "three pauses, then the server that was chosen last"


def test_without_redispatch_the_server_is_tried_alone(proxy, origin: Origin) -> None:
    running = proxy(two_servers(free_port(), origin.port, be="no option redispatch\n retries 0"))
    get = "GET /len/5 HTTP/1.1\nhost: a"
    statuses = [running.connect().request(get).status for _ in range(4)]
    assert sorted(statuses) == [200, 200, 503, 503]


def test_a_sent_request_is_not_repeated(proxy, serve) -> None:
    """The server took the request and died: 502, and the request was sent once."""
    seen: list[bytes] = []
    lock = threading.Lock()

    def handler(wire: Wire) -> None:
        head = wire.read_head()
        with lock:
            seen.append(head.target)
        wire.reset()

    wire = proxy(http(serve(handler).port)).connect()
    answer = wire.request("POST /once HTTP/1.1\nhost: a\ncontent-length: 0")
    assert answer.status == 502
    assert seen == [b"/once"]


def test_a_reused_connection_that_dies_at_the_second_request(proxy, serve) -> None:
    """The race of every keep-alive: the server closes when the second request arrives. HAProxy
    closes the client's connection without an answer then, so that the client retries by itself
    (nothing tells whether the server acted on the request)."""

    def handler(wire: Wire) -> None:
        wire.read_head()
        wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        wire.read_head()

    wire = proxy(http(serve(handler).port)).connect()
    assert wire.request("GET /1 HTTP/1.1\nhost: a").body == b"ok"
    wire.send(as_wire("GET /2 HTTP/1.1\nhost: a"))
    assert wire.at_end()
