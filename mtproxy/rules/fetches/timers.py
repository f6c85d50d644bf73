"""What log lines tell of a transaction, as samples (manual of HAProxy 3.0, 7.3 and 8.4).

HAProxy 2.6 has these values only as aliases of log formats ("%Tc"), whose meaning they share: times
in ms, -1 for what was never reached. Only known at the end, so for log lines alone; dates are
known before. Runs on the thread that owns the view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mtproxy.rules.fetches.constants import UNITS
from mtproxy.rules.logformat.code import data_time
from mtproxy.rules.points import Need
from mtproxy.rules.tables import ArgKind, Fetch, optional
from mtproxy.rules.types import Type

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Evaluate, Maker
    from mtproxy.rules.view import View


def _field(name: str) -> Evaluate:
    """A field of the log record, which the view is."""

    def field(view: View) -> int:
        return int(getattr(view, name))

    return field


def _data(view: View) -> int:
    record: Any = view
    return data_time(record)


def _user(view: View) -> int:
    record: Any = view
    return int(record.t_t - record.t_i)


def _redispatched(view: View) -> bool:
    record: Any = view
    return bool(record.redispatched)


def _term_state(view: View) -> bytes:
    record: Any = view
    return str(record.term_state).encode()


def _id32(view: View) -> int:
    record: Any = view
    return int(record.request_count & 0xFFFFFFFF)


def _check_unit(args: tuple[Any, ...]) -> str | None:
    unit = args[0]
    if not unit or unit in UNITS:
        return None
    return f"expects 's', 'ms' or 'us', got '{unit.decode('utf-8', 'replace')}'."


def _date(*, of_request: bool) -> Maker:
    """When the connection was accepted, or when the request began to come."""

    def make(args: tuple[Any, ...], _build: Build) -> Evaluate:
        factor = UNITS[args[0] or b"s"]

        def date(view: View) -> int:
            record: Any = view
            ms = record.accept_ms + (record.t_h + record.t_i if of_request else 0)
            return int(ms * factor // 1000)

        return date

    return make


_TIMERS: Final = {
    "bc.timer.connect": "t_c",
    "fc.timer.handshake": "t_h",
    "fc.timer.total": "t_t",
    "req.timer.hdr": "t_R",
    "req.timer.idle": "t_i",
    "req.timer.queue": "t_w",
    "req.timer.tq": "t_q",
    "res.timer.hdr": "t_r",
    "txn.timer.total": "t_a",
}
_UNIT: Final = optional(ArgKind.STR)

FETCHES: tuple[Fetch, ...] = (
    *(
        Fetch(name, Type.SINT, Need.FINAL, call=_field(field)) for name, field in _TIMERS.items()
    ),
    Fetch("res.timer.data", Type.SINT, Need.FINAL, call=_data),
    Fetch("txn.timer.user", Type.SINT, Need.FINAL, call=_user),
    Fetch("txn.conn_retries", Type.SINT, Need.FINAL, call=_field("retries")),
    Fetch("txn.redispatched", Type.BOOL, Need.FINAL, call=_redispatched),
    Fetch("txn.sess_term_state", Type.STR, Need.FINAL, call=_term_state),
    Fetch("txn.id32", Type.SINT, Need.TXN, call=_id32),
    Fetch(
        "accept_date", Type.SINT, Need.CLIENT, make=_date(of_request=False),
        args=_UNIT, check=_check_unit,
    ),
    Fetch(
        "request_date", Type.SINT, Need.TXN, make=_date(of_request=True),
        args=_UNIT, check=_check_unit,
    ),
)  # fmt: skip
