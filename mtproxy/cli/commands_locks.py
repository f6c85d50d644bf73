"""Runtime commands about locks: their statistics and their profiling. Exports COMMANDS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.base.nearest import nearest
from mtproxy.cli.runtime import Answer, CliError, CliSession, Command, Level
from mtproxy.sync import bare, profile, reports, stats
from mtproxy.sync.labels import LABELS, LockLabel

if TYPE_CHECKING:
    from mtproxy.sched.context import ThreadContext

USAGE = "show locks [json|prometheus|top [n]|reset [<label>]|<label>]"
_WORDS = ("json", "prometheus", "top", "reset")


def _show_locks(cli: CliSession, args: list[str]) -> Answer:
    _need_statistics()
    match args:
        case ["reset", *rest]:
            cli.need(Level.OPERATOR)
            if len(rest) > 1:
                raise CliError("Expected: show locks reset [<label>]")
            label = _label(rest[0]) if rest else None
            stats.reset(label)
            profile.reset(label)
            return ""
        case ["json"]:
            return reports.render_json() + "\n"
        case ["prometheus"]:
            return reports.render_prometheus()
        case ["top"]:
            return reports.render_top()
        case ["top", number]:
            if not (number.isascii() and number.isdigit() and 0 < len(number) < 4 and int(number)):
                raise CliError("Expected: show locks top [n], n from 1 to 999")
            return reports.render_top(int(number))
        case []:
            return reports.blocks()
        case [word]:
            return reports.blocks(_label(word))
        case _:
            raise CliError(f"Expected: {USAGE}")


def _need_statistics() -> None:
    if bare.is_stripped():
        raise CliError(reports.BUILT_OUT.rstrip("\n"))


def _label(word: str) -> LockLabel:
    for label in LABELS:
        if label.name == word.upper():
            return label
    names = [label.name for label in LABELS]
    near = nearest(word, [*_WORDS, *(name.lower() for name in names)])
    hint = ""
    if near:
        hint = f" Did you mean '{near if near in _WORDS else near.upper()}'?"
    raise CliError(f"No such lock label '{word}'.{hint} There are {', '.join(names)}.")


def _set_profiling_locks(cli: CliSession, args: list[str]) -> Answer:
    if args not in (["on"], ["off"]):
        raise CliError("Expected: set profiling locks { on | off }")
    try:
        changed = profile.switch_on() if args == ["on"] else profile.switch_off()
    except profile.ProfilingUnavailable as error:
        raise CliError(f"Lock profiling cannot be switched on: {error}.") from None
    if changed:
        for ctx in cli.runtime.pool.contexts:
            cli.runtime.pool.run_on(ctx.tid, _rebind)
    return ""


def _rebind(ctx: ThreadContext) -> None:
    """On every thread: what keeps methods of locks for speed gets the new ones."""
    for backend in ctx.room.backends.values():
        backend.rebind()


COMMANDS: tuple[Command, ...] = (
    Command(("show", "locks"), USAGE, "waiting for locks, and how long", Level.USER, _show_locks),
    Command(
        ("set", "profiling", "locks"),
        "set profiling locks { on | off }",
        "time holds of locks and note their call sites",
        Level.ADMIN,
        _set_profiling_locks,
    ),
)
