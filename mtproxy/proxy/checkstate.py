"""The state of the checks of one server: its health check, its agent check.

A CheckState is part of a ServerState and guarded by its SERVER lock; other threads read single
attributes without it.
"""

from __future__ import annotations

from mtproxy.proxy.checkstatus import UNKNOWN, CheckStatus
from mtproxy.proxy.health import Health

_SPECIAL = frozenset('"<>')


class CheckState:
    """The health check or the agent check of a server."""

    __slots__ = (
        "code",
        "configured",
        "duration",
        "enabled",
        "health",
        "in_progress",
        "info",
        "is_agent",
        "paused",
        "result",
        "status",
    )

    def __init__(
        self,
        rise: int,
        fall: int,
        *,
        configured: bool,
        is_agent: bool = False,
        start: str = "up",
    ) -> None:
        self.health = Health(rise, fall, start if configured else "up")
        self.is_agent = is_agent
        #: the server has such a check
        self.configured = configured
        #: it is switched on (`enable health`, `disable agent` and their like)
        self.enabled = configured
        #: maintenance holds it; never an agent
        self.paused = False
        #: written by the thread that runs it
        self.in_progress = False
        self.status = CheckStatus.INI
        #: what the last status that said something means (proxy/checkstatus.py)
        self.result = UNKNOWN
        #: the number that came with the last result, where `status.has_code`
        self.code = 0
        #: why the last check failed ("Connection refused"), or what it found; or ""
        self.info = ""
        #: of the last check, in ms; -1 before the first, and where no check was made
        self.duration = -1

    @property
    def active(self) -> bool:
        """Checks are made now."""
        return self.enabled and not self.paused

    @property
    def down(self) -> bool:
        """Switched on, and what it found holds the server down."""
        return self.enabled and not self.health.up

    def state_bits(self) -> int:
        """As in the state file: 1 under way, 2 configured, 4 enabled, 8 paused, 16 an agent."""
        return (
            self.in_progress
            | self.configured << 1
            | self.enabled << 2
            | self.paused << 3
            | (self.is_agent and self.configured) << 4
        )

    def outcome(self) -> str:
        """The last result in the words of log lines: `, reason: ..., check duration: 3ms`."""
        text = f", reason: {self.status.description}"
        if self.status.has_code:
            text += f", code: {self.code}"
        if self.info:
            text += f', info: "{encoded(self.info)}"'
        if self.duration >= 0:
            text += f", check duration: {self.duration}ms"
        return text


def encoded(text: str) -> str:
    """Printable ASCII as it is, apart from quotes, < and >; any other byte as <XX>."""
    if text.isascii() and text.isprintable() and not _SPECIAL.intersection(text):
        return text
    return "".join(
        chr(byte) if 0x20 <= byte < 0x7F and chr(byte) not in _SPECIAL else f"<{byte:02X}>"
        for byte in text.encode("utf-8", "surrogateescape")
    )
