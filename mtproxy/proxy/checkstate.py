"""What the checks of one server have found: results, and the state of its health and agent check.

A CheckState is part of a ServerState and guarded by its SERVER lock; other threads read single
attributes without it.
"""

from __future__ import annotations

from enum import Enum, IntEnum

from mtproxy.proxy.health import Health


_SPECIAL = frozenset('"<>')


class CheckResult(IntEnum):
    """What a status says about the server; the numbers are those of the state file."""

    UNKNOWN = 0
    #: nothing new
    NEUTRAL = 1
    FAILED = 2
    PASSED = 3
    #: passed, but the server wants no new sessions (`http-check disable-on-404`)
    CONDPASS = 4


class CheckStatus(Enum):
    """Outcome of a check: its number in the state file, what it says about the server, and code and
    description as `show stat` prints them. The order is HAProxy's.
    """

    UNK = (0, CheckResult.UNKNOWN, "UNK", "Unknown")
    INI = (1, CheckResult.UNKNOWN, "INI", "Initializing")
    CHECKED = (3, CheckResult.NEUTRAL, "CHECKED", "No status change")
    HANA = (4, CheckResult.FAILED, "HANA", "Health analyze")
    SOCKERR = (5, CheckResult.FAILED, "SOCKERR", "Socket error")
    L4OK = (6, CheckResult.PASSED, "L4OK", "Layer4 check passed")
    L4TOUT = (7, CheckResult.FAILED, "L4TOUT", "Layer4 timeout")
    L4CON = (8, CheckResult.FAILED, "L4CON", "Layer4 connection problem")
    L6OK = (9, CheckResult.PASSED, "L6OK", "Layer6 check passed")
    L6TOUT = (10, CheckResult.FAILED, "L6TOUT", "Layer6 timeout")
    L6RSP = (11, CheckResult.FAILED, "L6RSP", "Layer6 invalid response")
    L7TOUT = (12, CheckResult.FAILED, "L7TOUT", "Layer7 timeout")
    L7RSP = (13, CheckResult.FAILED, "L7RSP", "Layer7 invalid response")
    L7OK = (15, CheckResult.PASSED, "L7OK", "Layer7 check passed")
    L7OKC = (16, CheckResult.CONDPASS, "L7OKC", "Layer7 check conditionally passed")
    L7STS = (17, CheckResult.FAILED, "L7STS", "Layer7 wrong status")
    PROCERR = (18, CheckResult.FAILED, "PROCERR", "External check error")
    PROCTOUT = (19, CheckResult.FAILED, "PROCTOUT", "External check timeout")
    PROCOK = (20, CheckResult.PASSED, "PROCOK", "External check passed")

    def __init__(self, number: int, result: CheckResult, code: str, description: str) -> None:
        self.number = number
        self.result = result
        self.code = code
        self.description = description

    @property
    def passed(self) -> bool:
        return self.result in (CheckResult.PASSED, CheckResult.CONDPASS)

    @property
    def finished(self) -> bool:
        """Whether a check ended with it."""
        return self.number >= CheckStatus.CHECKED.number

    @property
    def has_code(self) -> bool:
        """Whether a number came with it: a status of HTTP, an exit status."""
        return self.number >= CheckStatus.L7OK.number


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

    def __init__(self, rise: int, fall: int, *, configured: bool, is_agent: bool = False) -> None:
        self.health = Health(rise, fall)
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
        self.result = CheckResult.UNKNOWN
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
