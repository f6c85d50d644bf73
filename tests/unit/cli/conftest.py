"""A runtime socket that answers what the test says."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

type Serve = Callable[..., str]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """`serve(answer, ...)`: the path of a UNIX socket that gives one answer per connection."""
    with contextlib.ExitStack() as stack:
        asked: list[bytes] = []

        def start(*answers: bytes) -> str:
            path = str(tmp_path / "s.sock")
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(path)
            listener.listen(8)

            def run() -> None:
                for answer in answers:
                    conn, _ = listener.accept()
                    with conn:
                        received = b""
                        while data := conn.recv(1000):
                            received += data
                        asked.append(received)
                        conn.sendall(answer)

            thread = threading.Thread(target=run, daemon=True)
            thread.start()
            stack.callback(thread.join, 5)
            return path

        start.asked = asked  # type: ignore[attr-defined]
        yield start
