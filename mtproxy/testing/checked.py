"""Servers that are checked: each goes through a short script on every connection, and keeps what
it was sent.

A script is a list of steps: bytes are sent, `Take(n)` waits for so many, `END`, `RESET` and `HANG`
close, reset and keep the connection. Behind its last step a server waits for the other side.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from mtproxy.testing.server import Server
from mtproxy.testing.wire import PeerClosed, Wire


@dataclass(frozen=True, slots=True)
class Take:
    """Wait for `count` bytes; 0: until an empty line has come."""

    count: int = 0


class Finish(Enum):
    """How a script may end."""

    END = auto()
    RESET = auto()
    HANG = auto()


END, RESET, HANG = Finish.END, Finish.RESET, Finish.HANG
type Step = bytes | Take | Finish


class CheckedServer(Server):
    """`seen`: what each connection sent, oldest first, once its script is over. Guarded by
    `_seen_lock`.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = tuple(steps)
        self._seen_lock = threading.Lock()
        self._seen: list[bytes] = []
        super().__init__(self._talk)

    def seen_often(self, times: int) -> bool:
        """Whether so many scripts are over."""
        with self._seen_lock:
            return len(self._seen) >= times

    def set_steps(self, steps: Sequence[Step]) -> None:
        """Another script for the connections from now on."""
        self._steps = tuple(steps)

    @property
    def seen(self) -> list[bytes]:
        with self._seen_lock:
            return list(self._seen)

    def _talk(self, wire: Wire) -> None:
        got = b""
        try:
            for step in self._steps:
                match step:
                    case Take(0):
                        got += wire.read_until(b"\r\n\r\n")
                    case Take(count):
                        got += wire.read_exactly(count)
                    case bytes():
                        wire.send(step)
                    case Finish.END:
                        return
                    case Finish.RESET:
                        wire.reset()
                        return
                    case Finish.HANG:
                        break
            wire.read_to_end()
        except PeerClosed as closed:
            got += closed.got
            raise
        finally:
            with self._seen_lock:
                self._seen.append(got)
