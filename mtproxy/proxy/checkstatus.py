"""Outcomes of health checks, as statistics and logs name them (manual 5.2; management 9.1).

Constants: any thread.
"""

from __future__ import annotations

from enum import Enum

#: what a status means for the server, as the state file numbers it
UNKNOWN, NEUTRAL, FAILED, PASSED, CONDITIONAL = range(5)


class CheckStatus(Enum):
    """One outcome: its code and its description, its number in `show servers state`, what it
    means for the server (`result`, a number there, too), and whether a code of the application's
    comes with it.
    """

    INI = ("INI", "Initializing", 1, UNKNOWN)
    #: a result that leaves everything as it is
    CHECKED = ("CHECKED", "No status change", 3, NEUTRAL)
    #: real traffic says so, see `observe`
    HANA = ("HANA", "Health analyze", 4, FAILED)
    SOCKERR = ("SOCKERR", "Socket error", 5, FAILED)
    L4OK = ("L4OK", "Layer4 check passed", 6, PASSED)
    L4TOUT = ("L4TOUT", "Layer4 timeout", 7, FAILED)
    L4CON = ("L4CON", "Layer4 connection problem", 8, FAILED)
    L6OK = ("L6OK", "Layer6 check passed", 9, PASSED)
    L6TOUT = ("L6TOUT", "Layer6 timeout", 10, FAILED)
    L6RSP = ("L6RSP", "Layer6 invalid response", 11, FAILED)
    L7TOUT = ("L7TOUT", "Layer7 timeout", 12, FAILED)
    L7RSP = ("L7RSP", "Layer7 invalid response", 13, FAILED)
    L7OK = ("L7OK", "Layer7 check passed", 15, PASSED)
    #: the server serves whom it knows and wants nobody else
    L7OKC = ("L7OKC", "Layer7 check conditionally passed", 16, CONDITIONAL)
    L7STS = ("L7STS", "Layer7 wrong status", 17, FAILED)
    PROCERR = ("PROCERR", "External check error", 18, FAILED)
    PROCTOUT = ("PROCTOUT", "External check timeout", 19, FAILED)
    PROCOK = ("PROCOK", "External check passed", 20, PASSED)

    code: str
    description: str
    number: int
    result: int
    #: it counts as a success
    passed: bool
    #: a success that asks for no new sessions
    conditional: bool
    #: a check ended with it
    finished: bool
    #: logs and statistics show the code that the application gave
    has_code: bool

    def __init__(self, code: str, description: str, number: int, result: int) -> None:
        self.code = code
        self.description = description
        self.number = number
        self.result = result
        # plain attributes: they are asked for at each check
        self.passed = result >= PASSED
        self.conditional = result == CONDITIONAL
        self.finished = result != UNKNOWN
        self.has_code = number > 14
