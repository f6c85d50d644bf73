"""Addresses on both sides: IPv4, IPv6, UNIX paths, abstract sockets, inherited descriptors."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from mtproxy.testing.configs import HTTP, http
from mtproxy.testing.origin import Origin
from mtproxy.testing.server import free_port
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import connect, refused

GET = "GET /len/5 HTTP/1.1\nhost: a"


def bound_to(address: str, port: int, extra: str = "") -> str:
    return f"""{HTTP}
frontend fe
    bind {address} {extra}
    default_backend be
backend be
    server s1 127.0.0.1:{port}
"""


def served_by(address: str) -> str:
    return f"""{HTTP}
frontend fe
    bind "fd@${{fe}}"
    default_backend be
backend be
    server s1 {address}
"""


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="no IPv6 on this machine's loopback")


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "ipv4@127.0.0.1:{}", "*:{}", ":{}", "0.0.0.0:{}"])
def test_ipv4_listeners(proxy, origin: Origin, form: str) -> None:
    port = free_port()
    proxy(bound_to(form.format(port), origin.port))
    with connect(("127.0.0.1", port)) as wire:
        assert wire.request(GET).status == 200


@needs_ipv6
@pytest.mark.parametrize("form", ["[::1]:{}", "::1:{}", "ipv6@::1:{}", ":::{}"])
def test_ipv6_listeners(proxy, origin: Origin, form: str) -> None:
    port = free_port()
    proxy(bound_to(form.format(port), origin.port))
    with connect(("::1", port)) as wire:
        assert wire.request(GET).status == 200


@needs_ipv6
def test_v4v6_and_v6only(proxy, origin: Origin) -> None:
    port = free_port()
    running = proxy(bound_to(f":::{port}", origin.port, "v4v6"))
    with connect(("127.0.0.1", port)) as wire:
        assert wire.request(GET).status == 200
    running.kill()
    other = free_port()
    running = proxy(bound_to(f":::{other}", origin.port, "v6only"))
    assert refused(("127.0.0.1", other))


@needs_ipv6
def test_forwardfor_over_ipv6(proxy, origin: Origin) -> None:
    port = free_port()
    config = bound_to(f"[::1]:{port}", origin.port).replace(
        "mode http", "mode http\n option forwardfor"
    )
    proxy(config)
    with connect(("::1", port)) as wire:
        assert b"x-forwarded-for: ::1\r\n" in wire.request("GET /head HTTP/1.1\nhost: a").body


def test_several_addresses_and_port_ranges(proxy, origin: Origin) -> None:
    one, two = free_port(), free_port()
    proxy(bound_to(f"127.0.0.1:{one},127.0.0.1:{two}", origin.port))
    for port in (one, two):
        with connect(("127.0.0.1", port)) as wire:
            assert wire.request(GET).status == 200


def test_unix_listener(proxy, origin: Origin, tmp_path: Path) -> None:
    path = f"/tmp/mtp-{os.getpid()}-l.sock"
    proxy(bound_to(f"unix@{path}", origin.port, "mode 600"))
    try:
        assert os.stat(path).st_mode & 0o777 == 0o600
        with connect(path) as wire:
            assert wire.request(GET).status == 200
    finally:
        os.unlink(path)


def test_abstract_listener(proxy, origin: Origin) -> None:
    name = f"mtp-{os.getpid()}-l"
    proxy(bound_to(f"abns@{name}", origin.port))
    # HAProxy pads the name with zero bytes to the whole length of sun_path
    padded = "@" + name + "\0" * (107 - len(name))
    with connect(padded) as wire:
        assert wire.request(GET).status == 200


def test_inherited_descriptor(proxy, origin: Origin) -> None:
    running = proxy(http(origin.port))
    assert running.connect().request(GET).status == 200


def test_unquoted_inherited_descriptor(proxy, origin: Origin) -> None:
    running = proxy(http(origin.port).replace('"fd@${fe}"', "fd@${fe}"))
    assert running.connect().request(GET).status == 200


def test_port_in_use_is_an_error(proxy, origin: Origin) -> None:
    running = proxy(bound_to(f"127.0.0.1:{origin.port}", origin.port), ready=False)
    assert running.wait_exit() == 1
    assert f"127.0.0.1:{origin.port}" in running.output()
    assert "fe" in running.output()


def test_unix_server(proxy) -> None:
    path = f"/tmp/mtp-{os.getpid()}-s.sock"
    with Origin(path):
        assert proxy(served_by(path)).connect().request(GET).status == 200
        assert proxy(served_by(f"unix@{path}")).connect().request(GET).status == 200


def test_abstract_server(proxy) -> None:
    name = f"mtp-{os.getpid()}-s"
    with Origin("@" + name + "\0" * (107 - len(name))):
        assert proxy(served_by(f"abns@{name}")).connect().request(GET).status == 200


@needs_ipv6
@pytest.mark.parametrize("form", ["[::1]:{}", "::1:{}", "ipv6@::1:{}"])
def test_ipv6_server(proxy, form: str) -> None:
    with Origin(("::1", 0)) as origin:
        assert proxy(served_by(form.format(origin.port))).connect().request(GET).status == 200


def origin_beside(offset: int) -> tuple[int, Origin]:
    """A port that is free on 127.0.0.1, and an origin on 127.0.0.2 at that port + `offset`."""
    while True:
        port = free_port()
        try:
            return port, Origin(("127.0.0.2", port + offset))
        except OSError:  # somebody else's
            continue


@pytest.mark.parametrize(("offset", "text"), [(0, ""), (0, ":+0"), (1, ":+1"), (-1, ":-1")])
def test_server_port_relative_to_the_clients(proxy, offset: int, text: str) -> None:
    """Manual 5, server: no port means the port that the client connected to, a sign is relative."""
    port, origin = origin_beside(offset)
    with origin:
        proxy(f"""{HTTP}
listen l
    bind 127.0.0.1:{port}
    server s1 127.0.0.2{text}
""")
        with connect(("127.0.0.1", port)) as wire:
            assert wire.request(GET).status == 200


def test_what_a_listener_cannot_have_it_goes_without(proxy, tmp_path) -> None:
    """An interface that is not there, an impossible segment size: warnings, and connections."""
    ports = [free_port(), free_port()]
    running = proxy(
        "global\n    nbthread 1\n"
        + HTTP
        + "frontend fe\n"
        + f"    bind 127.0.0.1:{ports[0]} interface none9\n"
        + f"    bind 127.0.0.1:{ports[1]} mss 65000\n"
        + "    http-request return status 200\n",
        ready=False,
    )
    for port in ports:
        wait_until(lambda port=port: not refused(("127.0.0.1", port)), f"port {port}")
        with connect(("127.0.0.1", port)) as wire:
            assert wire.request("GET / HTTP/1.1\nhost: a").status == 200
    output = running.output()
    assert "for frontend fe: cannot bind receiver to device 'none9' (No such device)" in output
    assert f"for frontend fe: cannot set MSS to 65000 for [127.0.0.1:{ports[1]}]" in output
