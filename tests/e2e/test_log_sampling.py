"""Sampled log lines (`log ... sample RANGES:SIZE`): which log server gets which request."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from mtproxy.log.sampling import STRATEGIES
from mtproxy.testing.configs import HTTP
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program
from mtproxy.testing.syslog_sink import SyslogSink
from mtproxy.testing.threads import run_threads
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import connect

type Sinks = Callable[[int], list[SyslogSink]]


@pytest.fixture
def sinks() -> Iterator[Sinks]:
    """`sinks(n)` starts n log servers."""
    with ExitStack() as stack:
        yield lambda count: [stack.enter_context(SyslogSink()) for _ in range(count)]


def config(origin: Origin, *frontends: str, head: str = "") -> str:
    """Frontends fe, fe2, ... with the given lines, on one backend."""
    text = head + HTTP + "    option httplog\n"
    for number, lines in enumerate(frontends, 1):
        name = "fe" if number == 1 else f"fe{number}"
        body = "".join(f"    {line.strip()}\n" for line in lines.strip().splitlines())
        text += f'frontend {name}\n    bind "fd@${{{name}}}"\n{body}    default_backend be\n'
    return text + f"backend be\n    server s1 127.0.0.1:{origin.port}\n"


def numbers(sink: SyslogSink, count: int) -> list[int]:
    """The requests that a log server was told about, once it has `count` lines."""
    if count:
        sink.wait("GET /len/", count=count)
    return [int(re.findall(r"GET /len/(\d+) ", text)[0]) for text in sink.texts()]


def request(wire, number: int) -> None:
    assert wire.request(f"GET /len/{number} HTTP/1.1\nhost: a").status == 200


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("1:1", "0000000000000"),
        ("1:4", "0...0...0...0"),
        ("4:4", "...0...0...0."),
        ("1,3-5:6", "0.000.0.000.0"),
        ("3,2,1:3", "0000000000000"),
        ("5,1-3:6", "000.0.000.0.0"),
        ("1,:4", "0...0...0...0"),
        ("1-2,4:5", "00.0.00.0.00."),
        ("2-3,5-6:7", ".00.00..00.00"),
        ("1-4:4", "0000000000000"),
        ("12-13:20", "...........00"),
        ("1:4294967295", "0............"),
    ],
)
def test_which_requests(proxy, origin: Origin, sinks: Sinks, spec: str, expected: str) -> None:
    sampled, everything = sinks(2)
    lines = f"log 127.0.0.1:{sampled.port} sample {spec} local0\n"
    lines += f"log 127.0.0.1:{everything.port} local0"
    wire = proxy(config(origin, lines)).connect()
    for number in range(len(expected)):
        request(wire, number)
    assert numbers(everything, len(expected)) == list(range(len(expected)))
    wanted = [number for number, mark in enumerate(expected) if mark == "0"]
    assert numbers(sampled, len(wanted)) == wanted


def test_four_servers_take_turns(proxy, origin: Origin, sinks: Sinks) -> None:
    four = sinks(4)
    lines = "\n".join(f"log 127.0.0.1:{s.port} sample {n}:4 local0" for n, s in enumerate(four, 1))
    wire = proxy(config(origin, lines)).connect()
    for number in range(16):
        request(wire, number)
    assert [numbers(sink, 4) for sink in four] == [list(range(n, 16, 4)) for n in range(4)]


def test_formats_and_lengths_of_each_line(proxy, origin: Origin, sinks: Sinks) -> None:
    odd, even, other = sinks(3)
    lines = f"""
        log 127.0.0.1:{odd.port} len 120 sample 1:2 local0
        log 127.0.0.1:{even.port} format rfc3164 sample 2:2 local1
        log 127.0.0.1:{other.port} sample 1:2 local0"""
    wire = proxy(config(origin, lines)).connect()
    for number in range(4):
        request(wire, number)
    other.wait("GET /len/", count=2)
    odd.wait("fe be/s1", count=2)
    even.wait("GET /len/", count=2)
    assert [entry.priority for entry in odd.entries + even.entries] == [134, 134, 142, 142]
    for text, whole in zip(odd.texts(), other.texts(), strict=True):
        assert len(text) < len(whole)
        assert whole.startswith(text)
    assert numbers(even, 2) == [1, 3]
    assert numbers(other, 2) == [0, 2]


def test_frontends_count_for_themselves(proxy, origin: Origin, sinks: Sinks) -> None:
    """`log global` and `defaults` are copied into each proxy, counts included."""
    from_global, from_defaults = sinks(2)
    head = f"global\n    log 127.0.0.1:{from_global.port} sample 2:3 local0\n"
    text = config(origin, "log global", "log global", head=head).replace(
        "    option httplog\n",
        f"    option httplog\n    log 127.0.0.1:{from_defaults.port} sample 1:3 local1\n",
        1,
    )
    running = proxy(text)
    one, two = running.connect(), running.connect("fe2")
    for number in range(0, 12, 2):
        request(one, number)
        request(two, number + 1)
    # of fe: 0 2 4 6 8 10, of fe2: 1 3 5 7 9 11
    # (on two threads perhaps, whose lines may overtake each other)
    assert sorted(numbers(from_global, 4)) == [2, 3, 8, 9]
    assert sorted(numbers(from_defaults, 4)) == [0, 1, 6, 7]


def test_a_line_counts_what_passes_its_level(proxy, origin: Origin, sinks: Sinks) -> None:
    errors, everything = sinks(2)
    lines = f"""
        option log-separate-errors
        log 127.0.0.1:{errors.port} sample 2:2 local0 err
        log 127.0.0.1:{everything.port} local0"""
    running = proxy(config(origin, lines))
    for path in ("len/0", "reset", "len/1", "reset", "len/2", "reset", "reset"):
        running.connect().request(f"GET /{path} HTTP/1.1\nhost: a")
        everything.wait("GET /", count=1)
    everything.wait("GET /", count=7)
    errors.wait("GET /reset", count=2)
    assert [entry.priority for entry in errors.entries] == [16 * 8 + 3] * 2


# --- threads: 4 kinds of targets, 1 of 4 lines each

CLIENTS = 6
EACH = 60


class UnixReader:
    """A UNIX datagram socket that is read all the time."""

    def __init__(self, path: str) -> None:
        self.messages: list[bytes] = []
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sock.bind(path)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while (data := self._sock.recv(65536)) != b"end":
            self.messages.append(data)

    def close(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"end", self._sock.getsockname())
        self._thread.join(5)
        self._sock.close()


def dropped(running: Program) -> int:
    return int(re.findall(r"(?m)^DroppedLogs: (\d+)", running.cli("show info"))[0])


def exact_shares(proxy, origin: Origin, sinks: Sinks, head: str, path: str, *, once: bool) -> None:
    """Requests of several clients at once: each of four targets gets exactly a quarter. `once`:
    every request goes to one of them. (Counts of lines for themselves do not promise that, as
    another thread may come in between: HAProxy, and the strategies made after it.)
    """
    (udp,) = sinks(1)
    reader = UnixReader(path)
    lines = f"""
        log 127.0.0.1:{udp.port} sample 1:4 local0
        log {path} format raw sample 2:4 local0
        log stdout format raw sample 3:4 local0
        log ring@r sample 4:4 local0"""
    text = config(origin, lines, head=head) + "ring r\n    size 200000\n"
    running = proxy(text)

    def client(number: int) -> None:
        with connect(running.address(), 20) as wire:
            for turn in range(EACH):
                request(wire, number * EACH + turn)

    run_threads(CLIENTS, client)
    total = CLIENTS * EACH
    share = total // 4

    def told(text: str) -> list[int]:
        return [int(n) for n in re.findall(r"GET /len/(\d+) ", text)]

    wait_until(lambda: len(told(running.output())) >= share, "lines on stdout")
    wait_until(lambda: len(told(running.cli("show events r"))) >= share, "lines in the ring")
    wait_until(lambda: len(reader.messages) + dropped(running) >= share, "lines on the socket")
    udp.wait("GET /len/", count=share)
    reader.close()
    by_target = [
        told("\n".join(udp.texts())),
        told(b"\n".join(reader.messages).decode()),
        told(running.output()),
        told(running.cli("show events r")),
    ]
    lost = dropped(running)  # a UNIX socket takes few messages at a time
    assert [len(found) for found in by_target] == [share, share - lost, share, share]
    if once:
        everything = [number for found in by_target for number in found]
        assert len(set(everything)) == len(everything) == total - lost


@pytest.mark.parametrize("threads", [2, 4])
def test_shares_are_exact(
    proxy, program: str, origin: Origin, sinks: Sinks, tmp_path, threads: int
) -> None:
    head = f"global\n    nbthread {threads}\n"
    once = program == "mtproxy"
    exact_shares(proxy, origin, sinks, head, str(tmp_path / "log"), once=once)


@pytest.mark.only("mtproxy")
@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "index"])
def test_shares_by_strategy(proxy, origin: Origin, sinks: Sinks, tmp_path, strategy: str) -> None:
    head = f"global\n    nbthread 4\n    tune.log-sampling {strategy}\n"
    exact_shares(proxy, origin, sinks, head, str(tmp_path / "log"), once=False)
