"""Rules of TCP: connections, sessions, and what is inside, before a server sees it."""

from __future__ import annotations

import os
import ssl
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtproxy.testing.configs import HTTP, TCP, http, tcp
from mtproxy.testing.origin import Origin
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import PeerClosed, Wire

#: longer than any test: what waits this long waits for something else
LONG = "tcp-request inspect-delay 60s"
GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"


def echo(wire: Wire) -> None:
    while wire.fill():
        wire.send(wire.take(len(wire.buffer)))


def answer(name: bytes):
    """A server that says its name, then what it got."""

    def handler(wire: Wire) -> None:
        wire.fill()
        wire.send(name + b":" + wire.take(len(wire.buffer)))

    return handler


def ending(running) -> str:
    """How a connection ends that is refused at once: "reset" or "closed"."""
    try:
        assert running.connect().read_to_end() == b""
    except (PeerClosed, ConnectionResetError):  # it may come before connect() has returned
        return "reset"
    return "closed"


def logging(sink, head: str = TCP, option: str = "option tcplog") -> str:
    return head + f"    log 127.0.0.1:{sink.port} local0\n    {option}\n"


# --- when a connection is accepted


@pytest.mark.parametrize("mode", ["tcp", "http"])
def test_a_rejected_connection_is_reset(proxy, serve, sink, mode) -> None:
    head = logging(sink, TCP if mode == "tcp" else HTTP, f"option {mode}log")
    running = proxy(http(serve(echo).port, head=head, fe="tcp-request connection reject"))
    assert ending(running) == "reset"
    stat = wait_until(
        lambda: (found := running.stat("fe", "FRONTEND"))["dcon"] == "1" and found, "the count"
    )
    assert (stat["conn_tot"], stat["stot"], stat["dses"], stat["dreq"]) == ("1", "0", "0", "0")
    wait_until(lambda: running.stat("fe", "FRONTEND")["scur"] == "0", "the end of the connection")
    assert not sink.texts()


@pytest.mark.parametrize("mode", ["tcp", "http"])
def test_a_rejected_session_is_closed(proxy, serve, sink, mode) -> None:
    head = logging(sink, TCP if mode == "tcp" else HTTP, f"option {mode}log")
    running = proxy(http(serve(echo).port, head=head, fe="tcp-request session reject"))
    wire = running.connect()
    assert wire.read_to_end() == b""
    stat = wait_until(
        lambda: (found := running.stat("fe", "FRONTEND"))["dses"] == "1" and found, "the count"
    )
    assert (stat["conn_tot"], stat["stot"], stat["dcon"], stat["dreq"]) == ("1", "0", "0", "0")
    assert not sink.texts()


@pytest.mark.parametrize("mode", ["tcp", "http"])
def test_accepted_ones_are_served(proxy, serve, mode) -> None:
    def one(wire: Wire) -> None:
        wire.read_until(b"\r\n\r\n")
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    running = proxy(
        http(
            serve(one).port,
            head=TCP if mode == "tcp" else HTTP,
            fe="""tcp-request connection accept if { src 127.0.0.0/8 }
            tcp-request connection reject
            tcp-request session reject if !LOCALHOST
            tcp-request session accept
            tcp-request session reject""",
        )
    )
    wire = running.connect()
    wire.send(GET)
    assert wire.read_until(b"ok").startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("rules", ["connection", "session"])
def test_places_of_refused_connections_are_given_back(proxy, serve, rules) -> None:
    """More refusals than there are places, then one that is served."""
    running = proxy(
        tcp(
            serve(echo).port,
            fe=f"maxconn 3\ntcp-request {rules} reject if {{ dst_port 1:65535 }}",
        )
    )
    for _ in range(10):
        assert ending(running) == ("reset" if rules == "connection" else "closed")
    assert running.stat("fe", "FRONTEND")["conn_tot"] == "10"
    wait_until(lambda: running.stat("fe", "FRONTEND")["scur"] == "0", "all places to be free")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can close without a word")
@pytest.mark.parametrize(
    "rule", ["tcp-request connection", "tcp-request session", "tcp-request content"]
)
def test_silent_drop(proxy, serve, rule) -> None:
    """The client hears nothing, not even an end; nothing is left of it here."""
    running = proxy(tcp(serve(echo).port, fe=f"{rule} silent-drop"))
    wire = running.connect()
    wait_until(lambda: running.stat("fe", "FRONTEND")["dreq"] == "1", "the count")
    wait_until(lambda: running.stat("fe", "FRONTEND")["scur"] == "0", "the end of the session")
    wire.sock.settimeout(0.3)
    with pytest.raises(TimeoutError):
        wire.sock.recv(1)


# --- contents


def test_content_reject(proxy, serve, sink) -> None:
    server = serve(echo)
    running = proxy(tcp(server.port, head=logging(sink), fe="tcp-request content reject"))
    assert running.connect().read_to_end() == b""
    assert sink.wait(r" fe fe/<NOSRV> -1/-1/\d+ 0 PR 1/1/0/0/0 0/0$")
    stat = running.stat("fe", "FRONTEND")
    assert (stat["dreq"], stat["stot"], stat["ereq"]) == ("1", "1", "0")
    assert server.accepted == 0


def test_rules_wait_for_bytes_and_lose_none(proxy, serve, sink) -> None:
    server = serve(echo)
    running = proxy(
        tcp(
            server.port,
            head=logging(sink),
            fe=f"""{LONG}
            tcp-request content accept if {{ req.payload(2,3) -m str llo }}
            tcp-request content reject""",
        )
    )
    wire = running.connect()
    wire.send(b"he")
    wire.send(b"ll")
    assert server.accepted == 0
    wire.send(b"o, world")
    assert wire.read_exactly(12) == b"hello, world"
    wire.shutdown_write()
    assert wire.read_to_end() == b""
    assert sink.wait(r" fe be/s1 \d+/\d+/\d+ 12 -- ")
    assert running.stat("be", "s1")["bin"] == "12"


def test_bytes_decide_against(proxy, serve, sink) -> None:
    running = proxy(
        tcp(
            serve(echo).port,
            head=logging(sink),
            fe=f"""{LONG}
            tcp-request content reject if {{ req.payload(0,4) -m str QUIT }}
            tcp-request content accept if {{ req.len ge 4 }}""",
        )
    )
    wire = running.connect()
    wire.send(b"QUIT")
    assert wire.read_to_end() == b""
    assert sink.wait(r" fe fe/<NOSRV> -1/-1/\d+ 0 PR ")
    assert running.stat("fe", "FRONTEND")["bin"] == "4"


def test_the_end_of_the_input_decides(proxy, serve) -> None:
    """Nothing more can come: the rules take what is there, and it goes on."""
    running = proxy(
        tcp(
            serve(echo).port,
            fe=f"""{LONG}
            tcp-request content accept if {{ req.len gt 100 }}
            tcp-request content reject if {{ req.len 0 }} WAIT_END""",
        )
    )
    wire = running.connect()
    wire.send(b"short")
    wire.shutdown_write()
    assert wire.read_to_end() == b"short"
    wire = running.connect()
    wire.shutdown_write()
    assert wire.read_to_end() == b""


def test_the_delay_decides(proxy, serve, sink) -> None:
    running = proxy(
        tcp(
            serve(echo).port,
            head=logging(sink),
            fe="""tcp-request inspect-delay 300ms
            tcp-request content accept if { req.len gt 100 }""",
        )
    )
    wire = running.connect()
    wire.send(b"short")
    assert wire.read_exactly(5) == b"short"
    wire.close()
    [match] = sink.wait(r" fe be/s1 (\d+)/\d+/\d+ 5 ")
    assert 300 <= int(match[1]) < 20_000


def test_a_full_buffer_decides(proxy, serve) -> None:
    """What rules may look at is what a buffer holds, without the room for rewriting."""
    running = proxy(
        tcp(
            serve(echo).port,
            fe=f"""{LONG}
            tcp-request content reject if {{ req.len gt 15360 }}
            tcp-request content accept if {{ req.len ge 15360 }}
            tcp-request content reject""",
        )
    )
    data = bytes(range(256)) * 200
    wire = running.connect()
    wire.send(data)
    assert wire.read_exactly(len(data)) == data


def test_without_a_delay_nothing_is_waited_for(proxy, serve) -> None:
    running = proxy(
        tcp(
            serve(echo).port,
            fe="""tcp-request content accept if { req.len gt 100000 }
            tcp-request content reject""",
        )
    )
    assert running.connect().read_to_end() == b""


def test_silence_is_limited_while_rules_wait(proxy, serve, sink) -> None:
    head = logging(sink).replace("timeout client 120s", "timeout client 300ms")
    running = proxy(
        tcp(serve(echo).port, head=head, fe=f"{LONG}\ntcp-request content accept if WAIT_END")
    )
    wire = running.connect()
    wire.send(b"x")
    assert wire.read_to_end() == b""
    assert sink.wait(r" fe be/<NOSRV> -1/-1/\d+ 0 cR ")
    assert running.stat("fe", "FRONTEND")["ereq"] == "1"
    assert running.stat("be", "BACKEND")["cli_abrt"] == "1"


def test_a_client_that_resets_while_rules_wait(proxy, serve, sink) -> None:
    running = proxy(
        tcp(
            serve(echo).port,
            head=logging(sink),
            fe=f"{LONG}\ntcp-request content accept if {{ req.len gt 3 }}",
        )
    )
    wire = running.connect()
    wire.send(b"abc")
    wait_until(lambda: running.stat("fe", "FRONTEND")["scur"] == "1", "the session")
    wire.reset()
    assert sink.wait(r" fe be/<NOSRV> -1/-1/\d+ 0 CR ")
    stat = running.stat("fe", "FRONTEND")
    assert (stat["ereq"], stat["dreq"]) == ("1", "0")
    assert running.stat("be", "BACKEND")["cli_abrt"] == "1"


def test_rules_of_the_backend(proxy, serve, sink) -> None:
    running = proxy(
        tcp(
            serve(echo).port,
            head=logging(sink),
            fe="""tcp-request inspect-delay 100ms
            tcp-request content accept if WAIT_END""",
            be=f"""{LONG}
            tcp-request content reject if {{ req.payload(0,1) -m str Q }}
            tcp-request content accept if {{ req.len gt 3 }}""",
        )
    )
    wire = running.connect()
    wire.send(b"abcd")
    assert wire.read_exactly(4) == b"abcd"
    wire = running.connect()
    wire.send(b"Quit")
    assert wire.read_to_end() == b""
    assert sink.wait(r" fe be/<NOSRV> -1/-1/\d+ 0 PR ")
    assert running.stat("fe", "FRONTEND")["dreq"] == "1"
    stat = running.stat("be", "BACKEND")
    assert (stat["dreq"], stat["stot"]) == ("0", "2")


def test_rules_of_a_listen_section_run_once(proxy, serve) -> None:
    server = serve(echo)
    running = proxy(
        f"""{TCP}
listen fe
    bind "fd@${{fe}}"
    tcp-request inspect-delay 500ms
    tcp-request content accept if WAIT_END
    tcp-response content reject if {{ res.payload(0,3) -m str bad }}
    tcp-response inspect-delay 60s
    server s1 127.0.0.1:{server.port}
"""
    )
    wire = running.connect()
    wire.send(b"good")
    assert wire.read_exactly(4) == b"good"
    wire = running.connect()
    wire.send(b"bad thing")
    assert wire.read_to_end() == b""


def test_the_first_unknown_test_is_waited_for(proxy, serve, sink) -> None:
    """Although the second one is false already: conditions are read from left to right."""
    running = proxy(
        tcp(
            serve(echo).port,
            head=logging(sink),
            fe="""tcp-request inspect-delay 400ms
            tcp-request content reject if { req.len gt 100 } { src 192.0.2.1 }""",
        )
    )
    wire = running.connect()
    wire.send(b"x")
    assert wire.read_exactly(1) == b"x"
    wire.close()
    [match] = sink.wait(r" fe be/s1 (\d+)/\d+/\d+ 1 ")
    assert int(match[1]) >= 400


def test_protocols_that_converters_know(proxy, serve, sink) -> None:
    """What is no MQTT is refused at once, what is not complete when the time is over."""
    running = proxy(
        tcp(
            serve(echo).port,
            head=logging(sink),
            fe=f"""{LONG}
            tcp-request content reject unless {{ req.payload(0,0),mqtt_is_valid }}""",
        )
    )
    connect = bytes.fromhex("101400044d5154540402003c0008746573745f737562")
    wire = running.connect()
    wire.send(connect[:9])
    wire.send(connect[9:])
    assert wire.read_exactly(len(connect)) == connect
    wire = running.connect()
    wire.send(b"\xff\xff\xff")
    assert wire.read_to_end() == b""
    wire = running.connect()
    wire.send(connect[:9])
    wire.shutdown_write()
    assert wire.read_to_end() == b""
    assert len(sink.wait(r" fe fe/<NOSRV> -1/-1/\d+ 0 PR ", count=2)) == 2


def test_variables_and_counters(proxy, serve, sink) -> None:
    """Of connections, sessions, requests and responses."""
    head = logging(
        sink,
        option="log-format '%[var(sess.a)] %[var(txn.b)] %[var(req.c)] %[sc0_get_gpc0]'",
    )
    running = proxy(
        tcp(
            serve(echo).port,
            head=head,
            fe=f"""
            stick-table type ip size 10 store gpc0
            tcp-request connection track-sc0 src
            tcp-request connection set-var(sess.a) src
            {LONG}
            tcp-request content set-var(txn.b) req.payload(0,2) if {{ req.len ge 2 }}
            tcp-request content sc-inc-gpc0(0) if {{ var(txn.b) -m str hi }}
            tcp-request content set-var(req.c) int(3)
            tcp-request content reject unless {{ var(req.c) -m int 3 }}""",
            be="""tcp-response inspect-delay 60s
            tcp-response content set-var(res.d) res.payload(0,1) if { res.len ge 1 }
            tcp-response content reject unless { var(res.d) -m str h }""",
        )
    )
    wire = running.connect()
    wire.send(b"hi")
    assert wire.read_exactly(2) == b"hi"
    wire.close()
    # those of a request end with it
    assert sink.wait(r"^127\.0\.0\.1 hi - 1$")


# --- the choice of a server


def client_hello(name: str) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    outgoing = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def test_a_backend_by_sni(proxy, serve) -> None:
    one, other = serve(answer(b"one")), serve(answer(b"other"))
    running = proxy(
        f"""{TCP}
frontend fe
    bind "fd@${{fe}}"
    {LONG}
    tcp-request content reject if !{{ req.ssl_hello_type 1 }}
    use_backend one if {{ req.ssl_sni -i one.example.com }}
    use_backend one if {{ req.ssl_ver lt 3.1 }}
    default_backend other
backend one
    server s 127.0.0.1:{one.port}
backend other
    server s 127.0.0.1:{other.port}
"""
    )
    for name, who in (("one.example.com", b"one:"), ("x.example.com", b"other:")):
        hello = client_hello(name)
        wire = running.connect()
        for at in range(0, len(hello), 100):
            wire.send(hello[at : at + 100])
        assert wire.read_exactly(len(who) + len(hello)) == who + hello
    wire = running.connect()
    wire.send(GET)
    assert wire.read_to_end() == b""


def test_http_in_tcp(proxy, serve) -> None:
    one, other = serve(answer(b"one")), serve(answer(b"other"))
    running = proxy(
        f"""{TCP}
frontend fe
    bind "fd@${{fe}}"
    {LONG}
    tcp-request content accept if HTTP
    tcp-request content reject
    use_backend one if {{ path_beg /one }} METH_GET
    default_backend other
backend one
    server s 127.0.0.1:{one.port}
backend other
    server s 127.0.0.1:{other.port}
"""
    )
    for request, who in (
        (b"GET /one/x HTTP/1.1\r\nHost: h\r\n\r\n", b"one:"),
        (b"POST /one HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", b"other:"),
    ):
        wire = running.connect()
        wire.send(request[:10])
        wire.send(request[10:])
        assert wire.read_exactly(len(who) + len(request)) == who + request
    wire = running.connect()
    wire.send(b"\0\0\0\0\r\n\r\n")
    assert wire.read_to_end() == b""


def test_addresses_that_rules_change(proxy, serve, sink) -> None:
    """They are what the log tells, and where a server without an address is found."""
    server = serve(answer(b"here"))
    running = proxy(
        f"""{logging(sink)}
frontend fe
    bind "fd@${{fe}}"
    tcp-request session set-src str(192.0.2.7)
    tcp-request session set-src-port int(99)
    tcp-request content set-dst str(127.0.0.1)
    tcp-request content set-dst-port int({server.port})
    tcp-request content reject if {{ fc_src 192.0.2.7 }}
    tcp-request content reject unless {{ src 192.0.2.7 }} {{ src_port 99 }}
    tcp-request content reject if {{ src_is_local }}
    tcp-request content reject unless {{ fc_src_is_local }} {{ dst_is_local }}
    default_backend be
backend be
    server s 0.0.0.0:0
"""
    )
    wire = running.connect()
    wire.send(b"x")
    assert wire.read_exactly(6) == b"here:x"
    wire.close()
    assert sink.wait(r"^192\.0\.2\.7:99 \[.*\] fe be/s ")


# --- responses


def test_a_response_is_held_back_and_refused(proxy, serve, sink) -> None:
    running = proxy(
        tcp(
            serve(echo).port,
            head=logging(sink),
            be="""tcp-response inspect-delay 60s
            tcp-response content reject if { res.payload(0,6) -m str secret }
            tcp-response content accept if { res.len ge 6 }""",
        )
    )
    wire = running.connect()
    wire.send(b"sec")
    wire.send(b"ret")
    assert wire.read_to_end() == b""
    assert sink.wait(r" fe be/s1 \d+/\d+/\d+ 6 PD ")
    for one in ("BACKEND", "s1"):
        assert running.stat("be", one)["dresp"] == "1"
    assert running.stat("fe", "FRONTEND")["dresp"] == "1"
    wire = running.connect()
    wire.send(b"a word")
    assert wire.read_exactly(6) == b"a word"
    wire.send(b"and secret ones")
    assert wire.read_exactly(15) == b"and secret ones"


def test_the_client_goes_on_while_a_response_is_held(proxy, serve) -> None:
    """More than any buffer holds goes up before the first answer."""
    count = 3_000_000

    def handler(wire: Wire) -> None:
        wire.send(b"?")
        got = len(wire.read_to_end())
        wire.send(b" %d" % got)

    running = proxy(
        tcp(
            serve(handler).port,
            be="""tcp-response inspect-delay 60s
            tcp-response content accept if { res.len gt 2 }""",
        )
    )
    wire = running.connect()
    wire.send(b"x" * count)
    wire.shutdown_write()
    assert wire.read_to_end() == b"? %d" % count


def test_a_response_that_ends_is_complete(proxy, serve) -> None:
    def handler(wire: Wire) -> None:
        wire.send(b"bye")

    running = proxy(
        tcp(
            serve(handler).port,
            be="""tcp-response inspect-delay 60s
            tcp-response content accept if { res.len gt 100 }""",
        )
    )
    assert running.connect().read_to_end() == b"bye"


def test_close_ends_the_servers_connection(proxy, serve, sink) -> None:
    ends: list[str] = []

    def handler(wire: Wire) -> None:
        wire.send(b"221 bye\r\n")
        try:
            wire.read_to_end()
        finally:
            ends.append("ended")

    running = proxy(
        tcp(
            serve(handler).port,
            head=logging(sink),
            be="""tcp-response inspect-delay 60s
            tcp-response content close if { res.payload(0,3) -m str 221 }""",
        )
    )
    wire = running.connect()
    assert wire.read_to_end() == b"221 bye\r\n"
    wait_until(lambda: ends, "the server to see the end")
    assert sink.wait(r" fe be/s1 \d+/\d+/\d+ 9 -- ")


# --- whatever the pieces


def test_inspected_bytes_pass_unchanged(proxy, serve) -> None:
    """Any bytes, in any pieces, arrive as they were sent, and nothing else does."""
    running = proxy(
        tcp(
            serve(echo).port,
            fe=f"""{LONG}
            tcp-request content accept if {{ req.len gt 700 }}
            tcp-request content accept if {{ req.payload(0,1) -m bin 00 }}
            tcp-request content reject if {{ req.ssl_hello_type 77 }}""",
            be=f"""{LONG}
            tcp-response inspect-delay 60s
            tcp-request content accept if {{ req.len gt 900 }}
            tcp-response content accept if {{ res.len gt 1000 }}""",
        )
    )

    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.binary(max_size=600), max_size=6))
    def check(pieces: list[bytes]) -> None:
        wire = running.connect()
        for piece in pieces:
            wire.send(piece)
        wire.shutdown_write()
        assert wire.read_to_end() == b"".join(pieces)
        wire.close()

    check()


@pytest.mark.parametrize(
    "condition",
    [
        "{ req.ssl_hello_type 1 }",
        "{ req.payload(0,3) -m str GET }",
        "{ req.ssl_sni -i a }",
        "{ req.rdp_cookie -m found }",
        "WAIT_END",
        "{ req.len 5000 }",
    ],
)
def test_a_whole_http_request_is_not_delayed(proxy, origin: Origin, condition: str) -> None:
    rules = f"tcp-request inspect-delay 60s\ntcp-request content accept if {condition}"
    wire = proxy(http(origin.port, fe=rules)).connect()
    started = time.monotonic()
    assert wire.request("GET /len/3 HTTP/1.1\nhost: a").status == 200
    assert time.monotonic() - started < 40


@pytest.mark.parametrize(("condition", "waits"), [("WAIT_END", True), ("{ req.ssl_ver 3 }", False)])
def test_a_request_whose_body_is_not_all_there(
    proxy, origin: Origin, condition: str, waits: bool
) -> None:
    delay = "400ms" if waits else "60s"
    rules = f"tcp-request inspect-delay {delay}\ntcp-request content accept if {condition}"
    rules += "\nhttp-request return status 200"
    wire = proxy(http(origin.port, fe=rules)).connect()
    started = time.monotonic()
    wire.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nab")
    assert wire.read_response().status == 200
    assert time.monotonic() - started > 0.35 if waits else time.monotonic() - started < 40
