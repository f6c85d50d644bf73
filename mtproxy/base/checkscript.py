"""Health checks that say something, as data: a script of steps (manual 4.2, `tcp-check`,
`http-check`; 5.2).

`config/` makes one `CheckScript` per backend; every thread makes its own functions of it
(`proxy.checks.script`). All of it is immutable and shared by all threads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from mtproxy.base.ruleset import Expression, Format

if TYPE_CHECKING:
    from mtproxy.base.addresses import Address


class Pattern(StrEnum):
    """What an `expect` step looks at, and how."""

    STRING = "string"
    REGEX = "rstring"
    BINARY = "binary"
    #: a regular expression for the hexadecimal digits of what came
    BINARY_REGEX = "rbinary"
    FORMAT = "string-lf"
    #: a format that makes hexadecimal digits
    BINARY_FORMAT = "binary-lf"
    STATUS = "status"
    STATUS_REGEX = "rstatus"
    HEADER = "hdr"
    #: a function of `proxy.checks.protocols`, by name
    CUSTOM = "custom"


@dataclass(frozen=True, slots=True)
class Step:
    """`index` counts the steps as they were written, from 0; messages say one more."""

    index: int = 0
    comment: str = ""
    #: the rule as it was written, from its first word on; empty: nobody wrote it
    words: tuple[str, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ConnectStep(Step):
    """A new connection; the one before is closed.

    `implicit`: nobody wrote it. `default`: as the server's own settings say (PROXY header, SOCKS4).
    `port` 0: that of `port_expression`, of the address, of the check or of the server.
    """

    implicit: bool = False
    default: bool = False
    address: Address | None = None
    port: int = 0
    port_expression: Expression | None = None
    send_proxy: bool = False
    via_socks4: bool = False
    #: no reset at the end
    linger: bool = False


@dataclass(frozen=True, slots=True)
class SendStep(Step):
    """Bytes, or a format that makes them; `hexadecimal`: it makes their digits."""

    data: bytes | Format = b""
    hexadecimal: bool = False


@dataclass(frozen=True, slots=True)
class HttpSendStep(Step):
    """A request. Empty or None: as HAProxy has it without a word about it.

    `from_option`: of `option httpchk`, which `http-check send` may complete.
    """

    method: bytes = b""
    uri: bytes | Format = b""
    version: bytes = b""
    headers: tuple[tuple[bytes, Format], ...] = ()
    body: bytes | Format = b""
    from_option: bool = False
    #: the option that it was, or was merged with, as it was written
    option: tuple[str, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class HeaderPattern:
    """`hdr` and `fhdr`: methods are str, beg, end, sub or reg; value_method "": any value does.

    `full`: values are whole lines, not cut at commas.
    """

    name_method: str
    name: str | Format
    value_method: str = ""
    value: str | Format = ""
    full: bool = False


@dataclass(frozen=True, slots=True)
class ExpectStep(Step):
    """What has to come. Statuses are codes of `proxy.checkstatus`, "" where none was given.

    `data` belongs to the pattern: bytes (STRING, BINARY), a regular expression or the name of a
    function (str), a Format, ranges of codes, or a HeaderPattern. `min_recv` -1: a mismatch waits
    for more. `head`: the step of the script from which on is tried again when more came.
    """

    pattern: Pattern = Pattern.STRING
    data: bytes | str | Format | HeaderPattern | tuple[tuple[int, int], ...] = b""
    negated: bool = False
    min_recv: int = -1
    ok_status: str = ""
    error_status: str = ""
    timeout_status: str = ""
    on_success: Format | None = None
    on_error: Format | None = None
    status_code: Expression | None = None


@dataclass(frozen=True, slots=True)
class ActStep(Step):
    """An action of rules: set-var, set-var-fmt, unset-var."""

    action: str = ""
    args: object = None


@dataclass(frozen=True, slots=True)
class CommentStep(Step):
    """Only while the configuration is read: its text becomes the comment of what follows."""


@dataclass(frozen=True, slots=True)
class CheckScript:
    """The check of a backend's servers.

    `kind` is "tcp" (`option tcp-check`), "http", or the name of another protocol. The first step
    that is no action is a connect.
    """

    kind: str
    steps: tuple[Step, ...]
    #: a 404 of a server that is up: no new sessions
    disable_on_404: bool = False
    #: requests tell the server how it is seen here
    send_state: bool = False
    #: the option that chose it, as it was written
    option: tuple[str, ...] = field(default=(), compare=False)

    @property
    def connects_only(self) -> bool:
        """Whether it has no rules: a connection is all that there is to it."""
        first = self.steps[0]
        return len(self.steps) == 1 and isinstance(first, ConnectStep) and first.implicit
