"""The one error that the HTTP/1 readers raise for input that must not be used or forwarded.

Raised on the thread that reads the message; carries no reference to the buffer it speaks of.
"""

from __future__ import annotations


class BadMessage(Exception):
    """A message that is refused.

    `status` is the code to answer a client with (a bad response is answered with 502 whatever it
    says); `reason` says in a few words what was wrong; `position` is the offset, in the bytes
    given to the reader, of the element that is wrong (-1: unknown).
    """

    def __init__(self, status: int, reason: str, position: int = -1) -> None:
        super().__init__(status, reason, position)
        self.status = status
        self.reason = reason
        self.position = position

    def __str__(self) -> str:
        where = f" at byte {self.position}" if self.position >= 0 else ""
        return f"{self.status}: {self.reason}{where}"
