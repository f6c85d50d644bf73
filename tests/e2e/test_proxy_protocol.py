"""The PROXY protocol, both ways: who a client is, told by whoever passes its connection on."""

from __future__ import annotations

import itertools
import re
import socket
import struct
from collections.abc import Callable

import pytest

from mtproxy.base.hashes import crc32c
from mtproxy.testing.configs import HTTP, TCP, http, tcp
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import PeerClosed, Wire

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
V1 = b"PROXY TCP4 192.0.2.1 198.51.100.2 1111 2222\r\n"
ADDRESSES = bytes([192, 0, 2, 1, 198, 51, 100, 2]) + struct.pack("!HH", 1111, 2222)
ADDRESSES6 = (
    socket.inet_pton(socket.AF_INET6, "2001:db8::1")
    + socket.inet_pton(socket.AF_INET6, "2001:db8::2")
    + struct.pack("!HH", 3333, 4444)
)
#: tells in a response what the proxy knows of its client
TELL = (
    'http-after-response set-header tell "%[src]:%[src_port] %[dst]:%[dst_port]'
    ' %[fc_rcvd_proxy] %[fc_pp_authority] %[fc_pp_unique_id]"'
)
ANSWER = "http-request return status 200"
TCP4 = b"192.0.2.1:1111 198.51.100.2:2222"


def v2(command: int, family: int, body: bytes = b"") -> bytes:
    return SIGNATURE + struct.pack("!BBH", command, family, len(body)) + body


V2 = v2(0x21, 0x11, ADDRESSES)


def accepting(fe: str = "", head: str = HTTP, mode: Callable[..., str] = http, **rest: str) -> str:
    config = mode(1, fe=fe, head=head, **rest)
    return config.replace('bind "fd@${fe}"', 'bind "fd@${fe}" accept-proxy')


def logging(sink, head: str = HTTP, option: str = "option httplog") -> str:
    return head + f"    log 127.0.0.1:{sink.port} local0\n    {option}\n"


def tell(wire: Wire, data: bytes = GET) -> bytes:
    wire.send(data)
    head = wire.read_head()
    assert head.status == 200
    wire.read_exactly(int(head.get("content-length") or 0))
    return (head.get("tell") or b"").strip()


def ends(wire: Wire) -> bytes:
    """What comes until the end, by a reset or not."""
    try:
        return wire.read_to_end()
    except PeerClosed as closed:
        return closed.got


# --- headers that are accepted


@pytest.mark.parametrize(
    ("header", "told"),
    [
        (V1, TCP4 + b" 1"),
        (b"PROXY TCP6 2001:db8::1 ::2 3333 4444\r\n", b"2001:db8::1:3333 ::2:4444 1"),
        (V2, TCP4 + b" 1"),
        (v2(0x21, 0x21, ADDRESSES6), b"2001:db8::1:3333 2001:db8::2:4444 1"),
        (v2(0x21, 0x11, ADDRESSES + b"\2\0\3abc\5\0\2id"), TCP4 + b" 1 abc id"),
        (v2(0x21, 0x11, ADDRESSES + b"\2\0\3abc\2\0\1x\xe0\0\0"), TCP4 + b" 1 x"),
    ],
    ids=["1 TCP4", "1 TCP6", "2 TCP4", "2 TCP6", "2 TLVs", "2 the last TLV"],
)
def test_a_header(proxy, header, told) -> None:
    """Once for a connection; every request on it is the same client's."""
    running = proxy(accepting(f"{TELL}\n{ANSWER}"))
    wire = running.connect()
    assert tell(wire, header + GET) == told
    assert tell(wire) == told


@pytest.mark.parametrize(
    "header",
    [b"PROXY UNKNOWN\r\n", v2(0x20, 0x00), v2(0x20, 0x11, b"ignored")],
    ids=["UNKNOWN", "LOCAL", "LOCAL with a body"],
)
def test_the_connections_own_addresses(proxy, header) -> None:
    running = proxy(accepting(f"{TELL}\n{ANSWER}"))
    wire = running.connect()
    host, port = wire.sock.getsockname()
    own = f"{host}:{port} {host}:{running.port()} 1".encode()
    assert tell(wire, header + GET) == own


@pytest.mark.only("mtproxy")
@pytest.mark.parametrize(
    "header",
    [
        b"PROXY UNKNOWN and whatever follows\r\n",
        v2(0x21, 0x00),
        v2(0x21, 0x12, ADDRESSES),
        v2(0x21, 0x31, bytes(216)),
    ],
    ids=["UNKNOWN", "UNSPEC", "UDP", "UNIX"],
)
def test_headers_of_the_specification_alone(proxy, header) -> None:
    """HAProxy 2.6 refuses them; to be ignored says the specification."""
    running = proxy(accepting(f"{TELL}\n{ANSWER}"))
    wire = running.connect()
    host, port = wire.sock.getsockname()
    assert tell(wire, header + GET) == f"{host}:{port} {host}:{running.port()} 1".encode()


@pytest.mark.only("mtproxy")
@pytest.mark.parametrize("header", [V1, v2(0x21, 0x11, ADDRESSES + b"\2\0\3abc")])
def test_a_header_in_pieces(proxy, header) -> None:
    """HAProxy wants it in one."""
    running = proxy(accepting(f"{TELL}\n{ANSWER}"))
    for cut in (1, 5, len(header) - 1, len(header)):
        wire = running.connect()
        wire.send(header[:cut])
        assert wire.still_open(0.05)
        assert tell(wire, header[cut:] + GET).startswith(TCP4)
    wire = running.connect()
    wire.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in header:
        wire.send(bytes([byte]))
    assert tell(wire).startswith(TCP4)


def test_a_large_header(proxy) -> None:
    running = proxy(accepting(f"{TELL}\n{ANSWER}"))
    whole = v2(0x21, 0x11, ADDRESSES + struct.pack("!BH", 0xE0, 4000) + bytes(4000) + b"\2\0\1a")
    assert tell(running.connect(), whole + GET) == TCP4 + b" 1 a"


def test_a_checksum(proxy) -> None:
    running = proxy(accepting(f"{TELL}\n{ANSWER}"))
    blank = v2(0x21, 0x11, ADDRESSES + b"\3\0\4\0\0\0\0")
    good = crc32c(blank)
    assert tell(running.connect(), blank[:-4] + good.to_bytes(4) + GET) == TCP4 + b" 1"
    wire = running.connect()
    wire.send(blank[:-4] + (good ^ 1).to_bytes(4) + GET)
    assert ends(wire) == b""


def test_what_servers_and_logs_hear_of_the_client(proxy, serve, sink) -> None:
    heads: list[bytes] = []

    def one(wire: Wire) -> None:
        heads.append(wire.read_until(b"\r\n\r\n").lower())
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    config = http(
        serve(one).port,
        head=logging(sink),
        fe="option forwardfor\noption originalto\nhttp-request set-header x-fc %[fc_src]",
    )
    running = proxy(config.replace('bind "fd@${fe}"', 'bind "fd@${fe}" accept-proxy'))
    tell(running.connect(), V1 + GET)
    assert b"x-forwarded-for: 192.0.2.1\r\n" in heads[0]
    assert b"x-original-to: 198.51.100.2\r\n" in heads[0]
    assert b"x-fc: 127.0.0.1\r\n" in heads[0]
    assert sink.wait(r"^192\.0\.2\.1:1111 \[.*\] fe be/s1 .* 200 ")


# --- rules


def test_rules_about_connections_see_the_connection(proxy) -> None:
    """Those about sessions see the header."""
    running = proxy(
        accepting(
            f"""tcp-request connection reject if {{ src 192.0.2.1 }} || {{ fc_rcvd_proxy }}
            tcp-request connection set-var(sess.a) src
            tcp-request session set-var(sess.b) src
            tcp-request session set-var(sess.c) fc_src
            tcp-request session reject unless {{ fc_rcvd_proxy }}
            http-after-response set-header tell "%[var(sess.a)] %[var(sess.b)] %[var(sess.c)]"
            {ANSWER}"""
        )
    )
    assert tell(running.connect(), V1 + GET) == b"127.0.0.1 192.0.2.1 127.0.0.1"


def test_rules_change_what_the_header_said(proxy) -> None:
    running = proxy(
        accepting(
            f"""tcp-request connection set-src ipv4(10.0.0.1)
            tcp-request session set-dst ipv4(10.0.0.2)
            http-request set-src ipv4(10.0.0.3) if {{ path /first }}
            http-after-response set-header tell "%[src] %[dst] %[fc_src] %[fc_dst]"
            {ANSWER}"""
        )
    )
    wire = running.connect()
    first = GET.replace(b" / ", b" /first ")
    assert tell(wire, V1 + first) == b"10.0.0.3 10.0.0.2 10.0.0.1 127.0.0.1"
    assert tell(wire) == b"192.0.2.1 10.0.0.2 10.0.0.1 127.0.0.1"


def test_expect_proxy(proxy) -> None:
    """A rule asks some clients for a header."""
    running = proxy(
        http(
            1,
            fe=f"""tcp-request connection expect-proxy layer4 if {{ src 127.0.0.1 }}
            {TELL}
            {ANSWER}""",
        )
    )
    assert tell(running.connect(), V1 + GET) == TCP4 + b" 1"
    wire = running.connect()
    wire.send(GET)
    assert ends(wire) == b""


def test_expect_proxy_of_others(proxy) -> None:
    running = proxy(
        http(
            1,
            fe=f"""tcp-request connection expect-proxy layer4 if {{ src 192.0.2.1 }}
            tcp-request session set-var(sess.a) str(ran)
            http-after-response set-header tell "%[fc_rcvd_proxy] %[var(sess.a)]"
            {ANSWER}""",
        )
    )
    assert tell(running.connect()) == b"0 ran"


def test_a_rejected_session(proxy, sink) -> None:
    config = accepting(
        f"tcp-request session reject if {{ src 192.0.2.1 }}\n{ANSWER}", logging(sink)
    )
    running = proxy(config)
    wire = running.connect()
    wire.send(V1 + GET)
    assert ends(wire) == b""
    assert sink.wait(r"^192\.0\.2\.1:1111 \[[^]]+\] fe/1: Success$")
    stat = wait_until(
        lambda: (found := running.stat("fe", "FRONTEND"))["scur"] == "0" and found, "its end"
    )
    assert (stat["dses"], stat["stot"], stat["conn_tot"]) == ("1", "0", "1")


# --- what is no header

NO_HEADER = "Received something which does not look like a PROXY protocol header"
BAD = "Received an invalid PROXY protocol header"
FAULTS = [
    (GET, NO_HEADER),
    (b"GET /\r\n", "Truncated PROXY protocol header received"),
    (b"PROXY TCP4 192.0.2.1 198.51.100.2 1 2\n" + GET, BAD),
    (
        b"PROXY UDP4 192.0.2.1 198.51.100.2 1 2\r\n" + GET,
        "Received an unhandled protocol in the PROXY protocol header",
    ),
    (v2(0x11, 0x11, ADDRESSES) + GET, NO_HEADER),
    (v2(0x22, 0x11, ADDRESSES) + GET, BAD),
    (v2(0x21, 0x11, ADDRESSES[:-1]) + GET, BAD),
    (v2(0x21, 0x11, ADDRESSES + b"\2\0\5four") + GET, BAD),
    (v2(0x21, 0x11, ADDRESSES + b"\2\0") + GET, BAD),
]


@pytest.mark.parametrize("mode", ["tcp", "http"])
def test_no_header(proxy, sink, mode) -> None:
    """Closed without a word, logged in words of its own; no session, no request."""
    option = "option tcplog" if mode == "tcp" else "option httplog"
    head = logging(sink, TCP if mode == "tcp" else HTTP, option)
    running = proxy(accepting(head=head))
    for number, (data, text) in enumerate(FAULTS, 1):
        wire = running.connect()
        wire.send(data)
        assert ends(wire) == b""
        texts = wait_until(lambda: len(found := sink.texts()) == number and found, "the line")  # noqa: B023
        assert re.fullmatch(rf"[\d.]+:\d+ \[[^]]+\] fe/1: {text}", texts[-1])
    stat = wait_until(
        lambda: (found := running.stat("fe", "FRONTEND"))["scur"] == "0" and found, "their end"
    )
    assert (stat["conn_tot"], stat["stot"]) == (str(len(FAULTS)), "0")
    assert not int(stat["req_tot"] or 0) + int(stat["ereq"])


@pytest.mark.parametrize("null", [False, True])
def test_silent_clients(proxy, sink, null) -> None:
    """Nobody waits for ever: `timeout client` ends it, then, the client's own end."""
    head = logging(sink, HTTP.replace("client 120s", "client 300ms"))
    running = proxy(accepting("option dontlognull" if null else "", head))
    wire = running.connect()
    assert wire.read_to_end() == b""
    gone = running.connect()
    gone.shutdown_write()
    assert gone.read_to_end() == b""
    last = running.connect()
    last.send(GET)
    assert ends(last) == b""
    assert sink.wait("does not look like a PROXY")
    texts = [text.partition("fe/1: ")[2] for text in sink.texts()]
    silent = [
        "Timeout while waiting for PROXY protocol header",
        "Connection closed while waiting for PROXY protocol header",
    ]
    assert texts[:-1] == ([] if null else silent)


@pytest.mark.only("mtproxy")
def test_half_a_header(proxy, sink) -> None:
    running = proxy(accepting(head=logging(sink, HTTP.replace("client 120s", "client 300ms"))))
    wire = running.connect()
    wire.send(V1[:20])
    assert ends(wire) == b""
    assert sink.wait("Timeout while waiting for PROXY protocol header$")
    wire = running.connect()
    wire.send(V2[:20])
    wire.shutdown_write()
    assert ends(wire) == b""
    assert sink.wait("Truncated PROXY protocol header received$")
    wire = running.connect()
    wire.send(v2(0x21, 0x11, bytes(60000)))
    assert ends(wire) == b""
    assert sink.wait("Truncated PROXY protocol header received$", count=2)
    wait_until(lambda: running.stat("fe", "FRONTEND")["scur"] == "0", "the end of all")


def test_logged_at_the_level_of_errors(proxy, sink) -> None:
    config = accepting("option log-separate-errors", logging(sink))
    running = proxy(config.replace("accept-proxy", "accept-proxy name web"))
    wire = running.connect()
    wire.send(GET)
    assert ends(wire) == b""
    assert sink.wait(r"^[\d.]+:\d+ \[[^]]+\] fe/web: Received something")
    assert [entry.priority & 7 for entry in sink.entries] == [3]


def test_the_time_that_the_header_took(proxy, serve, sink) -> None:
    def one(wire: Wire) -> None:
        while wire.read_until(b"\r\n\r\n"):
            wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    running = proxy(
        http(
            serve(one).port,
            head=logging(sink, option='log-format "Th=%Th Ti=%Ti TR=%TR Tq=%Tq Tt=%Tt Ta=%Ta"'),
        ).replace('bind "fd@${fe}"', 'bind "fd@${fe}" accept-proxy')
    )
    wire = running.connect()
    assert wire.still_open(0.3)
    tell(wire, V1 + GET)
    tell(wire)
    pattern = r"Th=(\d+) Ti=(\d+) TR=(\d+) Tq=(\d+) Tt=(\d+) Ta=(\d+)"
    first, second = ([int(n) for n in found.groups()] for found in sink.wait(pattern, count=2))
    assert first[0] >= 299
    assert first[3] == sum(first[:3])
    assert first[4] == first[0] + first[1] + first[5]
    assert second[0] == 0
    assert second[3] == sum(second[:3])


# --- what servers are sent


def speaker(headers: list[bytes]) -> Callable[[Wire], None]:
    """A server that keeps the PROXY headers of its connections, and answers with their number."""

    def one(wire: Wire) -> None:
        start = wire.read_exactly(12)
        if start == SIGNATURE:
            start += wire.read_exactly(4)
            start += wire.read_exactly(int.from_bytes(start[14:]))
        else:
            start += wire.read_until(b"\r\n")
        headers.append(start)
        number = len(headers)
        for _ in itertools.count():
            wire.read_until(b"\r\n\r\n")
            wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTell: %d\r\n\r\n" % number)

    return one


def asks(wire: Wire) -> bytes:
    wire.send(GET)
    return wire.read_head().get("tell") or b""


def sent_v1(wire: Wire, running) -> bytes:
    host, port = wire.sock.getsockname()
    return f"PROXY TCP4 {host} {host} {port} {running.port()}\r\n".encode()


def sent_v2(wire: Wire, running, tlvs: bytes = b"") -> bytes:
    host, port = wire.sock.getsockname()
    address = socket.inet_aton(host)
    ports = struct.pack("!HH", port, running.port())
    return v2(0x21, 0x11, address + address + ports + tlvs)


@pytest.mark.parametrize("mode", ["tcp", "http"])
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("send-proxy", sent_v1),
        ("send-proxy-v2", sent_v2),
        ("send-proxy send-proxy-v2", sent_v2),
        ("send-proxy send-proxy-v2 no-send-proxy-v2", sent_v1),
    ],
)
def test_sending_a_header(proxy, serve, mode, words, expected) -> None:
    headers: list[bytes] = []
    server = serve(speaker(headers))
    running = proxy((tcp if mode == "tcp" else http)(server.port, server=words))
    wire = running.connect()
    assert asks(wire) == b"1"
    assert headers == [expected(wire, running)]


def test_sending_a_checksum(proxy, serve) -> None:
    headers: list[bytes] = []
    words = "send-proxy-v2 proxy-v2-options crc32c"
    running = proxy(http(serve(speaker(headers)).port, server=words))
    wire = running.connect()
    assert asks(wire) == b"1"
    expected = sent_v2(wire, running, b"\3\0\4\0\0\0\0")
    assert headers == [expected[:-4] + crc32c(expected).to_bytes(4)]


def test_sending_a_unique_id(proxy, serve) -> None:
    """One for each request, hence a connection for each."""
    headers: list[bytes] = []
    config = http(
        serve(speaker(headers)).port,
        fe="unique-id-format id-%[req.hdr(x)]",
        server="send-proxy-v2 proxy-v2-options unique-id",
    )
    running = proxy(config)
    wire = running.connect()
    for word in (b"a", b"b"):
        wire.send(GET.replace(b"Host: h", b"Host: h\r\nx: " + word))
        wire.read_head()
    assert headers == [sent_v2(wire, running, b"\5\0\4id-" + word) for word in (b"a", b"b")]


def test_passing_an_authority_on(proxy, serve) -> None:
    headers: list[bytes] = []
    config = http(
        serve(speaker(headers)).port, server="send-proxy-v2 proxy-v2-options authority,unique-id"
    )
    running = proxy(config.replace('bind "fd@${fe}"', 'bind "fd@${fe}" accept-proxy'))
    wire = running.connect()
    wire.send(v2(0x21, 0x11, ADDRESSES + b"\2\0\4name"))
    assert asks(wire) == b"1"
    assert headers == [v2(0x21, 0x11, ADDRESSES + b"\2\0\4name\5\0\0")]


def test_a_header_tells_what_rules_made_of_the_client(proxy, serve) -> None:
    headers: list[bytes] = []
    running = proxy(
        http(
            serve(speaker(headers)).port,
            fe="http-request set-src ipv6(2001:db8::1)\nhttp-request set-src-port int(7)",
            server="send-proxy",
        )
    )
    assert asks(running.connect()) == b"1"
    line = f"PROXY TCP6 2001:db8::1 ::ffff:127.0.0.1 7 {running.port()}\r\n"
    assert headers == [line.encode()]


def test_a_client_without_an_address(proxy, serve, tmp_path) -> None:
    headers: list[bytes] = []
    port = serve(speaker(headers)).port
    running = proxy(
        http(port, server="send-proxy", fe=f"bind unix@{tmp_path}/s")
        + f"backend other\n    server s 127.0.0.1:{port} send-proxy-v2\n"
        + f"frontend two\n    bind unix@{tmp_path}/t\n    default_backend other\n"
    )
    for name in ("s", "t"):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(f"{tmp_path}/{name}")
            asks(Wire(sock))
    assert running.alive()
    assert headers == [b"PROXY UNKNOWN\r\n", v2(0x20, 0)]


@pytest.mark.parametrize("reuse", ["safe", "always", "never"])
def test_server_connections_stay_with_their_client(proxy, serve, reuse) -> None:
    headers: list[bytes] = []
    server = serve(speaker(headers))
    running = proxy(http(server.port, be=f"http-reuse {reuse}", server="send-proxy"))
    one, two = running.connect(), running.connect()
    assert [asks(one), asks(two), asks(one), asks(two), asks(one)] == [b"1", b"2", b"1", b"2", b"1"]
    three = running.connect()
    expected = [sent_v1(wire, running) for wire in (one, two, three)]
    one.close()
    assert asks(three) == b"3"
    assert headers == expected


def test_other_servers_connections_are_shared(proxy, serve) -> None:
    """One server of two wants headers; the other's connections are anybody's."""
    headers: list[bytes] = []
    plain: list[int] = []

    def other(wire: Wire) -> None:
        plain.append(1)
        number = len(plain)
        while wire.read_until(b"\r\n\r\n"):
            wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTell: p%d\r\n\r\n" % number)

    running = proxy(
        http(
            serve(speaker(headers)).port,
            head="global\n    nbthread 1\n" + HTTP,
            be=f"http-reuse always\nserver s2 127.0.0.1:{serve(other).port}"
            "\nuse-server s2 if { path /plain }\nuse-server s1 unless { path /plain }",
            server="send-proxy",
        )
    )

    def ask_plain(wire: Wire) -> bytes:
        wire.send(GET.replace(b" / ", b" /plain "))
        return wire.read_head().get("tell") or b""

    one, two = running.connect(), running.connect()
    assert [ask_plain(one), asks(one), ask_plain(two), asks(two)] == [b"p1", b"1", b"p1", b"2"]
    assert [ask_plain(one), asks(one)] == [b"p1", b"1"]


@pytest.mark.parametrize(
    ("words", "version"),
    [
        ("check-send-proxy", 1),
        ("send-proxy", 1),
        ("send-proxy-v2", 2),
        ("send-proxy-v2 check-send-proxy addr 127.0.0.1", 2),
    ],
)
def test_health_checks_send_it_too(proxy, serve, words, version) -> None:
    got: list[bytes] = []

    def one(wire: Wire) -> None:
        got.append(ends(wire))

    server = serve(one)
    running = proxy(http(server.port, server=f"check inter 200ms {words}"))
    data = wait_until(lambda: [one for one in got if one], "a check that was not cut off")[0]
    line = rf"PROXY TCP4 127\.0\.0\.1 127\.0\.0\.1 \d+ {server.port}\r\n".encode()
    assert re.fullmatch(line, data) if version == 1 else data == v2(0x20, 0)
    assert running.server_status("be", "s1") == "UP"


def test_health_checks_that_say_who_they_are(proxy, serve) -> None:
    """`pp2-never-send-local`: a check is a client like any other."""
    got: list[bytes] = []
    server = serve(lambda wire: got.append(ends(wire)))
    head = "global\n    pp2-never-send-local\n" + HTTP
    proxy(http(server.port, head=head, server="check inter 200ms send-proxy-v2"))
    data = wait_until(lambda: [one for one in got if one], "a check that was not cut off")[0]
    host = socket.inet_aton("127.0.0.1")
    assert data[:24] == v2(0x21, 0x11, bytes(12))[:16] + host + host
    assert data[26:] == struct.pack("!H", server.port)


def test_a_chain(proxy, serve, sink, tmp_path) -> None:
    """What one listener sends another one reads, says in its log and passes on."""
    headers: list[bytes] = []
    server = serve(speaker(headers))
    running = proxy(
        logging(sink)
        + f"""
listen outer
    bind "fd@${{fe}}"
    http-request set-src ipv4(203.0.113.9)
    server s unix@{tmp_path}/s send-proxy-v2
listen inner
    bind unix@{tmp_path}/s accept-proxy
    server s 127.0.0.1:{server.port} send-proxy
"""
    )
    wire = running.connect()
    assert asks(wire) == b"1"
    port = wire.sock.getsockname()[1]
    line = f"PROXY TCP4 203.0.113.9 127.0.0.1 {port} {running.port()}\r\n"
    assert headers == [line.encode()]
    for name in ("outer", "inner"):
        assert sink.wait(rf"^203\.0\.113\.9:{port} \[.*\] {name} {name}/s .* 200 ")
