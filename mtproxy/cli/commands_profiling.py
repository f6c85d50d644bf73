"""Runtime commands about profiling: `set profiling`, `show profiling`, `profile`. Exports COMMANDS.

Texts and layout of the first two are HAProxy 2.6's. A kind of profiling that comes later adds a
command `set profiling <its word>` to a table, and its line to STATUS.

One profiling session at a time runs in the process; `Runtime.sampler` is it. All runtime
connections are served by one thread, so no lock guards that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mtproxy.base.units import UnitError, parse_time
from mtproxy.cli.runtime import Answer, CliError, CliSession, Command, Level, Pause
from mtproxy.sched import profiled, sampler
from mtproxy.sync import profile as lock_profile

if TYPE_CHECKING:
    from mtproxy.sched.context import ThreadContext
    from mtproxy.stats.runtime import Runtime

# --- set profiling


def _set_profiling(cli: CliSession, _args: list[str]) -> Answer:
    """Reached when the next word is no kind of profiling."""
    kinds = sorted(
        command.words[2]
        for command in cli.commands.commands
        if command.words[:2] == ("set", "profiling") and len(command.words) == 3
    )
    names = [f"'{kind}'" for kind in kinds]
    raise CliError(f"Expects either {', '.join(names[:-1])} or {names[-1]}.")


def _set_profiling_tasks(cli: CliSession, args: list[str]) -> Answer:
    if not args or args[0] not in profiled.MODES:
        raise CliError("Expects 'on', 'auto', or 'off'.")
    profiled.set_mode(cli.runtime.pool, args[0])
    return ""


def _set_profiling_memory(_cli: CliSession, _args: list[str]) -> Answer:
    raise CliError("Memory profiling not compiled in: memory is allocated by Python.")


# --- show profiling


def _tasks_status(runtime: Runtime) -> str:
    pool = runtime.pool
    mode = pool.task_profiling
    if mode == "auto":
        on = any(map(profiled.active, pool.contexts))
        mode = "auto-on" if on else "auto-off"
    return _status_line("Per-task CPU profiling", mode, "set profiling tasks {on|auto|off}")


def _memory_status(_runtime: Runtime) -> str:
    return _status_line("Memory usage profiling", "off", "not supported by mtproxy")


def _locks_status(_runtime: Runtime) -> str:
    return lock_profile.status_line()


def _status_line(what: str, state: str, hint: str) -> str:
    return f"{what:<36}: {state:<14}# {hint}\n"


#: the lines of `show profiling status`
STATUS: tuple[Callable[[Runtime], str], ...] = (_tasks_status, _memory_status, _locks_status)


def _show_profiling(cli: CliSession, args: list[str]) -> Answer:
    what = "all"
    limit: int | None = None
    by_address = False
    for word in args:
        if word in ("all", "status", "tasks", "memory"):
            what = word
        elif word == "byaddr":
            by_address = True
        elif word.isascii() and word.isdigit() and len(word) < 10:
            limit = int(word) or None
        else:
            raise CliError(
                "Expects either 'all', 'status', 'tasks', 'memory', 'byaddr' or a max number of "
                "output lines."
            )
    text = ""
    if what in ("all", "status"):
        text += "".join(line(cli.runtime) for line in STATUS)
    if what in ("all", "tasks"):
        text += "".join(tasks_text(cli.runtime.pool.contexts, limit, by_address=by_address))
    return text


@dataclass(slots=True)
class _Total:
    """One function's figures, all threads together."""

    name: str
    address: int
    calls: int = 0
    cpu_ns: int = 0
    lat_ns: int = 0


def tasks_text(
    contexts: list[ThreadContext], limit: int | None = None, *, by_address: bool = False
) -> Iterator[str]:
    """The table of task functions, most called first, or ordered by the address of their code."""
    totals: dict[int, _Total] = {}
    for ctx in contexts:
        profile = ctx.task_profile
        if profile is None:
            continue
        for address, figures in list(profile.figures.items()):
            total = totals.setdefault(address, _Total(figures.name, address))
            total.calls += figures.calls
            total.cpu_ns += figures.cpu_ns
            total.lat_ns += figures.lat_ns
    rows = [total for total in totals.values() if total.calls]
    rows.sort(key=lambda row: row.address if by_address else -row.calls)
    yield "Tasks activity:\n"
    yield "  function                      calls   cpu_tot   cpu_avg   lat_tot   lat_avg\n"
    for row in rows[:limit]:
        times = (row.cpu_ns, row.cpu_ns // row.calls, row.lat_ns, row.lat_ns // row.calls)
        yield (
            f"  {row.name} {row.calls:>{max(34 - len(row.name), 1)}}"
            + "".join(f"   {short_time(ns)}" for ns in times)
            + "\n"
        )


_UNITS = (("ns", 1000), ("us", 1000), ("ms", 1000), ("s ", 60), ("m ", 60), ("h ", 24), ("d ", 0))


def short_time(ns: int) -> str:
    """Nanoseconds with four digits and a unit, 7 characters: `57.37us`; `   -   ` for none."""
    if ns <= 0:
        return "   -   "
    value = float(ns)
    unit = ""
    for unit, following in _UNITS:  # noqa: B007 - both are used below
        if not following or value < following - following / 20_000:
            break
        value /= following
    digits = 3 if value < 9.9995 else 2 if value < 99.995 else 1
    return f"{value:.{digits}f}{unit}"


# --- profile


def _of_proc(name: str) -> str:
    """A file of /proc; empty where another root directory has none."""
    try:
        return Path("/proc", name).read_text()
    except OSError:
        return ""


def _profile_status(cli: CliSession, _args: list[str]) -> Answer:
    """What `mtproxy profile` has to know to choose a sampler, `Name: value`."""
    running = cli.runtime.sampler
    why_not = sampler.why_not()
    gil = getattr(sys, "_is_gil_enabled", None)
    lines = {
        "Pid": os.getpid(),
        # so that a client can tell whether a process of that number on its side is this one
        "Start": "".join(_of_proc("self/stat").rpartition(")")[2].split()[19:20]),
        "Boot": _of_proc("sys/kernel/random/boot_id").strip(),
        "Python": sys.version.split()[0],
        "Free-threaded": int(sampler.free_threaded()),
        "GIL": int(gil is None or gil()),
        "Threads": len(cli.runtime.pool.contexts),
        "Root": Path(sys.modules["mtproxy"].__file__ or "").parents[1],
        "Sampler": "idle" if running is None else "running",
    }
    if why_not:
        lines["Sampler"] = f"unsafe: {why_not}"
    if running is not None:
        lines["Samples"] = running.samples
        lines["Dropped"] = running.dropped
    return [f"{name}: {value}\n" for name, value in lines.items()]


def _profile_stop(cli: CliSession, _args: list[str]) -> Answer:
    if cli.runtime.sampler is None:
        raise CliError("No profiling session is running.")
    cli.runtime.sampler.stop()
    return ""


def _profile_run(cli: CliSession, args: list[str]) -> Answer:
    """Stacks from now on; the client gets them while they are taken."""
    idle = args[2:] == ["idle"]
    if len(args) > 2 and not idle:
        raise CliError("Expected: profile run [<time> [<rate> [idle]]]")
    seconds, rate = _seconds(args), _rate(args)
    why_not = sampler.why_not()
    if why_not:
        raise CliError(f"This Python cannot be sampled while it runs: {why_not}.")
    if cli.runtime.sampler is not None:
        raise CliError("A profiling session is running already; 'profile stop' ends it.")
    return _samples(cli.runtime, seconds, rate, idle=idle)


def _seconds(args: list[str]) -> float:
    if not args:
        return sampler.DEFAULT_SECONDS
    try:
        seconds = (parse_time(args[0], "s") or 0) / 1000
    except UnitError as error:
        raise CliError(f"'profile run': {error}") from None
    if not 0 < seconds <= sampler.MAX_SECONDS:
        raise CliError(f"'profile run': a time up to {sampler.MAX_SECONDS} s is expected.")
    return seconds


def _rate(args: list[str]) -> int:
    if len(args) < 2:
        return sampler.DEFAULT_RATE
    text = args[1]
    rate = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
    if not 0 < rate <= sampler.MAX_RATE:
        raise CliError(f"'profile run': a rate from 1 to {sampler.MAX_RATE} Hz is expected.")
    return rate


def _samples(runtime: Runtime, seconds: float, rate: int, *, idle: bool) -> Iterator[str | Pause]:
    """What the session gives, until it has ended or the client has gone."""
    wake: Callable[[], None] | None = None

    def on_data() -> None:  # the sampler's thread
        if wake is not None:
            wake()

    def begin(now_waiting: Callable[[], None]) -> None:
        nonlocal wake
        wake = now_waiting
        # What comes before that is seen is noticed a little later, but the end only once.
        if one.ended:
            wake()

    one = sampler.Sampler(runtime.pool, on_data, seconds=seconds, rate=rate, idle=idle)
    runtime.sampler = one
    try:
        one.start()
        while True:
            ended = one.ended
            data = one.take()
            if data:
                yield data.decode("utf-8", "surrogateescape")
            elif ended:
                return
            else:
                pause = Pause(begin, any_input=False)
                yield pause
                if pause.stopped:
                    return
    finally:
        one.stop()
        runtime.sampler = None


COMMANDS: tuple[Command, ...] = (
    Command(
        ("set", "profiling"),
        "set profiling <what> {auto|on|off}",
        "measure tasks, or other things, or not",
        Level.ADMIN,
        _set_profiling,
    ),
    Command(
        ("set", "profiling", "tasks"),
        "set profiling tasks {auto|on|off}",
        "measure calls, CPU and latency of tasks",
        Level.ADMIN,
        _set_profiling_tasks,
    ),
    Command(
        ("set", "profiling", "memory"),
        "set profiling memory {on|off}",
        "HAProxy's; refused here",
        Level.ADMIN,
        _set_profiling_memory,
    ),
    Command(
        ("show", "profiling"),
        "show profiling [<what>|<#lines>|byaddr]*",
        "what is measured (all,status,tasks,memory)",
        Level.ADMIN,
        _show_profiling,
    ),
    Command(
        ("profile", "run"),
        "profile run [<time> [<rate> [idle]]]",
        "take stacks of all threads, for mtproxy profile",
        Level.ADMIN,
        _profile_run,
    ),
    Command(
        ("profile", "status"),
        "profile status",
        "the process and its sampler, for mtproxy profile",
        Level.ADMIN,
        _profile_status,
    ),
    Command(("profile", "stop"), "profile stop", "end the session", Level.ADMIN, _profile_stop),
)
