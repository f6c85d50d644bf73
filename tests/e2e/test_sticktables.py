"""Stick tables in the running program: limits that hold over all threads, sessions that end."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import suppress

import pytest

from mtproxy.testing.configs import http, tcp
from mtproxy.testing.origin import Origin
from mtproxy.testing.waiting import wait_until

TABLE = """
backend t
    stick-table type ip size 100 expire 1m store http_req_cnt,conn_cur,conn_cnt
"""


def test_a_limit_holds_over_all_threads(proxy, origin: Origin) -> None:
    """16 connections send 20 requests each at once; exactly the first 100 pass."""
    rules = (
        "http-request track-sc0 src table t\n"
        "http-request deny deny_status 429 if { sc_http_req_cnt(0) gt 100 }"
    )
    running = proxy(http(origin.port, fe=rules) + TABLE)
    statuses: Counter[int] = Counter()
    done = threading.Barrier(17)

    def client() -> None:
        with running.connect() as wire:
            got = [wire.request("GET /len/5 HTTP/1.1\nhost: a").status for _ in range(20)]
        statuses.update(got)
        done.wait(60)

    threads = [threading.Thread(target=client) for _ in range(16)]
    for thread in threads:
        thread.start()
    done.wait(60)
    for thread in threads:
        thread.join()
    assert statuses == {200: 100, 429: 220}
    assert "http_req_cnt=320" in running.cli("show table t")


@pytest.mark.parametrize("rule", ["tcp-request connection", "tcp-request session"])
def test_connections_are_counted_while_they_last(proxy, origin: Origin, rule: str) -> None:
    rules = f"{rule} track-sc0 src table t\n{rule} reject if {{ sc0_conn_cur gt 2 }}"
    running = proxy(tcp(origin.port, fe=rules) + TABLE, ready=False)
    wait_until(lambda: running.cli("show table t"), "the program to serve")
    wires = [running.connect() for _ in range(2)]
    for wire in wires:
        assert wire.request("GET /len/5 HTTP/1.1\nhost: a").status == 200
    assert "conn_cur=2 " in running.cli("show table t")
    # the reset may come before connect() has returned
    with suppress(ConnectionResetError), running.connect() as third:
        assert third.at_end()
    wait_until(lambda: "conn_cur=2 " in running.cli("show table t"), "the third one to go")
    for wire in wires:
        wire.close()
    wait_until(lambda: "use=0 " in running.cli("show table t"), "the sessions to end")
    assert "conn_cur=0 " in running.cli("show table t")
    with running.connect() as wire:
        assert wire.request("GET /len/5 HTTP/1.1\nhost: a").status == 200


def test_entries_expire(proxy, origin: Origin) -> None:
    table = "\nbackend t\n    stick-table type string size 10 expire 200ms store http_req_cnt\n"
    running = proxy(http(origin.port, fe="http-request track-sc0 path table t") + table)
    with running.connect() as wire:
        wire.request("GET /len/5 HTTP/1.1\nhost: a")
        wire.request("GET /len/6 HTTP/1.1\nhost: a")
    assert "used:2" in running.cli("show table")
    wait_until(lambda: "used:0" in running.cli("show table"), "the entries to expire")
    with running.connect() as wire:
        wire.request("GET /len/5 HTTP/1.1\nhost: a")
    wait_until(lambda: "used:0" in running.cli("show table"), "the next one to expire")
