"""State of the process and its threads, and of the stream's task (manual 7.3.2).

Runs on the thread that owns the view.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from mtproxy.rules.points import Need
from mtproxy.rules.tables import Fetch
from mtproxy.rules.types import Type

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Evaluate
    from mtproxy.rules.view import View


def _thread(args: tuple[Any, ...], build: Build) -> Evaluate:
    number: int = 0 if build.ctx is None else build.ctx.tid
    return lambda _view: number


def _nbthread(_args: tuple[Any, ...], build: Build) -> Evaluate:
    number: int = 1 if build.ctx is None else build.ctx.pool.nbthread
    return lambda _view: number


def _pid(_args: tuple[Any, ...], _build: Build) -> Evaluate:
    number = os.getpid()
    return lambda _view: number


def _stopping(view: View) -> bool:
    return bool(view.ctx.pool.leaving)


# --- the task


def _is_htx(view: View) -> bool:
    """Whether the stream speaks HTTP, which HAProxy has in a form of its own then."""
    return bool(view.room.mode == "http")


def _cpu_calls(view: View) -> int:
    """How often the stream has run, since its connection came."""
    return int(view.task.calls)


def _no_time(_view: View) -> int:
    """HAProxy has these times while it profiles its tasks, 0 otherwise."""
    return 0


# --- rules


def _last_rule_file(view: View) -> bytes | None:
    rule = view.txn.rule
    return None if rule is None else str(rule.rule.location.file).encode("utf-8", "surrogateescape")


def _last_rule_line(view: View) -> int | None:
    rule = view.txn.rule
    return None if rule is None else int(rule.rule.location.line)


def _priority_class(view: View) -> int:
    return view.txn.priority_class


def _priority_offset(view: View) -> int:
    return view.txn.priority_offset


_RUNNING: Final = Need.RUNNING

FETCHES: tuple[Fetch, ...] = (
    Fetch("thread", Type.SINT, make=_thread),
    Fetch("nbthread", Type.SINT, make=_nbthread),
    Fetch("pid", Type.SINT, make=_pid),
    Fetch("stopping", Type.BOOL, _RUNNING, call=_stopping),
    Fetch("internal.strm.is_htx", Type.BOOL, _RUNNING, call=_is_htx),
    Fetch("cpu_calls", Type.SINT, _RUNNING, call=_cpu_calls),
    *(
        Fetch(name, Type.SINT, _RUNNING, call=_no_time)
        for name in ("cpu_ns_avg", "cpu_ns_tot", "lat_ns_avg", "lat_ns_tot")
    ),
    Fetch("last_rule_file", Type.STR, _RUNNING, call=_last_rule_file),
    Fetch("last_rule_line", Type.SINT, _RUNNING, call=_last_rule_line),
    Fetch("prio_class", Type.SINT, _RUNNING, call=_priority_class),
    Fetch("prio_offset", Type.SINT, _RUNNING, call=_priority_offset),
    *(
        Fetch(f"internal.{name}", Type.ANY, _RUNNING, later="the HTX messages of HAProxy")
        for name in (
            "htx.data", "htx.free", "htx.free_data", "htx.has_eom", "htx.nbblks", "htx.size",
            "htx.used", "htx_blk.data", "htx_blk.hdrname", "htx_blk.hdrval", "htx_blk.size",
            "htx_blk.start_line", "htx_blk.type",
        )
    ),
)  # fmt: skip
