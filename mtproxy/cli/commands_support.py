"""Runtime commands for those who support the program: libraries, pools, running tasks, the schema
of JSON answers, waiting. Exports COMMANDS.

Layouts are HAProxy 2.6's (`wait`: 3.0's). Other threads are looked at while they run, see
`commands_threads`.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mtproxy.base.units import UnitError, parse_time
from mtproxy.cli.json_schema import SCHEMA
from mtproxy.cli.runtime import INFO, Answer, CliError, CliSession, Command, Level, Pause
from mtproxy.cli.servers import find_server, removal_obstacle
from mtproxy.sched.tasklet import Task

if TYPE_CHECKING:
    from mtproxy.sched.context import ThreadContext

# --- show libs


def _show_libs(cli: CliSession, _args: list[str]) -> Answer:
    """Each loaded file with its range of addresses; the program first, then by address downwards,
    as HAProxy does.
    """
    try:
        maps = Path("/proc/self/maps").read_text(errors="surrogateescape")
    except OSError as error:  # another root directory has none
        return [f"Cannot read /proc/self/maps: {error.strerror}.\n"]
    spans: dict[str, tuple[int, int]] = {}
    for line in maps.splitlines():
        fields = line.split(None, 5)
        if len(fields) < 6 or not fields[5].startswith("/"):
            continue
        first, _, last = fields[0].partition("-")
        start, end = int(first, 16), int(last, 16)
        known = spans.get(fields[5], (start, end))
        spans[fields[5]] = min(known[0], start), max(known[1], end)
    program = str(Path(sys.executable).resolve())
    files = sorted(spans.items(), key=lambda one: (one[0] != program, -one[1][0]))
    lines = [
        f"{start:#014x}-{end:#014x} ({end - start:#09x}) {name}\n" for name, (start, end) in files
    ]
    return [cli.severity_prefix(INFO), *lines]


# --- show pools


def _show_pools(cli: CliSession, _args: list[str]) -> Answer:
    """What is kept for its next use. Memory itself belongs to Python's allocator."""
    contexts = cli.runtime.pool.contexts
    pipes = [len(ctx.pipes) for ctx in contexts]
    size = contexts[0].pipe_size
    streams = sum(
        len(front.streams) for ctx in contexts if ctx.room for front in ctx.room.fronts.values()
    )
    tasks = sum(len(ctx.tasklets) for ctx in contexts)
    lines = ["Dumping pools usage. Use SIGQUIT to flush them.\n"]
    pools = [("task", 0, tasks, tasks), ("stream", 0, streams, streams)]
    pools.append(("pipe", size, sum(pipes), 0))
    total = used_total = 0
    for name, each, allocated, used in pools:
        total += each * allocated
        used_total += each * used
        lines.append(
            f"  - Pool {name} ({each} bytes) : {allocated} allocated ({each * allocated} bytes), "
            f"{used} used (~{allocated - used} by thread caches), needed_avg {used}, 0 failures, "
            f"{len(contexts)} users\n"
        )
    lines.append(
        f"Total: {len(pools)} pools, {total} bytes allocated, {used_total} used "
        f"(~{total - used_total} by thread caches).\n"
    )
    return lines


# --- show tasks


def _show_tasks(cli: CliSession, _args: list[str]) -> Iterator[str]:
    """What stands in the run queues at this moment, by task."""
    places: Counter[str] = Counter()
    contexts = cli.runtime.pool.contexts
    for ctx in contexts:
        for queue in (ctx.urgent, ctx.normal, ctx.bulk):
            places.update(tasklet.name for tasklet in queue.copy())
    total = places.total()
    yield f"Running tasks: {total} ({len(contexts)} threads)\n"
    yield "  function                     places     %    lat_tot   lat_avg\n"
    for name, count in places.most_common():
        yield f"  {name:<29}{count:>6} {100 * count / total:5.1f}         -         -\n"


# --- show schema json


def _show_schema(_cli: CliSession, _args: list[str]) -> Answer:
    return json.dumps(SCHEMA, separators=(",", ":")) + "\n"


# --- wait

#: how often a condition is looked at, ms
_LOOK_AGAIN = 100


def _wait(cli: CliSession, args: list[str]) -> Iterator[str | Pause]:
    """HAProxy 3.0's `wait <delay> [srv-removable <backend>/<server>]`."""
    if not args:
        raise CliError("Expects a duration.")
    try:
        delay = parse_time(args[0], "s")
    except UnitError:
        delay = -1
    if delay < 0:
        raise CliError("Invalid duration.")
    server = None
    if len(args) > 1:
        if args[1] != "srv-removable":
            raise CliError(f"Unknown condition '{args[1]}'. Supported: srv-removable.")
        server = find_server(cli, args[2:])
    until = cli.ctx.now + delay
    while True:
        left = until - cli.ctx.now
        if server is not None and (obstacle := removal_obstacle(cli.runtime, server)) is None:
            yield "Done.\n"
            return
        if left <= 0:
            break
        rest = left if server is None else min(left, _LOOK_AGAIN)
        # a client that has sent all that it wants to say waits nevertheless
        pause = Pause(_timer(cli.ctx, rest), any_input=False)
        yield pause
        if pause.stopped:
            return
    if server is not None:
        raise CliError(f"Wait delay expired.\n{obstacle}")


def _timer(ctx: ThreadContext, delay: int) -> Callable[[Callable[[], None]], None]:
    """What a pause of `delay` ms begins with, on the thread of `ctx`."""

    def begin(wake: Callable[[], None]) -> None:
        task = Task(ctx, lambda _value: wake(), "wait")
        task.set_expire(ctx.now + delay)

    return begin


COMMANDS: tuple[Command, ...] = (
    Command(("show", "libs"), "show libs", "files that are loaded", Level.OPERATOR, _show_libs),
    Command(
        ("show", "pools"), "show pools", "what is kept for its next use", Level.USER, _show_pools
    ),
    Command(
        ("show", "tasks"), "show tasks", "what waits in the run queues", Level.USER, _show_tasks
    ),
    Command(
        ("show", "schema", "json"),
        "show schema json",
        "the schema of JSON answers",
        Level.USER,
        _show_schema,
    ),
    Command(
        ("wait",),
        "wait <delay> [srv-removable <bk>/<srv>]",
        "wait for some time, or for a server to be removable",
        Level.USER,
        _wait,
    ),
)
