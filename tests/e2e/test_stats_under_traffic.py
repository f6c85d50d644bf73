"""Reports while traffic flows: every one is whole, counters only grow, and add up at the end."""

from __future__ import annotations

import csv
import io
import threading

from prometheus_client.parser import text_string_to_metric_families

from mtproxy.testing.configs import HTTP
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import connect

CLIENTS = 4
REQUESTS = 300
FORMS = ("/metrics", "/stats", "/stats;csv", "/stats;json", "/metrics?scope=server")


def client(running: Program, failures: list[str]) -> None:
    """Requests on one connection; the origin's answers have a length."""
    with connect(running.address("fe")) as wire:
        for number in range(REQUESTS):
            wire.send(f"GET /{number} HTTP/1.1\r\nhost: h\r\n\r\n".encode())
            head = wire.read_head()
            wire.read_exactly(int(head.get("content-length") or 0))
            if head.status != 404:
                failures.append(f"{number}: {head.status}")


def report(running: Program, target: str) -> str:
    with connect(running.address("fe")) as wire:
        wire.send(f"GET {target} HTTP/1.1\r\nhost: h\r\n\r\n".encode())
        head = wire.read_head()
        assert head.status == 200
        return b"".join(wire.read_chunks()).decode()


def counters(text: str) -> dict[str, float]:
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in text_string_to_metric_families(text)
        if family.type == "counter"
        for sample in family.samples
    }


def test_reports_under_traffic() -> None:
    with Origin() as origin:
        # the origin knows no target: 404 with a length
        servers = "\n".join(
            f"    server s{number} 127.0.0.1:{origin.port}" for number in range(300)
        )
        config = f"""{HTTP}
frontend fe
    bind "fd@${{fe}}"
    option socket-stats
    http-request use-service prometheus-exporter if {{ path /metrics }}
    stats uri /stats
    default_backend be
backend be
{servers}
"""
        with Program("mtproxy", config) as running:
            running.wait_ready()
            failures: list[str] = []
            clients = [
                threading.Thread(target=client, args=(running, failures)) for _ in range(CLIENTS)
            ]
            for one in clients:
                one.start()
            last: dict[str, float] = {}
            rounds = 0
            while any(one.is_alive() for one in clients) or not rounds:
                for target in FORMS:
                    text = report(running, target)
                    if target == "/metrics":
                        now = counters(text)
                        # NaN: no value yet, such as the checks of a server without any
                        lower = {k: (v, now[k]) for k, v in last.items() if now[k] < v}
                        assert not lower
                        last = now
                rounds += 1
            for one in clients:
                one.join()
            assert not failures

            def rows() -> dict[str, dict[str, str]]:
                text = report(running, "/stats;csv").removeprefix("# ")
                return {row["svname"]: row for row in csv.DictReader(io.StringIO(text))}

            total = CLIENTS * REQUESTS
            wait_until(lambda: rows()["BACKEND"]["req_tot"] == str(total), "the last request")
            found = rows()
            own = [row for name, row in found.items() if name.startswith("s")]
            own = [row for row in own if row["type"] == "2"]
            assert len(own) == 300
            assert sum(int(row["hrsp_4xx"]) for row in own) == total
            assert sum(int(row["stot"]) for row in own) == total
            for column in ("stot", "bin", "bout", "hrsp_4xx", "lbtot", "reuse", "connect"):
                assert int(found["BACKEND"][column]) == sum(int(row[column]) for row in own)
