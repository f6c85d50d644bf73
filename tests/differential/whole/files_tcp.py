"""Whole configurations of mode tcp: redis with its master, mysql, TLS that passes by its name, a
chain of proxies.
"""

from __future__ import annotations

from functools import partial

from mtproxy.testing.wire import Wire
from tests.differential.case import request
from tests.differential.whole.stage import Site, Stage, Talker, Whole

# -- redis: only the master gets clients

_REDIS = """
global
    log @LOG@ local0
    maxconn 1000

defaults REDIS
    mode tcp
    log global
    option tcplog
    option tcpka
    timeout connect 4s
    timeout server 30s
    timeout client 30s

frontend ft_redis
    bind "fd@${redis}" name redis
    default_backend bk_redis

backend bk_redis
    option tcp-check
    tcp-check connect
    tcp-check send PING\\r\\n
    tcp-check expect string +PONG
    tcp-check send info\\ replication\\r\\n
    tcp-check expect string role:master
    tcp-check send QUIT\\r\\n
    tcp-check expect string +OK
    server R1 @R1@ check inter 300ms rise 1 fall 1 on-marked-down shutdown-sessions
    server R2 @R2@ check inter 300ms rise 1 fall 1 on-marked-down shutdown-sessions
"""


class Redis(Talker):
    """Answers a health check by its role, and anything else by its name."""

    def __init__(self, name: str, role: str) -> None:
        self.name = name
        self.role = role
        super().__init__(self._answer, quiet=rb"\A(?:PING|info|QUIT)")

    def _answer(self, piece: bytes) -> bytes:
        if piece.startswith(b"PING"):
            return b"+PONG\r\n"
        if piece.startswith(b"info"):
            return f"$12\r\nrole:{self.role}\r\n".encode()
        if piece.startswith(b"QUIT"):
            return b"+OK\r\n"
        return f"+{self.name}\r\n".encode()


def _redis(stage: Stage) -> None:
    one, two = stage.sites["r1"], stage.sites["r2"]
    assert isinstance(one, Redis)
    assert isinstance(two, Redis)
    stage.checked("bk_redis/R1")
    stage.status("bk_redis", "R2", "DOWN")
    for number in range(2):
        stage.exchange("redis", b"GET key%d\r\n" % number)
    wire = stage.wire("redis")
    wire.send(b"SUBSCRIBE x\r\n")
    stage.keep(wire.read_until(b"\r\n"))
    one.role = "slave"
    # those who are connected are sent away with the master
    stage.keep(_rest(wire))
    stage.wait_lines(3)
    stage.status("bk_redis", "R1", "DOWN")
    stage.event("backend bk_redis has no server available!")
    stage.exchange("redis", b"GET nobody\r\n")
    two.role = "master"
    stage.status("bk_redis", "R2", "UP")
    stage.exchange("redis", b"GET two\r\n")


def _rest(wire: Wire) -> bytes:
    try:
        return wire.read_to_end()
    except AssertionError:
        return b"<RESET>"


# -- mysql: least connections, a backup, a check that logs in

_MYSQL = """
global
    log @LOG@ local0 info

defaults
    log global
    mode tcp
    option tcplog
    option dontlognull
    retries 3
    option redispatch
    maxconn 1024
    timeout connect 5000ms
    timeout client 50000ms
    timeout server 50000ms

listen mysql-cluster
    bind "fd@${mysql}"
    mode tcp
    option mysql-check user haproxy
    balance leastconn
    server mysql-1 @M1@ check inter 300ms fall 1 rise 1 weight 2
    server mysql-2 @M2@ check inter 300ms fall 1 rise 1 backup

listen mysql-log
    bind "fd@${plain}"
    log-format "%ci [%b/%s] %ts %B/%U"
    server mysql-1 @M1@
"""
_GREETING = (
    b"\x0a8.0.30\x00\x07\x00\x00\x00saltsalt\x00\xff\xf7\x21\x02\x00\xff\x81\x15"
    + bytes(10)
    + b"saltsaltsalt\x00"
)
_PACKET = len(_GREETING).to_bytes(3, "little") + b"\x00" + _GREETING
_FINE = b"\x07\x00\x00\x02\x00\x00\x00\x02\x00\x00\x00"
_DENIED = b"\x10\x00\x00\x02\xff\x15\x04#28000denied!"


class Mysql(Talker):
    """Greets, and lets whoever logs in come in, or not."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lets_in = True
        super().__init__(self._answer, greeting=_PACKET, quiet=rb"haproxy|\A\x01\x00\x00\x00\x01\Z")

    def _answer(self, piece: bytes) -> bytes:
        if b"haproxy" in piece:
            return _FINE if self.lets_in else _DENIED
        return self.name.encode()


def _mysql(stage: Stage) -> None:
    one = stage.sites["m1"]
    assert isinstance(one, Mysql)
    stage.checked("mysql-cluster/mysql-1", "mysql-cluster/mysql-2")
    for number in range(2):
        stage.exchange("mysql", b"\x05\x00\x00\x01login%d" % number)
    stage.exchange("plain", b"\x05\x00\x00\x01plain")
    one.lets_in = False
    stage.status("mysql-cluster", "mysql-1", "DOWN")
    stage.exchange("mysql", b"\x05\x00\x00\x01again")
    one.lets_in = True
    stage.status("mysql-cluster", "mysql-1", "UP")
    stage.exchange("mysql", b"\x05\x00\x00\x01back!")
    stage.note(stage.program.stat("mysql-cluster", "mysql-1")["check_status"])


# -- TLS passes by the name that is asked for

_SNI = """
global
    log @LOG@ local0

defaults
    log global
    mode tcp
    option tcplog
    timeout connect 5s
    timeout client 30s
    timeout server 30s

frontend https-in
    bind "fd@${tls}"
    tcp-request inspect-delay 5s
    tcp-request content capture req.ssl_sni len 30
    tcp-request content reject if !{ req.ssl_hello_type 1 }
    tcp-request content accept if { req.ssl_hello_type 1 }
    log-format "%ci:%cp [%t] %ft %b/%s %ts %bc/%sc/%rc {%[capture.req.hdr(0)]}"
    acl is_mail req.ssl_sni -i mail.example.org
    use_backend mail if is_mail
    use_backend apps if { req.ssl_sni -m end -i .apps.example.org }
    use_backend %[req.ssl_sni,lower,map_str(@DIR@/names.map)] if { req.ssl_sni,lower,map_str(@DIR@/names.map) -m found }
    default_backend other

backend mail
    server mail1 @MAIL@

backend apps
    balance source
    option ssl-hello-chk
    server apps1 @APPS@ check inter 300ms fall 1 rise 1

backend shop
    server shop1 @APPS@ send-proxy

backend other
    tcp-request content reject
    server nobody 127.0.0.1:1
"""


def _hello(name: bytes) -> bytes:
    """A ClientHello that asks for `name` (RFC 8446 section 4.1.2, RFC 6066 section 3)."""
    entry = b"\x00" + len(name).to_bytes(2) + name
    listed = len(entry).to_bytes(2) + entry
    extensions = b"\x00\x00" + len(listed).to_bytes(2) + listed
    body = b"\x03\x03" + bytes(32) + b"\x00\x00\x02\x13\x01\x01\x00"
    body += len(extensions).to_bytes(2) + extensions
    message = b"\x01" + len(body).to_bytes(3) + body
    return b"\x16\x03\x01" + len(message).to_bytes(2) + message


def _server_hello(_: bytes) -> bytes:
    return b"\x16\x03\x03\x00\x04\x02\x00\x00\x00"


def _sni(stage: Stage) -> None:
    stage.checked("apps/apps1")
    for name in (b"mail.example.org", b"a.APPS.example.org", b"shop.example.org", b"x.example.com"):
        stage.exchange("tls", _hello(name))
    stage.exchange("tls", b"GET / HTTP/1.0\r\n\r\n")
    with stage.wire("tls") as wire:
        hello = _hello(b"MAIL.example.org")
        for at in range(0, len(hello), 20):
            wire.send(hello[at : at + 20])
        stage.keep(wire.read_exactly(9))
        wire.shutdown_write()
        stage.keep(wire.read_to_end())
    stage.wait_lines(6)


# -- an edge that terminates, and an inner proxy that hears of the client by PROXY headers

_CHAIN = """
global
    log @LOG@ local0

defaults
    mode http
    log global
    option httplog
    timeout connect 5s
    timeout client 30s
    timeout server 30s

listen edge
    log-tag edge
    bind "fd@${edge}" accept-proxy
    mode tcp
    option tcplog
    tcp-request connection reject if { src 192.0.2.66 }
    server inner unix@@DIR@/inner.sock send-proxy-v2

frontend inner
    log-tag inner
    bind unix@@DIR@/inner.sock accept-proxy mode 600
    option forwardfor
    http-request set-header X-Port %[src_port]
    http-request set-header X-Asked %[dst]:%[dst_port]
    http-request deny if { src 192.0.2.0/24 } { path /private }
    default_backend app

backend app
    http-reuse never
    server app1 @APP@ send-proxy
"""


class Proxied(Site):
    """A site whose connections begin with a PROXY line, which is recorded."""

    def _connection(self, wire: Wire) -> None:
        try:
            line = wire.read_until(b"\r\n")
        except AssertionError:
            return
        with self._guard:
            self.heard.append(line)
        super()._connection(wire)


def _chain(stage: Stage) -> None:
    header = "PROXY TCP4 {} 198.51.100.1 {} 443\r\n"
    for address, port, target in (
        ("203.0.113.7", 5001, "/"),
        ("192.0.2.8", 5002, "/private"),
        ("192.0.2.9", 5003, "/open"),
    ):
        stage.ask(
            "edge", header.format(address, port).encode() + request(target, "connection: close"), 2
        )
    stage.ask("edge", b"PROXY UNKNOWN\r\n" + request("/unknown", "connection: close"), 2)
    stage.ask("edge", request("/no-header"), 1)


ALL = (
    Whole(
        "redis and its master",
        _REDIS,
        _redis,
        {"r1": partial(Redis, "one", "master"), "r2": partial(Redis, "two", "slave")},
    ),
    Whole(
        "mysql with a backup",
        _MYSQL,
        _mysql,
        {"m1": partial(Mysql, "one"), "m2": partial(Mysql, "two")},
        known={"events 1": "HAProxy counts such a pass twice, and forgets the version meanwhile"},
    ),
    Whole(
        "tls by name",
        _SNI,
        _sni,
        {
            "mail": partial(Talker, _server_hello),
            "apps": partial(Talker, _server_hello, quiet=rb"\A\x16\x03\x00"),
        },
        {"names.map": "shop.example.org shop\n"},
    ),
    Whole("a chain of proxies", _CHAIN, _chain, {"app": partial(Proxied, "app")}),
)
