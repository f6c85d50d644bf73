"""Names of servers in the configuration: resolvers, init-addr, SRV names, templates."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtproxy.base.addresses import AddressKind
from mtproxy.base.server_settings import ServerSettings
from mtproxy.base.settings import Settings
from mtproxy.config import keywords_resolvers, load

HEAD = """
defaults
 timeout connect 1s
 timeout client 1s
 timeout server 1s
resolvers dns
 nameserver a 192.0.2.53:53
backend b
"""


def loaded(tmp_path: Path, text: str, known: str = "") -> tuple[Settings | None, list[str]]:
    """The settings, and what was said; `known` is the one name that the C library knows."""
    path = tmp_path / "a.cfg"
    path.write_text(text)
    found, diagnostics = load(
        [str(path)], resolver=lambda name, _family: ["192.0.2.7"] if name == known else []
    )
    return found, [item.message for item in diagnostics]


def servers(tmp_path: Path, lines: str, known: str = "") -> tuple[ServerSettings, ...]:
    found, said = loaded(tmp_path, HEAD + lines, known)
    assert found is not None, said
    return found.proxies[0].servers


@pytest.mark.parametrize(
    ("words", "known", "address"),
    [
        ("", "a.test", "192.0.2.7"),
        ("", "", None),
        ("init-addr none", "a.test", None),
        ("init-addr none,libc", "a.test", None),
        ("init-addr libc,none", "a.test", "192.0.2.7"),
        ("init-addr libc,192.0.2.9", "", "192.0.2.9"),
        ("init-addr last,libc,none", "", None),
    ],
)
def test_the_first_address(tmp_path: Path, words: str, known: str, address: str | None) -> None:
    (server,) = servers(tmp_path, f" server s a.test:80 resolvers dns {words}\n", known)
    assert server.hostname == "a.test"
    assert server.resolve is not None
    assert server.resolve.resolvers == "dns"
    assert server.address.port == 80
    assert server.unresolved == (address is None)
    if address is None:
        assert server.address.kind is AddressKind.NONE
    else:
        assert server.address.host == address


@pytest.mark.parametrize("words", ["", "init-addr last,libc", "init-addr libc resolvers dns"])
def test_a_name_that_must_be_known(tmp_path: Path, words: str) -> None:
    found, said = loaded(tmp_path, HEAD + f" server s a.test:80 {words}\n")
    assert found is None
    assert said == ["'server b/s' : could not resolve address 'a.test'"]


def test_a_method_is_needed(tmp_path: Path) -> None:
    for line in ("s _http._tcp.test", "s a.test:80 init-addr last"):
        found, said = loaded(tmp_path, f"{HEAD} server {line}\n")
        assert found is None
        assert "no method found to resolve address" in said[0]


def test_defaults_of_servers_are_inherited(tmp_path: Path) -> None:
    text = """ default-server init-addr none resolvers dns resolve-prefer ipv4
 default-server resolve-opts allow-dup-ip,ignore-weight resolve-net 10.0.0.0/8,2001:db8::/32
 server s a.test:80
 server t a.test:80 resolve-opts prevent-dup-ip resolve-prefer ipv6
 server u 192.0.2.1:80
"""
    s, t, u = servers(tmp_path, text)
    assert s.resolve is not None
    assert t.resolve is not None
    assert (s.resolve.prefer, s.resolve.allow_dup_ip, s.resolve.ignore_weight) == (
        "ipv4",
        True,
        True,
    )
    assert s.resolve.nets == ("10.0.0.0/8", "2001:db8::/32")
    assert (t.resolve.prefer, t.resolve.allow_dup_ip, t.resolve.ignore_weight) == (
        "ipv6",
        False,
        True,
    )
    # there is nothing to look up
    assert u.resolve is None


def test_a_template_of_a_srv_name(tmp_path: Path) -> None:
    found = servers(tmp_path, " server-template w 3 _http._tcp.a.test resolvers dns check\n")
    assert [server.name for server in found] == ["w1", "w2", "w3"]
    assert [server.id for server in found] == [1, 2, 3]
    for server in found:
        assert server.hostname is None
        assert server.resolve is not None
        assert server.resolve.srv_name == "_http._tcp.a.test"
        assert server.unresolved


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("w 1 192.0.2.1:80", ["w1"]),
        ("w 2-4 192.0.2.1:80", ["w2", "w3", "w4"]),
        ("w 0-1 192.0.2.1:80", ["w0", "w1"]),
    ],
)
def test_templates(tmp_path: Path, words: str, names: list[str]) -> None:
    found = servers(tmp_path, f" server-template {words} weight 7\n")
    assert [server.name for server in found] == names
    assert {server.weight for server in found} == {7}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("server-template w", "'server-template' expects a number or a range as argument"),
        ("server-template w 3", "'server-template' expects an address"),
        ("server-template w x 192.0.2.1:1", "wrong number or range 'x'"),
        ("server-template w 3-2 192.0.2.1:1", "wrong number or range '3-2'"),
        ("server-template w 0 192.0.2.1:1", "wrong number or range '0'"),
        ("server-template w 99999999 192.0.2.1:1", "wrong number or range"),
        ("server-template w% 3 192.0.2.1:1", "character '%' is not permitted"),
        ("server s a.test:1 resolvers dsn init-addr none", "unable to find required resolvers"),
        ("server s 192.0.2.1:1 resolvers dsn", "unable to find required resolvers 'dsn'"),
        ("server s a.test:1 resolve-opts any", "unknown option 'any'"),
        ("server s a.test:1 resolve-prefer ipv5", "only supports 'ipv4', 'ipv6'"),
        ("server s a.test:1 resolve-net 10.0.0.0/33", "invalid network"),
        ("server s a.test:1 resolve-net 1.1.1.1,2.2.2.2,3.3.3.3,4.4.4.4,5.5.5.5,6.6.6.6", "more"),
        ("server s a.test:1 init-addr nobody", "unknown method or invalid address 'nobody'"),
    ],
)
def test_mistakes(tmp_path: Path, line: str, message: str) -> None:
    found, said = loaded(tmp_path, f"{HEAD} {line}\n")
    assert found is None
    assert any(message in text for text in said), said


def test_a_template_may_meet_a_server_of_its_name(tmp_path: Path) -> None:
    lines = " server w2 192.0.2.1:1\n server-template w 3 192.0.2.1:1\n"
    found, said = loaded(tmp_path, HEAD + lines)
    assert found is None
    assert any("another server named 'w2' was already defined" in text for text in said)


def section(tmp_path: Path, lines: str) -> tuple[Settings | None, list[str]]:
    return loaded(tmp_path, f"resolvers r\n{lines}\nfrontend f\n bind :1\n")


def test_a_whole_section(tmp_path: Path) -> None:
    lines = (
        " nameserver a 192.0.2.1:53\n nameserver b tcp@[2001:db8::1]:54\n"
        " nameserver c udp@192.0.2.3:55\n"
        " hold nx 1s\n hold refused 2s\n hold timeout 3s\n hold other 4s\n hold obsolete 5s\n"
        " hold valid 6s\n timeout resolve 7s\n timeout retry 8s\n resolve_retries 9\n"
        " accepted_payload_size 8192\n"
    )
    found, said = section(tmp_path, lines)
    assert found is not None, said
    r = found.resolvers["r"]
    shown = [(one.address.host, one.address.port, one.stream) for one in r.nameservers]
    assert shown == [("192.0.2.1", 53, False), ("2001:db8::1", 54, True), ("192.0.2.3", 55, False)]
    assert (r.hold_nx, r.hold_refused, r.hold_timeout) == (1000, 2000, 3000)
    assert (r.hold_other, r.hold_obsolete, r.hold_valid) == (4000, 5000, 6000)
    assert (r.timeout_resolve, r.timeout_retry, r.retries) == (7000, 8000, 9)
    assert r.payload_size == 8192


RESOLV_CONF = "# c\nnameserver 192.0.2.1\nnameserver nobody\nsearch a\nnameserver 2001:db8::1\n"


def test_resolv_conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its place, and as the section that there always is."""
    path = tmp_path / "resolv.conf"
    monkeypatch.setattr(keywords_resolvers, "_RESOLV_CONF", path)
    found, _ = section(tmp_path, " nameserver a 192.0.2.9:53")
    assert found is not None
    assert list(found.resolvers) == ["r"]
    path.write_text(RESOLV_CONF)
    found, said = section(tmp_path, " parse-resolv-conf")
    assert found is not None
    names = {name: [one.name for one in r.nameservers] for name, r in found.resolvers.items()}
    assert names == {name: ["192.0.2.1", "2001:db8::1"] for name in ("r", "default")}
    assert found.resolvers["default"].implicit
    assert any("'nobody' is no address" in text for text in said)
    found, said = loaded(tmp_path, "resolvers default\n nameserver x 192.0.2.2:53\n")
    assert found is not None, said
    assert not found.resolvers["default"].implicit
