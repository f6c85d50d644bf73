"""What `maxconn` costs at the start: nothing."""

from __future__ import annotations

import pytest

from mtproxy.testing import procfs
from mtproxy.testing.configs import http
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program

pytestmark = pytest.mark.only("mtproxy")

GET = "GET /len/5 HTTP/1.1\nhost: a"


def started(proxy, origin: Origin, maxconn: int, scan: str, threads: int = 4) -> Program:
    """A proxy that has answered a request on each thread, or nearly."""
    head = (
        f"global\n    nbthread {threads}\n    no strict-limits\n    maxconn {maxconn}\n"
        f"    tune.fd.scan {scan}\n"
    )
    running: Program = proxy(head + http(origin.port))
    running.wait_ready()
    return running


def answers(running: Program, connections: int = 8) -> bool:
    wires = [running.connect() for _ in range(connections)]
    return all(wire.request(GET).status == 200 for wire in wires)


def test_two_million_connections_take_no_memory(proxy, origin: Origin) -> None:
    few, many = (started(proxy, origin, n, "highest") for n in (1000, 2_000_000))
    assert many.rss() - few.rss() < 8 << 20
    assert answers(many)


def test_only_a_full_scan_pays_for_them(proxy, origin: Origin) -> None:
    """Each of four threads looks at four million entries; the other program at a dozen."""
    started(proxy, origin, 1000, "highest")  # nobody compiles modules while CPU is compared
    highest, full = (started(proxy, origin, 2_000_000, scan) for scan in ("highest", "full"))
    difference = procfs.cpu_seconds(full.pid) - procfs.cpu_seconds(highest.pid)
    assert difference > 0.1
    # both adopted all the same
    assert answers(highest)
    assert answers(full)
    watched = [
        sum("(acceptor)" in line for line in running.cli("show fd").splitlines())
        for running in (highest, full)
    ]
    assert watched == [2, 2]
    for running in (highest, full):
        listener = [line for line in running.cli("show fd").splitlines() if "tmask=0xf" in line]
        assert len(listener) == 1


def test_a_descriptor_that_two_listeners_would_share(proxy, origin: Origin) -> None:
    config = http(origin.port)
    twice = config.replace('bind "fd@${fe}"', 'bind "fd@${fe}"\n    bind "fd@${fe}"')
    running = proxy(twice, ready=False)
    assert running.wait_exit() == 1
    assert "in use by another listener" in running.output()
