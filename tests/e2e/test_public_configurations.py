"""What public configurations have in their global, defaults and bind lines, each by what it does.

The small configurations are those that repositories are full of; both programs run them, and what
a client, a server, the log, /proc and the runtime socket see is the same.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
import socket
import time
from pathlib import Path

import pytest

from mtproxy.testing.configs import HTTP, http, section
from mtproxy.testing.nameserver import NameServer
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program
from mtproxy.testing.server import listen_on
from mtproxy.testing.syslog_sink import SyslogSink, parse_http_line
from mtproxy.testing.waiting import PATIENCE, wait_until
from mtproxy.testing.wire import Wire, as_wire, connect

GET = "GET /len/5 HTTP/1.1\nhost: a"
#: its answer's body is the head that the server got
HEAD = "GET /head HTTP/1.1\nhost: a"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")


def status_of(running: Program) -> dict[str, list[str]]:
    """/proc/PID/status by its names, values as words."""
    lines = Path(f"/proc/{running.pid}/status").read_text().splitlines()
    return {line.partition(":")[0]: line.partition(":")[2].split() for line in lines}


# --- global: who the process is


@needs_root
@pytest.mark.parametrize("words", ["user nobody\n group nogroup", "user nobody", "group nogroup"])
def test_user_and_group(proxy, origin: Origin, words: str) -> None:
    """By name; all four ids of each kind, no further groups, and requests are served."""
    running = proxy(f"global{section(words)}\n" + http(origin.port))
    uid = pwd.getpwnam("nobody").pw_uid if "user" in words else 0
    gid = grp.getgrnam("nogroup").gr_gid if "group" in words else 0
    status = status_of(running)
    assert status["Uid"] == [str(uid)] * 4
    assert status["Gid"] == [str(gid)] * 4
    if "group" in words:
        assert status["Groups"] == []
    assert running.connect().request(GET).status == 200


def test_a_user_that_does_not_exist(program: str) -> None:
    with Program(program, "global\n    user nobody-at-all\n" + http(9)) as running:
        assert running.wait_exit() == 1
        assert "nobody-at-all" in running.output()


@needs_root
def test_debians_jail(proxy, origin: Origin, tmp_path: Path) -> None:
    """Debian's default: `log /dev/log` and `chroot`. What is logged goes to the jail's dev/log."""
    jail = tmp_path / "jail"
    (jail / "dev").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.bind(str(jail / "dev/log"))
        (jail / "dev/log").chmod(0o666)
        log.settimeout(PATIENCE)
        head = (
            "global\n    log /dev/log local0\n    log /dev/log local1 notice\n"
            f"    chroot {jail}\n    stats timeout 30s\n    user nobody\n    group nogroup\n"
        )
        text = http(origin.port, fe="option httplog", head=HTTP + "    log global\n")
        running = proxy(head + text)
        assert os.readlink(f"/proc/{running.pid}/root") == str(jail)
        assert status_of(running)["Uid"][0] == str(pwd.getpwnam("nobody").pw_uid)
        with running.connect() as wire:
            wire.request(GET)
        while b"GET /len/5" not in (message := log.recv(65536)):
            pass
        assert re.match(rb"<134>\w{3} [ \d]\d [\d:]{8} \S+\[%d\]: 127" % running.pid, message)
        # a change of a server's state is a notice or above: it goes to both
        running.cli("disable server be/s1")
        seen = set()
        while len(seen) < 2:
            found = re.match(rb"<(\d+)>.* Server be/s1 is going DOWN", log.recv(65536))
            if found is not None:
                seen.add(int(found[1]))
        assert {priority >> 3 for priority in seen} == {16, 17}


JAILED = """
resolvers dns
    nameserver one 127.0.0.1:{names}
    hold valid 200ms
    timeout resolve 200ms
    timeout retry 200ms
frontend fe
    bind "fd@${{fe}}"
    stats uri /stats
    http-request use-service prometheus-exporter if {{ path /metrics }}
    http-request set-header x-agent "%[req.fhdr(user-agent)] %{{+Q}}[path]"
    default_backend be
backend be
    option httpchk GET /len/1
    default-server check inter 200ms resolvers dns resolve-prefer ipv4 init-addr none
    server s1 web.test:{port}
backend more
    default-server check inter 200ms resolvers dns resolve-prefer ipv4 init-addr none
    server-template t 1-2 _http._tcp.svc.test
"""


@needs_root
def test_what_is_looked_up_in_a_jail(proxy, origin: Origin, tmp_path: Path) -> None:
    """Names, checks, the page and the metrics need no file of the program once it runs."""
    answers = {
        ("web.test", "A"): ["127.0.0.1"],
        ("_http._tcp.svc.test", "SRV"): [f"1 1 {origin.port} web.test."],
    }
    with NameServer(answers) as names:
        text = JAILED.format(names=names.port, port=origin.port)
        running = proxy(f"global\n    chroot {tmp_path}\n    uid 65534\n{HTTP}{text}")
        for path in (("be", "s1"), ("more", "t1")):
            wait_until(lambda path=path: running.server_status(*path) == "UP", "/".join(path))
        for target in ("/len/5", "/stats", "/stats;json", "/metrics"):
            assert running.connect().request(f"GET {target} HTTP/1.1\nhost: a").status == 200
        for command in ("show libs", "show profiling", "show tasks", "show resolvers", "show env"):
            assert "Internal error" not in running.cli(command)
        assert "Traceback" not in running.output()


def test_maxconn_of_the_process(proxy, origin: Origin) -> None:
    """One client more is not refused: it waits until another has gone. (HAProxy takes no inherited
    descriptor whose number is beyond what few connections need.)
    """
    most = 100
    running = proxy(f"global\n    maxconn {most}\n    nbthread 1\n" + http(origin.port))

    def says(line: str) -> bool:
        return line in running.cli("show info").splitlines()

    assert says(f"Maxconn: {most}")
    kept = [running.connect() for _ in range(most)]
    for wire in kept:
        assert wire.request(GET).status == 200
    more = running.connect()
    more.send(as_wire(GET))
    wait_until(lambda: says(f"CurrConns: {most}"), "all of them")
    assert more.still_open(0.3)
    kept[0].close()
    assert more.read_response().status == 200


def test_a_pid_file_that_a_process_in_the_foreground_cannot_write(proxy, origin: Origin) -> None:
    """As in containers, whose files were made for daemons."""
    running = proxy("global\n    pidfile /nonexistent/a.pid\n" + http(origin.port))
    assert running.connect().request(GET).status == 200


@needs_root
def test_a_jail_that_is_not_there(program: str) -> None:
    with Program(program, "global\n    chroot /nonexistent/jail\n" + http(9)) as running:
        assert running.wait_exit() == 1
        assert "Cannot chroot(/nonexistent/jail)" in running.output()


def test_stats_timeout(proxy) -> None:
    """A session of the runtime socket that says nothing ends."""
    running = proxy("global\n    stats timeout 1s\n" + http(9))
    with connect(running.socket_path) as wire:
        assert wire.at_end()


def test_stats_socket(proxy, tmp_path: Path) -> None:
    """Mode and level of one more socket; `expose-fd listeners` as Debian has it."""
    path = tmp_path / "admin.sock"
    lines = f"stats socket {path} mode 660 level operator expose-fd listeners"
    running = proxy(f"global\n    {lines}\n" + http(9))
    assert path.stat().st_mode & 0o777 == 0o660
    with connect(str(path)) as wire:
        wire.send(b"show cli level;disable server be/s1\n")
        answer = wire.read_to_end()
    assert answer.startswith(b"operator\n")
    assert b"Permission denied" in answer
    assert running.server_status("be", "s1") == "no check"


TLS_ALONE = """
ssl-default-bind-ciphers ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256
ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384
ssl-default-bind-options no-sslv3 no-tlsv10 no-tls-tickets
ssl-default-server-ciphers ECDHE-RSA-AES128-GCM-SHA256
tune.ssl.default-dh-param 2048
ca-base /etc/ssl/certs
crt-base /etc/ssl/private
"""


def test_defaults_of_tls_that_nobody_uses(proxy, origin: Origin) -> None:
    """As in files whose sites are plain: nothing is said, nothing changes."""
    running = proxy(f"global{section(TLS_ALONE)}\n" + http(origin.port))
    assert running.connect().request(GET).status == 200
    said = re.findall(r"\[(?:WARNING|ALERT)\].*", running.output())
    assert said == []


# --- sections


def test_what_defaults_give_and_sections_change(proxy, origin: Origin, sink: SyslogSink) -> None:
    """Anonymous and named defaults: the nearest before a section, or the one that it names."""
    config = f"""
defaults base
    mode http
    log 127.0.0.1:{sink.port} local0
    option httplog
    option forwardfor
    timeout connect 40s
    timeout client 120s
    timeout server 120s
    http-reuse never
    maxconn 17
defaults other from base
    log-format "%f %ST"
    option httpclose
frontend one from base
    bind "fd@${{one}}"
    default_backend first
frontend two
    bind "fd@${{two}}"
    maxconn 18
    default_backend second
backend first from base
    server s1 127.0.0.1:{origin.port}
backend second
    server s1 127.0.0.1:{origin.port}
"""
    running = proxy(config)
    for name, closes in (("one", False), ("two", True)):
        with running.connect(name) as wire:
            answer = wire.request(HEAD)
            assert b"x-forwarded-for: 127.0.0.1" in answer.body.lower()
            assert answer.head.has_token("connection", "close") == closes
    assert running.stat("one", "FRONTEND")["slim"] == "17"
    assert running.stat("two", "FRONTEND")["slim"] == "18"
    assert parse_http_line(sink.wait(r'one first/s1 .*"GET')[0].string).status == 200
    sink.wait("^two 200$")


LISTEN = """
listen web
    bind "fd@${{fe}}"
    mode http
    balance roundrobin
    option httpclose
    option forwardfor
    server a 127.0.0.1:{port}
    server b 127.0.0.1:{port}
"""


def test_listen_is_both_sides(proxy, origin: Origin) -> None:
    running = proxy(HTTP + LISTEN.format(port=origin.port))
    for _ in range(4):
        answer = running.connect().request(HEAD)
        assert answer.status == 200
        assert b"x-forwarded-for: 127.0.0.1" in answer.body.lower()
    wait_until(lambda: running.stat("web", "FRONTEND")["scur"] == "0", "the sessions' end")
    assert [running.stat("web", name)["stot"] for name in ("FRONTEND", "BACKEND", "a", "b")] == [
        "4", "4", "2", "2",
    ]  # fmt: skip


# --- proxies


def test_timeout_check(proxy) -> None:
    """Connected in time, no answer in time: the check fails long before its interval is over."""
    with listen_on(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        be = "option httpchk GET /health\n timeout check 400ms"
        running = proxy(http(port, be=be, server="check inter 1h fall 1"))
        wait_until(lambda: running.server_status("be", "s1") == "DOWN", "the check's time-out")
        row = running.stat("be", "s1")
        assert row["check_status"] == "L7TOUT"
        assert 400 <= int(row["check_duration"]) < PATIENCE * 1000
        assert running.connect().request(GET).status == 503


@pytest.mark.parametrize("answer", [200, 301, 404, 500])
def test_httpchk(proxy, origin: Origin, answer: int) -> None:
    """2xx and 3xx are passes; the request is what the line says."""
    be = f"option httpchk HEAD /status/{answer} HTTP/1.1\\r\\nHost:\\ www"
    running = proxy(http(origin.port, be=be, server="check inter 1h fall 1 rise 1"))
    wait_until(lambda: running.stat("be", "s1")["check_status"] in ("L7OK", "L7STS"), "the check")
    row = running.stat("be", "s1")
    assert row["check_code"] == str(answer)
    assert row["status"] == ("UP" if answer < 400 else "DOWN")
    asked = origin.requests[0]
    assert asked.head.method == b"HEAD"
    assert asked.head.get("host") == b"www"


@pytest.mark.parametrize("words", ["mode tcp", "mode http"])
def test_mode(proxy, serve, words: str) -> None:
    """Bytes, or messages: what is no request passes, or is answered."""

    def echo(wire: Wire) -> None:
        wire.send(wire.read_until(b"\n"))

    head = HTTP.replace("mode http", words)
    with proxy(http(serve(echo).address[1], head=head)).connect() as wire:
        wire.send(b"EHLO example.org\n")
        got = wire.read_to_end()
    if words == "mode tcp":
        assert got == b"EHLO example.org\n"
    else:
        assert got.startswith(b"HTTP/1.1 400 Bad request\r\n")


def test_use_backend_and_default_backend(proxy, origin: Origin, sink: SyslogSink) -> None:
    """The first condition that holds chooses, in the order of the lines; else the default."""
    fe = f"""
log 127.0.0.1:{sink.port} local0
log-format "%b"
acl api path_beg /api
acl site hdr(host) -i www.example.org
use_backend api if api
use_backend site if site
use_backend %[path,word(1,/)] if {{ path_beg /be }}
"""
    more = "".join(
        f"backend {name}\n    server s1 127.0.0.1:{origin.port}\n"
        for name in ("api", "site", "be2")
    )
    running = proxy(http(origin.port, fe=fe) + more)
    asked = [
        ("/api/x", "www.example.org", "api"),
        ("/x", "WWW.example.org", "site"),
        ("/be2/x", "a", "be2"),
        ("/beyond/x", "a", "be"),
        ("/x", "a", "be"),
    ]
    for target, host, _ in asked:
        with running.connect() as wire:
            wire.request(f"GET {target} HTTP/1.1\nhost: {host}")
    found = sink.wait("^", count=len(asked))
    assert [match.string for match in found] == [name for _, _, name in asked]


# --- pages

#: what makes the proxy send the page of a status: lines of the frontend, of the backend, a request
PAGES: dict[int, tuple[str, str, bytes]] = {
    400: ("http-request deny deny_status 400", "", as_wire(GET)),
    403: ("http-request deny", "", as_wire(GET)),
    408: ("http-request deny deny_status 408", "", as_wire(GET)),
    500: ("http-request deny deny_status 500", "", as_wire(GET)),
    502: ("", "", as_wire("GET /reset HTTP/1.1\nhost: a")),
    503: ("", "", as_wire(GET)),
    504: ("", "timeout server 500ms", as_wire("GET /stall HTTP/1.1\nhost: a")),
}


@pytest.mark.parametrize("where", ["defaults", "frontend"])
@pytest.mark.parametrize("status", PAGES)
def test_error_files(proxy, origin: Origin, tmp_path: Path, status: int, where: str) -> None:
    """A file stands for the whole answer, whatever it says (where there was a request at all; see
    test_http_refusals for what was none).
    """
    path = tmp_path / "page.http"
    path.write_bytes(
        b"HTTP/1.0 %d Ours\r\nconnection: close\r\ncontent-type: text/html\r\n\r\nour own page"
        % status
    )
    front, back, request = PAGES[status]
    line = f"errorfile {status} {path}"
    head = HTTP + f"    {line}\n" if where == "defaults" else HTTP
    fe = front if where == "defaults" else f"{front}\n {line}"
    text = http(origin.port, fe=fe, be=back, head=head)
    if status == 503:
        text = text.replace(f"127.0.0.1:{origin.port}", "127.0.0.1:1 disabled")
    with proxy(text).connect() as wire:
        wire.send(request)
        got = wire.read_to_end()
    assert re.match(rb"HTTP/1\.[01] %d Ours\r\n" % status, got)
    assert got.endswith(b"\r\n\r\nour own page")


def test_what_the_page_tells(proxy, origin: Origin) -> None:
    """Each keyword shows, or hides, what it is about: stats enable, hide-version, show-node,
    show-legends."""
    lines = {
        "plain": "stats enable\n stats uri /",
        "version": "stats enable\n stats uri /\n stats hide-version",
        "node": "stats enable\n stats uri /\n stats show-node",
        "legends": "stats enable\n stats uri /\n stats show-legends",
    }
    text = "global\n    node machine-seven\n" + http(origin.port)
    for name, words in lines.items():
        text += f'frontend {name}\n    bind "fd@${{{name}}}"\n {words}\n'
    running = proxy(text)
    pages = {
        name: running.connect(name).request("GET / HTTP/1.1\nhost: a").body.decode()
        for name in lines
    }
    version = running.cli("show info").split("Version: ")[1].split()[0]
    address = f"127.0.0.1:{origin.port}"
    found = {
        name: (version in page, "machine-seven" in page, address in page)
        for name, page in pages.items()
    }
    assert found == {
        "plain": (True, False, False),
        "version": (False, False, False),
        "node": (True, True, False),
        "legends": (True, False, True),
    }


# --- bind


def test_name_of_a_listener(proxy, origin: Origin) -> None:
    """It is what `show stat` calls it, and what the log says of a listener (%fp aside)."""
    fe = "option socket-stats\n http-request return status 200 hdr x-name %[so_name]"
    text = http(origin.port, fe=fe).replace('"fd@${fe}"', '"fd@${fe}" name public')
    running = proxy(text)
    assert running.connect().request(GET).get("x-name") == b"public"
    wait_until(lambda: running.stat("fe", "public")["stot"] == "1", "the listener's counter")


def test_tfo(proxy, origin: Origin) -> None:
    """The listening socket gets a queue for connections with data in their SYN."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        before = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN)
        text = http(origin.port).replace('"fd@${fe}"', f"fd@{listener.fileno()} tfo")
        proxy(text, pass_fds=(listener.fileno(),))
        assert before == 0
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN) > 0
        with Wire(socket.create_connection(listener.getsockname(), PATIENCE)) as wire:
            assert wire.request(GET).status == 200


# --- logs


def test_docker_logs(proxy, origin: Origin) -> None:
    """`log stdout format raw`: the bare line, and nothing of syslog, on standard output."""
    head = "global\n    log stdout format raw local0 info\n"
    running = proxy(head + http(origin.port, fe="log global\n option httplog"))
    running.connect().request(GET)
    wait_until(lambda: "GET /len/5 HTTP/1.1" in running.output(), "the line")
    (line,) = [one for one in running.output().splitlines() if "GET /len/5" in one]
    assert parse_http_line(line).status == 200


@pytest.mark.parametrize("level", ["emerg", "alert", "err", "notice", "info", "debug"])
def test_levels_of_a_target(proxy, origin: Origin, sink: SyslogSink, level: str) -> None:
    """Requests are logged at `info`: a target takes them if it takes that."""
    with SyslogSink() as other:
        head = (
            f"global\n    log 127.0.0.1:{other.port} local2 {level}\n"
            f"    log 127.0.0.1:{sink.port} local0\n"
        )
        running = proxy(head + http(origin.port, fe="log global\n option httplog"))
        running.connect().request(GET)
        sink.wait("GET /len/5")
        running.connect().request("GET /len/6 HTTP/1.1\nhost: a")
        sink.wait("GET /len/6")
        if level in ("info", "debug"):
            other.wait("GET /len/6")
        assert any("GET" in text for text in other.texts()) == (level in ("info", "debug"))


# --- servers


def from_address(running: Program, source: str) -> Wire:
    """A client at one of this machine's many addresses."""
    sock = socket.create_connection(running.address(), PATIENCE, source_address=(source, 0))
    return Wire(sock)


def test_balance_source(proxy, serve) -> None:
    """Who comes from one address meets one server; many addresses meet all of them."""
    names = ("a", "b", "c")

    def site(name: str) -> int:
        def answer(wire: Wire) -> None:
            wire.read_request()
            body = name.encode()
            wire.send(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 1\r\n\r\n" + body)

        return int(serve(answer).port)

    servers = "\n".join(f"server {name} 127.0.0.1:{site(name)}" for name in names)
    text = f'{HTTP}frontend fe\n    bind "fd@${{fe}}"\n    default_backend be\n'
    running = proxy(f"{text}backend be\n    balance source{section(servers)}\n")
    met: dict[str, str] = {}
    for number in range(1, 31):
        source = f"127.0.1.{number}"
        for _ in range(2):
            with from_address(running, source) as wire:
                found = wire.request(GET).body.decode()
            assert met.setdefault(source, found) == found
    # the address as a number, by the servers' weight (manual 4.2, `hash-type map-based`)
    assert set(met.values()) == set(names)
    assert [met[f"127.0.1.{number}"] for number in (1, 2, 3, 4)] == [
        names[(index + names.index(met["127.0.1.1"])) % 3] for index in range(4)
    ]


def test_inter(proxy, origin: Origin) -> None:
    """Checks come in intervals: five of them take at least four."""
    be = "option httpchk GET /len/1"
    proxy(http(origin.port, be=be, server="check inter 300ms"))
    begin = time.monotonic()
    wait_until(lambda: len(origin.requests) >= 1, "the first check")
    first = time.monotonic()
    wait_until(lambda: len(origin.requests) >= 6, "five more")
    # the first of them was perhaps seen late
    assert time.monotonic() - first >= 4 * 0.3 - (first - begin)
