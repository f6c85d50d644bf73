"""A real HAProxy with one configuration: the judge of expressions. For tests; one thread."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

_START_SECONDS = 10
_ANSWER_SECONDS = 5


class Judge:
    """A haproxy that listens on `front.sock` in a folder of its own; a context manager.

    A subclass puts its files into `_dir`, then calls `_start`. `_probe` says with OSError that
    haproxy does not listen yet. Raises RuntimeError when it does not start.
    """

    def __init__(self) -> None:
        self._dir = Path(tempfile.mkdtemp(prefix="mtproxy-judge-"))

    def _start(self, config: str) -> None:
        path = self._dir / "haproxy.cfg"
        path.write_text(config)
        self._process = subprocess.Popen(
            ["haproxy", "-db", "-f", str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )

    def _bound(self, name: str, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
        """A socket of ours that haproxy finds in the folder."""
        sock = socket.socket(socket.AF_UNIX, kind)
        sock.bind(str(self._dir / name))
        sock.settimeout(_ANSWER_SECONDS)
        return sock

    def _connect(self) -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(_ANSWER_SECONDS)
        try:
            client.connect(str(self._dir / "front.sock"))
        except OSError:
            client.close()
            raise
        return client

    def _probe(self) -> None:
        self._connect().close()

    def __enter__(self) -> Self:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            if self._process.poll() is not None:
                assert self._process.stderr is not None
                raise RuntimeError(self._process.stderr.read().decode())
            with contextlib.suppress(OSError):
                self._probe()
                return self
            if time.monotonic() > deadline:
                raise RuntimeError("haproxy does not listen")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()
        shutil.rmtree(self._dir, ignore_errors=True)
