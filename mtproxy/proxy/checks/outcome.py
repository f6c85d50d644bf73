"""How a check ended, and in which words: as HAProxy says it, word for word (verified against 2.6).

Pure.
"""

from __future__ import annotations

import errno
import os
import socket
from typing import Final, NamedTuple

from mtproxy.base.checkscript import ConnectStep, ExpectStep, Pattern, Step
from mtproxy.net.source import EXHAUSTED
from mtproxy.proxy.checkstatus import CheckStatus
from mtproxy.proxy.sourcing import reason_of

#: bytes that are kept of what a check tells
INFO_MAX: Final = 127

#: errors of this process, not of the server or the way to it
NO_RESOURCES: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ENOSPC}
)


class Outcome(NamedTuple):
    """`info` says more; `code` is what the application answered."""

    status: CheckStatus
    info: str = ""
    code: int = 0


def text_of(data: bytes) -> str:
    """What a check tells, as it is kept: up to a NUL, and not more than INFO_MAX bytes."""
    return data.partition(b"\0")[0][:INFO_MAX].decode("utf-8", "surrogateescape")


def number_of(step: Step) -> int:
    """How messages number a step: from 1, and 0 is the connection that nobody wrote."""
    if isinstance(step, ConnectStep) and step.implicit:
        return 0
    return step.index + 1


_EXPECTED: Final = {
    Pattern.STRING: "expect string '%s'",
    Pattern.REGEX: "expect regex",
    Pattern.BINARY: "expect binary '%s'",
    Pattern.BINARY_REGEX: "expect binary regex",
    Pattern.FORMAT: "expect log-format string",
    Pattern.BINARY_FORMAT: "expect log-format binary",
    Pattern.CUSTOM: "expect custom function",
}


def place_of(step: Step) -> bytes:
    """Where a `tcp-check` was when its connection failed or its time was over."""
    number = number_of(step)
    if not number:
        return b" at initial connection step of tcp-check"
    text = b" at step %d of tcp-check" % number
    if isinstance(step, ConnectStep):
        text += b" (connect port %d)" % step.port if step.port else b" (connect)"
    elif isinstance(step, ExpectStep):
        text += b" (" + _EXPECTED[step.pattern].encode()
        if isinstance(step.data, bytes):
            text = text.replace(b"%s", step.data)
        text += b")"
    else:
        text += b" (send)"
    if step.comment:
        text += b" comment: '" + os.fsencode(step.comment) + b"'"
    return text


_UNMATCHED: Final = {
    Pattern.STRING: b" '%s' at step %d",
    Pattern.REGEX: b" (regex) at step %d",
    Pattern.BINARY: b" (binary) at step %d",
    Pattern.BINARY_REGEX: b" (binary regex) at step %d",
    Pattern.FORMAT: b" (log-format string) at step %d",
    Pattern.BINARY_FORMAT: b" (log-format binary) at step %d",
}


def mismatch_of(step: ExpectStep, *, matched: bool) -> bytes:
    """What a `tcp-check expect` that fails says of itself."""
    text = b"TCPCHK matched unwanted content" if matched else b"TCPCHK did not match content"
    rest = _UNMATCHED[step.pattern].replace(b"%d", b"%d" % number_of(step))
    if isinstance(step.data, bytes):
        rest = rest.replace(b"%s", step.data)
    return text + rest


def local_failure(error: OSError, family: int, place: str = "") -> Outcome:
    """The outcome of a check which the local kernel refused at once."""
    text = error.strerror or str(error)
    reason = reason_of(error)
    if reason:
        if reason != EXHAUSTED:
            reason += f" ({text})"
        return Outcome(CheckStatus.L4CON, reason + place)
    if error.errno == errno.ECONNREFUSED and family != socket.AF_UNIX:
        return Outcome(CheckStatus.L4CON, text + place)
    local = family == socket.AF_UNIX or error.errno in NO_RESOURCES
    status = CheckStatus.SOCKERR if local else CheckStatus.L4CON
    return Outcome(status, f"General socket error ({text}){place}")
