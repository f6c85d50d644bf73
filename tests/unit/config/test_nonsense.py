"""Nonsense in configurations: an alert with file and line, never an exception, in linear time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mtproxy.base.settings import Settings
from mtproxy.config import load

NINES = "9" * 5000
FRONT = "frontend f\n mode http\n timeout client 1s\n bind :1\n"


def loaded(tmp_path: Path, text: str) -> tuple[Settings | None, list[str]]:
    path = tmp_path / "c.cfg"
    path.write_text(text, errors="surrogateescape")
    settings, diagnostics = load([str(path)], environ={})
    return settings, [item.render() for item in diagnostics]


@pytest.mark.parametrize(
    "line",
    [
        f"global\n nbthread {NINES}",
        f"global\n tune.bufsize {NINES}",
        f"global\n stats socket fd@{NINES}",
        f"global\n hard-stop-after {NINES}s",
        f"global\n cpu-map {NINES} 1",
        f"global\n cpu-map 1 0-{NINES}",
        "global\n uid 4294967295",
        "global\n gid 4294967296",
        "global\n setenv A=B c",
        f"defaults\n timeout client {NINES}",
        f"{FRONT} bind 127.0.0.1:{NINES}",
        f"{FRONT} bind 127.0.0.1:1-{NINES}",
        f"{FRONT} maxconn -{NINES}",
        f"backend b\n server s 127.0.0.1:+{NINES}",
        f"backend b\n server s 127.0.0.1:1 weight {NINES}",
    ],
)
def test_values_out_of_every_range(tmp_path: Path, line: str) -> None:
    settings, messages = loaded(tmp_path, line + "\n")
    number = line.count("\n") + 1
    assert settings is None
    assert any(f"c.cfg:{number}]" in message for message in messages)


@pytest.mark.parametrize("line", [f"maxconn {NINES}", f"tune.runqueue-depth {NINES}"])
def test_values_without_a_limit_of_their_own(tmp_path: Path, line: str) -> None:
    """What the system cannot give is found out at start."""
    settings, messages = loaded(tmp_path, f"global\n {line}\n")
    assert settings is not None, messages


def test_versions_and_numbers_in_conditions(tmp_path: Path) -> None:
    text = f".if version_before({NINES}.{NINES}) && {NINES}\n{FRONT}.endif\n"
    settings, messages = loaded(tmp_path, text)
    assert settings is not None, messages
    assert settings.proxies[0].name == "f"


@pytest.mark.parametrize(
    "text",
    [
        "backend b\n" + "".join(f" server s{i} 127.0.0.1:1\n" for i in range(10_000)),
        "".join(f"backend b{i}\n server s 127.0.0.1:1\n" for i in range(5_000)),
        "global\n" + " nosuchword\n" * 10_000,
    ],
    ids=["servers", "proxies", "errors"],
)
def test_long_files_are_read_in_linear_time(tmp_path: Path, text: str) -> None:
    """Quadratic work took 5 to 15 seconds of CPU for each of these; now it is about half a one."""
    before = time.thread_time()
    _, messages = loaded(tmp_path, text)
    assert time.thread_time() - before < 4
    assert messages


def test_bytes_that_are_not_utf_8_stay_bytes(tmp_path: Path) -> None:
    settings, messages = loaded(tmp_path, f"{FRONT} monitor-uri /\udcff\n")
    assert settings is not None, messages
    assert settings.proxies[0].monitor_uri == b"/\xff"
