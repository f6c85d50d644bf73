"""Rings: log lines kept in memory, shown on the runtime socket and forwarded over TCP (3.9)."""

from __future__ import annotations

import re
import threading

import pytest

from mtproxy.testing.configs import HTTP
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program
from mtproxy.testing.server import Server, free_port
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import Wire, connect

TIMEOUTS = "    timeout connect 1s\n    timeout server 2s\n"


def config(origin: Origin, logs: str, rings: str, head: str = "") -> str:
    """A frontend with the `log` lines, and ring sections."""
    lines = "".join(f"    {line.strip()}\n" for line in logs.strip().splitlines())
    return f"""{head}{HTTP}    option httplog
frontend fe
    bind "fd@${{fe}}"
{lines}    default_backend be
backend be
    server s1 127.0.0.1:{origin.port}
{rings}"""


def request(wire: Wire, *numbers: int) -> None:
    for number in numbers:
        assert wire.request(f"GET /len/{number} HTTP/1.1\nhost: a").status == 200


def events(running: Program, command: str, count: int) -> list[str]:
    """The lines of an answer once there are `count`, without the empty one."""
    return wait_until(
        lambda: (
            lines
            if len(lines := running.cli(command).removesuffix("\n\n").split("\n")) == count
            and lines[-1]
            else None
        ),
        f"{count} lines of '{command}'",
    )


LINE = r'127\.0\.0\.1:\d+ \[.+\] fe be/s1 .* "GET /len/(\d+) HTTP/1\.1"'
STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}[+-]\d\d:\d\d"


def test_list_of_sinks(proxy, origin: Origin) -> None:
    rings = 'ring one\nring two\n    description "the second"\n    size 20000\n'
    answer = proxy(config(origin, "log ring@one local0", rings)).cli("show events")
    head, *lines = answer.removesuffix("\n\n").split("\n")
    assert head.startswith("Supported events sinks are listed below.")
    assert [line.partition(" dropped, ")[0] for line in lines] == [
        "    stdout     : type=fd, 0",
        "    stderr     : type=fd, 0",
        "    buf0       : type=buffer, 0",
        "    one        : type=buffer, 0",
        "    two        : type=buffer, 0",
    ]
    descriptions = [line.partition(" dropped, ")[2] for line in lines]
    assert descriptions[2] == "in-memory ring buffer"
    assert descriptions[3] == "one"
    assert descriptions[4].startswith("the")  # HAProxy 2.6 has it as far as the first blank


@pytest.mark.parametrize(
    ("form", "pattern"),
    [
        ("", LINE),
        ("format raw", LINE),
        ("format short", "<6>" + LINE),
        ("format priority", "<142>" + LINE),
        ("format timed", f"<6>{STAMP} {LINE}"),
        ("format iso", f"{STAMP} {LINE}"),
        ("format local", r"<142>\w{3} [ \d]\d \d\d:\d\d:\d\d \w+\[\d+\]: " + LINE),
        ("format rfc3164", r"<142>\w{3} [ \d]\d \d\d:\d\d:\d\d \S+ \w+\[\d+\]: " + LINE),
        ("format rfc5424", rf"<142>1 {STAMP} \S+ \w+ \d+ - - {LINE}"),
    ],
)
def test_formats(proxy, origin: Origin, form: str, pattern: str) -> None:
    """The ring's format rules, not that of the log line."""
    logs = "log ring@r format iso local1"
    running = proxy(config(origin, logs, f"ring r\n    maxlen 2000\n    {form}\n"))
    request(running.connect(), 1, 2)
    lines = events(running, "show events r", 2)
    found = [re.fullmatch(pattern, line) for line in lines]
    assert all(found), lines
    assert [match[1] for match in found if match] == ["1", "2"]


def test_buf0_is_there_already(proxy, origin: Origin) -> None:
    running = proxy(config(origin, "log ring@buf0 local0", ""))
    request(running.connect(), 5)
    assert re.fullmatch(f"<6>{STAMP} {LINE}", events(running, "show events buf0", 1)[0])


def test_lengths(proxy, origin: Origin) -> None:
    """`maxlen` counts the head, the log line's `len` the text, one byte less than it says."""
    logs = "log ring@a len 90 local0\nlog ring@b len 90 local0"
    rings = "ring a\n    format timed\n    maxlen 60\nring b\n    format short\n    maxlen 2000\n"
    running = proxy(config(origin, logs, rings))
    request(running.connect(), 1)
    assert len(events(running, "show events a", 1)[0]) == 60
    assert len(events(running, "show events b", 1)[0]) == len("<6>") + 89


def test_the_oldest_go(proxy, origin: Origin) -> None:
    running = proxy(config(origin, "log ring@r local0", "ring r\n    size 16384\n"))
    wire = running.connect()
    for number in range(300):
        request(wire, number)
    wait_until(lambda: "/len/299 " in running.cli("show events r"), "the last line")
    answer = running.cli("show events r")
    kept = [int(n) for n in re.findall(r"GET /len/(\d+) ", answer)]
    assert kept == list(range(kept[0], 300))
    assert kept[0] > 0
    assert 15_500 < len(answer) <= 16_384
    assert re.search(r"(?m)^    r          : type=buffer, 0 dropped", running.cli("show events"))


def test_answers(proxy, origin: Origin) -> None:
    running = proxy(config(origin, "log ring@r local0", "ring r\n"))
    request(running.connect(), 1)
    events(running, "show events r", 1)
    assert running.cli("show events nope").rstrip() == "No such event sink"
    assert running.cli("show events stdout").rstrip() == "Nothing to report for this sink"
    assert running.cli("show events r -x").rstrip() == "unknown option"
    assert running.cli("show events r -n") == "\n"
    assert running.cli("user; show events r") == "\nPermission denied\n\n"
    assert "type=buffer" in running.cli("user; show events")


@pytest.mark.parametrize("options", ["-w", "-n -w", "-nw", "-wn"])
def test_waiting_for_events(proxy, program: str, origin: Origin, options: str) -> None:
    running = proxy(config(origin, "log ring@r local0", "ring r\n"))
    wire = running.connect()
    request(wire, 1)
    events(running, "show events r", 1)
    with connect(running.socket_path) as watcher:
        watcher.send(f"show events r {options}\n".encode())
        if "n" not in options:
            assert b"/len/1 " in watcher.read_until(b"\n")
        else:
            assert watcher.still_open()
        for number in (2, 3):
            request(wire, number)
            assert b"/len/%d " % number in watcher.read_until(b"\n")
        if program == "mtproxy":  # HAProxy 2.6 announces it and does not do it
            watcher.send(b"\n")
            assert watcher.read_to_end() == b"\n"


@pytest.mark.only("mtproxy")  # HAProxy 2.6 does so most of the time
def test_waiting_ends_with_the_time_out(proxy, origin: Origin) -> None:
    head = "global\n    stats timeout 300ms\n"
    running = proxy(config(origin, "log ring@r local0", "ring r\n", head))
    with connect(running.socket_path) as watcher:
        watcher.send(b"show events r -w\n")
        assert watcher.read_to_end() == b"\n"


def test_input_behind_the_command_ends_the_wait(proxy, origin: Origin) -> None:
    running = proxy(config(origin, "log ring@r local0", "ring r\n"))
    assert running.cli("show events r -w; show version") == "\n"
    with connect(running.socket_path) as watcher:
        watcher.send(b"show events r -w\n")
        watcher.shutdown_write()
        assert watcher.read_to_end() == b"\n"


# --- forwarding


def log_server(server: Server, protocol: str = "legacy") -> str:
    return f"    server l{server.port} 127.0.0.1:{server.port} log-proto {protocol}\n"


def collector(got: bytearray):
    """A handler that keeps everything it gets."""

    def handler(wire: Wire) -> None:
        while wire.fill():
            got.extend(wire.take(len(wire.buffer)))

    return handler


def frames(data: bytes) -> list[bytes]:
    """Messages of the octet-count framing (RFC 6587, 3.4.1)."""
    found = []
    while data:
        length, _, rest = data.partition(b" ")
        found.append(rest[: int(length)])
        assert len(found[-1]) == int(length)
        data = rest[int(length) :]
    return found


def test_forwarding(proxy, origin: Origin, serve) -> None:
    by_line, by_count = bytearray(), bytearray()
    servers = [serve(collector(by_line)), serve(collector(by_count))]
    ring = "ring r\n    format rfc5424\n" + TIMEOUTS
    ring += log_server(servers[0]) + log_server(servers[1], "octet-count")
    running = proxy(config(origin, "log ring@r local0", ring))
    request(running.connect(), *range(1, 21))
    wait_until(lambda: b"/len/20 " in by_line and b"/len/20 " in by_count, "the last line")
    lines = bytes(by_line).split(b"\n")
    assert lines.pop() == b""
    assert [line.decode() for line in lines] == events(running, "show events r", 20)
    assert frames(bytes(by_count)) == lines


def test_a_server_that_comes_later_gets_everything(proxy, origin: Origin, serve) -> None:
    port = free_port()
    ring = f"ring r\n{TIMEOUTS}    server l 127.0.0.1:{port}\n"
    running = proxy(config(origin, "log ring@r local0", ring))
    request(running.connect(), 1, 2, 3)
    events(running, "show events r", 3)
    got = bytearray()
    serve(collector(got), ("127.0.0.1", port))
    wait_until(lambda: got.count(b"\n") == 3, "three lines")
    assert re.findall(rb"/len/(\d+) ", got) == [b"1", b"2", b"3"]


def test_a_lost_connection_is_made_again(proxy, origin: Origin, serve) -> None:
    got = bytearray()
    first: list[bool] = []

    def handler(wire: Wire) -> None:
        if not first:
            first.append(True)
            got.extend(wire.read_until(b"\n"))
            return  # closes
        collector(got)(wire)

    ring = "ring r\n" + TIMEOUTS + log_server(serve(handler))
    wire = (running := proxy(config(origin, "log ring@r local0", ring))).connect()
    request(wire, 1)
    wait_until(lambda: got.count(b"\n") == 1, "one line")
    assert running.alive()
    wait_until(lambda: b"/len/99 " in got or request(wire, 99), "a line over the next one")


@pytest.mark.only("mtproxy")
def test_what_was_overwritten_is_counted(proxy, origin: Origin, serve) -> None:
    port = free_port()
    ring = f"ring r\n    size 16384\n{TIMEOUTS}    server l 127.0.0.1:{port}\n"
    running = proxy(config(origin, "log ring@r local0", ring))
    wire = running.connect()
    for number in range(300):
        request(wire, number)
    got = bytearray()
    serve(collector(got), ("127.0.0.1", port))
    wait_until(lambda: b"/len/299 " in got, "the last line")
    numbers = [int(n) for n in re.findall(rb"/len/(\d+) ", got)]
    assert numbers == list(range(numbers[0], 300))
    dropped = re.search(r"(?m)^    r          : type=buffer, (\d+)", running.cli("show events"))
    assert dropped is not None
    assert int(dropped[1]) == numbers[0] > 0


@pytest.mark.only("mtproxy")
def test_a_slow_server_does_not_hold_up_requests(proxy, origin: Origin, serve) -> None:
    """It reads nothing: the connection is given up after `timeout server`, again and again."""
    done = threading.Event()
    connections: list[Wire] = []

    def handler(wire: Wire) -> None:
        connections.append(wire)
        done.wait(20)

    ring = "ring r\n    size 16384\n    timeout connect 1s\n    timeout server 300ms\n"
    running = proxy(config(origin, "log ring@r local0", ring + log_server(serve(handler))))
    wire = running.connect()
    for number in range(400):
        request(wire, number)
    wait_until(lambda: "/len/399 " in running.cli("show events r"), "the last line")
    assert connections
    done.set()


@pytest.mark.only("mtproxy")
def test_forwarders_and_rings_on_four_threads(proxy, origin: Origin, serve) -> None:
    got = [bytearray() for _ in range(3)]
    rings = "".join(
        f"ring r{n}\n    size 100000\n{TIMEOUTS}{log_server(serve(collector(got[n])))}"
        for n in range(3)
    )
    logs = "\n".join(f"log ring@r{n} sample {n + 1}:3 local0" for n in range(3))
    head = "global\n    nbthread 4\n"
    running = proxy(config(origin, logs, rings, head))
    wires = [running.connect() for _ in range(6)]
    for number in range(90):
        request(wires[number % 6], number)
    wait_until(lambda: all(data.count(b"\n") == 30 for data in got), "30 lines each")
    told = [{int(n) for n in re.findall(rb"/len/(\d+) ", data)} for data in got]
    assert set().union(*told) == set(range(90))
    assert [len(numbers) for numbers in told] == [30, 30, 30]
