"""More whole configurations: a site with everything in front of it, lines of JSON and environment
variables, a file of old, mail and databases.
"""

from __future__ import annotations

from functools import partial

from tests.differential.case import request
from tests.differential.whole.stage import Site, Stage, Talker, Whole

# -- a public site: bots, passwords, redirects, headers for browsers

_SITE = """
global
    log @LOG@ len 4096 local0 info
    maxconn 5000

userlist editors
    group staff users ada
    user ada insecure-password lovelace
    user eve insecure-password apple

defaults
    mode http
    log global
    option httplog
    option dontlognull
    option http-keep-alive
    option forwardfor header X-Real-IP
    timeout connect 3s
    timeout client 30s
    timeout server 30s
    timeout http-request 5s
    timeout http-keep-alive 5s
    timeout tarpit 300ms

frontend public
    bind "fd@${web}"
    acl bad_bot hdr_sub(user-agent) -i -f @DIR@/bots.lst
    acl acme path_beg /.well-known/acme-challenge/
    acl secure hdr(x-forwarded-proto) -i https
    acl www hdr_beg(host) -i www.
    acl api path_beg /api/
    acl editors_only path_beg -i /wp-admin
    acl preflight method OPTIONS
    acl too_long url_len gt 200
    http-request tarpit deny_status 403 if bad_bot
    http-request deny deny_status 413 if too_long
    http-request redirect scheme https code 301 if !secure !acme !api
    http-request redirect prefix https://example.org code 308 if www
    http-request auth realm editors if editors_only !{ http_auth_group(editors) staff }
    http-request return status 204 hdr Access-Control-Allow-Methods "GET, POST" hdr Access-Control-Max-Age 600 if api preflight
    http-request set-header X-Forwarded-Host %[req.hdr(Host)]
    http-request del-header Proxy
    http-request replace-uri ^/old/(.*) /new/\\1
    http-request set-query %[query,regsub(utm_[a-z]+=[^&]*&?,,g)] if { query -m sub utm_ }
    http-request set-log-level silent if { path /quiet }
    http-response set-header Strict-Transport-Security "max-age=31536000; includeSubDomains" if { var(txn.secure) -m bool }
    http-response set-header X-Cache-Status "%[res.hdr(age),iif(HIT,MISS)]"
    http-response replace-header Set-Cookie (.*) "\\1; Secure"
    http-response del-header X-Powered-By
    http-request set-var(txn.secure) bool(true) if secure
    use_backend acme if acme
    use_backend api if api
    default_backend web

backend web
    http-response set-header X-Backend %b/%s
    http-response replace-value Vary Cookie Accept-Encoding
    server web1 @WEB@

backend api
    http-request set-path %[path,regsub(^/api,)]
    http-response add-header Access-Control-Allow-Origin *
    server api1 @WEB@

backend acme
    errorloc302 503 http://example.org/later
    server none 127.0.0.1:1 disabled
"""
_POWERED = (
    b"HTTP/1.1 200 OK\r\nX-Powered-By: php\r\nSet-Cookie: a=b\r\nset-cookie: c=d; Path=/\r\n"
    b"Vary: Cookie, Origin\r\nage: 5\r\ncontent-length: 2\r\n\r\nhi"
)


def _site(stage: Stage) -> None:
    https = "X-Forwarded-Proto: https"
    for data in (
        request("/", "Host: example.org"),
        request("/a?utm_source=x&q=1&utm_medium=y", "Host: example.org", https, "Proxy: bad"),
        request("/old/page", "Host: example.org", https),
        request("/x", "Host: www.example.org", https),
        request("/", "Host: example.org", https, "User-Agent: EvilBot/2.0"),
        request("/wp-admin/", "Host: example.org", https),
        request("/wp-admin/", "Host: example.org", https, "Authorization: Basic ZXZlOmFwcGxl"),
        request("/wp-admin/", "Host: example.org", https, "Authorization: Basic YWRhOmxvdmVsYWNl"),
        request("/api/v1", "Host: example.org", method="OPTIONS"),
        request("/api/v1", "Host: example.org"),
        request("/api/post", "Host: example.org", method="POST", body="a=b"),
        request("/.well-known/acme-challenge/t", "Host: example.org"),
        request("/powered", "Host: example.org", https),
        request("/" + "x" * 250, "Host: example.org", https),
    ):
        stage.ask("web", data)
    stage.ask("web", request("/quiet", "Host: example.org", https), 0)


# -- environment variables, a line of JSON for each request, numbers for each

_JSON = """
global
    log @LOG@ format rfc3164 local3
    setenv APP_NAME shop
    presetenv APP_PORT @APPPORT@
    presetenv LOG_LEVEL info
    unsetenv NOTHING_AT_ALL

defaults
    mode http
    log global
    timeout connect 5s
    timeout client "${CLIENT_TIMEOUT-30s}"
    timeout server 30s
    unique-id-format %[str(id)]-%[req.hdr(x-number)]
    unique-id-header X-Request-ID

frontend "${APP_NAME}-in"
    bind "fd@${web}"
    declare capture request len 64
    http-request capture req.hdr(user-agent) id 0
    http-request capture req.cook(session) len 8
    http-response set-var(txn.size) res.hdr(content-length)
    log-format '{"pid":"app","client":"%ci","frontend":"%f","backend":"%b","server":"%s","status":%ST,"state":"%ts","method":"%HM","path":"%HPO","query":"%HQ","version":"%HV","id":"%ID","agent":"%[capture.req.hdr(0),json]","session":"%[capture.req.hdr(1)]","size":"%[var(txn.size)]","env":"%[env(APP_NAME)]","retries":"%rc","captured":"%hr"}'
    error-log-format "bad %ci %f %ts %[fc_err]"
    default_backend "${APP_NAME}"

backend "${APP_NAME}"
    http-request set-header X-App "${APP_NAME}"
    http-response set-header X-Id %[unique-id]
    server "${APP_NAME}1" "127.0.0.1:${APP_PORT}"
"""


def _json(stage: Stage) -> None:
    for data in (
        request("/a%20b?x=1", 'User-Agent: a "quoted" \\ agent', "x-number: 7"),
        request("/", "Cookie: session=0123456789; other=x", "x-number: 8", "x-request-id: theirs"),
        request("/p", method="POST", body="x" * 10),
        request("/head", method="HEAD"),
    ):
        stage.ask("web", data)
    stage.ask("web", b"NOT HTTP AT ALL\r\n\r\n")


# -- a file of ten years ago, as far as it still loads

_OLD = """
global
    log @LOG@ local0
    log @LOG@ local1 notice
    maxconn 4096
    quiet

defaults
    log global
    mode http
    option httplog
    option dontlognull
    retries 3
    option redispatch
    maxconn 2000
    timeout connect 5000
    timeout client 50000
    timeout server 50000

listen webfarm
    bind "fd@${web}"
    mode http
    stats enable
    stats auth someuser:somepassword
    balance roundrobin
    cookie JSESSIONID prefix
    option httpclose
    option forwardfor
    option httpchk HEAD /health.txt HTTP/1.0
    server webA @A@ cookie A check inter 300
    server webB @B@ cookie B check inter 300
    server spare @C@ backup

listen appli-rewrite
    bind "fd@${app}"
    cookie SERVERID rewrite
    balance roundrobin
    server app1_1 @A@ cookie app1inst1 check inter 2000 rise 2 fall 5
    server app1_2 @B@ cookie app1inst2 check inter 2000 rise 2 fall 5
    capture cookie SERVERID len 32
"""


def _cookie(name: str) -> bytes:
    return (
        f"HTTP/1.1 200 OK\r\nset-cookie: JSESSIONID={name}; path=/\r\n"
        f"set-cookie: SERVERID=old\r\ncontent-length: 1\r\n\r\n{name}"
    ).encode()


def _old(stage: Stage) -> None:
    stage.checked("webfarm/webA", "webfarm/webB", "appli-rewrite/app1_1", "appli-rewrite/app1_2")
    for target in ("/login", "/login", "/page"):
        stage.ask("web", request(target))
    stage.ask("web", request("/in", "cookie: JSESSIONID=B~xyz; a=b"))
    stage.ask("web", request("/in", "cookie: JSESSIONID=Z~xyz"))
    for target in ("/login", "/login"):
        stage.ask("app", request(target))
    stage.ask("app", request("/in", "cookie: SERVERID=app1inst2"))
    for name, server in (("a", "webA"), ("b", "webB")):
        site = stage.sites[name]
        assert isinstance(site, Site)
        site.health = 503
        stage.status("webfarm", server, "DOWN")
    stage.ask("web", request("/spare", "cookie: JSESSIONID=B~xyz"))
    stage.ask("web", request("/haproxy?stats", method="HEAD"))


# -- mail and databases

_MAIL = """
global
    log @LOG@ local0

defaults
    mode tcp
    log global
    option tcplog
    timeout connect 5s
    timeout client 30s
    timeout server 30s
    timeout check 5s
    default-server inter 300ms fall 1 rise 1

listen smtp
    bind "fd@${smtp}"
    option smtpchk EHLO mx.example.org
    option tcpka
    server mx1 @MX@ check

listen postgres
    bind "fd@${pg}"
    option pgsql-check user checker
    server pg1 @PG@ check observe layer4

listen ldap
    bind "fd@${ldap}"
    option ldap-check
    balance source
    server ldap1 @LDAP@ check

listen cache
    bind "fd@${cache}"
    option tcp-check
    tcp-check connect
    tcp-check send-binary 76657273696f6e0d0a
    tcp-check expect rstring ^VERSION
    server mem1 @MEM@ check
"""
_BIND_ANSWER = bytes.fromhex("300c02010161070a010004000400")
_LOGIN_ASKED = b"R\x00\x00\x00\x08\x00\x00\x00\x03"


def _smtp(piece: bytes) -> bytes:
    if piece.startswith(b"QUIT"):
        return b"221 bye\r\n"
    return b"250 mx\r\n"


def _mail(stage: Stage) -> None:
    stage.checked("smtp/mx1", "postgres/pg1", "ldap/ldap1", "cache/mem1")
    for proxy, server in (
        ("smtp", "mx1"), ("postgres", "pg1"), ("ldap", "ldap1"), ("cache", "mem1"),
    ):  # fmt: skip
        row = stage.program.stat(proxy, server)
        stage.note(
            f"{proxy} {row['status']} {row['check_status']} {row['check_code']} {row['last_chk']}"
        )
    stage.exchange("smtp", b"NOOP\r\n")
    stage.exchange("pg", b"startup")
    stage.exchange("ldap", b"bind")
    stage.exchange("cache", b"get x\r\n")
    stage.cli("set server cache/mem1 state maint")
    stage.event("proxy cache has no server available!")
    stage.exchange("cache", b"get y\r\n")


ALL = (
    Whole(
        "a public site",
        _SITE,
        _site,
        {"web": partial(Site, "web", {"/powered": _POWERED})},
        {"bots.lst": "# robots\nevilbot\nscrapy\n"},
    ),
    Whole("lines of json", _JSON, _json, {"app": partial(Site, "app")}),
    Whole(
        "a file of old",
        _OLD,
        _old,
        {name: partial(Site, name, {"/login": _cookie(name)}) for name in ("a", "b", "c")},
        known={"sessions 9": "HAProxy logs a 401 of its page as 400"},
    ),
    Whole(
        "mail and databases",
        _MAIL,
        _mail,
        {
            "mx": partial(Talker, _smtp, greeting=b"220 mx ESMTP\r\n", quiet=rb"\A(EHLO|QUIT)"),
            "pg": partial(Talker, lambda _: _LOGIN_ASKED, quiet=rb"checker"),
            "ldap": partial(Talker, lambda _: _BIND_ANSWER, quiet=rb"\A0"),
            "mem": partial(Talker, lambda _: b"VERSION 1.6\r\n", quiet=rb"\Aversion"),
        },
        known={"notes 2": "HAProxy forgets what an LDAP check found before the check is over"},
    ),
)
