"""Every address form of `bind`, `server` and `log`."""

from __future__ import annotations

import socket

import pytest

from mtproxy.base.address import (
    AddressError,
    Port,
    expand,
    parse_address,
    parse_addresses,
    resolve_plainly,
)
from mtproxy.base.addresses import AddressKind as Kind

HOSTS = {
    ("both.example", socket.AF_UNSPEC): ["2001:db8::7", "192.0.2.7"],
    ("both.example", socket.AF_INET): ["192.0.2.7"],
}


def fake(name: str, family: int) -> list[str]:
    return HOSTS.get((name, int(family)), [])


@pytest.mark.parametrize(
    ("text", "kind", "host", "port"),
    [
        (":80", Kind.IPV4, "0.0.0.0", 80),
        ("*:80", Kind.IPV4, "0.0.0.0", 80),
        ("127.0.0.1:80", Kind.IPV4, "127.0.0.1", 80),
        ("[::1]:80", Kind.IPV6, "::1", 80),
        ("::1:80", Kind.IPV6, "::1", 80),
        (":::80", Kind.IPV6, "::", 80),
        ("ipv4@:80", Kind.IPV4, "0.0.0.0", 80),
        ("ipv6@:80", Kind.IPV6, "::", 80),
        ("ipv6@*:80", Kind.IPV6, "::", 80),
        ("tcp4@127.0.0.1:80", Kind.IPV4, "127.0.0.1", 80),
        ("stream+ipv4@127.0.0.1:80", Kind.IPV4, "127.0.0.1", 80),
        ("udp@127.0.0.1:80", Kind.UDP4, "127.0.0.1", 80),
        ("dgram+ipv6@[::1]:80", Kind.UDP6, "::1", 80),
        ("/run/x.sock", Kind.UNIX, "/run/x.sock", 0),
        ("unix@run/x.sock", Kind.UNIX, "run/x.sock", 0),
        ("abns@name", Kind.ABNS, "name", 0),
        ("both.example:80", Kind.IPV6, "2001:db8::7", 80),
        ("ipv4@both.example:80", Kind.IPV4, "192.0.2.7", 80),
    ],
)
def test_one_address(text: str, kind: Kind, host: str, port: int) -> None:
    (address,) = parse_addresses(text, {}, resolver=fake)
    assert (address.kind, address.host, address.port) == (kind, host, port)
    assert address.text == text


def test_descriptors_come_by_number_or_variable() -> None:
    assert parse_address("fd@7", {}).address.fd == 7
    assert parse_address("fd@${sock}", {"sock": "12"}).address.fd == 12
    assert parse_address("stream+fd@$sock", {"sock": "3"}).address.fd == 3
    with pytest.raises(AddressError, match="is not a number in 'fd@"):
        parse_address("fd@${sock}", {})


def test_a_list_with_a_port_range_gives_one_address_each() -> None:
    found = parse_addresses("127.0.0.1:80-82,[::1]:90,", {})
    assert [(a.host, a.port) for a in found] == [
        ("127.0.0.1", 80),
        ("127.0.0.1", 81),
        ("127.0.0.1", 82),
        ("::1", 90),
    ]


def test_a_server_may_lack_a_port_or_give_an_offset() -> None:
    rule = Port.OPTIONAL_OR_OFFSET
    assert parse_address("192.0.2.1", {}, port=rule).address.port == 0
    for text, offset in (("192.0.2.1:+10", 10), ("192.0.2.1:-10", -10)):
        address = parse_address(text, {}, port=rule).address
        assert (address.port, address.port_offset) == (0, offset)


def test_the_host_name_is_kept() -> None:
    parsed = parse_address("both.example:80", {}, resolver=fake)
    assert parsed.hostname == "both.example"
    assert parse_address("192.0.2.1:80", {}, resolver=fake).hostname is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty address"),
        ("127.0.0.1", "missing port number"),
        ("80", "missing port number"),
        ("127.0.0.1:", "missing port number"),
        (":0", "invalid port '0'"),
        (":65536", "invalid port '65536'"),
        (":90-80", "invalid port range '90-80'"),
        (":+10", "invalid character in port number"),
        (":8o", "invalid character in port number"),
        ("[::1:80", "missing '\\]'"),
        ("[::1]80", "unexpected '80' after '\\]'"),
        ("ipv6@127.0.0.1:80", "not of the address family"),
        ("ipv4@[::1]:80", "not of the address family"),
        ("none.example:80", "could not resolve address 'none.example'"),
        ("256.0.0.1:80", "could not resolve address '256.0.0.1'"),
        ("foo@127.0.0.1:80", "unknown address prefix 'foo@'"),
        ("quic4@:443", "not supported by mtproxy yet .QUIC"),
        ("sockpair@3", "not supported by mtproxy yet .socket pairs"),
        ("unix@", "missing path"),
        ("/" + "a" * 97, "too long"),
        ("127.0.0.1:80,,:81", "empty address"),
    ],
)
def test_faults_are_named(text: str, message: str) -> None:
    with pytest.raises(AddressError, match=message):
        parse_addresses(text, {}, resolver=fake)


def test_only_lists_of_bind_may_have_ranges() -> None:
    with pytest.raises(AddressError, match="port range not permitted"):
        parse_address("127.0.0.1:80-90", {}, port=Port.OPTIONAL)
    with pytest.raises(AddressError, match="unexpected port"):
        parse_address("127.0.0.1:80", {}, port=Port.FORBIDDEN)
    with pytest.raises(AddressError, match="a literal IP address"):
        parse_address("localhost:80", {}, resolver=None)


def test_a_path_of_97_bytes_is_the_longest() -> None:
    path = "/" + "a" * 96
    assert parse_address(path, {}).address.host == path


def test_variables_are_expanded_outside_quotes() -> None:
    assert expand("$A-${B}-$C", {"A": "1", "B": "2"}) == "1-2-"


def test_resolving_without_getaddrinfo_knows_ipv4_only() -> None:
    assert resolve_plainly("127.0.0.1", socket.AF_UNSPEC) == ["127.0.0.1"]
    assert resolve_plainly("localhost", socket.AF_INET6) == []
    assert resolve_plainly("a" * 64 + ".example", socket.AF_INET) == []
