"""Whole configurations of sites: Debian's default and a site, containers, services by path, limits,
web sockets.
"""

from __future__ import annotations

from functools import partial

from tests.differential.case import request
from tests.differential.whole.stage import Site, Stage, Whole

_PAGE = "HTTP/1.0 {0} {1}\r\nCache-Control: no-cache\r\nConnection: close\r\nContent-Type: text/html\r\n\r\n<html><body><h1>{0} {1}</h1>\nOurs.\n</body></html>\n"
_PAGES = {
    f"{status}.http": _PAGE.format(status, reason)
    for status, reason in {
        400: "Bad request",
        403: "Forbidden",
        408: "Request Time-out",
        500: "Internal Server Error",
        502: "Bad Gateway",
        503: "Service Unavailable",
        504: "Gateway Time-out",
    }.items()
}

# -- Debian's file, and a site

_DEBIAN = """
global
    log @LOG@ local0
    log @LOG@ local1 notice
    chroot @DIR@
    stats timeout 30s
    user nobody
    group nogroup
    daemon

    # Default SSL material locations
    ca-base /etc/ssl/certs
    crt-base /etc/ssl/private

    # See: https://ssl-config.mozilla.org/#server=haproxy&server-version=2.0.3&config=intermediate
    ssl-default-bind-ciphers ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256
    ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384
    ssl-default-bind-options ssl-min-ver TLSv1.2 no-tls-tickets

defaults
    log     global
    mode    http
    option  httplog
    option  dontlognull
    timeout connect 5000
    timeout client  50000
    timeout server  50000
    errorfile 400 @DIR@/400.http
    errorfile 403 @DIR@/403.http
    errorfile 408 @DIR@/408.http
    errorfile 500 @DIR@/500.http
    errorfile 502 @DIR@/502.http
    errorfile 503 @DIR@/503.http
    errorfile 504 @DIR@/504.http

frontend http-in
    bind "fd@${web}"
    acl blocked path_beg -i /admin
    acl static path_end .css .png
    http-request deny if blocked
    http-request redirect location /index.html code 301 if { path / }
    use_backend statics if static
    default_backend sites

backend sites
    balance roundrobin
    option httpchk HEAD /health HTTP/1.1\\r\\nHost:localhost
    option forwardfor
    cookie SERVERID insert indirect nocache
    server site1 @ONE@ check inter 500 rise 1 fall 1 cookie s1
    server site2 @TWO@ check inter 500 rise 1 fall 1 cookie s2

backend statics
    server files @ONE@
"""


def _debian(stage: Stage) -> None:
    stage.checked("sites/site1", "sites/site2")
    for target in ("/", "/a", "/b", "/x.css", "/ADMIN/x"):
        stage.ask("web", request(target))
    stage.ask("web", request("/c", "cookie: a=b; SERVERID=s2; c=d"))
    stage.ask("web", b"GET /bad HTTP/1.1\r\nhost: h\r\nno colon\r\n\r\n")
    client = stage.client("web")
    for target in ("/1", "/2", "/3"):
        stage.ask(client, request(target, "cookie: SERVERID=s1"))
    client.close()
    with stage.wire("web"):
        pass  # dontlognull: nothing is said of it
    one, two = stage.sites["one"], stage.sites["two"]
    assert isinstance(one, Site) and isinstance(two, Site)
    two.health = 500
    stage.status("sites", "site2", "DOWN")
    stage.ask("web", request("/d", "cookie: SERVERID=s2"))
    one.health = 500
    stage.status("sites", "site1", "DOWN")
    stage.event("backend sites has no server available!")
    stage.ask("web", request("/e"))
    one.health = 200
    stage.status("sites", "site1", "UP")
    stage.ask("web", request("/f"))


# -- a container: everything to standard output

_DOCKER = """
global
    log stdout format raw local0 info
    maxconn 4096

defaults
    mode http
    log global
    option httplog
    option dontlognull
    option forwardfor except 127.0.0.0/8
    option http-server-close
    option redispatch
    retries 3
    timeout connect 5s
    timeout client 1m
    timeout server 1m
    timeout http-request 10s
    timeout http-keep-alive 10s
    timeout check 10s
    maxconn 3000

frontend http
    bind "fd@${web}"
    http-request set-header X-Forwarded-Proto https if { ssl_fc }
    http-request set-header X-Forwarded-Proto http unless { ssl_fc }
    http-request set-header X-Forwarded-Port %[dst_port]
    http-request add-header X-Request-Start t=now
    use_backend api if { hdr_beg(host) -i api. }
    default_backend app

backend app
    balance leastconn
    http-response set-header X-Frame-Options DENY
    http-response del-header Server
    server app1 @APP@ check inter 1h
    server app2 127.0.0.1:1 disabled

backend api
    http-request deny deny_status 405 unless METH_GET
    server api1 @API@
"""


def _docker(stage: Stage) -> None:
    stage.checked("app/app1")
    client = stage.client("web")
    stage.ask(client, request("/"), 0)
    stage.ask(client, request("/server"), 0)
    stage.ask(client, request("/post", method="POST", body="x=1"), 0)
    client.close()
    stage.ask("web", request("/v1", "Host: API.example.org"), 0)
    stage.ask("web", request("/v1", "Host: api.example.org", method="PUT", body="x"), 0)
    stage.ask("web", b"GARBAGE\r\n\r\n", 0)
    stage.cli("set server app/app1 state maint")
    stage.ask("web", request("/gone"), 0)
    stage.printed(r'^127\.0\.0\.1:\d+ \[.*"', 7)


# -- services by path, by host and by a map

_MICRO = """
global
    log @LOG@ local2
    tune.bufsize 32768

defaults
    log global
    mode http
    option httplog
    timeout connect 10s
    timeout client 30s
    timeout server 30s

frontend gateway
    bind "fd@${web}"
    capture request header Host len 20
    capture request header User-Agent len 12
    capture response header Content-Length len 6
    unique-id-format %{+X}o\\ %rc:%pid
    http-request set-var(txn.service) path,map_beg(@DIR@/routes.map,none)
    http-request set-var(txn.tenant) req.hdr(host),lower,field(1,.)
    http-request deny deny_status 404 if { var(txn.service) -m str none } !{ path_reg ^/(legacy|health) }
    http-request return status 200 content-type text/plain string alive if { path /health }
    http-request replace-path /api/v1/(.*) /\\1 if { path_beg /api/v1/ }
    http-request set-header X-Tenant %[var(txn.tenant)]
    http-request set-header X-Service %[var(txn.service)]
    http-request set-header X-Path-Word %[path,word(1,/)]
    http-request set-header X-Clean %[url,regsub(\\?.*,)]
    use_backend %[var(txn.service)] if { var(txn.service) -m found } !{ var(txn.service) -m str none }
    default_backend legacy

backend users
    http-request set-header Host users.internal
    http-response set-header X-Served-By users
    server u1 @USERS@

backend orders
    http-response set-header X-Served-By orders/%s
    http-response deny deny_status 502 if { status 500 }
    server o1 @ORDERS@
    server o2 @ORDERS@ weight 2

backend legacy
    http-request redirect prefix https://old.example.org code 302
    server l1 @USERS@
"""


def _micro(stage: Stage) -> None:
    for target, host in (
        ("/api/v1/users/7?x=1", "Acme.example.org"),
        ("/api/v1/orders", "acme.example.org:8080"),
        ("/orders/1/items", "b.example.org"),
        ("/orders/2", "b.example.org"),
        ("/orders/3", "b.example.org"),
        ("/health", "x"),
        ("/nothing", "x"),
        ("/legacy/a?b", "x"),
        ("/orders/broken", "x"),
    ):
        stage.ask("web", request(target, f"Host: {host}", "User-Agent: tests/1.0 (long)"))
    stage.cli("add map @DIR@/routes.map /new users".replace("@DIR@", stage.directory))
    stage.ask("web", request("/new/x", "Host: c.example.org"))
    stage.cli(f"show map {stage.directory}/routes.map")


_BROKEN = b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n"

# -- limits by stick tables

_LIMITS = """
global
    log @LOG@ local0
    stats timeout 30s

defaults
    mode http
    log global
    option httplog
    timeout connect 5s
    timeout client 30s
    timeout server 30s

backend per_key
    stick-table type string len 32 size 100k expire 30m store http_req_cnt,http_req_rate(10m),gpc0,http_err_cnt

backend per_ip
    stick-table type ip size 1m expire 30m store conn_cnt,http_req_rate(10m),gpc0

frontend fe_limits
    bind "fd@${web}"
    tcp-request connection track-sc0 src table per_ip
    tcp-request connection reject if { src_conn_cnt(per_ip) gt 12 }
    http-request track-sc1 req.hdr(x-api-key) table per_key if { req.hdr(x-api-key) -m found }
    acl too_fast sc_http_req_rate(1,per_key) gt 3
    acl banned sc_get_gpc0(1,per_key) gt 0
    http-request deny deny_status 403 if banned
    http-request sc-inc-gpc0(1) if too_fast { path_beg /login }
    http-request return status 429 content-type text/plain string "slow down" hdr Retry-After 60 if too_fast
    http-request set-header X-Rate %[sc_http_req_rate(1,per_key)]
    default_backend app

backend app
    server a1 @APP@ maxconn 10
"""


def _limits(stage: Stage) -> None:
    for number in range(5):
        stage.ask("web", request(f"/{number}", "x-api-key: alpha"))
    stage.ask("web", request("/missing", "x-api-key: beta"))
    stage.ask("web", request("/login", "x-api-key: alpha"))
    stage.ask("web", request("/again", "x-api-key: alpha"))
    stage.ask("web", request("/free"))
    table = stage.program.cli("show table per_key")
    # neither where an entry is kept nor for how long says anything
    shown = [
        " ".join(word for word in line.split() if not word.startswith(("0x", "exp=")))
        for line in table.splitlines()
    ]
    for text in sorted(shown):
        stage.note(text)
    stage.cli("clear table per_key key alpha")
    stage.ask("web", request("/back", "x-api-key: alpha"))
    for number in range(3):
        stage.ask("web", request(f"/last{number}"), 0 if number == 2 else 1)


# -- web sockets beside pages

_SOCKETS = """
global
    log @LOG@ local0
    maxconn 2048

defaults
    mode http
    log global
    option httplog
    option http-server-close
    option forwardfor
    timeout connect 5s
    timeout client 25s
    timeout client-fin 5s
    timeout server 25s
    timeout tunnel 1h

frontend public
    bind "fd@${web}"
    acl is_websocket hdr(Upgrade) -i WebSocket
    acl is_websocket_path path_beg /socket.io
    acl host_ws hdr_beg(Host) -i ws.
    use_backend ws if is_websocket is_websocket_path
    use_backend ws if host_ws
    default_backend www

backend www
    balance source
    option httpchk GET /health
    http-check expect status 200
    server www1 @WWW@ check inter 1h

backend ws
    balance source
    option http-server-close
    http-request set-header X-Ws 1
    server ws1 @WS@ maxconn 100 weight 10 check inter 1h
"""
_UPGRADE = (
    b"GET %b HTTP/1.1\r\nHost: chat.example.org\r\nConnection: keep-alive, Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    b"Sec-WebSocket-Version: 13\r\n\r\n"
)


def _sockets(stage: Stage) -> None:
    stage.checked("www/www1", "ws/ws1")
    stage.ask("web", request("/"))
    with stage.wire("web") as wire:
        wire.send(_UPGRADE % b"/socket.io/?x=1")
        stage.keep(wire.read_until(b"\r\n\r\n"))
        for text in (b"hello", b"world"):
            wire.send(text)
            stage.keep(wire.read_exactly(5))
        wire.shutdown_write()
        stage.keep(wire.read_to_end())
    stage.wait_lines(2)
    stage.ask("web", request("/page", "Host: WS.example.org"))
    stage.ask("web", request("/socket.io/poll"))


ALL = (
    Whole(
        "debian's default and a site",
        _DEBIAN,
        _debian,
        {"one": partial(Site, "one"), "two": partial(Site, "two")},
        _PAGES,
        root=True,
    ),
    Whole(
        "a container that logs to standard output",
        _DOCKER,
        _docker,
        {
            "app": partial(
                Site,
                "app",
                {"/server": b"HTTP/1.1 200 OK\r\nServer: x\r\ncontent-length: 1\r\n\r\ny"},
            ),
            "api": partial(Site, "api"),
        },
    ),
    Whole(
        "services by path, host and map",
        _MICRO,
        _micro,
        {
            "users": partial(Site, "users"),
            "orders": partial(Site, "orders", {"/orders/broken": _BROKEN}),
        },
        {
            "routes.map": "/api/v1/users users\n/api/v1/orders orders\n/users users\n/orders orders\n"
        },
    ),
    Whole("limits by stick tables", _LIMITS, _limits, {"app": partial(Site, "app")}),
    Whole(
        "web sockets beside pages",
        _SOCKETS,
        _sockets,
        {"www": partial(Site, "www"), "ws": partial(Site, "ws")},
    ),
)
