"""Everything that rules know and change of one transaction. Made only where there are rules.

Owned by the stream's thread. Parts that few configurations use are None until they are needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mtproxy.http.h1_request import RequestHead
    from mtproxy.http.h1_response import ResponseHead
    from mtproxy.rules.view import View


class Transaction:
    """State of one transaction beside the messages themselves.

    `txn_vars`, `req_vars`, `res_vars`: variables by name without scope. `own_req`, `own_res`:
    whether the head is the stream's own copy and differs from what was received.
    """

    __slots__ = (
        "body",
        "body_complete",
        "captures",
        "extra",
        "log_level",
        "own_req",
        "own_res",
        "payload",
        "payload_final",
        "pending",
        "req_vars",
        "res_body",
        "res_body_complete",
        "res_captures",
        "res_payload",
        "res_received",
        "res_vars",
        "rule",
        "sniffed",
        "txn_vars",
    )

    def __init__(self) -> None:
        self.txn_vars: dict[str, Any] | None = None
        self.req_vars: dict[str, Any] | None = None
        self.res_vars: dict[str, Any] | None = None
        self.own_req = False
        self.own_res = False
        #: the content of the request's body as far as it has been read, without chunk framing;
        #: None: the request has no body
        self.body: bytes | None = None
        self.body_complete = False
        #: the same of the response, with what has been read behind its head as it came
        self.res_body: bytes | None = None
        self.res_body_complete = False
        self.res_received = b""
        #: the stream's own account of the request's body (stream.request_body)
        self.pending: Any = None
        #: bytes of the request and of the response in `mode tcp`, as far as they have been read
        self.payload = b""
        self.res_payload = b""
        #: the head of a request that was found in `payload`
        self.sniffed: RequestHead | None = None
        #: nothing more will come in the direction being looked at
        self.payload_final = False
        #: captured values by slot
        self.captures: list[bytes | None] | None = None
        self.res_captures: list[bytes | None] | None = None
        #: `set-log-level`: a syslog level, -1 for "silent", None: as configured
        self.log_level: int | None = None
        #: the last final rule, for last_rule_file and last_rule_line
        self.rule: Any = None
        #: what single families keep, by family; None until one does
        self.extra: dict[str, Any] | None = None

    def own_request(self, view: View) -> RequestHead:
        """The request's head as this stream's own, to be changed. There must be one."""
        head = view.request
        assert head is not None
        if not self.own_req:
            self.own_req = True
            view.request = head = head.copy()
        return head

    def own_response(self, view: View) -> ResponseHead:
        """The response's head as this stream's own, to be changed. There must be one."""
        head = view.response
        assert head is not None
        if not self.own_res:
            self.own_res = True
            view.response = head = head.copy()
        return head
