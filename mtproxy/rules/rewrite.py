"""What all actions that rewrite a head share: where it is, what fits it, and what if it does not.

A head and what has been received of its body share a buffer of `tune.bufsize` bytes, of which
`tune.maxrewrite` are kept free for rules. A rewrite that does not fit, or whose result cannot stand
in a line, fails: it is counted and the client gets a 500, unless `strict-mode off` came before it
in the rule set (manual 4.2, "http-request strict-mode"). Made on each thread; owner thread only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mtproxy.http.edit import fits_a_line, size
from mtproxy.http.h1_response import BODY_NONE
from mtproxy.rules.reply import ErrorReply
from mtproxy.rules.verdict import Answer

if TYPE_CHECKING:
    from mtproxy.http.h1_request import RequestHead
    from mtproxy.http.h1_response import ResponseHead
    from mtproxy.rules.build import Build
    from mtproxy.rules.verdict import Verdict
    from mtproxy.rules.view import View

DEFAULT_BUFSIZE: Final = 16384
DEFAULT_MAXREWRITE: Final = 1024
#: what a buffer spends on itself, on a start line without its words, and on the end of a head
_BUFFER: Final = 40
_START_AND_END: Final = 28 + 8 + 9
#: a body takes at least that
_BLOCK: Final = 8

#: an internal error: 500, or what the proxies have in its place
FAILED: Final = Answer(ErrorReply(500), error=True)
#: a request that a rule cannot work on
INVALID: Final = Answer(ErrorReply(400), bad=True)


class Rewriter:
    """The heads that the actions of one rule set of one proxy rewrite.

    `slack` is how many bytes can be added to any head whatever else the buffer holds.
    """

    __slots__ = ("build", "limit", "maxrewrite", "point", "request", "slack")

    def __init__(self, build: Build, point: str) -> None:
        self.build = build
        self.point = point
        self.request = point == "http-request"
        tune = build.shared.settings.global_.tune
        bufsize = int(tune.get("tune.bufsize", DEFAULT_BUFSIZE))
        self.limit = bufsize - _BUFFER
        self.maxrewrite = int(tune.get("tune.maxrewrite", DEFAULT_MAXREWRITE))
        self.slack = self.maxrewrite // 2

    def head(self, view: View) -> RequestHead | ResponseHead:
        """The stream's own head, to be changed."""
        return view.txn.own_request(view) if self.request else view.txn.own_response(view)

    def spend(self, view: View, count: int) -> bool:
        """Whether the head may grow by `count` bytes, which is about to happen.

        What rules have added is summed up, and compared with `slack`; only beyond that is the head
        measured, so what rules have deleted need not be.
        """
        txn = view.txn
        if self.request:
            txn.req_added = added = txn.req_added + count
        else:
            txn.res_added = added = txn.res_added + count
        return added <= self.slack or self._fits(view, count)

    def _fits(self, view: View, count: int) -> bool:
        """Whether the head fits the buffer beside its body when it has grown by `count`."""
        head: Any = view.request if self.request else view.response
        # `wire` and `start_line` are still those of the head as it came; in a line, 4 bytes more
        # than name and value
        lines = head.wire.count(b"\r\n") - 1
        came = len(head.wire) - 2 + 4 * lines + len(head.start_line) + _START_AND_END
        if self.request:
            start = len(head.method) + len(head.target) + len(b"  HTTP/1.1")
        else:
            start = len(head.reason) + len(b"HTTP/1.1 200 ")
        now = size(head.headers) + start + _START_AND_END
        filled = came
        length: int = head.content_length
        if head.chunked or length > 0 if self.request else head.body != BODY_NONE:
            reserved = max(self.limit - self.maxrewrite, came)
            filled = reserved if length < 0 else min(came + _BLOCK + length, reserved)
        return bool(filled - came + now + count <= self.limit)

    def fit(self, view: View, name: bytes, value: bytes) -> bool:
        """Whether a field can be added."""
        return fits_a_line(value) and self.spend(view, 8 + len(name) + len(value))

    def failed(self, view: View) -> Verdict | None:
        """A rewrite has failed."""
        for owner in (view.fe, view.be, view.srv, view.listener):
            counters = None if owner is None else owner.counters
            if counters is not None:
                counters.failed_rewrites += 1
        soft = view.txn.soft
        if soft is not None and soft[0] is self.build and soft[1] == self.point:
            return None
        return FAILED

    def internal(self, _view: View) -> Verdict:
        """Something else than a rewrite could not be done: `strict-mode` has no say."""
        return FAILED
