"""Keywords that change how connections are made, kept and counted, on both sides."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path

import pytest

from mtproxy.testing import procfs
from mtproxy.testing.configs import http, tcp
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program
from mtproxy.testing.server import free_port
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import Wire, connect

GET = "GET /len/5 HTTP/1.1\nhost: a"
#: HZ of the times in /proc/net/tcp
HZ = 100


def keepalive_timer(local: int, remote: int) -> float | None:
    """Seconds to the next keep-alive probe between these two ports, None: no probe."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        ports = tuple(int(words[i].partition(":")[2], 16) for i in (1, 2))
        if ports == (local, remote):
            kind, when = words[5].split(":")
            return int(when, 16) / HZ if kind == "02" else None
    raise AssertionError(f"no connection from port {local} to {remote}")


def port_of(wire: Wire) -> int:
    port: int = wire.sock.getsockname()[1]
    return port


# --- keep-alive probes


@pytest.mark.parametrize("option", ["clitcpka", "tcpka"])
def test_keepalive_towards_clients(proxy, origin: Origin, option: str) -> None:
    head = http(origin.port, fe=f"option {option}\n clitcpka-idle 300\n clitcpka-cnt 4")
    wire = proxy(head).connect()
    assert wire.request(GET).status == 200
    left = keepalive_timer(wire.sock.getpeername()[1], port_of(wire))
    assert left is not None
    assert 250 < left <= 300


def test_no_keepalive_without_its_option(proxy, origin: Origin) -> None:
    """The times alone turn nothing on."""
    wire = proxy(http(origin.port, fe="clitcpka-idle 300")).connect()
    assert wire.request(GET).status == 200
    assert keepalive_timer(wire.sock.getpeername()[1], port_of(wire)) is None


def test_keepalive_towards_servers(proxy, serve) -> None:
    ports: list[int] = []

    def handler(wire: Wire) -> None:
        ports.append(wire.sock.getpeername()[1])
        wire.fill()

    server = serve(handler)
    be = "option srvtcpka\n srvtcpka-idle 200\n srvtcpka-intvl 7"
    wire = proxy(tcp(server.port, be=be)).connect()
    wait_until(lambda: ports, "a connection to the server")
    left = keepalive_timer(ports[0], server.port)
    assert left is not None
    assert 150 < left <= 200
    wire.close()


# --- source addresses


def sources_seen(proxy, serve, **lines: str) -> tuple[str, int]:
    seen: list[tuple[str, int]] = []

    def handler(wire: Wire) -> None:
        seen.append(wire.sock.getpeername())
        wire.send(b"bye")

    running = proxy(tcp(serve(handler).port, **lines))
    assert running.connect().read_to_end() == b"bye"
    return seen[0]


def test_source_of_a_backend(proxy, serve) -> None:
    assert sources_seen(proxy, serve, be="source 127.0.0.2")[0] == "127.0.0.2"


def test_source_of_a_server_wins(proxy, serve) -> None:
    host, _ = sources_seen(proxy, serve, be="source 127.0.0.2", server="source 127.0.0.3")
    assert host == "127.0.0.3"


def test_source_with_a_port(proxy, serve) -> None:
    port = free_port()
    assert sources_seen(proxy, serve, server=f"source 127.0.0.4:{port}") == ("127.0.0.4", port)


def test_a_source_that_is_not_ours(proxy, origin: Origin) -> None:
    running = proxy(http(origin.port, be="source 192.0.2.77\n retries 0"))
    assert running.connect().request(GET).status == 503
    assert origin.accepted == 0


def test_checks_use_the_source(proxy, serve) -> None:
    """A check is reset before accept() would see it; a source that is not ours makes it fail."""
    server = serve(lambda wire: None)
    running = proxy(tcp(server.port, server="check inter 100ms fall 1 source 192.0.2.77"))
    wait_until(lambda: running.server_status("be", "s1") == "DOWN", "the check to fail")
    other = proxy(tcp(server.port, server="check inter 100ms source 127.0.0.2"))
    wait_until(lambda: other.stat("be", "s1")["check_status"] == "L4OK", "the check to pass")


# --- idle connections


def test_no_idle_connections_when_none_may_be_kept(proxy, origin: Origin) -> None:
    running = proxy(http(origin.port, server="pool-max-conn 0"))
    with running.connect() as wire:
        seen = {wire.request(GET).get("x-conn") for _ in range(3)}
    assert len(seen) == 3


def test_a_purge_delay_of_zero_keeps_none(proxy, origin: Origin) -> None:
    running = proxy(http(origin.port, server="pool-purge-delay 0"))
    with running.connect() as wire:
        seen = {wire.request(GET).get("x-conn") for _ in range(3)}
    assert len(seen) == 3


def test_pool_max_conn_holds_for_all_threads(proxy, origin: Origin) -> None:
    running = proxy(
        "global\n    nbthread 2\n"
        + http(origin.port, server="pool-max-conn 1", be="http-reuse safe")
    )
    wires = [running.connect() for _ in range(6)]
    for wire in wires:
        wire.send(b"GET /slow/10/20 HTTP/1.1\r\nhost: a\r\n\r\n")
    for wire in wires:
        assert wire.read_response().status == 200
    wait_until(lambda: origin.open_connections() == 1, "the others to be closed")


def test_idle_connections_are_purged(proxy, origin: Origin) -> None:
    running = proxy(http(origin.port, server="pool-purge-delay 300ms"))
    started = time.monotonic()
    assert running.connect().request(GET).status == 200
    assert origin.accepted == 1
    wait_until(lambda: origin.open_connections() == 0, "the idle connection to be closed")
    assert time.monotonic() - started > 0.25


@pytest.mark.only("mtproxy")  # HAProxy limits the requests of HTTP/2 connections only
@pytest.mark.parametrize(("limit", "connections"), [(0, 6), (1, 3), (2, 2), (-1, 1)])
def test_max_reuse(proxy, origin: Origin, limit: int, connections: int) -> None:
    running = proxy(http(origin.port, server=f"max-reuse {limit}"))
    with running.connect() as wire:
        seen = [wire.request(GET).get("x-conn") for _ in range(6)]
    assert len(set(seen)) == connections


def test_fast_open_towards_a_server_that_has_it_not(proxy, origin: Origin) -> None:
    running = proxy(http(origin.port, server="tfo"))
    for _ in range(3):
        with running.connect() as wire:
            assert wire.request(GET).status == 200


# --- listeners


def test_the_systems_default_of_ipv6_listeners(proxy, origin: Origin) -> None:
    """Without v4v6 and v6only, net.ipv6.bindv6only decides."""
    try:
        v6only = Path("/proc/sys/net/ipv6/bindv6only").read_text().strip() == "1"
    except FileNotFoundError:
        pytest.skip("no IPv6")
    port = free_port()
    proxy(http(origin.port).replace('"fd@${fe}"', f":::{port}"))
    if v6only:
        with pytest.raises(ConnectionRefusedError):
            connect(("127.0.0.1", port))
    else:
        with connect(("127.0.0.1", port)) as wire:
            assert wire.request(GET).status == 200


def test_unix_socket_with_owner_by_number(proxy, origin: Origin, tmp_path: Path) -> None:
    path = tmp_path / "fe.sock"
    running = proxy(
        http(origin.port).replace('"fd@${fe}"', f"{path} uid 65534 gid 65533 mode 640"), ready=False
    )
    try:
        running.wait_ready()
    except RuntimeError:
        pytest.skip("only root may give a socket away")
    status = path.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (65534, 65533, 0o640)


def test_maxconn_of_one_listener(proxy, origin: Origin) -> None:
    """The second connection waits in the kernel; the other listener is not concerned."""
    config = http(origin.port).replace(
        'bind "fd@${fe}"', 'bind "fd@${fe}" maxconn 1\n    bind "fd@${other}"'
    )
    running = proxy(config)
    first, second, other = running.connect(), running.connect(), running.connect("other")
    assert first.request(GET).status == 200
    assert other.request(GET).status == 200
    second.send(b"GET /len/5 HTTP/1.1\r\nhost: a\r\n\r\n")
    assert second.read_available(0.2) == b""
    first.close()
    assert second.read_response().status == 200


def test_socket_stats(proxy, origin: Origin) -> None:
    port = free_port()
    config = http(origin.port, fe="option socket-stats").replace(
        'bind "fd@${fe}"',
        f'bind "fd@${{fe}}" name first\n    bind 127.0.0.1:{port} id 7 maxconn 50',
    )
    running = proxy(config)
    for _ in range(2):
        with running.connect() as wire:
            wire.request(GET)
            wire.request(GET)
    with connect(("127.0.0.1", port)) as wire:
        wire.request(GET)
        # bytes are counted after the answer has left
        wait_until(lambda: running.stat("fe", "sock-7")["bout"] != "0", "the request's bytes")
        row = running.stat("fe", "sock-7")
        assert (row["scur"], row["smax"], row["slim"], row["stot"]) == ("1", "1", "50", "1")
        assert (row["sid"], row["type"], row["status"]) == ("7", "3", "OPEN")
        assert (row["addr"], row["mode"]) == (f"127.0.0.1:{port}", "http")
        wait_until(lambda: running.stat("fe", "first")["scur"] == "0", "the sessions' end")
        first = running.stat("fe", "first")
        assert (first["stot"], first["sid"], first["slim"]) == ("2", "1", "0")
        total = running.stat("fe", "FRONTEND")
        for name in ("stot", "bin", "bout"):
            assert int(total[name]) == int(first[name]) + int(running.stat("fe", "sock-7")[name])
    lines = running.cli("show stat fe 8 -1").strip().splitlines()
    assert [line.split(",")[1] for line in lines[1:]] == ["first", "sock-7"]
    assert "L.2.7." in running.cli("show stat -1 8 -1 typed")


def test_no_listener_rows_without_socket_stats(proxy, origin: Origin) -> None:
    running = proxy(http(origin.port))
    assert len(running.cli("show stat fe -1 -1").strip().splitlines()) == 2


# --- the poller for -de


def exchange(running: Program, origin: Origin) -> None:
    wires = [running.connect() for _ in range(20)]
    for wire in wires:
        wire.send(b"POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 300000\r\n\r\n")
    body = bytes(range(250)) * 1200
    for wire in wires:
        wire.send(body)
    for wire in wires:
        assert wire.read_response().body == body
    for wire in wires:
        assert wire.request(GET).status == 200
        wire.close()


@pytest.mark.parametrize("how", ["option", "keyword"])
def test_without_epoll(proxy, origin: Origin, how: str) -> None:
    """Everything works with poll(2), on several threads, and nothing spins."""
    head = "global\n    nbthread 2\n" + ("    noepoll\n" if how == "keyword" else "")
    running = proxy(head + http(origin.port), args=("-de",) if how == "option" else ())
    exchange(running, origin)
    idle = running.connect()
    assert idle.request(GET).status == 200
    ended = running.connect()
    ended.send(b"GET /stall/0 HTTP/1.1\r\nhost: a\r\n\r\n")
    before = cpu(running)
    assert idle.still_open(0.5)
    assert cpu(running) - before < 0.25
    assert idle.request(GET).status == 200


def cpu(running: Program) -> float:
    """Seconds of CPU used so far."""
    words = Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / HZ


@pytest.mark.only("mtproxy")
def test_without_epoll_no_descriptor_of_epoll_is_open(proxy, origin: Origin) -> None:
    running = proxy(http(origin.port), args=("-de",))
    targets = procfs.fd_targets(running.pid).values()
    assert any(target.startswith("socket:") for target in targets)
    assert not [target for target in targets if "eventpoll" in target]


# --- the runtime sockets


def test_stats_maxconn(proxy, origin: Origin) -> None:
    running = proxy("global\n    stats maxconn 2\n" + http(origin.port))
    held = [connect(running.socket_path) for _ in range(2)]
    for wire in held:
        wire.send(b"prompt\n")
        assert wire.read_until(b"> ")
    with connect(running.socket_path) as third:
        third.send(b"show version\n")
        assert third.read_available(0.2) == b""
        held[0].close()
        assert third.read_until(b"\n\n")
    held[1].close()


@pytest.mark.only("mtproxy")  # HAProxy's other socket waits with it
def test_maxconn_of_one_runtime_socket(proxy, origin: Origin) -> None:
    running = proxy('global\n    stats socket "fd@${cli}" maxconn 1\n' + http(origin.port))
    first, second = running.connect("cli"), running.connect("cli")
    first.send(b"prompt\n")
    assert first.read_until(b"> ")
    second.send(b"show version\n")
    assert second.read_available(0.2) == b""
    assert running.cli("show version")
    first.close()
    assert second.read_until(b"\n\n")


def test_severity_of_a_runtime_socket(proxy, origin: Origin) -> None:
    running = proxy(
        'global\n    stats socket "fd@${cli}" severity-output number\n' + http(origin.port)
    )
    with running.connect("cli") as wire:
        wire.send(b"get weight be/nothing\n")
        assert re.match(rb"\[\d\]: No such server", wire.read_to_end().strip())


# --- splicing


@pytest.mark.only("mtproxy")
@pytest.mark.parametrize(
    ("args", "keyword", "pipes"), [((), "", True), (("-dS",), "", False), ((), "nosplice", False)]
)
def test_splice_can_be_turned_off(
    proxy, serve, args: tuple[str, ...], keyword: str, pipes: bool
) -> None:
    server = serve(lambda wire: wire.send(b"x" * 16_000_000))
    be = "option splice-response"
    running = proxy(f"global\n    nbthread 1\n    {keyword}\n" + tcp(server.port, be=be), args=args)
    with running.connect() as wire:
        assert len(wire.read_to_end()) == 16_000_000

    def free_pipes() -> int:
        found = re.search(r"^PipesFree: (\d+)", running.cli("show info"), re.MULTILINE)
        assert found
        return int(found[1])

    wait_until(lambda: running.stat("fe", "FRONTEND")["scur"] == "0", "the session's end")
    assert (free_pipes() > 0) is pipes


def test_socket_buffers(proxy, serve) -> None:
    """A small send buffer towards the client holds less of what it does not read."""
    sent: list[int] = []

    def handler(wire: Wire) -> None:
        wire.sock.settimeout(1.5)  # nobody takes anything for so long: it is full
        count = 0
        try:
            while True:
                count += wire.sock.send(bytes(65536))
        except TimeoutError:
            sent.append(count)

    server = serve(handler)
    small = "global\n    tune.sndbuf.client 4096\n    tune.rcvbuf.server 4096\n    nosplice\n"
    counts = []
    for head in (small, "global\n    nosplice\n"):
        running = proxy(head + tcp(server.port))
        wire = running.connect()
        wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wait_until(lambda: len(sent) > len(counts), "the server to be blocked")
        counts.append(sent[-1])
        wire.close()
    assert counts[0] < counts[1] / 2
