"""Servers behind a SOCKS4 proxy: traffic and checks."""

from __future__ import annotations

import pytest

from mtproxy.testing.checked import END, HANG, CheckedServer, Step, Take
from mtproxy.testing.configs import http
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program
from mtproxy.testing.waiting import wait_until

#: version 4, command "connect", port 8080, 192.0.2.7, the user
REQUEST = bytes.fromhex("0401 1f90 c0000207") + b"HAProxy\0"
GRANTED = bytes.fromhex("005a000000000000")
DENIED = bytes.fromhex("005b000000000000")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def config(port: int, words: str = "", lines: str = "") -> str:
    text = http(1, server=f"socks4 127.0.0.1:{port} {words}", be=f"retries 0\n{lines}")
    return text.replace("127.0.0.1:1 ", "192.0.2.7:8080 ")


def test_traffic_goes_through_the_proxy(proxy) -> None:
    with CheckedServer([Take(len(REQUEST)), GRANTED, Take(), OK, HANG]) as socks:
        running: Program = proxy(config(socks.port))
        wire = running.connect()
        answer = wire.request("GET /x HTTP/1.1\nHost: a\nConnection: close\n\n")
        assert (answer.status, answer.body) == (200, b"ok")
        wire.close()
        running.stop()
        wait_until(lambda: socks.seen, "the end of the connection")
        assert socks.seen[0].startswith(REQUEST + b"GET /x HTTP/1.1\r\n")


def test_a_proxy_that_refuses(proxy) -> None:
    with CheckedServer([Take(len(REQUEST)), DENIED, HANG]) as socks:
        running: Program = proxy(config(socks.port))
        answer = running.connect().request("GET / HTTP/1.1\nHost: a\n\n")
        assert answer.status == 503


def test_a_proxy_that_closes(proxy) -> None:
    with CheckedServer([Take(len(REQUEST)), END]) as socks:
        running: Program = proxy(config(socks.port))
        answer = running.connect().request("GET / HTTP/1.1\nHost: a\n\n")
        assert answer.status == 503


def test_checks_go_through_it_if_they_are_told_to(proxy, origin: Origin) -> None:
    with CheckedServer([Take(len(REQUEST)), GRANTED, Take(), OK, HANG]) as socks:
        running: Program = proxy(
            config(socks.port, "check inter 100ms check-via-socks4", "option httpchk")
        )
        wait_until(lambda: running.stat("be", "s1")["check_status"] == "L7OK", "a check")
        assert running.stat("be", "s1")["check_code"] == "200"


@pytest.mark.parametrize(
    ("steps", "inter", "status", "info"),
    [
        ([DENIED, HANG], "5s", "SOCKERR", "SOCKS4 Proxy deny the request"),
        ([END], "5s", "SOCKERR", "SOCKS4 Proxy read error during handshake"),
        ([HANG], "300ms", "L7TOUT", ""),
    ],
)
def test_checks_through_a_proxy_that_does_not(
    proxy, steps: list[Step], inter: str, status: str, info: str
) -> None:
    with CheckedServer([Take(len(REQUEST)), *steps]) as socks:
        running: Program = proxy(config(socks.port, f"check inter {inter} fall 1 check-via-socks4"))
        wait_until(lambda: running.server_status("be", "s1") == "DOWN", "a check")
        stat = running.stat("be", "s1")
        assert (stat["check_status"].removeprefix("* "), stat["last_chk"]) == (status, info)
