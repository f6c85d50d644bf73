"""What an action tells the stream that runs its rule set. None means: go on with the next rule.

Immutable, made at load where possible, compared by identity or class. Any thread.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mtproxy.rules.reply import Reply
    from mtproxy.rules.view import View


class Verdict:
    """Base of all verdicts."""

    __slots__ = ()


class _Accept(Verdict):
    """`allow`, `accept`: the rest of this rule set is skipped."""

    __slots__ = ()


class _Close(Verdict):
    """`reject`: the connection is closed without a word; "PR"."""

    __slots__ = ()


class _Drop(Verdict):
    """`silent-drop`: the connection vanishes without the client being told."""

    __slots__ = ()


class _CloseServer(Verdict):
    """`close`: the server's connection ends; what it has sent still goes to the client."""

    __slots__ = ()


class _Missing(Verdict):
    """The rule cannot be applied for want of bytes: its set runs again when there are more.

    Only content rules of `mode tcp` may give it, and not once `txn.payload_final` is set.
    """

    __slots__ = ()


class _Switch(Verdict):
    """`switch-mode http`: what the client has sent and will send is HTTP."""

    __slots__ = ()


ACCEPT: Final = _Accept()
CLOSE: Final = _Close()
DROP: Final = _Drop()
CLOSE_SERVER: Final = _CloseServer()
MISSING: Final = _Missing()
SWITCH: Final = _Switch()


class Answer(Verdict):
    """The client is answered here and no server is asked.

    `reply` makes the message. `denied` says that it was refused by a rule (counted as such, "PR")
    rather than served (redirect, return, auth: "LR"). `delayed`: the tarpit, `timeout tarpit`
    passes before the answer ("PT"). `error`: a rule could not do its work (an internal error, "PR"
    or "PH"). `bad`: the message was not fit for it (counted as a failed request, "PR").
    """

    __slots__ = ("bad", "delayed", "denied", "error", "reply")

    def __init__(
        self,
        reply: Reply,
        *,
        denied: bool = False,
        delayed: bool = False,
        error: bool = False,
        bad: bool = False,
    ) -> None:
        self.reply = reply
        self.denied = denied
        self.delayed = delayed
        self.error = error
        self.bad = bad


class Wait(Verdict):
    """The rule set goes on when `run` has ended, with its verdict if it gives one."""

    __slots__ = ("run",)

    def __init__(self, run: Callable[[View], Awaitable[Verdict | None]]) -> None:
        self.run = run
