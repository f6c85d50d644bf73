"""What traffic says of a server (manual 5.2, `observe`): errors in a row count as a failed check.

An Observer is one server's, shared by all threads; `transitions.notice` tells it what was seen, on
the thread that served the request, with no lock held. The count of errors is written under the
SERVER lock, except that a good answer sets it to 0 by a single store: one error more or less does
not matter, as in HAProxy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from mtproxy.proxy.server import ServerState


class Event(NamedTuple):
    """One thing that was seen. For each layer: True is an error, False a success, None nothing."""

    text: str
    layer4: bool | None
    layer7: bool | None


L4_OK: Final = Event("L4 successful connection", False, None)
L4_ERR: Final = Event("L4 unsuccessful connection", True, True)
HTTP_OK: Final = Event("Correct http response", None, False)
HTTP_STS: Final = Event("Wrong http response", None, True)
HTTP_RSP: Final = Event("Invalid http response", None, True)
HTTP_READ_ERROR: Final = Event("Read error (http)", None, True)
HTTP_READ_TIMEOUT: Final = Event("Read timeout (http)", None, True)
HTTP_BROKEN_PIPE: Final = Event("Close from server (http)", None, True)


class Observer:
    """Counts the errors of one server in a row."""

    __slots__ = ("_layer7", "_limit", "errors", "server")

    def __init__(self, server: ServerState) -> None:
        states = server.settings.states
        self.server = server
        self._layer7 = states.observe == "layer7"
        self._limit = states.error_limit
        self.errors = 0

    def count(self, event: Event, tid: int) -> int:
        """Count what was seen; at `error-limit` returns how many errors there were, and begins
        anew; else 0.
        """
        failed = event.layer7 if self._layer7 else event.layer4
        if not failed:
            if failed is not None and self.errors:
                self.errors = 0
            return 0
        lock = self.server.lock
        lock.take(tid)
        self.errors += 1
        seen = self.errors
        if seen < self._limit:
            seen = 0
        else:
            self.errors = 0
        lock.drop(tid)
        return seen


def of_status(status: int) -> Event:
    """What a response says of its server. 501 and 505 are the client's doing."""
    return HTTP_OK if status < 500 or status in (501, 505) else HTTP_STS
