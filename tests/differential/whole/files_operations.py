"""Whole configurations of operators: the page, blue and green, maintenance, names by DNS."""

from __future__ import annotations

import base64
from functools import partial

from mtproxy.testing.waiting import wait_until
from tests.differential.case import request
from tests.differential.whole.stage import Site, Stage, Whole

# -- the page in a listen section of its own

_STATS = """
global
    log @LOG@ local0
    maxconn 4000
    node lb-1
    description the first one

defaults
    mode http
    log global
    option httplog
    option redispatch
    retries 3
    timeout connect 10s
    timeout client 1m
    timeout server 1m

listen stats
    bind "fd@${stats}"
    mode http
    maxconn 50
    stats enable
    stats hide-version
    stats realm HAProxy\\ Statistics
    stats uri /haproxy_stats
    stats refresh 30s
    stats show-node
    stats show-legends
    stats auth admin:s3cret
    stats auth guest:guest
    stats admin if { src 127.0.0.1 }

listen app
    bind "fd@${web}"
    balance roundrobin
    server a @A@ check inter 1h
    server b @B@ check inter 1h backup
"""


def _auth(account: str) -> str:
    return "Authorization: Basic " + base64.b64encode(account.encode()).decode()


def _stats(stage: Stage) -> None:
    stage.checked("app/a", "app/b")
    stage.ask("web", request("/1"))
    stage.ask("stats", request("/haproxy_stats", method="HEAD"))
    stage.ask("stats", request("/haproxy_stats", _auth("admin:wrong"), method="HEAD"))
    stage.ask("stats", request("/haproxy_stats", _auth("guest:guest"), method="HEAD"))
    stage.ask("stats", request("/other", _auth("guest:guest")))
    for action in ("drain", "maint", "ready", "maint"):
        form = f"s=a&action={action}&b=%23{_ID_OF_APP}"
        stage.ask(
            "stats",
            request("/haproxy_stats", _auth("admin:s3cret"), method="POST", body=form),
        )
        stage.ask("web", request(f"/{action}"))
        for server in ("a", "b"):
            row = stage.program.stat("app", server)
            fields = ("status", "weight", "act", "bck", "chkdown", "lbtot", "hrsp_2xx")
            stage.note(" ".join(f"{field}={row[field]}" for field in fields))


#: the page's forms name a proxy by its number: stats is 2, behind the runtime socket
_ID_OF_APP = 3

# -- blue and green

_BLUE_GREEN = """
global
    log @LOG@ local0

defaults
    mode http
    log global
    option httplog
    option redispatch
    retries 2
    timeout connect 5s
    timeout client 30s
    timeout server 30s
    timeout queue 10s
    default-server inter 200ms fall 3 rise 2

frontend public
    bind "fd@${web}"
    option forwardfor
    capture cookie COLOUR= len 16
    acl preview hdr(x-preview) -m found
    use_backend green if preview
    default_backend live

backend live
    balance roundrobin
    cookie COLOUR insert indirect nocache httponly
    option httpchk GET /health
    http-check expect rstatus ^2[0-9][0-9]
    server blue @BLUE@ check cookie blue weight 100
    server green @GREEN@ check cookie green weight 1 disabled

backend green
    server green @GREEN@ track live/green
"""


def _blue_green(stage: Stage) -> None:
    stage.checked("live/blue")
    sticky = "cookie: COLOUR=blue"
    stage.ask("web", request("/1"))
    stage.ask("web", request("/2", sticky))
    stage.ask("web", request("/preview", "x-preview: 1"))
    stage.cli("enable server live/green")
    stage.checked("live/green")
    stage.status("live", "green", "UP")
    stage.ask("web", request("/preview", "x-preview: 1"))
    stage.cli("set server live/blue weight 50%")
    stage.cli("get weight live/blue")
    stage.cli("set server live/blue state drain")
    stage.ask("web", request("/3"))
    stage.ask("web", request("/4", sticky))
    stage.cli("set server live/blue state maint")
    stage.ask("web", request("/5", sticky))
    stage.ask("web", request("/6", "cookie: COLOUR=nobody"))
    stage.cli("set server live/green state maint")
    stage.event("backend live has no server available!")
    stage.ask("web", request("/7", sticky))
    stage.cli("set server live/blue state ready")
    stage.status("live", "blue", "UP")
    stage.ask("web", request("/8", sticky))
    state = stage.program.cli("show servers state live")
    for line in state.splitlines()[2:]:
        words = line.split()
        # no addresses, no times
        stage.note(" ".join(words[1:2] + words[3:4] + words[5:9] + words[10:16]))


# -- maintenance

_MAINTENANCE = """
global
    log @LOG@ local0

http-errors ours
    errorfile 400 @DIR@/400.http
    errorfile 503 @DIR@/503.http

defaults
    mode http
    log global
    option httplog
    option dontlog-normal
    timeout connect 5s
    timeout client 30s
    timeout server 30s
    errorfiles ours

frontend www
    bind "fd@${web}"
    monitor-uri /healthz
    acl no_app nbsrv(app) lt 1
    monitor fail if no_app
    acl closed str(closed),map_str(@DIR@/flags.map,no) -m str yes
    acl staff src 10.0.0.0/8
    http-request return status 503 content-type text/html file @DIR@/closed.html hdr Retry-After 3600 if closed !staff !{ path /favicon.ico }
    http-request return status 204 if { path /favicon.ico }
    errorfile 502 @DIR@/502.http
    default_backend app

backend app
    option httpchk GET /health
    retries 1
    server a @A@ check inter 200ms
    server b 127.0.0.1:1 disabled
"""
_PAGE = "HTTP/1.1 {0}\r\nCache-Control: no-cache\r\nContent-Type: text/html\r\nContent-Length: {1}\r\n\r\n{2}"
_PAGES = {
    "400.http": _PAGE.format("400 No", 2, "no"),
    "502.http": _PAGE.format("502 Broken", 6, "broken"),
    "503.http": _PAGE.format("503 Soon", 4, "soon"),
    "closed.html": "<h1>We are closed</h1>\n",
    "flags.map": "closed no\n",
}


def _maintenance(stage: Stage) -> None:
    stage.checked("app/a")
    flags = f"{stage.directory}/flags.map"
    stage.ask("web", request("/"), 0)
    stage.ask("web", request("/healthz"), 0)
    stage.ask("web", request("/broken"))
    stage.ask("web", b"GET / HTTP/1.1\r\nhost: h\r\nno colon\r\n\r\n")
    stage.cli(f"set map {flags} closed yes")
    stage.ask("web", request("/shop"))
    stage.ask("web", request("/favicon.ico"), 0)
    stage.ask("web", request("/healthz"), 0)
    stage.cli(f"set map {flags} closed no")
    stage.cli("disable server app/a")
    stage.event("backend app has no server available!")
    stage.ask("web", request("/healthz"), 0)
    stage.ask("web", request("/shop"))
    stage.cli("enable server app/a")
    stage.status("app", "a", "UP")
    stage.ask("web", request("/healthz"), 0)


# -- servers by name

_NAMES = """
global
    log @LOG@ local0

resolvers cluster
    nameserver dns1 @DNS@
    accepted_payload_size 8192
    resolve_retries 3
    timeout resolve 100ms
    timeout retry 1s
    hold valid 100ms
    hold obsolete 0s
    hold nx 100ms
    hold other 30s

defaults
    mode http
    log global
    option httplog
    timeout connect 5s
    timeout client 30s
    timeout server 30s

frontend web
    bind "fd@${web}"
    default_backend app

backend app
    balance roundrobin
    server-template app 3 app.cluster.local:@SITEPORT@ resolvers cluster resolve-prefer ipv4 init-addr none

backend one
    server fixed one.cluster.local:@SITEPORT@ resolvers cluster init-addr last,libc,none
"""
_APP = ("app.cluster.local", "A")


def _servers(stage: Stage) -> dict[str, str]:
    found = {}
    for line in stage.program.cli("show servers state app").splitlines()[2:]:
        words = line.split()
        if words:
            found[words[3]] = words[4]
    return found


def _names(stage: Stage) -> None:
    def addresses(*wanted: str) -> None:
        def there() -> bool:
            up = [n for n in ("app1", "app2", "app3") if _is_up(stage, n)]
            found = _servers(stage)
            return sorted(found[name] for name in up) == sorted(wanted)

        wait_until(there, f"servers at {wanted}")
        stage.note(sorted(wanted))

    addresses("127.0.0.1")
    for number in range(2):
        stage.ask("web", request(f"/{number}"))
    stage.names.answers = {**stage.names.answers, _APP: ["127.0.0.1", "127.0.0.2"]}
    addresses("127.0.0.1", "127.0.0.2")
    stage.ask("web", request("/two"))
    stage.names.answers = {**stage.names.answers, _APP: ["127.0.0.2"]}
    addresses("127.0.0.2")
    stage.ask("web", request("/moved"))
    stage.names.answers = {
        name: texts for name, texts in stage.names.answers.items() if name != _APP
    }
    stage.event("backend app has no server available!")
    stage.ask("web", request("/nobody"))


def _is_up(stage: Stage, name: str) -> bool:
    return stage.program.server_status("app", name) in ("UP", "no check")


ALL = (
    Whole(
        "the page in a listen section",
        _STATS,
        _stats,
        {"a": partial(Site, "a"), "b": partial(Site, "b")},
        known=dict.fromkeys(("sessions 1", "sessions 2"), "HAProxy logs a 401 of its page as 400"),
    ),
    Whole(
        "blue and green",
        _BLUE_GREEN,
        _blue_green,
        {"blue": partial(Site, "blue"), "green": partial(Site, "green")},
    ),
    Whole(
        "maintenance and monitoring",
        _MAINTENANCE,
        _maintenance,
        {"a": partial(Site, "a", {"/broken": b"nonsense\r\n\r\n"})},
        _PAGES,
    ),
    Whole(
        "servers by name",
        _NAMES,
        _names,
        {"site": partial(Site, "site", every_address=True)},
        names={_APP: ["127.0.0.1"], ("one.cluster.local", "A"): ["127.0.0.1"]},
    ),
)
