"""Runtime commands about sessions: show sess, shutdown session(s). Exports COMMANDS.

Each thread looks at its own streams, when it reads the message; the answer is what they found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from mtproxy.base.units import UnitError, parse_time
from mtproxy.cli import sessions
from mtproxy.cli.runtime import CliError, CliSession, Command, Level, Pause
from mtproxy.cli.servers import find_server
from mtproxy.stream.ending import KILLED, end, end_those_on, streams_of
from mtproxy.stream.listening import on_every_thread

if TYPE_CHECKING:
    from mtproxy.sched.context import ThreadContext
    from mtproxy.stream.stream import Stream


def _everywhere(cli: CliSession, work: Callable[[ThreadContext], None]) -> Pause:
    """A pause until every thread has done `work`."""
    pool, tid = cli.runtime.pool, cli.ctx.tid
    return Pause(lambda wake: on_every_thread(pool, work, wake, tid), any_input=False)


def _show(cli: CliSession, args: list[str]) -> Iterator[str | Pause]:
    wanted = args[0] if args else ""
    # 2.6 takes a word that is no number for none
    chosen = _pointer(wanted) or None
    if chosen == -1:
        # HAProxy's pointer that stands for all
        wanted, chosen = "all", None
    text = sessions.details if chosen or wanted == "all" else sessions.line
    found: list[list[str]] = [[] for _ in cli.runtime.pool.contexts]
    oldest = older_than(args)

    def collect(ctx: ThreadContext) -> None:
        found[ctx.tid] = [
            text(stream)
            for stream in streams_of(ctx)
            if chosen in (None, id(stream)) and ctx.now - stream.accept_tick >= oldest
        ]

    yield _everywhere(cli, collect)
    if not chosen and not oldest:
        yield sessions.own_details(cli) if wanted == "all" else sessions.own_line(cli)
    for lines in found:
        yield from lines
    if chosen is not None and not any(found):
        yield "Session not found.\n"


def older_than(args: list[str]) -> int:
    """`show sess older <age>`: the least age in ms, 0 where nothing is said."""
    if args[:1] != ["older"]:
        return 0
    try:
        return parse_time(args[1] if len(args) > 1 else "", "s")
    except UnitError:
        raise CliError("'older' expects an age, such as 30 (seconds) or 5m.") from None


def _pointer(text: str) -> int:
    """The number that stands for a session; 0: none."""
    try:
        return int(text, 0)
    except ValueError:
        return 0


def _shutdown_session(cli: CliSession, args: list[str]) -> Iterator[str | Pause]:
    wanted = _pointer(args[0]) if args else 0
    if not wanted:
        raise CliError("Session pointer expected (use 'show sess').")
    found: list[Stream] = []

    def look(ctx: ThreadContext) -> None:
        for stream in streams_of(ctx):
            if id(stream) == wanted:
                found.append(stream)
                end(stream, KILLED)

    yield _everywhere(cli, look)
    if not found:
        raise CliError("No such session (use 'show sess').")


def _shutdown_sessions(cli: CliSession, args: list[str]) -> Iterator[str | Pause]:
    yield _everywhere(cli, end_those_on(find_server(cli, args), KILLED))


COMMANDS: tuple[Command, ...] = (
    Command(
        ("show", "sess"),
        "show sess [<id>|all|older <age>]",
        "sessions in progress",
        Level.OPERATOR,
        _show,
    ),
    Command(
        ("shutdown", "session"),
        "shutdown session <id>",
        "end a session",
        Level.ADMIN,
        _shutdown_session,
    ),
    Command(
        ("shutdown", "sessions", "server"),
        "shutdown sessions server <bk>/<srv>",
        "end all sessions on a server",
        Level.ADMIN,
        _shutdown_sessions,
    ),
)
