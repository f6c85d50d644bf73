"""Fetches of raw bytes (manual 7.3.5) evaluated by a real HAProxy, for tests. One thread."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from types import TracebackType

from mtproxy.testing.judge import Judge

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


class ByteJudge(Judge):
    """A haproxy that evaluates `expressions` on what a client has sent when it ends its output.

    A context manager. Raises RuntimeError when haproxy does not start.
    """

    def __init__(self, expressions: Sequence[str]) -> None:
        super().__init__()
        self._log = self._bound("log.sock", socket.SOCK_DGRAM)
        rules = "\n".join(
            f"    tcp-request content set-var(txn.v{i}) {text} if WAIT_END"
            for i, text in enumerate(expressions)
        )
        # "<" tells an empty value from none
        names = "|".join(f"%[var(txn.v{i}),hex]" for i in range(len(expressions)))
        found = "".join(f"%[var(txn.v{i}),bytes(0,0),length]," for i in range(len(expressions)))
        self._start(_CONFIG.format(dir=self._dir, rules=rules, names=f"{found}|{names}"))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        super().__exit__(kind, value, traceback)
        self._log.close()

    def _probe(self) -> None:
        self.ask(b"")

    def ask(self, data: bytes) -> list[bytes | None]:
        """What the expressions give, as text; None where they give no sample."""
        with self._connect() as client:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            client.recv(1)
        line = self._log.recv(65536).decode()
        found, *values = line.rstrip("\n").split("|")
        return [
            None if there in ("", "-") else bytes.fromhex("" if value == "-" else value)
            for there, value in zip(found.split(","), values, strict=False)
        ]
