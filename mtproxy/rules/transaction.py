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

    The defaults stand in the class: most transactions use few of them, and making one costs next
    to nothing.
    """

    #: variables by name without scope
    txn_vars: dict[str, Any] | None = None
    req_vars: dict[str, Any] | None = None
    res_vars: dict[str, Any] | None = None
    #: of the scope check: None in a stream
    check_vars: dict[str, Any] | None = None
    #: variables of the scope res may be set, those of req not any more
    responding = False
    #: %rt, once it has been asked for
    serial = 0
    #: the head is the stream's own copy and differs from what was received
    own_req = False
    own_res = False
    #: the content of the request's body as far as it has been read, without chunk framing;
    #: None: the request has no body
    body: bytes | None = None
    body_complete = False
    #: the server's response as it came, and what has been read behind its head
    received_head: ResponseHead | None = None
    res_received = b""
    #: the stream's own account of the request's body (stream.request_body)
    pending: Any = None
    #: bytes of the request and of the response in `mode tcp`, as far as they have been read
    payload = b""
    res_payload = b""
    #: the head of a request that was found in `payload`
    sniffed: RequestHead | None = None
    #: nothing more will come in the direction being looked at, or nobody waits for it
    payload_final = True
    #: the rules that run now are those for responses (in `mode tcp`)
    looking_back = False
    #: the method before `set-method` changed it
    first_method: bytes | None = None
    #: `set-nice`, `set-priority-class`, `set-priority-offset` (ms)
    nice = 0
    priority_class = 0
    priority_offset = 0
    #: `disable-l7-retry`
    no_retry = False
    #: `set-log-level`: a syslog level, -1 for "silent", None: as configured
    log_level: int | None = None
    #: the last final rule, for last_rule_file and last_rule_line
    rule: Any = None
    #: the one before it
    rule_before: Any = None
    #: what single families keep, by family; None until one does
    extra: dict[str, Any] | None = None
    #: timeouts (ms) and retries of the backend that were set before it was chosen
    limits: dict[str, int] | None = None
    #: persistence cookie: the letters of the log for request and response, and its dates (s)
    cookie_state = "--"
    cookie_dates = (0, 0)
    #: the server was chosen by what the client brought, not by the algorithm
    direct = False
    #: ... though it is down (`option persist`, `force-persist`)
    sticks = False
    #: `ignore-persist`, `force-persist`
    ignore_persist = False
    force_persist = False
    #: bytes that rewriting rules have added to the heads
    req_added = 0
    res_added = 0
    #: `strict-mode off`: for which rule set of which proxy (see rules.rewrite)
    soft: tuple[Any, str] | None = None
    #: a 103 response that the next rule goes on with
    hints = b""
    #: a rule wants the client's connection to be closed behind the response
    close = False
    #: the server's status, where a rule has put another in its place
    served_status: int | None = None

    def begin_response(self) -> None:
        """The request has been dealt with: its variables are gone, those of the response begin."""
        self.req_vars = None
        self.responding = True

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
