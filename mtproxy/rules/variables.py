"""Variables of rules: `scope.name` (manual 2.8), as functions that read and write them.

`reader` and `writer` look at the scope once, when a thread sets up; at work there is one look-up in
one dictionary. A value keeps its type, for its class is its type. Scopes: proc (of the process, in
`RuleShared.proc_vars`; single operations on that dictionary are atomic), sess (of the client's
connection), txn, req and res (of the transaction). The scope check belongs to health checks:
elsewhere such a variable is never set, as in HAProxy. What they return belongs to its thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mtproxy.rules.types import Value

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Evaluate
    from mtproxy.rules.view import View

#: sets a variable, or unsets it where the value is None
type Write = Callable[[View, Value | None], None]


def reader(name: str, build: Build) -> Evaluate:
    """The function that gives the value of `name`, "txn.user", or None where it is not set."""
    scope, _, key = name.partition(".")
    match scope:
        case "proc":
            proc_vars = build.shared.proc_vars
            return lambda _view: proc_vars.get(key)
        case "sess":

            def read_sess(view: View) -> Value | None:
                kept = view.sess_vars
                return None if kept is None else kept.get(key)

            return read_sess
        case "txn":

            def read_txn(view: View) -> Value | None:
                kept = view.txn.txn_vars
                return None if kept is None else kept.get(key)

            return read_txn
        case "req":

            def read_req(view: View) -> Value | None:
                kept = view.txn.req_vars
                return None if kept is None else kept.get(key)

            return read_req
        case "res":

            def read_res(view: View) -> Value | None:
                kept = view.txn.res_vars
                return None if kept is None else kept.get(key)

            return read_res
    assert scope == "check", f"scope {scope}"
    return lambda _view: None


def writer(name: str, build: Build) -> Write:
    """The function that sets `name`, "txn.user", to a value; None unsets it."""
    scope, _, key = name.partition(".")
    match scope:
        case "proc":
            proc_vars = build.shared.proc_vars
            return lambda _view, value: _put(proc_vars, key, value)
        case "sess":

            def write_sess(view: View, value: Value | None) -> None:
                if view.sess_vars is None:
                    view.sess_vars = {}
                _put(view.sess_vars, key, value)

            return write_sess
        case "txn":

            def write_txn(view: View, value: Value | None) -> None:
                txn = view.txn
                if txn.txn_vars is None:
                    txn.txn_vars = {}
                _put(txn.txn_vars, key, value)

            return write_txn
        case "req":

            def write_req(view: View, value: Value | None) -> None:
                txn = view.txn
                if txn.req_vars is None:
                    txn.req_vars = {}
                _put(txn.req_vars, key, value)

            return write_req
        case "res":

            def write_res(view: View, value: Value | None) -> None:
                txn = view.txn
                if txn.res_vars is None:
                    txn.res_vars = {}
                _put(txn.res_vars, key, value)

            return write_res
    assert scope == "check", f"scope {scope}"
    return lambda _view, _value: None


def _put(kept: dict[str, Any], key: str, value: Value | None) -> None:
    if value is None:
        kept.pop(key, None)
    else:
        kept[key] = value
