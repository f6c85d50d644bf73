"""The run queue's depth in the whole program: bounds every turn, and starves nobody."""

from __future__ import annotations

import threading

import pytest

from mtproxy.testing.configs import http
from mtproxy.testing.origin import Origin

pytestmark = pytest.mark.only("mtproxy")

SIZE = 8_000_000


@pytest.mark.parametrize("depth", [1, 5])
def test_small_requests_and_commands_beside_large_transfers(
    proxy, origin: Origin, depth: int
) -> None:
    """With one tasklet per turn every class still gets its turns, and no turn runs more."""
    # small buffers: a transfer has to let others run every 32 kB
    tune = f"nosplice\n    tune.bufsize 4096\n    tune.runqueue-depth {depth}\n"
    running = proxy(f"global\n    nbthread 1\n    {tune}" + http(origin.port))
    received: list[int] = []

    def download() -> None:
        with running.connect(seconds=60) as wire:
            response = wire.request(f"GET /len/{SIZE} HTTP/1.1\nhost: a")
            received.append(len(response.body))

    threads = [threading.Thread(target=download) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        with running.connect(seconds=60) as wire:
            for _ in range(3):
                assert wire.request("GET /len/5 HTTP/1.1\nhost: a").status == 200
        assert running.cli("show version").strip()
    for thread in threads:
        thread.join()
    assert received == [SIZE] * 3
    figures = dict(
        line.split(": ", 1) for line in running.cli("show activity").splitlines() if line
    )
    count = {name: int(text) for name, text in figures.items() if text.isdigit()}
    assert count["urgent"] >= 20
    assert count["bulk"] > 0
    assert count["urgent"] + count["bulk"] < count["ctxsw"] <= depth * count["loops"]
    assert count["errors"] == 0
    assert float(figures["tasklets_per_loop"]) <= depth
