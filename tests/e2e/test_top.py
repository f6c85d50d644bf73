"""`mtproxy top` and a running program: every view, into a backend, a server switched off and on.

Against HAProxy too, whose runtime socket it reads as well.
"""

from __future__ import annotations

import asyncio
import io
import os
import pty
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from mtproxy.cli.top.app import TopApp
from mtproxy.cli.top.figures import take
from mtproxy.cli.top.main import top
from mtproxy.testing.configs import http
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program, command_of, environment
from mtproxy.testing.waiting import PATIENCE

GET = "GET /len/5 HTTP/1.1\nhost: a"

type Play = Callable[[TopApp, Pilot[None]], Awaitable[None]]


@pytest.fixture
def running(proxy: Any, origin: Origin) -> Program:
    second = f"weight 1\n    server s2 127.0.0.1:{origin.port} weight 3"
    started = proxy(http(origin.port, server=second))
    assert isinstance(started, Program)
    return started


def play(running: Program, story: Play) -> None:
    """Run the application without a terminal, and the story in it."""

    async def run() -> None:
        address = running.socket_path
        app = TopApp(address, take(address, PATIENCE), interval=0.1, timeout=PATIENCE)
        async with app.run_test(size=(150, 40)) as pilot:
            await story(app, pilot)

    asyncio.run(run())


async def until(pilot: Pilot[None], probe: Callable[[], bool], what: str) -> None:
    """Let the application run until `probe` holds."""
    deadline = time.monotonic() + PATIENCE
    while not probe():
        assert time.monotonic() < deadline, what
        await pilot.pause(0.02)


def texts(app: TopApp, column: int) -> list[str]:
    return [row.cells[column].text for row in app.shown]


def test_proxies_servers_and_traffic(running: Program) -> None:
    async def story(app: TopApp, pilot: Pilot[None]) -> None:
        assert {"fe", "be"} <= set(texts(app, 0))
        wire = await asyncio.to_thread(running.connect)

        def rate() -> bool:
            for _ in range(5):
                assert wire.request(GET).status == 200
            return app.history[-1] > 0

        await until(pilot, rate, "a rate of requests")
        names = texts(app, 0)
        backend = next(i for i, row in enumerate(app.shown) if row.key == ("be", "BACKEND/1"))
        assert names[backend] == "be"
        for _ in range(backend):
            await pilot.press("down")
        await pilot.press("enter")
        assert (app.table.name, app.backend) == ("servers", "be")
        assert texts(app, 1) == ["s1", "s2"]
        await pilot.press("s", "s", "s", "s")
        assert app.table.columns[app.column].title == "weight"
        assert texts(app, 1) == ["s2", "s1"]
        await pilot.press("r")
        assert texts(app, 1) == ["s1", "s2"]
        await pilot.press("S", "S", "S", "S")
        assert app.column == -1
        await pilot.press("escape")
        assert app.table.name == "proxies"

    play(running, story)


def test_a_server_is_disabled_and_enabled_once_confirmed(running: Program) -> None:
    async def story(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("2")
        assert texts(app, 1) == ["s1", "s2"]
        await pilot.press("down", "d", "n")
        await pilot.press("d", "escape")
        assert "MAINT" not in running.cli("show stat")
        await pilot.press("d", "y")
        await until(pilot, lambda: texts(app, 2)[1] == "MAINT", "s2 in maintenance")
        assert texts(app, 2)[0] != "MAINT"
        await pilot.press("e", "y")
        await until(pilot, lambda: texts(app, 2)[1] != "MAINT", "s2 back")
        await pilot.press("question_mark")
        await pilot.press("escape", "3", "space")
        assert app.held
        await pilot.press("space", "minus", "plus", "plus")
        assert (app.held, app.interval) == (False, 0.2)

    play(running, story)


@pytest.mark.only("mtproxy")
def test_threads_and_locks(running: Program) -> None:
    async def story(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("3")
        threads = running.cli("show threads").count(" Thread ")
        await until(pilot, lambda: len(app.shown) == threads, "a row per thread")
        await until(pilot, lambda: "-" not in texts(app, 1), "their load")
        await pilot.press("4")
        wire = await asyncio.to_thread(running.connect)
        assert wire.request(GET).status == 200
        await until(pilot, lambda: "LISTENER" in texts(app, 0), "the lock of listeners")

    play(running, story)


def test_the_proxy_goes_away(running: Program) -> None:
    async def story(app: TopApp, pilot: Pilot[None]) -> None:
        await asyncio.to_thread(running.stop)
        await until(pilot, lambda: bool(app.trouble), "that it is said")
        assert "fe" in texts(app, 0)

    play(running, story)


def test_one_table_without_a_terminal(running: Program) -> None:
    out = io.StringIO()
    assert top(["-S", running.socket_path, "--once", "servers", "--interval", "0.1"], out) == 0
    lines = out.getvalue().splitlines()
    assert lines[0].split()[:3] == ["backend", "server", "status"]
    assert [line.split()[1] for line in lines[1:]] == ["s1", "s2"]


@pytest.mark.only("mtproxy")
def test_in_a_real_terminal(running: Program, tmp_path: Path) -> None:
    """It draws, and q ends it with the terminal as it was."""
    outer, inner = pty.openpty()
    client = subprocess.Popen(
        [*command_of("mtproxy"), "top", "-S", running.socket_path],
        stdin=inner,
        stdout=inner,
        stderr=inner,
        env=environment() | {"TERM": "xterm-256color"},
        cwd=tmp_path,
    )
    os.close(inner)
    try:
        seen = b""
        while b"proxies" not in seen:
            seen += os.read(outer, 65536)
        os.write(outer, b"q")
        while True:
            try:
                piece = os.read(outer, 65536)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            seen += piece
        assert client.wait(PATIENCE) == 0
        assert b"\x1b[?1049l" in seen  # back from the alternate screen
    finally:
        client.send_signal(signal.SIGKILL)
        client.wait()
        os.close(outer)
