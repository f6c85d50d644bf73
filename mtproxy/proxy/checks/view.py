"""What expressions see of a health check: its server, what came back, variables of scope check.

Made only for checks whose scripts evaluate anything. Owned by the check, on the thread that runs
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mtproxy.rules.nowhere import Nowhere

if TYPE_CHECKING:
    from mtproxy.proxy.checks.http import Answer
    from mtproxy.proxy.server import ServerState
    from mtproxy.sched.context import ThreadContext

#: how formats call the frontend of checks, which there is none of
FRONTEND = "CHECKS-FE"


class CheckHead:
    """The head of an answer, as fetches look at it (`http.fields.Head`)."""

    __slots__ = ("content_length", "headers", "index", "reason", "status", "version")

    def __init__(self, answer: Answer) -> None:
        self.status = answer.status
        self.reason = answer.reason
        self.version = 11 if answer.version == b"1.1" else 10
        self.headers = [(name, value, b"", 0) for name, value in answer.headers]
        self.index: dict[bytes, list[Any]] | None = None
        self.content_length = -1


class CheckView(Nowhere):
    """A view of one run of a check. `answer`: of HTTP, once its head is there."""

    def __init__(self, ctx: ThreadContext, server: ServerState) -> None:
        super().__init__(FRONTEND)
        self.ctx = ctx
        self.backend = server.backend.name
        self.server = server.name
        self.answer: Answer | None = None
        self.response: CheckHead | None = None
        self.logged = False
        self.txn.check_vars = {}
        self.txn.looking_back = True
        self.txn.responding = True

    def received(self, data: bytes) -> None:
        """What came back so far, where no protocol makes more of it."""
        self.txn.res_payload = data

    def answered(self, answer: Answer) -> None:
        """There is an answer of HTTP."""
        self.answer = answer
        self.response = CheckHead(answer)

    def forget(self) -> None:
        """The answer is none any more: something else is asked."""
        self.answer = self.response = None
        self.txn.res_payload = b""

    def response_body(self) -> bytes:
        return b"" if self.answer is None else bytes(self.answer.body)
