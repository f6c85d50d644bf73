"""Variables of rules: `scope.name` (manual 2.8), as functions that read and write them.

`reader` and `writer` look at the scope once, when a thread sets up; at work there is one look-up in
one dictionary. A value keeps its type, for its class is its type. Scopes: proc (of the process, in
`RuleShared.proc_vars`; single operations on that dictionary are atomic), sess (of the client's
connection), txn, req and res (of the transaction; req until a server is looked for or an answer is
made, res from then on), check (of one health check: elsewhere such a variable is never set, as in
HAProxy). What is returned belongs to its thread.

Limits (`tune.vars.*-max-size`) count as HAProxy 2.6 does: 80 bytes for a variable, and the bytes of
text or binary data; a scope counts for the ones around it: res and req for txn, that for sess, that
for the process. Without limits nothing is counted. Of the process, the own session and what is kept
in the scope proc are counted, not what other sessions hold at the moment.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from mtproxy.rules.types import Binary, Value

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Evaluate
    from mtproxy.rules.view import View

#: sets a variable, or unsets it where the value is None; whether that could be done
type Write = Callable[[View, Value | None], bool]
#: the dictionary of a scope, made if it has to be; None where there is no such scope now
type _Store = Callable[[View], dict[str, Any] | None]

#: what `set-var(name,CONDITION...)` may ask for (manual 4.2)
CONDITIONS: Final = (
    "ifexists",
    "ifnotexists",
    "ifempty",
    "ifnotempty",
    "ifset",
    "ifnotset",
    "ifgt",
    "iflt",
)
_LIMITED: Final = ("global", "proc", "sess", "txn", "reqres")
#: bytes that one variable counts for, beside its data
OVERHEAD: Final = 80


def _split(name: str) -> tuple[str, str]:
    """Scope and name.

    All spellings of a name are one object: `get` of a dictionary that threads share takes 20 us in
    free-threaded CPython 3.13 where an equal key was made by another thread, and 0.05 us where it
    is the same.
    """
    scope, _, key = name.partition(".")
    return scope, sys.intern(key)


def reader(name: str, build: Build, default: bytes | None = None) -> Evaluate:
    """The function that gives the value of `name`, "txn.user", or None where it is not set.

    `default` is given instead, but not outside of the life of the scope.
    """
    scope, key = _split(name)
    match scope:
        case "proc":
            proc_vars = build.shared.proc_vars
            return lambda _view: proc_vars.get(key, default)
        case "sess":

            def read_sess(view: View) -> Value | None:
                kept = view.sess_vars
                return default if kept is None else kept.get(key, default)

            return read_sess
        case "txn":

            def read_txn(view: View) -> Value | None:
                kept = view.txn.txn_vars
                return default if kept is None else kept.get(key, default)

            return read_txn
        case "req":

            def read_req(view: View) -> Value | None:
                txn = view.txn
                kept = txn.req_vars
                if kept is None:
                    return None if txn.responding else default
                return kept.get(key, default)

            return read_req
        case "res":

            def read_res(view: View) -> Value | None:
                txn = view.txn
                kept = txn.res_vars
                if kept is None:
                    return default if txn.responding else None
                return kept.get(key, default)

            return read_res
    assert scope == "check", f"scope {scope}"

    def read_check(view: View) -> Value | None:
        kept = view.txn.check_vars
        return None if kept is None else kept.get(key, default)

    return read_check


def writer(name: str, build: Build, conditions: Collection[str] = ()) -> Write:
    """The function that sets `name`, "txn.user", to a value; None unsets it.

    `conditions` are some of CONDITIONS; where one does not hold nothing happens.
    """
    scope, key = _split(name)
    store = _store(scope, build)
    room = _room(scope, build)
    wanted = frozenset(conditions)
    if scope == "proc":
        # a variable of the process exists from the moment that a configuration names it
        if "ifnotexists" in wanted:
            return lambda _view, _value: False
        wanted -= {"ifexists"}

    def write(view: View, value: Value | None) -> bool:
        kept = store(view)
        if kept is None:
            return False
        if value is None:
            kept.pop(key, None)
            return True
        if wanted and not _allowed(kept, key, value, wanted):
            return False
        if room is not None:
            return _put_within(kept, key, value, room(view))
        kept[key] = value
        return True

    return write


def _store(scope: str, build: Build) -> _Store:
    match scope:
        case "proc":
            proc_vars = build.shared.proc_vars
            return lambda _view: proc_vars
        case "sess":

            def sess(view: View) -> dict[str, Any]:
                if view.sess_vars is None:
                    view.sess_vars = {}
                return view.sess_vars

            return sess
        case "txn":

            def txn(view: View) -> dict[str, Any]:
                owner = view.txn
                if owner.txn_vars is None:
                    owner.txn_vars = {}
                return owner.txn_vars

            return txn
        case "req":

            def req(view: View) -> dict[str, Any] | None:
                owner = view.txn
                if owner.req_vars is None and not owner.responding:
                    owner.req_vars = {}
                return owner.req_vars

            return req
        case "check":
            return lambda view: view.txn.check_vars

    def res(view: View) -> dict[str, Any] | None:
        owner = view.txn
        if owner.res_vars is None and owner.responding:
            owner.res_vars = {}
        return owner.res_vars

    return res


def _allowed(kept: dict[str, Any], key: str, value: Value, wanted: frozenset[str]) -> bool:
    """Whether all conditions hold, in HAProxy's order."""
    old = kept.get(key)
    if "ifnotexists" in wanted and old is not None:
        return False
    if old is None and ("ifexists" in wanted or "ifset" in wanted):
        return False
    if old is not None and "ifnotset" in wanted:
        return False
    if isinstance(value, bytes):
        return not (
            ("ifempty" in wanted and len(value)) or ("ifnotempty" in wanted and not len(value))
        )
    if "ifempty" in wanted:
        return False
    if type(value) is int and type(old) is int:
        return not (
            ("ifgt" in wanted and not old > value) or ("iflt" in wanted and not old < value)
        )
    return True


# --- limits


def _used(kept: dict[str, Any] | None) -> int:
    """Bytes that the variables of a scope count for."""
    if not kept:
        return 0
    return sum(OVERHEAD + _data(value) for value in list(kept.values()))


def _data(value: object) -> int:
    return len(value) if isinstance(value, (bytes, Binary)) else 0


def limited(tune: Mapping[str, object]) -> bool:
    """Whether anything limits the size of variables."""
    return any(tune.get(f"tune.vars.{scope}-max-size") for scope in _LIMITED)


def _room(scope: str, build: Build) -> Callable[[View], int] | None:
    """The bytes that are left for a scope; None where nothing limits it."""
    tune = build.shared.settings.global_.tune

    def limit(name: str) -> int:
        return int(tune.get(name, 0))

    both = (limit("tune.vars.global-max-size"), limit("tune.vars.proc-max-size"))
    process = min((one for one in both if one), default=0)
    sess = limit("tune.vars.sess-max-size") if scope not in ("proc", "check") else 0
    check = limit("tune.vars.check-max-size") if scope == "check" else 0
    txn = limit("tune.vars.txn-max-size") if scope in ("txn", "req", "res") else 0
    reqres = limit("tune.vars.reqres-max-size") if scope in ("req", "res") else 0
    if not (process or sess or txn or reqres or check):
        return None
    proc_vars = build.shared.proc_vars

    def room(view: View) -> int:
        owner = view.txn
        left: list[int] = []
        used = _used(owner.req_vars) + _used(owner.res_vars)
        if reqres:
            left.append(reqres - used)
        used += _used(owner.txn_vars) + _used(owner.check_vars)
        if check:
            left.append(check - used)
        if txn:
            left.append(txn - used)
        used += _used(view.sess_vars)
        if sess:
            left.append(sess - used)
        if process:
            left.append(process - used - _used(proc_vars))
        return min(left)

    return room


def _put_within(kept: dict[str, Any], key: str, value: Value, room: int) -> bool:
    """Set a variable that has `room` bytes; HAProxy keeps one whose data do not fit as a bool."""
    old = kept.get(key)
    if old is None:
        if room < OVERHEAD:
            return False
        room -= OVERHEAD
    else:
        room += _data(old)
    fits = _data(value) <= room
    kept[key] = value if fits else False
    return fits
