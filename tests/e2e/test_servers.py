"""Balancing, backup servers and TCP health checks, as clients and `show stat` see them."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from mtproxy.testing.configs import HTTP
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program
from mtproxy.testing.server import free_port
from mtproxy.testing.syslog_sink import SyslogSink
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import as_wire

GET = "GET /len/5 HTTP/1.1\nhost: a"


@pytest.fixture
def origins() -> Iterator[list[Origin]]:
    with ExitStack() as stack:
        running = [Origin(name=f"o{number}") for number in (1, 2, 3)]
        for origin in running:
            stack.enter_context(origin)
        yield running


def balanced(be: str, *servers: str, threads: int = 1) -> str:
    lines = "\n    ".join(f"server s{n} {text}" for n, text in enumerate(servers, 1))
    return f"""
global
    nbthread {threads}
{HTTP}
frontend fe
    bind "fd@${{fe}}"
    default_backend be
backend be
    {be}
    {lines}
"""


def at(origin: Origin, words: str = "") -> str:
    return f"127.0.0.1:{origin.port} {words}"


def who(running: Program) -> str:
    """The name of the origin that answers one request on a connection of its own."""
    with running.connect() as wire:
        answer = wire.request(GET)
        assert answer.status == 200
        return (answer.get("x-origin") or b"?").decode()


def test_roundrobin(proxy, origins: list[Origin]) -> None:
    running = proxy(balanced("balance roundrobin", *(at(o) for o in origins)))
    assert [who(running) for _ in range(9)] == ["o1", "o2", "o3"] * 3


def test_roundrobin_is_the_default(proxy, origins: list[Origin]) -> None:
    running = proxy(balanced("", *(at(o) for o in origins)))
    # without `balance` HAProxy takes roundrobin
    assert [who(running) for _ in range(6)] == ["o1", "o2", "o3"] * 2


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_roundrobin_is_exact_over_threads(proxy, origins: list[Origin], threads: int) -> None:
    running = proxy(balanced("balance roundrobin", *(at(o) for o in origins), threads=threads))
    counts = collections.Counter(who(running) for _ in range(30))
    assert counts == {"o1": 10, "o2": 10, "o3": 10}


def test_weights(proxy, origins: list[Origin]) -> None:
    words = ("weight 10", "weight 20", "weight 30")
    running = proxy(
        balanced("balance roundrobin", *(at(o, w) for o, w in zip(origins, words, strict=True)))
    )
    names = [who(running) for _ in range(12)]
    assert collections.Counter(names) == {"o1": 2, "o2": 4, "o3": 6}
    # spread, not in blocks
    assert names[:6].count("o3") == 3
    assert "o3,o3,o3" not in ",".join(names)


def test_weight_zero_takes_no_new_request(proxy, origins: list[Origin]) -> None:
    running = proxy(balanced("balance roundrobin", at(origins[0], "weight 0"), at(origins[1])))
    assert {who(running) for _ in range(4)} == {"o2"}


def test_leastconn(proxy, origins: list[Origin]) -> None:
    """A new request goes where the fewest are."""
    running = proxy(balanced("balance leastconn", *(at(o) for o in origins)))
    busy = []
    for _ in range(2):
        wire = running.connect()
        wire.send(as_wire("GET /stall/10 HTTP/1.1\nhost: a"))
        busy.append((wire.read_head().get("x-origin") or b"").decode())
    assert len(set(busy)) == 2
    free = ({"o1", "o2", "o3"} - set(busy)).pop()
    assert [who(running) for _ in range(4)] == [free] * 4


def test_leastconn_with_weights(proxy, origins: list[Origin]) -> None:
    running = proxy(
        balanced("balance leastconn", at(origins[0], "weight 1"), at(origins[1], "weight 3"))
    )
    seen: collections.Counter[bytes | None] = collections.Counter()
    for _ in range(8):
        wire = running.connect()
        wire.send(as_wire("GET /stall/10 HTTP/1.1\nhost: a"))
        seen[wire.read_head().get("x-origin")] += 1
    assert seen == {b"o1": 2, b"o2": 6}


def test_disabled_server(proxy, origins: list[Origin]) -> None:
    running = proxy(balanced("", at(origins[0], "disabled"), at(origins[1])))
    assert {who(running) for _ in range(4)} == {"o2"}
    assert running.server_status("be", "s1") == "MAINT"


def test_backup_is_idle_while_an_active_server_lives(proxy, origins: list[Origin]) -> None:
    running = proxy(balanced("", at(origins[0]), at(origins[1], "backup")))
    assert {who(running) for _ in range(4)} == {"o1"}
    stat = running.stat("be", "BACKEND")
    assert (stat["act"], stat["bck"]) == ("1", "1")


def test_only_the_first_backup_works(proxy, origins: list[Origin]) -> None:
    running = proxy(
        balanced("", at(origins[0], "disabled"), at(origins[1], "backup"), at(origins[2], "backup"))
    )
    assert {who(running) for _ in range(4)} == {"o2"}


def test_allbackups(proxy, origins: list[Origin]) -> None:
    be = "option allbackups\n balance roundrobin"
    running = proxy(
        balanced(be, at(origins[0], "disabled"), at(origins[1], "backup"), at(origins[2], "backup"))
    )
    assert [who(running) for _ in range(4)] == ["o2", "o3"] * 2


#: `inter` is also the time that a check has: a server must not be called dead by a busy machine
CHECK = "check inter 800ms fastinter 20ms downinter 50ms rise 2 fall 2"


def test_an_unchecked_server_has_no_check(proxy, origins: list[Origin]) -> None:
    running = proxy(balanced("", at(origins[0])))
    assert running.server_status("be", "s1") == "no check"


def test_check_up(proxy, origins: list[Origin]) -> None:
    running = proxy(balanced("", at(origins[0], CHECK)))
    wait_until(lambda: running.stat("be", "s1")["check_status"] == "L4OK", "the first check")
    assert running.server_status("be", "s1") == "UP"


def test_check_down_and_up_again(proxy, origins: list[Origin]) -> None:
    running = proxy(balanced("balance roundrobin", at(origins[0], CHECK), at(origins[1], CHECK)))
    port = origins[0].port
    assert who(running) == "o1"
    origins[0].stop_listening()
    origins[0].reset_all()
    wait_until(lambda: running.server_status("be", "s1").startswith("DOWN"), "s1 to go down")
    stat = running.stat("be", "s1")
    assert (stat["check_status"], stat["chkdown"]) == ("L4CON", "1")
    assert int(stat["chkfail"]) >= 2
    assert {who(running) for _ in range(4)} == {"o2"}
    with Origin(("127.0.0.1", port), name="again"):
        wait_until(lambda: running.server_status("be", "s1") == "UP", "s1 to come up")
        assert {who(running) for _ in range(4)} == {"again", "o2"}


def test_backup_takes_over_and_gives_back(proxy, origins: list[Origin]) -> None:
    running = proxy(balanced("", at(origins[0], CHECK), at(origins[1], "backup " + CHECK)))
    port = origins[0].port
    origins[0].stop_listening()
    origins[0].reset_all()
    wait_until(lambda: running.server_status("be", "s1").startswith("DOWN"), "s1 to go down")
    assert {who(running) for _ in range(3)} == {"o2"}
    with Origin(("127.0.0.1", port), name="again"):
        wait_until(lambda: running.server_status("be", "s1") == "UP", "s1 to come up")
        assert {who(running) for _ in range(3)} == {"again"}


def test_all_down_is_503(proxy) -> None:
    running = proxy(balanced("", f"127.0.0.1:{free_port()} {CHECK}"))
    wait_until(lambda: running.server_status("be", "s1").startswith("DOWN"), "s1 to go down")
    with running.connect() as wire:
        assert wire.request(GET).status == 503
    assert running.server_status("be", "BACKEND") == "DOWN"


def test_check_on_another_port(proxy, origins: list[Origin]) -> None:
    """`port`: the health of one service is another's."""
    running = proxy(balanced("", at(origins[0], f"{CHECK} port {free_port()}"), at(origins[1])))
    wait_until(lambda: running.server_status("be", "s1").startswith("DOWN"), "s1 to go down")
    assert {who(running) for _ in range(3)} == {"o2"}


def test_check_on_another_address(proxy, origins: list[Origin]) -> None:
    with Origin(("127.0.0.2", 0)) as other:
        words = f"{CHECK} addr 127.0.0.2 port {other.port}"
        running = proxy(balanced("", f"127.0.0.1:{free_port()} {words}"))
        wait_until(lambda: running.stat("be", "s1")["check_status"] == "L4OK", "the first check")
        assert running.server_status("be", "s1") == "UP"


def test_default_server(proxy, origins: list[Origin]) -> None:
    be = f"default-server {CHECK}"
    running = proxy(balanced(be, at(origins[0])))
    wait_until(lambda: running.stat("be", "s1")["check_status"] == "L4OK", "the first check")


def test_a_check_that_changes_the_state_is_logged(proxy, sink: SyslogSink) -> None:
    be = f"log 127.0.0.1:{sink.port} local0"
    proxy(balanced(be, f"127.0.0.1:{free_port()} {CHECK}"))
    (match,) = sink.wait("Server be/s1 is DOWN")
    assert "reason: Layer4 connection problem" in match.string
    assert "0 active and 0 backup servers left" in match.string
    sink.wait("backend be has no server available!")


def test_spread_checks_still_check(proxy, origins: list[Origin]) -> None:
    config = "global\n    spread-checks 50\n" + balanced("", at(origins[0], CHECK))
    running = proxy(config)
    wait_until(lambda: running.stat("be", "s1")["check_status"] == "L4OK", "the first check")
    origins[0].stop_listening()
    wait_until(lambda: running.server_status("be", "s1").startswith("DOWN"), "s1 to go down")
