"""`retry-on`: requests that are sent again because of their answer, or for want of one."""

from __future__ import annotations

import threading

import pytest

from mtproxy.testing.configs import http
from mtproxy.testing.server import free_port
from mtproxy.testing.syslog_sink import SyslogSink, parse_http_line
from mtproxy.testing.wire import Wire, as_wire

GOOD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
GET = "GET /x HTTP/1.1\nhost: a"


class Moody:
    """A server whose first `bad` answers are `answer` (b"": it closes; None: it says nothing)."""

    def __init__(self, answer: bytes | None, bad: int = 1) -> None:
        self.answer = answer
        self.left = bad
        self.seen: list[bytes] = []
        self._lock = threading.Lock()

    def __call__(self, wire: Wire) -> None:
        wire.sock.settimeout(None)
        while wire.buffer or wire.fill():
            head = wire.read_head()
            length = int(head.get("content-length") or 0)
            body = wire.read_exactly(length)
            with self._lock:
                self.seen.append(head.raw + body)
                self.left -= 1
                bad = self.left >= 0
            if not bad:
                wire.send(GOOD)
            elif self.answer is None:
                while wire.fill():
                    pass
                return
            else:
                wire.send(self.answer)
                if not self.answer.endswith(b"\r\n\r\n"):
                    return


CASES: list[tuple[str, bytes | None, str, str]] = [
    ("empty-response", b"", "502", "SH"),
    ("junk-response", b"SSH-2.0-OpenSSH\r\n", "502", "PH"),
    ("response-timeout", None, "504", "sH"),
    ("500", b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n", "500", "--"),
    ("404", b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n", "404", "--"),
]


@pytest.mark.parametrize(("word", "answer", "status", "state"), CASES, ids=[c[0] for c in CASES])
def test_each_word(proxy, serve, sink: SyslogSink, word, answer, status, state) -> None:
    """Once is tried again, too often is passed on; other words do not help."""
    fe = f"log 127.0.0.1:{sink.port} local0\n option httplog"
    plans = ((word, 1, "200"), (word, 9, status), ("503", 1, status))
    for number, (words, bad, expected) in enumerate(plans):
        moody = Moody(answer, bad)
        be = f"retry-on {words}\n retries 2\n timeout server 400ms"
        wire = proxy(http(serve(moody).port, fe=fe, be=be)).connect()
        assert str(wire.request(f"GET /{number} HTTP/1.1\nhost: a").status) == expected
        line = parse_http_line(sink.wait(f"GET /{number} ")[0].string)
        attempts = {"200": 2, status: 3}[expected] if words == word else 1
        assert len(moody.seen) == attempts
        assert line.retries == str(attempts - 1)
        assert line.termination[:2] == ("--" if expected == "200" else state)
        assert len(set(moody.seen)) == 1, "the same request"


def test_a_request_with_its_body(proxy, serve) -> None:
    moody = Moody(b"")
    be = "retry-on all-retryable-errors\n option http-buffer-request"
    wire = proxy(http(serve(moody).port, be=be)).connect()
    wire.send(as_wire("POST /x HTTP/1.1\nhost: a\ncontent-length: 5") + b"hello")
    assert wire.read_response().status == 200
    assert [seen.endswith(b"hello") for seen in moody.seen] == [True, True]


def test_a_rule_forbids_it(proxy, serve) -> None:
    moody = Moody(b"")
    be = "retry-on empty-response\n http-request disable-l7-retry if METH_POST"
    running = proxy(http(serve(moody).port, be=be))
    assert running.connect().request(GET.replace("GET", "POST")).status == 502
    assert len(moody.seen) == 1
    moody.left = 1
    assert running.connect().request(GET).status == 200
    assert len(moody.seen) == 3


def test_none_tries_connections_once(proxy, sink: SyslogSink) -> None:
    fe = f"log 127.0.0.1:{sink.port} local0\n option httplog"
    wire = proxy(http(free_port(), fe=fe, be="retry-on none\n retries 3")).connect()
    assert wire.request(GET).status == 503
    line = parse_http_line(sink.wait("GET /x")[0].string)
    assert (line.retries, line.termination[:2]) == ("0", "SC")


def test_another_server(proxy, serve, sink: SyslogSink) -> None:
    moods = [Moody(b"", 99), Moody(b"", 0)]
    one, two = (serve(mood).port for mood in moods)
    fe = f"log 127.0.0.1:{sink.port} local0\n option httplog"
    be = "retry-on empty-response\n option redispatch\n balance roundrobin"
    text = http(one, fe=fe, be=be) + f"    server s2 127.0.0.1:{two}\n"
    running = proxy(text)
    for _ in range(4):
        assert running.connect().request(GET).status == 200
    found = {
        (line.server, line.retries)
        for line in (parse_http_line(m.string) for m in sink.wait("GET /x", count=4))
    }
    assert found <= {("s2", "0"), ("s2", "+1")}
    assert ("s2", "+1") in found
