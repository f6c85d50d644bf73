"""What is said when this machine has no address or port for a connection to a server.

In HAProxy's words, in the backend's logs and on standard error; each attempt says it. On the thread
that wanted to connect, with no lock held.
"""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING, Final

from mtproxy.net.source import SourceError

if TYPE_CHECKING:
    from mtproxy.proxy.backend import BackendShared
    from mtproxy.sched.context import ThreadContext

#: syslog severities
_EMERG, _ERR = 0, 3
#: what connect() says where no port is left for this destination, or the one to be used is not free
_TAKEN: Final = {
    errno.EAGAIN: "no free ports",
    errno.EADDRNOTAVAIL: "no free ports",
    errno.EADDRINUSE: "local address already in use",
}
_FULL = "can't connect to destination unix socket, check backlog size on the server"
_REASONS: Final = {
    errno.EAGAIN: "Out of local source ports on the system",
    errno.EADDRNOTAVAIL: "Out of local source ports on the system",
    errno.EADDRINUSE: "Local source address already in use",
}


def is_trouble(error: OSError) -> bool:
    """Whether it is about our end of the connection; another attempt may have more luck at once."""
    return isinstance(error, SourceError) or error.errno in _TAKEN


def note_trouble(backend: BackendShared, ctx: ThreadContext, error: OSError, family: int) -> None:
    """Say that a connection to `family` could not be begun, if it is about our end of it."""
    if isinstance(error, SourceError):
        kind = "tproxy source" if error.foreign else "source"
        text = f"Cannot bind to {kind} address before connect() for backend {backend.name}."
        backend.notify(ctx, _EMERG, text)
    elif (number := error.errno) in _TAKEN:
        assert number is not None
        local = family == socket.AF_UNIX and number != errno.EADDRINUSE
        reason = _FULL if local else _TAKEN[number]
        backend.notify(ctx, _ERR, f"Connect() failed for backend {backend.name}: {reason}.")


def reason_of(error: OSError) -> str:
    """What checks call it; "" if it is about anything else."""
    if isinstance(error, SourceError):
        return error.reason
    return _REASONS.get(error.errno or 0, "")
