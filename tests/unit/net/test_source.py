"""Where connections come from: ports of ranges, interfaces, addresses of others; real sockets."""

from __future__ import annotations

import socket

import pytest

from mtproxy.base.addresses import Address, AddressKind, SourceSettings, UseSource
from mtproxy.net.source import CANNOT_BIND, EXHAUSTED, PortRange, PortSocket, Source, SourceError
from mtproxy.testing.server import free_port
from mtproxy.testing.threads import run_threads

_BINDTODEVICE = 25


def source(host: str = "127.0.0.1", low: int = 0, high: int = 0, interface: str = "") -> Source:
    return Source(SourceSettings(Address(AddressKind.IPV4, host, low), high, interface))


def bound(one: Source, outer: tuple[str, int] | None = None) -> socket.socket:
    sock = one.open(socket.AF_INET)
    try:
        one.bind(sock, outer)
    except BaseException:
        sock.close()
        raise
    return sock


def test_ports_come_back_in_their_order() -> None:
    ports = PortRange(5, 7)
    assert [ports.take() for _ in range(4)] == [5, 6, 7, 0]
    ports.give(6)
    ports.give(5)
    ports._check()
    assert [ports.take() for _ in range(3)] == [6, 5, 0]


def test_no_port_is_in_two_hands() -> None:
    ports = PortRange(1, 40)
    held = [0] * 41

    def work(number: int) -> None:
        for _ in range(2000):
            port = ports.take()
            if port:
                held[port] += number + 1
                assert held[port] == number + 1
                held[port] = 0
                ports.give(port)

    run_threads(4, work)
    ports._check()
    taken = sorted(iter(ports.take, 0))
    assert taken == list(range(1, 41))


def test_a_port_stays_until_its_socket_is_closed() -> None:
    low = free_port()
    one = source(low=low, high=low)
    with bound(one) as sock:
        assert isinstance(sock, PortSocket)
        assert sock.getsockname() == ("127.0.0.1", sock.port) == ("127.0.0.1", low)
        with pytest.raises(SourceError) as caught:
            bound(one)
        assert caught.value.reason == EXHAUSTED
    sock.close()  # a second time gives nothing back
    assert one.ports is not None
    assert (one.ports.take(), one.ports.take()) == (low, 0)


def test_a_port_that_others_have_is_passed_over() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        low = other.getsockname()[1]
        one = source(low=low, high=low)
        with pytest.raises(SourceError) as caught:
            bound(one)
        assert caught.value.reason == CANNOT_BIND
        assert one.ports is not None
        assert one.ports.take() == low


def test_an_address_that_is_not_ours() -> None:
    with pytest.raises(SourceError) as caught:
        bound(source("192.0.2.7"))
    assert (caught.value.reason, caught.value.foreign) == (CANNOT_BIND, False)


def test_an_address_of_somebody_else() -> None:
    """The kernel lets everybody bind to one; packets to come back need a privilege."""
    with bound(source(), ("192.0.2.7", 0)) as sock:
        assert sock.getsockname() == ("192.0.2.7", 0)


def test_a_client_of_another_family() -> None:
    with pytest.raises(SourceError) as caught:
        bound(source(), ("::1", 0))
    assert caught.value.foreign


def test_a_path_is_no_source() -> None:
    one = Source(SourceSettings(Address(AddressKind.UNIX, "/x"), usesrc=UseSource.CLIENT))
    with bound(one) as sock:
        assert sock.getsockname() == ("0.0.0.0", 0)
    with pytest.raises(SourceError):
        bound(one, ("127.0.0.1", 0))


def test_an_interface() -> None:
    with bound(source(interface="lo")) as sock:
        found = sock.getsockopt(socket.SOL_SOCKET, _BINDTODEVICE, 16)
        if not found:
            pytest.skip("no right to choose an interface")
        assert found.rstrip(b"\0") == b"lo"
    with bound(source(interface="none-such")) as sock:
        assert sock.getsockopt(socket.SOL_SOCKET, _BINDTODEVICE, 16) == b""
