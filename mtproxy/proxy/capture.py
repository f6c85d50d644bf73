"""The last message of each kind that a proxy refused, for `show errors`.

Every thread keeps its own on its side of the frontend or backend, replaced as a whole; reports of
any thread read them. Nothing here runs for a message that is good.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mtproxy.base.server_settings import ServerSettings
    from mtproxy.base.settings import ProxySettings

#: numbers the captures of the process; next() on it is atomic
_event = itertools.count()

#: header fields that a reason without a position speaks of
_NAMED = re.compile(r"Content-Length|Transfer-Encoding|Host")


@dataclass(frozen=True, slots=True)
class BadCapture:
    """A refused request (`backend` is None) or response.

    `at_ms`: milliseconds since the epoch. `data`: what was read of the message, from its beginning.
    `position`: offset in it of what is wrong.
    """

    at_ms: int
    frontend: ProxySettings
    backend: ProxySettings | None
    server: ServerSettings | None
    source: str
    data: bytes
    position: int
    reason: str
    bufsize: int
    event: int = field(default_factory=_event.__next__)


def locate(data: bytes, position: int, reason: str) -> int:
    """`position` if it is known (not -1); else the last header line that `reason` names, or the end
    of what was read.
    """
    if 0 <= position <= len(data):
        return position
    named = _NAMED.search(reason)
    if named is not None:
        at = data.lower().rfind(b"\n" + named[0].lower().encode() + b":")
        if at >= 0:
            return at + 1
    return len(data)
