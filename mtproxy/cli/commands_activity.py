"""`show activity`: what the loops of the threads have done. Exports COMMANDS.

HAProxy's layout: `name: total [ one figure per thread ]`, and its names and order for what is the
same; then what only this proxy counts. Counters of other threads are read while those run, each by
a single load.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mtproxy.cli.runtime import Answer, CliError, CliSession, Command, Level
from mtproxy.sched.activity import FIELDS

if TYPE_CHECKING:
    from mtproxy.sched.context import ThreadContext

type Figure = Callable[[Sequence[ThreadContext]], int | float]


def _sum(name: str) -> Figure:
    return lambda contexts: sum(getattr(ctx.activity, name) for ctx in contexts)


def _tasklets_per_loop(contexts: Sequence[ThreadContext]) -> float:
    loops = sum(ctx.activity.loops for ctx in contexts)
    return round(sum(ctx.activity.ctxsw for ctx in contexts) / max(1, loops), 2)


def _avg_loop_us(contexts: Sequence[ThreadContext]) -> int:
    return sum(ctx.loop_ns for ctx in contexts) // len(contexts) // 1000


def _cpu_ms(contexts: Sequence[ThreadContext]) -> int:
    return sum(ctx.cpu_ns for ctx in contexts) // 1_000_000


def _conns(contexts: Sequence[ThreadContext]) -> int:
    return sum(ctx.shared.conns for ctx in contexts)


_HAPROXY_ORDER = (
    "ctxsw",
    "tasksw",
    "empty_rq",
    "long_rq",
    "loops",
    "wake_tasks",
    "wake_signal",
    "poll_io",
    "poll_exp",
    "poll_drop_fd",
    "avg_loop_us",
    "accepted",
    "accq_pushed",
)
_COMPUTED: dict[str, Figure] = {
    "avg_loop_us": _avg_loop_us,
    "tasklets_per_loop": _tasklets_per_loop,
    "cpu_ms": _cpu_ms,
    "conns": _conns,
}
#: name -> the figure of some threads together, in the order of the answer
FIGURES: dict[str, Figure] = {
    name: _COMPUTED.get(name) or _sum(name)
    for name in dict.fromkeys((*_HAPROXY_ORDER, "tasklets_per_loop", *FIELDS, *_COMPUTED))
}


def _show_activity(cli: CliSession, args: list[str]) -> Answer:
    """Totals, then one figure per thread between brackets where there are several."""
    contexts = cli.runtime.pool.contexts
    wanted = _wanted_thread(args, len(contexts))
    if wanted:
        contexts = [contexts[wanted - 1]]
    lines = [
        f"thread_id: {cli.ctx.tid + 1} (1..{len(cli.runtime.pool.contexts)})\n",
        f"date_now: {time.time():.6f}\n",
    ]
    for name, figure in FIGURES.items():
        each = ""
        if wanted is None and len(contexts) > 1:
            each = f" [ {' '.join(str(figure([ctx])) for ctx in contexts)} ]"
        lines.append(f"{name}: {figure(contexts)}{each}\n")
    return lines


def _wanted_thread(args: list[str], nbthread: int) -> int | None:
    """`show activity [-1|0|N]`: -1 all, 0 totals only, N that thread."""
    if not args or args[0] == "-1":
        return None
    if args[0].isascii() and args[0].isdigit() and len(args[0]) < 4:
        number = int(args[0])
        if number <= nbthread:
            return number
    raise CliError(f"Expected: show activity [-1|0|1..{nbthread}]")


COMMANDS: tuple[Command, ...] = (
    Command(
        ("show", "activity"),
        "show activity [-1|0|<thread>]",
        "what the loops of the threads have done",
        Level.USER,
        _show_activity,
    ),
)
