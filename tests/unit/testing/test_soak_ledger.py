"""The books of the soak run: whatever does not fit is told."""

from __future__ import annotations

import socket

import pytest

from mtproxy.testing.soak_ledger import Ledger, LogReader, parse
from mtproxy.testing.waiting import wait_until


def line(identity: str, status: int = 200, state: str = "----", server: str = "be/o1") -> str:
    return f"{identity} {status} {state} {server} queues=0,0 retries=0 bytes=10,20 timers=0,0,0,1,1"


@pytest.mark.parametrize(
    ("outcomes", "lines", "expected"),
    [
        (["a =200"], [line("a")], ""),
        (["a =200", "b ?", "c ?"], [line("a"), line("c", -1, "CD--")], ""),
        (["a !"], [line("a", 502, "SH--")], ""),
        (["a ~200"], [line("a", 200, "SD--")], ""),
        (["a =503"], [line("a", 503, "sQ--")], ""),
        ([], [line("-", 400, "CR--", "be/<NOSRV>")], ""),
        (["a =200"], [], "1 requests that were not logged"),
        (["a !"], [], "1 requests that were not logged"),
        ([], [line("a")], "1 lines too many"),
        (["a =200"], [line("a"), line("a")], "1 "),  # twice, or one too many
        ([], [line("a"), line("a")], "1 requests logged twice"),
        (["a =200", "a =200"], [], "1 requests of which a client told twice"),
        (["a =200"], [line("a", 503)], "1 statuses that the client did not see"),
        (["a =200"], [line("a", 200, "SD--")], "1 whole answers logged as something else"),
        (["a =200"], [line("a", server="be/<NOSRV>")], "1 answers of no server"),
        ([], ["nonsense"], "1 lines that are not of the format"),
    ],
)
@pytest.mark.parametrize("lines_first", [True, False])
def test_what_does_not_fit(
    outcomes: list[str], lines: list[str], expected: str, lines_first: bool
) -> None:
    ledger = Ledger()
    if lines_first:
        for text in lines:
            ledger.enter_line(text)
    ledger.enter_outcomes(outcomes)
    if not lines_first:
        for text in lines:
            ledger.enter_line(text)
    problems = ledger.problems()
    assert any(expected in problem for problem in problems) if expected else problems == []


def test_a_line_is_taken_apart() -> None:
    found = parse("w-1 200 ---- be/o2 queues=1,0 retries=+2 bytes=5,+70 timers=0,7,1,2,3")
    assert (found.identity, found.status, found.server) == ("w-1", 200, "be/o2")
    assert (found.queued, found.retries, found.up, found.down) == (True, 2, 5, 70)


def test_the_reader_enters_lines_of_requests_alone() -> None:
    ledger = Ledger()
    with LogReader(ledger) as reader, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for message in (f"soak {line('a')}", "Server be/o1 is UP", f"soak {line('b')}"):
            sock.sendto(
                f"<134>Jan  1 00:00:00 x[1]: {message}".encode(), ("127.0.0.1", reader.port)
            )
        wait_until(lambda: ledger.lines == 2, "two lines")
        assert reader.lost() == 0
    ledger.enter_outcomes(["a =200", "b =200"])
    assert ledger.problems() == []
