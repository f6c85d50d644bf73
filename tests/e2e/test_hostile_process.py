"""The process in bad company: closed, broken and stalled standard streams, no descriptors left,
configurations that nobody should write.
"""

from __future__ import annotations

import os
import resource
import socket

import pytest

from mtproxy.testing.configs import DEFAULTS, HTTP, http
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program, in_shell
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import Wire, connect

GET = "GET /len/5 HTTP/1.1\nhost: a\nconnection: close"
TO_STANDARD_STREAMS = """
    log stdout format raw local0
    log stderr format raw local0
"""
LOGGING = (
    TO_STANDARD_STREAMS + DEFAULTS.format(mode="http") + "    log global\n    option httplog\n"
)


@pytest.mark.parametrize("redirections", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams(proxy, origin: Origin, redirections: str) -> None:
    """No socket may get the number of one, and be written to as such."""
    running = proxy(http(origin.port, head=LOGGING), wrapper=in_shell("", redirections))
    for _ in range(3):
        assert running.connect().request(GET).status == 200
    running.cli("disable server be/s1")
    running.cli("enable server be/s1")
    assert running.connect().request(GET).status == 200


def test_the_reader_of_standard_error_goes_away(proxy, serve) -> None:
    """`haproxy 2>&1 | head -1`: messages are lost, nothing else is."""
    reader, writer = os.pipe()
    server = serve(lambda wire: None)
    try:
        running = proxy(
            http(server.port, head=LOGGING, server="check inter 50"), stdio=writer, ready=True
        )
        os.close(writer)
    finally:
        os.close(reader)
    server.stop_listening()
    wait_until(lambda: _status(running) == "DOWN", "the server to be down")
    for _ in range(3):
        assert running.connect().request(GET).status == 503
    assert running.alive()


@pytest.mark.only("mtproxy")
def test_nobody_reads_standard_output_and_error(proxy, origin: Origin) -> None:
    """A pipe that is full holds nobody up. HAProxy waits for the reader of its messages."""
    reader, writer = os.pipe()
    try:
        running = proxy(http(origin.port, head=LOGGING, server="check inter 50"), stdio=writer)
        _fill(writer)
        os.close(writer)
        for _ in range(3):
            assert running.connect().request(GET).status == 200
        origin.close()
        wait_until(lambda: _status(running) == "DOWN", "the server to be down")
        for _ in range(3):
            assert running.connect().request(GET).status == 503
        assert "DroppedLogs: 0\n" not in running.cli("show info")
    finally:
        os.close(reader)


def test_no_descriptor_left(proxy, origin: Origin) -> None:
    """Neither the proxy nor its runtime socket stay deaf when descriptors come back."""
    config = http(
        origin.port,
        head="    log /nowhere/log local0\n    log 127.0.0.1:9 local0\n"
        + HTTP
        + "    log global\n    option httplog\n",
        server="check inter 50",
    )
    running = proxy(config)
    assert running.connect().request(GET).status == 200
    before = resource.prlimit(running.pid, resource.RLIMIT_NOFILE, (3, 1000))
    waiting: list[Wire] = [running.connect() for _ in range(3)]
    for wire in waiting:
        wire.send(b"GET /len/5 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
    runtime = connect(running.socket_path)
    runtime.send(b"show version\n")
    assert waiting[0].still_open(0.5)
    resource.prlimit(running.pid, resource.RLIMIT_NOFILE, (min(1000, before[1]), 1000))
    for wire in waiting:
        assert wire.read_response().status in (200, 503)
    assert runtime.read_to_end()
    runtime.close()
    wait_until(lambda: running.server_status("be", "s1") == "UP", "the server to be up")
    assert running.connect().request(GET).status == 200
    assert "unexpectedly" not in running.output()


def test_a_descriptor_for_logs_that_is_not_open(proxy, origin: Origin) -> None:
    head = "    log fd@77 local0\n" + HTTP + "    log global\n    option httplog\n"
    running = proxy(http(origin.port, head=head))
    assert running.connect().request(GET).status == 200


def test_words_that_are_not_utf_8(proxy, origin: Origin) -> None:
    """Bytes in, the same bytes out: HAProxy's files have no encoding."""
    name = "\udcfe\udcff"
    head = (
        f'    log-tag "{name}"\n    log stdout format raw local0\n' + HTTP + "    log global\n"
        f'    option httplog\n    monitor-uri "/{name}"\n'
    )
    bound = f"mtp{os.getpid()}{name}"
    running = proxy(http(origin.port, head=head, fe=f'bind "abns@{bound}"'))
    assert running.connect().request(GET).status == 200
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect(b"\0" + os.fsencode(bound).ljust(107, b"\0"))
        client.sendall(b"GET /len/5 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200")


@pytest.mark.only("mtproxy")
def test_cpus_that_do_not_exist(proxy, origin: Origin) -> None:
    running = proxy("    nbthread 2\n    cpu-map 1/2 63\n" + http(origin.port))
    assert running.connect().request(GET).status == 200
    assert "thread 2 cannot be bound to CPUs [63]" in running.output()


def _fill(pipe: int) -> None:
    """Write until there is no room; the flag is the description's, hence set back."""
    os.set_blocking(pipe, False)
    try:
        while os.write(pipe, b"x" * 4096):
            continue
    except BlockingIOError:
        os.set_blocking(pipe, True)


def _status(running: Program) -> str:
    return running.server_status("be", "s1").split(" ")[0]
