"""Fetches of raw bytes (manual 7.3.5) evaluated by a real HAProxy, for tests. One thread."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_CONFIG = """\
global
    nbthread 1
    maxconn 100
    log {dir}/log.sock len 65000 format raw local0
defaults
    mode tcp
    log global
    timeout client 5s
    timeout connect 1s
    timeout server 5s
frontend f
    bind unix@{dir}/front.sock
    tcp-request inspect-delay 5s
{rules}
    tcp-request content reject if WAIT_END
    log-format "{names}"
"""


class ByteJudge:
    """A haproxy that evaluates `expressions` on what a client has sent when it ends its output.

    A context manager. Raises RuntimeError when haproxy does not start.
    """

    def __init__(self, expressions: Sequence[str]) -> None:
        self._dir = Path(tempfile.mkdtemp(prefix="mtproxy-bytes-"))
        self._log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._log.bind(str(self._dir / "log.sock"))
        self._log.settimeout(5)
        rules = "\n".join(
            f"    tcp-request content set-var(txn.v{i}) {text} if WAIT_END"
            for i, text in enumerate(expressions)
        )
        # "<" tells an empty value from none
        names = "|".join(f"%[var(txn.v{i}),hex]" for i in range(len(expressions)))
        found = "".join(f"%[var(txn.v{i}),bytes(0,0),length]," for i in range(len(expressions)))
        text = _CONFIG.format(dir=self._dir, rules=rules, names=f"{found}|{names}")
        (self._dir / "haproxy.cfg").write_text(text)
        self._process = subprocess.Popen(
            ["haproxy", "-db", "-f", str(self._dir / "haproxy.cfg")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        deadline = time.monotonic() + 10
        while True:
            if self._process.poll() is not None:
                assert self._process.stderr is not None
                raise RuntimeError(self._process.stderr.read().decode())
            with contextlib.suppress(OSError):
                self.ask(b"")
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
        self._log.close()
        shutil.rmtree(self._dir, ignore_errors=True)

    def ask(self, data: bytes) -> list[bytes | None]:
        """What the expressions give, as text; None where they give no sample."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(5)
            client.connect(str(self._dir / "front.sock"))
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            client.recv(1)
        line = self._log.recv(65536).decode()
        found, *values = line.rstrip("\n").split("|")
        return [
            None if there in ("", "-") else bytes.fromhex("" if value == "-" else value)
            for there, value in zip(found.split(","), values, strict=False)
        ]
