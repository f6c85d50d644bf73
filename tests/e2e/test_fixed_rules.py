"""Rules that do the same to every response: what became of a head is remembered, per route."""

from __future__ import annotations

import pytest

from mtproxy.testing.configs import http
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program

FIXED = "http-response set-header X-A 1\nhttp-response del-header X-Other"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (FIXED, [b"1", b"1", b"1"]),
        (f"{FIXED}\nhttp-response set-header X-A %[rand(1)]", [b"0", b"0", b"0"]),
        (f"{FIXED}\nhttp-response set-header X-A 2 if TRUE", [b"2", b"2", b"2"]),
        (
            "http-request set-var(txn.n) url_param(n)\nhttp-response set-header X-A %[var(txn.n)]",
            [b"5", b"6", b"7"],
        ),
    ],
)
def test_every_response_is_changed(rules: str, expected: list[bytes]) -> None:
    with Origin() as origin, Program("mtproxy", http(origin.port, fe=rules)) as proxy:
        wire = proxy.connect()
        found = []
        for number in (5, 6, 7):
            answer = wire.request(f"GET /head?n={number} HTTP/1.1\nhost: a")
            assert answer.head.all("x-a") == [answer.get("x-a")]
            found.append(answer.get("x-a"))
        assert found == expected


def test_a_later_rule_does_not_change_what_is_remembered() -> None:
    """An answer of the proxy's own on the same connection, then the same response again."""
    rules = f"{FIXED}\nhttp-request deny if {{ path /no }}\nhttp-after-response set-header X-B 2"
    with Origin() as origin, Program("mtproxy", http(origin.port, fe=rules)) as proxy:
        wire = proxy.connect()
        for path in ("head", "no", "head", "no", "head"):
            answer = wire.request(f"GET /{path} HTTP/1.1\nhost: a")
            assert answer.head.all("x-b") == [b"2"]
            assert answer.head.all("x-a") == ([b"1"] if path == "head" else [])
