"""Log lines over UDP syslog: fields, timers, termination states (manual sections 8.2 and 8.5)."""

from __future__ import annotations

import os
import re

import pytest

from mtproxy.testing.configs import http, tcp
from mtproxy.testing.origin import Origin
from mtproxy.testing.server import free_port
from mtproxy.testing.syslog_sink import SyslogSink, parse_http_line, parse_tcp_line
from mtproxy.testing.waiting import PATIENCE, wait_until
from mtproxy.testing.wire import Wire, as_wire

GET = "GET /len/34 HTTP/1.1\nhost: a"
#: ms that no step takes unless it waits for one of the timeouts
LONG = PATIENCE * 1000


def httplog(sink: SyslogSink, more: str = "") -> str:
    return f"log 127.0.0.1:{sink.port} local0\n option httplog\n {more}"


def tcplog(sink: SyslogSink, more: str = "") -> str:
    return f"log 127.0.0.1:{sink.port} local0\n option tcplog\n {more}"


def last_http(sink: SyslogSink, count: int = 1):
    return parse_http_line(sink.wait(r' "', count=count)[-1].string)


def last_tcp(sink: SyslogSink, count: int = 1):
    return parse_tcp_line(sink.wait(r" fe ", count=count)[-1].string)


def test_httplog(proxy, origin: Origin, sink: SyslogSink) -> None:
    running = proxy(http(origin.port, fe=httplog(sink)))
    wire = running.connect()
    wire.send(as_wire(GET))
    raw = wire.read_until(b"\r\n\r\n") + wire.read_exactly(34)
    line = last_http(sink)
    assert (line.client_ip, line.client_port) == wire.sock.getsockname()
    assert re.fullmatch(r"\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d\.\d{3}", line.date)
    assert (line.frontend, line.backend, line.server) == ("fe", "be", "s1")
    timers = (line.request_time, line.queue_time, line.connect_time, line.response_time)
    assert all(0 <= value < LONG for value in timers)
    assert 0 <= line.active_time < LONG
    assert line.status == 200
    # HAProxy 2.6 counts in its internal form, a byte or two away from the wire
    assert abs(line.bytes_read - len(raw)) <= 2
    assert (line.request_cookie, line.response_cookie, line.termination) == ("-", "-", "----")
    assert line.connections == (1, 1, 0, 0)
    assert (line.retries, line.queues) == ("0", (0, 0))
    assert line.request == "GET /len/34 HTTP/1.1"


def test_syslog_header(proxy, origin: Origin, sink: SyslogSink) -> None:
    running = proxy(http(origin.port, fe=httplog(sink)))
    running.connect().request(GET)
    sink.wait("GET /len")
    entry = sink.entries[-1]
    assert entry.priority == 16 * 8 + 6  # local0, info
    assert entry.pid == running.pid
    assert entry.tag == ("haproxy" if running.program == "haproxy" else entry.tag)


def test_log_tag_and_level(proxy, origin: Origin, sink: SyslogSink) -> None:
    fe = f"log 127.0.0.1:{sink.port} daemon notice\n option httplog\n log-tag edge"
    running = proxy(http(origin.port, fe=fe))
    wire = running.connect()
    wire.request(GET)  # info: filtered
    wire.close()
    # an error line is sent at info too, unless log-separate-errors raises it to err
    config = http(origin.port, fe=fe + "\n option log-separate-errors")
    proxy(config).connect().request("GET /reset HTTP/1.1\nhost: a")
    sink.wait("GET /reset")
    assert [(e.priority, e.tag) for e in sink.entries] == [(3 * 8 + 3, "edge")]


def test_global_log(proxy, origin: Origin, sink: SyslogSink) -> None:
    config = http(origin.port, fe="log global\n option httplog")
    running = proxy(f"global\n    log 127.0.0.1:{sink.port} local3 info\n" + config)
    running.connect().request(GET)
    sink.wait("GET /len")
    assert sink.entries[-1].priority == 19 * 8 + 6


def test_two_targets(proxy, origin: Origin, sink: SyslogSink) -> None:
    with SyslogSink() as other:
        fe = (
            f"log 127.0.0.1:{sink.port} local0\n log 127.0.0.1:{other.port} local1\n option httplog"
        )
        proxy(http(origin.port, fe=fe)).connect().request(GET)
        one, two = sink.wait("GET /len")[0].string, other.wait("GET /len")[0].string
        assert one == two


def test_log_to_stdout(proxy, origin: Origin, sink: SyslogSink) -> None:
    fe = f"log stdout format raw local0\n log 127.0.0.1:{sink.port} local0\n option httplog"
    running = proxy(http(origin.port, fe=fe))
    running.connect().request(GET)
    line = sink.wait("GET /len")[0].string
    wait_until(lambda: line + "\n" in running.output(), "the line on standard output")


def test_unreachable_target_harms_nobody(proxy, origin: Origin) -> None:
    path = f"/tmp/mtp-{os.getpid()}-nobody"
    fe = f"log 127.0.0.1:{free_port()} local0\n log {path} local0\n option httplog"
    wire = proxy(http(origin.port, fe=fe)).connect()
    for _ in range(20):
        assert wire.request(GET).status == 200


def test_keep_alive_gives_one_line_each(proxy, origin: Origin, sink: SyslogSink) -> None:
    wire = proxy(http(origin.port, fe=httplog(sink))).connect()
    for number in range(5):
        wire.request(f"GET /len/{number} HTTP/1.1\nhost: a")
    lines = [parse_http_line(m.string) for m in sink.wait("GET /len", count=5)]
    assert [line.request for line in lines] == [f"GET /len/{n} HTTP/1.1" for n in range(5)]


def test_timers(proxy, origin: Origin, sink: SyslogSink) -> None:
    """Tr waits for the head of the answer, Ta for its end; TR is the time of the request's head."""

    wire = proxy(http(origin.port, fe=httplog(sink))).connect()
    data = as_wire("GET /slow/1000/30 HTTP/1.1\nhost: a")
    wire.send(data[:10])
    assert wire.still_open(0.6)  # of which the proxy may miss some when it is late
    wire.send(data[10:])
    wire.read_response()
    line = last_http(sink)
    assert 250 <= line.request_time < LONG
    assert line.response_time < LONG
    assert 250 <= line.active_time - line.request_time < LONG


def test_bad_request_line(proxy, origin: Origin, sink: SyslogSink) -> None:
    wire = proxy(http(origin.port, fe=httplog(sink))).connect()
    wire.send(b"nonsense\r\n\r\n")
    assert wire.read_response().status == 400
    line = last_http(sink)
    assert (line.backend, line.server) == ("fe", "<NOSRV>")
    assert (line.status, line.termination, line.request) == (400, "PR--", "<BADREQ>")
    timers = (line.request_time, line.queue_time, line.connect_time, line.response_time)
    assert timers == (-1, -1, -1, -1)


def test_request_timeout_line(proxy, origin: Origin, sink: SyslogSink) -> None:
    wire = proxy(http(origin.port, fe=httplog(sink, "timeout http-request 600ms"))).connect()
    wire.send(b"GET / HTTP/1.1\r\n")
    assert wire.read_response().status == 408
    line = last_http(sink)
    assert (line.status, line.termination, line.request) == (408, "cR--", "<BADREQ>")
    assert 150 <= line.active_time < LONG


def test_client_leaves_before_its_request(proxy, origin: Origin, sink: SyslogSink) -> None:
    wire = proxy(http(origin.port, fe=httplog(sink))).connect()
    wire.send(b"GET / HTTP/1.1\r\n")
    wire.close()
    line = last_http(sink)
    assert (line.status, line.termination, line.request) == (400, "CR--", "<BADREQ>")


def test_dontlognull(proxy, origin: Origin, sink: SyslogSink) -> None:
    running = proxy(http(origin.port, fe=httplog(sink, "option dontlognull")))
    running.connect().close()
    running.connect().request(GET)
    sink.wait("GET /len")
    assert len(sink.entries) == 1


def test_dontlog_normal(proxy, origin: Origin, sink: SyslogSink) -> None:
    running = proxy(http(origin.port, fe=httplog(sink, "option dontlog-normal")))
    running.connect().request(GET)
    running.connect().request("GET /reset HTTP/1.1\nhost: a")
    sink.wait("GET /reset")
    assert len(sink.entries) == 1


@pytest.mark.parametrize(
    ("path", "be", "status", "termination"),
    [
        ("/reset", "", 502, "SH--"),
        ("/stall", "timeout server 200ms", 504, "sH--"),
        ("/reset/1000", "", 200, "SD--"),
        ("/stall/1000", "timeout server 700ms", 200, "sD--"),
    ],
)
def test_server_faults(
    proxy, origin: Origin, sink: SyslogSink, path: str, be: str, status: int, termination: str
) -> None:
    wire = proxy(http(origin.port, fe=httplog(sink), be=be)).connect()
    wire.send(as_wire(f"GET {path} HTTP/1.1\nhost: a"))
    wire.read_head()
    line = last_http(sink)
    assert (line.status, line.termination) == (status, termination)
    assert line.response_time == -1 if status > 500 else line.response_time >= 0


def test_refused_server_line(proxy, sink: SyslogSink) -> None:
    wire = proxy(http(free_port(), fe=httplog(sink), be="retries 0")).connect()
    wire.request("GET / HTTP/1.1\nhost: a")
    line = last_http(sink)
    assert (line.server, line.status, line.termination) == ("s1", 503, "SC--")
    assert (line.connect_time, line.response_time, line.retries) == (-1, -1, "0")


def test_all_servers_down_line(proxy, sink: SyslogSink) -> None:
    wire = proxy(http(free_port(), fe=httplog(sink), server="disabled")).connect()
    assert wire.request("GET / HTTP/1.1\nhost: a").status == 503
    line = last_http(sink)
    assert (line.backend, line.server, line.termination) == ("be", "<NOSRV>", "SC--")


def test_client_leaves_in_the_body(proxy, origin: Origin, sink: SyslogSink) -> None:
    wire = proxy(http(origin.port, fe=httplog(sink))).connect()
    wire.send(as_wire("GET /slow/100000/100 HTTP/1.1\nhost: a"))
    wire.read_head()
    wire.reset()
    line = last_http(sink)
    assert (line.status, line.termination) == (200, "CD--")


def test_client_timeout_in_the_answer(proxy, origin: Origin, sink: SyslogSink) -> None:
    wire = proxy(http(origin.port, fe=httplog(sink, "timeout client 300ms"))).connect()
    wire.send(as_wire("GET /len/50000000 HTTP/1.1\nhost: a"))
    wire.read_head()
    line = last_http(sink)
    assert (line.status, line.termination) == (200, "cD--")


def test_bytes_of_a_chunked_answer(proxy, origin: Origin, sink: SyslogSink) -> None:
    """%B counts what is sent to the client; the chunks' framing may count or not (2.6: not)."""
    wire = proxy(http(origin.port, fe=httplog(sink))).connect()
    wire.send(as_wire("GET /chunked/100/10 HTTP/1.1\nhost: a"))
    head = wire.read_until(b"\r\n\r\n")
    raw = wire.read_until(b"\r\n0\r\n\r\n")
    assert len(head) + 98 <= last_http(sink).bytes_read <= len(head) + len(raw)


def test_post_line(proxy, origin: Origin, sink: SyslogSink) -> None:
    wire = proxy(http(origin.port, fe=httplog(sink))).connect()
    wire.send(as_wire("POST /echo?a=1 HTTP/1.0\nhost: a\ncontent-length: 3") + b"abc")
    assert wire.read_response().status == 200
    assert last_http(sink).request == "POST /echo?a=1 HTTP/1.0"


def test_quotes_in_the_request_line_are_escaped(proxy, origin: Origin, sink: SyslogSink) -> None:
    wire = proxy(http(origin.port, fe=httplog(sink))).connect()
    wire.request('GET /a"b HTTP/1.1\nhost: a')
    assert last_http(sink).request == "GET /a#22b HTTP/1.1"


def test_connection_counts(proxy, origin: Origin, sink: SyslogSink) -> None:
    """actconn/feconn/beconn/srv_conn at the moment of the line; the own stream counts in the first
    two, and no longer in the others."""
    running = proxy(http(origin.port, fe=httplog(sink)))
    others = [running.connect() for _ in range(3)]
    for other in others:
        other.send(as_wire("GET /stall/10 HTTP/1.1\nhost: a"))
        other.read_head()
    running.connect().request(GET)
    assert last_http(sink).connections == (4, 4, 3, 3)


def test_tunnel_line(proxy, origin: Origin, sink: SyslogSink) -> None:
    wire = proxy(http(origin.port, fe=httplog(sink))).connect()
    wire.request("GET /upgrade HTTP/1.1\nhost: a\nconnection: upgrade\nupgrade: x")
    wire.send(b"hello")
    wire.read_exactly(5)
    wire.shutdown_write()
    assert wire.at_end()
    line = last_http(sink)
    assert (line.status, line.termination) == (101, "----")


def test_logasap(proxy, origin: Origin, sink: SyslogSink) -> None:
    """The line comes at the answer's head; "+" marks what was not final."""
    wire = proxy(http(origin.port, fe=httplog(sink, "option logasap"))).connect()
    wire.send(as_wire("GET /slow/1000/200 HTTP/1.1\nhost: a"))
    wire.read_head()
    text = sink.wait("GET /slow")[0].string
    assert re.search(r"/\+\d+ 200 \+\d+ ", text), text


def test_http_clf(proxy, origin: Origin, sink: SyslogSink) -> None:
    fe = f"log 127.0.0.1:{sink.port} local0\n option httplog clf"
    wire = proxy(http(origin.port, fe=fe)).connect()
    wire.request(GET)
    text = sink.wait("GET /len")[0].string
    port = wire.sock.getsockname()[1]
    assert re.fullmatch(
        r'127\.0\.0\.1 - - \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "GET /len/34 HTTP/1\.1" '
        r'200 \d+ "" "" ' + str(port) + r" \d{3} \"fe\" \"be\" \"s1\" \d+ \d+ \d+ \d+ \d+ "
        r'---- 1 1 0 0 0 0 0 "" "" ',
        text,
    ), text


def test_default_log_format(proxy, origin: Origin, sink: SyslogSink) -> None:
    """Without option httplog or tcplog: "Connect from", at the beginning (manual 8.2.1)."""
    running = proxy(http(origin.port, fe=f"log 127.0.0.1:{sink.port} local0"))
    wire = running.connect()
    wire.request(GET)
    (match,) = sink.wait("Connect from")
    port = wire.sock.getsockname()[1]
    assert match.string == f"Connect from 127.0.0.1:{port} to 127.0.0.1:{running.port()} (fe/HTTP)"


# -- option tcplog


def echo(wire: Wire) -> None:
    while wire.fill():
        wire.send(wire.take(len(wire.buffer)))


def test_tcplog(proxy, serve, sink: SyslogSink) -> None:
    wire = proxy(tcp(serve(echo).port, fe=tcplog(sink))).connect()
    wire.send(b"x" * 1234)
    wire.read_exactly(1234)
    wire.shutdown_write()
    assert wire.at_end()
    line = last_tcp(sink)
    assert (line.client_ip, line.client_port) == wire.sock.getsockname()
    assert (line.frontend, line.backend, line.server) == ("fe", "be", "s1")
    assert 0 <= line.queue_time < LONG
    assert 0 <= line.total_time < LONG
    assert 0 <= line.connect_time < LONG
    assert (line.bytes_read, line.termination) == (1234, "--")
    assert line.connections == (1, 1, 0, 0)
    assert (line.retries, line.queues) == ("0", (0, 0))


def test_tcp_refused(proxy, sink: SyslogSink) -> None:
    wire = proxy(tcp(free_port(), fe=tcplog(sink), be="retries 0")).connect()
    assert wire.at_end()
    line = last_tcp(sink)
    assert (line.server, line.connect_time, line.bytes_read) == ("s1", -1, 0)
    assert line.termination == "SC"


def test_tcp_no_server(proxy, sink: SyslogSink) -> None:
    wire = proxy(tcp(free_port(), fe=tcplog(sink), server="disabled")).connect()
    assert wire.at_end()
    line = last_tcp(sink)
    assert (line.server, line.termination) == ("<NOSRV>", "SC")


def test_tcp_client_resets(proxy, serve, sink: SyslogSink) -> None:
    wire = proxy(tcp(serve(echo).port, fe=tcplog(sink))).connect()
    wire.send(b"x")
    wire.read_exactly(1)
    wire.reset()
    assert last_tcp(sink).termination == "CD"


def test_tcp_server_resets(proxy, serve, sink: SyslogSink) -> None:
    def handler(wire: Wire) -> None:
        wire.read_exactly(5)
        wire.reset()

    wire = proxy(tcp(serve(handler).port, fe=tcplog(sink))).connect()
    wire.send(b"hello")
    assert wire.at_end()
    assert last_tcp(sink).termination == "SD"


@pytest.mark.parametrize(("side", "termination"), [("client", "cD"), ("server", "sD")])
def test_tcp_timeouts(proxy, serve, sink: SyslogSink, side: str, termination: str) -> None:
    fe = tcplog(sink, f"timeout client {'200ms' if side == 'client' else '60s'}")
    be = f"timeout server {'200ms' if side == 'server' else '60s'}"
    wire = proxy(tcp(serve(echo).port, fe=fe, be=be)).connect()
    wire.send(b"x")
    wire.read_exactly(1)
    assert wire.at_end()
    wire.close()  # a server's timeout is passed on as a half-close: the client has its own time
    line = last_tcp(sink)
    assert line.termination == termination
    assert 150 <= line.total_time < LONG


def test_tcp_logasap(proxy, serve, sink: SyslogSink) -> None:
    """The line comes when the server has taken the connection, whatever flows then."""
    wire = proxy(tcp(serve(echo).port, fe=tcplog(sink, "option logasap"))).connect()
    (match,) = sink.wait(" fe ")
    assert re.search(r" be/s1 \d+/\d+/\+\d+ \+0 -- ", match.string), match.string
    wire.send(b"x")
    assert wire.read_exactly(1) == b"x"
    wire.close()


def test_tcp_connect_log_format(proxy, serve, sink: SyslogSink) -> None:
    running = proxy(tcp(serve(echo).port, fe=f"log 127.0.0.1:{sink.port} local0"))
    wire = running.connect()
    wire.send(b"x")
    wire.read_exactly(1)
    (match,) = sink.wait("Connect from")
    assert match.string.endswith(f"to 127.0.0.1:{running.port()} (fe/TCP)")


NUMBERED = """
    log 127.0.0.1:{port} local0
    timeout http-request 500ms
    log-format "N %lc,%lc %ST %ID %r"
    error-log-format "E %lc,%lc %ST %ID %ts %{{+Q}}r"
    unique-id-format <%ci>%ID
"""


def test_error_log_format_and_numbers(proxy, origin: Origin, sink: SyslogSink) -> None:
    """What was no request has a format of its own; lines of both are numbered together."""
    running = proxy("global\n nbthread 1\n" + http(origin.port, fe=NUMBERED.format(port=sink.port)))
    running.connect().request(GET)
    sink.wait(r"N 0,0")
    with running.connect() as wire:
        wire.request(GET)  # a connection's later requests remember nothing of the first
        sink.wait(r"N 1,1")
        wire.send(b"BAD\r\n\r\n")
        wire.read_response()
    sink.wait(r"E 2,2")
    with running.connect() as wire:
        wire.send(b"GET / HT")
        wire.read_response()
    sink.wait(r"E 3,3")
    running.connect().close()
    sink.wait(r"E 4,4")
    chunk = b"POST /c HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"
    with running.connect() as wire:
        wire.send(chunk)
        wire.read_response()
    lines = [found.group() for found in sink.wait(r"[NE] \d.*", count=6)]
    assert lines == [
        "N 0,0 200 <127.0.0.1> GET /len/34 HTTP/1.1",
        "N 1,1 200 <127.0.0.1> GET /len/34 HTTP/1.1",
        'E 2,2 400 - PR "<BADREQ>"',
        'E 3,3 408 - cR "<BADREQ>"',
        'E 4,4 400 - CR "<BADREQ>"',
        'E 5,5 400 - PR "<BADREQ>"',
    ]


def test_the_default_format_where_there_is_none_for_errors(
    proxy, origin: Origin, sink: SyslogSink
) -> None:
    more = f"log 127.0.0.1:{sink.port} local0\n log-format 'N %ST'"
    proxy(http(origin.port, fe=more)).connect().request(b"BAD\r\n\r\n")
    sink.wait("N 400")
