"""Whole configurations about which server serves: active and passive with a stick table, rings of
checks that speak HTTP, agents, and sites behind other sites' health.
"""

from __future__ import annotations

from functools import partial

from tests.differential.case import request
from tests.differential.whole.stage import Site, Stage, Talker, Whole

# -- active and passive: who came last stays, until he fails

_PASSIVE = """
global
    log @LOG@ local0

defaults
    mode http
    log global
    option httplog
    timeout connect 2s
    timeout client 30s
    timeout server 30s
    retries 2
    option redispatch 1
    default-server inter 200ms fall 1 rise 1 on-marked-up shutdown-backup-sessions

frontend in
    bind "fd@${web}"
    acl degraded nbsrv(app) lt 2
    http-request set-header X-Degraded yes if degraded
    use_backend sorry if { nbsrv(app) eq 0 } { nbsrv(standby) eq 0 }
    use_backend standby if { nbsrv(app) eq 0 }
    default_backend app

backend app
    stick-table type integer size 1 nopurge
    stick on int(1)
    option httpchk
    http-check connect
    http-check send meth GET uri /health/live ver HTTP/1.1 hdr Host app.internal hdr X-Check yes
    http-check expect status 200-299
    server one @ONE@ check
    server two @TWO@ check

backend standby
    option httpchk OPTIONS /health
    server far @FAR@ check
    server nowhere 127.0.0.1:1 track app/two

backend sorry
    http-request return status 503 content-type text/plain lf-string "sorry, %[nbsrv(app)]/%[nbsrv(standby)] (%[srv_is_up(app/one)])"
"""


def _passive(stage: Stage) -> None:
    stage.checked("app/one", "app/two", "standby/far")
    sites = {name: stage.sites[name] for name in ("one", "two", "far")}

    def turn(name: str, path: str, status: int, shown: str) -> None:
        site = sites[name]
        assert isinstance(site, Site)
        site.health = status
        backend, _, server = path.partition("/")
        stage.status(backend, server, shown)

    for number in range(2):
        stage.ask("web", request(f"/{number}"))
    turn("one", "app/one", 500, "DOWN")
    stage.ask("web", request("/one-is-down"))
    turn("one", "app/one", 204, "UP")
    stage.ask("web", request("/one-is-back"))
    turn("two", "app/two", 503, "DOWN")
    stage.ask("web", request("/two-is-down"))
    turn("one", "app/one", 404, "DOWN")
    stage.event("backend app has no server available!")
    stage.ask("web", request("/standby"))
    turn("far", "standby/far", 500, "DOWN")
    stage.event("backend standby has no server available!")
    stage.ask("web", request("/sorry"))
    turn("two", "app/two", 200, "UP")
    stage.ask("web", request("/two-is-back"))
    stage.note(
        " ".join(
            word
            for word in stage.program.cli("show table app").split()
            if not word.startswith(("0x", "exp="))
        )
    )


# -- agents say what a server can take; use-server and weights choose

_AGENTS = """
global
    log @LOG@ local0

defaults
    mode http
    log global
    option httplog
    timeout connect 2s
    timeout client 30s
    timeout server 30s

frontend in
    bind "fd@${web}"
    default_backend app

backend app
    balance roundrobin
    option httpchk GET /health
    use-server two if { path_beg /two }
    use-server %[req.hdr(x-server)] unless { path_beg /any }
    http-response set-header X-Served-By %s
    server one @ONE@ weight 10 check inter 1h agent-check agent-port @AGENTPORT@ agent-inter 200ms
    server two @TWO@ weight 10 check inter 1h
    server off @TWO@ weight 0
"""


class Agent(Talker):
    """Says its line to whoever connects."""

    def __init__(self) -> None:
        self.line = b"ready up 100%\n"
        super().__init__(lambda _: b"")

    def _connection(self, wire: object) -> None:
        send = wire.send  # type: ignore[attr-defined]
        send(self.line)


def _agents(stage: Stage) -> None:
    agent = stage.sites["agent"]
    assert isinstance(agent, Agent)
    stage.checked("app/one", "app/two")
    for target in ("/any/1", "/any/2", "/two/x"):
        stage.ask("web", request(target))
    stage.ask("web", request("/named", "x-server: one"))
    stage.ask("web", request("/nobody", "x-server: none"))
    stage.ask("web", request("/zero", "x-server: off"))
    for line, shown in (
        (b"drain\n", "DRAIN (agent)"),
        (b"ready\n", "UP"),
        (b"down # disk full\n", "DOWN (agent)"),
        (b"up\n", "UP"),
        (b"maint\n", "MAINT"),
        (b"ready up 50%\n", "UP 1/3"),
    ):
        agent.line = line
        stage.status("app", "one", shown)
        stage.ask("web", request(f"/any/{shown.split()[0]}"))
    stage.cli("get weight app/one")
    stage.cli("set weight app/two 25%")
    for number in range(4):
        stage.ask("web", request(f"/any/w{number}"))


ALL = (
    Whole(
        "active and passive",
        _PASSIVE,
        _passive,
        {name: partial(Site, name) for name in ("one", "two", "far")},
    ),
    Whole(
        "agents and chosen servers",
        _AGENTS,
        _agents,
        {"one": partial(Site, "one"), "two": partial(Site, "two"), "agent": Agent},
    ),
)
