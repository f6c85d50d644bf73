"""Header fields: option forwardfor, and heads near the buffer's size."""

from __future__ import annotations

from mtproxy.testing.configs import http
from mtproxy.testing.origin import Origin
from mtproxy.testing.wire import Wire


def values(body: bytes, name: str) -> list[bytes]:
    """The values of header `name` in a head that the origin sent back."""
    lines = [line.partition(b": ") for line in body.split(b"\r\n")]
    return [value for key, _, value in lines if key.lower() == name.encode()]


def test_forwardfor(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port, fe="option forwardfor")).connect()
    answer = wire.request("GET /head HTTP/1.1\nhost: a")
    assert values(answer.body, "x-forwarded-for") == [b"127.0.0.1"]


def test_forwardfor_adds_one_more(proxy, origin: Origin) -> None:
    """It appends a header, and leaves the client's own one (manual, option forwardfor)."""
    wire = proxy(http(origin.port, fe="option forwardfor")).connect()
    answer = wire.request("GET /head HTTP/1.1\nhost: a\nx-forwarded-for: 192.0.2.1")
    assert values(answer.body, "x-forwarded-for") == [b"192.0.2.1", b"127.0.0.1"]


def test_forwardfor_of_the_backend(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port, be="option forwardfor")).connect()
    answer = wire.request("GET /head HTTP/1.1\nhost: a")
    assert values(answer.body, "x-forwarded-for") == [b"127.0.0.1"]


def test_forwardfor_header_name(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port, fe="option forwardfor header X-Client")).connect()
    answer = wire.request("GET /head HTTP/1.1\nhost: a")
    assert values(answer.body, "x-client") == [b"127.0.0.1"]
    assert values(answer.body, "x-forwarded-for") == []


def test_forwardfor_if_none(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port, fe="option forwardfor if-none")).connect()
    answer = wire.request("GET /head HTTP/1.1\nhost: a\nX-Forwarded-For: 192.0.2.1")
    assert values(answer.body, "x-forwarded-for") == [b"192.0.2.1"]
    answer = wire.request("GET /head HTTP/1.1\nhost: a")
    assert values(answer.body, "x-forwarded-for") == [b"127.0.0.1"]


def test_forwardfor_except(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port, fe="option forwardfor except 127.0.0.0/8")).connect()
    answer = wire.request("GET /head HTTP/1.1\nhost: a")
    assert values(answer.body, "x-forwarded-for") == []
    wire = proxy(http(origin.port, fe="option forwardfor except 10.0.0.0/8")).connect()
    answer = wire.request("GET /head HTTP/1.1\nhost: a")
    assert values(answer.body, "x-forwarded-for") == [b"127.0.0.1"]


def test_what_the_frontend_excepts_the_backend_does_too(proxy, origin: Origin) -> None:
    """The manual's own example: each side may except addresses, whoever adds the header."""
    config = http(
        origin.port,
        fe="option forwardfor except 127.0.0.1\noption originalto except 10.0.0.0/8\n"
        "http-request set-src hdr(x-from)\nhttp-request set-dst hdr(x-to)",
        be="option forwardfor header X-Client except 10.0.0.9\noption originalto header X-Where",
    )
    wire = proxy(config).connect()
    for source, target, client, where in [
        ("127.0.0.1", "10.1.2.3", [], []),
        ("192.0.2.9", "192.0.2.8", [b"192.0.2.9"], [b"192.0.2.8"]),
        ("10.0.0.9", "127.0.0.1", [], [b"127.0.0.1"]),
    ]:
        answer = wire.request(f"GET /head HTTP/1.1\nhost: a\nx-from: {source}\nx-to: {target}")
        assert values(answer.body, "x-client") == client
        assert values(answer.body, "x-where") == where
        assert values(answer.body, "x-forwarded-for") == []
        assert values(answer.body, "x-original-to") == []


def test_originalto(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port, fe="option originalto")).connect()
    answer = wire.request("GET /head HTTP/1.1\nhost: a\nx-original-to: 192.0.2.1")
    assert values(answer.body, "x-original-to") == [b"192.0.2.1", b"127.0.0.1"]
    config = http(
        origin.port,
        fe="option originalto header X-Dst\nhttp-request set-dst hdr(x-to)",
        be="option originalto except 10.0.0.0/8 header X-Where",
    )
    wire = proxy(config).connect()
    for target, found in [("10.1.2.3", []), ("192.0.2.9", [b"192.0.2.9"]), ("10.1.2.3", [])]:
        answer = wire.request(f"GET /head HTTP/1.1\nhost: a\nx-to: {target}")
        assert values(answer.body, "x-where") == found
        assert values(answer.body, "x-dst") == []


def test_forwardfor_follows_the_source(proxy, origin: Origin) -> None:
    """What set-src makes of one request is not told with the next."""
    fe = "option forwardfor except 10.0.0.0/8\nhttp-request set-src hdr(x-from)"
    wire = proxy(http(origin.port, fe=fe)).connect()
    for source, found in [("192.0.2.9", b"192.0.2.9"), ("10.1.2.3", None), (None, b"127.0.0.1")]:
        line = f"\nx-from: {source}" if source else ""
        answer = wire.request(f"GET /head HTTP/1.1\nhost: a{line}")
        assert values(answer.body, "x-forwarded-for") == ([found] if found else [])


def test_a_big_request_head(proxy, origin: Origin) -> None:
    """15,200 bytes of head fit into tune.bufsize 16384 less tune.maxrewrite 1024."""
    wire = proxy(http(origin.port)).connect()
    answer = wire.request(f"GET /head HTTP/1.1\nhost: a\nx: {'v' * 15200}")
    assert values(answer.body, "x") == [b"v" * 15200]


def test_many_headers(proxy, origin: Origin) -> None:
    wire = proxy(http(origin.port)).connect()
    lines = "".join(f"\nx-{n}: {n}" for n in range(99))
    answer = wire.request(f"GET /head HTTP/1.1\nhost: a{lines}")
    assert answer.body.count(b"\r\nx-") == 99


def test_a_big_response_head(proxy, serve) -> None:
    def handler(wire: Wire) -> None:
        for _ in range(2):
            wire.read_request()
            wire.send(
                b"HTTP/1.1 200 OK\r\nX-Big: " + b"v" * 14000 + b"\r\ncontent-length: 2\r\n\r\nok"
            )

    wire = proxy(http(serve(handler).port)).connect()
    for _ in range(2):
        answer = wire.request("GET / HTTP/1.1\nhost: a")
        assert answer.get("x-big") == b"v" * 14000
        assert answer.body == b"ok"


def test_tune_bufsize(proxy, origin: Origin) -> None:
    running = proxy("global\n    tune.bufsize 65536\n" + http(origin.port))
    answer = running.connect().request(f"GET /head HTTP/1.1\nhost: a\nx: {'v' * 50000}")
    assert values(answer.body, "x") == [b"v" * 50000]


def test_response_headers_pass_in_order(proxy, serve) -> None:
    def handler(wire: Wire) -> None:
        wire.read_request()
        wire.send(
            b"HTTP/1.1 200 OK\r\nServer: old/1\r\nSet-Cookie: a=1\r\nX-Empty:\r\n"
            b"Set-Cookie: b=2\r\nContent-Length: 2\r\nX-Bytes: \xe9\r\n\r\nok"
        )

    wire = proxy(http(serve(handler).port)).connect()
    answer = wire.request("GET / HTTP/1.1\nhost: a")
    assert answer.head.headers == [
        (b"server", b"old/1"),
        (b"set-cookie", b"a=1"),
        (b"x-empty", b""),
        (b"set-cookie", b"b=2"),
        (b"content-length", b"2"),
        (b"x-bytes", b"\xe9"),
    ]
