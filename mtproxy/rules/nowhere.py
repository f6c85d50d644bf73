"""Rules outside of any stream: global `set-var`, and `set var` of the runtime socket.

`Nowhere` stands for the stream: a view and a record in which there is nothing, as HAProxy shows it.
`set_variables` runs on the main thread before the others start; `assign` on any thread.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

from mtproxy.base.ruleset import Assignment
from mtproxy.base.settings import ProxySettings
from mtproxy.rules.actions.variables import build_assignment
from mtproxy.rules.build import Build, RuleShared
from mtproxy.rules.transaction import Transaction

if TYPE_CHECKING:
    from mtproxy.rules.view import View


class Nowhere:
    """A view without a stream. What is not said here is not there: None."""

    frontend = "CFG"
    backend = "CFG"
    server = "<NOSRV>"
    client_ip = dst_ip = ""
    client_port = 0
    dst_port = 0
    backend_src_port = 0
    server_port = 0
    status = 0
    term_state = "PR--"
    redispatched = False
    may_change = False
    captured_request_headers = ()
    captured_response_headers = ()

    def __init__(self, name: str) -> None:
        self.frontend = self.backend = name
        self.txn = Transaction()
        self.sess_vars: dict[str, Any] | None = None
        self.accept_ms = int(time.time() * 1000)
        self.t_h = self.t_i = self.t_a = self.t_t = 0
        self.t_R = self.t_q = self.t_w = self.t_c = self.t_r = -1
        self.bytes_read = self.bytes_uploaded = 0
        self.act_conn = self.fe_conn = self.be_conn = self.srv_conn = 0
        self.retries = self.srv_queue = self.backend_queue = self.request_count = 0
        self.room = self

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


def assign(assignment: Assignment, shared: RuleShared, name: str) -> None:
    """Set a variable of the process; `name` is how formats call the place."""
    proxy = ProxySettings(name=name, id=0, kind="listen")
    act = build_assignment(assignment, Build(shared, proxy, None, None))
    act(cast("View", Nowhere(name)))


def set_variables(shared: RuleShared) -> None:
    """Those of the global section, in their order."""
    for one in shared.settings.global_.variables:
        assign(one, shared, "CFG")
