"""Connections of `mode tcp` that become HTTP: by a rule, or because of their backend."""

from __future__ import annotations

from mtproxy.testing.origin import Origin
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import PeerClosed, Wire

TIMES = "    timeout connect 40s\n    timeout client 120s\n    timeout server 120s\n"


def config(origin: Origin, fe: str, be: str = "", tcp_port: int = 1, more: str = "") -> str:
    def lines(text: str) -> str:
        return "".join(f"    {line.strip()}\n" for line in text.strip().splitlines())

    return f"""{more}
defaults
{TIMES}
frontend fe
    mode tcp
    bind "fd@${{fe}}"
{lines(fe)}
backend web
    mode http
{lines(be)}
    server s 127.0.0.1:{origin.port}
backend raw
    mode tcp
    server s 127.0.0.1:{tcp_port}
"""


def seen(wire: Wire, name: bytes) -> bytes | None:
    """A header of the request as the server saw it."""
    message = wire.request("GET /head HTTP/1.1\nhost: a")
    assert message.status == 200
    head = message.body
    for line in head.split(b"\r\n"):
        if line.lower().startswith(name + b":"):
            return line.partition(b":")[2].strip()
    return None


def echo(wire: Wire) -> None:
    while wire.fill():
        wire.send(wire.take(len(wire.buffer)))


def test_a_backend_of_mode_http(proxy, origin: Origin) -> None:
    running = proxy(config(origin, "default_backend web", "http-request set-header x-be yes"))
    wire = running.connect()
    assert seen(wire, b"x-be") == b"yes"
    assert seen(wire, b"x-be") == b"yes"  # the connection goes on
    assert running.stat("fe", "FRONTEND")["stot"] == "1"
    wait_until(lambda: running.stat("web", "s")["stot"] == "2", "two requests")
    wire.close()
    wait_until(lambda: running.stat("fe", "FRONTEND")["scur"] == "0", "no session")


def test_the_body_comes_through(proxy, origin: Origin) -> None:
    wire = proxy(config(origin, "default_backend web")).connect()
    body = b"x" * 100_000
    wire.send(b"POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(body))
    wire.send(body)
    assert wire.read_response("POST").body == body


def test_what_is_no_http(proxy, origin: Origin) -> None:
    wire = proxy(config(origin, "default_backend web")).connect()
    wire.send(b"nonsense\r\n\r\n")
    assert wire.read_response().status == 400


def test_a_rule_switches(proxy, serve, origin: Origin) -> None:
    """HTTP goes the way of the frontend's HTTP rules, all else that of TCP."""
    fe = """
        tcp-request inspect-delay 60s
        tcp-request content switch-mode http if HTTP
        http-request set-header x-fe yes
        use_backend web if HTTP
        default_backend raw
    """
    server = serve(echo)
    running = proxy(config(origin, fe, tcp_port=server.port))
    wire = running.connect()
    assert seen(wire, b"x-fe") == b"yes"
    assert seen(wire, b"x-fe") == b"yes"
    other = running.connect()
    other.send(b"\x00\x01binary\r\n\r\n")
    assert other.read_exactly(12) == b"\x00\x01binary\r\n\r\n"


def test_variables_of_rules_about_content(proxy, origin: Origin) -> None:
    """They are there for the rules about HTTP; the next request sets its own."""
    fe = """
        tcp-request inspect-delay 60s
        tcp-request content set-var(req.mode) internal.strm.is_htx,iif(http,tcp)
        tcp-request content switch-mode http if HTTP
        tcp-request content reject
        http-request set-header x-mode %[var(req.mode)]
        http-request set-header x-name %[fe_name]
        default_backend web
    """
    wire = proxy(config(origin, fe)).connect()
    assert seen(wire, b"x-mode") == b"tcp"
    wire.send(b"GET /head HTTP/1.1\r\nhost: a\r\n\r\n")
    head = wire.read_response().body.lower()
    assert b"x-mode: http" in head
    assert b"x-name: fe" in head


def test_http_does_not_go_to_a_backend_of_mode_tcp(proxy, origin: Origin) -> None:
    fe = """
        tcp-request content switch-mode http
        default_backend raw
    """
    wire = proxy(config(origin, fe)).connect()
    wire.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    assert wire.read_to_end() == b""


def test_a_listener_that_stays_with_tcp(proxy, origin: Origin) -> None:
    text = config(origin, "default_backend web").replace('{fe}"', '{fe}" proto none')
    wire = proxy(text).connect()
    wire.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    assert not wire_answer(wire)


def wire_answer(wire: Wire) -> bytes:
    try:
        return wire.read_to_end()
    except (ConnectionError, PeerClosed):
        return b""


def test_the_choice_of_a_rule_about_bytes_holds(proxy, serve, origin: Origin) -> None:
    """The backend is chosen by what is there before it is known to be HTTP."""
    fe = """
        tcp-request inspect-delay 60s
        tcp-request content accept if { req.len gt 3 }
        use_backend web if { req.payload(0,3) -m str GET }
        default_backend raw
    """
    server = serve(echo)
    running = proxy(config(origin, fe, tcp_port=server.port))
    assert running.connect().request("GET /head HTTP/1.1\nhost: a").status == 200
    other = running.connect()
    other.send(b"hello")
    assert other.read_exactly(5) == b"hello"


def test_the_log_is_the_frontends(proxy, origin: Origin, sink) -> None:
    """A frontend of `mode tcp` logs in its own way, one line for each request."""
    more = f"    log 127.0.0.1:{sink.port} local0"
    fe = 'log global\nlog-format "%b/%s %ts"\ndefault_backend web'
    running = proxy(config(origin, fe, more=more))
    running.connect().request("GET /head HTTP/1.1\nhost: a")
    sink.wait("web/s --")


def test_a_client_with_a_proxy_header(proxy, origin: Origin) -> None:
    text = config(origin, "default_backend web", "option forwardfor")
    text = text.replace('bind "fd@${fe}"', 'bind "fd@${fe}" accept-proxy')
    wire = proxy(text).connect()
    wire.send(b"PROXY TCP4 192.0.2.9 192.0.2.1 1000 80\r\n")
    assert seen(wire, b"x-forwarded-for") == b"192.0.2.9"
