"""What is read from wrk's answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from perf import clients

ANSWER = """\
Running 2s test @ http://127.0.0.1:1/small
  1 threads and 1000 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    29.91ms   12.10ms 250.00ms   80.00%
    Req/Sec    30.00k     1.00k   31.00k    70.00%
  Latency Distribution
     50%   28.00ms
     75%   33.00ms
     90%   40.00ms
     99%    1.20s
  60000 requests in 2.10s, 10.00MB read
Requests/sec:  28571.00
"""


def fake_wrk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, code: int = 0) -> None:
    tool = tmp_path / "wrk"
    tool.write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\nexit {code}\n")
    tool.chmod(0o755)
    monkeypatch.setattr(clients, "find_tool", lambda _name: str(tool))


def test_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_wrk(tmp_path, monkeypatch, ANSWER)
    load = clients.wrk(1, "/small", seconds=2, connections=1000)
    assert load == clients.Load(60000, pytest.approx(2.1), 1.2e6, pytest.approx(29910))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (ANSWER + "  Non-2xx or 3xx responses: 5\n", 0),
        (ANSWER + "  Socket errors: connect 0, read 3, write 0, timeout 0\n", 0),
        (ANSWER, 1),
        ("nothing\n", 0),
    ],
)
def test_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, code: int) -> None:
    fake_wrk(tmp_path, monkeypatch, text, code)
    with pytest.raises(clients.BadLoad):
        clients.wrk(1, "/small", seconds=2, connections=1000)
