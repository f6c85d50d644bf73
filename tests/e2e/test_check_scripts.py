"""What health checks say, what they make of the answers, and in which words they report it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from mtproxy.testing.checked import END, HANG, RESET, CheckedServer, Step, Take
from mtproxy.testing.nginx import Nginx
from mtproxy.testing.program import Program
from mtproxy.testing.server import free_port
from mtproxy.testing.syslog_sink import SyslogSink
from mtproxy.testing.waiting import wait_until

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
UP, DOWN = "status: 1/1 UP.", "status: 0/1 DOWN."
PASSED = f"succeeded, reason: Layer7 check passed, code: 200, {UP}"
TCP_PASSED = f'succeeded, reason: Layer7 check passed, code: 0, info: "(tcp-check)", {UP}'
#: as long as no test waits for its end
LONG, SHORT = "30s", "300ms"


@dataclass
class Case:
    """`steps` None: nothing listens. `lines` of the backend, `words` of its server.

    `said`: the first report of the check, without how long it took. `sent`: what the server got.
    """

    name: str
    steps: list[Step] | None
    lines: list[str]
    said: str
    sent: bytes | None = None
    words: str = ""
    inter: str = LONG
    server: CheckedServer | None = field(default=None, repr=False)


def failed(reason: str, info: str = "", code: int | None = None) -> str:
    """The report of a failure."""
    text = f"failed, reason: {reason}"
    if code is not None:
        text += f", code: {code}"
    if info:
        text += f', info: "{info}"'
    return f"{text}, {DOWN}"


INVALID, WRONG, LATE = "Layer7 invalid response", "Layer7 wrong status", "Layer7 timeout"
REFUSED = "Layer4 connection problem"
STATE = (
    rb"x-haproxy-server-state: UP; address=127.0.0.1; port=PORT; name=BACKEND/s; node=N1;"
    rb" weight=1/1; scur=0/0; qcur=0"
)


def answer(status: str, *headers: str, body: str = "") -> list[Step]:
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", body]
    return [Take(), "\r\n".join(lines).encode()]


HTTP = [
    Case("plain", [Take(), OK], ["option httpchk"], PASSED, b"OPTIONS / HTTP/1.0\r\n\r\n"),
    Case(
        "old_form",
        [Take(), OK],
        [r"option httpchk GET /x HTTP/1.1\r\nHost:\ www\r\nX-Y:\ z"],
        PASSED,
        b"GET /x HTTP/1.1\r\nhost: www\r\nx-y: z\r\nconnection: close\r\n\r\n",
    ),
    Case(
        "merged",
        [Take(), OK],
        [
            "option httpchk GET /x HTTP/1.1",
            "http-check send-state",
            "http-check send meth POST hdr Host h hdr X-Test v body hello",
        ],
        PASSED,
        b"POST /x HTTP/1.1\r\nhost: h\r\nx-test: v\r\n"
        + STATE
        + b"\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello",
    ),
    Case(
        "put",
        [Take(), OK],
        ["option httpchk PUT /d"],
        PASSED,
        b"PUT /d HTTP/1.0\r\ncontent-length: 0\r\n\r\n",
    ),
    Case(
        "own_connection",
        [Take(), OK],
        ["option httpchk", "http-check send hdr Connection x hdr Content-Length 7 ver HTTP/1.1"],
        PASSED,
        b"OPTIONS / HTTP/1.1\r\nconnection: x\r\n\r\n",
    ),
    Case(
        "formats",
        [Take(), OK],
        [
            "option httpchk",
            "http-check set-var(check.n) int(3)",
            'http-check send meth GET uri-lf "/%[be_name]/%[var(check.n)]" hdr X-S %[srv_name]',
            'http-check expect status 404 on-error "%[res.hdr(content-length)] %[status] %b %s"',
        ],
        failed(WRONG, "2 200 formats s", 200),
        b"GET /formats/3 HTTP/1.0\r\nx-s: s\r\n\r\n",
    ),
    Case("garbage", [Take(), b"garbage\r\n\r\n"], ["option httpchk"], failed(INVALID)),
    Case("silent_end", [Take(), END], ["option httpchk"], failed(INVALID)),
    Case("half_a_head", [Take(), b"HTTP/1.1 200 O", END], ["option httpchk"], failed(INVALID)),
    Case(
        "cut_body",
        [Take(), b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok", END],
        ["option httpchk"],
        PASSED,
    ),
    Case(
        "reset",
        [Take(), RESET],
        ["option httpchk"],
        failed("Socket error", "Connection reset by peer"),
    ),
    Case("hang", [Take(), HANG], ["option httpchk"], failed(LATE), inter=SHORT),
    Case("refused", None, ["option httpchk"], failed(REFUSED, "Connection refused")),
    Case(
        "missing",
        answer("404 Not Found"),
        ["option httpchk"],
        failed(WRONG, "Not Found", 404),
    ),
    Case("no_reason", answer("503"), ["option httpchk"], failed(WRONG, "", 503)),
    Case(
        "disable_on_404",
        answer("404 Not Found"),
        ["option httpchk", "http-check disable-on-404"],
        f"conditionally succeeded, reason: Layer7 check conditionally passed, code: 404, {UP}",
    ),
    Case(
        "body",
        [Take(), OK],
        ["option httpchk", "http-check expect string ok"],
        PASSED,
    ),
    Case(
        "no_match",
        [Take(), OK],
        ["option httpchk", "http-check expect rstring ^foo"],
        failed(INVALID, "HTTP content check did not match", 200).replace(", code: 200", ""),
    ),
    Case(
        "unwanted",
        [Take(), OK],
        ["option httpchk", "http-check expect ! string ok comment why"],
        failed(INVALID, "HTTP check matched unwanted content comment: why"),
    ),
    Case(
        "no_body",
        [Take(), b"HTTP/1.1 204 No Content\r\n\r\n"],
        ["option httpchk", "http-check expect string ok"],
        failed(INVALID, "HTTP content check could not find a response body"),
    ),
    Case(
        "chunks",
        [
            Take(),
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
        ],
        ["option httpchk", "http-check expect string-lf %[str(ok)]"],
        PASSED,
    ),
    Case(
        "header",
        answer("200 OK", "X-A: one, two", "Set-Cookie: x=1"),
        [
            "option httpchk",
            "http-check expect hdr name x-a value two",
            "http-check expect fhdr name X-A value -m beg one,",
            "http-check expect hdr name -m end cookie value -m reg ^x=[0-9]$",
            "http-check expect ! hdr name x-b",
            "http-check expect hdr name -m sub -A value-lf -m sub %[str(ne)]",
        ],
        PASSED,
    ),
    Case(
        "no_header",
        [Take(), OK],
        ["option httpchk", "http-check expect hdr name foo comment bar"],
        failed(WRONG, "OK comment: bar", 200),
    ),
    Case(
        "codes",
        answer("204 No Content"),
        ["option httpchk", "http-check expect status 200-203,301 status-code int(7)"],
        failed(WRONG, "No Content", 7),
    ),
    Case(
        "error_status",
        answer("500 Oh no"),
        ["option httpchk", "http-check expect ! rstatus ^5 error-status L7OKC"],
        "conditionally succeeded, reason: Layer7 check conditionally passed, code: 500,"
        f' info: "Oh no", {UP}',
    ),
    Case(
        "upgrade",
        [
            Take(),
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: raw\r\n\r\n",
        ],
        [
            "option httpchk",
            "http-check send meth GET ver HTTP/1.1 hdr connection upgrade hdr upgrade raw",
            "http-check expect status 101",
        ],
        PASSED.replace("200", "101"),
    ),
    Case(
        "no_answer",
        [HANG],
        [
            "option httpchk",
            "http-check connect",
            "http-check send uri /",
            "http-check expect ! string x",
        ],
        failed(LATE),
        inter=SHORT,
    ),
]

X = Take(1)
TCP = [
    Case(
        "t_nothing", [HANG], ["option tcp-check"], f"succeeded, reason: Layer4 check passed, {UP}"
    ),
    Case(
        "t_connect",
        [HANG],
        ["option tcp-check", "tcp-check connect"],
        f'succeeded, reason: Layer4 check passed, info: "(tcp-check)", {UP}',
    ),
    Case(
        "t_send",
        [X],
        ["option tcp-check", "tcp-check send x"],
        TCP_PASSED,
        b"x",
    ),
    Case(
        "t_string",
        [X, b"one two"],
        ["option tcp-check", "tcp-check send x", "tcp-check expect string two"],
        TCP_PASSED,
    ),
    Case(
        "t_same_bytes",
        [X, b"one two"],
        [
            "option tcp-check",
            "tcp-check send x",
            "tcp-check expect string two",
            "tcp-check expect rstring ^one",
            "tcp-check expect binary 6F6E65",
            "tcp-check expect rbinary ^6F6E65.*6F$",
            "tcp-check expect ! string three min-recv 1",
            "tcp-check expect string-lf %[str(two)]",
            "tcp-check expect binary-lf 74%[str(w),hex]",
        ],
        TCP_PASSED,
    ),
    Case(
        "t_late",
        [X, b"one"],
        ["option tcp-check", "tcp-check send x", "tcp-check expect string two comment c1"],
        failed(LATE, " at step 2 of tcp-check (expect string 'two') comment: 'c1'"),
        inter=SHORT,
    ),
    Case(
        "t_late_binary",
        [X],
        ["option tcp-check", "tcp-check send x", "tcp-check expect binary 6F6E"],
        failed(LATE, " at step 2 of tcp-check (expect binary 'on')"),
        inter=SHORT,
    ),
    Case(
        "t_tout_status",
        [X],
        ["option tcp-check", "tcp-check send x", "tcp-check expect rbinary 6F tout-status L6TOUT"],
        failed("Layer6 timeout", " at step 2 of tcp-check (expect binary regex)"),
        inter=SHORT,
    ),
    Case(
        "t_unwanted",
        [X, b"one two"],
        ["option tcp-check", "tcp-check send x", "tcp-check expect ! string one"],
        failed(INVALID, "TCPCHK matched unwanted content 'one' at step 2"),
    ),
    Case(
        "t_mismatch",
        [X, b"one two"],
        ["option tcp-check", "tcp-check send x", "tcp-check expect rstring two$ min-recv 2"],
        TCP_PASSED,
    ),
    Case(
        "t_error_words",
        [X, b"one two"],
        [
            "option tcp-check",
            "tcp-check send x",
            "tcp-check expect string no min-recv 2 error-status L7STS status-code int(42)"
            ' on-error "got %[res.payload(0,3)]"',
        ],
        failed(WRONG, "got one", 42),
    ),
    Case(
        "t_success_words",
        [X, b"one two"],
        [
            "option tcp-check",
            "tcp-check send x",
            'tcp-check expect string two on-success "got %[res.payload(0,3)]" ok-status l7okc',
        ],
        "conditionally succeeded, reason: Layer7 check conditionally passed, code: 0,"
        f' info: "got one", {UP}',
    ),
    Case(
        "t_empty",
        [X, END],
        ["option tcp-check", "tcp-check send x", "tcp-check expect string no"],
        failed(INVALID, "TCPCHK got an empty response at step 2"),
    ),
    Case(
        "t_cut",
        [X, b"one", END],
        ["option tcp-check", "tcp-check send x", "tcp-check expect string two"],
        failed(INVALID, "TCPCHK did not match content 'two' at step 2"),
    ),
    Case(
        "t_reset",
        [X, RESET],
        [
            "option tcp-check",
            "tcp-check send x",
            'tcp-check comment "c 2"',
            "tcp-check expect string no",
        ],
        failed(
            "Socket error",
            "Connection reset by peer at step 3 of tcp-check (expect string 'no') comment: 'c 2'",
        ),
    ),
    Case(
        "t_refused",
        None,
        ["option tcp-check"],
        failed(REFUSED, "Connection refused at initial connection step of tcp-check"),
    ),
    Case(
        "t_refused_port",
        [HANG],
        ["option tcp-check", "tcp-check connect port 1 comment zz"],
        failed(REFUSED, "Connection refused at step 1 of tcp-check (connect port 1) comment: 'zz'"),
    ),
    Case(
        "t_port_of_expression",
        [HANG],
        [
            "option tcp-check",
            "tcp-check set-var(check.p) int(1)",
            "tcp-check connect port var(check.p)",
        ],
        failed(REFUSED, "Connection refused at step 2 of tcp-check (connect)"),
    ),
    Case(
        "t_no_digits",
        [X, b"one"],
        ["option tcp-check", "tcp-check send x", "tcp-check expect binary-lf 6f6"],
        failed(INVALID, "Failed to parse hexastring resulting of eval of a log-format string"),
    ),
    Case(
        "t_empty_format",
        [X, b"one"],
        ["option tcp-check", "tcp-check send x", "tcp-check expect string-lf %[var(check.no)]"],
        failed(INVALID, "log-format string evaluated to an empty string"),
    ),
    Case(
        "t_formats",
        [Take(12)],
        ["option tcp-check", "tcp-check send-lf %[srv_name]-%[be_name]x"],
        TCP_PASSED,
        b"s-t_formatsx",
    ),
    Case(
        "t_digits",
        [Take(2)],
        ["option tcp-check", "tcp-check send-binary-lf 61%[str(b),hex]"],
        TCP_PASSED,
        b"ab",
    ),
    Case(
        "t_empty_send",
        [b"one"],
        [
            "option tcp-check",
            "tcp-check connect",
            "tcp-check send-lf %[var(check.no)]",
            "tcp-check expect string one",
        ],
        TCP_PASSED,
    ),
    Case(
        "t_proxy_header",
        [Take(6), b"one"],
        ["option tcp-check", "tcp-check connect send-proxy", "tcp-check expect string one"],
        TCP_PASSED,
        b"PROXY ",
    ),
    Case(
        "t_default",
        [Take(6), b"one"],
        ["option tcp-check", "tcp-check connect default", "tcp-check expect string one"],
        TCP_PASSED,
        b"PROXY ",
        words="check-send-proxy",
    ),
    Case(
        "t_not_default",
        [b"one"],
        ["option tcp-check", "tcp-check connect", "tcp-check expect string one"],
        TCP_PASSED,
        b"",
        words="check-send-proxy",
    ),
]

GREETING = bytes.fromhex("0c0000000a382e302e313900 0a000000")  # "8.0.19"
DENIED = b"\x02\xff\xe3\x04no such protocol"
OTHERS = [
    Case(
        "redis",
        [Take(14), b"+PONG\r\n"],
        ["option redis-check"],
        f'succeeded, reason: Layer7 check passed, code: 0, info: "Redis server is ok", {UP}',
        b"*1\r\n$4\r\nPING\r\n",
    ),
    Case(
        "redis_error",
        [Take(14), b"-LOADING wait\r\n", END],
        ["option redis-check"],
        failed(WRONG, "-LOADING wait", 0),
    ),
    Case(
        "redis_nothing",
        [Take(14), END],
        ["option redis-check"],
        failed(WRONG, "TCPCHK got an empty response at step 2", 0),
    ),
    Case(
        "smtp",
        [b"220 x\r\n", Take(11), b"250-a\r\n250 b\r\n", Take(6), b"221 bye now\r\n"],
        ["option smtpchk EHLO abcd"],
        f'succeeded, reason: Layer7 check passed, code: 221, info: "bye now", {UP}',
        b"EHLO abcd\r\nQUIT\r\n",
    ),
    Case(
        "smtp_busy",
        [b"421 Try again later\r\n"],
        ["option smtpchk"],
        failed(WRONG, "Try again later", 421),
    ),
    Case(
        "smtp_no",
        [b"who are you?\r\n"],
        ["option smtpchk"],
        failed(INVALID, "who are you?"),
    ),
    Case(
        "pgsql",
        [Take(23), bytes.fromhex("520000000800000000")],
        ["option pgsql-check user postgres"],
        f'succeeded, reason: Layer7 check passed, code: 0, info: "PostgreSQL server is ok", {UP}',
        bytes.fromhex("00000017000300007573657200706f7374677265730000"),
    ),
    Case(
        "pgsql_error",
        [Take(23), b"E\0\0\0\x0bSFATAL\0", END],
        ["option pgsql-check user postgres"],
        failed(INVALID, "FATAL"),
    ),
    Case(
        "pgsql_other",
        [Take(23), b"HTTP/1.1 400 Bad request"],
        ["option pgsql-check user postgres"],
        failed(WRONG, "PostgreSQL unknown error", 0),
    ),
    Case(
        "mysql",
        [GREETING],
        ["option mysql-check"],
        f'succeeded, reason: Layer7 check passed, code: 0, info: "8.0.19", {UP}',
    ),
    Case(
        "mysql_old",
        [GREETING, Take(20), bytes.fromhex("03000002000000")],
        ["option mysql-check user user pre-41"],
        f'succeeded, reason: Layer7 check passed, code: 0, info: "8.0.19", {UP}',
        bytes.fromhex("0B00000100800000017573657200000100000001"),
    ),
    Case(
        "mysql_new",
        [GREETING, Take(47), bytes.fromhex("0700000200000002000000")],
        ["option mysql-check user user"],
        f'succeeded, reason: Layer7 check passed, code: 0, info: "8.0.19", {UP}',
        bytes.fromhex("260000010082000000800001 21") + bytes(23) + b"user\0\0\1\0\0\0\1",
    ),
    Case(
        "mysql_denied",
        [GREETING, Take(47), len(DENIED[1:]).to_bytes(3, "little") + DENIED],
        ["option mysql-check user user"],
        failed(WRONG, "no such protocol", 1251),
    ),
    Case(
        "ldap",
        [Take(14), bytes.fromhex("300c02010161070a010004000400")],
        ["option ldap-check"],
        f'succeeded, reason: Layer7 check passed, code: 0, info: "Success", {UP}',
        bytes.fromhex("300C020101600702010304008000"),
    ),
    Case(
        "ldap_refused",
        [Take(14), bytes.fromhex("300c02010161070a010104000400")],
        ["option ldap-check"],
        failed(WRONG, "See RFC: http://tools.ietf.org/html/rfc4511#section-4.1.9", 1),
    ),
    Case(
        "ldap_other",
        [Take(14), b"0\x0c0123456789ab"],
        ["option ldap-check"],
        failed(INVALID, "Not LDAPv3 protocol"),
    ),
    Case(
        "spop",
        [
            Take(82),
            bytes.fromhex(
                "00000036 65 00000001 0000 0776657273696F6E 0803322E30"
                "0E6D61782D6672616D652D73697A65 03FCF006 0C6361706162696C6974696573 0800"
            ),
        ],
        ["option spop-check"],
        f'succeeded, reason: Layer7 check passed, code: 0, info: "SPOA server is ok", {UP}',
    ),
    Case(
        "spop_old",
        [Take(82), bytes.fromhex("00000014 65 00000001 0000 0776657273696F6E 0803312E30")],
        ["option spop-check"],
        failed(INVALID, "unsupported version"),
    ),
    Case(
        "ssl_hello",
        [Take(126), b"\x15\x03\0\0\x02\x02\x28"],
        ["option ssl-hello-chk"],
        f"succeeded, reason: Layer6 check passed, {UP}",
    ),
    Case(
        "ssl_hello_other",
        [Take(126), b"HTTP/1.1 400"],
        ["option ssl-hello-chk"],
        failed("Layer6 invalid response"),
    ),
    Case(
        "ssl_hello_late",
        [Take(126), b"\x15"],
        ["option ssl-hello-chk"],
        failed("Layer6 timeout"),
        inter=SHORT,
    ),
]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def backend(case: Case, stack: ExitStack, sink: SyslogSink) -> str:
    """The section of a case, whose server runs from now on."""
    if case.steps is None:
        port = free_port()
    else:
        case.server = stack.enter_context(CheckedServer(case.steps))
        port = case.server.port
    lines = "\n    ".join(case.lines)
    return f"""
backend {case.name}
    log 127.0.0.1:{sink.port} local0
    {lines}
    server s 127.0.0.1:{port} check inter {case.inter} {case.words}
"""


def reports(sink: SyslogSink) -> dict[str, str]:
    """By backend: the first report of its check, without how long it took."""
    found: dict[str, str] = {}
    for entry in sink.entries:
        match = re.match(r"Health check for server (\w+)/s (.*)", entry.text)
        if match is not None:
            said = re.sub(r"check duration: \d+ms, ", "", match[2])
            found.setdefault(match[1], said)
    return found


@pytest.mark.parametrize("cases", [HTTP, TCP, OTHERS], ids=["http", "tcp", "others"])
def test_reports(proxy, cases: list[Case], stack: ExitStack, sink: SyslogSink) -> None:
    backends = "".join([backend(case, stack, sink) for case in cases])
    proxy(
        f"""
global
    max-spread-checks 100ms
    node N1
defaults
    timeout connect 40s
    timeout client 120s
    timeout server 120s
    option log-health-checks
    default-server rise 1 fall 1
frontend fe
    bind "fd@${{fe}}"
{backends}
"""
    )
    wait_until(lambda: len(reports(sink)) == len(cases), "a report of each check")
    assert reports(sink) == {case.name: case.said for case in cases}
    for case in cases:
        if case.sent is None:
            continue
        server = case.server
        assert server is not None
        port = str(server.port).encode()
        wanted = case.sent.replace(b"PORT", port).replace(b"BACKEND", case.name.encode())
        wait_until(lambda server=server: server.seen, f"the end of a connection of {case.name}")
        got = server.seen[0]
        assert got == wanted or (wanted == b"PROXY " and got.startswith(wanted)), case.name


def test_steps_on_other_ports(proxy, stack: ExitStack, sink: SyslogSink) -> None:
    """One connection after the other, each with a script of its own."""
    first = stack.enter_context(CheckedServer([Take(), OK]))
    second = stack.enter_context(CheckedServer([Take(), OK]))
    running: Program = proxy(
        f"""
defaults
    timeout connect 40s
    timeout client 120s
    timeout server 120s
    option log-health-checks
frontend fe
    bind "fd@${{fe}}"
backend be
    log 127.0.0.1:{sink.port} local0
    option httpchk
    http-check connect addr 127.0.0.1:{first.port}
    http-check send uri /one
    http-check expect status 200
    http-check connect port {second.port}
    http-check send uri /two
    http-check expect status 200 on-success "%[res.body]"
    server s 127.0.0.1:1 check inter 30s rise 1 fall 1
"""
    )
    wait_until(lambda: "be" in reports(sink), "the report")
    assert reports(sink)["be"] == PASSED.replace(", status", ', info: "ok", status')
    wait_until(lambda: first.seen and second.seen, "the ends")
    assert first.seen[0] == b"OPTIONS /one HTTP/1.0\r\n\r\n"
    assert second.seen[0] == b"OPTIONS /two HTTP/1.0\r\n\r\n"
    stat = running.stat("be", "s")
    assert stat["check_status"] == "L7OK"
    assert stat["check_code"] == "200"
    assert stat["last_chk"] == "ok"
    assert stat["check_desc"] == "Layer7 check passed"


def test_the_states_of_a_server(proxy, stack: ExitStack) -> None:
    """A 404 stops new sessions where that is asked for, and the next 200 brings them back."""
    status = b"200 OK"

    def answers() -> list[Step]:
        return [Take(), b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n"]

    server = stack.enter_context(CheckedServer(answers()))
    running: Program = proxy(
        f"""
defaults
    timeout connect 40s
    timeout client 120s
    timeout server 120s
frontend fe
    bind "fd@${{fe}}"
backend be
    option httpchk
    http-check disable-on-404
    server s 127.0.0.1:{server.port} check inter 50ms rise 1 fall 1
"""
    )
    for status, wanted in (
        (b"404 Not Found", "NOLB"),
        (b"200 OK", "UP"),
        (b"500 No", "DOWN"),
        (b"404 Not Found", "DOWN"),
        (b"200 OK", "UP"),
    ):
        server.set_steps(answers())
        wait_until(
            lambda wanted=wanted: running.server_status("be", "s") == wanted,
            f"{wanted} after {status!r}",
        )


def test_a_real_server(proxy, nginx: Nginx) -> None:
    """nginx has one page, and has not another."""
    running: Program = proxy(
        f"""
defaults
    timeout connect 40s
    timeout client 120s
    timeout server 120s
    default-server check inter 200ms rise 1 fall 1
frontend fe
    bind "fd@${{fe}}"
backend good
    option httpchk GET /small HTTP/1.1
    http-check send hdr Host localhost
    http-check expect string hello
    server s 127.0.0.1:{nginx.port} inter 10s
backend bad
    option httpchk GET /nothing
    server s 127.0.0.1:{nginx.port} inter 10s
"""
    )
    wait_until(lambda: running.stat("good", "s")["check_status"] == "L7OK", "a check")
    wait_until(lambda: running.stat("bad", "s")["check_status"] == "L7STS", "a check")
    stat = running.stat("bad", "s")
    assert (stat["check_code"], stat["last_chk"]) == ("404", "Not Found")
    assert running.stat("good", "s")["check_code"] == "200"
