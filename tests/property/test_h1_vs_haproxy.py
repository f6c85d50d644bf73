"""Our HTTP/1 codec against a real HAProxy: nothing is taken that HAProxy refuses."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mtproxy.http import headers, replies
from mtproxy.http.cache import HeadCache
from mtproxy.testing import h1cases, h1haproxy
from mtproxy.testing.haproxy_judge import HAProxyJudge, find_haproxy

PROGRAM = find_haproxy()
needs_haproxy = pytest.mark.skipif(
    PROGRAM is None, reason="no haproxy (apt-get install haproxy, or set HAPROXY_PROGRAM)"
)
DOCUMENT = Path(__file__).parents[2] / "docs" / "http1.md"


@pytest.fixture(scope="module")
def judge() -> Iterator[HAProxyJudge]:
    assert PROGRAM is not None
    with HAProxyJudge(PROGRAM) as judge:
        yield judge


def haproxy_version() -> str:
    assert PROGRAM is not None
    out = subprocess.run([PROGRAM, "-v"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"version (\d+\.\d+)", out)
    assert match is not None
    return match[1]


def rows() -> dict[tuple[str, ...], list[str]]:
    """The document's table rows: (section, input, why) to the three verdicts."""
    found: dict[tuple[str, ...], list[str]] = {}
    section = ""
    for line in DOCUMENT.read_text().splitlines():
        if line.startswith("### "):
            section = line[4:]
        elif section and line.startswith("| ") and not line.startswith("| input"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            found[section, cells[0], cells[4]] = cells[1:4]
    return found


def key(case: h1cases.Case) -> tuple[str, ...]:
    return (case.section, h1cases.shown(case).strip(), case.why)


def test_the_document_tells_what_h11_and_mtproxy_do() -> None:
    documented = rows()
    assert set(documented) == {key(case) for case in h1cases.CASES}
    for case in h1cases.CASES:
        assert documented[key(case)][1:] == [h1cases.h11s(case), h1cases.ours(case)], case


@needs_haproxy
def test_the_document_tells_what_haproxy_does(judge: HAProxyJudge) -> None:
    if haproxy_version() != "2.6":
        pytest.skip(f"the document speaks of HAProxy 2.6, this is {haproxy_version()}")
    documented = rows()
    wrong = {
        key(case): (documented[key(case)][0], verdict)
        for case in h1cases.CASES
        if (verdict := h1cases.haproxys(judge, case)) != documented[key(case)][0]
    }
    assert not wrong


def test_nothing_documented_is_taken_that_haproxy_refuses() -> None:
    for cells in rows().values():
        assert not (cells[2] == "taken" and cells[0] != "taken"), cells


@needs_haproxy
def test_generated_messages(judge: HAProxyJudge) -> None:
    cache = HeadCache(entries_max=64)
    for case in range(2500):
        found = h1haproxy.run_case(judge, 5, case, cache)
        assert found is None, f"case {case}: {found}"


@needs_haproxy
def test_the_judge_notices_a_liberal_codec(
    judge: HAProxyJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern = rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+) *:([\t\x20-\x7e\x80-\xff]*)"
    monkeypatch.setattr(headers, "_match_field", re.compile(pattern).fullmatch)
    for case in range(5000):
        found = h1haproxy.run_case(judge, 5, case, HeadCache())
        if found is not None:
            assert "we take what HAProxy" in found
            return
    pytest.fail("not noticed")


@needs_haproxy
def test_the_loop(capsys: pytest.CaptureFixture[str]) -> None:
    assert h1haproxy.main(["--seconds", "0.3", "--seed", "3"]) == 0
    assert "nothing found in" in capsys.readouterr().out


def test_the_loop_without_haproxy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(h1haproxy, "find_haproxy", lambda: None)
    assert h1haproxy.main([]) == 77
    assert "skipped: no haproxy" in capsys.readouterr().out


@needs_haproxy
def test_early_replies_are_haproxys(judge: HAProxyJudge) -> None:
    for data, status in [
        (b"GET / HTTP/1.1\r\n: a\r\n\r\n", 400),
        (b"GET / HTTP/1.0\r\nContent-Length: 2\r\n\r\nab", 413),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 422),
        (b"GET / HTTP/1.1\r\n", 408),
    ]:
        assert judge.ask(data).reply == replies.early_reply(status)
    bad = b"HTTP/1.1 2x0 OK\r\n\r\n"
    request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    assert judge.ask(request, response=bad).reply == replies.reply(502)
