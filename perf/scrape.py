"""Prometheus scrapes of thousands of servers: how long one takes, what traffic feels of them.

One proxy with traffic on one frontend and the exporter on another. In one variant nobody asks for
metrics; in the other a scraper does, again and again, all of them, with a pause in between. Both
use the same proxy, so that what differs is the scrapes.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from contextlib import ExitStack
from typing import Self

from mtproxy.testing.nginx import Nginx
from mtproxy.testing.program import Program
from perf import clients
from perf.http import CONNECTIONS, http_config
from perf.results import Ratio, interleave, ratio
from perf.sink import Sink
from perf.suite import Benchmark, Outcome, Say, add_seconds, pick, positive, series_of

#: ms that a scrape may take while traffic goes on
MOST_WALL = 250.0


class Scraper:
    """Scrapes in a thread of its own from `with` to its end. `walls`: how long each took, in ms."""

    def __init__(self, proxy: Program, servers: int, pause: float) -> None:
        self.walls: list[float] = []
        self._proxy = proxy
        self._servers = servers
        self._pause = pause
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._over.set()
        self._thread.join()
        if self._error is not None:
            raise clients.BadLoad(f"a scrape failed: {self._error!r}") from self._error

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                self.walls.append(self._scrape())
                self._over.wait(self._pause)
        except (OSError, AssertionError, clients.BadLoad) as error:
            self._error = error

    def _scrape(self) -> float:
        """One scrape on a connection of its own, in ms."""
        with self._proxy.connect("metrics") as wire:
            begin = time.monotonic()
            answer = wire.request("GET /metrics HTTP/1.1\nhost: perf\nconnection: close")
            took = time.monotonic() - begin
        found = answer.body.count(b"\nhaproxy_server_weight{")
        if answer.status != 200 or found < self._servers:
            raise clients.BadLoad(f"status {answer.status}, {found} servers")
        return took * 1000


def config(origin_port: int, sink_port: int, threads: int, servers: int) -> str:
    """Traffic as in `perf http`, and a backend of many servers that it does not use."""
    many = "".join(f"    server m{i} 127.0.0.1:{origin_port}\n" for i in range(servers))
    return f"""{http_config(origin_port, sink_port, threads)}
frontend metrics
    bind "fd@${{metrics}}"
    http-request use-service prometheus-exporter if {{ path /metrics }}
backend many
{many}"""


def scrape(options: argparse.Namespace, say: Say) -> Outcome:
    """Keep-alive GETs, with and without somebody who scrapes."""
    with ExitStack() as stack:
        sink = stack.enter_context(Sink())
        origin = stack.enter_context(Nginx())
        text = config(origin.port, sink.port, options.nbthread, options.servers)
        proxy = stack.enter_context(Program("mtproxy", text))
        clients.wrk(proxy.port(), "/small", seconds=1, connections=CONNECTIONS)

        def traffic() -> dict[str, float]:
            load = clients.wrk(
                proxy.port(), "/small", seconds=options.seconds, connections=CONNECTIONS
            )
            return {"p99": load.p99_us / 1000, "rate": load.requests / load.seconds}

        def measure(variant: str) -> dict[str, float]:
            if variant == "none":
                return traffic() | {"scrape": 0.0, "longest": 0.0}
            with Scraper(proxy, options.servers, options.pause) as scraper:
                found = traffic()
            return found | {
                "scrape": statistics.median(scraper.walls),
                "longest": max(scraper.walls),
            }

        found = interleave(["none", "scraped"], options.rounds, measure, say)
    series = series_of(found, {"p99": "ms", "rate": "requests/s", "scrape": "ms", "longest": "ms"})
    walls = tuple(one / MOST_WALL for one in pick(series, "scraped", "scrape").values)
    ratios = [
        Ratio(f"a scrape under traffic / the {MOST_WALL:.0f} ms allowed", walls, 1.0),
        *(
            ratio(
                f"{what}: scraped / none", pick(series, "scraped", what), pick(series, "none", what)
            )
            for what in ("p99", "rate")
        ),
    ]
    settings: dict[str, object] = {
        "connections": CONNECTIONS,
        "servers": options.servers,
        "pause": options.pause,
        "rounds": options.rounds,
        "seconds": options.seconds,
        "config": config(0, 0, options.nbthread, 1),
    }
    return Outcome(series, ratios, settings)


def _options(parser: argparse.ArgumentParser) -> None:
    add_seconds(parser, 4)
    parser.add_argument("--servers", type=int, default=2000, help="servers (2000)")
    parser.add_argument(
        "--pause", type=positive, default=1.0, help="seconds between two scrapes (1)"
    )
    parser.add_argument("--nbthread", type=int, default=2, help="threads (2)")


BENCHMARK = Benchmark(
    "scrape",
    "Prometheus scrapes of 2,000 servers: how long one takes, latency of traffic meanwhile",
    scrape,
    _options,
    lambda _options: ["nginx", "wrk"],
)
