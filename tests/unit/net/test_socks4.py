"""SOCKS4: the bytes of a request, and what an answer means."""

from __future__ import annotations

from mtproxy.net import socks4


def test_a_request() -> None:
    wanted = bytes.fromhex("04 01 1f90 7f000001") + b"HAProxy\0"
    assert socks4.request("127.0.0.1", 8080) == wanted


def test_only_ipv4_can_be_reached() -> None:
    assert socks4.request("::1", 80) is None
    assert socks4.request("/path", 80) is None


def test_answers() -> None:
    assert socks4.granted(bytes.fromhex("005a000000000000"))
    for refused in ("005b", "005c", "005d", "045a"):
        assert not socks4.granted(bytes.fromhex(refused + "000000000000"))
