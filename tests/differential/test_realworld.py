"""What public configurations are made of loads in mtproxy where it loads in HAProxy.

Each construct stands in a small configuration of its own; `haproxy -c` says whether it loads. What
a construct does is shown by the families of `cases`, by `endings_table` and by tests/e2e. What this program refuses on purpose names itself
in the message, and old grammar is refused with the name of today's way.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mtproxy.testing.program import run_to_end
from tests.differential import bed
from tests.differential.realworld.refused import (
    HEAD,
    REFUSED,
    back,
    defaults,
    front,
    global_section,
)

# fmt: off
_S = "server s1 127.0.0.1:1"
LOADS = {
    # -- global
    **{f"global: {line}": global_section(line) for line in (
        "log 127.0.0.1 local0", "log /dev/log local0", "log 127.0.0.1 local1 notice", "log stdout format raw local0", "log stdout format raw daemon debug", "log /dev/log local0 info", "maxconn 4096",
        "daemon", "pidfile /var/run/haproxy.pid", "nbthread 4", "stats timeout 30s", "stats socket /tmp/none.sock mode 660 level admin", "stats socket /tmp/none.sock mode 600 level admin expose-fd listeners",
        "tune.bufsize 32768", "cpu-map auto:1/1-4 0-3", "spread-checks 4", "ulimit-n 65536", "node here", "description a proxy", "log-tag proxy", "log-send-hostname", "hard-stop-after 30s", "tune.maxrewrite 1024", "quiet")},
    # -- defaults
    **{f"defaults: {line}": defaults(line) for line in (
        "log global", "log global\n    option httplog", "option dontlognull", "option http-server-close", "option httpclose", "option forwardfor", "option forwardfor except 127.0.0.0/8", "option redispatch", "retries 3", "maxconn 2000",
        "timeout check 10s", "timeout http-request 10s", "timeout queue 1m", "timeout http-keep-alive 10s", "timeout tunnel 1h", "timeout client-fin 30s", "timeout tarpit 5s", "balance roundrobin", "balance leastconn", "balance source",
        "option tcplog", "option abortonclose", "option log-health-checks", "option tcpka", "option http-keep-alive", "stats enable", "errorfile 503 /dev/null", "option contstats", "option http-buffer-request", "backlog 10000", "hash-type consistent",
        "option splice-auto", "option socket-stats", "option persist", "option accept-invalid-http-request", "option nolinger", "option http-no-delay", "option httpchk", "fullconn 100")},
    # -- frontends
    **{f"frontend: {line}": front(line) for line in (
        "bind :8080", "bind *:8081", "bind 127.0.0.1:8082 accept-proxy", "bind 127.0.0.1:8083 name web", "bind :::8084 v4v6", "bind 127.0.0.1:8085 tfo", "bind /tmp/none.f mode 660", "maxconn 100", "log-format %ci:%cp\\ %ST",
        "acl a path_beg /api", "acl a hdr(host) -i example.org", "acl a src 10.0.0.0/8", "acl a path_end .jpg .png", "acl a hdr_beg(host) -i www.", "acl a url_reg ^/x", "acl a method POST", "acl a dst_port 80", "acl a hdr_dom(host) -i example.org", "acl a path_reg ^/a/.*", "acl a ssl_fc",
        "use_backend b if { path /x }", "use_backend %[req.hdr(host),lower]", "use_backend %[path,word(1,/)]", "http-request set-header X-Forwarded-Proto https if { ssl_fc }", "http-request set-header X-Real-IP %[src]", "http-request deny if { src 10.0.0.0/8 }",
        "http-request redirect scheme https unless { ssl_fc }", "redirect scheme https code 301 if !{ ssl_fc }", "http-request redirect location /x if { path / }", "http-request redirect prefix https://h code 301", "http-request add-header X-Forwarded-Port %[dst_port]",
        "http-request set-var(txn.host) hdr(host)", "http-request return status 200 content-type text/plain string ok if { path /ping }", "http-request silent-drop if { path /x }", "http-request use-service prometheus-exporter if { path /metrics }",
        "http-request replace-path /a(.*) /b\\1", "http-request set-path /x%[path]", "http-request del-header X-Bad", "http-request track-sc0 src table st@\nbackend st@\n    stick-table type ip size 1m expire 10s store http_req_rate(10s)\nfrontend g\n    bind 127.0.0.1:18080".replace("@", "1"),
        "http-request capture req.hdr(host) len 20", "capture request header Host len 20", "http-response set-header X-Frame-Options DENY", "http-response deny if { status 500 }", "http-response redirect location / if { status 404 }", "http-response del-header Server",
        "tcp-request inspect-delay 5s", "tcp-request content accept if HTTP", "tcp-request connection reject if { src 10.0.0.1 }", "monitor-uri /health", "option forwardfor header X-Real-IP", "option forwardfor if-none", "unique-id-format %{+X}o\\ %ci:%cp",
        "stats enable\n    stats uri /stats\n    stats refresh 10s\n    stats auth a:b\n    stats realm Proxy\\ Stats\n    stats hide-version\n    stats show-node\n    stats show-legends\n    stats admin if TRUE", "http-request deny deny_status 429 if { sc_http_req_rate(0) gt 10 }")},
    # -- backends
    **{f"backend: {line}": back(line, "server z 127.0.0.1:1") for line in (
        f"{_S} check", f"{_S} check inter 2000 rise 2 fall 3", f"{_S} check fall 3 rise 2 inter 1s weight 10 maxconn 32", f"{_S} backup", f"{_S} check port 8080", f"{_S} check cookie s1", f"{_S} send-proxy", f"{_S} send-proxy-v2", f"{_S} check on-marked-down shutdown-sessions",
        f"{_S} init-addr none", f"{_S} init-addr last,libc,none", f"{_S} disabled", f"{_S} check observe layer4 error-limit 10 on-error mark-down", f"{_S} source 127.0.0.1", f"default-server inter 3s fall 3 rise 2\n    {_S} check", f"cookie SRV insert indirect nocache\n    {_S} cookie a",
        "balance uri", "balance url_param id", "balance hdr(host)", "balance random", "balance first", "balance static-rr", "option httpchk GET /health", "option httpchk HEAD / HTTP/1.1\\r\\nHost:\\ h", "option httpchk\n    http-check send meth GET uri /\n    http-check expect status 200",
        "http-check expect string ok", "option tcp-check", "option tcp-check\n    tcp-check connect\n    tcp-check send PING\\r\\n\n    tcp-check expect string +PONG", "option mysql-check user haproxy", "option ssl-hello-chk", "option redis-check", "option pgsql-check user a", "option smtpchk", "option ldap-check",
        "http-reuse always", "option allbackups", "stick-table type ip size 1m expire 30m\n    stick on src", "server-template t 1-3 127.0.0.1:80 check", "http-send-name-header X-Srv", "option prefer-last-server", "retry-on conn-failure", "http-request set-header Host h", "http-response set-header A b", "timeout server 10s", "timeout queue 10s")},
    # -- other sections
    "listen": HEAD + "listen l\n    bind 127.0.0.1:18080\n    server s1 127.0.0.1:1 check\n",
    "listen stats": HEAD + "listen stats\n    bind 127.0.0.1:18080\n    stats enable\n    stats uri /\n    stats refresh 5s\n    stats auth admin:admin\n    stats admin if LOCALHOST\n",
    "mode tcp with SNI": back("tcp-request inspect-delay 5s", "server s1 127.0.0.1:1 check", mode="tcp").replace("default_backend b\n", "tcp-request inspect-delay 5s\n    tcp-request content accept if { req.ssl_hello_type 1 }\n    use_backend b if { req.ssl_sni -i example.org }\n", 1),
    "tcp with redis": back("option tcp-check", "tcp-check send PING\\r\\n", "tcp-check expect string +PONG", "server s1 127.0.0.1:1 check", mode="tcp"),
    "resolvers": HEAD + "resolvers dns\n    nameserver a 127.0.0.1:53\n    resolve_retries 3\n    timeout resolve 1s\n    timeout retry 1s\n    hold valid 10s\n    accepted_payload_size 8192\nlisten b\n    bind 127.0.0.1:18080\n    server s1 h.invalid:80 check resolvers dns resolve-prefer ipv4 init-addr none\n",
    "resolvers from the system": front() + "resolvers dns\n    parse-resolv-conf\n",
    "http-errors": HEAD + "http-errors e\n    errorfile 503 /dev/null\nfrontend f\n    bind 127.0.0.1:18080\n    errorfiles e\n",
    "userlist": HEAD + "userlist u\n    user a insecure-password b\nfrontend f\n    bind 127.0.0.1:18080\n    http-request auth realm x unless { http_auth(u) }\n",
    "environment": global_section("presetenv PORT 8080").replace("bind 127.0.0.1:18080", 'bind "127.0.0.1:${PORT}"'),
    "a name in quotes": front('http-request set-header X "a b"', "http-request set-header Y 'c d'"),
}

# fmt: on


def _ours(text: str, directory: Path) -> tuple[int, str]:
    path = directory / "a.cfg"
    path.write_text(text)
    return bed.ask_ours(str(path))


@pytest.mark.parametrize("name", LOADS)
def test_it_loads(name: str, tmp_path: Path) -> None:
    code, output = _ours(LOADS[name], tmp_path)
    alerts = [line for line in output.splitlines() if "[ALERT]" in line]
    assert code == 0, alerts


@pytest.mark.usefixtures("haproxy")
def test_haproxy_loads_the_same(tmp_path: Path) -> None:
    """What stands in LOADS is HAProxy's language: none of it is our invention."""
    refused = {}
    for number, (name, text) in enumerate(LOADS.items()):
        path = tmp_path / f"{number}.cfg"
        path.write_text(text)
        done = run_to_end([*bed.command_of("haproxy"), "-c", "-f", str(path)])
        if done.returncode:
            refused[name] = [line for line in done.stderr.splitlines() if "[ALERT]" in line][:1]
    assert not refused


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_words(name: str, tmp_path: Path) -> None:
    """One message says in which line, which thing it is, and that it is not supported."""
    refusal = REFUSED[name]
    code, output = _ours(refusal.text, tmp_path)
    assert code == 1
    (alert, *more) = [line for line in output.splitlines() if "[ALERT]" in line]
    assert f"a.cfg:{refusal.line}] : " in alert
    assert refusal.status in alert
    assert [word for word in refusal.words if word not in alert] == []
    assert [line for line in more if "Fatal errors" not in line] == []


@pytest.mark.usefixtures("haproxy")
@pytest.mark.parametrize("name", [name for name, one in REFUSED.items() if one.loads is not None])
def test_haproxy_loads_it_or_does_not(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.cfg"
    path.write_text(REFUSED[name].text)
    done = run_to_end([*bed.command_of("haproxy"), "-c", "-f", str(path)])
    assert (done.returncode == 0) is REFUSED[name].loads


def test_keywords_of_tls_are_counted(tmp_path: Path) -> None:
    """A file of many TLS sites says in one list what it needs."""
    lines = [f"bind :1844{number} ssl crt /etc/ssl/{number}.pem" for number in range(3)]
    code, output = _ours(front(*lines, "http-request deny unless { ssl_c_used }"), tmp_path)
    assert code == 1
    notices = [line.partition(": config : ")[2] for line in output.splitlines() if "NOTICE" in line]
    assert "not supported yet: 3 x ssl (lines 11, 12, 13)" in notices
    assert "not supported yet: 3 x crt (lines 11, 12, 13)" in notices
