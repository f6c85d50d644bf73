"""Upgrade and CONNECT: after the handshake, bytes flow both ways until a side ends."""

from __future__ import annotations

import pytest

from mtproxy.testing.configs import http
from mtproxy.testing.origin import Origin
from mtproxy.testing.payload import payload
from mtproxy.testing.wire import Wire, as_wire

WEBSOCKET = (
    "GET /upgrade HTTP/1.1\nhost: a\nconnection: Upgrade\nupgrade: websocket\n"
    "sec-websocket-version: 13\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="
)


def websocket(port: int) -> str:
    """RFC 6455's handshake answer is the test server's business, not the proxy's."""
    return http(port)


def accept_websocket(wire: Wire) -> None:
    head = wire.read_head()
    assert head.get("upgrade") == b"websocket"
    assert head.has_token("connection", "upgrade")
    wire.send(
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
        b"sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
    )


def echo(wire: Wire) -> None:
    while wire.buffer or wire.fill():
        wire.send(wire.take(len(wire.buffer)))


def test_websocket(proxy, serve) -> None:
    def handler(wire: Wire) -> None:
        accept_websocket(wire)
        echo(wire)

    wire = proxy(websocket(serve(handler).port)).connect()
    answer = wire.request(WEBSOCKET)
    assert answer.status == 101
    assert answer.get("upgrade") == b"websocket"
    assert answer.head.has_token("connection", "upgrade")
    for text in (b"\x81\x05hello", b"\x00\x01\xff", b"GET / HTTP/1.1\r\n\r\n"):
        wire.send(text)
        assert wire.read_exactly(len(text)) == text
    wire.shutdown_write()
    assert wire.at_end()


def test_other_protocols_upgrade_too(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port)).connect()
    answer = wire.request("GET /upgrade HTTP/1.1\nhost: a\nconnection: upgrade\nupgrade: chat/2")
    assert (answer.status, answer.get("upgrade")) == (101, b"chat/2")
    wire.send(b"ping")
    assert wire.read_exactly(4) == b"ping"


def test_bytes_behind_the_handshake_are_not_lost(proxy, serve) -> None:
    """The server speaks first, in the segment of its 101."""

    def handler(wire: Wire) -> None:
        wire.read_head()
        wire.send(
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nwelcome"
        )
        echo(wire)

    wire = proxy(http(serve(handler).port)).connect()
    answer = wire.request("GET / HTTP/1.1\nhost: a\nconnection: upgrade\nupgrade: x")
    assert answer.status == 101
    assert wire.read_exactly(7) == b"welcome"
    wire.send(b"thanks")
    assert wire.read_exactly(6) == b"thanks"


def test_the_server_ends_the_tunnel(proxy, serve) -> None:
    def handler(wire: Wire) -> None:
        accept_websocket(wire)
        wire.send(b"bye")

    wire = proxy(websocket(serve(handler).port)).connect()
    assert wire.request(WEBSOCKET).status == 101
    assert wire.read_exactly(3) == b"bye"
    assert wire.at_end()


def test_a_large_transfer_both_ways(proxy, serve) -> None:
    def handler(wire: Wire) -> None:
        accept_websocket(wire)
        echo(wire)

    wire = proxy(websocket(serve(handler).port)).connect()
    assert wire.request(WEBSOCKET).status == 101
    data = payload("tunnel", 3_000_000)
    for start in range(0, len(data), 50_000):
        wire.send(data[start : start + 50_000])
        assert wire.read_exactly(len(data[start : start + 50_000])) == data[start : start + 50_000]


def test_a_refused_upgrade_is_an_ordinary_answer(proxy, serve) -> None:
    def handler(wire: Wire) -> None:
        for _ in range(2):
            wire.read_head()
            wire.send(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno")

    wire = proxy(websocket(serve(handler).port)).connect()
    assert wire.request(WEBSOCKET).status == 403
    assert wire.request("GET / HTTP/1.1\nhost: a").body == b"no"


def test_upgrade_without_the_connection_word_is_not_forwarded_as_one(proxy, origin: Origin) -> None:
    """RFC 9110 section 7.8: `Upgrade` counts only when `Connection` names it."""
    wire = proxy(http(origin.port)).connect()
    answer = wire.request("GET /upgrade HTTP/1.1\nhost: a\nupgrade: chat")
    assert answer.status == 400  # the origin's own: it saw no upgrade
    assert answer.body == b"not an upgrade"


def test_an_unasked_101_is_an_error(proxy, serve) -> None:
    def handler(wire: Wire) -> None:
        wire.read_head()
        wire.send(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n")

    wire = proxy(http(serve(handler).port)).connect()
    assert wire.request("GET / HTTP/1.1\nhost: a").status == 502


def test_connect(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port)).connect()
    answer = wire.request("CONNECT example.org:443 HTTP/1.1\nhost: example.org:443")
    assert answer.status == 200
    assert origin.requests[0].head.target == b"example.org:443"
    for text in (b"\x16\x03\x01", b"more"):
        wire.send(text)
        assert wire.read_exactly(len(text)) == text
    wire.shutdown_write()
    assert wire.at_end()


@pytest.mark.parametrize("kind", ["websocket", "connect"])
def test_tunnel_timeout(proxy, serve, kind: str) -> None:
    """`timeout tunnel` replaces client and server timeouts, and ends a silent tunnel."""

    def handler(wire: Wire) -> None:
        if kind == "websocket":
            accept_websocket(wire)
        else:
            wire.read_head()
            wire.send(b"HTTP/1.1 200 OK\r\n\r\n")
        assert wire.at_end()

    be = "timeout tunnel 1s\n timeout server 60s"
    wire = proxy(http(serve(handler).port, fe="timeout client 60s", be=be)).connect()
    if kind == "websocket":
        assert wire.request(WEBSOCKET).status == 101
    else:
        assert wire.request("CONNECT a:1 HTTP/1.1\nhost: a:1").status == 200
    assert wire.still_open(0.2)
    assert wire.at_end()


def test_tunnel_outlives_client_and_server_timeouts(proxy, serve) -> None:
    def handler(wire: Wire) -> None:
        accept_websocket(wire)
        echo(wire)

    be = "timeout tunnel 60s\n timeout server 500ms"
    wire = proxy(http(serve(handler).port, fe="timeout client 500ms", be=be)).connect()
    assert wire.request(WEBSOCKET).status == 101
    assert wire.still_open(1.2)
    wire.send(b"still here")
    assert wire.read_exactly(10) == b"still here"


def test_pipelining_behind_connect_is_tunnel_data(proxy, serve) -> None:
    """What a client sends behind CONNECT goes to the server only as tunnel bytes."""

    def handler(wire: Wire) -> None:
        wire.read_head()
        wire.send(b"HTTP/1.1 200 OK\r\n\r\n")
        assert wire.read_until(b"\r\n\r\n") == as_wire("GET /x HTTP/1.1\nhost: evil")
        wire.send(b"raw")

    wire = proxy(http(serve(handler).port)).connect()
    wire.send(as_wire("CONNECT a:1 HTTP/1.1\nhost: a:1") + as_wire("GET /x HTTP/1.1\nhost: evil"))
    assert wire.read_response("CONNECT").status == 200
    assert wire.read_exactly(3) == b"raw"
