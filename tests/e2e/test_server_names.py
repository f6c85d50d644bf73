"""Servers whose names are looked up while the proxy runs: what HAProxy does, step by step.

Every step waits for the state that must come; times are short, and nothing is said of how long a
step takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mtproxy.base.address import dynamic_cookie
from mtproxy.base.addresses import Address, AddressKind
from mtproxy.testing.nameserver import NameServer
from mtproxy.testing.program import Program
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import Wire

WEB, SVC = ("web.test", "A"), ("_http._tcp.svc.test", "SRV")

# a busy machine may keep the name server silent for long: that alone changes nothing
HOLDS = """
    resolve_retries 2
    timeout resolve 100ms
    timeout retry 100ms
    hold valid 100ms
    hold nx 200ms
    hold timeout 1h
    hold refused 200ms
    hold other 200ms
"""


@pytest.fixture
def names() -> Iterator[NameServer]:
    with NameServer({WEB: ["127.0.0.2"]}) as server:
        yield server


def config(names: NameServer, backend: str, section: str = HOLDS, where: str = "") -> str:
    return f"""
    log stdout format raw local0
defaults
    log global
    timeout connect 2s
    timeout client 2s
    timeout server 2s
resolvers dns
    nameserver one {where}127.0.0.1:{names.port}
{section}
frontend f
    mode http
    bind "fd@${{fe}}"
    default_backend b
backend b
    mode http
    default-server init-addr none resolvers dns resolve-prefer ipv4
{backend}
"""


def states(program: Program) -> dict[str, str]:
    """By server: address, port, and administrative flags but that of names set at run time."""
    result = {}
    for line in program.cli("show servers state b").splitlines():
        words = line.split()
        if len(words) > 20 and words[0].isdigit():
            address = "none" if words[4] == "-" else f"{words[4]}:{words[18]}"
            result[words[3]] = f"{address} {int(words[6]) & ~64}"
    return result


def reaches(program: Program, **wanted: str) -> None:
    try:
        wait_until(lambda: states(program) == wanted, f"servers {wanted}")
    except TimeoutError as error:
        raise AssertionError(f"{error}; they are {states(program)}") from None


def log(program: Program) -> list[str]:
    """Messages about servers, without those on standard error."""
    begin = ("Server b/", "b/", "backend b ")
    return [line for line in program.output().splitlines() if line.startswith(begin)]


def has_log(program: Program, *lines: str) -> None:
    wait_until(lambda: len(log(program)) >= len(lines), f"{len(lines)} messages")
    assert log(program) == [*lines]


def up(server: str, address: str, before: str = "(none)", by: str = "dns/one") -> list[str]:
    name, _, host = server.partition("@")
    return [
        f"b/{name} changed its IP from {before} to {address} by {by}.",
        f"Server b/{name} ('{host}') is UP/READY (resolves again).",
        f"Server b/{name} administratively READY thanks to valid DNS answer.",
    ]


def down(server: str, why: str, left: int = 0) -> list[str]:
    lines = [
        f"Server b/{server} is going DOWN for maintenance ({why}). {left} active and 0 backup "
        "servers left. 0 sessions active, 0 requeued, 0 remaining in queue."
    ]
    return lines if left else [*lines, "backend b has no server available!"]


def test_a_name_comes_changes_and_goes(proxy, names: NameServer) -> None:
    program = proxy(config(names, "    server s web.test:80"))
    reaches(program, s="127.0.0.2:80 0")
    names.answers = {WEB: ["127.0.0.3"]}
    reaches(program, s="127.0.0.3:80 0")
    names.answers = {}
    reaches(program, s="none 32")
    assert program.server_status("b", "s") == "MAINT (resolution)"
    names.answers = {WEB: ["127.0.0.4"]}
    reaches(program, s="127.0.0.4:80 0")
    has_log(
        program,
        *up("s@web.test", "127.0.0.2"),
        "b/s changed its IP from 127.0.0.2 to 127.0.0.3 by dns/one.",
        *down("s", "DNS NX status"),
        *up("s@web.test", "127.0.0.4"),
    )


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        ("silent", "DNS timeout status"),
        ("refused", "DNS refused status"),
        ("failing", "unspecified DNS error"),
        ("cut", "unspecified DNS error"),
    ],
)
def test_trouble_of_the_name_server(proxy, names: NameServer, trouble: str, why: str) -> None:
    both = frozenset({WEB, ("web.test", "AAAA")})
    section = HOLDS.replace("hold timeout 1h", "hold timeout 200ms")
    program = proxy(config(names, "    server s web.test:80", section))
    reaches(program, s="127.0.0.2:80 0")
    setattr(names, trouble, both)
    reaches(program, s="none 32")
    wait_until(lambda: set(down("s", why)) <= set(log(program)), why)
    setattr(names, trouble, frozenset())
    reaches(program, s="127.0.0.2:80 0")
    assert log(program)[:3] == up("s@web.test", "127.0.0.2")


def test_trouble_that_is_held(proxy, names: NameServer) -> None:
    """An address is kept as long as the section holds it."""
    section = HOLDS.replace("nx 200ms", "nx 1h")
    program = proxy(config(names, "    server s web.test:80", section))
    reaches(program, s="127.0.0.2:80 0")
    names.answers = {}
    before = len(names.questions)
    wait_until(lambda: len(names.questions) > before + 12, "many more questions")
    assert states(program) == {"s": "127.0.0.2:80 0"}


def test_slots_share_the_addresses_of_a_name(proxy, names: NameServer) -> None:
    names.answers = {WEB: ["127.0.0.2", "127.0.0.3"]}
    program = proxy(config(names, "    server-template s 3 web.test:80"))
    reaches(program, s1="127.0.0.2:80 0", s2="127.0.0.3:80 0", s3="none 32")
    names.answers = {WEB: ["127.0.0.3", "127.0.0.4", "127.0.0.5"]}
    # who has an address keeps it
    wait_until(lambda: "none" not in str(states(program)), "an address for everybody")
    wait_until(lambda: "127.0.0.2" not in str(states(program)), "nobody to keep the old one")
    assert states(program)["s2"] == "127.0.0.3:80 0"
    assert sorted(text.split(":")[0] for text in states(program).values()) == [
        "127.0.0.3",
        "127.0.0.4",
        "127.0.0.5",
    ]


def test_slots_may_have_the_same_address(proxy, names: NameServer) -> None:
    lines = "    server-template s 2 web.test:80 resolve-opts allow-dup-ip"
    program = proxy(config(names, lines))
    reaches(program, s1="127.0.0.2:80 0", s2="127.0.0.2:80 0")


def test_a_preferred_network(proxy, names: NameServer) -> None:
    names.answers = {WEB: ["10.0.0.1", "127.0.0.9", "192.0.2.1"]}
    program = proxy(config(names, "    server s web.test:80 resolve-net 127.0.0.0/8"))
    reaches(program, s="127.0.0.9:80 0")


def test_the_preferred_family_and_the_other_one(proxy, names: NameServer) -> None:
    names.answers = {
        WEB: ["127.0.0.2"],
        ("web.test", "AAAA"): ["::1"],
        ("four.test", "A"): ["127.0.0.4"],
    }
    lines = """
    server a web.test:80 resolve-prefer ipv6
    server b web.test:80 resolve-prefer ipv4
    server c four.test:80 resolve-prefer ipv6
"""
    program = proxy(config(names, lines))
    reaches(program, a="::1:80 0", b="127.0.0.2:80 0", c="127.0.0.4:80 0")


def test_a_srv_name_fills_slots(proxy, names: NameServer) -> None:
    names.answers = {
        SVC: ["1 256 8001 n1.test.", "1 65535 8002 n2.test."],
        ("n1.test", "A"): ["127.0.0.11"],
        ("n2.test", "A"): ["127.0.0.12"],
    }
    program = proxy(config(names, "    server-template s 3 _http._tcp.svc.test"))
    reaches(program, s1="127.0.0.12:8002 0", s2="127.0.0.11:8001 0", s3="none 32")
    assert program.cli("get weight b/s1").split()[0] == "256"
    assert program.cli("get weight b/s2").split()[0] == "1"
    names.answers = {**names.answers, SVC: ["1 512 8002 n2.test."]}
    reaches(program, s1="127.0.0.12:8002 0", s2="none 32", s3="none 32")
    assert program.cli("get weight b/s1").split()[0] == "2"
    names.answers = {
        **names.answers,
        SVC: ["1 512 8002 n2.test.", "1 1 8003 n3.test."],
        ("n3.test", "A"): ["127.0.0.13"],
    }
    reaches(program, s1="127.0.0.12:8002 0", s2="none 32", s3="127.0.0.13:8003 0")
    names.answers = {}
    reaches(program, s1="none 32", s2="none 32", s3="none 32")
    said = log(program)
    assert "b/s1 changed its FQDN from (null) to n2.test by 'SRV record'" in said
    assert down("s2", "entry removed from SRV record", 1)[0] in said


def test_targets_of_before_a_restart(proxy, names: NameServer, tmp_path: Path) -> None:
    """A state file tells who stood for which target: they are up at once, and answers that have the
    target leave it with its slot.
    """
    states_file = tmp_path / "states"
    head = "1\n# " + " ".join(["x"] * 25)
    rest = "2 64 1 1 5 1 0 0 0 0 0 0"
    states_file.write_text(
        f"{head}\n"
        f"3 b 1 s1 127.0.0.11 {rest} n1.test 8001 {SVC[0]} 0 0 - - 0\n"
        f"3 b 2 s2 - 0 96 1 1 5 1 0 0 0 0 0 0 - 0 {SVC[0]} 0 0 - - 0\n"
        f"3 b 3 s3 127.0.0.12 {rest} n2.test 8002 {SVC[0]} 0 0 - - 0\n"
    )
    names.silent = frozenset({SVC})
    section = HOLDS.replace("200ms", "1h")
    text = config(names, "    server-template s 3 _http._tcp.svc.test init-addr last,none", section)
    text = f'    server-state-file "{states_file}"\n' + text.replace(
        "    log global\n", "    log global\n    load-server-state-from-file global\n"
    )
    program = proxy(text)
    before = {"s1": "127.0.0.11:8001 0", "s2": "none 32", "s3": "127.0.0.12:8002 0"}
    reaches(program, **before)
    names.answers = {
        SVC: ["1 1 8002 n2.test.", "1 1 8003 n3.test.", "1 1 8001 n1.test."],
        ("n1.test", "A"): ["127.0.0.11"],
        ("n2.test", "A"): ["127.0.0.12"],
        ("n3.test", "A"): ["127.0.0.13"],
    }
    names.silent = frozenset()
    reaches(program, **before | {"s2": "127.0.0.13:8003 0"})


def test_weights_of_a_srv_name_may_mean_nothing(proxy, names: NameServer) -> None:
    names.answers = {SVC: ["1 65535 8001 n1.test."], ("n1.test", "A"): ["127.0.0.11"]}
    lines = "    server s _http._tcp.svc.test weight 7 resolve-opts ignore-weight"
    program = proxy(config(names, lines))
    reaches(program, s="127.0.0.11:8001 0")
    assert program.cli("get weight b/s").split()[0] == "7"


def test_addresses_that_come_with_a_srv_name(proxy, names: NameServer) -> None:
    names.answers = {SVC: ["1 1 8009 n9.test."]}
    names.additional = {SVC[0]: [("n9.test", "A", "127.0.0.99")]}
    program = proxy(config(names, "    server s _http._tcp.svc.test"))
    reaches(program, s="127.0.0.99:8009 0")
    has_log(
        program,
        "b/s changed its IP from (none) to 127.0.0.99 by DNS additional record.",
        "b/s changed its FQDN from (null) to n9.test by 'SRV record'",
        "Server b/s ('n9.test') is UP/READY (resolves again).",
    )
    assert ("n9.test", "A") not in names.questions


def test_name_servers_over_tcp(proxy, names: NameServer) -> None:
    names.cut = frozenset({WEB})  # over UDP alone
    program = proxy(config(names, "    server s web.test:80", where="tcp@"))
    reaches(program, s="127.0.0.2:80 0")
    assert names.over_tcp


def test_the_second_name_server_serves(proxy, names: NameServer) -> None:
    """One that refuses everything does not keep the other's answer from being used."""
    with NameServer({}, failing=[WEB]) as other:
        section = HOLDS + f"    nameserver two 127.0.0.1:{other.port}\n"
        program = proxy(config(names, "    server s web.test:80", section))
        reaches(program, s="127.0.0.2:80 0")
        wait_until(lambda: len(other.questions) > 2, "questions to both")
        assert states(program) == {"s": "127.0.0.2:80 0"}


def test_a_name_changed_by_hand(proxy, names: NameServer) -> None:
    names.answers = {WEB: ["127.0.0.2"], ("other.test", "A"): ["127.0.0.7"]}
    program = proxy(config(names, "    server s web.test:80\n    server t 127.0.0.1:1"))
    reaches(program, s="127.0.0.2:80 0", t="127.0.0.1:1 0")
    say = "set server b/s fqdn"
    assert "requires a FQDN" in program.cli(say)
    assert "no need to change the FDQN by 'stats socket command'" in program.cli(f"{say} web.test")
    assert "invalid fqdn 'a*b' by 'stats socket command'" in program.cli(f"{say} a*b")
    assert "b/s changed its FQDN from web.test to other.test" in program.cli(f"{say} other.test")
    reaches(program, s="127.0.0.7:80 0", t="127.0.0.1:1 0")


def test_counters(proxy, names: NameServer) -> None:
    program = proxy(config(names, "    server s web.test:80"))
    reaches(program, s="127.0.0.2:80 0")
    shown = program.cli("show resolvers dns").splitlines()
    assert shown[:2] == ["Resolvers section dns", " nameserver one:"]
    values = dict(line.split(":") for line in shown[2:] if ":" in line)
    assert [name.strip() for name in values] == [
        "sent", "snd_error", "valid", "update", "cname", "cname_error", "any_err", "nx",
        "timeout", "refused", "other", "invalid", "too_big", "truncated", "outdated",
    ]  # fmt: skip
    assert int(values["  sent"]) >= int(values["  valid"]) >= 1
    assert int(values["  update"]) == 1
    assert "Can't find that resolvers section" in program.cli("show resolvers nope")


GARBAGE = [
    b"",
    b"\0",
    b"\xff" * 11,
    b"\0\0\x81\x80" + b"\xff" * 8 + b"\xc0\x0c" * 100,
    bytes(600),
]


def test_garbage_does_no_harm(proxy, names: NameServer) -> None:
    """Wrong numbers, loops, cuts, oversize: none of it counts, and the true answer does."""

    def mangle(reply: bytes) -> list[bytes]:
        loop = reply[:12] + b"\xc0\x0c" + reply[14:]
        wrong = bytes([reply[0] ^ 255, reply[1]]) + reply[2:]
        noise = [reply[:2] + one for one in GARBAGE[3:]]
        return [*GARBAGE, wrong, loop[:13], reply + bytes(600), *noise[1:], reply]

    names.mangle = mangle
    program = proxy(config(names, "    server s web.test:80"))
    reaches(program, s="127.0.0.2:80 0")
    assert program.alive()
    assert "Traceback" not in program.output()


def test_checks_go_where_the_name_leads(proxy, names: NameServer, origin) -> None:
    """A checked server is up when its name has an address, and down when nobody listens there."""
    names.answers = {WEB: ["127.0.0.1"]}
    lines = f"    server s web.test:{origin.port} check inter 50ms fall 1 rise 1"
    program = proxy(config(names, lines))
    wait_until(lambda: program.stat("b", "s")["check_status"] == "L4OK", "a check that passes")
    assert program.server_status("b", "s") == "UP"
    names.answers = {WEB: ["127.0.0.251"]}
    wait_until(lambda: program.server_status("b", "s") == "DOWN", "a check that fails")
    names.answers = {}
    wait_until(lambda: "MAINT" in program.server_status("b", "s"), "no address")
    names.answers = {WEB: ["127.0.0.1"]}
    wait_until(lambda: program.server_status("b", "s") == "UP", "an address again")
    wait_until(lambda: program.stat("b", "s")["check_status"] == "L4OK", "a check again")


def test_a_dynamic_cookie_follows_the_address(proxy, names: NameServer, origin) -> None:
    """`cookie ... dynamic`: the cookie is made of the address that the name has now."""
    names.answers = {WEB: ["127.0.0.1"]}
    lines = f"""    cookie SRV insert dynamic
    dynamic-cookie-key secret
    server s web.test:{origin.port}"""
    program = proxy(config(names, lines))
    for host in ("127.0.0.1", "127.0.0.2"):
        names.answers = {WEB: [host]}
        reaches(program, s=f"{host}:{origin.port} 0")
        address = Address(AddressKind.IPV4, host, origin.port)
        cookie = dynamic_cookie("secret", address).decode()
        assert program.stat("b", "s")["cookie"] == cookie
        if host == "127.0.0.1":
            answer = program.connect().request("GET /head HTTP/1.1\nhost: a")
            assert f"SRV={cookie}".encode() in dict(answer.head.headers)[b"set-cookie"]


def say_where(wire: Wire) -> None:
    """Answers each request with the address that it came to."""
    while wire.fill():
        while b"\r\n\r\n" in wire.buffer:
            wire.read_until(b"\r\n\r\n")
            host = wire.sock.getsockname()[0].encode()
            wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(host), host))


def test_no_request_is_lost_while_a_name_moves(proxy, names: NameServer, serve) -> None:
    """Traffic goes on while the address changes again and again, and follows it."""
    server = serve(say_where, ("0.0.0.0", 0))
    section = HOLDS.replace("timeout resolve 100ms", "timeout resolve 20ms")
    program = proxy(config(names, f"    server s web.test:{server.port}", section))
    reaches(program, s=f"127.0.0.2:{server.port} 0")
    moves = ["127.0.0.3", "127.0.0.4"] * 4
    for told, host in enumerate(moves, 1):
        names.answers = {WEB: [host]}
        clients = [program.connect() for _ in range(3)]
        while sum("changed its IP" in line for line in log(program)) <= told:
            for wire in clients:
                assert wire.request("GET / HTTP/1.1\nhost: a").status == 200
        for wire in clients:
            assert wire.request("GET / HTTP/1.1\nhost: a").status == 200
            wire.close()
    assert program.stat("b", "s")["econ"] == "0"
    if program.program == "mtproxy":
        # a thread follows in its next turn
        fresh = program.connect()
        last = moves[-1].encode()
        wait_until(lambda: fresh.request("GET / HTTP/1.1\nhost: a").body == last, "the last one")


@pytest.mark.only("mtproxy")  # HAProxy goes on with idle connections to the old address
def test_requests_go_where_the_name_leads(proxy, names: NameServer, serve) -> None:
    """Connections to the old address are not used again when the name has a new one."""
    server = serve(say_where, ("0.0.0.0", 0))
    program = proxy(config(names, f"    http-reuse always\n    server s web.test:{server.port}"))
    reaches(program, s=f"127.0.0.2:{server.port} 0")
    wires = [program.connect() for _ in range(8)]
    for wire in wires:
        assert wire.request("GET / HTTP/1.1\nhost: a").body == b"127.0.0.2"
    names.answers = {WEB: ["127.0.0.3"]}
    for wire in wires:
        wait_until(
            lambda wire=wire: wire.request("GET / HTTP/1.1\nhost: a").body == b"127.0.0.3",
            "the new address",
        )
        assert wire.request("GET / HTTP/1.1\nhost: a").body == b"127.0.0.3"
